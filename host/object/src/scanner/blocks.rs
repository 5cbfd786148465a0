//! Leaping over an object or array, 64 bytes at a time.
//!
//! Each block becomes four bit masks (quotes, backslashes, opening and closing brackets). Escaped quotes are struck out, a
//! running exclusive-or over the quotes says which bytes lie in strings, and only brackets outside of strings are looked at one
//! by one. The method is simdjson's (Langdale and Lemire, "Parsing Gigabytes of JSON per Second", sections 3.1.1 and 3.1.2).

use wide::u8x16;

use crate::error::{Found, ObjectError};

const BLOCK_BYTES: usize = 64;

/// Finds the end of an object or array, and goes on where it stopped when the text comes in pieces.
#[derive(Clone, Debug)]
pub(crate) struct EndFinder {
    /// Kinds of the open brackets, the innermost in the lowest bit: 1 for `{`, 0 for `[`.
    open: u128,
    depth: usize,
    depth_max: usize,
    /// All ones if the last byte lay in a string, else zero.
    in_string: u64,
    /// 1 if the last byte was a backslash that escapes the next one.
    escapes_next: u64,
}

/// A wrong bracket, at an offset into what was fed.
#[derive(Debug)]
pub(crate) enum Unbalanced {
    /// A closing bracket of the wrong kind.
    Mismatch { at: usize, found: u8 },
    /// One bracket too deep.
    TooDeep { at: usize },
    /// A backslash outside of any string.
    Backslash { at: usize },
}

/// What one block of text holds, a bit per byte.
struct Masks {
    quotes: u64,
    backslashes: u64,
    opens: u64,
    closes: u64,
}

impl EndFinder {
    /// A finder that allows `depth_max` brackets within each other; at most 128.
    pub(crate) fn new(depth_max: usize) -> EndFinder {
        debug_assert!(depth_max <= 128, "one bit a level");
        EndFinder {
            open: 0,
            depth: 0,
            depth_max,
            in_string: 0,
            escapes_next: 0,
        }
    }

    /// Goes through `text`, which begins with the opening bracket or goes on where the last piece ended. Returns the offset
    /// just past the closing bracket, or `None` if it lies in a later piece.
    pub(crate) fn feed(&mut self, text: &[u8]) -> Result<Option<usize>, Unbalanced> {
        let (blocks, rest) = text.as_chunks::<BLOCK_BYTES>();
        for (number, block) in blocks.iter().enumerate() {
            if let Some(end) = self.block(block, BLOCK_BYTES, number * BLOCK_BYTES)? {
                return Ok(Some(end));
            }
        }
        if rest.is_empty() {
            return Ok(None);
        }
        let mut last = [b' '; BLOCK_BYTES];
        last[..rest.len()].copy_from_slice(rest);
        self.block(&last, rest.len(), blocks.len() * BLOCK_BYTES)
    }

    /// Goes through one block that lies at offset `base` and of which `length` bytes are text.
    #[inline]
    fn block(&mut self, block: &[u8; BLOCK_BYTES], length: usize, base: usize) -> Result<Option<usize>, Unbalanced> {
        let masks = Masks::of(block);
        let mut quotes = masks.quotes;
        if masks.backslashes | self.escapes_next != 0 {
            quotes &= !self.escaped(masks.backslashes, length);
        }
        let in_string = prefix_xor(quotes) ^ self.in_string;
        if masks.backslashes & !in_string != 0 {
            let at = base + (masks.backslashes & !in_string).trailing_zeros() as usize;
            return Err(Unbalanced::Backslash { at });
        }
        self.in_string = sign_of(in_string, length);
        self.brackets(block, masks.opens & !in_string, masks.closes & !in_string, base)
    }

    /// Follows the brackets of one block, given as masks.
    #[inline]
    fn brackets(
        &mut self,
        block: &[u8; BLOCK_BYTES],
        opens: u64,
        closes: u64,
        base: usize,
    ) -> Result<Option<usize>, Unbalanced> {
        let mut left = opens | closes;
        while left != 0 {
            let bit = left.trailing_zeros() as usize;
            let byte = block[bit];
            left &= left - 1;
            // `{` and `}` have the bit 0x20, `[` and `]` lack it.
            let kind = u128::from(byte >> 5 & 1);
            if opens >> bit & 1 == 1 {
                if self.depth == self.depth_max {
                    return Err(Unbalanced::TooDeep { at: base + bit });
                }
                self.open = self.open << 1 | kind;
                self.depth += 1;
                continue;
            }
            if self.depth == 0 || self.open & 1 != kind {
                return Err(Unbalanced::Mismatch {
                    at: base + bit,
                    found: byte,
                });
            }
            self.open >>= 1;
            self.depth -= 1;
            if self.depth == 0 {
                return Ok(Some(base + bit + 1));
            }
        }
        Ok(None)
    }

    /// The bytes that a backslash before them escapes. `length` says how many bytes of the block are text.
    fn escaped(&mut self, backslashes: u64, length: usize) -> u64 {
        const ODD: u64 = 0xaaaa_aaaa_aaaa_aaaa;
        let starts = backslashes & !self.escapes_next;
        // Subtracting lets each run of backslashes carry to its end: what is left says whether its length is even or odd.
        let runs = (starts << 1 | ODD).wrapping_sub(starts) ^ ODD;
        let escaped = runs ^ (backslashes | self.escapes_next);
        self.escapes_next = (runs & backslashes) >> (length - 1) & 1;
        escaped
    }
}

impl Masks {
    #[inline]
    fn of(block: &[u8; BLOCK_BYTES]) -> Masks {
        let mut masks = Masks {
            quotes: 0,
            backslashes: 0,
            opens: 0,
            closes: 0,
        };
        let (quarters, _) = block.as_chunks::<16>();
        for (number, quarter) in quarters.iter().enumerate() {
            let bytes = u8x16::new(*quarter);
            // With the bit 0x20 set, `[` is `{` and `]` is `}`; no other byte becomes one of them.
            let folded = bytes | u8x16::splat(0x20);
            let mask = |hits: u8x16| u64::from(hits.to_bitmask()) << (number * 16);
            masks.quotes |= mask(bytes.simd_eq(u8x16::splat(b'"')));
            masks.backslashes |= mask(bytes.simd_eq(u8x16::splat(b'\\')));
            masks.opens |= mask(folded.simd_eq(u8x16::splat(b'{')));
            masks.closes |= mask(folded.simd_eq(u8x16::splat(b'}')));
        }
        masks
    }
}

impl Unbalanced {
    /// The error, given where the fed text began.
    #[cold]
    pub(crate) fn from(self, base: usize) -> ObjectError {
        match self {
            Unbalanced::Mismatch { at, found } => ObjectError::Syntax {
                at: base + at,
                expected: if found == b'}' { "`]`" } else { "`}`" },
                found: Found(found),
            },
            Unbalanced::TooDeep { at } => ObjectError::TooDeep { at: base + at },
            Unbalanced::Backslash { at } => ObjectError::Syntax {
                at: base + at,
                expected: "a value, `,` or a bracket",
                found: Found(b'\\'),
            },
        }
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

/// All ones if bit `length - 1` is set, else zero.
#[inline]
fn sign_of(bits: u64, length: usize) -> u64 {
    0u64.wrapping_sub(bits >> (length - 1) & 1)
}
