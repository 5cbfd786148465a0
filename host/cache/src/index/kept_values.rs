//! The values of one object in all native indexes, kept beside the object so that they are computed once per version.

use std::sync::Arc;

use informant_object::{Key, KeyRef, Object};
use triomphe::ThinArc;

use super::shared_texts::SharedTexts;
use super::{IndexFailures, IndexFunc, IndexValues, Postings};

/// Which native index: its place in the store's list.
pub(crate) type Slot = u16;

/// An object's values, sorted by index and value. One pointer; none for an object without values.
#[derive(Clone, Debug, Default)]
pub(crate) struct KeptValues(Option<ThinArc<(), KeptValue>>);

#[derive(Clone, Debug, PartialEq, Eq)]
struct KeptValue {
    slot: Slot,
    /// Shared with the postings.
    value: Arc<str>,
}

/// One object's freshly computed values in all native indexes. A buffer that is used again and again.
#[derive(Debug, Default)]
pub(crate) struct Sink {
    /// Per slot. Longer than the list of indexes never, shorter only before the first use.
    per_slot: Vec<IndexValues>,
    /// Texts that were posted of late.
    texts: SharedTexts,
    kept: Vec<KeptValue>,
}

impl Sink {
    /// Takes the values of the slots before `first` from `kept`, instead of computing them.
    pub(crate) fn load(&mut self, kept: &KeptValues, first: usize) {
        self.per_slot.resize_with(first, IndexValues::default);
        for (slot, values) in self.per_slot.iter_mut().enumerate() {
            let of_slot = kept.iter().filter(|(kept, _)| usize::from(*kept) == slot);
            values
                .take(of_slot.map(|(_, value)| value))
                .expect("these values were within the limits before");
        }
    }

    /// Computes the values of `object` in each of `indexes`, which take the slots from `first` on; failures are noted
    /// per index and leave no values.
    pub(crate) fn compute(
        &mut self,
        first: usize,
        indexes: &[Arc<dyn IndexFunc>],
        failures: &mut [IndexFailures],
        object: &Object,
    ) {
        self.per_slot.resize_with(first + indexes.len(), IndexValues::default);
        for ((index, failures), values) in indexes.iter().zip(failures).zip(&mut self.per_slot[first..]) {
            failures.note(object.key(), values.compute(&**index, object));
        }
    }

    fn has(&self, slot: Slot, value: &str) -> bool {
        self.per_slot
            .get(usize::from(slot))
            .is_some_and(|values| values.contains(value))
    }

    fn iter(&self) -> impl Iterator<Item = (Slot, &str)> {
        values_of(&self.per_slot)
    }
}

fn values_of(per_slot: &[IndexValues]) -> impl Iterator<Item = (Slot, &str)> {
    let slots = per_slot.iter().enumerate();
    slots.flat_map(|(slot, values)| values.iter().map(move |value| (slot as Slot, value)))
}

impl KeptValues {
    /// Makes `postings` and `self` those of `fresh` for the object at `key`, touching only what differs.
    pub(crate) fn update(&mut self, fresh: &mut Sink, postings: &mut [Postings], key: &Key) {
        if self.are(fresh) {
            return;
        }
        for (slot, value) in self.iter() {
            if !fresh.has(slot, value) {
                postings[usize::from(slot)].remove(value, key.as_ref());
            }
        }
        let Sink { per_slot, texts, kept } = fresh;
        for (slot, value) in values_of(per_slot) {
            let value = self.find(slot, value).unwrap_or_else(|| {
                let postings = &mut postings[usize::from(slot)];
                let text = texts.shared(value, || postings.text(value));
                postings.insert(text.clone(), key);
                text
            });
            kept.push(KeptValue { slot, value });
        }
        self.0 = (!kept.is_empty()).then(|| ThinArc::from_header_and_iter((), kept.drain(..)));
    }

    /// Whether `fresh` are the same values.
    pub(crate) fn are(&self, fresh: &Sink) -> bool {
        self.iter().eq(fresh.iter())
    }

    /// Takes the object at `key` out of all `postings`.
    pub(crate) fn remove(&self, postings: &mut [Postings], key: KeyRef<'_>) {
        for (slot, value) in self.iter() {
            postings[usize::from(slot)].remove(value, key);
        }
    }

    fn iter(&self) -> impl Iterator<Item = (Slot, &str)> {
        self.as_slice().iter().map(|kept| (kept.slot, &*kept.value))
    }

    fn find(&self, slot: Slot, value: &str) -> Option<Arc<str>> {
        let values = self.as_slice();
        let index = values
            .binary_search_by(|kept| (kept.slot, &*kept.value).cmp(&(slot, value)))
            .ok()?;
        Some(values[index].value.clone())
    }

    fn as_slice(&self) -> &[KeptValue] {
        self.0.as_ref().map_or(&[], |values| &values.slice)
    }
}
