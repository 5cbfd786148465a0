//! Skipping an object or array, 64 bytes at a time.
//!
//! For each block, [`Outside`] gives the brackets outside of strings, and only these are examined one by one.

use super::masks::{BLOCK_BYTES, Block, Lanes, WithLanes, with_widest};
use super::outside::{Outside, Strings, padded};
use crate::error::{FoundByte, ObjectError};

/// Finds the end of an object or array, and resumes where it stopped if the text comes in pieces.
#[derive(Clone, Debug)]
pub(crate) struct EndFinder {
    /// Kinds of the open brackets, the innermost in the lowest bit: 1 for `{`, 0 for `[`. The bit above the outermost
    /// is 1.
    open: u128,
    /// `open` must be below this for the kind of another bracket to be kept.
    open_max: u128,
    /// Number of open brackets inside those: they are only counted.
    deep: usize,
    strings: Strings,
}

/// An invalid byte, at an offset into the fed text.
#[derive(Debug)]
pub(crate) enum Unbalanced {
    /// A closing bracket of the wrong kind.
    Mismatch { at: usize, found: u8 },
    /// A backslash outside of any string.
    Backslash { at: usize },
}

/// Why a walk stopped.
enum Stop {
    Unbalanced(Unbalanced),
    /// At a bracket deeper than kinds are kept.
    Deep,
}

/// No bracket is open.
pub(super) const NOTHING_OPEN: u128 = 1;

impl EndFinder {
    /// A finder that compares the kinds of the outer `kinds_max` nested brackets, at most 127, and counts deeper ones.
    pub(crate) fn new(kinds_max: usize) -> EndFinder {
        EndFinder::within(NOTHING_OPEN, 0, kinds_max)
    }

    /// A finder that starts inside the innermost `levels` of the `open` brackets, and finds the end of the outermost of
    /// these.
    pub(super) fn within(open: u128, levels: usize, kinds_max: usize) -> EndFinder {
        let outermost = NOTHING_OPEN << levels;
        EndFinder {
            open: open & (outermost - 1) | outermost,
            open_max: NOTHING_OPEN << kinds_max,
            deep: 0,
            strings: Strings::default(),
        }
    }

    /// Scans `text`, which begins with the opening bracket or continues where the last piece ended. Returns the
    /// offset just past the closing bracket, or `None` if it lies in a later piece.
    pub(crate) fn feed(&mut self, text: &[u8]) -> Result<Option<usize>, Unbalanced> {
        with_widest(Feed { finder: self, text })
    }

    /// Scans blocks from offset `base`. The first `length` bytes of each are text; the others are spaces.
    #[inline(always)]
    fn blocks<L: Lanes>(
        &mut self,
        lanes: L,
        blocks: &[Block],
        length: usize,
        base: usize,
    ) -> Result<Option<usize>, Unbalanced> {
        if self.deep > 0 {
            return self.deep_blocks(blocks, length, base);
        }
        match self.walk::<false, L>(lanes, blocks, length, base) {
            Err(Stop::Deep) => self.deep_blocks(blocks, length, base),
            Err(Stop::Unbalanced(unbalanced)) => Err(unbalanced),
            Ok(end) => Ok(end),
        }
    }

    /// As [`blocks`](Self::blocks), where brackets are nested deeper than kinds are kept. Apart from it, so that other
    /// text is scanned without a look at how deep it is.
    #[cold]
    fn deep_blocks(&mut self, blocks: &[Block], length: usize, base: usize) -> Result<Option<usize>, Unbalanced> {
        let finder = self;
        with_widest(DeepBlocks {
            finder,
            blocks,
            length,
            base,
        })
    }

    /// Without `DEEP`, stops at the first bracket whose kind cannot be kept, and changes nothing.
    #[inline(always)]
    fn walk<const DEEP: bool, L: Lanes>(
        &mut self,
        lanes: L,
        blocks: &[Block],
        length: usize,
        mut base: usize,
    ) -> Result<Option<usize>, Stop> {
        // In registers, not in memory: each block depends on the one before it.
        let EndFinder {
            mut open,
            open_max,
            mut deep,
            mut strings,
        } = *self;
        for block in blocks {
            let Outside {
                mut brackets, stray, ..
            } = strings.exclude(lanes.masks(block), length);
            while brackets != 0 {
                let bit = brackets.trailing_zeros() as usize % BLOCK_BYTES;
                brackets &= brackets - 1;
                // Of `{` 0x7b, `[` 0x5b, `}` 0x7d and `]` 0x5d, bit 1 is set if it opens and bit 5 if it is curly.
                let byte = block[bit];
                let curly = u128::from(byte >> 5 & 1);
                let opens = byte & 2 != 0;
                if DEEP && deep > 0 {
                    deep = if opens { deep + 1 } else { deep - 1 };
                    continue;
                }
                if opens {
                    if open >= open_max {
                        if !DEEP {
                            return Err(Stop::Deep);
                        }
                        deep = 1;
                        continue;
                    }
                    open = open << 1 | curly;
                    continue;
                }
                if open & 1 != curly {
                    return Err(Stop::Unbalanced(Unbalanced::Mismatch {
                        at: base + bit,
                        found: byte,
                    }));
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
            deep,
            strings,
        };
        Ok(None)
    }
}

/// See [`EndFinder::feed`].
struct Feed<'f, 't> {
    finder: &'f mut EndFinder,
    text: &'t [u8],
}

impl WithLanes for Feed<'_, '_> {
    type Output = Result<Option<usize>, Unbalanced>;

    #[inline(always)]
    fn with<L: Lanes>(self, lanes: L) -> Self::Output {
        let Feed { finder, text } = self;
        let (blocks, rest) = text.as_chunks::<BLOCK_BYTES>();
        if let Some(end) = finder.blocks(lanes, blocks, BLOCK_BYTES, 0)? {
            return Ok(Some(end));
        }
        if rest.is_empty() {
            return Ok(None);
        }
        finder.blocks(lanes, &[padded(rest)], rest.len(), blocks.len() * BLOCK_BYTES)
    }
}

/// See [`EndFinder::deep_blocks`].
struct DeepBlocks<'f, 't> {
    finder: &'f mut EndFinder,
    blocks: &'t [Block],
    length: usize,
    base: usize,
}

impl WithLanes for DeepBlocks<'_, '_> {
    type Output = Result<Option<usize>, Unbalanced>;

    #[inline(always)]
    fn with<L: Lanes>(self, lanes: L) -> Self::Output {
        let DeepBlocks {
            finder,
            blocks,
            length,
            base,
        } = self;
        match finder.walk::<true, L>(lanes, blocks, length, base) {
            Err(Stop::Unbalanced(unbalanced)) => Err(unbalanced),
            // Only a walk without `DEEP` stops there.
            Err(Stop::Deep) => Ok(None),
            Ok(end) => Ok(end),
        }
    }
}

/// Refuses backslashes outside of strings, given as a mask of the block at `base`.
#[inline]
fn no_backslash(stray: u64, base: usize) -> Result<(), Stop> {
    if stray == 0 {
        return Ok(());
    }
    Err(Stop::Unbalanced(Unbalanced::Backslash {
        at: base + stray.trailing_zeros() as usize,
    }))
}

impl Unbalanced {
    /// The error, with offsets counted from `base`, where the fed text began.
    #[cold]
    pub(crate) fn from(self, base: usize) -> ObjectError {
        match self {
            Unbalanced::Mismatch { at, found } => ObjectError::Syntax {
                at: base + at,
                expected: if found == b'}' { "`]`" } else { "`}`" },
                found: FoundByte(found),
            },
            Unbalanced::Backslash { at } => ObjectError::Syntax {
                at: base + at,
                expected: "a value, `,` or a bracket",
                found: FoundByte(b'\\'),
            },
        }
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::super::count::end_by_count;
    use super::*;

    /// The expected result, computed byte by byte.
    fn naive_end(text: &[u8], kinds_max: usize) -> Option<Result<usize, ()>> {
        let (mut open, mut deep, mut in_string, mut escaped) = (Vec::new(), 0, false, false);
        for (at, byte) in text.iter().enumerate() {
            match byte {
                _ if escaped => escaped = false,
                b'\\' if in_string => escaped = true,
                b'\\' => return Some(Err(())),
                b'"' => in_string = !in_string,
                _ if in_string => {}
                b'{' | b'[' if open.len() == kinds_max => deep += 1,
                b'{' | b'[' => open.push(*byte + 2),
                b'}' | b']' if deep > 0 => deep -= 1,
                b'}' | b']' if open.pop() != Some(*byte) => return Some(Err(())),
                b'}' | b']' if open.is_empty() => return Some(Ok(at + 1)),
                _ => {}
            }
        }
        None
    }

    fn found(pieces: &[&[u8]], kinds_max: usize) -> Option<Result<usize, ()>> {
        let mut finder = EndFinder::new(kinds_max);
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
            kinds_max in prop_oneof![Just(1usize), Just(3), Just(127)],
        ) {
            let text = [&b"{"[..], &inner].concat();
            let mut places: Vec<usize> = cuts.iter().map(|cut| cut.index(text.len() + 1)).collect();
            places.extend([0, text.len()]);
            places.sort_unstable();
            let pieces: Vec<&[u8]> = places.windows(2).map(|pair| &text[pair[0]..pair[1]]).collect();
            prop_assert_eq!(found(&pieces, kinds_max), naive_end(&text, kinds_max));
        }
    }

    /// `depth` levels of arrays and objects, with a bracket in a string and an empty array next to each few.
    fn nested(depth: usize) -> Vec<u8> {
        let mut text = Vec::new();
        for level in 0..depth {
            let open: &[u8] = match level % 5 {
                0 => b"{\"a\":",
                1 => b"[\"}\\\"]\",",
                2 => b"[[],",
                _ => b"[",
            };
            text.extend_from_slice(open);
        }
        text.push(b'1');
        for level in (0..depth).rev() {
            text.push(if level % 5 == 0 { b'}' } else { b']' });
        }
        text
    }

    #[test]
    fn text_of_any_depth_is_skipped_to_its_end() {
        for depth in [1, 126, 127, 128, 129, 5_000, 1_000_000] {
            let text = nested(depth);
            let end = text.len();
            let followed = [&text[..], b",[]}"].concat();
            assert_eq!(naive_end(&followed, 127), Some(Ok(end)));
            for pieces in [
                vec![&followed[..]],
                followed.chunks(100).collect(),
                followed.chunks(4_096).collect(),
            ] {
                assert_eq!(found(&pieces, 127), Some(Ok(end)), "{depth} levels");
            }
            assert_eq!(found(&[&text[..end - 1]], 127), None, "{depth} levels");
            assert_eq!(end_by_count(&followed[1..], 1), Some(end - 1), "{depth} levels");
        }
    }

    #[test]
    fn deep_text_may_be_cut_anywhere() {
        for depth in 126..=129 {
            let text = nested(depth);
            for at in 0..=text.len() {
                let (before, after) = text.split_at(at);
                assert_eq!(
                    found(&[before, after], 127),
                    Some(Ok(text.len())),
                    "{depth} levels, cut at {at}"
                );
            }
        }
    }

    #[test]
    fn kinds_are_compared_on_the_outer_levels_only() {
        let outer = "[".repeat(127);
        let closed = "]".repeat(127);
        let deep = format!("{outer}[}}{closed}");
        assert_eq!(found(&[deep.as_bytes()], 127), Some(Ok(deep.len())));
        let wrong = format!("{outer}[]}}{closed}");
        assert_eq!(found(&[wrong.as_bytes()], 127), Some(Err(())));
    }

    #[test]
    fn backslash_runs_escape_by_their_length_at_any_offset() {
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
