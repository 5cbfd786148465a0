//! Finding an end by counting brackets without comparing their kinds: half the work of [`EndFinder`](super::EndFinder).

use super::masks::{BLOCK_BYTES, Lanes, WithLanes, with_widest};
use super::outside::{Outside, Strings, padded};

/// Finds the end of the outermost of the `levels` brackets that are open before `text`: the offset just past the
/// bracket that closes it, or `None` if the text ends before. For text that was checked before, and for discarded
/// values.
pub(super) fn end_by_count(text: &[u8], levels: usize) -> Option<usize> {
    debug_assert!(levels > 0, "something is open");
    with_widest(Count { text, levels })
}

/// See [`end_by_count`].
struct Count<'t> {
    text: &'t [u8],
    levels: usize,
}

impl WithLanes for Count<'_> {
    type Output = Option<usize>;

    #[inline(always)]
    fn with<L: Lanes>(self, lanes: L) -> Option<usize> {
        let (blocks, rest) = self.text.as_chunks::<BLOCK_BYTES>();
        let mut strings = Strings::default();
        let mut depth = self.levels;
        for (number, block) in blocks.iter().enumerate() {
            let outside = strings.exclude(lanes.masks(block), BLOCK_BYTES);
            if let Some(end) = outside.count(&mut depth) {
                return Some(number * BLOCK_BYTES + end);
            }
        }
        let outside = strings.exclude(lanes.masks(&padded(rest)), rest.len().max(1));
        Some(blocks.len() * BLOCK_BYTES + outside.count(&mut depth)?)
    }
}

impl Outside {
    /// Counts the brackets into `depth`; returns the offset after the bracket that makes it zero, if one does.
    #[inline(always)]
    fn count(self, depth: &mut usize) -> Option<usize> {
        let opening = self.opening.count_ones() as usize;
        let closing = self.brackets.count_ones() as usize - opening;
        if closing < *depth {
            *depth = *depth + opening - closing;
            return None;
        }
        let mut brackets = self.brackets;
        while brackets != 0 {
            let bit = brackets.trailing_zeros();
            brackets &= brackets - 1;
            if self.opening >> bit & 1 == 1 {
                *depth += 1;
                continue;
            }
            *depth -= 1;
            if *depth == 0 {
                return Some(bit as usize + 1);
            }
        }
        None
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    /// The expected result, computed byte by byte.
    fn naive(text: &[u8], levels: usize) -> Option<usize> {
        let (mut depth, mut in_string, mut escaped) = (levels, false, false);
        for (at, byte) in text.iter().enumerate() {
            // A backslash escapes quotes and backslashes; outside of strings it is invalid, and brackets keep their
            // meaning.
            let plain = !std::mem::take(&mut escaped);
            match byte {
                b'\\' => escaped = plain,
                b'"' if plain => in_string = !in_string,
                b'{' | b'[' if !in_string => depth += 1,
                b'}' | b']' if !in_string => depth -= 1,
                _ => {}
            }
            if depth == 0 {
                return Some(at + 1);
            }
        }
        None
    }

    proptest! {
        #![proptest_config(ProptestConfig::with_cases(2_000))]

        #[test]
        fn brackets_are_counted_outside_of_strings(
            text in prop::collection::vec(prop::sample::select(&b"{}[{}[]\"\"\\ab,:"[..]), 0..400),
            levels in 1..20usize,
        ) {
            prop_assert_eq!(end_by_count(&text, levels), naive(&text, levels));
        }
    }
}
