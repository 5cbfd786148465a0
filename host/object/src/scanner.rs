//! The scanner: walks JSON text once, without building anything.
//!
//! [`Cursor`] goes member by member through the objects a caller cares about; [`blocks`] leaps over the rest, 64 bytes
//! at a time, looking only at brackets and strings. Together they see every byte once.
//!
//! Promises: never panics and never loops, whatever the bytes; never passes the end of the value it stands on; every
//! string is closed, every bracket has its partner (but in what is thrown away, where they are counted), nothing is
//! nested deeper than [`DEPTH_MAX`]. Does not check the grammar of numbers and escapes, nor commas and colons in what
//! it leaps over: who parses an object in full (a guest) finds those.

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

use crate::error::{Found, ObjectError};

/// Most objects and arrays within each other. The same as serde_json's limit, so that what passes here a guest can
/// parse.
pub const DEPTH_MAX: usize = 127;

/// A position in JSON text. Its methods move it over whole tokens and values.
#[derive(Clone, Debug)]
pub(crate) struct Cursor<'a> {
    text: &'a [u8],
    at: usize,
    /// Kinds of the objects and arrays that are open around the position, as [`EndFinder`] keeps them.
    open: u128,
    leaps: Leaps,
    /// The text passed here before: brackets match.
    checked: bool,
}

/// Where values of the outermost object's members begin and end that are known already, to be leapt over.
pub(crate) type Leaps = [Range<usize>; 3];

/// How far a walk through one object or array has come.
#[derive(Clone, Debug)]
pub(crate) struct Walk {
    first: bool,
}

impl<'a> Cursor<'a> {
    pub(crate) fn new(text: &'a [u8]) -> Cursor<'a> {
        Cursor {
            text,
            at: 0,
            open: NOTHING_OPEN,
            leaps: Leaps::default(),
            checked: false,
        }
    }

    /// A cursor over the text of an object, all of which was walked over before.
    pub(crate) fn over_checked(text: &'a str, leaps: Leaps) -> Cursor<'a> {
        Cursor {
            leaps,
            checked: true,
            ..Cursor::new(text.as_bytes())
        }
    }

    /// How many objects and arrays are open around the position.
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

    /// Moves over white space.
    #[inline(always)]
    pub(crate) fn skip_space(&mut self) {
        while let Some(b' ' | b'\n' | b'\r' | b'\t') = self.peek() {
            self.at += 1;
        }
    }

    /// Enters the object the position stands on; then [`next_member`](Self::next_member) goes through it.
    pub(crate) fn enter_object(&mut self) -> Result<Walk, ObjectError> {
        self.enter(b'{', "an object")
    }

    /// Enters the array the position stands on; then [`next_element`](Self::next_element) goes through it.
    pub(crate) fn enter_array(&mut self) -> Result<Walk, ObjectError> {
        self.enter(b'[', "an array")
    }

    fn enter(&mut self, bracket: u8, name: &'static str) -> Result<Walk, ObjectError> {
        self.expect(bracket, name, name)?;
        if self.depth() == DEPTH_MAX {
            return Err(ObjectError::TooDeep { at: self.at - 1 });
        }
        self.open = self.open << 1 | u128::from(bracket == b'{');
        Ok(Walk { first: true })
    }

    /// Moves to the next member's value and returns its name, or past the object's end and returns `None`.
    /// The caller must have moved over the last value.
    #[inline(always)]
    pub(crate) fn next_member(&mut self, walk: &mut Walk) -> Result<Option<Text>, ObjectError> {
        if !self.next_item(walk, b'}', "an object")? {
            return Ok(None);
        }
        self.member_name().map(Some)
    }

    /// Moves over a member's name and colon, to its value.
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

    /// Moves over the string the position stands on.
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

    /// Moves over the value the position stands on, whatever it is.
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

    /// Moves over the value the position stands on, which nobody will read: of what it holds only the brackets' number
    /// is checked.
    pub(crate) fn skip_discarded(&mut self) -> Result<(), ObjectError> {
        match self.peek() {
            Some(b'{' | b'[') => self.skip_container(true),
            _ => self.skip_value(),
        }
    }

    fn skip_container(&mut self, by_count: bool) -> Result<(), ObjectError> {
        let known = self.leaps.iter().find(|leap| leap.start == self.at && !leap.is_empty());
        if let Some(leap) = known.filter(|_| self.depth() == 1) {
            self.at = leap.end;
            return Ok(());
        }
        if by_count {
            return self.leap_by_count();
        }
        let finder = EndFinder::new(DEPTH_MAX - self.depth());
        self.leap(finder)
    }

    fn leap_by_count(&mut self) -> Result<(), ObjectError> {
        let begin = self.at + 1;
        let closes = if self.text[self.at] == b'{' { b'}' } else { b']' };
        let Some(length) = end_by_count(&self.text[begin..], 1) else {
            self.at = self.text.len();
            return self.truncated("an object or array");
        };
        self.at = begin + length - 1;
        self.expect(closes, "the bracket that closes what is open", "an object or array")
    }

    /// Moves out of objects and arrays, past their ends, until `depth` of them are open; at least the outermost stays
    /// open. The position must be between values.
    pub(crate) fn ascend(&mut self, depth: usize) -> Result<(), ObjectError> {
        debug_assert!(depth > 0, "behind the outermost object nothing is read");
        let levels = self.depth() - depth;
        if levels == 0 {
            return Ok(());
        }
        let known = self.leaps.iter().find(|leap| depth == 1 && leap.contains(&self.at));
        if let Some(leap) = known {
            self.at = leap.end;
        } else if let Some(length) = self
            .checked
            .then(|| end_by_count(&self.text[self.at..], levels))
            .flatten()
        {
            self.at += length;
        } else {
            self.leap(EndFinder::within(self.open, levels, DEPTH_MAX - depth))?;
        }
        self.open >>= levels;
        Ok(())
    }

    fn leap(&mut self, mut finder: EndFinder) -> Result<(), ObjectError> {
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

    /// Moves over white space that ends the text.
    pub(crate) fn expect_end(&mut self) -> Result<(), ObjectError> {
        self.skip_space();
        match self.peek() {
            None => Ok(()),
            Some(byte) => Err(ObjectError::Trailing {
                at: self.at,
                found: Found(byte),
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
        let found = Found(self.text[self.at]);
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
