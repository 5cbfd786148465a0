//! The budget of all caches: `max-bytes` of `[cache]`, or a part of the memory that the process may use.

use std::path::Path;

use informant_config::CacheSection;

use crate::memory_limit::memory_limit_bytes;

/// The default budget in percent of the container's limit, or of the machine's memory. The rest is for guests, compiled
/// components, connections and what the allocator cannot reuse.
pub(crate) const BUDGET_DEFAULT_PERCENT: u64 = 60;

/// The budget in bytes; none where it is not known how much memory there is.
pub(super) fn max_bytes(section: &CacheSection) -> Option<usize> {
    section
        .max_bytes
        .or_else(|| default_bytes(memory_limit_bytes(Path::new("/"))?))
}

fn default_bytes(limit_bytes: u64) -> Option<usize> {
    usize::try_from(limit_bytes / 100 * BUDGET_DEFAULT_PERCENT).ok()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_written_budget_wins_over_the_default() {
        let written = CacheSection {
            max_bytes: Some(64 << 20),
        };
        assert_eq!(max_bytes(&written), Some(64 << 20));
        assert_eq!(default_bytes(256 << 20), Some(161_061_240));
    }
}
