//! Values as YAML on one line, as people write it.

use serde_json::Value;

use super::yaml::{Yaml, plain};

/// The longest line of an expectation in a file; a longer list is written one entry a line.
pub(super) const LINE_CHARS_MAX: usize = 120;

/// A value on one line.
pub(super) fn flow(value: &Value) -> String {
    match value {
        Value::String(text) => text_of(text),
        Value::Array(values) if values.is_empty() => "[]".to_owned(),
        Value::Array(values) => {
            let values: Vec<String> = values.iter().map(flow).collect();
            format!("[{}]", values.join(", "))
        }
        Value::Object(members) if members.is_empty() => "{}".to_owned(),
        Value::Object(members) => {
            let members = members
                .iter()
                .map(|(name, value)| format!("{}: {}", text_of(name), flow(value)));
            format!("{{ {} }}", members.collect::<Vec<_>>().join(", "))
        }
        other => other.to_string(),
    }
}

/// Whether readers of YAML 1.1, which test kits of other languages use, take a text for a truth value, a date or a
/// time.
fn is_other_in_yaml_1_1(text: &str) -> bool {
    let is_truth = ["y", "yes", "on", "n", "no", "off"]
        .iter()
        .any(|word| text.eq_ignore_ascii_case(word));
    let is_part = |c: char| c.is_ascii_digit() || "-:. TZ".contains(c);
    is_truth || (text.starts_with(|first: char| first.is_ascii_digit()) && text.chars().all(is_part))
}

/// Without quotes if it is still a text then.
pub(super) fn text_of(text: &str) -> String {
    let is_plain = |c: char| c.is_ascii_alphanumeric() || " _-./@+=:()".contains(c);
    let begins_plain = text.starts_with(|first: char| first.is_ascii_alphanumeric() || first == '/' || first == '_');
    let is_safe = begins_plain
        && text.chars().all(is_plain)
        && !text.ends_with([' ', ':'])
        && !text.contains(": ")
        && matches!(plain(text), Yaml::Text(_))
        && !is_other_in_yaml_1_1(text);
    match is_safe {
        true => text.to_owned(),
        false => Value::from(text).to_string(),
    }
}

#[cfg(test)]
mod tests {
    use informant_config::SourceFile;
    use serde_json::json;

    use super::*;
    use crate::cli::test::yaml::documents;

    #[test]
    fn values_read_as_they_were_written() {
        let value = json!({
            "call": "on-add", "object": "v1/pods shop/web-0", "number": 1.5, "none": null, "empty": [{}, []],
            "texts": ["", "1", "true", "null", "a: b", "a #b", "- a", "*a", "{a}", "a, b", "ä\n\"", "https://a.example/b?c=d", "x:"],
        });
        let text = flow(&value);
        let read = documents(&SourceFile::new("a.yaml", text.clone())).unwrap();
        assert_eq!(read[0].to_json(), value, "{text}");
        assert!(text.contains("object: v1/pods shop/web-0"), "{text}");
    }
}
