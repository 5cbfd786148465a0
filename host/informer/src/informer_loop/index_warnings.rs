//! When the log says that an index function fails: at once when it begins to, then now and then.

use std::collections::BTreeMap;
use std::time::Duration;

use informant_cache::Moment;

/// The log is told of one index's failures no more often than this; what fails meanwhile is counted in the next line.
pub(crate) const INDEX_WARNING_PERIOD: Duration = Duration::from_secs(60);

/// What was said of each index of a source, by name.
#[derive(Debug, Default)]
pub(super) struct IndexWarnings(BTreeMap<String, Said>);

#[derive(Debug)]
struct Said {
    when: Moment,
    /// Failures since.
    unsaid: u64,
}

impl IndexWarnings {
    /// Another `failures` of `index`, at least one. How many failures a line is to speak of now, if one is due.
    pub(super) fn count(&mut self, index: &str, failures: u64, now: Moment) -> Option<u64> {
        let Some(said) = self.0.get_mut(index) else {
            self.0.insert(index.to_owned(), Said { when: now, unsaid: 0 });
            return Some(failures);
        };
        said.unsaid += failures;
        if now - said.when < INDEX_WARNING_PERIOD {
            return None;
        }
        said.when = now;
        Some(std::mem::take(&mut said.unsaid))
    }

    /// The index is gone.
    pub(super) fn forget(&mut self, index: &str) {
        self.0.remove(index);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_first_failure_is_said_at_once_and_later_ones_once_a_minute_with_their_number() {
        let mut warnings = IndexWarnings::default();
        let at = |seconds: u64| Moment::from_nanos(seconds * 1_000_000_000);
        assert_eq!(warnings.count("x", 1, at(0)), Some(1));
        assert_eq!(warnings.count("x", 5, at(1)), None);
        assert_eq!(warnings.count("y", 2, at(1)), Some(2), "each index for itself");
        assert_eq!(warnings.count("x", 1, at(59)), None);
        assert_eq!(warnings.count("x", 1, at(60)), Some(7));
        assert_eq!(warnings.count("x", 1, at(61)), None);
        warnings.forget("x");
        assert_eq!(warnings.count("x", 1, at(62)), Some(1));
    }
}
