//! [`Layout`]: into how many shards the work of a group is divided, and which of them a key belongs to.

use std::fmt;

use informant_cache::{fnv1a_hash, range_of, stable_hash};

/// The most shards: 64. Each is a Lease that is renewed every two seconds.
pub const SHARDS_MAX: u8 = 64;

/// The highest generation that is believed: a billion. Somebody may write any number into a Lease; there is always a
/// next one.
const GENERATION_MAX: u32 = 1_000_000_000;

/// How the text of a key becomes the number that falls into the range of a shard.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub enum ShardHash {
    /// FNV-1a and the finalizer of MurmurHash3: numbered names spread over the shards.
    #[default]
    Mixed,
    /// FNV-1a alone, which the API server's `shardSelector` knows: less is sent, but only names without a pattern
    /// spread.
    Raw,
}

/// How the work is divided. All replicas of a group are configured for the same.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Division {
    /// 1 to [`SHARDS_MAX`].
    pub shards: u8,
    pub hash: ShardHash,
}

/// The division that a group works by. Each change has the next generation, so that what somebody has seen of an
/// earlier one is never taken for the present one, although both divide alike.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Layout {
    /// Zero: the Lease names no layout, as that of a group that has never had several shards.
    pub generation: u32,
    pub division: Division,
}

impl Division {
    /// The work is not divided.
    pub const WHOLE: Division = Division {
        shards: 1,
        hash: ShardHash::Mixed,
    };

    /// Which shard `text`, a namespace or a namespace and a name, belongs to.
    #[must_use]
    pub fn shard_of(self, text: &str) -> u8 {
        let hash = match self.hash {
            ShardHash::Mixed => stable_hash(&[text]),
            ShardHash::Raw => fnv1a_hash(text),
        };
        range_of(hash, self.shards)
    }

    /// The division of a text as [`Display`](fmt::Display) writes it; `None` if it is none.
    #[must_use]
    pub fn parse(text: &str) -> Option<Division> {
        let (shards, hash) = match text.strip_suffix("-raw") {
            Some(shards) => (shards, ShardHash::Raw),
            None => (text, ShardHash::Mixed),
        };
        let shards = shards.parse().ok().filter(|shards| (1..=SHARDS_MAX).contains(shards))?;
        Some(Division { shards, hash })
    }
}

impl Layout {
    /// The work is not divided, and the Lease says nothing about it.
    pub const WHOLE: Layout = Layout {
        generation: 0,
        division: Division::WHOLE,
    };

    /// The layout of a group that begins, with a first member that is configured for `division`.
    #[must_use]
    pub fn first(division: Division) -> Layout {
        match division == Division::WHOLE {
            true => Layout::WHOLE,
            false => Layout {
                generation: 1,
                division,
            },
        }
    }

    /// The one that follows.
    #[must_use]
    pub fn next(self, division: Division) -> Layout {
        Layout {
            generation: self.generation.saturating_add(1),
            division,
        }
    }

    /// The layout of a text as [`Display`](fmt::Display) writes it; `None` if it is none.
    #[must_use]
    pub fn parse(text: &str) -> Option<Layout> {
        let (generation, division) = text.split_once(':')?;
        let generation = generation.parse().ok();
        Some(Layout {
            generation: generation.filter(|generation| (1..=GENERATION_MAX).contains(generation))?,
            division: Division::parse(division)?,
        })
    }

    /// Whether the Lease of `shard` is one of its own. That of a layout with more shards stays when there are fewer.
    #[must_use]
    pub fn has(self, shard: u8) -> bool {
        shard < self.division.shards
    }
}

impl fmt::Display for Division {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let suffix = match self.hash {
            ShardHash::Mixed => "",
            ShardHash::Raw => "-raw",
        };
        write!(f, "{}{suffix}", self.shards)
    }
}

/// `GENERATION:DIVISION`
impl fmt::Display for Layout {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}:{}", self.generation, self.division)
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn division(shards: u8, hash: ShardHash) -> Division {
        Division { shards, hash }
    }

    #[test]
    fn texts_return_and_others_are_refused() {
        for text in ["1:1", "3:8-raw", "1000000000:64"] {
            assert_eq!(Layout::parse(text).map(|layout| layout.to_string()).as_deref(), Some(text));
        }
        for text in ["", "8", "0:8", "1:0", "1:65", "1:8-", "1:8-mixed", "-1:8", "1000000001:8", "1:8:8", "1:256"] {
            assert_eq!(Layout::parse(text), None, "{text}");
        }
    }

    #[test]
    fn raw_hash_is_the_one_of_the_api_server() {
        let raw = division(64, ShardHash::Raw);
        // `default` has the hash ebada5168620c5fe (KEP-5866).
        assert_eq!(raw.shard_of("default"), 0xeb >> 2);
        assert_eq!(raw.shard_of(""), 0xcb >> 2);
    }

    #[test]
    fn numbered_namespaces_spread_if_mixed() {
        let sizes = |hash| {
            let mut sizes = [0_u32; 8];
            for number in 1..=200 {
                sizes[usize::from(division(8, hash).shard_of(&format!("team-{number}")))] += 1;
            }
            sizes
        };
        assert!(sizes(ShardHash::Mixed).iter().all(|size| (15..=36).contains(size)));
        assert_eq!(sizes(ShardHash::Raw), [0, 0, 90, 0, 0, 101, 9, 0]);
    }

    proptest! {
        #[test]
        fn shards_of_a_text_are_numbered_from_zero(text in ".*", shards in 1..=SHARDS_MAX, is_raw: bool) {
            let hash = if is_raw { ShardHash::Raw } else { ShardHash::Mixed };
            prop_assert!(Layout::first(division(shards, hash)).has(division(shards, hash).shard_of(&text)));
        }
    }
}
