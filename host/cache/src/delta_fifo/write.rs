//! Writing one change to the queue.

use informant_object::{KeyRef, Object, ResourceVersion, VersionRef};

use super::keyed_queue::KeySlot;
use super::{DeltaFifo, bytes_of};
use crate::delta::{Delta, DeltaObject, DeltaType, Deltas};
use crate::known_objects::KnownObjects;
use crate::transform::{self, TransformError};
use crate::{Moment, Reason};

/// Writing.
impl DeltaFifo {
    /// Queues an [`DeltaType::Added`]. A queued key keeps its position, a new one goes to the end.
    ///
    /// # Errors
    /// [`TransformError`]; the queue is unchanged, and the event is counted.
    pub fn add(&mut self, object: Object, received: Moment) -> Result<(), TransformError> {
        self.queue_change(DeltaType::Added, object.into(), received)
    }

    /// Queues an [`DeltaType::Updated`], as [`add`](Self::add) does.
    ///
    /// # Errors
    /// As [`add`](Self::add).
    pub fn update(&mut self, object: Object, received: Moment) -> Result<(), TransformError> {
        self.queue_change(DeltaType::Updated, object.into(), received)
    }

    /// Queues a [`DeltaType::Deleted`] with the object's last state (or a [`Tombstone`](crate::Tombstone)), if the key
    /// is queued or known. A delete of an unknown object is ignored and counted; if the look-up fails it is queued.
    ///
    /// # Errors
    /// As [`add`](Self::add).
    pub fn delete(
        &mut self,
        object: impl Into<DeltaObject>,
        known: &(impl KnownObjects + ?Sized),
        received: Moment,
    ) -> Result<(), TransformError> {
        let object = object.into();
        if self.queue.find(object.key()).index.is_none() && !self.may_be_known(object.key(), known) {
            self.populated = true;
            self.stats.deletes_ignored += 1;
            self.raise_high_water(&object);
            return Ok(());
        }
        self.queue_change(DeltaType::Deleted, object, received)
    }

    /// Queues a [`DeltaType::Sync`] for each known key that has nothing queued. A key whose look-up fails is skipped.
    pub fn resync(&mut self, known: &(impl KnownObjects + ?Sized), received: Moment) {
        known.visit(&mut |key, object| {
            let slot = self.queue.find(key);
            if slot.index.is_some() {
                return;
            }
            match object {
                Some(object) => {
                    let object = DeltaObject::Object(object.clone());
                    self.push(
                        slot,
                        Delta {
                            kind: DeltaType::Sync,
                            object,
                            reason: Reason::Resync,
                            received,
                        },
                    );
                }
                None => self.stats.lookups_failed += 1,
            }
        });
    }

    /// Puts popped deltas back at the end of the queue; returns whether it did. If newer deltas of the key are queued,
    /// nothing is put back.
    pub fn add_if_not_present(&mut self, deltas: Deltas) -> bool {
        self.populated = true;
        let slot = self.queue.find(deltas.key());
        if slot.index.is_some() {
            self.stats.requeues_superseded += deltas.len() as u64;
            return false;
        }
        self.stats.requeued += deltas.len() as u64;
        self.bytes += bytes_of(&deltas);
        self.queue.push_back(slot.hash, deltas, self.high_water.number());
        true
    }

    /// Records a bookmark: the source has sent all changes up to `version`.
    pub fn bookmark(&mut self, version: VersionRef<'_>) {
        self.high_water = HighWater::of(version).unwrap_or_default();
    }

    /// Closes the queue. Queued keys can still be popped, and writes are not refused, as in client-go; once empty,
    /// [`pop`](Self::pop) returns [`Pop::Closed`](super::Pop::Closed).
    pub fn close(&mut self) {
        self.closed = true;
    }
}

/// Internals.
impl DeltaFifo {
    fn queue_change(&mut self, kind: DeltaType, object: DeltaObject, received: Moment) -> Result<(), TransformError> {
        self.populated = true;
        let shown_version = high_water_of(&object);
        let transformed = self.transformed(object);
        let result = transformed.map(|object| {
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
        });
        // After the push: a queued key remembers the high-water version before its change.
        if let Some(shown_version) = shown_version {
            self.high_water = shown_version;
        }
        result
    }

    fn may_be_known(&mut self, key: KeyRef<'_>, known: &(impl KnownObjects + ?Sized)) -> bool {
        match known.get_by_key(key) {
            Ok(object) => object.is_some(),
            Err(_) => {
                self.stats.lookups_failed += 1;
                true
            }
        }
    }

    /// Raises the high-water version to that of `object`.
    fn raise_high_water(&mut self, object: &DeltaObject) {
        if let Some(shown_version) = high_water_of(object) {
            self.high_water = shown_version;
        }
    }

    /// Appends to the key's deltas, or adds the key at the end of the queue.
    pub(super) fn push(&mut self, slot: KeySlot, delta: Delta) {
        self.stats.queued_deltas += 1;
        self.bytes += delta.object.size_bytes();
        let Some(index) = slot.index else {
            return self
                .queue
                .push_back(slot.hash, Deltas::new(delta), self.high_water.number());
        };
        if let Some(collapsed) = self.queue.append(index, delta) {
            self.stats.deletes_collapsed += 1;
            self.bytes -= collapsed.object.size_bytes();
        }
    }

    pub(super) fn transformed(&mut self, object: DeltaObject) -> Result<DeltaObject, TransformError> {
        match (&mut self.options.transform, object) {
            (Some(transform), DeltaObject::Object(object)) => match transform::apply(transform.as_mut(), object) {
                Ok(object) => Ok(object.into()),
                Err(error) => {
                    self.stats.transforms_failed += 1;
                    Err(error)
                }
            },
            (_, object) => Ok(object),
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

    /// The number; 0 if it is not a number.
    pub(super) fn number(&self) -> u64 {
        self.number
    }

    pub(super) fn version(&self) -> Option<ResourceVersion> {
        self.text.clone().or_else(|| version_of(self.number))
    }
}

/// The version of a number from [`HighWater::number`].
pub(super) fn version_of(number: u64) -> Option<ResourceVersion> {
    (number > 0).then(|| ResourceVersion::new(&number.to_string()))
}
