//! The type of an object, and what parsing adds to an object and removes from it: apiVersion and kind, managedFields,
//! dropped fields.

use std::fmt;

use crate::paths::PathSet;
use crate::pointer::{Pointer, PointerError};

/// Fields of the head, which `drop` must not cover.
const NEEDED: [(&str, &[&str]); 6] = [
    ("apiVersion", &["apiVersion"]),
    ("kind", &["kind"]),
    ("metadata.namespace", &["metadata", "namespace"]),
    ("metadata.name", &["metadata", "name"]),
    ("metadata.uid", &["metadata", "uid"]),
    ("metadata.resourceVersion", &["metadata", "resourceVersion"]),
];

/// Selectors read them.
const LABELS: [&str; 2] = ["metadata", "labels"];

/// How the objects of one source are parsed; built once, used for each object (see
/// [`Object::parse`](crate::Object::parse)).
#[derive(Clone, Debug)]
pub struct Shape {
    /// Inserted where an object lacks it; if empty, nothing is inserted.
    pub api_version: String,
    /// Inserted where an object lacks it; if empty, nothing is inserted.
    pub kind: String,
    /// The fields to remove, besides managedFields.
    pub drop: Vec<Pointer>,
    /// The fields that become a hash of their text.
    pub digest: Vec<Pointer>,
    /// Whether `metadata.managedFields` stays.
    pub keep_managed_fields: bool,
    compiled: Compiled,
}

/// What [`Shape::new`] computes in advance.
#[derive(Clone, Debug)]
struct Compiled {
    metadata_only: bool,
    /// What is dropped, and what becomes a digest.
    paths: PathSet,
    /// Ready to be inserted: `"apiVersion":"v1",`.
    api_version: Option<String>,
    kind: Option<String>,
}

impl Shape {
    /// Objects of `api_version` and `kind`, without `drop` and, unless `keep_managed_fields`, without managedFields.
    ///
    /// # Errors
    /// [`PointerError::Needed`] when a pointer of `drop` covers apiVersion, kind or a head field of metadata.
    pub fn new(
        api_version: impl Into<String>,
        kind: impl Into<String>,
        drop: Vec<Pointer>,
        keep_managed_fields: bool,
    ) -> Result<Shape, PointerError> {
        if let Some(error) = drop.iter().find_map(covers_needed) {
            return Err(error);
        }
        let (api_version, kind) = (api_version.into(), kind.into());
        let compiled = Compiled {
            metadata_only: false,
            paths: PathSet::new(&drop),
            api_version: splice("apiVersion", &api_version),
            kind: splice("kind", &kind),
        };
        Ok(Shape {
            api_version,
            kind,
            drop,
            digest: Vec::new(),
            keep_managed_fields,
            compiled,
        })
    }

    /// The same shape, but the values of `digest` become strings: `sha256:` and the first half of the hash of their
    /// text in hexadecimal. A value that is dropped, too, is dropped.
    ///
    /// # Errors
    /// [`PointerError::Read`] when a pointer covers apiVersion, kind or a head field of metadata, or is at or below its
    /// labels.
    pub fn with_digest(mut self, digest: Vec<Pointer>) -> Result<Shape, PointerError> {
        if let Some(error) = digest.iter().find_map(covers_read) {
            return Err(error);
        }
        self.compiled.paths.add_digests(&digest);
        self.digest = digest;
        Ok(self)
    }

    /// The same shape, but keeping only apiVersion, kind and metadata. A `PartialObjectMetadata` gets the resource's
    /// own apiVersion and kind; a whole object is cut.
    #[must_use]
    pub fn metadata_only(mut self) -> Shape {
        self.compiled.metadata_only = true;
        self
    }

    /// Whether only apiVersion, kind and metadata are kept.
    #[must_use]
    pub fn is_metadata_only(&self) -> bool {
        self.compiled.metadata_only
    }

    /// Objects of `api_version` and `kind`, without managedFields.
    #[must_use]
    pub fn of(api_version: &str, kind: &str) -> Shape {
        Shape::new(api_version, kind, Vec::new(), false).expect("nothing is dropped that is needed")
    }

    /// Objects as received: nothing inserted, nothing cut but a second apiVersion or kind.
    #[must_use]
    pub fn verbatim() -> Shape {
        Shape::new("", "", Vec::new(), true).expect("nothing is dropped")
    }

    /// Whether the text of an object begins with apiVersion and kind, as parsing inserts them and as API servers write
    /// them. Each object is asked.
    pub(crate) fn begins(&self, text: &str) -> bool {
        let inside = text.strip_prefix('{').unwrap_or_default();
        let begin = |first: &str, second: &str| inside.strip_prefix(first).is_some_and(|rest| rest.starts_with(second));
        let both = self.splice_api_version().zip(self.splice_kind());
        both.is_some_and(|(version, kind)| begin(version, kind) || begin(kind, version))
    }

    pub(crate) fn paths(&self) -> &PathSet {
        &self.compiled.paths
    }

    pub(crate) fn splice_api_version(&self) -> Option<&str> {
        self.compiled.api_version.as_deref()
    }

    pub(crate) fn splice_kind(&self) -> Option<&str> {
        self.compiled.kind.as_deref()
    }
}

fn covers_needed(pointer: &Pointer) -> Option<PointerError> {
    let (field, _) = NEEDED.into_iter().find(|(_, path)| pointer.covers(path))?;
    Some(PointerError::Needed {
        text: pointer.to_string(),
        field,
    })
}

/// What of labels `pointer` covers, or is below of: selectors read them.
fn covers_read(pointer: &Pointer) -> Option<PointerError> {
    let needed = NEEDED.into_iter().find(|(_, path)| pointer.covers(path));
    let is_of_labels = pointer
        .tokens()
        .iter()
        .zip(LABELS)
        .all(|(token, name)| token.matches(name));
    let field = match needed {
        Some((field, _)) => field,
        None if is_of_labels => "metadata.labels",
        None => return None,
    };
    Some(PointerError::Read {
        text: pointer.to_string(),
        field,
    })
}

fn splice(member: &str, value: &str) -> Option<String> {
    let quoted = || serde_json::Value::from(value).to_string();
    (!value.is_empty()).then(|| format!("\"{member}\":{},", quoted()))
}

/// apiVersion (`v1`, `apps/v1`) and kind (`Pod`), as in every object.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Default)]
pub struct TypeMeta {
    /// `group/version`, or the version alone for the core group.
    pub api_version: String,
    /// The singular, capitalized name of the type.
    pub kind: String,
}

impl TypeMeta {
    /// Copies both texts.
    #[must_use]
    pub fn new(api_version: &str, kind: &str) -> TypeMeta {
        TypeMeta {
            api_version: api_version.to_owned(),
            kind: kind.to_owned(),
        }
    }

    /// The group of the apiVersion; empty for the core group.
    #[must_use]
    pub fn group(&self) -> &str {
        self.api_version.split_once('/').map_or("", |(group, _)| group)
    }

    /// The version of the apiVersion, without its group.
    #[must_use]
    pub fn version(&self) -> &str {
        self.api_version
            .split_once('/')
            .map_or(&self.api_version, |(_, version)| version)
    }
}

impl fmt::Display for TypeMeta {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}, Kind={}", self.api_version, self.kind)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn shape(drop: &str) -> Result<Shape, PointerError> {
        Shape::new("v1", "Pod", vec![Pointer::parse(drop).expect("pointer")], false)
    }

    #[test]
    fn only_metadata_is_kept_from_any_form() {
        let shape = Shape::of("v1", "Pod").metadata_only();
        let read = |json: &str| crate::Object::parse(json.as_bytes(), &shape).unwrap().text().to_owned();
        let kept = r#"{"apiVersion":"v1","kind":"Pod","metadata":{"name":"a"}}"#;
        let partial = r#"{"kind":"PartialObjectMetadata","apiVersion":"meta.k8s.io/v1","metadata":{"name":"a"}}"#;
        assert_eq!(read(partial), kept);
        assert_eq!(read(r#"{"metadata":{"name":"a","managedFields":[{}]}}"#), kept);
        assert_eq!(
            read(r#"{"spec":{"a":[1]},"apiVersion":"v1","kind":"Pod","metadata":{"name":"a"},"status":{}}"#),
            kept
        );
        // Another kind is kept, so that it can be refused.
        assert!(read(r#"{"kind":"Secret","apiVersion":"v1","metadata":{"name":"a"},"data":{}}"#).contains("Secret"));
    }

    #[test]
    fn type_of_an_object_is_seen_wherever_it_is_written() {
        let pods = Shape::of("v1", "Pod");
        for (text, is_pod) in [
            (r#"{"metadata":{"name":"a"}}"#, true),
            (r#"{"apiVersion":"v1","kind":"Pod","metadata":{"name":"a"}}"#, true),
            (r#"{"kind":"Pod","apiVersion":"v1","metadata":{"name":"a"}}"#, true),
            (
                r#"{ "metadata":{"name":"a"}, "kind": "Pod","apiVersion":"v\u0031"}"#,
                true,
            ),
            (r#"{"kind":"","metadata":{"name":"a"},"kind":"Pod"}"#, true),
            (r#"{"kind":"Pod","metadata":{"name":"a"},"apiVersion":"v2"}"#, false),
            (r#"{"kind":"PodList","apiVersion":"v1","metadata":{"name":"a"}}"#, false),
            (r#"{"apiVersion":"v1","metadata":{"name":"a"},"kind":"Secret"}"#, false),
        ] {
            let object = crate::Object::parse(text.as_bytes(), &pods).unwrap();
            assert_eq!(object.has_type_of(&pods), is_pod, "{text}");
        }
    }

    fn digest(pointers: &[&str]) -> Result<Shape, PointerError> {
        let pointers = pointers.iter().map(|text| Pointer::parse(text).unwrap());
        Shape::of("v1", "ConfigMap").with_digest(pointers.collect())
    }

    #[test]
    fn a_digest_replaces_a_value_and_tells_changes() {
        let shape = digest(&["/data", "/list/*/value", "/metadata/annotations/a"]).unwrap();
        let read = |json: &str| crate::Object::parse(json.as_bytes(), &shape).unwrap();
        let object = read(
            r#"{"data":{"a":"long enough to be longer than its hash, for example"},"kind":"ConfigMap","list":[{"value":1},{"value":[2],"b":3}],"apiVersion":"v1","spec":{"c":4},"metadata":{"annotations":{"a":"x","b":"y"},"labels":{"d":"e"},"name":"n","uid":"u","resourceVersion":"7"}}"#,
        );
        insta::assert_snapshot!(
            object.text(),
            @r#"{"data":"sha256:f6b0c53fbb79c7d72563414477109d0e","kind":"ConfigMap","list":[{"value":"sha256:6b86b273ff34fce19d6b804eff5a3f57"},{"value":"sha256:038966de9f6b9a901b20b4c6ca8b2a46","b":3}],"apiVersion":"v1","spec":{"c":4},"metadata":{"annotations":{"a":"sha256:ba2df4903a2c14e86dc3bcca58911b44","b":"y"},"labels":{"d":"e"},"name":"n","uid":"u","resourceVersion":"7"}}"#
        );
        assert_eq!((object.name(), object.uid(), &*object.kind()), ("n", "u", "ConfigMap"));
        assert_eq!(
            (object.version().number(), object.label("d").as_deref()),
            (Some(7), Some("e"))
        );
        assert_eq!(object.pointer(&Pointer::parse("/spec/c").unwrap()), ["4"]);
        let data = |json: &str| read(json).pointer(&Pointer::parse("/data").unwrap())[0].to_string();
        let (one, two) = (
            r#"{"metadata":{"name":"a"},"data":{"a":"1"}}"#,
            r#"{"metadata":{"name":"b"},"data":{"a":"2"}}"#,
        );
        assert_eq!(data(one), data(&one.replace("\"name\":\"a\"", "\"name\":\"c\"")));
        assert_ne!(data(one), data(two));
    }

    #[test]
    fn a_dropped_value_has_no_digest() {
        let shape = shape("/data")
            .unwrap()
            .with_digest(vec![Pointer::parse("/data").unwrap()])
            .unwrap();
        let object = crate::Object::parse(br#"{"metadata":{"name":"a"},"data":{}}"#, &shape).unwrap();
        assert_eq!(
            object.text(),
            r#"{"apiVersion":"v1","kind":"Pod","metadata":{"name":"a"}}"#
        );
    }

    #[test]
    fn a_digest_may_not_cover_what_informant_reads() {
        for pointer in [
            "/metadata",
            "/*",
            "/kind",
            "/metadata/uid",
            "/metadata/labels",
            "/metadata/labels/a",
            "/*/*",
        ] {
            assert!(digest(&[pointer]).is_err(), "{pointer}");
        }
        for pointer in ["/data", "/metadata/annotations", "/spec/labels", "/data/*"] {
            assert!(digest(&[pointer]).is_ok(), "{pointer}");
        }
        insta::assert_snapshot!(
            digest(&["/metadata/labels/a"]).expect_err("refused"),
            @r#"JSON pointer "/metadata/labels/a" cannot be a digest: Informant reads metadata.labels"#
        );
    }

    #[test]
    fn a_drop_may_not_cover_what_every_object_needs() {
        for drop in ["/metadata", "/*", "/kind", "/metadata/*", "/metadata/uid", "/*/name"] {
            assert!(shape(drop).is_err(), "{drop}");
        }
        for drop in [
            "/metadata/labels",
            "/spec/*",
            "/metadata/*/x",
            "/status",
            "/metadata/name/x",
        ] {
            assert!(shape(drop).is_ok(), "{drop}");
        }
        insta::assert_snapshot!(
            shape("/*/name").expect_err("refused"),
            @r#"JSON pointer "/*/name" cannot be dropped: it covers metadata.name, which every object must keep"#
        );
    }
}
