//! The posting lists of one index: a flat sorted set of (value, key).

use std::cmp::Ordering;
use std::ops::Bound;
use std::sync::Arc;

use equivalent::{Comparable, Equivalent};
use imbl::OrdSet;
use informant_object::{Key, KeyRef};

use super::TREE_ENTRY_BYTES;

/// What the list of an object's values takes for each of them.
const VALUE_BYTES: usize = 32;

/// Persistent: a clone is a snapshot, and is cheap.
#[derive(Clone, Debug, Default)]
pub(crate) struct Postings(OrdSet<Posting>);

/// One object under one value.
#[derive(Clone, Debug, PartialEq, Eq)]
struct Posting {
    value: Arc<str>,
    key: Key,
}

/// A bound in the set, borrowed.
#[derive(Clone, Copy, Debug)]
struct PostingBound<'a> {
    value: &'a str,
    at: At<'a>,
}

/// The position among the postings of one value.
#[derive(Clone, Copy, Debug)]
enum At<'a> {
    Start,
    Key(KeyRef<'a>),
    End,
}

impl Postings {
    /// Adds `key` under `value`.
    pub(crate) fn insert(&mut self, value: Arc<str>, key: &Key) {
        let key = key.clone();
        self.0.insert(Posting { value, key });
    }

    /// `value` as a string shared with its postings, if it has any.
    pub(crate) fn text(&self, value: &str) -> Arc<str> {
        match self.0.range(PostingBound { value, at: At::Start }..).next() {
            Some(posting) if *posting.value == *value => posting.value.clone(),
            _ => Arc::from(value),
        }
    }

    pub(crate) fn remove(&mut self, value: &str, key: KeyRef<'_>) {
        self.0.remove(&PostingBound {
            value,
            at: At::Key(key),
        });
    }

    /// The memory that the entries take, with the objects' lists of values, without the texts of values.
    pub(crate) fn bytes(&self) -> usize {
        self.0.len() * (TREE_ENTRY_BYTES + VALUE_BYTES)
    }

    /// Keys under `value` that come after `after`, sorted.
    pub(crate) fn keys_after<'a>(&'a self, value: &'a str, after: KeyRef<'a>) -> impl Iterator<Item = KeyRef<'a>> {
        let bound = PostingBound {
            value,
            at: At::Key(after),
        };
        self.0
            .range((Bound::Excluded(bound), Bound::Unbounded))
            .take_while(move |posting| &*posting.value == value)
            .map(|posting| posting.key.as_ref())
    }

    /// The first value in use that sorts after `after`. Finds it without walking over those before it.
    pub(crate) fn next_value(&self, after: Option<&str>) -> Option<&str> {
        let next = match after {
            None => self.0.get_min(),
            Some(value) => self.0.range(PostingBound { value, at: At::End }..).next(),
        };
        next.map(|posting| &*posting.value)
    }
}

impl PartialOrd for Posting {
    fn partial_cmp(&self, other: &Posting) -> Option<Ordering> {
        Some(self.cmp(other))
    }
}

impl Ord for Posting {
    fn cmp(&self, other: &Posting) -> Ordering {
        // Values are shared: adjacent postings usually have the same string, which need not be compared.
        let values = match Arc::ptr_eq(&self.value, &other.value) {
            true => Ordering::Equal,
            false => self.value.cmp(&other.value),
        };
        values.then_with(|| self.key.cmp(&other.key))
    }
}

impl Equivalent<Posting> for PostingBound<'_> {
    fn equivalent(&self, posting: &Posting) -> bool {
        self.compare(posting).is_eq()
    }
}

impl Comparable<Posting> for PostingBound<'_> {
    fn compare(&self, posting: &Posting) -> Ordering {
        self.value.cmp(&posting.value).then_with(|| match self.at {
            At::Start => Ordering::Less,
            At::Key(key) => key.cmp(&posting.key.as_ref()),
            At::End => Ordering::Greater,
        })
    }
}
