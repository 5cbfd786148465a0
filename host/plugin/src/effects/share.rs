//! [`LimitShare`]: the part of a plugin's rates that one of several replicas has.

use informant_cache::listener::HeldShards;

/// The part of a plugin's rates that this process has: as much as it holds of the shards. So all replicas together keep
/// the rates that are configured.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct LimitShare {
    /// How many shards this process holds.
    held: u32,
    /// How many there are; at least 1.
    shards: u32,
}

impl LimitShare {
    /// The rates as they are configured.
    pub(crate) const WHOLE: LimitShare = LimitShare { held: 1, shards: 1 };

    /// That of a process that holds these shards; none: the plugin's objects are not divided.
    pub(crate) fn of_shards(held: Option<HeldShards>) -> LimitShare {
        held.map_or(LimitShare::WHOLE, |HeldShards { division, shards }| LimitShare {
            held: shards.count(),
            shards: u32::from(division.shards.max(1)),
        })
    }

    /// The part of `limit`, rounded up, and at least 1: a low limit must not stop a replica.
    pub(crate) fn of(self, limit: u32) -> u32 {
        let part = (u64::from(limit) * u64::from(self.held)).div_ceil(u64::from(self.shards));
        u32::try_from(part).unwrap_or(limit).min(limit).max(1)
    }
}

#[cfg(test)]
impl LimitShare {
    /// That of a process that holds the first `held` of so many shards.
    pub(crate) fn of_first(held: u8, shards: u8) -> LimitShare {
        let division = informant_cache::Division {
            shards,
            ..informant_cache::Division::WHOLE
        };
        LimitShare::of_shards(Some(HeldShards {
            division,
            shards: (0..held).collect(),
        }))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn part_of_a_limit_is_rounded_up() {
        let parts = |limit| [0, 1, 4, 5, 12].map(|held| LimitShare::of_first(held, 12).of(limit));
        assert_eq!(parts(20), [1, 2, 7, 9, 20]);
        assert_eq!(parts(1), [1; 5]);
        assert_eq!(parts(u32::MAX)[4], u32::MAX);
    }

    #[test]
    fn limit_of_an_undivided_plugin_is_whole() {
        assert_eq!(LimitShare::of_shards(None), LimitShare::WHOLE);
        assert_eq!(LimitShare::WHOLE.of(20), 20);
    }
}
