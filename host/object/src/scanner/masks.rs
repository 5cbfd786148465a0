//! Where quotes, backslashes and brackets are in 64 bytes: a bit mask each.
//!
//! Three implementations, by what the processor has: 512, 256 or 128 bits at a time. The choice is made at run time, so
//! that one binary supports every machine.

#[cfg(target_arch = "x86_64")]
use pulp::x86::{V3, V4};
use wide::u8x16;

pub(super) const BLOCK_BYTES: usize = 64;

pub(super) type Block = [u8; BLOCK_BYTES];

/// Masks of one block of text, one bit per byte, the first byte in the lowest bit.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Masks {
    pub(super) quotes: u64,
    pub(super) backslashes: u64,
    /// All four brackets.
    pub(super) brackets: u64,
    /// Those of them that open.
    pub(super) opening: u64,
}

/// An implementation that computes the masks.
pub(super) trait Lanes: Copy {
    /// The masks of `block`.
    fn masks(self, block: &Block) -> Masks;
}

/// Work to be done with the widest lanes available.
pub(super) trait WithLanes {
    type Output;

    /// Does the work. Must be inlined, so that it is compiled for these lanes.
    fn with<L: Lanes>(self, lanes: L) -> Self::Output;
}

/// Does `work` with the widest lanes that this processor has.
#[inline]
pub(super) fn with_widest<W: WithLanes>(work: W) -> W::Output {
    #[cfg(target_arch = "x86_64")]
    {
        if let Some(simd) = V4::try_new() {
            return simd.vectorize(Within { lanes: simd, work });
        }
        if let Some(simd) = V3::try_new() {
            return simd.vectorize(Within { lanes: simd, work });
        }
    }
    work.with(Narrow)
}

/// Work inside a function that may use the lanes' instructions.
#[cfg(target_arch = "x86_64")]
struct Within<L, W> {
    lanes: L,
    work: W,
}

#[cfg(target_arch = "x86_64")]
impl<L: Lanes, W: WithLanes> pulp::NullaryFnOnce for Within<L, W> {
    type Output = W::Output;

    #[inline(always)]
    fn call(self) -> W::Output {
        self.work.with(self.lanes)
    }
}

/// 16 bytes at a time: what every processor of the supported architectures has.
#[derive(Clone, Copy)]
struct Narrow;

impl Lanes for Narrow {
    #[inline(always)]
    fn masks(self, block: &Block) -> Masks {
        let mut masks = Masks {
            quotes: 0,
            backslashes: 0,
            brackets: 0,
            opening: 0,
        };
        let (quarters, _) = block.as_chunks::<16>();
        let mut any_backslash = u8x16::ZERO;
        for (number, quarter) in quarters.iter().enumerate() {
            let bytes = u8x16::new(*quarter);
            // With the bit 0x20 set, `[` is `{` and `]` is `}`; no other byte becomes one of them.
            let folded = bytes | u8x16::splat(0x20);
            let mask = |hits: u8x16| u64::from(hits.to_bitmask()) << (number * 16);
            let opening = folded.simd_eq(u8x16::splat(b'{'));
            masks.quotes |= mask(bytes.simd_eq(u8x16::splat(b'"')));
            masks.opening |= mask(opening);
            masks.brackets |= mask(opening | folded.simd_eq(u8x16::splat(b'}')));
            any_backslash |= bytes.simd_eq(u8x16::splat(b'\\'));
        }
        // Backslashes are rare: their positions are computed only if there are any.
        if any_backslash.to_bitmask() != 0 {
            for (number, quarter) in quarters.iter().enumerate() {
                let hits = u8x16::new(*quarter).simd_eq(u8x16::splat(b'\\'));
                masks.backslashes |= u64::from(hits.to_bitmask()) << (number * 16);
            }
        }
        masks
    }
}

/// AVX2: 32 bytes at a time.
#[cfg(target_arch = "x86_64")]
impl Lanes for V3 {
    #[inline(always)]
    fn masks(self, block: &Block) -> Masks {
        let [low, high]: [[u8; 32]; 2] = pulp::cast(*block);
        // Not by a closure: it would be compiled without these instructions.
        let (low, high) = (half_masks(self, low), half_masks(self, high));
        Masks {
            quotes: low.quotes | high.quotes << 32,
            backslashes: low.backslashes | high.backslashes << 32,
            brackets: low.brackets | high.brackets << 32,
            opening: low.opening | high.opening << 32,
        }
    }
}

#[cfg(target_arch = "x86_64")]
#[inline(always)]
fn half_masks(simd: V3, half: [u8; 32]) -> Masks {
    let (avx, avx2) = (simd.avx, simd.avx2);
    let bytes = pulp::cast(half);
    let splat = |byte: u8| avx._mm256_set1_epi8(byte.cast_signed());
    let mask = |hits| u64::from(avx2._mm256_movemask_epi8(hits).cast_unsigned());
    let folded = avx2._mm256_or_si256(bytes, splat(0x20));
    let opening = avx2._mm256_cmpeq_epi8(folded, splat(b'{'));
    let closing = avx2._mm256_cmpeq_epi8(folded, splat(b'}'));
    Masks {
        quotes: mask(avx2._mm256_cmpeq_epi8(bytes, splat(b'"'))),
        backslashes: mask(avx2._mm256_cmpeq_epi8(bytes, splat(b'\\'))),
        brackets: mask(avx2._mm256_or_si256(opening, closing)),
        opening: mask(opening),
    }
}

/// AVX-512: all 64 bytes at once.
#[cfg(target_arch = "x86_64")]
impl Lanes for V4 {
    #[inline(always)]
    fn masks(self, block: &Block) -> Masks {
        let (words, bytewise) = (self.avx512f, self.avx512bw);
        let bytes = pulp::cast(*block);
        let splat = |byte: u8| words._mm512_set1_epi8(byte.cast_signed());
        let folded = words._mm512_or_si512(bytes, splat(0x20));
        let opening = bytewise._mm512_cmpeq_epi8_mask(folded, splat(b'{'));
        Masks {
            quotes: bytewise._mm512_cmpeq_epi8_mask(bytes, splat(b'"')),
            backslashes: bytewise._mm512_cmpeq_epi8_mask(bytes, splat(b'\\')),
            brackets: opening | bytewise._mm512_cmpeq_epi8_mask(folded, splat(b'}')),
            opening,
        }
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    /// The expected masks, computed byte by byte.
    fn naive(block: &Block) -> Masks {
        let mask = |of: &[u8]| {
            (0..)
                .zip(block)
                .fold(0, |mask, (bit, byte)| mask | u64::from(of.contains(byte)) << bit)
        };
        Masks {
            quotes: mask(b"\""),
            backslashes: mask(b"\\"),
            brackets: mask(b"{}[]"),
            opening: mask(b"{["),
        }
    }

    fn check(block: &Block) {
        struct Work<'b>(&'b Block);
        impl WithLanes for Work<'_> {
            type Output = Masks;

            fn with<L: Lanes>(self, lanes: L) -> Masks {
                lanes.masks(self.0)
            }
        }
        assert_eq!(Narrow.masks(block), naive(block));
        assert_eq!(with_widest(Work(block)), naive(block));
        // The middle one is used where the widest is not available.
        #[cfg(target_arch = "x86_64")]
        if let Some(simd) = V3::try_new() {
            let work = Work(block);
            assert_eq!(simd.vectorize(Within { lanes: simd, work }), naive(block));
        }
    }

    proptest! {
        #[test]
        fn all_lanes_see_the_same(bytes in prop::collection::vec(any::<u8>(), BLOCK_BYTES), marks in prop::collection::vec((0..BLOCK_BYTES, prop::sample::select(&b"{}[]\"\\"[..])), 0..40)) {
            let mut block = [0; BLOCK_BYTES];
            block.copy_from_slice(&bytes);
            marks.into_iter().for_each(|(at, byte)| block[at] = byte);
            check(&block);
        }
    }

    #[test]
    fn no_byte_is_taken_for_another() {
        for byte in 0..=u8::MAX {
            check(&[byte; BLOCK_BYTES]);
        }
    }
}
