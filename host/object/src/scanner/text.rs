//! Strings: their ends and their values.

use std::borrow::Cow;
use std::num::NonZeroU32;

use wide::u8x16;

use crate::error::OBJECT_BYTES_MAX;

/// Position of a string in the text, without its quotes. Eight bytes, so that it fits a register: there is one for
/// every member's name.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Text {
    start: u32,
    /// Twice the end, plus one if the string contains a backslash.
    end_and_escaped: NonZeroU32,
}

impl Text {
    /// The string from `start`, after its opening quote, to its closing quote at `end`. `None` beyond
    /// [`OBJECT_BYTES_MAX`].
    #[inline(always)]
    pub(crate) fn new(start: usize, end: usize, escaped: bool) -> Option<Text> {
        if end > OBJECT_BYTES_MAX {
            return None;
        }
        let end_and_escaped = (end as u32) << 1 | u32::from(escaped);
        Some(Text {
            start: start as u32,
            end_and_escaped: NonZeroU32::new(end_and_escaped)?,
        })
    }

    #[inline(always)]
    pub(crate) fn start(self) -> usize {
        self.start as usize
    }

    /// One past the last byte: the offset of the closing quote.
    #[inline(always)]
    pub(crate) fn end(self) -> usize {
        (self.end_and_escaped.get() >> 1) as usize
    }

    /// Whether it contains a backslash.
    #[inline(always)]
    pub(crate) fn is_escaped(self) -> bool {
        self.end_and_escaped.get() & 1 == 1
    }

    /// The bytes as written.
    #[inline]
    pub(crate) fn raw(self, text: &[u8]) -> &[u8] {
        &text[self.start()..self.end()]
    }

    /// Whether the raw text is the value: no escapes, and no control characters, which JSON forbids.
    #[inline]
    pub(crate) fn is_plain(self, text: &[u8]) -> bool {
        // All bytes, without an early exit, so that the loop can be vectorized.
        let controls = self.raw(text).iter().fold(false, |any, byte| any | (*byte < b' '));
        !self.is_escaped() && !controls
    }

    /// The value of the string: borrowed, or owned if it contains escapes. `None` if it is not a valid JSON string (a
    /// wrong escape, a control character) or not UTF-8.
    pub(crate) fn decode<'a>(self, text: &'a [u8]) -> Option<Cow<'a, str>> {
        if self.is_escaped() {
            let quoted = &text[self.start() - 1..=self.end()];
            return serde_json::from_slice::<String>(quoted).ok().map(Cow::Owned);
        }
        if !self.is_plain(text) {
            return None;
        }
        std::str::from_utf8(self.raw(text)).ok().map(Cow::Borrowed)
    }

    /// As [`decode`](Self::decode), for text that is known to be UTF-8.
    pub(crate) fn decode_in<'a>(self, text: &'a str) -> Option<Cow<'a, str>> {
        if self.is_plain(text.as_bytes()) {
            return Some(Cow::Borrowed(&text[self.start()..self.end()]));
        }
        self.decode(text.as_bytes())
    }

    /// Whether the value of the string is `name`.
    #[inline]
    pub(crate) fn is(self, text: &[u8], name: &str) -> bool {
        if self.is_escaped() {
            return self.decode(text).is_some_and(|own| own == name);
        }
        self.raw(text) == name.as_bytes()
    }
}

/// Finds the closing quote of the string whose first byte (after the opening quote) is at `from`: its offset, and
/// whether the string contains a backslash. `None` if it is not closed.
#[inline]
pub(crate) fn end_of_string(text: &[u8], from: usize) -> Option<(usize, bool)> {
    let mut at = from;
    let mut escaped = false;
    loop {
        at = next_quote_or_backslash(text, at)?;
        if text[at] == b'"' {
            return Some((at, escaped));
        }
        escaped = true;
        at += 2;
    }
}

#[inline]
fn next_quote_or_backslash(text: &[u8], from: usize) -> Option<usize> {
    let mut at = from;
    while let Some(chunk) = text.get(at..).and_then(|rest| rest.first_chunk::<16>()) {
        let bytes = u8x16::new(*chunk);
        let hits = (bytes.simd_eq(u8x16::splat(b'"')) | bytes.simd_eq(u8x16::splat(b'\\'))).to_bitmask();
        if hits != 0 {
            return Some(at + hits.trailing_zeros() as usize);
        }
        at += 16;
    }
    let rest = text.get(at..)?;
    rest.iter()
        .position(|byte| matches!(byte, b'"' | b'\\'))
        .map(|offset| at + offset)
}
