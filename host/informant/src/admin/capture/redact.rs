//! Takes credentials out of a capture, by rules. docs/reference/scenarios.md states them for users.

use std::collections::BTreeSet;

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use serde_json::{Map, Number, Value};

use crate::admin::secrets::{is_list_of_secrets, is_secret};
use crate::recorded::literal;

/// What is written in place of a text; 0 stands for a number.
const PLACEHOLDER: &str = "REDACTED";

/// A name that contains one of these, in small letters and digits alone, names a credential.
const CREDENTIALS: [&str; 14] = [
    "accesskey",
    "apikey",
    "authorization",
    "bearer",
    "cookie",
    "credential",
    "passphrase",
    "passwd",
    "password",
    "privatekey",
    "secret",
    "sessionid",
    "signature",
    "token",
];

/// Whole names of credentials.
const CREDENTIAL_NAMES: [&str; 6] = ["auth", "jwt", "pass", "psk", "pwd", "sig"];

/// A number whose name contains this counts something: `maxTokens`.
const COUNTS: &str = "tokens";

/// A name that ends so says where a credential is, what kind it has or how long it is valid: `secretName`, `tokenTtl`.
const PLACES: [&str; 9] = [
    "file",
    "name",
    "namespace",
    "path",
    "ref",
    "seconds",
    "ttl",
    "type",
    "url",
];

/// Headers of a request that have no credential. Any other one may have, whatever it is called: `X-Auth-Key`, `X-Key`.
const HARMLESS_HEADERS: [&str; 14] = [
    "accept",
    "accept-charset",
    "accept-encoding",
    "accept-language",
    "cache-control",
    "content-encoding",
    "content-language",
    "content-type",
    "host",
    "if-match",
    "if-modified-since",
    "if-none-match",
    "range",
    "user-agent",
];

/// What kubectl keeps of the document that was applied, which may have been a Secret's.
const LAST_APPLIED: &str = "kubectl.kubernetes.io/last-applied-configuration";

/// The shortest token behind `Bearer` or `Basic`: 8 characters. What is shorter is a word.
const TOKEN_CHARS_MIN: usize = 8;

/// The longest name of a credential in a text: 256 bytes.
const NAME_BYTES_MAX: usize = 256;

/// Redacts, and remembers what.
#[derive(Debug, Default)]
pub(super) struct Redactor {
    found: BTreeSet<String>,
}

/// What a value is for.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Use {
    /// It is given to the plugin: it keeps its shape, with placeholders.
    Data,
    /// What the plugin does is compared with it: redacted members are left out.
    Pattern,
}

/// Whether the value of a member, header, setting or key with this name is a credential.
fn is_credential(name: &str) -> bool {
    let plain = plain(name);
    let is_named = CREDENTIALS.iter().any(|word| plain.contains(word)) || CREDENTIAL_NAMES.contains(&&*plain);
    is_named && !is_place(name)
}

/// Whether a name says something about a credential.
fn is_place(name: &str) -> bool {
    let plain = plain(name);
    PLACES.iter().any(|place| plain.ends_with(place))
}

/// Small letters and digits of a name.
fn plain(name: &str) -> String {
    let plain: String = name.chars().filter(char::is_ascii_alphanumeric).collect();
    plain.to_ascii_lowercase()
}

impl Redactor {
    /// What was redacted, sorted.
    pub(super) fn found(self) -> Vec<String> {
        self.found.into_iter().collect()
    }

    /// Redacts a value and everything in it.
    pub(super) fn value(&mut self, value: &mut Value, of: Use) {
        match value {
            Value::String(text) => {
                if let Some(redacted) = self.document(text).or_else(|| self.text(text)) {
                    *text = redacted;
                }
            }
            Value::Array(values) => values.iter_mut().for_each(|value| self.value(value, of)),
            Value::Object(members) => {
                let text = |name: &str| members.get(name).and_then(Value::as_str).unwrap_or_default();
                let (version, kind) = (text("apiVersion"), text("kind"));
                match is_secret(version, kind) {
                    true => self.secret(members, of),
                    false if is_list_of_secrets(version, kind) => self.secrets(members, of),
                    false => self.members(members, of),
                }
            }
            Value::Null | Value::Bool(_) | Value::Number(_) => {}
        }
    }

    /// Leaves out the headers of a request that may be a credential, whatever they are called.
    pub(super) fn request_headers(&mut self, headers: &mut Map<String, Value>) {
        headers.retain(|name, value| {
            let text = value.as_str().unwrap_or_default();
            let is_harmless = HARMLESS_HEADERS.contains(&&**name) && cuts(text).is_empty();
            if !is_harmless {
                self.found.insert(name.clone());
            }
            is_harmless
        });
    }

    /// Redacts members, and everything in them.
    pub(super) fn members(&mut self, members: &mut Map<String, Value>, of: Use) {
        if members.remove(LAST_APPLIED).is_some() {
            self.found.insert(LAST_APPLIED.to_owned());
        }
        // `{ name: DB_PASSWORD, value: … }`, as the variables of a container.
        let named = members.get("name").and_then(Value::as_str);
        let named = named.filter(|name| is_credential(name)).map(str::to_owned);
        members.retain(|name, value| {
            let of_pair = named.as_ref().filter(|_| name == "value");
            let credential = of_pair.or(Some(name).filter(|name| is_credential(name)));
            let Some(credential) = credential else {
                self.value(value, of);
                return true;
            };
            self.credential(credential, value, of)
        });
    }

    /// Redacts the value of what has the name of a credential: texts and numbers, and all texts of an object.
    /// Returns whether something of it is left.
    fn credential(&mut self, name: &str, value: &mut Value, of: Use) -> bool {
        match value {
            Value::Object(members) => {
                members.retain(|member, value| match value {
                    Value::Number(_) => true,
                    _ if is_place(member) => {
                        self.value(value, of);
                        true
                    }
                    _ => self.credential(name, value, of),
                });
                true
            }
            // A list is compared as a whole.
            Value::Array(values) => {
                let mut is_left = true;
                for value in values {
                    is_left &= self.credential(name, value, of);
                }
                is_left
            }
            Value::String(text) if !text.is_empty() => {
                *text = PLACEHOLDER.to_owned();
                self.found.insert(name.to_owned());
                of == Use::Data
            }
            Value::Number(number) if *number != Number::from(0) && !plain(name).contains(COUNTS) => {
                *number = Number::from(0);
                self.found.insert(name.to_owned());
                of == Use::Data
            }
            Value::String(_) | Value::Number(_) | Value::Null | Value::Bool(_) => true,
        }
    }

    /// A list of Secrets.
    fn secrets(&mut self, list: &mut Map<String, Value>, of: Use) {
        let mut items = list.remove("items");
        for item in items.iter_mut().filter_map(Value::as_array_mut).flatten() {
            match item {
                Value::Object(members) => self.secret(members, of),
                other => self.value(other, of),
            }
        }
        self.members(list, of);
        list.extend(items.map(|items| ("items".to_owned(), items)));
    }

    /// A Secret in something else: one that the call has used is not captured. The values of `data` are in Base64.
    fn secret(&mut self, members: &mut Map<String, Value>, of: Use) {
        let secrets = [
            ("data", STANDARD.encode(PLACEHOLDER)),
            ("stringData", PLACEHOLDER.to_owned()),
        ];
        let secrets = secrets.map(|(name, placeholder)| (name, placeholder, members.remove(name)));
        self.members(members, of);
        for (name, placeholder, values) in secrets {
            let Some(values) = values else { continue };
            self.found.insert(format!("{name} of Secrets"));
            // What is no mapping has nothing that a Secret can have.
            if let (Use::Data, Value::Object(mut values)) = (of, values) {
                values
                    .values_mut()
                    .for_each(|value| *value = placeholder.clone().into());
                members.insert(name.to_owned(), values.into());
            }
        }
    }

    /// The value of the key `name` in `kv`.
    /// Returns whether something of it is left.
    pub(super) fn keyed(&mut self, name: &str, value: &mut Value, of: Use) -> bool {
        if !is_credential(name) {
            self.value(value, of);
            return true;
        }
        self.found.insert(name.to_owned());
        // Scripts read JSON, others a text.
        let is_json = !value.is_string() || value.as_str().is_some_and(|text| text.starts_with('"'));
        let placeholder = if is_json {
            format!("\"{PLACEHOLDER}\"")
        } else {
            PLACEHOLDER.to_owned()
        };
        *value = placeholder.into();
        of == Use::Data
    }

    /// A text that is a JSON document, with placeholders; none if it is not, or has no credential.
    fn document(&mut self, text: &str) -> Option<String> {
        if !text.trim_start().starts_with(['{', '[']) {
            return None;
        }
        let document: Value = serde_json::from_str(text).ok()?;
        let mut redacted = document.clone();
        // What the plugin copies has placeholders, too.
        self.value(&mut redacted, Use::Data);
        (redacted != document).then(|| redacted.to_string())
    }

    /// A text with placeholders; none if it has no credential.
    fn text(&mut self, text: &str) -> Option<String> {
        let cuts = cuts(text);
        self.found.extend(cuts.iter().map(|cut| cut.what.to_owned()));
        (!cuts.is_empty()).then(|| joined(text, &cuts, |cut| cut.placeholder, str::to_owned))
    }

    /// A pattern that matches the text, with `*` for credentials.
    pub(super) fn pattern(&mut self, text: &str) -> String {
        if self.document(text).is_some() {
            return "*".to_owned();
        }
        let cuts = cuts(text);
        self.found.extend(cuts.iter().map(|cut| cut.what.to_owned()));
        joined(text, &cuts, |_| "*", literal)
    }
}

/// Bytes of a text that are a credential.
#[derive(Debug, PartialEq, Eq)]
struct Cut {
    bytes: std::ops::Range<usize>,
    what: &'static str,
    placeholder: &'static str,
}

fn joined(text: &str, cuts: &[Cut], mark: impl Fn(&Cut) -> &'static str, kept: impl Fn(&str) -> String) -> String {
    let (mut out, mut at) = (String::new(), 0);
    for cut in cuts {
        out += &kept(&text[at..cut.bytes.start]);
        out += mark(cut);
        at = cut.bytes.end;
    }
    out + &kept(&text[at..])
}

/// The credentials in a text, in order: the user of a URL, `NAME=VALUE`, `"NAME": VALUE`, what follows `Bearer` or
/// `Basic`. Each place is looked at for no longer than a name may be.
fn cuts(text: &str) -> Vec<Cut> {
    let (mut cuts, mut at, mut before) = (Vec::new(), 0, None);
    while let Some(next) = text.get(at..).filter(|rest| !rest.is_empty()) {
        let is_name = before.is_none_or(|before: char| before.is_whitespace() || "?&;,({[".contains(before));
        let found = user_of_url(next).or_else(|| scheme(next)).or_else(|| quoted(next));
        match found.or_else(|| named(next).filter(|_| is_name)) {
            Some(found) => {
                let bytes = at + found.bytes.start..at + found.bytes.end;
                at = bytes.end;
                before = Some('=');
                cuts.push(Cut { bytes, ..found });
            }
            None => {
                before = next.chars().next();
                at += before.map_or(1, char::len_utf8);
            }
        }
    }
    cuts
}

/// `://USER:PASSWORD@HOST` at the beginning of a text.
fn user_of_url(text: &str) -> Option<Cut> {
    let rest = text.strip_prefix("://")?;
    let ends = |c: char| matches!(c, '/' | '?' | '#' | '"' | '\'' | '<' | '>') || c.is_whitespace();
    let authority = &rest[..rest.find(ends).unwrap_or(rest.len())];
    let user = authority.rfind('@').filter(|end| *end > 0)?;
    Some(Cut {
        bytes: 3..3 + user,
        what: "user of a URL",
        placeholder: PLACEHOLDER,
    })
}

/// `NAME=VALUE` at the beginning of a text.
fn named(text: &str) -> Option<Cut> {
    let (name, rest) = text.split_at(name_length(text)?);
    let value = rest.strip_prefix('=')?;
    if !is_credential(name) {
        return None;
    }
    let ends = |c: char| "&#;,\"'<>)}]".contains(c) || c.is_whitespace();
    let length = value.find(ends).unwrap_or(value.len());
    let start = name.len() + 1;
    (length > 0).then_some(Cut {
        bytes: start..start + length,
        what: "NAME=VALUE in a text",
        placeholder: PLACEHOLDER,
    })
}

/// `"NAME": VALUE` at the beginning of a text: JSON in a line, which may be cut off, or in a text in it.
fn quoted(text: &str) -> Option<Cut> {
    let mark = ["\"", "\\\""].into_iter().find(|mark| text.starts_with(mark))?;
    let inside = &text[mark.len()..];
    let (name, rest) = inside.split_at_checked(name_length(inside)?)?;
    let value = rest.strip_prefix(mark)?.trim_start().strip_prefix(':')?.trim_start();
    if !is_credential(name) {
        return None;
    }
    let (value, length, placeholder) = match value.strip_prefix(mark) {
        Some(value) if mark.len() > 1 => (value, value.find(mark).unwrap_or(value.len()), PLACEHOLDER),
        Some(value) => (value, text_length(value), PLACEHOLDER),
        None if plain(name).contains(COUNTS) => return None,
        None => (value, number_length(value), "0"),
    };
    let start = text.len() - value.len();
    (length > 0).then_some(Cut {
        bytes: start..start + length,
        what: "\"NAME\": VALUE in a text",
        placeholder,
    })
}

/// The bytes in front of the quotation mark that ends a text in JSON.
fn text_length(text: &str) -> usize {
    let is_end = |at: &usize| text.as_bytes()[*at] == b'"' && (*at == 0 || text.as_bytes()[at - 1] != b'\\');
    (0..text.len()).find(is_end).unwrap_or(text.len())
}

/// The bytes of the number at the beginning of a text.
fn number_length(text: &str) -> usize {
    if !text.starts_with(|c: char| c.is_ascii_digit() || c == '-') {
        return 0;
    }
    let is_of_number = |c: char| c.is_ascii_digit() || "+-.eE".contains(c);
    text.find(|c| !is_of_number(c)).unwrap_or(text.len())
}

/// The bytes of the name at the beginning of a text, if it is one, and followed by something.
fn name_length(text: &str) -> Option<usize> {
    let is_name = |byte: &u8| byte.is_ascii_alphanumeric() || b"_-.[]".contains(byte);
    let mut bytes = text.bytes().take(NAME_BYTES_MAX + 1);
    bytes.position(|byte| !is_name(&byte)).filter(|length| *length > 0)
}

/// `Bearer TOKEN` or `Basic TOKEN` at the beginning of a text.
fn scheme(text: &str) -> Option<Cut> {
    let named = ["bearer ", "basic "].into_iter().find(|name| {
        let start = text.get(..name.len());
        start.is_some_and(|start| start.eq_ignore_ascii_case(name))
    })?;
    let rest = &text[named.len()..];
    let is_token = |c: char| c.is_ascii_alphanumeric() || "-._~+/=".contains(c);
    let length = rest.find(|c| !is_token(c)).unwrap_or(rest.len());
    (length >= TOKEN_CHARS_MIN).then_some(Cut {
        bytes: named.len()..named.len() + length,
        what: "token behind Bearer or Basic",
        placeholder: PLACEHOLDER,
    })
}

#[cfg(test)]
mod tests;
