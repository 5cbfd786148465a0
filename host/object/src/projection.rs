//! Projections: the part of an object that a plugin requested, in the object's own shape.

use std::sync::Arc;

use crate::error::ObjectError;
use crate::object::Object;
use crate::paths::{Child, Level, Matcher, PathSet};
use crate::pointer::{Pointer, PointerToken};
use crate::scanner::{JsonCursor, KnownSpans, Text, Walk};

/// Which fields of an object a document contains. Built once, used for each object.
///
/// The document has the object's own shape, so that the same struct parses whole and projected objects:
///
/// - `apiVersion` and `kind` are always included; absent fields are left out;
/// - an object or array on the way to a field is included if the original has it, even if nothing in it is;
/// - an array on the way keeps the number and order of its elements: an element without any included field is `{}`,
///   `[]` or, if it is neither object nor array, `null`;
/// - members keep their order; included values are copied byte for byte;
/// - if a name occurs twice in one object, which no API server sends, either occurrence may be included.
#[derive(Clone, Debug)]
pub struct Projection {
    pointers: Box<[Pointer]>,
    paths: PathSet,
}

impl Projection {
    /// A projection of what `pointers` name.
    #[must_use]
    pub fn new(pointers: &[Pointer]) -> Projection {
        let type_meta = ["/apiVersion", "/kind"].map(|text| Pointer::parse(text).expect("a pointer"));
        let paths = PathSet::new(pointers.iter().chain(&type_meta));
        Projection {
            pointers: pointers.into(),
            paths,
        }
    }

    /// What a head keeps ([`Object::to_head`]): metadata and `fields`.
    #[must_use]
    pub fn of_head(fields: &[Pointer]) -> Projection {
        let metadata = Pointer::parse("/metadata").expect("a pointer");
        let pointers: Vec<Pointer> = std::iter::once(metadata).chain(fields.iter().cloned()).collect();
        Projection::new(&pointers)
    }

    /// The included fields, apart from apiVersion and kind.
    #[must_use]
    pub fn pointers(&self) -> &[Pointer] {
        &self.pointers
    }

    /// Whether everything that `field` may point to is included.
    #[must_use]
    pub fn covers(&self, field: &Pointer) -> bool {
        let field = field.tokens();
        let is_type_meta = matches!(field, [PointerToken::Name(name)] if matches!(&**name, "apiVersion" | "kind"));
        let covers = |pointer: &Pointer| {
            let tokens = pointer.tokens();
            let mut both = tokens.iter().zip(field);
            tokens.len() <= field.len() && both.all(|(this, other)| *this == PointerToken::Any || this == other)
        };
        is_type_meta || self.pointers.iter().any(covers)
    }

    /// Appends the document for `text`, an object. If it is malformed on the path of a pointer, it is appended whole:
    /// its reader finds the same error, and nothing is silently missing.
    pub(crate) fn write(&self, text: &str, known_spans: KnownSpans, out: &mut Vec<u8>) {
        let before = out.len();
        let mut matcher = Matcher::new(&self.paths);
        let level = matcher.root();
        let mut writer = Writer {
            cursor: JsonCursor::over_checked(text, known_spans),
            matcher,
            out,
        };
        let written = writer.object(level);
        drop(writer);
        if written.is_err() {
            out.truncate(before);
            out.extend_from_slice(text.as_bytes());
        }
    }
}

/// How much of an object a plugin sees.
#[derive(Clone, Debug)]
pub enum Payload {
    /// Nothing: an empty document.
    None,
    /// apiVersion, kind and metadata.
    Metadata,
    /// apiVersion, kind and some fields.
    Fields(Arc<Projection>),
    /// Everything.
    Whole,
}

impl Payload {
    /// apiVersion, kind and what `pointers` name.
    #[must_use]
    pub fn fields(pointers: &[Pointer]) -> Payload {
        Payload::Fields(Arc::new(Projection::new(pointers)))
    }

    /// Appends the JSON document of this part of `object`.
    pub fn write(&self, object: &Object, out: &mut Vec<u8>) {
        match self {
            Payload::None => {}
            Payload::Metadata => write_metadata(object, out),
            Payload::Fields(projection) => object.project(projection, out),
            Payload::Whole => out.extend_from_slice(object.json()),
        }
    }
}

/// Uses only the head, without a scan.
fn write_metadata(object: &Object, out: &mut Vec<u8>) {
    out.push(b'{');
    for (name, value) in [("\"apiVersion\":", object.api_version()), ("\"kind\":", object.kind())] {
        if !value.is_empty() {
            out.extend_from_slice(name.as_bytes());
            serde_json::to_writer(&mut *out, &*value).expect("a string is JSON, and a Vec takes it");
            out.push(b',');
        }
    }
    out.extend_from_slice(b"\"metadata\":");
    out.extend_from_slice(object.metadata().as_bytes());
    out.push(b'}');
}

/// Up to this many names of one object are tracked by one bit each; beyond it, each member is looked up.
const NAMES_MAX: usize = 64;

/// Copies the projected part of one object.
struct Writer<'a> {
    cursor: JsonCursor<'a>,
    matcher: Matcher<'a>,
    out: &'a mut Vec<u8>,
}

impl Writer<'_> {
    /// Skips the value at the cursor and writes the part that `level` includes. Returns whether anything was written.
    fn value(&mut self, level: Level) -> Result<bool, ObjectError> {
        if self.matcher.ends(level) {
            let start = self.cursor.at();
            self.cursor.skip_value()?;
            self.out.extend_from_slice(&self.cursor.text()[start..self.cursor.at()]);
            return Ok(true);
        }
        match self.cursor.peek() {
            Some(b'{') => self.object(level)?,
            Some(b'[') => self.array(level)?,
            _ => {
                self.cursor.skip_value()?;
                return Ok(false);
            }
        }
        Ok(true)
    }

    fn object(&mut self, level: Level) -> Result<(), ObjectError> {
        let members = self.cursor.enter_object()?;
        self.out.push(b'{');
        match self.matcher.names(level) {
            Some(names) if names.len() <= NAMES_MAX => self.named_members(members, names)?,
            _ => self.members(members, level)?,
        }
        self.out.push(b'}');
        Ok(())
    }

    /// Writes the members with these names, each once. When all are found, the rest is skipped: most members of an
    /// object are never compared by name.
    fn named_members(&mut self, mut members: Walk, names: &[Child]) -> Result<(), ObjectError> {
        let opened = self.out.len();
        let mut missing = (0..names.len()).fold(0u64, |missing, number| missing | 1 << number);
        while let Some(name) = self.cursor.next_member(&mut members)? {
            let text = self.cursor.text();
            let mut unseen = names
                .iter()
                .enumerate()
                .filter(|(number, _)| missing >> number & 1 == 1);
            let Some((number, _)) = unseen.find(|(_, child)| name.is(text, &child.name)) else {
                self.cursor.skip_value()?;
                continue;
            };
            missing &= !(1 << number);
            let below = self.matcher.child(&names[number]);
            self.member(name, below, opened)?;
            if missing == 0 {
                // Nothing is read after the outermost object.
                let around = self.cursor.depth() - 1;
                return if around > 0 { self.cursor.ascend(around) } else { Ok(()) };
            }
        }
        Ok(())
    }

    /// Writes the members that `level` includes, where a `*` can include any.
    fn members(&mut self, mut members: Walk, level: Level) -> Result<(), ObjectError> {
        let opened = self.out.len();
        while let Some(name) = self.cursor.next_member(&mut members)? {
            let below = self.matcher.member(level, name, self.cursor.text());
            if below.is_empty() {
                self.cursor.skip_value()?;
            } else {
                self.member(name, below, opened)?;
            }
        }
        Ok(())
    }

    /// Writes one member of the object whose members are written from `opened` on, if any part of it is included.
    fn member(&mut self, name: Text, below: Level, opened: usize) -> Result<(), ObjectError> {
        let before = self.out.len();
        if before > opened {
            self.out.push(b',');
        }
        self.out
            .extend_from_slice(&self.cursor.text()[name.start() - 1..=name.end()]);
        self.out.push(b':');
        if !self.value(below)? {
            self.out.truncate(before);
        }
        self.matcher.leave(below);
        Ok(())
    }

    fn array(&mut self, level: Level) -> Result<(), ObjectError> {
        let mut elements = self.cursor.enter_array()?;
        self.out.push(b'[');
        let mut index = 0;
        while self.cursor.next_element(&mut elements)? {
            if index > 0 {
                self.out.push(b',');
            }
            let below = self.matcher.element(level, index);
            self.element(below)?;
            self.matcher.leave(below);
            index += 1;
        }
        self.out.push(b']');
        Ok(())
    }

    /// Writes one array element, or its placeholder.
    fn element(&mut self, level: Level) -> Result<(), ObjectError> {
        if !level.is_empty() {
            if !self.value(level)? {
                self.out.extend_from_slice(b"null");
            }
            return Ok(());
        }
        let placeholder: &[u8] = match self.cursor.peek() {
            Some(b'{') => b"{}",
            Some(b'[') => b"[]",
            _ => b"null",
        };
        self.out.extend_from_slice(placeholder);
        self.cursor.skip_value()
    }
}
