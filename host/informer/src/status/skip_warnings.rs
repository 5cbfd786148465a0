//! Limits the warnings about invalid lines and items of a source.

use std::time::Duration;

use informant_cache::Moment;

/// The shortest time between two warnings about invalid lines of a watch and invalid items of a list; those meanwhile
/// are counted in the next one.
pub(crate) const SKIPPED_WARNING_PERIOD: Duration = Duration::from_secs(60);

/// Limits warnings about what is skipped.
#[derive(Debug, Default)]
pub(crate) struct SkipWarnings {
    last: Option<Moment>,
    /// Skipped since then.
    unreported: u64,
}

impl SkipWarnings {
    /// Records something that was skipped at `now`. Returns how many to report, if a warning is due.
    pub(super) fn count(&mut self, now: Moment) -> Option<u64> {
        self.unreported += 1;
        if self.last.is_some_and(|last| now - last < SKIPPED_WARNING_PERIOD) {
            return None;
        }
        self.last = Some(now);
        Some(std::mem::take(&mut self.unreported))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn skips_between_two_warnings_are_counted_in_the_next() {
        let at = |seconds| Moment::ZERO + Duration::from_secs(seconds);
        let mut warnings = SkipWarnings::default();
        assert_eq!(warnings.count(at(0)), Some(1));
        assert_eq!(warnings.count(at(1)), None);
        assert_eq!(warnings.count(at(59)), None);
        assert_eq!(warnings.count(at(60)), Some(3));
    }
}
