//! The parts of a block outside of strings.
//!
//! Each block becomes four bit masks ([`Masks`]). Escaped quotes are removed, a running exclusive-or over the quotes
//! gives the bytes in strings, and brackets in them are ignored. The method is simdjson's (Langdale and Lemire,
//! "Parsing Gigabytes of JSON per Second", sections 3.1.1 and 3.1.2).

use super::masks::{BLOCK_BYTES, Block, Masks};

/// The string state that carries over to the next block.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Strings {
    /// All ones if the last byte was in a string, else zero.
    in_string: u64,
    /// 1 if the last byte was a backslash that escapes the next one.
    escapes_next: u64,
}

/// The masks of a block without its strings.
pub(super) struct Outside {
    pub(super) brackets: u64,
    pub(super) opening: u64,
    /// Backslashes, which are invalid there.
    pub(super) stray: u64,
}

/// The text's last block, filled up with spaces.
#[inline(always)]
pub(super) fn padded(rest: &[u8]) -> Block {
    let mut last = [b' '; BLOCK_BYTES];
    last[..rest.len()].copy_from_slice(rest);
    last
}

impl Strings {
    /// Removes strings from a block's masks. `length` is the number of bytes of the block that are text.
    #[inline(always)]
    pub(super) fn exclude(&mut self, masks: Masks, length: usize) -> Outside {
        let mut quotes = masks.quotes;
        if masks.backslashes | self.escapes_next != 0 {
            let escaped = escaped(masks.backslashes, self.escapes_next, length);
            quotes &= !escaped.bytes;
            self.escapes_next = escaped.next;
        }
        let strings = prefix_xor(quotes) ^ self.in_string;
        self.in_string = last_bit_everywhere(strings);
        Outside {
            brackets: masks.brackets & !strings,
            opening: masks.opening & !strings,
            stray: masks.backslashes & !strings,
        }
    }
}

/// Which bytes of a block a backslash escapes.
struct Escaped {
    bytes: u64,
    /// 1 if the next block's first byte is escaped.
    next: u64,
}

/// The bytes that a backslash before them escapes. `length` is the number of bytes of the block that are text.
#[inline]
fn escaped(backslashes: u64, escapes_next: u64, length: usize) -> Escaped {
    const ODD: u64 = 0xaaaa_aaaa_aaaa_aaaa;
    let starts = backslashes & !escapes_next;
    // The subtraction carries each run of backslashes to its end: the result shows whether its length is even or odd.
    let runs = (starts << 1 | ODD).wrapping_sub(starts) ^ ODD;
    let bytes = runs ^ (backslashes | escapes_next);
    Escaped {
        bytes,
        next: (runs & backslashes) >> (length - 1) & 1,
    }
}

/// Each bit becomes the exclusive-or of itself and all lower ones: ones from an opening quote up to its closing one.
#[inline]
fn prefix_xor(mut bits: u64) -> u64 {
    for shift in [1, 2, 4, 8, 16, 32] {
        bits ^= bits << shift;
    }
    bits
}

/// All ones if the highest bit is set, else zero.
#[inline]
fn last_bit_everywhere(bits: u64) -> u64 {
    0u64.wrapping_sub(bits >> 63)
}
