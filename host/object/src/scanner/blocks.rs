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
    /// Kinds of the open brackets, the innermost in the lowest bit: 1 for `{`, 0 for `[`. Above the outermost stands a 1.
    open: u128,
    /// What `open` must stay below, for another bracket to be opened.
    open_max: u128,
    /// All ones if the last byte lay in a string, else zero.
    in_string: u64,
    /// 1 if the last byte was a backslash that escapes the next one.
    escapes_next: u64,
}

/// A wrong byte, at an offset into what was fed.
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
    brackets: u64,
}

/// No bracket is open.
pub(super) const NOTHING_OPEN: u128 = 1;

impl EndFinder {
    /// A finder that allows `depth_max` brackets within each other; at most 127.
    pub(crate) fn new(depth_max: usize) -> EndFinder {
        EndFinder::within(NOTHING_OPEN, 0, depth_max)
    }

    /// A finder that goes on within the innermost `levels` of what is `open`, and finds the end of the outermost of these.
    pub(super) fn within(open: u128, levels: usize, depth_max: usize) -> EndFinder {
        let outermost = NOTHING_OPEN << levels;
        EndFinder {
            open: open & (outermost - 1) | outermost,
            open_max: NOTHING_OPEN << depth_max,
            in_string: 0,
            escapes_next: 0,
        }
    }

    /// Goes through `text`, which begins with the opening bracket or goes on where the last piece ended. Returns the offset
    /// just past the closing bracket, or `None` if it lies in a later piece.
    pub(crate) fn feed(&mut self, text: &[u8]) -> Result<Option<usize>, Unbalanced> {
        let (blocks, rest) = text.as_chunks::<BLOCK_BYTES>();
        if let Some(end) = self.blocks(blocks, BLOCK_BYTES, 0)? {
            return Ok(Some(end));
        }
        if rest.is_empty() {
            return Ok(None);
        }
        let mut last = [b' '; BLOCK_BYTES];
        last[..rest.len()].copy_from_slice(rest);
        self.blocks(&[last], rest.len(), blocks.len() * BLOCK_BYTES)
    }

    /// Goes through blocks that lie at offset `base`. Of each `length` bytes are text; the others are spaces.
    fn blocks(
        &mut self,
        blocks: &[[u8; BLOCK_BYTES]],
        length: usize,
        mut base: usize,
    ) -> Result<Option<usize>, Unbalanced> {
        // In registers, not in memory: each block waits for the one before it.
        let EndFinder {
            mut open,
            open_max,
            mut in_string,
            mut escapes_next,
        } = *self;
        for block in blocks {
            let masks = Masks::of(block);
            let mut quotes = masks.quotes;
            if masks.backslashes | escapes_next != 0 {
                let escaped = escaped(masks.backslashes, escapes_next, length);
                quotes &= !escaped.bytes;
                escapes_next = escaped.next;
            }
            let strings = prefix_xor(quotes) ^ in_string;
            in_string = last_bit_everywhere(strings);
            let stray = masks.backslashes & !strings;
            let mut brackets = masks.brackets & !strings;
            while brackets != 0 {
                let bit = brackets.trailing_zeros() as usize % BLOCK_BYTES;
                brackets &= brackets - 1;
                // Of `{` 0x7b, `[` 0x5b, `}` 0x7d and `]` 0x5d, bit 1 says whether it opens and bit 5 whether it is curly.
                let byte = block[bit];
                let curly = u128::from(byte >> 5 & 1);
                if byte & 2 != 0 {
                    if open >= open_max {
                        return Err(Unbalanced::TooDeep { at: base + bit });
                    }
                    open = open << 1 | curly;
                    continue;
                }
                if open & 1 != curly {
                    return Err(Unbalanced::Mismatch {
                        at: base + bit,
                        found: byte,
                    });
                }
                open >>= 1;
                if open == NOTHING_OPEN {
                    let before = (1 << bit) - 1;
                    return no_backslash(stray & before, base).map(|()| Some(base + bit + 1));
                }
            }
            no_backslash(stray, base)?;
            base += BLOCK_BYTES;
        }
        *self = EndFinder {
            open,
            open_max,
            in_string,
            escapes_next,
        };
        Ok(None)
    }
}

/// Which bytes of a block a backslash escapes.
struct Escaped {
    bytes: u64,
    /// 1 if the next block's first byte is escaped.
    next: u64,
}

/// The bytes that a backslash before them escapes. `length` says how many bytes of the block are text.
#[inline]
fn escaped(backslashes: u64, escapes_next: u64, length: usize) -> Escaped {
    const ODD: u64 = 0xaaaa_aaaa_aaaa_aaaa;
    let starts = backslashes & !escapes_next;
    // Subtracting lets each run of backslashes carry to its end: what is left says whether its length is even or odd.
    let runs = (starts << 1 | ODD).wrapping_sub(starts) ^ ODD;
    let bytes = runs ^ (backslashes | escapes_next);
    Escaped {
        bytes,
        next: (runs & backslashes) >> (length - 1) & 1,
    }
}

/// Refuses backslashes outside of strings, given as a mask of the block at `base`.
#[inline]
fn no_backslash(stray: u64, base: usize) -> Result<(), Unbalanced> {
    if stray == 0 {
        return Ok(());
    }
    Err(Unbalanced::Backslash {
        at: base + stray.trailing_zeros() as usize,
    })
}

impl Masks {
    #[inline(always)]
    fn of(block: &[u8; BLOCK_BYTES]) -> Masks {
        let mut masks = Masks {
            quotes: 0,
            backslashes: 0,
            brackets: 0,
        };
        let (quarters, _) = block.as_chunks::<16>();
        let mut any_backslash = u8x16::ZERO;
        for (number, quarter) in quarters.iter().enumerate() {
            let bytes = u8x16::new(*quarter);
            // With the bit 0x20 set, `[` is `{` and `]` is `}`; no other byte becomes one of them.
            let folded = bytes | u8x16::splat(0x20);
            let mask = |hits: u8x16| u64::from(hits.to_bitmask()) << (number * 16);
            masks.quotes |= mask(bytes.simd_eq(u8x16::splat(b'"')));
            masks.brackets |= mask(folded.simd_eq(u8x16::splat(b'{')) | folded.simd_eq(u8x16::splat(b'}')));
            any_backslash |= bytes.simd_eq(u8x16::splat(b'\\'));
        }
        // Backslashes are rare: where they are is only asked for when there are any.
        if any_backslash.to_bitmask() != 0 {
            for (number, quarter) in quarters.iter().enumerate() {
                let hits = u8x16::new(*quarter).simd_eq(u8x16::splat(b'\\'));
                masks.backslashes |= u64::from(hits.to_bitmask()) << (number * 16);
            }
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

/// All ones if the highest bit is set, else zero.
#[inline]
fn last_bit_everywhere(bits: u64) -> u64 {
    0u64.wrapping_sub(bits >> 63)
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    /// What the finder must find, byte by byte.
    fn naive_end(text: &[u8], depth_max: usize) -> Option<Result<usize, ()>> {
        let (mut open, mut in_string, mut escaped) = (Vec::new(), false, false);
        for (at, byte) in text.iter().enumerate() {
            match byte {
                _ if escaped => escaped = false,
                b'\\' if in_string => escaped = true,
                b'\\' => return Some(Err(())),
                b'"' => in_string = !in_string,
                _ if in_string => {}
                b'{' | b'[' if open.len() == depth_max => return Some(Err(())),
                b'{' | b'[' => open.push(*byte + 2),
                b'}' | b']' if open.pop() != Some(*byte) => return Some(Err(())),
                b'}' | b']' if open.is_empty() => return Some(Ok(at + 1)),
                _ => {}
            }
        }
        None
    }

    fn found(pieces: &[&[u8]], depth_max: usize) -> Option<Result<usize, ()>> {
        let mut finder = EndFinder::new(depth_max);
        let mut before = 0;
        for piece in pieces {
            match finder.feed(piece) {
                Ok(None) => before += piece.len(),
                Ok(Some(end)) => return Some(Ok(before + end)),
                Err(_) => return Some(Err(())),
            }
        }
        None
    }

    proptest! {
        #![proptest_config(ProptestConfig::with_cases(2_000))]

        #[test]
        fn the_end_is_found_wherever_the_text_is_cut(
            inner in prop::collection::vec(prop::sample::select(&b"{}[]{}[]\"\"\\ab,:"[..]), 0..400),
            cuts in prop::collection::vec(any::<prop::sample::Index>(), 0..6),
            depth_max in prop_oneof![Just(3usize), Just(127)],
        ) {
            let text = [&b"{"[..], &inner].concat();
            let mut places: Vec<usize> = cuts.iter().map(|cut| cut.index(text.len() + 1)).collect();
            places.extend([0, text.len()]);
            places.sort_unstable();
            let pieces: Vec<&[u8]> = places.windows(2).map(|pair| &text[pair[0]..pair[1]]).collect();
            prop_assert_eq!(found(&pieces, depth_max), naive_end(&text, depth_max));
        }
    }

    #[test]
    fn a_run_of_backslashes_escapes_by_its_length_wherever_it_lies() {
        for before in 0..130 {
            for run in 0..70 {
                let text = format!("[{}\"{}\"]", " ".repeat(before), "\\".repeat(run));
                let closed = run.is_multiple_of(2);
                assert_eq!(
                    found(&[text.as_bytes()], 8),
                    closed.then_some(Ok(text.len())),
                    "{before} {run}"
                );
            }
        }
    }
}
