//! What is said of JSON pointers that are none, or that cannot find anything.

use informant_object::{Pointer, PointerError};

use super::source::Located;
use super::table::Table;

/// Reports a text that is no pointer, with the pointer that may have been meant.
pub(super) fn report(table: &Table<'_>, key: &str, text: &Located<String>, error: &PointerError) {
    let turned = match error {
        PointerError::NoSlash(_) => turned_round(&text.value),
        _ => None,
    };
    let (message, help) = match turned {
        Some(pointer) => (
            format!(
                "`{key}`: {:?} is no JSON pointer: it does not begin with \"/\"",
                text.value
            ),
            format!("write \"{pointer}\""),
        ),
        None => (
            format!("`{key}`: {error}"),
            "in a JSON pointer `*` stands for every element, `~1` for a slash in a key".to_owned(),
        ),
    };
    table.reporter().report(table.error(text.place, message).help(help));
}

/// Warns of a key of a label or annotation whose slash is read as the way to a level that labels and annotations do not
/// have.
pub(super) fn warn_of_divided_key(table: &Table<'_>, key: &str, text: &Located<String>) {
    let parts: Vec<&str> = text.value.split('/').collect();
    let Some(at) = parts.windows(2).position(|pair| is_map_of_strings(pair[0], pair[1])) else {
        return;
    };
    let (path, name) = parts.split_at(at + 2);
    if name.len() < 2 || name.contains(&"*") {
        return;
    }
    let message = format!(
        "`{key}`: \"{}\" finds nothing: {} have no level below their keys",
        text.value,
        parts[at + 1]
    );
    let help = format!(
        "a slash in a key is written `~1`: \"{}/{}\"",
        path.join("/"),
        name.join("~1")
    );
    table
        .reporter()
        .report(table.error(text.place, message).help(help).warning());
}

fn is_map_of_strings(parent: &str, field: &str) -> bool {
    parent == "metadata" && matches!(field, "labels" | "annotations")
}

/// A path as kubectl's JSONPath or a program writes it, as a pointer: `spec.containers[*].image` is
/// `/spec/containers/*/image`.
fn turned_round(text: &str) -> Option<String> {
    let path = text.trim_start_matches(['{', '$', '.']).trim_end_matches('}');
    // What is below labels and annotations is one key, dots and all.
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
    use crate::config::{Config, SourceFile};

    #[test]
    fn a_path_with_dots_is_turned_round() {
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
            assert_eq!(turned_round(text).as_deref(), Some(pointer), "{text}");
        }
        assert_eq!(turned_round("..."), None);
    }

    #[test]
    fn a_pointer_that_is_none_or_finds_nothing_is_said_with_the_right_one() {
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
        error: config.toml:3:17: `app`: "metadata.labels.app" is no JSON pointer: it does not begin with "/"
          help: write "/metadata/labels/app"
        "#);
        insta::assert_snapshot!(pods("index = { app = \"/metadata/labels/app.kubernetes.io/name\" }"), @r#"
        warning: config.toml:3:17: `app`: "/metadata/labels/app.kubernetes.io/name" finds nothing: labels have no level below their keys
          help: a slash in a key is written `~1`: "/metadata/labels/app.kubernetes.io~1name"
        "#);
        insta::assert_snapshot!(pods("drop = [\"/metadata/annotations/example.com/a\"]"), @r#"
        warning: config.toml:3:9: `drop`: "/metadata/annotations/example.com/a" finds nothing: annotations have no level below their keys
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
