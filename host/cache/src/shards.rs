//! Which objects a replica reads when several divide the work: [`ShardFilter`].

use std::fmt;

use informant_object::KeyRef;

use crate::identity::{fnv1a_hash, range_of, stable_hash};

/// The most shards: 64. Each is a Lease that is renewed every two seconds.
pub const SHARDS_MAX: u8 = 64;

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

/// What of an object is hashed. Never its uid: two incarnations of a name need one owner.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum ShardBy {
    /// Its namespace, so that related objects are in one shard. Cluster-scoped objects are all in that of "".
    Namespace,
    /// Its name: for namespaces themselves, which are where what they contain is.
    Name,
    /// Namespace and name, for few namespaces with many objects. Always mixed: the API server hashes no names.
    NamespaceAndName,
}

/// Shards by number.
#[derive(Clone, Copy, Default, PartialEq, Eq)]
pub struct ShardSet(u64);

/// The objects of some shards.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct ShardFilter {
    pub division: Division,
    pub by: ShardBy,
    /// The shards whose objects are read.
    pub shards: ShardSet,
}

impl Division {
    /// The work is not divided.
    pub const WHOLE: Division = Division {
        shards: 1,
        hash: ShardHash::Mixed,
    };

    /// Which shard `text` belongs to, such as a namespace.
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

    /// The hashes of `shard`: from the first to before the last, which is 2^64 for the last shard.
    #[must_use]
    pub fn range(self, shard: u8) -> (u128, u128) {
        let begin = |shard: u8| (u128::from(shard) << 64).div_ceil(u128::from(self.shards));
        (begin(shard), begin(shard.saturating_add(1)))
    }
}

impl ShardSet {
    /// All shards of a division.
    #[must_use]
    pub fn all(division: Division) -> ShardSet {
        (0..division.shards).collect()
    }

    #[must_use]
    pub fn contains(self, shard: u8) -> bool {
        shard < SHARDS_MAX && self.0 >> shard & 1 == 1
    }

    /// How many there are.
    #[must_use]
    pub fn count(self) -> u32 {
        self.0.count_ones()
    }

    /// In order.
    pub fn iter(self) -> impl Iterator<Item = u8> {
        (0..SHARDS_MAX).filter(move |shard| self.contains(*shard))
    }
}

impl FromIterator<u8> for ShardSet {
    fn from_iter<T: IntoIterator<Item = u8>>(shards: T) -> ShardSet {
        let shards = shards.into_iter().filter(|shard| *shard < SHARDS_MAX);
        ShardSet(shards.fold(0, |bits, shard| bits | 1 << shard))
    }
}

impl fmt::Debug for ShardSet {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_set().entries(self.iter()).finish()
    }
}

impl ShardFilter {
    /// Which shard the object at `key` belongs to.
    #[must_use]
    pub fn shard_of(&self, key: KeyRef<'_>) -> u8 {
        match self.by {
            ShardBy::Namespace => self.division.shard_of(key.namespace),
            ShardBy::Name => self.division.shard_of(key.name),
            ShardBy::NamespaceAndName => range_of(stable_hash(&[key.namespace, key.name]), self.division.shards),
        }
    }

    /// Whether the object at `key` is read.
    #[must_use]
    pub fn includes(&self, key: KeyRef<'_>) -> bool {
        self.shards.contains(self.shard_of(key))
    }

    /// The API server's parameter `shardSelector` for these shards, if its hash and fields are those: KEP-5866. An API
    /// server that does not know it answers with all objects, and one never confirms that it has applied it to a watch.
    #[must_use]
    pub fn selector(&self) -> Option<String> {
        let is_known = self.division.hash == ShardHash::Raw && self.by == ShardBy::Namespace;
        let ranges = self.shards.iter().map(|shard| {
            let (begin, end) = self.division.range(shard);
            format!("shardRange(object.metadata.namespace, '0x{begin:016x}', '0x{end:016x}')")
        });
        let is_partial = self.shards != ShardSet::all(self.division) && self.shards != ShardSet::default();
        (is_known && is_partial).then(|| ranges.collect::<Vec<_>>().join(" || "))
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

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn division(shards: u8, hash: ShardHash) -> Division {
        Division { shards, hash }
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

    #[test]
    fn selector_names_the_ranges_of_raw_namespaces_only() {
        let mut filter = ShardFilter {
            division: division(2, ShardHash::Raw),
            by: ShardBy::Namespace,
            shards: [1].into_iter().collect(),
        };
        let wanted = "shardRange(object.metadata.namespace, '0x8000000000000000', '0x10000000000000000')";
        assert_eq!(filter.selector().as_deref(), Some(wanted));
        for shards in [ShardSet::default(), ShardSet::all(filter.division)] {
            assert_eq!(ShardFilter { shards, ..filter }.selector(), None);
        }
        let by = ShardBy::NamespaceAndName;
        assert_eq!(ShardFilter { by, ..filter }.selector(), None);
        filter.division.hash = ShardHash::Mixed;
        assert_eq!(filter.selector(), None);
    }

    #[test]
    fn namespaces_are_where_their_objects_are() {
        let objects = ShardFilter {
            division: division(8, ShardHash::Mixed),
            by: ShardBy::Namespace,
            shards: ShardSet::default(),
        };
        let namespaces = ShardFilter {
            by: ShardBy::Name,
            ..objects
        };
        for number in 0..100 {
            let name = format!("team-{number}");
            let (object, namespace) = (KeyRef::new(&name, "web"), KeyRef::new("", &name));
            assert_eq!(objects.shard_of(object), namespaces.shard_of(namespace));
        }
    }

    proptest! {
        /// The ranges of the API server and the shards of the client are the same.
        #[test]
        fn ranges_contain_the_hashes_of_their_shard(text in ".*", shards in 1..=SHARDS_MAX) {
            let division = division(shards, ShardHash::Raw);
            let (shard, hash) = (division.shard_of(&text), u128::from(fnv1a_hash(&text)));
            let (begin, end) = division.range(shard);
            prop_assert!(shard < shards && (begin..end).contains(&hash));
            prop_assert_eq!(division.range(shards - 1).1, 1 << 64);
        }

        #[test]
        fn every_key_is_in_one_shard(namespace in ".*", name in ".*", shards in 1..=SHARDS_MAX, by in 0..3) {
            let by = [ShardBy::Namespace, ShardBy::Name, ShardBy::NamespaceAndName][by as usize];
            let of = |shard: u8| ShardFilter {
                division: division(shards, ShardHash::Mixed),
                by,
                shards: [shard].into_iter().collect(),
            };
            let key = KeyRef::new(&namespace, &name);
            prop_assert_eq!((0..shards).filter(|shard| of(*shard).includes(key)).count(), 1);
        }
    }
}
