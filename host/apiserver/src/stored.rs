//! An object at one revision: serialized once, shared by every list and watch that shows it.

use std::borrow::Cow;
use std::ops::Range;
use std::sync::Arc;

use bytes::Bytes;
use serde_json::{Map, Value};

use crate::kinds::Kind;
use crate::tree;

/// The order in which Go's `ObjectMeta` serializes its fields. Others follow in alphabetical order.
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

/// One state of one object, with the fields that selectors, tables and later writes need.
#[derive(Debug, Clone)]
pub(crate) struct Stored {
    /// `{"kind":…,"apiVersion":…,"metadata":{…},…,"status":…}`
    json: Bytes,
    spans: Spans,
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

/// Positions of the parts of the JSON. An absent part is empty.
#[derive(Debug, Clone, Default)]
struct Spans {
    /// Where `"metadata":` begins: list items of built-in kinds leave out the text before it.
    body_begin: usize,
    /// The value of `metadata`.
    metadata: Range<usize>,
    /// The digits of `metadata.resourceVersion`.
    version: Range<usize>,
    /// The digits of `metadata.generation`.
    generation: Range<usize>,
    /// All fields but kind, apiVersion, metadata and status.
    content: Range<usize>,
    /// The value of `status`.
    status: Range<usize>,
}

impl Stored {
    /// Serializes `object` as `kind` at `revision`. `object` is expected to have been admitted (names, labels and
    /// metadata are of the right types); apiVersion, kind and resourceVersion are written only here.
    pub(crate) fn new(kind: &Kind, object: &Value, revision: u64) -> Self {
        let empty = Map::new();
        let metadata = object["metadata"].as_object().unwrap_or(&empty);
        let (json, spans) = write(kind, object.as_object().unwrap_or(&empty), metadata, revision);
        let text = |field: &str| metadata.get(field).and_then(Value::as_str).unwrap_or_default().into();
        Self {
            json,
            spans,
            revision,
            namespace: text("namespace"),
            name: text("name"),
            uid: text("uid"),
            created: text("creationTimestamp"),
            labels: labels(metadata),
            fields: match kind.custom_version {
                // A definition's fields can change while objects are stored.
                Some(_) => Box::default(),
                None => kind.fields.iter().map(|path| field(object, path)).collect(),
            },
        }
    }

    /// The object with kind and apiVersion.
    pub(crate) fn json(&self) -> &Bytes {
        &self.json
    }

    /// The object without kind, apiVersion and its opening brace, which the caller writes.
    pub(crate) fn json_after_type_meta(&self) -> &[u8] {
        &self.json[self.spans.body_begin..]
    }

    /// The value of `metadata`.
    pub(crate) fn metadata_json(&self) -> &[u8] {
        &self.json[self.spans.metadata.clone()]
    }

    /// All fields but kind, apiVersion, metadata and status, as comparable bytes.
    pub(crate) fn content(&self) -> &[u8] {
        &self.json[self.spans.content.clone()]
    }

    pub(crate) fn value(&self) -> Value {
        parsed(&self.json)
    }

    /// The object as a tree in the version of `kind`.
    pub(crate) fn value_as(&self, kind: &Kind) -> Value {
        let mut value = self.value();
        if kind.custom_version.is_some() {
            value["apiVersion"] = Value::String(kind.api_version());
        }
        value
    }

    /// Appends the object in the version of `kind`. Versions of a custom resource differ in `apiVersion` alone.
    pub(crate) fn write_as(&self, kind: &Kind, out: &mut Vec<u8>) {
        if kind.custom_version.is_none() {
            out.extend_from_slice(&self.json);
            return;
        }
        let head = serde_json::json!({ "kind": kind.kind, "apiVersion": kind.api_version() }).to_string();
        out.extend_from_slice(&head.as_bytes()[..head.len() - 1]);
        out.push(b',');
        out.extend_from_slice(self.json_after_type_meta());
    }

    pub(crate) fn metadata(&self) -> Value {
        parsed(self.metadata_json())
    }

    /// `status` as a tree, if there is one.
    pub(crate) fn status(&self) -> Option<Value> {
        let status = &self.json[self.spans.status.clone()];
        (!status.is_empty()).then(|| parsed(status))
    }

    /// The same state at another version: deletes show the last state this way.
    pub(crate) fn with_revision(&self, revision: u64) -> Self {
        Self {
            revision,
            ..self.spliced(&self.spans.version, &revision.to_string())
        }
    }

    /// The same state with another generation, if it has one.
    pub(crate) fn with_generation(&self, generation: u64) -> Self {
        self.spliced(&self.spans.generation, &generation.to_string())
    }

    /// Replaces the digits at a range of the JSON.
    fn spliced(&self, range: &Range<usize>, digits: &str) -> Self {
        if range.is_empty() {
            return self.clone();
        }
        let mut json = Vec::with_capacity(self.json.len() + digits.len());
        json.extend_from_slice(&self.json[..range.start]);
        json.extend_from_slice(digits.as_bytes());
        json.extend_from_slice(&self.json[range.end..]);
        let moved = |offset: usize| {
            if offset >= range.end {
                offset + digits.len() - range.len()
            } else {
                offset
            }
        };
        let moved = |span: &Range<usize>| moved(span.start)..moved(span.end);
        let spans = Spans {
            body_begin: self.spans.body_begin,
            metadata: moved(&self.spans.metadata),
            version: moved(&self.spans.version),
            generation: moved(&self.spans.generation),
            content: moved(&self.spans.content),
            status: moved(&self.spans.status),
        };
        Self {
            json: Bytes::from(json),
            spans,
            ..self.clone()
        }
    }

    /// `namespace/name`, or `name` if cluster-scoped: the sort order of the store, as in etcd.
    pub(crate) fn key(&self) -> Arc<str> {
        key(&self.namespace, &self.name)
    }

    pub(crate) fn label(&self, key: &str) -> Option<&str> {
        let index = self
            .labels
            .binary_search_by(|(candidate, _)| candidate.as_ref().cmp(key))
            .ok()?;
        Some(&self.labels[index].1)
    }

    /// The value of a selectable field of `kind`.
    pub(crate) fn field(&self, kind: &Kind, path: &str) -> Option<Cow<'_, str>> {
        match path {
            "metadata.name" => Some(Cow::Borrowed(&self.name)),
            "metadata.namespace" => Some(Cow::Borrowed(&self.namespace)),
            _ if kind.custom_version.is_some() => Some(Cow::Owned(field(&self.value(), path).into())),
            _ => {
                let index = kind.fields.iter().position(|candidate| candidate == path)?;
                self.fields.get(index).map(|value| Cow::Borrowed(value.as_ref()))
            }
        }
    }
}

fn parsed(json: &[u8]) -> Value {
    tree::read(json).expect("the bytes were written from a tree of values")
}

/// The key under which an object is stored.
pub(crate) fn key(namespace: &str, name: &str) -> Arc<str> {
    if namespace.is_empty() {
        Arc::from(name)
    } else {
        Arc::from(format!("{namespace}/{name}"))
    }
}

/// Writes an object: kind, apiVersion, metadata, the substance in alphabetical order, status.
fn write(kind: &Kind, object: &Map<String, Value>, metadata: &Map<String, Value>, revision: u64) -> (Bytes, Spans) {
    let mut writer = Writer::default();
    let mut spans = Spans::default();
    writer.field("kind", &Value::String(kind.kind.clone()));
    writer.field("apiVersion", &Value::String(kind.api_version()));
    // After the comma, which list items leave out too.
    spans.body_begin = writer.out.len() + 1;
    writer.key("metadata");
    writer.metadata(metadata, revision, &mut spans);
    let substance_begin = writer.out.len();
    for (key, value) in object {
        if !matches!(key.as_str(), "kind" | "apiVersion" | "metadata" | "status") {
            writer.field(key, value);
        }
    }
    spans.content = substance_begin..writer.out.len();
    if let Some(status) = object.get("status") {
        writer.key("status");
        let begin = writer.out.len();
        writer.value(status);
        spans.status = begin..writer.out.len();
    }
    writer.out.push(b'}');
    (Bytes::from(writer.out), spans)
}

#[derive(Default)]
struct Writer {
    out: Vec<u8>,
}

impl Writer {
    fn key(&mut self, key: &str) {
        let first = matches!(self.out.last(), None | Some(b'{'));
        if self.out.is_empty() {
            self.out.push(b'{');
        } else if !first {
            self.out.push(b',');
        }
        self.value(&Value::String(key.to_owned()));
        self.out.push(b':');
    }

    fn field(&mut self, key: &str, value: &Value) {
        self.key(key);
        self.value(value);
    }

    fn value(&mut self, value: &Value) {
        tree::write(value, &mut self.out);
    }

    fn metadata(&mut self, metadata: &Map<String, Value>, revision: u64, spans: &mut Spans) {
        let begin = self.out.len();
        self.out.push(b'{');
        let others = metadata
            .keys()
            .map(String::as_str)
            .filter(|key| !METADATA_ORDER.contains(key));
        for key in METADATA_ORDER.iter().copied().chain(others) {
            // A dry run's object has no version.
            if key == "resourceVersion" && revision > 0 {
                self.key(key);
                self.out.push(b'"');
                let digits = self.out.len();
                self.out.extend_from_slice(revision.to_string().as_bytes());
                spans.version = digits..self.out.len();
                self.out.push(b'"');
            } else if key != "resourceVersion"
                && let Some(value) = metadata.get(key).filter(|value| !is_empty(value))
            {
                self.key(key);
                let begin = self.out.len();
                self.value(value);
                if key == "generation" {
                    spans.generation = begin..self.out.len();
                }
            }
        }
        self.out.push(b'}');
        spans.metadata = begin..self.out.len();
    }
}

/// Values that Go leaves out of metadata because of `omitempty`.
pub(crate) fn is_empty(value: &Value) -> bool {
    match value {
        Value::Null => true,
        Value::String(text) => text.is_empty(),
        Value::Array(items) => items.is_empty(),
        Value::Object(map) => map.is_empty(),
        Value::Bool(_) | Value::Number(_) => false,
    }
}

fn labels(metadata: &Map<String, Value>) -> Box<[(Box<str>, Box<str>)]> {
    let labels = metadata.get("labels").and_then(Value::as_object);
    let mut labels: Vec<(Box<str>, Box<str>)> = labels
        .into_iter()
        .flatten()
        .map(|(key, value)| (key.as_str().into(), value.as_str().unwrap_or_default().into()))
        .collect();
    labels.sort_unstable();
    labels.into()
}

/// A scalar at a dotted path, in the format of field selectors.
fn field(object: &Value, path: &str) -> Box<str> {
    let value = path.split('.').try_fold(object, |value, key| value.get(key));
    match value {
        Some(Value::String(text)) => text.as_str().into(),
        Some(Value::Bool(flag)) => flag.to_string().into(),
        Some(Value::Number(number)) => number.to_string().into(),
        // Go prints zero values.
        _ if matches!(path, "spec.unschedulable" | "spec.hostNetwork") => "false".into(),
        _ if matches!(path, "status.replicas" | "status.successful") => "0".into(),
        _ => "".into(),
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;
    use crate::kinds;

    fn pod() -> Stored {
        let object = json!({
            "status": { "phase": "Running" },
            "metadata": { "name": "a", "namespace": "default", "labels": { "z": "1", "app": "web" }, "annotations": {} },
            "spec": { "nodeName": "n1" },
        });
        Stored::new(&pods(), &object, 99)
    }

    fn pods() -> Kind {
        kinds::built_in()
            .find(|kind| kind.plural == "pods")
            .expect("pods are built in")
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
        let again = pod.with_revision(100_000).with_revision(99);
        assert_eq!(again.json(), pod.json());
        assert_eq!(again.metadata_json(), pod.metadata_json());
        let longer = pod.with_revision(100_000);
        assert_eq!(longer.value()["metadata"]["resourceVersion"], "100000");
        assert_eq!(
            serde_json::from_slice::<Value>(longer.metadata_json()).unwrap(),
            longer.value()["metadata"]
        );
    }

    #[test]
    fn a_generation_is_replaced_in_its_place() {
        let object = json!({ "metadata": { "name": "a", "generation": 9 }, "spec": { "x": 1 }, "status": { "y": 2 } });
        let next = Stored::new(&pods(), &object, 7)
            .with_generation(10)
            .with_revision(1_000);
        assert_eq!(
            next.value()["metadata"],
            json!({ "name": "a", "generation": 10, "resourceVersion": "1000" })
        );
        assert_eq!(
            (next.content(), next.status()),
            (br#","spec":{"x":1}"#.as_slice(), Some(json!({ "y": 2 })))
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
