//! Namespaces whose objects other processes read. A list asks for all but these, so that a replica that gains a shard
//! does not receive what the others have. A watch still brings all events: it has the deletes of other shards, which
//! this process keeps for the case that it takes one over.
//!
//! They are learned from what is left out. The namespaces that are not known yet come with a list, and are left out
//! here: to ask for fewer objects is only cheaper.

use std::collections::BTreeSet;
use std::sync::{Mutex, PoisonError};

use informant_cache::{ShardBy, ShardFilter, Snapshot};
use informant_object::KeyRef;

/// How long the field selector that excludes them may be, in bytes, as it is part of the address: 16 KiB, about 400
/// namespaces. Further ones are left out here.
pub(crate) const EXCLUDED_NAMESPACES_BYTES_MAX: usize = 16 * 1_024;

/// In the address, `!=` and `,` have three bytes for each character.
const TERM: &str = "metadata.namespace!=";
const TERM_BYTES: usize = TERM.len() + 2 * 2 + 3;

/// What the reflectors of a source know of the namespaces of other shards.
#[derive(Debug, Default)]
pub(crate) struct OtherNamespaces(Mutex<Names>);

#[derive(Debug, Default)]
struct Names {
    seen: BTreeSet<Box<str>>,
    bytes: usize,
    /// The API server does not support the field selector, or not one of this length.
    is_refused: bool,
}

impl OtherNamespaces {
    /// An object with this key was left out.
    pub(crate) fn see(&self, key: KeyRef<'_>) {
        let namespace = key.namespace;
        let mut names = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        let bytes = names.bytes + namespace.len() + TERM_BYTES;
        let is_plain = |byte: u8| byte.is_ascii_lowercase() || byte.is_ascii_digit() || byte == b'-';
        if bytes <= EXCLUDED_NAMESPACES_BYTES_MAX
            && !namespace.is_empty()
            && namespace.bytes().all(is_plain)
            && !names.seen.contains(namespace)
        {
            names.seen.insert(namespace.into());
            names.bytes = bytes;
        }
    }

    /// The field selector of all namespaces but the known ones that `shards` do not have. None if it is of no use:
    /// nothing is known, the API server selects by itself, or has refused it.
    pub(crate) fn excluded(&self, shards: Option<&ShardFilter>, known: &Snapshot) -> Option<String> {
        let shards = shards.filter(|shards| shards.by == ShardBy::Namespace && shards.selector().is_none())?;
        self.see_lost(shards, known);
        let names = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        let others = names
            .seen
            .iter()
            .filter(|namespace| !shards.includes(KeyRef::new(namespace, "")));
        let terms: Vec<String> = others.map(|namespace| format!("{TERM}{namespace}")).collect();
        (!names.is_refused && !terms.is_empty()).then(|| terms.join(","))
    }

    /// Namespaces of shards that were read until now.
    fn see_lost(&self, shards: &ShardFilter, known: &Snapshot) {
        if known.shards().is_none_or(|before| before == shards) {
            return;
        }
        let mut last = "";
        for key in known.iter().map(|object| object.key()) {
            if key.namespace != last && !shards.includes(key) {
                self.see(key);
            }
            last = key.namespace;
        }
    }

    /// The API server has refused it.
    pub(crate) fn refuse(&self) {
        self.0.lock().unwrap_or_else(PoisonError::into_inner).is_refused = true;
    }
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

    fn excluded(others: &OtherNamespaces, filter: &ShardFilter) -> Option<String> {
        others.excluded(Some(filter), &Snapshot::default())
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
        let by = ShardBy::Namespace;
        assert_eq!(excluded(&others, &filter(&[0], by)), None);
        for namespace in [&one, &one, &zero] {
            others.see(KeyRef::new(namespace, "a"));
        }
        let only = |namespace: &str| Some(format!("metadata.namespace!={namespace}"));
        assert_eq!(excluded(&others, &filter(&[0], by)), only(&one));
        assert_eq!(excluded(&others, &filter(&[1], by)), only(&zero));
        assert_eq!(excluded(&others, &filter(&[0, 1], by)), None);
        assert_eq!(excluded(&others, &filter(&[0], ShardBy::NamespaceAndName)), None);
        others.refuse();
        assert_eq!(excluded(&others, &filter(&[0], by)), None);
    }

    #[test]
    fn selector_is_bounded_and_has_only_plain_names() {
        let others = OtherNamespaces::default();
        for name in ["", "a,b", "a=b", "A", "a/b"] {
            others.see(KeyRef::new(name, "a"));
        }
        let none = filter(&[], ShardBy::Namespace);
        assert_eq!(excluded(&others, &none), None);
        for number in 0..10_000 {
            others.see(KeyRef::new(&format!("team-{number}"), "a"));
        }
        let selector = excluded(&others, &none).unwrap();
        let encoded: String = form_urlencoded::byte_serialize(selector.as_bytes()).collect();
        assert!(encoded.len() > EXCLUDED_NAMESPACES_BYTES_MAX / 2);
        assert!(encoded.len() <= EXCLUDED_NAMESPACES_BYTES_MAX, "{}", encoded.len());
    }
}
