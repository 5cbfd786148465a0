//! Namespaces whose objects other processes read. A list asks for all but these, so that a replica that gains a shard
//! does not receive what the others have. A watch still brings all events: it has the deletes of other shards, which
//! this process keeps for the case that it takes one over.
//!
//! They are learned from what lists bring and leave out here. To ask for fewer objects is only cheaper, so it does not
//! matter if some are unknown, or gone.

use std::collections::BTreeMap;
use std::sync::{Mutex, PoisonError};

use informant_cache::{ShardBy, ShardFilter, Snapshot};
use informant_object::KeyRef;

/// How long the field selector that excludes them may be, in bytes, as it is part of the address: 16 KiB, about 400
/// namespaces, those with the most objects. The others are left out here.
pub(crate) const EXCLUDED_NAMESPACES_BYTES_MAX: usize = 16 * 1_024;

/// How many are known. Further ones are not remembered.
const OTHER_NAMESPACES_MAX: usize = 4_096;

/// In the address, `!=` and `,` have three bytes for each character.
const TERM: &str = "metadata.namespace!=";
const TERM_BYTES: usize = TERM.len() + 2 * 2 + 3;

/// Objects of namespaces.
pub(crate) type Counts = BTreeMap<Box<str>, u64>;

/// What the reflectors of a source know of the namespaces of other shards.
#[derive(Debug, Default)]
pub(crate) struct OtherNamespaces(Mutex<Counts>);

/// Counts an object of the namespace.
pub(crate) fn count(counts: &mut Counts, namespace: &str) {
    let is_plain = |byte: u8| byte.is_ascii_lowercase() || byte.is_ascii_digit() || byte == b'-';
    if let Some(count) = counts.get_mut(namespace) {
        *count += 1;
    } else if counts.len() < OTHER_NAMESPACES_MAX && !namespace.is_empty() && namespace.bytes().all(is_plain) {
        counts.insert(namespace.into(), 1);
    }
}

impl OtherNamespaces {
    /// A list of which `kept` objects are kept has brought these, which were left out.
    pub(crate) fn listed(&self, left_out: Counts, kept: usize) {
        let mut known = self.lock();
        if left_out.values().sum::<u64>() > kept as u64 {
            // It was not asked to leave out most of them: what is not in it is gone.
            *known = left_out;
        } else {
            known.extend(left_out);
            while known.len() > OTHER_NAMESPACES_MAX {
                known.pop_last();
            }
        }
    }

    /// The field selector of all namespaces but those that are known to be of other shards than `shards`. None if it is
    /// of little use: they have fewer objects than are kept, or the API server selects by itself.
    pub(crate) fn excluded(&self, shards: Option<&ShardFilter>, kept: &Snapshot) -> Option<String> {
        let shards = shards.filter(|shards| shards.by == ShardBy::Namespace && shards.selector().is_none())?;
        let mut known = self.lock();
        known.extend(lost(shards, kept));
        let is_other = |namespace: &str| !shards.includes(KeyRef::new(namespace, ""));
        let mut others: Vec<(&str, u64)> = known.iter().map(|(namespace, count)| (&**namespace, *count)).collect();
        others.retain(|(namespace, _)| is_other(namespace));
        others.sort_by_key(|(_, count)| std::cmp::Reverse(*count));
        let (mut terms, mut bytes, mut objects) = (Vec::new(), 0, 0);
        for (namespace, count) in others {
            bytes += namespace.len() + TERM_BYTES;
            if bytes > EXCLUDED_NAMESPACES_BYTES_MAX {
                break;
            }
            objects += count;
            terms.push(format!("{TERM}{namespace}"));
        }
        (objects > 0 && objects >= kept.len() as u64).then(|| terms.join(","))
    }

    // It is consistent between calls.
    fn lock(&self) -> std::sync::MutexGuard<'_, Counts> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// Namespaces of shards that were read until now.
fn lost(shards: &ShardFilter, kept: &Snapshot) -> Counts {
    let mut counts = Counts::default();
    if kept.shards().is_some_and(|before| before != shards) {
        let keys = kept.iter().map(|object| object.key());
        keys.filter(|key| !shards.includes(*key))
            .for_each(|key| count(&mut counts, key.namespace));
    }
    counts
}

#[cfg(test)]
mod tests {
    use informant_cache::{Division, ShardHash};

    use super::*;

    fn filter(shards: &[u8], by: ShardBy) -> ShardFilter {
        ShardFilter {
            division: Division {
                shards: 2,
                hash: ShardHash::Mixed,
            },
            by,
            shards: shards.iter().copied().collect(),
        }
    }

    fn excluded(others: &OtherNamespaces, shards: &[u8]) -> Option<String> {
        others.excluded(Some(&filter(shards, ShardBy::Namespace)), &Snapshot::default())
    }

    fn counted<'a>(namespaces: impl IntoIterator<Item = &'a str>) -> Counts {
        let mut counts = Counts::default();
        namespaces
            .into_iter()
            .for_each(|namespace| count(&mut counts, namespace));
        counts
    }

    /// A namespace of each of two shards.
    fn namespaces() -> [String; 2] {
        let by = filter(&[], ShardBy::Namespace);
        [0, 1].map(|shard| {
            let mut names = (0..).map(|number| format!("team-{number}"));
            let found = names.find(|name| by.shard_of(KeyRef::new(name, "")) == shard);
            found.expect("names have no end")
        })
    }

    #[test]
    fn only_known_namespaces_of_other_shards_are_excluded() {
        let (others, [zero, one]) = (OtherNamespaces::default(), namespaces());
        assert_eq!(excluded(&others, &[0]), None);
        others.listed(counted([&*one, &*one, &*zero]), 0);
        let only = |namespace: &str| Some(format!("metadata.namespace!={namespace}"));
        assert_eq!(excluded(&others, &[0]), only(&one));
        assert_eq!(excluded(&others, &[1]), only(&zero));
        assert_eq!(excluded(&others, &[0, 1]), None);
        let by_name = filter(&[0], ShardBy::NamespaceAndName);
        assert_eq!(others.excluded(Some(&by_name), &Snapshot::default()), None);
    }

    #[test]
    fn namespaces_that_a_whole_list_lacks_are_forgotten() {
        let (others, [zero, one]) = (OtherNamespaces::default(), namespaces());
        others.listed(counted([&*one]), 0);
        others.listed(counted([&*zero]), 5);
        assert!(
            excluded(&others, &[0]).is_some(),
            "a list of few others adds to what is known"
        );
        others.listed(counted([&*zero; 9]), 5);
        assert_eq!(excluded(&others, &[0]), None);
    }

    #[test]
    fn selector_is_bounded_and_has_only_plain_names() {
        let others = OtherNamespaces::default();
        others.listed(counted(["", "a,b", "a=b", "A", "a/b"]), 0);
        assert_eq!(excluded(&others, &[]), None);
        let names: Vec<String> = (0..10_000).map(|number| format!("team-{number}")).collect();
        let large = std::iter::repeat_n("team-4000", 3);
        others.listed(counted(names.iter().map(String::as_str).chain(large)), 0);
        let selector = excluded(&others, &[]).unwrap();
        assert!(
            selector.starts_with("metadata.namespace!=team-4000,"),
            "the largest are first"
        );
        let encoded: String = form_urlencoded::byte_serialize(selector.as_bytes()).collect();
        assert!(encoded.len() > EXCLUDED_NAMESPACES_BYTES_MAX / 2);
        assert!(encoded.len() <= EXCLUDED_NAMESPACES_BYTES_MAX, "{}", encoded.len());
    }
}
