//! The attributes of serde that decide which members of a document a type reads.
//!
//! An attribute that is not listed here is an error: with it, the document may have another shape than the type.

use syn::meta::ParseNestedMeta;
use syn::{Attribute, Expr, LitStr, Result, Token};

/// How `rename_all` writes the names of fields.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(crate) enum Rename {
    AsWritten,
    Upper,
    Pascal,
    Camel,
    Kebab,
    UpperKebab,
}

impl Rename {
    fn parse(name: &LitStr) -> Result<Self> {
        Ok(match name.value().as_str() {
            "lowercase" | "snake_case" => Self::AsWritten,
            "UPPERCASE" | "SCREAMING_SNAKE_CASE" => Self::Upper,
            "PascalCase" => Self::Pascal,
            "camelCase" => Self::Camel,
            "kebab-case" => Self::Kebab,
            "SCREAMING-KEBAB-CASE" => Self::UpperKebab,
            _ => return Err(syn::Error::new_spanned(name, "serde does not know this case")),
        })
    }

    /// The name of a field's member. Fields are in snake case, as serde assumes.
    pub(crate) fn apply(self, field: &str) -> String {
        match self {
            Self::AsWritten => field.to_owned(),
            Self::Upper => field.to_ascii_uppercase(),
            Self::Pascal => pascal(field),
            Self::Camel => {
                let pascal = pascal(field);
                let mut letters = pascal.chars();
                letters
                    .next()
                    .map(|first| first.to_ascii_lowercase())
                    .into_iter()
                    .chain(letters)
                    .collect()
            }
            Self::Kebab => field.replace('_', "-"),
            Self::UpperKebab => field.to_ascii_uppercase().replace('_', "-"),
        }
    }
}

fn pascal(field: &str) -> String {
    let mut starts = true;
    let letters = field.chars().filter_map(|letter| {
        let is_separator = letter == '_';
        let letter = if starts { letter.to_ascii_uppercase() } else { letter };
        starts = is_separator;
        (!is_separator).then_some(letter)
    });
    letters.collect()
}

/// What serde does with a field.
#[derive(Default)]
pub(crate) struct FieldAttributes {
    pub(crate) rename: Option<String>,
    pub(crate) is_skipped: bool,
    /// A function of the plugin reads it.
    pub(crate) is_opaque: bool,
}

/// The attributes of a struct, whose fields have names or not.
pub(crate) fn container(attributes: &[Attribute], has_names: bool) -> Result<Rename> {
    let mut rename = Rename::AsWritten;
    each(attributes, |meta| {
        let path = &meta.path;
        if path.is_ident("rename_all") {
            if let Some(name) = deserialized_name(&meta)? {
                rename = Rename::parse(&name)?;
            }
            return Ok(());
        }
        let harmless = ["default", "rename", "bound", "crate", "expecting"];
        // Without names, the field is read as the whole document anyway.
        let is_harmless = harmless.iter().any(|name| path.is_ident(name)) || !has_names && path.is_ident("transparent");
        if is_harmless {
            return skip_value(&meta);
        }
        Err(refused(&meta, "derive it for a type without it"))
    })?;
    Ok(rename)
}

/// The attributes of a field.
pub(crate) fn field(attributes: &[Attribute]) -> Result<FieldAttributes> {
    let mut found = FieldAttributes::default();
    each(attributes, |meta| {
        let path = &meta.path;
        if path.is_ident("rename") {
            if let Some(name) = deserialized_name(&meta)? {
                found.rename = Some(name.value());
            }
            return Ok(());
        }
        if path.is_ident("skip") || path.is_ident("skip_deserializing") {
            found.is_skipped = true;
            return Ok(());
        }
        let opaque = path.is_ident("with") || path.is_ident("deserialize_with");
        found.is_opaque |= opaque;
        let harmless = [
            "default",
            "bound",
            "skip_serializing",
            "skip_serializing_if",
            "serialize_with",
        ];
        if opaque || harmless.iter().any(|name| path.is_ident(name)) {
            return skip_value(&meta);
        }
        Err(refused(&meta, "read the member through a field of its own"))
    })?;
    Ok(found)
}

fn each(attributes: &[Attribute], mut visit: impl FnMut(ParseNestedMeta<'_>) -> Result<()>) -> Result<()> {
    let of_serde = attributes.iter().filter(|attribute| attribute.path().is_ident("serde"));
    of_serde
        .into_iter()
        .try_for_each(|attribute| attribute.parse_nested_meta(&mut visit))
}

/// `= "name"` or `(serialize = "one", deserialize = "other")`.
fn deserialized_name(meta: &ParseNestedMeta<'_>) -> Result<Option<LitStr>> {
    if meta.input.peek(Token![=]) {
        return Ok(Some(meta.value()?.parse()?));
    }
    let mut name = None;
    meta.parse_nested_meta(|inner| {
        let value = inner.value()?.parse()?;
        if inner.path.is_ident("deserialize") {
            name = Some(value);
        }
        Ok(())
    })?;
    Ok(name)
}

/// `= value`, `(name = value, …)` or nothing.
fn skip_value(meta: &ParseNestedMeta<'_>) -> Result<()> {
    if meta.input.peek(Token![=]) {
        meta.value()?.parse::<Expr>()?;
    } else if meta.input.peek(syn::token::Paren) {
        meta.parse_nested_meta(|inner| inner.value()?.parse::<Expr>().map(drop))?;
    }
    Ok(())
}

fn refused(meta: &ParseNestedMeta<'_>, instead: &str) -> syn::Error {
    let name = meta.path.get_ident().map(ToString::to_string).unwrap_or_default();
    meta.error(format!(
        "Projection cannot tell which fields a type with `serde({name})` reads: {instead}, or list the pointers by hand"
    ))
}

#[cfg(test)]
mod tests {
    use super::Rename;

    #[test]
    fn names_are_written_as_serde_writes_them() {
        let written = [
            (Rename::AsWritten, "host_ip2"),
            (Rename::Upper, "HOST_IP2"),
            (Rename::Pascal, "HostIp2"),
            (Rename::Camel, "hostIp2"),
            (Rename::Kebab, "host-ip2"),
            (Rename::UpperKebab, "HOST-IP2"),
        ];
        for (rule, expected) in written {
            assert_eq!(rule.apply("host_ip2"), expected);
        }
    }
}
