//! The head of an object: the few fields that Informant itself reads, found by the same scan as the cuts.
//!
//! Members may come in any order (those of custom resources are sorted, metadata may come last). If a name occurs
//! twice, the last one counts, as in serde_json, Go and JavaScript; a second `metadata` replaces the first entirely.
//! Every occurrence must be a string or null, even if it does not count.

use std::borrow::Cow;
use std::ops::Range;

use crate::cut::{self, CommaTracker, Cuts};
use crate::error::{FoundByte, ObjectError};
use crate::key::KeyRef;
use crate::paths::{Level, Matcher};
use crate::scanner::{JsonCursor, Text};
use crate::shape::Shape;
use crate::version::VersionRef;

/// Head fields, as read by [`head`]: borrowed unless they contain escapes.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ObjectHead<'a> {
    /// Empty for a cluster-scoped object.
    pub namespace: Cow<'a, str>,
    /// Never empty.
    pub name: Cow<'a, str>,
    /// Empty if absent.
    pub uid: Cow<'a, str>,
    /// `metadata.resourceVersion`; empty if absent.
    pub version: Cow<'a, str>,
}

impl ObjectHead<'_> {
    /// Namespace and name.
    #[must_use]
    pub fn key(&self) -> KeyRef<'_> {
        KeyRef::new(&self.namespace, &self.name)
    }

    /// The resource version, its number read.
    #[must_use]
    pub fn version(&self) -> VersionRef<'_> {
        VersionRef::new(&self.version)
    }
}

/// Reads the head of the object in `json` without copying it: enough to recognize an item of a list that is already
/// known.
///
/// Agrees with [`Object::parse`](crate::Object::parse) on every object that the latter accepts.
///
/// # Errors
/// [`ObjectError`] as [`Object::parse`](crate::Object::parse), except that UTF-8 is checked in the head fields only.
pub fn head(json: &[u8]) -> Result<ObjectHead<'_>, ObjectError> {
    let mut cursor = JsonCursor::new(json);
    let mut cuts = Cuts::default();
    let mut scan = HeadScan::new(None, &mut cuts);
    scan.object(&mut cursor)?;
    let head = scan.found;
    cursor.expect_end()?;
    head.metadata.borrow(json)
}

/// Like [`head`], but reads only up to the last of these fields, which API servers write first: enough to leave an
/// object out. What follows is not checked, and of two members with one name the first counts.
///
/// # Errors
/// [`ObjectError`] as [`head`], of what is read.
pub fn first_head(json: &[u8]) -> Result<ObjectHead<'_>, ObjectError> {
    let mut cursor = JsonCursor::new(json);
    cursor.skip_space();
    let mut members = cursor.enter_object()?;
    let mut cuts = Cuts::default();
    let mut scan = HeadScan::new(None, &mut cuts);
    while let Some(name) = cursor.next_member(&mut members)? {
        if !name.is(json, "metadata") || cursor.peek() != Some(b'{') {
            cursor.skip_discarded()?;
            continue;
        }
        let mut members = cursor.enter_object()?;
        while !scan.found.metadata.is_whole()
            && let Some(name) = cursor.next_member(&mut members)?
        {
            scan.metadata_member(&mut cursor, name, Level::NONE)?;
        }
        break;
    }
    scan.found.metadata.borrow(json)
}

/// The kind of an object in a metadata-only response, and the beginning of its apiVersion.
const PARTIAL_KIND: &str = "PartialObjectMetadata";
const PARTIAL_GROUP: &str = "meta.k8s.io/";

/// Where the head fields are in the text.
#[derive(Debug, Default)]
pub(crate) struct RawHead {
    pub(crate) has_api_version: bool,
    pub(crate) has_kind: bool,
    pub(crate) metadata: RawMetadata,
    /// The value of `spec`; empty if absent or cut.
    pub(crate) spec: Range<usize>,
    /// The value of `status`; empty if absent or cut.
    pub(crate) status: Range<usize>,
}

/// Where the fields of `metadata` are in the text.
#[derive(Debug, Default)]
pub(crate) struct RawMetadata {
    /// The whole value; empty until its end was reached.
    pub(crate) span: Range<usize>,
    /// The value of `labels` if it is an object that is kept, else empty.
    pub(crate) labels: Range<usize>,
    pub(crate) namespace: Option<Text>,
    pub(crate) name: Option<Text>,
    pub(crate) uid: Option<Text>,
    pub(crate) version: Option<Text>,
}

impl RawHead {
    /// Whether a head field of metadata contains escapes.
    pub(crate) fn holds_escapes(&self) -> bool {
        let metadata = &self.metadata;
        let fields = [metadata.namespace, metadata.name, metadata.uid, metadata.version];
        fields.iter().flatten().any(|text| text.is_escaped())
    }
}

impl RawMetadata {
    fn is_whole(&self) -> bool {
        self.namespace.is_some() && self.name.is_some() && self.uid.is_some() && self.version.is_some()
    }

    /// The head fields of an object in `json`.
    pub(crate) fn borrow<'a>(&self, json: &'a [u8]) -> Result<ObjectHead<'a>, ObjectError> {
        let decode = |text: Option<Text>, field| match text {
            None => Ok(Cow::Borrowed("")),
            Some(text) => text.decode(json).ok_or(ObjectError::BadEscape {
                at: text.start(),
                field,
            }),
        };
        let name = decode(self.name, "metadata.name")?;
        if name.is_empty() {
            return Err(ObjectError::NoName);
        }
        Ok(ObjectHead {
            namespace: decode(self.namespace, "metadata.namespace")?,
            name,
            uid: decode(self.uid, "metadata.uid")?,
            version: decode(self.version, "metadata.resourceVersion")?,
        })
    }
}

/// The scan of one object. If it ends with an error, `found` holds what was read up to there.
pub(crate) struct HeadScan<'s> {
    pub(crate) found: RawHead,
    shape: Option<&'s Shape>,
    matcher: Matcher<'s>,
    cuts: &'s mut Cuts,
}

impl<'s> HeadScan<'s> {
    /// A scan that cuts what `shape` removes; without a shape, nothing.
    pub(crate) fn new(shape: Option<&'s Shape>, cuts: &'s mut Cuts) -> HeadScan<'s> {
        let matcher = shape.map_or_else(Matcher::idle, |shape| Matcher::new(shape.paths()));
        HeadScan {
            found: RawHead::default(),
            shape,
            matcher,
            cuts,
        }
    }

    /// Skips white space and the object after it; the cursor is then just past the object.
    pub(crate) fn object(&mut self, cursor: &mut JsonCursor<'_>) -> Result<(), ObjectError> {
        cursor.skip_space();
        if cursor.peek().is_none() {
            return Err(ObjectError::Empty { bytes: cursor.at() });
        }
        let level = self.matcher.root();
        let mut members = cursor.enter_object()?;
        let mut commas = CommaTracker::default();
        while let Some(name) = cursor.next_member(&mut members)? {
            let start = name.start() - 1;
            commas.begin(start, self.cuts);
            let below = self.matcher.member(level, name, cursor.text());
            let is_cut = self.root_member(cursor, name, below)?;
            self.matcher.leave(below);
            commas.end(start, cursor.at(), is_cut, self.cuts);
        }
        commas.close(self.cuts);
        Ok(())
    }

    /// Reads one member of the object; returns whether it is to be cut.
    fn root_member(&mut self, cursor: &mut JsonCursor<'_>, name: Text, level: Level) -> Result<bool, ObjectError> {
        let text = cursor.text();
        if name.is(text, "metadata") {
            self.found.metadata = RawMetadata::default();
            if cursor.peek() == Some(b'{') {
                return self.metadata(cursor, level).map(|()| false);
            }
        } else if name.is(text, "apiVersion") {
            let value =
                string_or_null(cursor, "apiVersion")?.filter(|value| !self.is_partial(*value, text, PARTIAL_GROUP));
            let spliced = self.shape.is_some_and(|shape| shape.splice_api_version().is_some());
            return Ok(keep_first(&mut self.found.has_api_version, value, spliced));
        } else if name.is(text, "kind") {
            let value = string_or_null(cursor, "kind")?.filter(|value| !self.is_partial(*value, text, PARTIAL_KIND));
            let spliced = self.shape.is_some_and(|shape| shape.splice_kind().is_some());
            return Ok(keep_first(&mut self.found.has_kind, value, spliced));
        } else if self.shape.is_some_and(Shape::is_metadata_only) {
            return cursor.skip_discarded().map(|()| true);
        }
        let begin = cursor.at();
        let is_cut = cut::walk(cursor, &mut self.matcher, level, self.cuts)?;
        let span = if is_cut { 0..0 } else { begin..cursor.at() };
        if name.is(text, "spec") {
            self.found.spec = span;
        } else if name.is(text, "status") {
            self.found.status = span;
        }
        Ok(is_cut)
    }

    /// Whether the value of apiVersion or kind is that of `PartialObjectMetadata`, which the resource's own value
    /// replaces.
    fn is_partial(&self, value: Text, text: &[u8], beginning: &str) -> bool {
        self.shape.is_some_and(Shape::is_metadata_only) && value.raw(text).starts_with(beginning.as_bytes())
    }

    fn metadata(&mut self, cursor: &mut JsonCursor<'_>, level: Level) -> Result<(), ObjectError> {
        let begin = cursor.at();
        let mut members = cursor.enter_object()?;
        let mut commas = CommaTracker::default();
        while let Some(name) = cursor.next_member(&mut members)? {
            let start = name.start() - 1;
            commas.begin(start, self.cuts);
            let below = self.matcher.member(level, name, cursor.text());
            let is_cut = self.metadata_member(cursor, name, below)?;
            self.matcher.leave(below);
            commas.end(start, cursor.at(), is_cut, self.cuts);
        }
        commas.close(self.cuts);
        self.found.metadata.span = begin..cursor.at();
        Ok(())
    }

    /// Reads one member of metadata; returns whether it is to be cut.
    fn metadata_member(&mut self, cursor: &mut JsonCursor<'_>, name: Text, level: Level) -> Result<bool, ObjectError> {
        let decoded;
        let name = if name.is_escaped() {
            decoded = name.decode(cursor.text()).unwrap_or_default();
            decoded.as_bytes()
        } else {
            name.raw(cursor.text())
        };
        let metadata = &mut self.found.metadata;
        match name {
            b"name" => metadata.name = string_or_null(cursor, "metadata.name")?,
            b"namespace" => metadata.namespace = string_or_null(cursor, "metadata.namespace")?,
            b"uid" => metadata.uid = string_or_null(cursor, "metadata.uid")?,
            b"resourceVersion" => metadata.version = string_or_null(cursor, "metadata.resourceVersion")?,
            b"labels" => return self.labels(cursor, level),
            b"managedFields" if self.shape.is_none_or(|shape| !shape.keep_managed_fields) => {
                return cursor.skip_discarded().map(|()| self.shape.is_some());
            }
            _ => return cut::walk(cursor, &mut self.matcher, level, self.cuts),
        }
        Ok(false)
    }

    fn labels(&mut self, cursor: &mut JsonCursor<'_>, level: Level) -> Result<bool, ObjectError> {
        let begin = cursor.at();
        let is_object = cursor.peek() == Some(b'{');
        let is_cut = cut::walk(cursor, &mut self.matcher, level, self.cuts)?;
        let stays = is_object && !is_cut;
        self.found.metadata.labels = if stays { begin..cursor.at() } else { 0..0 };
        Ok(is_cut)
    }
}

/// Notes whether apiVersion or kind has a value; returns whether the member is to be cut. An empty one is cut if there
/// is a value to insert: it counts as absent. So is a second one: readers disagree about which of two counts.
fn keep_first(has_value: &mut bool, value: Option<Text>, spliced: bool) -> bool {
    if *has_value {
        return true;
    }
    *has_value = value.is_some();
    value.is_none() && spliced
}

/// Skips a head field and returns it. `None` for null and for the empty string.
fn string_or_null(cursor: &mut JsonCursor<'_>, field: &'static str) -> Result<Option<Text>, ObjectError> {
    match cursor.peek() {
        Some(b'"') => cursor
            .string("a string")
            .map(|text| (text.start() < text.end()).then_some(text)),
        Some(byte @ (b'{' | b'[' | b'0'..=b'9' | b'-' | b't' | b'f')) => Err(ObjectError::NotAString {
            at: cursor.at(),
            field,
            found: FoundByte(byte),
        }),
        _ => cursor.skip_value().map(|()| None),
    }
}
