//! An object: its JSON and its head in one allocation.

use std::borrow::Cow;
use std::cmp::Ordering;
use std::fmt;
use std::hash::{Hash, Hasher};
use std::ops::Range;

use equivalent::{Comparable, Equivalent};
use triomphe::{Arc, HeaderSlice};

use crate::error::ObjectError;
use crate::key::{AsKey, KeyRef};
use crate::pointer::Pointer;
use crate::projection::Projection;
use crate::scanner::{JsonCursor, KnownSpans, Walk};
use crate::shape::Shape;
use crate::values;
use crate::version::VersionRef;

mod assembly;
mod head_object;

pub use assembly::SCRATCH_BYTES_MAX;
pub(crate) use assembly::{PrefixObject, parse_prefix};
pub use head_object::HEAD_ANNOTATIONS_BYTES_MAX;

/// A Kubernetes object as JSON text, with its head read.
///
/// Cheap to clone: clones share one allocation, which holds the text (after cuts, with apiVersion and kind) and the
/// positions of the head fields in it. Immutable.
#[derive(Clone)]
pub struct Object(Arc<HeaderSlice<Head, str>>);

/// Where the head fields are in the text of an [`Object`].
#[derive(Clone, Copy)]
struct Head {
    /// Length of the JSON. It is followed by the unescaped head fields that contain escapes.
    json_bytes: u32,
    metadata: Span,
    labels: Span,
    spec: Span,
    status: Span,
    namespace: ShortSpan,
    name: ShortSpan,
    uid: ShortSpan,
    version: ShortSpan,
}

/// A piece of the text.
#[derive(Clone, Copy, Default)]
struct Span {
    start: u32,
    bytes: u32,
}

/// A piece of the text of at most [`HEAD_FIELD_BYTES_MAX`](crate::HEAD_FIELD_BYTES_MAX). Packed: each object has four.
#[derive(Clone, Copy, Default)]
#[repr(Rust, packed(2))]
struct ShortSpan {
    start: u32,
    bytes: u16,
}

impl Object {
    /// Reads the one object that `json` holds, in one scan, into one allocation.
    ///
    /// Removes what `shape` cuts and inserts apiVersion and kind where they are absent, null or empty. White space
    /// around the object is removed too. The rest of the text is kept byte for byte.
    ///
    /// # Errors
    /// [`ObjectError`] when the text is not one JSON object with a `metadata.name`, as far as the scanner checks:
    /// brackets and strings everywhere, all syntax on the way to the head and to the cuts, UTF-8 in what is kept.
    pub fn parse(json: &[u8], shape: &Shape) -> Result<Object, ObjectError> {
        assembly::assemble(json, shape)
    }

    /// The text: one JSON object.
    #[must_use]
    pub fn json(&self) -> &[u8] {
        self.text().as_bytes()
    }

    /// The text, as a string.
    #[must_use]
    pub fn text(&self) -> &str {
        &self.0.slice[..self.0.header.json_bytes as usize]
    }

    /// Namespace and name.
    #[must_use]
    pub fn key(&self) -> KeyRef<'_> {
        KeyRef::new(self.namespace(), self.name())
    }

    /// `metadata.namespace`; empty for a cluster-scoped object.
    #[must_use]
    pub fn namespace(&self) -> &str {
        self.field(self.0.header.namespace)
    }

    /// `metadata.name`; never empty.
    #[must_use]
    pub fn name(&self) -> &str {
        self.field(self.0.header.name)
    }

    /// `metadata.uid`; empty if absent.
    #[must_use]
    pub fn uid(&self) -> &str {
        self.field(self.0.header.uid)
    }

    /// `metadata.resourceVersion`; empty if absent.
    #[must_use]
    pub fn version(&self) -> VersionRef<'_> {
        VersionRef::new(self.field(self.0.header.version))
    }

    /// `apiVersion`, read on demand; empty only if neither the text nor the [`Shape`] had it.
    #[must_use]
    pub fn api_version(&self) -> Cow<'_, str> {
        self.root_text("apiVersion").unwrap_or_default()
    }

    /// `kind`, read on demand; empty only if neither the text nor the [`Shape`] had it.
    #[must_use]
    pub fn kind(&self) -> Cow<'_, str> {
        self.root_text("kind").unwrap_or_default()
    }

    /// The value of `metadata`: a JSON object.
    #[must_use]
    pub fn metadata(&self) -> &str {
        self.span(self.0.header.metadata)
    }

    /// Size of the object's allocation in bytes, without the allocator's overhead.
    #[must_use]
    pub fn size_bytes(&self) -> usize {
        let unrounded = size_of::<usize>() + size_of::<Head>() + self.0.slice.len();
        unrounded.next_multiple_of(align_of::<usize>())
    }

    /// Whether both are the same allocation.
    #[must_use]
    pub fn ptr_eq(&self, other: &Object) -> bool {
        Arc::ptr_eq(&self.0, &other.0)
    }

    /// Number of handles that share the allocation now. For finding out what keeps an object's memory; may be outdated
    /// when it is read.
    #[must_use]
    pub fn handles(&self) -> usize {
        Arc::strong_count(&self.0)
    }

    /// The values at `pointer`, in the order of the text: strings unescaped, numbers and booleans as written.
    ///
    /// Nulls, objects and arrays are not values. If a name occurs twice in an object, the first one counts; under `*`,
    /// each does. Malformed text on the pointer's path ends the search.
    #[must_use]
    pub fn pointer(&self, pointer: &Pointer) -> Vec<Cow<'_, str>> {
        let mut values = Vec::new();
        self.visit_pointer(pointer, |value| values.push(value));
        values
    }

    /// Calls `visit` with the values at `pointer`, as [`pointer`](Self::pointer) returns them.
    pub fn visit_pointer<'o>(&'o self, pointer: &Pointer, visit: impl FnMut(Cow<'o, str>)) {
        values::visit(self.text(), self.known_spans(), pointer, visit);
    }

    /// Appends a JSON document of the object's own shape with the fields of `projection`, apiVersion and kind.
    pub fn project(&self, projection: &Projection, out: &mut Vec<u8>) {
        projection.write(self.text(), self.known_spans(), out);
    }

    /// Whether it has the apiVersion and kind of `shape`.
    #[must_use]
    pub fn has_type_of(&self, shape: &Shape) -> bool {
        shape.begins(self.text()) || *self.kind() == shape.kind && *self.api_version() == shape.api_version
    }

    /// The labels, parsed on demand, in the order of the text. Labels whose value is not a string are skipped.
    #[must_use]
    pub fn labels(&self) -> Labels<'_> {
        Labels::new(self.span(self.0.header.labels))
    }

    /// The value of the label `name`; the last one, should the name occur twice.
    #[must_use]
    pub fn label(&self, name: &str) -> Option<Cow<'_, str>> {
        self.labels()
            .filter(|(own, _)| own == name)
            .last()
            .map(|(_, value)| value)
    }

    /// The members that hold most of an object's bytes: walks to other members skip them.
    fn known_spans(&self) -> KnownSpans {
        let head = &self.0.header;
        let [spec, status] = match self.is_head() {
            true => <[Span; 2]>::default(),
            false => [head.spec, head.status],
        };
        [head.metadata, spec, status].map(Span::range)
    }

    /// The first text that is not empty under `name`. API servers and [`Shape`] write apiVersion and kind first.
    fn root_text(&self, name: &str) -> Option<Cow<'_, str>> {
        let text = self.text();
        if let Some(value) = leading_type_text(text, name) {
            return Some(Cow::Borrowed(value));
        }
        let mut cursor = JsonCursor::over_checked(text, self.known_spans());
        let mut members = cursor.enter_object().ok()?;
        loop {
            let is_wanted = cursor.next_member(&mut members).ok()??.is(text.as_bytes(), name);
            if !is_wanted || cursor.peek() != Some(b'"') {
                cursor.skip_value().ok()?;
                continue;
            }
            let value = cursor.string("a string").ok()?.decode_in(text)?;
            if !value.is_empty() {
                return Some(value);
            }
        }
    }

    fn span(&self, span: Span) -> &str {
        &self.0.slice[span.range()]
    }

    fn field(&self, span: ShortSpan) -> &str {
        &self.0.slice[span.range()]
    }
}

impl fmt::Debug for Object {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Object({} {:?} at {})", self.kind(), self.key(), self.version())
    }
}

impl AsKey for Object {
    fn as_key(&self) -> KeyRef<'_> {
        self.key()
    }
}

/// The value of `name` if the object begins with apiVersion or kind, and `name` is one of the first two members: as API
/// servers and Informant write it. Each object is asked for both, so this is worth its lines.
fn leading_type_text<'t>(text: &'t str, name: &str) -> Option<&'t str> {
    let mut rest = text.strip_prefix('{')?;
    for _ in 0..2 {
        let (member, after) = ["kind", "apiVersion"].into_iter().find_map(|member| {
            let after = rest.strip_prefix('"')?.strip_prefix(member)?.strip_prefix("\":\"")?;
            Some((member, after))
        })?;
        let end = after.bytes().position(|byte| matches!(byte, b'"' | b'\\' | ..b' '))?;
        let (value, after) = after.split_at(end);
        let after = after.strip_prefix("\",")?;
        if member == name && !value.is_empty() {
            return Some(value);
        }
        rest = after;
    }
    None
}

/// An object that compares, orders and hashes as its key does. It makes a set of objects a map from keys, without a
/// copy of the key.
#[derive(Clone, Debug)]
pub struct ByKey(pub Object);

impl PartialEq for ByKey {
    fn eq(&self, other: &ByKey) -> bool {
        self.0.key() == other.0.key()
    }
}

impl Eq for ByKey {}

impl PartialOrd for ByKey {
    fn partial_cmp(&self, other: &ByKey) -> Option<Ordering> {
        Some(self.cmp(other))
    }
}

impl Ord for ByKey {
    fn cmp(&self, other: &ByKey) -> Ordering {
        self.0.key().cmp(&other.0.key())
    }
}

impl Hash for ByKey {
    fn hash<H: Hasher>(&self, state: &mut H) {
        self.0.key().hash(state);
    }
}

impl Equivalent<ByKey> for KeyRef<'_> {
    fn equivalent(&self, object: &ByKey) -> bool {
        *self == object.0.key()
    }
}

impl Comparable<ByKey> for KeyRef<'_> {
    fn compare(&self, object: &ByKey) -> Ordering {
        self.cmp(&object.0.key())
    }
}

impl Span {
    fn range(self) -> Range<usize> {
        let start = self.start as usize;
        start..start + self.bytes as usize
    }
}

impl ShortSpan {
    fn range(self) -> Range<usize> {
        let start = self.start as usize;
        start..start + usize::from(self.bytes)
    }
}

/// Iterates over the members of `metadata.labels`. See [`Object::labels`].
#[derive(Clone, Debug)]
pub struct Labels<'o> {
    text: &'o str,
    walk: Option<(JsonCursor<'o>, Walk)>,
}

impl<'o> Labels<'o> {
    /// The labels in `text`: a JSON object, or nothing.
    pub(crate) fn new(text: &'o str) -> Labels<'o> {
        let mut cursor = JsonCursor::new(text.as_bytes());
        let walk = cursor.enter_object().ok().map(|walk| (cursor, walk));
        Labels { text, walk }
    }

    fn advance(&mut self) -> Option<Option<(Cow<'o, str>, Cow<'o, str>)>> {
        let (cursor, walk) = self.walk.as_mut()?;
        let name = cursor.next_member(walk).ok()??;
        if cursor.peek() != Some(b'"') {
            cursor.skip_value().ok()?;
            return Some(None);
        }
        let value = cursor.string("a string").ok()?;
        Some(name.decode_in(self.text).zip(value.decode_in(self.text)))
    }
}

impl<'o> Iterator for Labels<'o> {
    type Item = (Cow<'o, str>, Cow<'o, str>);

    fn next(&mut self) -> Option<Self::Item> {
        loop {
            let Some(label) = self.advance() else {
                self.walk = None;
                return None;
            };
            if label.is_some() {
                return label;
            }
        }
    }
}
