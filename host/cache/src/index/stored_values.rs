//! The values of one object in all native indexes, stored with the object so that they are computed once per version.

use std::hash::BuildHasher;
use std::sync::Arc;

use foldhash::fast::FixedState;
use informant_object::{Key, KeyRef, Object};
use triomphe::ThinArc;

use super::{IndexFailures, IndexFunc, IndexValues, Postings};

/// Why an object is not in an index that was declared when only its head was stored.
const NOT_KEPT: &str = "the cache has only the metadata of the object, because its budget is reached; it is in the \
                        index from its next change on";

/// A native index, by its position in the store's list.
pub(crate) type IndexSlot = u16;

/// An object's values, sorted by index and value. One pointer; null for an object without values.
#[derive(Clone, Debug, Default)]
pub(crate) struct StoredValues(Option<ThinArc<(), StoredValue>>);

#[derive(Clone, Debug, PartialEq, Eq)]
struct StoredValue {
    slot: IndexSlot,
    /// Shared with the postings.
    value: Arc<str>,
}

/// One object's newly computed values in all native indexes. A reusable buffer.
#[derive(Debug, Default)]
pub(crate) struct ComputedValues {
    /// Per index. Never longer than the list of indexes, shorter only before the first use.
    per_slot: Vec<IndexValues>,
    /// Recently used values.
    texts: ValueInterner,
    kept: Vec<StoredValue>,
}

impl ComputedValues {
    /// Copies the values of the first indexes from `kept`, instead of computing them; `slots` are their positions
    /// there.
    pub(crate) fn load(&mut self, kept: &StoredValues, slots: impl ExactSizeIterator<Item = usize>) {
        self.per_slot.resize_with(slots.len(), IndexValues::default);
        for (slot, values) in slots.zip(&mut self.per_slot) {
            let of_slot = kept.iter().filter(|(kept, _)| usize::from(*kept) == slot);
            values
                .take(of_slot.map(|(_, value)| value))
                .expect("these values were within the limits before");
        }
    }

    /// Computes the values of `object` in each of `indexes`, which have the positions from `first` on; failures are
    /// recorded per index and leave no values. A head lacks the fields of the indexes from `late` on, and annotations.
    pub(crate) fn compute(
        &mut self,
        (first, late): (usize, usize),
        indexes: &[Arc<dyn IndexFunc>],
        failures: &mut [IndexFailures],
        object: &Object,
    ) {
        self.per_slot.resize_with(first + indexes.len(), IndexValues::default);
        let slots = (first..).zip(indexes.iter().zip(failures));
        for ((slot, (index, failures)), values) in slots.zip(&mut self.per_slot[first..]) {
            let is_kept = |field| object.keeps(field, slot < late);
            let result = match !object.is_head() || index.fields().is_some_and(|fields| fields.iter().all(is_kept)) {
                true => values.compute(&**index, object),
                false => values.fail(NOT_KEPT),
            };
            failures.record(object.key(), result);
        }
    }

    fn has(&self, slot: IndexSlot, value: &str) -> bool {
        self.per_slot
            .get(usize::from(slot))
            .is_some_and(|values| values.contains(value))
    }
}

fn values_of(per_slot: &[IndexValues]) -> impl Iterator<Item = (IndexSlot, &str)> {
    let slots = per_slot.iter().enumerate();
    slots.flat_map(|(slot, values)| values.iter().map(move |value| (slot as IndexSlot, value)))
}

impl StoredValues {
    /// Updates `postings` and `self` to the values of `fresh` for the object at `key`; touches only differences.
    pub(crate) fn update(&mut self, fresh: &mut ComputedValues, postings: &mut [Postings], key: &Key) {
        if self.are(fresh) {
            return;
        }
        for (slot, value) in self.iter() {
            if !fresh.has(slot, value) {
                postings[usize::from(slot)].remove(value, key.as_ref());
            }
        }
        let ComputedValues { per_slot, texts, kept } = fresh;
        for (slot, value) in values_of(per_slot) {
            let value = self.find(slot, value).unwrap_or_else(|| {
                let postings = &mut postings[usize::from(slot)];
                let text = texts.shared(value, || postings.text(value));
                postings.insert(text.clone(), key);
                text
            });
            kept.push(StoredValue { slot, value });
        }
        self.0 = (!kept.is_empty()).then(|| ThinArc::from_header_and_iter((), kept.drain(..)));
    }

    /// Whether `fresh` has the same values.
    pub(crate) fn are(&self, fresh: &ComputedValues) -> bool {
        self.iter().eq(values_of(&fresh.per_slot))
    }

    /// Removes the object at `key` from all `postings`.
    pub(crate) fn remove(&self, postings: &mut [Postings], key: KeyRef<'_>) {
        for (slot, value) in self.iter() {
            postings[usize::from(slot)].remove(value, key);
        }
    }

    pub(crate) fn iter(&self) -> impl Iterator<Item = (IndexSlot, &str)> {
        self.as_slice().iter().map(|kept| (kept.slot, &*kept.value))
    }

    fn find(&self, slot: IndexSlot, value: &str) -> Option<Arc<str>> {
        let values = self.as_slice();
        let index = values
            .binary_search_by(|kept| (kept.slot, &*kept.value).cmp(&(slot, value)))
            .ok()?;
        Some(values[index].value.clone())
    }

    fn as_slice(&self) -> &[StoredValue] {
        self.0.as_ref().map_or(&[], |values| &values.slice)
    }
}

/// Entries of the interner. A power of two; each value maps to one entry, and the last value there is kept.
const INTERNED_VALUES_MAX: usize = 256;

/// Longer values are not interned: hardly any two objects share one.
const INTERNED_BYTES_MAX: usize = 256;

/// Recently used values, so that a value shared by many objects is not searched for each time.
#[derive(Debug, Default)]
struct ValueInterner {
    /// Empty before the first use.
    entries: Vec<Option<Arc<str>>>,
    hasher: FixedState,
}

impl ValueInterner {
    /// `value` as a shared string: the interned one, or the result of `search`.
    fn shared(&mut self, value: &str, search: impl FnOnce() -> Arc<str>) -> Arc<str> {
        if value.len() > INTERNED_BYTES_MAX {
            return search();
        }
        self.entries.resize(INTERNED_VALUES_MAX, None);
        let entry = &mut self.entries[self.hasher.hash_one(value) as usize % INTERNED_VALUES_MAX];
        match entry {
            Some(text) if **text == *value => text.clone(),
            _ => entry.insert(search()).clone(),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn interned_value_is_searched_for_once() {
        let mut texts = ValueInterner::default();
        let mut searches = 0;
        for value in ["node-1", "node-1", "node-2", "node-1"] {
            let text = texts.shared(value, || {
                searches += 1;
                Arc::from(value)
            });
            assert_eq!(&*text, value);
        }
        assert!(searches <= 3, "{searches}");
        for number in 0..10_000 {
            let value = number.to_string();
            assert_eq!(*texts.shared(&value, || Arc::from(&*value)), *value);
        }
        assert_eq!(texts.entries.len(), INTERNED_VALUES_MAX);
    }
}
