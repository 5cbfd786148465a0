//! The random numbers of a run, all drawn from its seed.

/// SplitMix64.
#[derive(Clone, Debug)]
pub(super) struct Rng(u64);

impl Rng {
    pub(super) fn new(seed: u64) -> Self {
        Self(seed)
    }

    /// A separate generator, so that the draws of one part do not depend on how often another part draws.
    pub(super) fn split(&mut self) -> Self {
        Self(self.draw())
    }

    /// A separate generator that leaves this one as it is: what is added to a run does not change all seeds.
    pub(super) fn aside(&self) -> Self {
        Self(!self.0)
    }

    fn draw(&mut self) -> u64 {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mixed = (self.0 ^ (self.0 >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        let mixed = (mixed ^ (mixed >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        mixed ^ (mixed >> 31)
    }

    /// 0 to `bound - 1`.
    pub(super) fn below(&mut self, bound: u64) -> u64 {
        self.draw() % bound.max(1)
    }

    /// True in this percentage of cases.
    pub(super) fn percent(&mut self, percent: u64) -> bool {
        self.below(100) < percent
    }

    /// One of the elements.
    pub(super) fn pick<T: Copy>(&mut self, from: &[T]) -> T {
        from[self.below(from.len() as u64) as usize]
    }
}
