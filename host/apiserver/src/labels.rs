//! Validation of labels.
//!
//! Source: apimachinery `ValidateLabels` (pkg/apis/meta/v1/validation), whose messages these are.

use serde_json::{Map, Value, json};

use crate::admit::{NAME_RULE, is_dns_subdomain};
use crate::status::{FieldError, Issue};

/// Longest name part of a label key, and longest value, in bytes (apimachinery `LabelValueMaxLength`).
const NAME_BYTES_MAX: usize = 63;

/// Longest prefix of a label key, in bytes (apimachinery `DNS1123SubdomainMaxLength`).
const PREFIX_BYTES_MAX: usize = 253;

const FIELD: &str = "metadata.labels";

const CHARACTERS: &str =
    "alphanumeric characters, '-', '_' or '.', and must start and end with an alphanumeric character";

const KEY_EXAMPLES: &str = "(e.g. 'MyName',  or 'my.name',  or '123-abc', regex used for validation is \
     '([A-Za-z0-9][-A-Za-z0-9_.]*)?[A-Za-z0-9]')";

const VALUE_EXAMPLES: &str = "(e.g. 'MyValue',  or 'my_value',  or '12345', regex used for validation is \
     '(([A-Za-z0-9][-A-Za-z0-9_.]*)?[A-Za-z0-9])?')";

/// The errors in the labels of `metadata`.
pub(crate) fn issues(metadata: &Map<String, Value>) -> Vec<Issue> {
    let Some(Value::Object(labels)) = metadata.get("labels") else {
        return Vec::new();
    };
    let mut issues = Vec::new();
    let mut wrong = |bad: &str, problem: String| {
        issues.push(Issue::new(
            FIELD,
            FieldError::Invalid,
            format!("{}: {problem}", json!(bad)),
        ));
    };
    for (key, value) in labels {
        for problem in key_problems(key) {
            wrong(key, problem);
        }
        let value = value.as_str().unwrap_or_default();
        for problem in value_problems(value) {
            wrong(value, problem);
        }
    }
    issues
}

fn value_problems(value: &str) -> Vec<String> {
    let mut problems = Vec::new();
    problems.extend(too_long(value, NAME_BYTES_MAX));
    if !value.is_empty() && !is_name(value) {
        problems.push(format!(
            "a valid label must be an empty string or consist of {CHARACTERS} {VALUE_EXAMPLES}"
        ));
    }
    problems
}

fn key_problems(key: &str) -> Vec<String> {
    let (prefix, name) = match key.split_once('/') {
        Some((_, name)) if name.contains('/') => {
            return vec![format!(
                "a qualified name must consist of {CHARACTERS} {KEY_EXAMPLES} with an optional DNS subdomain prefix and '/' \
                 (e.g. 'example.com/MyName')"
            )];
        }
        Some((prefix, name)) => (Some(prefix), name),
        None => (None, key),
    };
    let mut problems = Vec::new();
    match prefix {
        Some("") => problems.push("prefix part must be non-empty".to_owned()),
        Some(prefix) => {
            problems.extend(too_long(prefix, PREFIX_BYTES_MAX).map(|problem| format!("prefix part {problem}")));
            if !is_dns_subdomain(prefix) {
                problems.push(format!("prefix part {NAME_RULE}"));
            }
        }
        None => {}
    }
    if name.is_empty() {
        problems.push("name part must be non-empty".to_owned());
    }
    problems.extend(too_long(name, NAME_BYTES_MAX).map(|problem| format!("name part {problem}")));
    if !is_name(name) {
        problems.push(format!("name part must consist of {CHARACTERS} {KEY_EXAMPLES}"));
    }
    problems
}

fn too_long(text: &str, bytes_max: usize) -> Option<String> {
    (text.len() > bytes_max).then(|| format!("must be no more than {bytes_max} bytes"))
}

fn is_name(text: &str) -> bool {
    let outer = [text.bytes().next(), text.bytes().last()];
    let inner = |byte: u8| byte.is_ascii_alphanumeric() || b"-_.".contains(&byte);
    outer
        .iter()
        .all(|byte| byte.is_some_and(|byte| byte.is_ascii_alphanumeric()))
        && text.bytes().all(inner)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn labels_that_kubernetes_accepts_are_accepted() {
        let long = "a".repeat(63);
        let labels = json!({ "labels": {
            "app": "web", "empty": "", "1": "1", "example.com/Tier_1.a-b": "A_b.c-d", (long.clone()): long,
        } });
        assert!(issues(labels.as_object().unwrap()).is_empty());
    }

    #[test]
    fn invalid_labels_get_kubernetes_messages() {
        let said = |key: &str, value: &str| {
            let mut problems = key_problems(key);
            problems.extend(value_problems(value));
            problems.join("\n")
        };
        insta::assert_snapshot!(said("app", "x y"), @"a valid label must be an empty string or consist of alphanumeric characters, '-', '_' or '.', and must start and end with an alphanumeric character (e.g. 'MyValue',  or 'my_value',  or '12345', regex used for validation is '(([A-Za-z0-9][-A-Za-z0-9_.]*)?[A-Za-z0-9])?')");
        insta::assert_snapshot!(said("app", "größe"), @"a valid label must be an empty string or consist of alphanumeric characters, '-', '_' or '.', and must start and end with an alphanumeric character (e.g. 'MyValue',  or 'my_value',  or '12345', regex used for validation is '(([A-Za-z0-9][-A-Za-z0-9_.]*)?[A-Za-z0-9])?')");
        insta::assert_snapshot!(said("app", &"a".repeat(64)), @"must be no more than 63 bytes");
        insta::assert_snapshot!(said("-app", ""), @"name part must consist of alphanumeric characters, '-', '_' or '.', and must start and end with an alphanumeric character (e.g. 'MyName',  or 'my.name',  or '123-abc', regex used for validation is '([A-Za-z0-9][-A-Za-z0-9_.]*)?[A-Za-z0-9]')");
        insta::assert_snapshot!(said("a/b/c", ""), @"a qualified name must consist of alphanumeric characters, '-', '_' or '.', and must start and end with an alphanumeric character (e.g. 'MyName',  or 'my.name',  or '123-abc', regex used for validation is '([A-Za-z0-9][-A-Za-z0-9_.]*)?[A-Za-z0-9]') with an optional DNS subdomain prefix and '/' (e.g. 'example.com/MyName')");
        insta::assert_snapshot!(said("/app", ""), @"prefix part must be non-empty");
        insta::assert_snapshot!(said("example.com/", ""), @"
        name part must be non-empty
        name part must consist of alphanumeric characters, '-', '_' or '.', and must start and end with an alphanumeric character (e.g. 'MyName',  or 'my.name',  or '123-abc', regex used for validation is '([A-Za-z0-9][-A-Za-z0-9_.]*)?[A-Za-z0-9]')
        ");
        insta::assert_snapshot!(said("Example.com/app", ""), @r"prefix part a lowercase RFC 1123 subdomain must consist of lower case alphanumeric characters, '-' or '.', and must start and end with an alphanumeric character (e.g. 'example.com', regex used for validation is '[a-z0-9]([-a-z0-9]*[a-z0-9])?(\.[a-z0-9]([-a-z0-9]*[a-z0-9])?)*')");
    }
}
