//! Assembling an [`Object`]: one scan, one copy, one allocation.

use std::cell::RefCell;
use std::ops::Range;

use triomphe::{Arc, HeaderSlice};

use super::{Head, Object, ShortSpan, Span};
use crate::cut::Cuts;
use crate::digest::push_digest;
use crate::error::{OBJECT_BYTES_MAX, ObjectError};
use crate::head::{HeadScan, ObjectHead, RawHead};
use crate::scanner::{JsonCursor, Text};
use crate::shape::Shape;

/// Capacity of the buffers for assembling an object that each thread keeps for the next one, in bytes. Larger buffers
/// are freed.
pub const SCRATCH_BYTES_MAX: usize = 1 << 20;

thread_local! {
    static SCRATCH: RefCell<Scratch> = const { RefCell::new(Scratch { cuts: Cuts::new(), text: String::new() }) };
}

/// Temporary buffers for assembling an object. Each thread keeps them, so that an object costs one allocation, not
/// three.
#[derive(Default)]
struct Scratch {
    cuts: Cuts,
    text: String,
}

/// One object being assembled.
struct Assembly<'a> {
    source: &'a [u8],
    /// Where the object begins and ends in `source`.
    range: Range<usize>,
    cuts: &'a Cuts,
    api_version: Option<&'a str>,
    kind: Option<&'a str>,
    /// The new text: JSON, then head fields that had to be unescaped.
    out: &'a mut String,
}

/// An object whose text was scanned, not copied.
struct Scanned {
    head: RawHead,
    /// Where it begins and ends in the text.
    range: Range<usize>,
}

/// The result of reading the object at the beginning of a text.
pub(crate) enum PrefixObject {
    /// The object was wanted.
    Object(Object),
    /// The object was not wanted.
    Unwanted,
}

/// Reads the object that `json` holds. See [`Object::parse`].
pub(super) fn assemble(json: &[u8], shape: &Shape) -> Result<Object, ObjectError> {
    with_scratch(|scratch| {
        let mut cursor = JsonCursor::new(json);
        let scanned = scratch.scan(&mut cursor, shape)?;
        cursor.expect_end()?;
        scratch.build(json, &scanned, shape)
    })
}

/// Reads the object at the beginning of `text` in one scan and ignores what follows it; copies it only if its head is
/// `wanted`. Also returns its end.
pub(crate) fn parse_prefix(
    text: &[u8],
    shape: &Shape,
    wanted: impl FnOnce(&ObjectHead<'_>) -> bool,
) -> Result<(PrefixObject, usize), ObjectError> {
    with_scratch(|scratch| {
        let mut cursor = JsonCursor::new(text);
        let scanned = scratch.scan(&mut cursor, shape)?;
        let end = cursor.at();
        if !wanted(&scanned.head.metadata.borrow(text)?) {
            return Ok((PrefixObject::Unwanted, end));
        }
        let object = scratch.build(&text[..end], &scanned, shape)?;
        Ok((PrefixObject::Object(object), end))
    })
}

/// Works in place. Moving the buffers out of the thread-local and back would read just-written bytes in other widths,
/// and the processor would stall until the whole object is in its cache.
fn with_scratch<T>(work: impl FnOnce(&mut Scratch) -> T) -> T {
    SCRATCH.with(|scratch| match scratch.try_borrow_mut() {
        Ok(mut scratch) => {
            let result = work(&mut scratch);
            scratch.clear();
            result
        }
        // `wanted` itself reads another object.
        Err(_) => work(&mut Scratch::default()),
    })
}

/// A piece of `source` as text. Pieces begin and end at tokens, so that none splits a character.
fn text(source: &[u8], piece: Range<usize>) -> Result<&str, ObjectError> {
    let begin = piece.start;
    let bytes = &source[piece];
    simdutf8::basic::from_utf8(bytes).map_err(|_| not_utf8(bytes, begin))
}

/// Where `bytes`, at offset `begin`, stop being UTF-8.
#[cold]
fn not_utf8(bytes: &[u8], begin: usize) -> ObjectError {
    let valid = std::str::from_utf8(bytes).map_or_else(|error| error.valid_up_to(), str::len);
    ObjectError::NotUtf8 { at: begin + valid }
}

impl Scratch {
    /// Finds head, cuts and end of the object after the cursor.
    fn scan(&mut self, cursor: &mut JsonCursor<'_>, shape: &Shape) -> Result<Scanned, ObjectError> {
        cursor.skip_space();
        let start = cursor.at();
        self.cuts.push(0..start);
        let mut scan = HeadScan::new(Some(shape), &mut self.cuts);
        scan.object(cursor)?;
        Ok(Scanned {
            head: scan.found,
            range: start..cursor.at(),
        })
    }

    /// Copies what was scanned.
    fn build(&mut self, json: &[u8], scanned: &Scanned, shape: &Shape) -> Result<Object, ObjectError> {
        let Scanned { head, range } = scanned;
        if json.len() > OBJECT_BYTES_MAX {
            return Err(ObjectError::TooLarge { bytes: json.len() });
        }
        if head.metadata.name.is_none() {
            return Err(ObjectError::NoName);
        }
        let assembly = Assembly {
            source: json,
            range: range.clone(),
            cuts: &self.cuts,
            api_version: shape.splice_api_version().filter(|_| !head.has_api_version),
            kind: shape.splice_kind().filter(|_| !head.has_kind),
            out: &mut self.text,
        };
        assembly.finish(head).map(Object)
    }

    fn clear(&mut self) {
        self.cuts.clear();
        self.text.clear();
        if self.text.capacity() + self.cuts.capacity_bytes() > SCRATCH_BYTES_MAX {
            *self = Scratch::default();
        }
    }
}

impl Assembly<'_> {
    fn finish(mut self, raw: &RawHead) -> Result<Arc<HeaderSlice<Head, str>>, ObjectError> {
        let as_it_is = self.cuts.is_empty() && self.spliced_bytes() == 0 && !raw.holds_escapes();
        if as_it_is {
            let text = text(self.source, self.range.clone())?;
            let head = self.head(text.len(), raw)?;
            return Ok(Arc::from_header_and_str(head, text));
        }
        self.copy()?;
        let head = self.head(self.out.len(), raw)?;
        Ok(Arc::from_header_and_str(head, self.out))
    }

    fn spliced_bytes(&self) -> usize {
        [self.api_version, self.kind].into_iter().flatten().map(str::len).sum()
    }

    /// Copies the kept parts of the object, with digests, and inserts the splices after its opening brace. An object
    /// always keeps a member (metadata), so the splices' trailing commas are correct. Cut parts are not checked: they
    /// may not be UTF-8.
    fn copy(&mut self) -> Result<(), ObjectError> {
        self.out.reserve(self.spliced_bytes() + self.range.len());
        self.out.push('{');
        for splice in [self.api_version, self.kind].into_iter().flatten() {
            self.out.push_str(splice);
        }
        let mut from = self.range.start + 1;
        for cut in self.cuts.iter() {
            if cut.range.start > from {
                self.out.push_str(text(self.source, from..cut.range.start)?);
            }
            if cut.has_digest {
                push_digest(&self.source[cut.range.clone()], self.out);
            }
            from = from.max(cut.range.end);
        }
        self.out.push_str(text(self.source, from..self.range.end)?);
        Ok(())
    }

    fn head(&mut self, json_bytes: usize, raw: &RawHead) -> Result<Head, ObjectError> {
        let metadata = &raw.metadata;
        Ok(Head {
            json_bytes: narrow(json_bytes),
            namespace: self.field(metadata.namespace, "metadata.namespace")?,
            name: self.field(metadata.name, "metadata.name")?,
            uid: self.field(metadata.uid, "metadata.uid")?,
            version: self.field(metadata.version, "metadata.resourceVersion")?,
            metadata: self.moved(metadata.span.clone()),
            labels: self.moved(metadata.labels.clone()),
            spec: self.moved(raw.spec.clone()),
            status: self.moved(raw.status.clone()),
        })
    }

    /// Where a head field is in the result; one that contains escapes is appended to it first.
    fn field(&mut self, text: Option<Text>, field: &'static str) -> Result<ShortSpan, ObjectError> {
        let Some(text) = text else {
            return Ok(ShortSpan::default());
        };
        if text.is_plain(self.source) {
            return ShortSpan::of(self.moved(text.start()..text.end()), field);
        }
        let decoded = text.decode(self.source).ok_or(ObjectError::BadEscape {
            at: text.start(),
            field,
        })?;
        let start = self.out.len();
        self.out.push_str(&decoded);
        ShortSpan::of(Span::new(start..self.out.len()), field)
    }

    /// Where a piece of the source is in the result. The empty range means "absent".
    fn moved(&self, piece: Range<usize>) -> Span {
        if piece.is_empty() {
            return Span::default();
        }
        let moved = |at: usize| self.cuts.moved(at) + self.spliced_bytes();
        Span::new(moved(piece.start)..moved(piece.end))
    }
}

impl Span {
    fn new(range: Range<usize>) -> Span {
        Span {
            start: narrow(range.start),
            bytes: narrow(range.len()),
        }
    }
}

impl ShortSpan {
    fn of(Span { start, bytes }: Span, field: &'static str) -> Result<ShortSpan, ObjectError> {
        match u16::try_from(bytes) {
            Ok(bytes) => Ok(ShortSpan { start, bytes }),
            Err(_) => Err(ObjectError::FieldTooLong { field, bytes }),
        }
    }
}

/// Positions fit: the source has at most [`OBJECT_BYTES_MAX`] bytes, decoding and splicing do not double it, and
/// digests make the text at most 40 times as long.
fn narrow(position: usize) -> u32 {
    u32::try_from(position).expect("objects are far shorter than 4 GiB")
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::error::HEAD_FIELD_BYTES_MAX;

    fn of_name(bytes: usize) -> Result<Object, ObjectError> {
        let name = "n".repeat(bytes);
        let json = format!(r#"{{"apiVersion":"v1","kind":"Pod","metadata":{{"name":"{name}"}}}}"#);
        Object::parse(json.as_bytes(), &Shape::verbatim())
    }

    #[test]
    fn longest_name_is_read_and_a_longer_one_refused() {
        assert_eq!(
            of_name(HEAD_FIELD_BYTES_MAX).unwrap().name().len(),
            HEAD_FIELD_BYTES_MAX
        );
        let error = of_name(HEAD_FIELD_BYTES_MAX + 1).unwrap_err();
        insta::assert_snapshot!(error, @"metadata.name has 65536 bytes, more than 65535");
    }
}
