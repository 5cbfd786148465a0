//! The scanner: walks JSON text once, without building a tree.
//!
//! [`JsonCursor`] walks member by member through the objects that a caller needs; [`blocks`] skips the rest, 64 bytes
//! at a time, reading only brackets and strings. Together they read every byte once.
//!
//! Guarantees: no input makes it panic or loop; it never passes the end of the value at the position; every string is
//! closed, every bracket matches: by kind on the outer [`KINDS_DEPTH_MAX`] levels, deeper ones and those of discarded
//! values are counted. Depth costs neither stack nor memory. It does not check the grammar of numbers and escapes, nor
//! commas and colons in what it skips: a full parse of the object (in a guest) finds those errors.

mod blocks;
mod count;
mod masks;
mod outside;
mod text;

use std::ops::Range;

pub(crate) use blocks::EndFinder;
use blocks::NOTHING_OPEN;
use count::end_by_count;
pub(crate) use text::Text;

use crate::error::{FoundByte, KINDS_DEPTH_MAX, ObjectError};

/// A position in JSON text. Its methods move it over whole tokens and values.
#[derive(Clone, Debug)]
pub(crate) struct JsonCursor<'a> {
    text: &'a [u8],
    at: usize,
    /// Kinds of the objects and arrays that are open around the position, as [`EndFinder`] keeps them.
    open: u128,
    known_spans: KnownSpans,
    /// The text was scanned before: brackets match.
    checked: bool,
}

/// Where known values of the outermost object's members begin and end, so that they can be skipped.
pub(crate) type KnownSpans = [Range<usize>; 3];

/// Progress of a walk through one object or array.
#[derive(Clone, Debug)]
pub(crate) struct Walk {
    first: bool,
}

impl<'a> JsonCursor<'a> {
    pub(crate) fn new(text: &'a [u8]) -> JsonCursor<'a> {
        JsonCursor {
            text,
            at: 0,
            open: NOTHING_OPEN,
            known_spans: KnownSpans::default(),
            checked: false,
        }
    }

    /// A cursor over the text of an object that was scanned completely before.
    pub(crate) fn over_checked(text: &'a str, known_spans: KnownSpans) -> JsonCursor<'a> {
        JsonCursor {
            known_spans,
            checked: true,
            ..JsonCursor::new(text.as_bytes())
        }
    }

    /// Number of objects and arrays open at the position.
    pub(crate) fn depth(&self) -> usize {
        self.open.ilog2() as usize
    }

    pub(crate) fn at(&self) -> usize {
        self.at
    }

    pub(crate) fn text(&self) -> &'a [u8] {
        self.text
    }

    /// The byte at the position, if any is left.
    pub(crate) fn peek(&self) -> Option<u8> {
        self.text.get(self.at).copied()
    }

    /// Skips white space.
    #[inline(always)]
    pub(crate) fn skip_space(&mut self) {
        while let Some(b' ' | b'\n' | b'\r' | b'\t') = self.peek() {
            self.at += 1;
        }
    }

    /// Enters the object at the position; then [`next_member`](Self::next_member) iterates over it.
    pub(crate) fn enter_object(&mut self) -> Result<Walk, ObjectError> {
        self.enter(b'{', "an object")
    }

    /// Enters the array at the position; then [`next_element`](Self::next_element) iterates over it.
    pub(crate) fn enter_array(&mut self) -> Result<Walk, ObjectError> {
        self.enter(b'[', "an array")
    }

    fn enter(&mut self, bracket: u8, name: &'static str) -> Result<Walk, ObjectError> {
        self.expect(bracket, name, name)?;
        if self.depth() == KINDS_DEPTH_MAX {
            return Err(ObjectError::TooDeep { at: self.at - 1 });
        }
        self.open = self.open << 1 | u128::from(bracket == b'{');
        Ok(Walk { first: true })
    }

    /// Moves to the next member's value and returns its name, or past the object's end and returns `None`.
    /// The caller must have skipped the previous value.
    #[inline(always)]
    pub(crate) fn next_member(&mut self, walk: &mut Walk) -> Result<Option<Text>, ObjectError> {
        if !self.next_item(walk, b'}', "an object")? {
            return Ok(None);
        }
        self.member_name().map(Some)
    }

    /// Skips a member's name and colon, to its value.
    #[inline(always)]
    pub(crate) fn member_name(&mut self) -> Result<Text, ObjectError> {
        let name = self.string("a member name")?;
        self.skip_space();
        self.expect(b':', "`:`", "an object")?;
        self.skip_space();
        Ok(name)
    }

    /// Moves to the next element and returns true, or past the array's end and returns false.
    #[inline(always)]
    pub(crate) fn next_element(&mut self, walk: &mut Walk) -> Result<bool, ObjectError> {
        self.next_item(walk, b']', "an array")
    }

    #[inline(always)]
    fn next_item(&mut self, walk: &mut Walk, close: u8, within: &'static str) -> Result<bool, ObjectError> {
        self.skip_space();
        let first = std::mem::replace(&mut walk.first, false);
        match self.peek() {
            Some(byte) if byte == close => {
                self.at += 1;
                self.open >>= 1;
                Ok(false)
            }
            Some(_) if first => Ok(true),
            Some(b',') => {
                self.at += 1;
                self.skip_space();
                Ok(true)
            }
            Some(_) => self.refuse("`,` or a closing bracket"),
            None => self.truncated(within),
        }
    }

    /// Skips the string at the position.
    #[inline(always)]
    pub(crate) fn string(&mut self, expected: &'static str) -> Result<Text, ObjectError> {
        self.expect(b'"', expected, "an object")?;
        let start = self.at;
        let Some((end, escaped)) = text::end_of_string(self.text, start) else {
            self.at = self.text.len();
            return self.truncated("a string");
        };
        self.at = end + 1;
        match Text::new(start, end, escaped) {
            Some(text) => Ok(text),
            None => self.too_large(),
        }
    }

    /// Skips the value at the position, of any type.
    #[inline]
    pub(crate) fn skip_value(&mut self) -> Result<(), ObjectError> {
        match self.peek() {
            Some(b'"') => self.string("a value").map(drop),
            Some(b'{' | b'[') => self.skip_container(self.checked),
            Some(b'-' | b'0'..=b'9' | b't' | b'f' | b'n') => {
                self.skip_scalar();
                Ok(())
            }
            Some(_) => self.refuse("a value"),
            None => self.truncated("an object"),
        }
    }

    /// Skips the value at the position, which is discarded: of its content only the number of brackets is checked.
    pub(crate) fn skip_discarded(&mut self) -> Result<(), ObjectError> {
        match self.peek() {
            Some(b'{' | b'[') => self.skip_container(true),
            _ => self.skip_value(),
        }
    }

    fn skip_container(&mut self, by_count: bool) -> Result<(), ObjectError> {
        let known = self
            .known_spans
            .iter()
            .find(|span| span.start == self.at && !span.is_empty());
        if let Some(leap) = known.filter(|_| self.depth() == 1) {
            self.at = leap.end;
            return Ok(());
        }
        if by_count {
            return self.skip_by_count();
        }
        let finder = EndFinder::new(KINDS_DEPTH_MAX - self.depth());
        self.skip_to_end(finder)
    }

    fn skip_by_count(&mut self) -> Result<(), ObjectError> {
        let begin = self.at + 1;
        let closes = if self.text[self.at] == b'{' { b'}' } else { b']' };
        let Some(length) = end_by_count(&self.text[begin..], 1) else {
            self.at = self.text.len();
            return self.truncated("an object or array");
        };
        self.at = begin + length - 1;
        self.expect(closes, "the bracket that closes what is open", "an object or array")
    }

    /// Leaves objects and arrays, past their ends, until `depth` of them are open; at least the outermost stays open.
    /// The position must be between values.
    pub(crate) fn ascend(&mut self, depth: usize) -> Result<(), ObjectError> {
        debug_assert!(depth > 0, "nothing is read after the outermost object");
        let levels = self.depth() - depth;
        if levels == 0 {
            return Ok(());
        }
        let known = self
            .known_spans
            .iter()
            .find(|span| depth == 1 && span.contains(&self.at));
        if let Some(leap) = known {
            self.at = leap.end;
        } else if let Some(length) = self
            .checked
            .then(|| end_by_count(&self.text[self.at..], levels))
            .flatten()
        {
            self.at += length;
        } else {
            self.skip_to_end(EndFinder::within(self.open, levels, KINDS_DEPTH_MAX - depth))?;
        }
        self.open >>= levels;
        Ok(())
    }

    fn skip_to_end(&mut self, mut finder: EndFinder) -> Result<(), ObjectError> {
        match finder.feed(&self.text[self.at..]) {
            Ok(Some(length)) => {
                self.at += length;
                Ok(())
            }
            Ok(None) => {
                self.at = self.text.len();
                self.truncated("an object or array")
            }
            Err(error) => Err(error.from(self.at)),
        }
    }

    fn skip_scalar(&mut self) {
        while let Some(byte) = self.peek() {
            if matches!(byte, b',' | b'}' | b']' | b' ' | b'\n' | b'\r' | b'\t') {
                break;
            }
            self.at += 1;
        }
    }

    /// Skips white space up to the end of the text.
    pub(crate) fn expect_end(&mut self) -> Result<(), ObjectError> {
        self.skip_space();
        match self.peek() {
            None => Ok(()),
            Some(byte) => Err(ObjectError::Trailing {
                at: self.at,
                found: FoundByte(byte),
            }),
        }
    }

    #[inline(always)]
    fn expect(&mut self, byte: u8, expected: &'static str, within: &'static str) -> Result<(), ObjectError> {
        match self.peek() {
            Some(found) if found == byte => {
                self.at += 1;
                Ok(())
            }
            Some(_) => self.refuse(expected),
            None => self.truncated(within),
        }
    }

    #[cold]
    fn refuse<T>(&self, expected: &'static str) -> Result<T, ObjectError> {
        let found = FoundByte(self.text[self.at]);
        Err(ObjectError::Syntax {
            at: self.at,
            expected,
            found,
        })
    }

    #[cold]
    fn too_large<T>(&self) -> Result<T, ObjectError> {
        Err(ObjectError::TooLarge { bytes: self.text.len() })
    }

    #[cold]
    fn truncated<T>(&self, within: &'static str) -> Result<T, ObjectError> {
        Err(ObjectError::Truncated {
            at: self.text.len(),
            within,
        })
    }
}
