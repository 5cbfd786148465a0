//! A list on its way in, by LIST or by WatchList: items become objects as they arrive, and are staged until the last
//! one is there.

use std::collections::BTreeMap;
use std::collections::btree_map::Entry;

use informant_cache::Snapshot;
use informant_cache::seeded_bug::{SeededBug, seeded_bug};
use informant_object::frames::{ListError, ListObject, ListSplitter, TooLong, WatchEventType, WatchLine};
use informant_object::{Key, KeyRef, Object, ObjectError, ObjectHead, Shape, head};

use super::skipped::{is_of_shape, reason_of, salvaged_key};
use crate::status::StatusCell;

/// What a list has brought so far.
///
/// An item that the store holds already, with the same uid and version, is recognized before anything is copied, and
/// the store's own object is staged in its place: a relist in which little changed costs a scan per item and a handle
/// of eight bytes.
pub(super) struct Staging<'a> {
    shape: &'a Shape,
    status: &'a StatusCell,
    /// What the store holds; empty before the first list.
    known: Snapshot,
    /// What the store holds may have been cut otherwise.
    other_shape: bool,
    objects: Vec<Object>,
    /// Where each of `objects` is, once that had to be asked.
    places: Option<BTreeMap<Key, usize>>,
    /// Bytes of the objects that are new.
    new_bytes: usize,
    /// Whether a key was marked outdated.
    outdated: bool,
}

/// What a list brought.
pub(super) struct Staged {
    pub(super) objects: Vec<Object>,
    pub(super) new_bytes: usize,
    pub(super) outdated: bool,
}

impl<'a> Staging<'a> {
    pub(super) fn new(shape: &'a Shape, status: &'a StatusCell, known: Snapshot) -> Self {
        let objects = Vec::with_capacity(known.len());
        Self {
            shape,
            status,
            known,
            other_shape: false,
            objects,
            places: None,
            new_bytes: 0,
            outdated: false,
        }
    }

    /// Takes the next item of a list that `splitter` holds, in one scan; whether there was one.
    ///
    /// # Errors
    /// As [`ListSplitter::next_object`].
    pub(super) fn take_next(&mut self, splitter: &mut ListSplitter) -> Result<bool, ListError> {
        let mut same = None;
        let item = splitter.next_object(self.shape, |head| {
            same = self.unchanged(head);
            same.is_none()
        })?;
        match item {
            None => return Ok(false),
            Some(ListObject::Unwanted) => same.into_iter().for_each(|known| self.put(known)),
            Some(ListObject::Object(object)) => self.take(object),
            Some(ListObject::Invalid { error, key }) => self.take_invalid(&error, key),
            Some(ListObject::TooLong(too_long)) => self.take_too_long(too_long),
        }
        Ok(true)
    }

    /// What the store holds was read in another way: every item is read anew. The loop compares.
    pub(super) fn of_another_shape(self) -> Self {
        Self {
            other_shape: true,
            ..self
        }
    }

    /// Takes the object of an event before the end of a WatchList's initial ones. All of them are ADDED but for what
    /// happens meanwhile.
    pub(super) fn take_event(&mut self, event: &WatchLine<'_>) {
        let shape = self.shape;
        if event.event_type == WatchEventType::Deleted {
            return self.remove(event);
        }
        if event.event_type == WatchEventType::Modified {
            self.remember_places();
        }
        self.take_as(event.object, || event.object(shape));
    }

    fn take_as(&mut self, json: &[u8], parse: impl FnOnce() -> Result<Object, ObjectError>) {
        if !self.known.is_empty()
            && let Ok(head) = head(json)
            && let Some(known) = self.unchanged(&head)
        {
            return self.put(known);
        }
        match parse() {
            Ok(object) => self.take(object),
            Err(error) => self.take_invalid(&error, salvaged_key(json)),
        }
    }

    fn take(&mut self, object: Object) {
        if is_of_shape(&object, self.shape) {
            self.new_bytes += object.size_bytes();
            return self.put(object);
        }
        self.status.count_skipped("wrong-kind");
        tracing::warn!(
            "a list holds {} {}, which is no {}; skipped",
            object.kind(),
            object.key(),
            self.shape.kind
        );
    }

    /// An item cannot be used. It is counted; what the store holds of it stays, because a broken item is no reason to
    /// report its object as deleted.
    fn take_invalid(&mut self, error: &ObjectError, key: Option<Key>) {
        self.status.count_skipped(reason_of(error));
        tracing::warn!("an item of a list cannot be used and is skipped: {error}");
        if let Some(key) = key {
            self.keep(key.as_ref());
        }
    }

    /// An item was too large to be taken: what the store holds of it stays, outdated.
    pub(super) fn take_too_long(&mut self, too_long: TooLong) {
        self.status.count_skipped("too-long");
        let Some(key) = too_long.key else {
            tracing::warn!(
                "a list holds an item above {} bytes whose name cannot be read; skipped",
                too_long.bytes_max
            );
            return;
        };
        tracing::warn!(
            "a list holds {key} with more than {} bytes; skipped, its key is outdated",
            too_long.bytes_max
        );
        self.keep(key.as_ref());
        self.status.add_outdated(key);
        self.outdated = true;
    }

    pub(super) fn finish(self) -> Staged {
        Staged {
            objects: self.objects,
            new_bytes: self.new_bytes,
            outdated: self.outdated,
        }
    }

    /// The store's own object, if `head` is that of the same state of it.
    fn unchanged(&self, head: &ObjectHead<'_>) -> Option<Object> {
        if self.other_shape {
            return None;
        }
        let known = self.known.get(head.key())?;
        let is_same_version = known.version() == head.version() || seeded_bug(SeededBug::RelistTrustsUid);
        let same = !head.version.is_empty() && is_same_version && known.uid() == head.uid;
        same.then(|| known.clone())
    }

    fn keep(&mut self, key: KeyRef<'_>) {
        if let Some(known) = self.known.get(key).cloned() {
            self.put(known);
        }
    }

    /// Stages `object`; in place of an older state of it, if places are known.
    fn put(&mut self, object: Object) {
        if let Some(places) = &mut self.places {
            let place = self.objects.len();
            match places.entry(object.key().to_key()) {
                Entry::Vacant(entry) => drop(entry.insert(place)),
                Entry::Occupied(entry) => {
                    self.objects[*entry.get()] = object;
                    return;
                }
            }
        }
        self.objects.push(object);
    }

    /// Takes what was deleted while the initial events came out again.
    fn remove(&mut self, event: &WatchLine<'_>) {
        let key = match head(event.object) {
            Ok(head) => head.key().to_key(),
            Err(error) => {
                self.status.count_skipped(reason_of(&error));
                tracing::warn!("a delete among the initial events cannot be used and is skipped: {error}");
                return;
            }
        };
        let places = self.remember_places();
        let Some(place) = places.remove(&key) else { return };
        self.objects.swap_remove(place);
        if let Some(moved) = self.objects.get(place) {
            let key = moved.key().to_key();
            self.remember_places().insert(key, place);
        }
    }

    /// From now on it is known where each staged object is. Only what happens while the initial events come needs that.
    fn remember_places(&mut self) -> &mut BTreeMap<Key, usize> {
        let objects = &self.objects;
        self.places.get_or_insert_with(|| {
            let places = objects.iter().enumerate();
            places.map(|(place, object)| (object.key().to_key(), place)).collect()
        })
    }
}
