//! The random numbers of a run, all drawn from its seed.

use std::time::Duration;

/// SplitMix64.
#[derive(Debug)]
pub(super) struct Rng(u64);

impl Rng {
    pub(super) fn new(seed: u64) -> Self {
        Self(seed)
    }

    fn draw(&mut self) -> u64 {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mixed = (self.0 ^ (self.0 >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        let mixed = (mixed ^ (mixed >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        mixed ^ (mixed >> 31)
    }

    /// 0 to `bound - 1`.
    pub(super) fn below(&mut self, bound: usize) -> usize {
        (self.draw() % bound.max(1) as u64) as usize
    }

    /// True in this percentage of cases.
    pub(super) fn percent(&mut self, percent: usize) -> bool {
        self.below(100) < percent
    }

    /// Between `from` and `to`, in steps of 1 us.
    pub(super) fn between(&mut self, from: Duration, to: Duration) -> Duration {
        let micros = to.saturating_sub(from).as_micros() as usize;
        from + Duration::from_micros(self.below(micros + 1) as u64)
    }

    pub(super) fn up_to(&mut self, max: Duration) -> Duration {
        self.between(Duration::ZERO, max)
    }
}
