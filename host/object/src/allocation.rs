//! How much memory an allocation takes.

/// Sizes above 64 bytes are rounded up to one of this many classes per power of two.
const CLASSES_PER_DOUBLING: usize = 4;

/// Larger steps between classes do not matter: a page that is never written takes no memory.
const PAGE_BYTES: usize = 4_096;

/// The memory that an allocation of `size` bytes takes, as mimalloc rounds it: the sum over many allocations is close
/// to what the process grows by, which the sum of their sizes is not.
#[must_use]
pub const fn allocation_bytes(size: usize) -> usize {
    let step = size.next_power_of_two() / (2 * CLASSES_PER_DOUBLING);
    let step = if step < 16 {
        16
    } else if step > PAGE_BYTES {
        PAGE_BYTES
    } else {
        step
    };
    size.next_multiple_of(step)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn sizes_are_rounded_to_the_allocators_classes() {
        let rounded = [1, 16, 60, 65, 100, 700, 1_024, 1_025, 5_500, 33_000, 900_001].map(allocation_bytes);
        assert_eq!(
            rounded,
            [16, 16, 64, 80, 112, 768, 1_024, 1_280, 6_144, 36_864, 901_120]
        );
    }
}
