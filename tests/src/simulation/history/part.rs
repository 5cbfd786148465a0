//! [`Part`]: what has one owner each, however the work is divided.

use informant_cache::{Division, ShardBy, ShardFilter, ShardHash, ShardSet};
use informant_object::KeyRef;
use serde::{Deserialize, Serialize};

/// The parts of a run. Each division of a run has as many shards, or a divisor of it, so that no part is in two shards.
pub(in super::super) const PARTS: u8 = 4;

/// How the work is divided, apart from the number of shards.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
pub struct Split {
    /// By namespace and name, and not by namespace.
    pub by_name: bool,
    /// By the hash of the API server.
    pub raw: bool,
}

/// A part of the objects, about which one handler is called at a time.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
pub struct Part {
    /// How all objects are divided.
    pub split: Split,
    /// Its number, from 0 to 3.
    pub number: u8,
}

impl Split {
    /// A division into so many shards.
    #[must_use]
    pub fn division(self, shards: u8) -> Division {
        let hash = match self.raw {
            true => ShardHash::Raw,
            false => ShardHash::Mixed,
        };
        Division { shards, hash }
    }

    /// The objects of some shards.
    #[must_use]
    pub fn filter(self, division: Division, shards: ShardSet) -> ShardFilter {
        let by = match self.by_name {
            true => ShardBy::NamespaceAndName,
            false => ShardBy::Namespace,
        };
        ShardFilter { division, by, shards }
    }

    /// The parts of which a shard consists.
    pub fn parts(self, division: Division, shard: u8) -> impl Iterator<Item = Part> {
        let parts = (0..PARTS).map(move |number| Part { split: self, number });
        parts.filter(move |part| {
            u16::from(part.number) * u16::from(division.shards) / u16::from(PARTS) == u16::from(shard)
        })
    }
}

impl Part {
    /// Whether an object is in it.
    #[must_use]
    pub fn covers(self, namespace: &str, name: &str) -> bool {
        let filter = self.split.filter(self.split.division(PARTS), ShardSet::default());
        filter.shard_of(KeyRef::new(namespace, name)) == self.number
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn parts_of_a_shard_have_its_objects() {
        for (by_name, raw, shards) in [(false, false, 1), (false, true, 2), (true, false, 2), (true, false, 4)] {
            let split = Split { by_name, raw };
            let division = split.division(shards);
            for name in (0..100).map(|number| format!("map-{number}")) {
                for namespace in ["default", "kube-system"] {
                    let shard = split
                        .filter(division, ShardSet::default())
                        .shard_of(KeyRef::new(namespace, &name));
                    let parts = split.parts(division, shard);
                    assert_eq!(parts.filter(|part| part.covers(namespace, &name)).count(), 1);
                }
            }
        }
    }
}
