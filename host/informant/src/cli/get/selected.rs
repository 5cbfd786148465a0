//! `--field-selector` and `--sort-by`, on the objects of an answer.

use std::borrow::Cow;
use std::cmp::Ordering;

use anyhow::{Result, bail};
use informant_apiserver::json_path::JsonPath;
use informant_object::FieldSelector;
use serde_json::Value;

use super::line::Line;
use crate::admin::AbsentFields;

pub(super) fn field_selector(text: &str) -> Result<FieldSelector, String> {
    FieldSelector::parse(text).map_err(|error| error.to_string())
}

/// Refuses a field that the informer does not keep: it would select nothing, or everything.
pub(super) fn check(selector: &FieldSelector, absent: &AbsentFields) -> Result<()> {
    match selector.fields().find(|field| absent.affects(&pointer(field))) {
        None => Ok(()),
        Some(field) => bail!(
            "--field-selector: the informer does not keep {field} (`drop`, `digest` or `metadata-only` in its section)"
        ),
    }
}

/// Whether the object of `line` has the selected fields. Any field can be selected; an absent one is empty.
pub(super) fn matches(selector: &FieldSelector, line: &Line<'_>) -> Result<bool> {
    if selector.is_everything() {
        return Ok(true);
    }
    let object = line.object()?;
    Ok(selector.matches_with(|field| {
        object.pointer(&pointer(field)).map(|value| match value {
            Value::String(text) => Cow::Borrowed(text.as_str()),
            other => Cow::Owned(other.to_string()),
        })
    }))
}

fn pointer(field: &str) -> String {
    format!("/{}", field.replace('~', "~0").replace('/', "~1").replace('.', "/"))
}

/// What objects are sorted by.
#[derive(Debug, Clone)]
pub(super) struct SortBy(JsonPath);

impl SortBy {
    /// Reads `.metadata.name`, also without the dot or in braces.
    pub(super) fn parse(text: &str) -> Result<Self, String> {
        let inner = text.strip_prefix('{').and_then(|text| text.strip_suffix('}'));
        let path = inner.unwrap_or(text);
        let path = match path.starts_with(['.', '$', '[']) {
            true => JsonPath::parse(path),
            false => JsonPath::parse(&format!(".{path}")),
        };
        path.map(Self)
    }

    pub(super) fn key(&self, line: &Line<'_>) -> Result<SortKey> {
        let object = line.object()?;
        Ok(match self.0.find(&object).first() {
            None | Some(Value::Null) => SortKey::Absent,
            Some(Value::Number(number)) => SortKey::Number(number.as_f64().unwrap_or(f64::MAX)),
            Some(Value::String(text)) => SortKey::Text(text.clone()),
            Some(other) => SortKey::Text(other.to_string()),
        })
    }
}

/// Absent ones come first, as in kubectl.
#[derive(Debug, Clone, PartialEq)]
pub(super) enum SortKey {
    Absent,
    Number(f64),
    Text(String),
}

impl SortKey {
    pub(super) fn compare(&self, other: &Self) -> Ordering {
        match (self, other) {
            (Self::Absent, Self::Absent) => Ordering::Equal,
            (Self::Number(one), Self::Number(other)) => one.total_cmp(other),
            (Self::Text(one), Self::Text(other)) => natural(one, other),
            (one, other) => one.rank().cmp(&other.rank()),
        }
    }

    fn rank(&self) -> u8 {
        match self {
            Self::Absent => 0,
            Self::Number(_) => 1,
            Self::Text(_) => 2,
        }
    }
}

/// Compares runs of digits as numbers: `pod-9` comes before `pod-10`. Source: kubectl `get/sorter.go`.
fn natural(one: &str, other: &str) -> Ordering {
    let (mut one, mut other) = (one, other);
    loop {
        let ((a, a_left), (b, b_left)) = (run(one), run(other));
        let is_number = |text: &str| text.starts_with(|char: char| char.is_ascii_digit());
        let order = match is_number(a) && is_number(b) {
            true => {
                let (a, b) = (a.trim_start_matches('0'), b.trim_start_matches('0'));
                a.len().cmp(&b.len()).then_with(|| a.cmp(b))
            }
            false => a.cmp(b),
        };
        if order != Ordering::Equal || (a_left.is_empty() && b_left.is_empty()) {
            return order;
        }
        (one, other) = (a_left, b_left);
    }
}

/// The digits, or the other characters, that begin `text`, and the rest.
fn run(text: &str) -> (&str, &str) {
    let is_digit = text.starts_with(|char: char| char.is_ascii_digit());
    let end = text.find(|char: char| char.is_ascii_digit() != is_digit);
    text.split_at(end.unwrap_or(text.len()))
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn line(object: &Value) -> String {
        json!({ "cluster": "", "source": 1, "object": object }).to_string()
    }

    #[test]
    fn fields_are_selected_by_their_path() {
        let text = line(&json!({ "metadata": { "name": "a" }, "status": { "phase": "Running" }, "n": 3 }));
        let line = Line::parse(text.as_bytes()).unwrap();
        let is = |text: &str| matches(&field_selector(text).unwrap(), &line).unwrap();
        assert!(is("status.phase=Running") && is("status.phase==Running,metadata.name!=b") && is("n=3") && is(""));
        assert!(is("spec.nodeName=") && !is("status.phase!=Running") && !is("metadata.name=b"));
        let absent = AbsentFields {
            metadata_only: true,
            ..AbsentFields::default()
        };
        assert!(check(&field_selector("metadata.name=a").unwrap(), &absent).is_ok());
        insta::assert_snapshot!(check(&field_selector("status.phase=a").unwrap(), &absent).unwrap_err(), @"--field-selector: the informer does not keep status.phase (`drop`, `digest` or `metadata-only` in its section)");
    }

    #[test]
    fn objects_are_sorted_by_numbers_and_texts() {
        let sorted = |path: &str, objects: &[Value]| {
            let by = SortBy::parse(path).unwrap();
            let mut keys: Vec<_> = objects
                .iter()
                .map(|object| {
                    let text = line(object);
                    let key = by.key(&Line::parse(text.as_bytes()).unwrap()).unwrap();
                    (key, object["name"].as_str().unwrap())
                })
                .collect();
            keys.sort_by(|one, other| one.0.compare(&other.0));
            keys.iter().map(|(_, name)| *name).collect::<Vec<_>>().join(" ")
        };
        let objects = [
            json!({ "name": "pod-10", "n": 2 }),
            json!({ "name": "pod-9", "n": 10 }),
            json!({ "name": "pod-09a" }),
        ];
        assert_eq!(sorted(".name", &objects), "pod-9 pod-09a pod-10");
        assert_eq!(sorted("{.n}", &objects), "pod-09a pod-10 pod-9");
        assert_eq!(sorted("n", &objects), "pod-09a pod-10 pod-9");
        assert!(SortBy::parse(".a[").is_err());
    }
}
