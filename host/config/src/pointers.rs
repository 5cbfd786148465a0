//! Problems with JSON pointers that are malformed, or that cannot match anything.

use informant_object::{Pointer, PointerError};

use crate::source::Located;
use crate::table::Table;

/// Reports a malformed pointer, with the one that was probably meant.
pub(crate) fn report(table: &Table<'_>, key: &str, text: &Located<String>, error: &PointerError) {
    let pointer = match error {
        PointerError::NoSlash(_) => to_pointer(&text.value),
        _ => None,
    };
    let (message, help) = match pointer {
        Some(pointer) => (
            format!(
                "`{key}`: {:?} is not a JSON pointer: it does not begin with \"/\"",
                text.value
            ),
            format!("write \"{pointer}\""),
        ),
        None => (
            format!("`{key}`: {error}"),
            "in a JSON pointer `*` stands for every element, `~1` for a slash in a key".to_owned(),
        ),
    };
    table.refuse(text.position, message, help);
}

/// Warns about a label or annotation key with an unescaped slash, which divides the key into two levels that labels and
/// annotations do not have.
pub(crate) fn warn_about_divided_key(table: &Table<'_>, key: &str, text: &Located<String>) {
    let parts: Vec<&str> = text.value.split('/').collect();
    let is_map_of_strings = |pair: &[&str]| matches!(pair, ["metadata", "labels" | "annotations"]);
    let Some(at) = parts.windows(2).position(is_map_of_strings) else {
        return;
    };
    let (path, name) = parts.split_at(at + 2);
    if name.len() < 2 || name.contains(&"*") {
        return;
    }
    let message = format!(
        "`{key}`: \"{}\" matches nothing: {} have no level below their keys",
        text.value,
        parts[at + 1]
    );
    let help = format!(
        "a slash in a key is written `~1`: \"{}/{}\"",
        path.join("/"),
        name.join("~1")
    );
    table.warn(text.position, message, help);
}

/// Converts a path in dot notation or kubectl's JSONPath to a pointer: `spec.containers[*].image` is
/// `/spec/containers/*/image`.
fn to_pointer(text: &str) -> Option<String> {
    let path = text.trim_start_matches(['{', '$', '.']).trim_end_matches('}');
    // Everything below labels and annotations is one key, including dots.
    let (path, name) = ["labels", "annotations"]
        .iter()
        .find_map(|field| {
            let (before, name) = path.split_once(&format!("metadata.{field}."))?;
            Some((format!("{before}metadata.{field}"), Some(name)))
        })
        .unwrap_or((path.to_owned(), None));
    let path = path.replace('[', ".").replace(']', "");
    let mut pointer = String::new();
    for part in path.split(['.', '/']).filter(|part| !part.is_empty()) {
        pointer.push('/');
        pointer.push_str(part);
    }
    if let Some(name) = name {
        pointer.push('/');
        pointer.push_str(&name.replace('~', "~0").replace('/', "~1"));
    }
    Pointer::parse(&pointer).is_ok().then_some(pointer)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{Config, SourceFile};

    #[test]
    fn dotted_paths_become_pointers() {
        for (text, pointer) in [
            ("metadata.labels.app", "/metadata/labels/app"),
            (".spec.nodeName", "/spec/nodeName"),
            ("{.spec.nodeName}", "/spec/nodeName"),
            ("spec/nodeName", "/spec/nodeName"),
            ("$.spec.containers[*].image", "/spec/containers/*/image"),
            (
                "metadata.labels.app.kubernetes.io/name",
                "/metadata/labels/app.kubernetes.io~1name",
            ),
            (
                "spec.template.metadata.annotations.example.com/a",
                "/spec/template/metadata/annotations/example.com~1a",
            ),
        ] {
            assert_eq!(to_pointer(text).as_deref(), Some(pointer), "{text}");
        }
        assert_eq!(to_pointer("..."), None);
    }

    #[test]
    fn malformed_or_useless_pointers_come_with_a_correction() {
        let pods = |rest: &str| {
            let text = format!("[informer.pods]\nresource = \"v1/pods\"\n{rest}\n");
            match Config::parse(&SourceFile::new("config.toml", text)) {
                Ok(config) => config
                    .warnings
                    .iter()
                    .map(ToString::to_string)
                    .collect::<Vec<_>>()
                    .join("\n"),
                Err(problems) => problems.to_string(),
            }
        };
        insta::assert_snapshot!(pods("index = { app = \"metadata.labels.app\" }"), @r#"
        error: config.toml:3:17: `app`: "metadata.labels.app" is not a JSON pointer: it does not begin with "/"
          help: write "/metadata/labels/app"
        "#);
        insta::assert_snapshot!(pods("index = { app = \"/metadata/labels/app.kubernetes.io/name\" }"), @r#"
        warning: config.toml:3:17: `app`: "/metadata/labels/app.kubernetes.io/name" matches nothing: labels have no level below their keys
          help: a slash in a key is written `~1`: "/metadata/labels/app.kubernetes.io~1name"
        "#);
        insta::assert_snapshot!(pods("drop = [\"/metadata/annotations/example.com/a\"]"), @r#"
        warning: config.toml:3:9: `drop`: "/metadata/annotations/example.com/a" matches nothing: annotations have no level below their keys
          help: a slash in a key is written `~1`: "/metadata/annotations/example.com~1a"
        "#);
        for good in [
            "/metadata/labels/app.kubernetes.io~1name",
            "/metadata/labels/*",
            "/metadata/labels/app",
        ] {
            assert_eq!(pods(&format!("index = {{ app = \"{good}\" }}")), "", "{good}");
        }
    }
}
