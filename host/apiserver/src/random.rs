//! The server's random numbers: a seeded sequence, so that runs are reproducible.

/// SplitMix64. Source: Steele, Lea, Flood: "Fast splittable pseudorandom number generators" (2014).
#[derive(Debug, Clone)]
pub(crate) struct Random(u64);

/// The letters of generated names: apimachinery `util/rand`, which leaves out letters that could spell words or be
/// misread.
const NAME_LETTERS: &[u8] = b"bcdfghjklmnpqrstvwxz2456789";

/// How many letters `generateName` appends, as in apiserver `names/generate.go`.
const NAME_SUFFIX_LETTERS: usize = 5;

impl Random {
    pub(crate) fn new(seed: u64) -> Self {
        Self(seed)
    }

    /// What [`new`](Self::new) needs to continue this sequence.
    pub(crate) fn state(&self) -> u64 {
        self.0
    }

    pub(crate) fn next(&mut self) -> u64 {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mut z = self.0;
        z = (z ^ (z >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        z = (z ^ (z >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        z ^ (z >> 31)
    }

    /// A UUID of version 4.
    pub(crate) fn uid(&mut self) -> String {
        let high = self.next() & 0xffff_ffff_ffff_0fff | 0x4000;
        let low = self.next() & 0x3fff_ffff_ffff_ffff | 0x8000_0000_0000_0000;
        format!(
            "{:08x}-{:04x}-{:04x}-{:04x}-{:012x}",
            high >> 32,
            high >> 16 & 0xffff,
            high & 0xffff,
            low >> 48,
            low & 0xffff_ffff_ffff
        )
    }

    /// What `generateName` appends.
    pub(crate) fn name_suffix(&mut self) -> String {
        let letters = NAME_LETTERS.len() as u64;
        (0..NAME_SUFFIX_LETTERS)
            .map(|_| NAME_LETTERS[(self.next() % letters) as usize] as char)
            .collect()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn uids_are_of_version_4_and_follow_from_the_seed() {
        let uids: Vec<String> = (0..2).map(|_| Random::new(7).uid()).collect();
        assert_eq!(uids[0], uids[1]);
        insta::assert_snapshot!(uids[0], @"63cbe1e4-5932-4dd7-844c-3cd7f43c661c");
    }
}
