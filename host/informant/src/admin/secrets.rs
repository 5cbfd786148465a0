//! What a Secret is, and Secrets without their data: what it is called, and how long it is.

use std::collections::BTreeMap;

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use informant_cache::SourceInfo;
use serde_json::value::{RawValue, to_raw_value};

/// Whether objects with this `apiVersion` and `kind` are Secrets.
pub(super) fn is_secret(api_version: &str, kind: &str) -> bool {
    (api_version, kind) == ("v1", "Secret")
}

/// Whether it is a list of Secrets, whose items do not say what they are.
pub(super) fn is_list_of_secrets(api_version: &str, kind: &str) -> bool {
    (api_version, kind) == ("v1", "SecretList")
}

/// Whether the objects of a source are Secrets.
pub(super) fn are_secrets(source: &SourceInfo) -> bool {
    is_secret(&source.api_version, &source.kind)
}

/// Whether a resource is that of Secrets.
pub(super) fn is_of_secrets(resource: &str) -> bool {
    resource == "v1/secrets"
}

/// The members of a JSON object, as text: of any depth.
type Members = BTreeMap<String, Box<RawValue>>;

/// A Secret whose data is replaced by sizes: `{"password": "<16 bytes>"}`. So are its annotations, in which `kubectl
/// apply` and other tools keep whole objects. One that cannot be read is `null`.
pub(super) fn without_data(secret: &[u8]) -> Vec<u8> {
    redacted_members(secret).unwrap_or_else(|_| b"null".to_vec())
}

fn redacted_members(secret: &[u8]) -> serde_json::Result<Vec<u8>> {
    let mut secret: Members = serde_json::from_slice(secret)?;
    let size_of_base64 = |text: &str| STANDARD.decode(text).map_or(text.len(), |data| data.len());
    redact(&mut secret, "data", size_of_base64)?;
    redact(&mut secret, "stringData", str::len)?;
    if let Some(metadata) = secret.get_mut("metadata") {
        let mut members: Members = serde_json::from_str(metadata.get())?;
        redact(&mut members, "annotations", str::len)?;
        *metadata = to_raw_value(&members)?;
    }
    serde_json::to_vec(&secret)
}

/// Replaces the values of the member `name` by their sizes. What is no object of texts is not shown.
fn redact(members: &mut Members, name: &str, size: impl Fn(&str) -> usize) -> serde_json::Result<()> {
    let Some(data) = members.get_mut(name).filter(|data| data.get() != "null") else {
        return Ok(());
    };
    let entries: Members = serde_json::from_str(data.get()).unwrap_or_default();
    let sized = entries.into_iter().map(|(name, value)| {
        let bytes = serde_json::from_str::<String>(value.get()).map_or(0, |text| size(&text));
        (name, format!("<{bytes} bytes>"))
    });
    *data = to_raw_value(&sized.collect::<BTreeMap<_, _>>())?;
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn redacted(secret: &str) -> String {
        String::from_utf8(without_data(secret.as_bytes())).unwrap()
    }

    #[test]
    fn data_of_secrets_is_replaced_by_sizes() {
        insta::assert_snapshot!(redacted(r#"{"apiVersion":"v1","kind":"Secret","metadata":{"name":"db","annotations":{
            "team":"a","kubectl.kubernetes.io/last-applied-configuration":"{\"data\":{\"password\":\"aHVudGVyMg==\"}}"}},
            "type":"Opaque","data":{"password":"aHVudGVyMg==","empty":"","odd":"not base64"},"stringData":{"user":"admin"}}"#), @r#"{"apiVersion":"v1","data":{"empty":"<0 bytes>","odd":"<10 bytes>","password":"<7 bytes>"},"kind":"Secret","metadata":{"annotations":{"kubectl.kubernetes.io/last-applied-configuration":"<36 bytes>","team":"<1 bytes>"},"name":"db"},"stringData":{"user":"<5 bytes>"},"type":"Opaque"}"#);
    }

    #[test]
    fn secret_without_data_stays_as_it_is() {
        let secret = r#"{"apiVersion":"v1","kind":"Secret","metadata":{"name":"db"}}"#;
        assert_eq!(redacted(secret), secret);
    }

    #[test]
    fn a_secret_nested_deep_is_shown_without_its_data() {
        let deep = "[".repeat(5_000) + &"]".repeat(5_000);
        let secret = format!(r#"{{"data":{{"a":{deep}}},"metadata":{{"name":"db"}},"more":{deep}}}"#);
        assert_eq!(redacted(&secret), secret.replacen(&deep, r#""<0 bytes>""#, 1));
    }

    #[test]
    fn malformed_data_is_not_shown() {
        let shown = redacted(r#"{"kind":"Secret","data":["hunter2"],"stringData":{"a":{"b":"hunter2"}}}"#);
        assert!(!shown.contains("hunter2"), "{shown}");
        assert_eq!(redacted("hunter2 {"), "null");
    }
}
