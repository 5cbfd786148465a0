//! Strings: where they end, and what they say.

use std::borrow::Cow;

use wide::u8x16;

/// Where a string stands in the text, without its quotes.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Text {
    pub(crate) start: usize,
    /// One past the last byte; the closing quote stands here.
    pub(crate) end: usize,
    /// Whether it holds a backslash.
    pub(crate) escaped: bool,
}

impl Text {
    /// The bytes as written.
    #[inline]
    pub(crate) fn raw<'a>(&self, text: &'a [u8]) -> &'a [u8] {
        &text[self.start..self.end]
    }

    /// Whether the string says what it shows: no escapes, and no control characters, which JSON forbids.
    #[inline]
    pub(crate) fn is_plain(&self, text: &[u8]) -> bool {
        !self.escaped && self.raw(text).iter().all(|byte| *byte >= b' ')
    }

    /// What the string says: borrowed, or owned if it holds escapes. `None` if it is no JSON string after all (a wrong escape, a
    /// control character) or not UTF-8.
    pub(crate) fn decode<'a>(&self, text: &'a [u8]) -> Option<Cow<'a, str>> {
        if self.escaped {
            let quoted = &text[self.start - 1..=self.end];
            return serde_json::from_slice::<String>(quoted).ok().map(Cow::Owned);
        }
        if !self.is_plain(text) {
            return None;
        }
        std::str::from_utf8(self.raw(text)).ok().map(Cow::Borrowed)
    }

    /// As [`decode`](Self::decode), of text that is known to be UTF-8.
    pub(crate) fn decode_in<'a>(&self, text: &'a str) -> Option<Cow<'a, str>> {
        if self.is_plain(text.as_bytes()) {
            return Some(Cow::Borrowed(&text[self.start..self.end]));
        }
        self.decode(text.as_bytes())
    }

    /// Whether the string says `name`.
    #[inline]
    pub(crate) fn is(&self, text: &[u8], name: &str) -> bool {
        if self.escaped {
            return self.decode(text).is_some_and(|own| own == name);
        }
        self.raw(text) == name.as_bytes()
    }
}

/// Finds the closing quote of the string whose first byte (after the opening quote) is at `from`: its offset, and whether the
/// string holds a backslash. `None` if it is not closed.
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
