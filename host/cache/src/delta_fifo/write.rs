//! Writing one change to the queue.

use informant_object::{Object, ResourceVersion, VersionRef};

use super::DeltaFifo;
use super::keyed_queue::KeySlot;
use crate::delta::{Delta, DeltaObject, DeltaType, Deltas};
use crate::store::StoreWriter;
use crate::{Moment, Reason};

/// Writing.
impl DeltaFifo {
    /// Queues an [`DeltaType::Added`]. A queued key keeps its position, a new one goes to the end.
    pub fn add(&mut self, object: Object, received: Moment) {
        self.queue_change(DeltaType::Added, object.into(), received);
    }

    /// Queues an [`DeltaType::Updated`], as [`add`](Self::add) does.
    pub fn update(&mut self, object: Object, received: Moment) {
        self.queue_change(DeltaType::Updated, object.into(), received);
    }

    /// Queues a [`DeltaType::Deleted`] with the object's last state (or a [`Tombstone`](crate::Tombstone)), if the key
    /// is queued or in `store`. A delete of an unknown object is ignored.
    pub fn delete(&mut self, object: impl Into<DeltaObject>, store: &StoreWriter, received: Moment) {
        let object = object.into();
        let key = object.key();
        if self.queue.find(key).index.is_some() || store.get_by_key(key).is_some() {
            return self.queue_change(DeltaType::Deleted, object, received);
        }
        self.populated = true;
        if let Some(shown_version) = high_water_of(&object) {
            self.high_water = shown_version;
        }
    }

    /// Records a bookmark: the source has sent all changes up to `version`.
    pub fn bookmark(&mut self, version: VersionRef<'_>) {
        self.high_water = HighWater::of(version).unwrap_or_default();
    }
}

/// Internals.
impl DeltaFifo {
    fn queue_change(&mut self, kind: DeltaType, object: DeltaObject, received: Moment) {
        self.populated = true;
        let shown_version = high_water_of(&object);
        let slot = self.queue.find(object.key());
        self.push(
            slot,
            Delta {
                kind,
                object,
                reason: Reason::Watch,
                received,
            },
        );
        // After the push: a queued key remembers the high-water version before its change.
        if let Some(shown_version) = shown_version {
            self.high_water = shown_version;
        }
    }

    /// Appends to the key's deltas, or adds the key at the end of the queue.
    pub(super) fn push(&mut self, slot: KeySlot, delta: Delta) {
        match slot.index {
            Some(index) => self.queue.append(index, delta),
            None => self
                .queue
                .push_back(slot.hash, Deltas::new(delta), self.high_water.number),
        }
    }
}

/// The version of `object`. A tombstone has none: its object's version was seen before.
fn high_water_of(object: &DeltaObject) -> Option<HighWater> {
    match object {
        DeltaObject::Object(object) => HighWater::of(object.version()),
        DeltaObject::Tombstone(_) => None,
    }
}

/// The source's high-water version: the newest version it has sent. A number if possible, because it is updated with
/// every event and must not allocate.
#[derive(Debug, Default)]
pub(super) struct HighWater {
    /// 0 if it is not a number.
    number: u64,
    /// The text, if it is not a number.
    text: Option<ResourceVersion>,
}

impl HighWater {
    /// The high-water at `version`; none if that is empty.
    pub(super) fn of(version: VersionRef<'_>) -> Option<HighWater> {
        match version.number() {
            Some(number) => Some(HighWater { number, text: None }),
            None if version.is_empty() => None,
            None => Some(HighWater {
                number: 0,
                text: Some(version.to_version()),
            }),
        }
    }

    pub(super) fn version(&self) -> Option<ResourceVersion> {
        self.text.clone().or_else(|| version_of(self.number))
    }
}

/// The version of a [`HighWater::number`].
pub(super) fn version_of(number: u64) -> Option<ResourceVersion> {
    (number > 0).then(|| ResourceVersion::new(&number.to_string()))
}
