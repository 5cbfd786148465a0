//! The posting lists of one index: a flat sorted set of (value, key).

use std::cmp::Ordering;
use std::ops::Bound;
use std::sync::Arc;

use equivalent::{Comparable, Equivalent};
use imbl::OrdSet;
use informant_object::{Key, KeyRef};

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
        self.shared(value).unwrap_or_else(|| Arc::from(value))
    }

    pub(crate) fn remove(&mut self, value: &str, key: KeyRef<'_>) {
        self.0.remove(&PostingBound {
            value,
            at: At::Key(key),
        });
    }

    /// Keys under `value`, sorted.
    pub(crate) fn keys<'a>(&'a self, value: &'a str) -> impl Iterator<Item = KeyRef<'a>> {
        self.0
            .range(PostingBound { value, at: At::Start }..)
            .take_while(move |posting| &*posting.value == value)
            .map(|posting| posting.key.as_ref())
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

    /// Values in use, sorted.
    pub(crate) fn values(&self) -> impl Iterator<Item = &Arc<str>> {
        self.successors(self.0.get_min().map(|posting| &posting.value))
    }

    /// Values in use that sort after `after`, sorted. Finds the first one without walking over those before it.
    pub(crate) fn values_after(&self, after: &str) -> impl Iterator<Item = &Arc<str>> {
        self.successors(self.next_value(after))
    }

    fn successors<'a>(&'a self, first: Option<&'a Arc<str>>) -> impl Iterator<Item = &'a Arc<str>> {
        std::iter::successors(first, |value| self.next_value(value))
    }

    fn next_value(&self, value: &str) -> Option<&Arc<str>> {
        let after = PostingBound { value, at: At::End };
        self.0.range(after..).next().map(|posting| &posting.value)
    }

    /// `value` as a string that a posting holds already.
    fn shared(&self, value: &str) -> Option<Arc<str>> {
        let posting = self.0.range(PostingBound { value, at: At::Start }..).next()?;
        (&*posting.value == value).then(|| posting.value.clone())
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
