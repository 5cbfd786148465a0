//! An object at one revision: serialised once, shared by every list and watch that shows it.

use std::ops::Range;
use std::sync::Arc;

use bytes::Bytes;
use serde_json::{Map, Value};

use crate::kinds::Kind;

/// The order in which Go's `ObjectMeta` serialises its fields. Others follow in alphabetical order.
const METADATA_ORDER: &[&str] = &[
    "name",
    "generateName",
    "namespace",
    "selfLink",
    "uid",
    "resourceVersion",
    "generation",
    "creationTimestamp",
    "deletionTimestamp",
    "deletionGracePeriodSeconds",
    "labels",
    "annotations",
    "ownerReferences",
    "finalizers",
    "managedFields",
];

/// One state of one object, with what selectors and tables ask of it at hand.
#[derive(Debug, Clone)]
pub(crate) struct Stored {
    /// `{"kind":…,"apiVersion":…,"metadata":{…},…}`
    json: Bytes,
    /// Where `"metadata":` begins: list items of built-in kinds leave out what is before it.
    body_begin: usize,
    /// The value of `metadata`.
    metadata: Range<usize>,
    /// The digits of `metadata.resourceVersion`.
    version: Range<usize>,
    pub(crate) revision: u64,
    pub(crate) namespace: Box<str>,
    pub(crate) name: Box<str>,
    pub(crate) uid: Box<str>,
    /// RFC 3339, as stored.
    pub(crate) created: Box<str>,
    /// Sorted by key.
    labels: Box<[(Box<str>, Box<str>)]>,
    /// The values of [`Kind::fields`], in that order; absent ones are empty.
    fields: Box<[Box<str>]>,
}

impl Stored {
    /// Serialises `object` as `kind` at `revision`. `object` is expected to have been admitted (names, labels and metadata are of
    /// the right types); apiVersion, kind and resourceVersion are written here and nowhere else.
    pub(crate) fn new(kind: &Kind, object: &Value, revision: u64) -> Self {
        let empty = Map::new();
        let metadata = object["metadata"].as_object().unwrap_or(&empty);
        let mut writer = Writer::default();
        writer.field("kind", &Value::String(kind.kind.clone()));
        writer.field("apiVersion", &Value::String(kind.api_version()));
        writer.key("metadata");
        let body_begin = writer.out.len() - "\"metadata\":".len();
        let (metadata_span, version) = writer.metadata(metadata, revision);
        for (key, value) in object.as_object().unwrap_or(&empty) {
            if !matches!(key.as_str(), "kind" | "apiVersion" | "metadata") {
                writer.field(key, value);
            }
        }
        writer.out.push(b'}');
        Self {
            json: Bytes::from(writer.out),
            body_begin,
            metadata: metadata_span,
            version,
            revision,
            namespace: text(metadata_value(metadata, "namespace")),
            name: text(metadata_value(metadata, "name")),
            uid: text(metadata_value(metadata, "uid")),
            created: text(metadata_value(metadata, "creationTimestamp")),
            labels: labels(metadata),
            fields: kind.fields.iter().map(|path| field(object, path)).collect(),
        }
    }

    /// The object with kind and apiVersion.
    pub(crate) fn json(&self) -> &Bytes {
        &self.json
    }

    /// The object without kind and apiVersion but for its opening brace, which the caller writes.
    pub(crate) fn json_after_type_meta(&self) -> &[u8] {
        &self.json[self.body_begin..]
    }

    /// The value of `metadata`.
    pub(crate) fn metadata_json(&self) -> &[u8] {
        &self.json[self.metadata.clone()]
    }

    /// The object as a tree.
    pub(crate) fn value(&self) -> Value {
        serde_json::from_slice(&self.json).expect("the bytes were written from a tree of values")
    }

    /// The same state under another version: how deletes show the last state.
    pub(crate) fn restamped(&self, revision: u64) -> Self {
        let digits = revision.to_string();
        let mut json = Vec::with_capacity(self.json.len() + digits.len());
        json.extend_from_slice(&self.json[..self.version.start]);
        json.extend_from_slice(digits.as_bytes());
        json.extend_from_slice(&self.json[self.version.end..]);
        let longer_by = |end: usize| end + digits.len() - self.version.len();
        Self {
            metadata: self.metadata.start..longer_by(self.metadata.end),
            version: self.version.start..longer_by(self.version.end),
            json: Bytes::from(json),
            revision,
            ..self.clone()
        }
    }

    /// `namespace/name`, or `name` for what lives in no namespace: how the store sorts, as etcd does.
    pub(crate) fn key(&self) -> Arc<str> {
        key(&self.namespace, &self.name)
    }

    /// A label's value.
    pub(crate) fn label(&self, key: &str) -> Option<&str> {
        let place = self
            .labels
            .binary_search_by(|(candidate, _)| candidate.as_ref().cmp(key))
            .ok()?;
        Some(&self.labels[place].1)
    }

    /// The value of a field that `kind` lets selectors name.
    pub(crate) fn field(&self, kind: &Kind, path: &str) -> Option<&str> {
        match path {
            "metadata.name" => Some(&self.name),
            "metadata.namespace" => Some(&self.namespace),
            _ => {
                let place = kind.fields.iter().position(|candidate| candidate == path)?;
                self.fields.get(place).map(AsRef::as_ref)
            }
        }
    }
}

/// The key under which an object is stored.
pub(crate) fn key(namespace: &str, name: &str) -> Arc<str> {
    if namespace.is_empty() {
        Arc::from(name)
    } else {
        Arc::from(format!("{namespace}/{name}"))
    }
}

#[derive(Default)]
struct Writer {
    out: Vec<u8>,
}

impl Writer {
    fn key(&mut self, key: &str) {
        self.out.push(if self.out.is_empty() { b'{' } else { b',' });
        self.value(&Value::String(key.to_owned()));
        self.out.push(b':');
    }

    fn field(&mut self, key: &str, value: &Value) {
        self.key(key);
        self.value(value);
    }

    fn value(&mut self, value: &Value) {
        serde_json::to_writer(&mut self.out, value).expect("writing a tree of values into memory can not fail");
    }

    /// Writes metadata; returns its span and that of the version's digits.
    fn metadata(&mut self, metadata: &Map<String, Value>, revision: u64) -> (Range<usize>, Range<usize>) {
        let begin = self.out.len();
        self.out.push(b'{');
        let mut version = 0..0;
        let others = metadata
            .keys()
            .map(String::as_str)
            .filter(|key| !METADATA_ORDER.contains(key));
        for key in METADATA_ORDER.iter().copied().chain(others) {
            if key == "resourceVersion" {
                // A dry run's object has none.
                if revision == 0 {
                    continue;
                }
                self.metadata_key(key);
                self.out.push(b'"');
                let digits = self.out.len();
                self.out.extend_from_slice(revision.to_string().as_bytes());
                version = digits..self.out.len();
                self.out.push(b'"');
            } else if let Some(value) = metadata.get(key).filter(|value| !is_empty(value)) {
                self.metadata_key(key);
                self.value(value);
            }
        }
        self.out.push(b'}');
        (begin..self.out.len(), version)
    }

    fn metadata_key(&mut self, key: &str) {
        if self.out.last() != Some(&b'{') {
            self.out.push(b',');
        }
        self.value(&Value::String(key.to_owned()));
        self.out.push(b':');
    }
}

/// What Go leaves out as `omitempty`.
fn is_empty(value: &Value) -> bool {
    match value {
        Value::Null => true,
        Value::String(text) => text.is_empty(),
        Value::Array(items) => items.is_empty(),
        Value::Object(map) => map.is_empty(),
        Value::Bool(_) | Value::Number(_) => false,
    }
}

fn metadata_value<'a>(metadata: &'a Map<String, Value>, key: &str) -> &'a Value {
    metadata.get(key).unwrap_or(&Value::Null)
}

fn text(value: &Value) -> Box<str> {
    value.as_str().unwrap_or_default().into()
}

fn labels(metadata: &Map<String, Value>) -> Box<[(Box<str>, Box<str>)]> {
    let labels = metadata.get("labels").and_then(Value::as_object);
    let mut labels: Vec<(Box<str>, Box<str>)> = labels
        .into_iter()
        .flatten()
        .map(|(key, value)| (key.as_str().into(), text(value)))
        .collect();
    labels.sort_unstable();
    labels.into()
}

/// A scalar at a dotted path, in the words that field selectors use.
fn field(object: &Value, path: &str) -> Box<str> {
    let value = path.split('.').try_fold(object, |value, key| value.get(key));
    match value {
        Some(Value::String(text)) => text.as_str().into(),
        Some(Value::Bool(flag)) => flag.to_string().into(),
        Some(Value::Number(number)) => number.to_string().into(),
        // What Go's zero values print.
        _ if matches!(path, "spec.unschedulable" | "spec.hostNetwork") => "false".into(),
        _ if matches!(path, "status.replicas" | "status.successful") => "0".into(),
        _ => "".into(),
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;
    use crate::kinds::Registry;

    fn pod() -> Stored {
        let registry = Registry::built_in();
        let kind = registry.kind(registry.place("", "v1", "pods").unwrap());
        let object = json!({
            "status": { "phase": "Running" },
            "metadata": { "name": "a", "namespace": "default", "labels": { "z": "1", "app": "web" }, "annotations": {} },
            "spec": { "nodeName": "n1" },
        });
        Stored::new(kind, &object, 99)
    }

    #[test]
    fn an_object_is_written_as_go_writes_it() {
        insta::assert_snapshot!(
            std::str::from_utf8(pod().json()).unwrap(),
            @r#"{"kind":"Pod","apiVersion":"v1","metadata":{"name":"a","namespace":"default","resourceVersion":"99","labels":{"app":"web","z":"1"}},"spec":{"nodeName":"n1"},"status":{"phase":"Running"}}"#
        );
    }

    #[test]
    fn a_restamped_object_differs_in_its_version_alone() {
        let pod = pod();
        let again = pod.restamped(100_000).restamped(99);
        assert_eq!(again.json(), pod.json());
        assert_eq!(again.metadata_json(), pod.metadata_json());
        let longer = pod.restamped(100_000);
        assert_eq!(longer.value()["metadata"]["resourceVersion"], "100000");
        assert_eq!(
            serde_json::from_slice::<Value>(longer.metadata_json()).unwrap(),
            longer.value()["metadata"]
        );
    }

    #[test]
    fn a_list_item_is_the_object_without_its_type() {
        let item = [b"{", pod().json_after_type_meta()].concat();
        let item: Value = serde_json::from_slice(&item).unwrap();
        assert_eq!(item["metadata"]["name"], "a");
        assert_eq!(item.get("kind"), None);
    }
}
