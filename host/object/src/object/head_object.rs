//! Heads: what is kept of an object when there is no room for all of it.
//!
//! A head is an [`Object`] like any other, with less text. It also has the hash and the size of the whole object, where
//! whole objects have the positions of spec and status.

use std::hash::{BuildHasher as _, RandomState};
use std::sync::LazyLock;

use triomphe::Arc;

use super::{Head, Object, Span};
use crate::allocation_bytes;
use crate::pointer::{Pointer, PointerToken};
use crate::projection::{Payload, Projection};
use crate::shape::Shape;

/// The most bytes of annotations that a head keeps: 4 KiB. Of an object with more, it keeps none.
pub const HEAD_ANNOTATIONS_BYTES_MAX: usize = 4 * 1_024;

/// Marks a head that has all of its object's metadata: no field begins there.
const MARK: u32 = u32::MAX;

/// Marks a head that has not all annotations of its object.
const MARK_CUT: u32 = MARK - 1;

/// The key is secret, so that no author of objects can make two states that have one hash.
static HASHER: LazyLock<RandomState> = LazyLock::new(RandomState::new);

/// `kubectl apply` writes the whole object into this annotation.
const LAST_APPLIED: &str = "kubectl.kubernetes.io/last-applied-configuration";

static ANNOTATIONS: LazyLock<Pointer> = LazyLock::new(|| pointer("/metadata/annotations"));

static ANNOTATIONS_ONLY: LazyLock<Projection> = LazyLock::new(|| Projection::new(std::slice::from_ref(&*ANNOTATIONS)));

static WITHOUT_LAST_APPLIED: LazyLock<Shape> = LazyLock::new(|| {
    dropping(pointer(&format!(
        "/metadata/annotations/{}",
        LAST_APPLIED.replace('/', "~1")
    )))
});

static WITHOUT_ANNOTATIONS: LazyLock<Shape> = LazyLock::new(|| dropping(ANNOTATIONS.clone()));

fn pointer(text: &str) -> Pointer {
    Pointer::parse(text).expect("a pointer")
}

fn dropping(pointer: Pointer) -> Shape {
    Shape::new("", "", vec![pointer], true).expect("no object needs annotations")
}

impl Object {
    /// The head of this object: apiVersion, kind, metadata, and `fields`, which [`Projection::of_head`] makes. Of
    /// annotations, neither what `kubectl apply` writes nor more than [`HEAD_ANNOTATIONS_BYTES_MAX`].
    ///
    /// A head is its own head. An object whose text cannot be cut, or that is so small that nothing is saved, stays
    /// whole.
    #[must_use]
    pub fn to_head(&self, fields: &Projection) -> Object {
        if self.is_head() {
            return self.clone();
        }
        let mut json = Vec::new();
        self.project(fields, &mut json);
        let head = cut(&json).map(|head| head.marked(self));
        let saves = |head: &Object| allocation_bytes(head.size_bytes()) < allocation_bytes(self.size_bytes());
        head.filter(saves).unwrap_or_else(|| self.clone())
    }

    /// Whether this is only the head of an object.
    #[must_use]
    pub fn is_head(&self) -> bool {
        self.0.header.status.start >= MARK_CUT
    }

    /// The size of the whole object's allocation in bytes, as [`size_bytes`](Self::size_bytes) of it; also of a head.
    #[must_use]
    pub fn whole_bytes(&self) -> usize {
        match self.is_head() {
            true => self.0.header.status.bytes as usize,
            false => self.size_bytes(),
        }
    }

    /// Whether both have the same text; by its hash, if one of them is a head.
    #[must_use]
    pub fn has_same_content(&self, other: &Object) -> bool {
        if self.ptr_eq(other) {
            return true;
        }
        match self.is_head() || other.is_head() {
            true => self.hash() == other.hash(),
            false => self.json() == other.json(),
        }
    }

    /// Whether both are the same object in memory, or one of them is a head of the state that the other is of.
    #[must_use]
    pub fn is_same_state(&self, other: &Object) -> bool {
        let is_head_of = || {
            (self.is_head() || other.is_head())
                && self.uid() == other.uid()
                && self.version() == other.version()
                && !self.version().is_empty()
        };
        self.ptr_eq(other) || is_head_of()
    }

    /// Whether `payload` writes of this object what it writes of the whole one. Always true of a whole object.
    #[must_use]
    pub fn holds(&self, payload: &Payload) -> bool {
        if !self.is_head() {
            return true;
        }
        match payload {
            Payload::None => true,
            Payload::Metadata => self.has_annotations(),
            Payload::Fields(projection) => projection.pointers().iter().all(|field| self.has(field)),
            Payload::Whole => false,
        }
    }

    /// Whether this has what `field` points to in the whole object. Always true of a whole object; of a head, `is_kept`
    /// tells it for fields that are not metadata.
    #[must_use]
    pub fn keeps(&self, field: &Pointer, is_kept: bool) -> bool {
        !self.is_head() || self.has(field) || (is_kept && !is_named(field.tokens().first(), "metadata"))
    }

    /// Whether a head has the part of the whole object that `field` points to, as far as metadata goes.
    fn has(&self, field: &Pointer) -> bool {
        match field.tokens() {
            [first] => is_named(Some(first), "apiVersion") || is_named(Some(first), "kind") || self.has_all_of(first),
            [first, second, ..] if is_named(Some(first), "metadata") && !may_be(second, "annotations") => true,
            [first, second, third, ..]
                if is_named(Some(first), "metadata") && is_named(Some(second), "annotations") =>
            {
                self.has_annotations() || (!may_be(third, LAST_APPLIED) && self.has_other_annotations())
            }
            [first, ..] => self.has_all_of(first),
            [] => false,
        }
    }

    /// Whether `first` is metadata, and a head has all of it.
    fn has_all_of(&self, first: &PointerToken) -> bool {
        is_named(Some(first), "metadata") && self.has_annotations()
    }

    /// Whether a head that lacks annotations has all of them but what `kubectl apply` writes.
    fn has_other_annotations(&self) -> bool {
        let mut json = Vec::new();
        self.project(&ANNOTATIONS_ONLY, &mut json);
        let name = br#""annotations":"#;
        json.windows(name.len()).any(|window| window == name)
    }

    /// Whether a head has all annotations of its object.
    fn has_annotations(&self) -> bool {
        self.0.header.status.start == MARK
    }

    /// This cut text as the head of `whole`.
    fn marked(&self, whole: &Object) -> Object {
        let header = Head {
            spec: Span::of_hash(hash(whole)),
            status: Span {
                start: match self.metadata() == whole.metadata() {
                    true => MARK,
                    false => MARK_CUT,
                },
                bytes: u32::try_from(whole.size_bytes()).unwrap_or(u32::MAX),
            },
            ..self.0.header
        };
        Object(Arc::from_header_and_str(header, &self.0.slice))
    }

    /// The hash of the whole text.
    fn hash(&self) -> u64 {
        match self.is_head() {
            true => self.0.header.spec.hash(),
            false => hash(self),
        }
    }
}

impl Span {
    /// Holds a hash instead of a position.
    fn of_hash(hash: u64) -> Span {
        Span {
            start: (hash >> 32) as u32,
            bytes: hash as u32,
        }
    }

    fn hash(self) -> u64 {
        u64::from(self.start) << 32 | u64::from(self.bytes)
    }
}

fn hash(whole: &Object) -> u64 {
    HASHER.hash_one(whole.json())
}

fn is_named(token: Option<&PointerToken>, name: &str) -> bool {
    matches!(token, Some(PointerToken::Name(other)) if **other == *name)
}

/// Whether `token` stands for the member called `name`.
fn may_be(token: &PointerToken, name: &str) -> bool {
    *token == PointerToken::Any || is_named(Some(token), name)
}

/// The object in `json`, without the annotations that a head does not keep.
fn cut(json: &[u8]) -> Option<Object> {
    let head = Object::parse(json, &WITHOUT_LAST_APPLIED).ok()?;
    if head.metadata().len() <= HEAD_ANNOTATIONS_BYTES_MAX {
        return Some(head);
    }
    let mut annotations = Vec::new();
    head.project(&ANNOTATIONS_ONLY, &mut annotations);
    match annotations.len() > HEAD_ANNOTATIONS_BYTES_MAX {
        true => Object::parse(json, &WITHOUT_ANNOTATIONS).ok(),
        false => Some(head),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// A ConfigMap of more than 1 KiB.
    fn object(annotations: &str, data: &str) -> Object {
        of_data(annotations, &format!("{data}{}", "x".repeat(1_024)))
    }

    fn of_data(annotations: &str, data: &str) -> Object {
        let json = format!(
            r#"{{"apiVersion":"v1","kind":"ConfigMap","metadata":{{"namespace":"a","name":"n","uid":"u","resourceVersion":"7","labels":{{"app":"web"}},"annotations":{{{annotations}}}}},"data":{{"k":"{data}"}},"status":{{"phase":"On"}}}}"#
        );
        Object::parse(json.as_bytes(), &Shape::verbatim()).unwrap()
    }

    fn fields(pointers: &[&str]) -> Projection {
        let pointers: Vec<Pointer> = pointers.iter().map(|text| pointer(text)).collect();
        Projection::of_head(&pointers)
    }

    fn payload(pointers: &[&str]) -> Payload {
        let pointers: Vec<Pointer> = pointers.iter().map(|text| pointer(text)).collect();
        Payload::fields(&pointers)
    }

    #[test]
    fn a_head_has_metadata_and_the_kept_fields() {
        let whole = object(r#""x":"y""#, &"d".repeat(100_000));
        let head = whole.to_head(&fields(&["/status/phase"]));
        insta::assert_snapshot!(head.text(), @r#"{"apiVersion":"v1","kind":"ConfigMap","metadata":{"namespace":"a","name":"n","uid":"u","resourceVersion":"7","labels":{"app":"web"},"annotations":{"x":"y"}},"status":{"phase":"On"}}"#);
        assert!(head.is_head() && !whole.is_head());
        assert_eq!(
            (head.key(), head.uid(), head.version()),
            (whole.key(), whole.uid(), whole.version())
        );
        assert_eq!(head.label("app").as_deref(), Some("web"));
        assert_eq!(head.pointer(&pointer("/status/phase")), ["On"]);
        assert!(head.size_bytes() < 400, "{}", head.size_bytes());
        assert_eq!(head.whole_bytes(), whole.size_bytes());
        assert!(head.to_head(&fields(&[])).ptr_eq(&head));
    }

    #[test]
    fn a_head_tells_whether_the_whole_text_changed() {
        let (one, other) = (object("", "1"), object("", "2"));
        let head = one.to_head(&fields(&[]));
        assert!(head.has_same_content(&one) && one.has_same_content(&head));
        assert!(head.has_same_content(&object("", "1").to_head(&fields(&[]))));
        assert!(!head.has_same_content(&other) && !head.has_same_content(&other.to_head(&fields(&[]))));
        assert!(one.has_same_content(&object("", "1")) && !one.has_same_content(&other));
    }

    #[test]
    fn an_object_without_much_to_cut_stays_whole() {
        let whole = of_data("", "1");
        assert!(whole.to_head(&fields(&["/data", "/status"])).ptr_eq(&whole));
    }

    #[test]
    fn a_head_takes_no_more_than_its_text() {
        let head = object("", "").to_head(&fields(&[]));
        assert_eq!(head.size_bytes(), (head.json().len() + 68).next_multiple_of(8));
    }

    #[test]
    fn a_head_is_the_same_state_as_its_object() {
        let (one, other) = (object("", "1"), object("", "1"));
        let head = one.to_head(&fields(&[]));
        assert!(head.is_same_state(&one) && one.is_same_state(&head) && one.is_same_state(&one));
        assert!(!one.is_same_state(&other), "it may have another shape");
    }

    #[test]
    fn a_head_keeps_no_copy_of_the_object_in_annotations() {
        let applied = r#""kubectl.kubernetes.io/last-applied-configuration":"{…}","x":"y""#;
        let head = object(applied, "").to_head(&fields(&[]));
        assert!(head.text().contains(r#""annotations":{"x":"y"}"#), "{}", head.text());
        let long = format!(r#""x":"{}""#, "y".repeat(HEAD_ANNOTATIONS_BYTES_MAX));
        let head = object(&long, "").to_head(&fields(&[]));
        assert!(!head.text().contains("annotations"), "{}", head.text());
        assert_eq!(head.label("app").as_deref(), Some("web"));
    }

    #[test]
    fn a_head_holds_only_what_it_has_completely() {
        let whole = object(r#""x":"y""#, "");
        let head = whole.to_head(&fields(&[]));
        for held in [
            Payload::None,
            Payload::Metadata,
            payload(&["/metadata", "/kind"]),
            payload(&["/metadata/annotations/x"]),
        ] {
            assert!(head.holds(&held) && whole.holds(&held), "{held:?}");
        }
        for missing in [
            Payload::Whole,
            payload(&["/metadata/name", "/data"]),
            payload(&["/*/name"]),
        ] {
            assert!(!head.holds(&missing) && whole.holds(&missing), "{missing:?}");
        }
        let applied = r#""kubectl.kubernetes.io/last-applied-configuration":"{…}""#;
        let head = object(applied, "").to_head(&fields(&[]));
        assert!(head.holds(&payload(&["/metadata/labels"])));
        assert!(
            head.holds(&payload(&["/metadata/annotations/x"])),
            "the others are there"
        );
        for missing in [Payload::Metadata, payload(&["/metadata"]), payload(&["/metadata/*/x"])] {
            assert!(!head.holds(&missing), "{missing:?}");
        }
    }

    #[test]
    fn a_head_tells_which_fields_it_keeps() {
        let [name, annotation, applied, spec] = [
            "/metadata/name",
            "/metadata/annotations/x",
            "/metadata/annotations/kubectl.kubernetes.io~1last-applied-configuration",
            "/spec/x",
        ]
        .map(pointer);
        let head = |annotations: &str| object(annotations, "").to_head(&fields(&[]));
        let kept = |object: &Object| [&name, &annotation, &applied, &spec].map(|field| object.keeps(field, true));
        assert_eq!(kept(&object("", "")), [true; 4]);
        assert_eq!(kept(&head(r#""x":"y""#)), [true; 4]);
        let with_applied = head(&format!(r#""{LAST_APPLIED}":"y""#));
        assert_eq!(kept(&with_applied), [true, true, false, true]);
        let without = head(&format!(r#""x":"{}""#, "y".repeat(HEAD_ANNOTATIONS_BYTES_MAX)));
        assert_eq!(kept(&without), [true, false, false, true]);
        assert!(!head("").keeps(&spec, false) && head("").keeps(&name, false));
    }
}
