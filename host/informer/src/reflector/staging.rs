//! Staging of a list, by LIST or by WatchList: items become objects as they arrive and are held until the last one is
//! there.

use std::collections::BTreeMap;
use std::collections::btree_map::Entry;
use std::sync::Arc;

use informant_cache::seeded_bug::{SeededBug, seeded_bug};
use informant_cache::{Snapshot, stored_bytes};
use informant_object::frames::{ListError, ListObject, ListSplitter, TooLong, WatchEventType, WatchLine};
use informant_object::{Key, KeyRef, Object, ObjectError, ObjectHead, Shape, head};
use serde::Deserialize;

use super::ReflectorParts;
use crate::metrics::StagedBytes;
use crate::source_name::{SourceName, log};
use crate::status::StatusTracker;

/// A list that is being received.
///
/// An item with the same uid and version as in the store is recognized before anything is copied, and the store's own
/// object is staged instead: a relist with few changes costs a scan per item and a handle of eight bytes.
pub(super) struct Staging<'a> {
    name: &'a SourceName,
    shape: &'a Shape,
    status: &'a StatusTracker,
    /// The store's content; empty before the first list.
    known: Snapshot,
    /// An item with the uid and version of a stored object may differ from it.
    compares_content: bool,
    objects: Vec<Object>,
    /// The position of each of `objects`, once it was needed.
    positions: Option<BTreeMap<Key, usize>>,
    /// Bytes of the new objects.
    new_bytes: usize,
    /// The memory that they will take in the store.
    memory: StagedBytes,
    /// Whether a key was marked outdated.
    outdated: bool,
}

/// A complete staged list.
pub(super) struct Staged {
    pub(super) objects: Vec<Object>,
    pub(super) new_bytes: usize,
    pub(super) memory: StagedBytes,
    pub(super) outdated: bool,
}

impl<'a> Staging<'a> {
    pub(super) fn new(parts: &'a ReflectorParts, known: Snapshot) -> Self {
        let objects = Vec::with_capacity(known.len());
        Self {
            name: &parts.name,
            shape: &parts.shape,
            status: &parts.status,
            known,
            compares_content: false,
            objects,
            positions: None,
            new_bytes: 0,
            memory: StagedBytes::new(Arc::clone(&parts.metrics)),
            outdated: false,
        }
    }

    /// Stages the next item of the list in `splitter`, in one scan; false if there is none.
    ///
    /// # Errors
    /// As [`ListSplitter::next_object`].
    pub(super) fn stage_next(&mut self, splitter: &mut ListSplitter) -> Result<bool, ListError> {
        let mut same = None;
        let item = splitter.next_object(self.shape, |head| {
            same = self.unchanged(head);
            same.is_none()
        })?;
        match item {
            None => return Ok(false),
            Some(ListObject::Unwanted) => same.into_iter().for_each(|known| self.put(known)),
            Some(ListObject::Object(object)) => self.stage(object),
            Some(ListObject::Invalid { error, key }) => self.skip_invalid(&error, key),
            Some(ListObject::TooLong(too_long)) => self.skip_too_long(too_long),
        }
        Ok(true)
    }

    /// Parses every item, also those with the uid and version of a stored object.
    pub(super) fn comparing_content(self) -> Self {
        Self {
            compares_content: true,
            ..self
        }
    }

    /// Stages the object of an event before the end of a WatchList's initial events. All of them are ADDED, except for
    /// changes that happen meanwhile.
    pub(super) fn stage_event(&mut self, event: &WatchLine<'_>) {
        let shape = self.shape;
        if event.event_type == WatchEventType::Deleted {
            return self.remove(event);
        }
        if event.event_type == WatchEventType::Modified {
            self.index_positions();
        }
        self.stage_json(event.object, || event.object(shape));
    }

    fn stage_json(&mut self, json: &[u8], parse: impl FnOnce() -> Result<Object, ObjectError>) {
        if !self.known.is_empty()
            && !self.compares_content
            && let Ok(head) = head(json)
            && let Some(known) = self.unchanged(&head)
        {
            return self.put(known);
        }
        match parse() {
            Ok(object) => self.stage(object),
            Err(error) => self.skip_invalid(&error, key_of_invalid(json)),
        }
    }

    fn stage(&mut self, object: Object) {
        if has_expected_type(&object, self.shape) {
            if let Some(known) = self.known.get(object.key()).filter(|known| is_same(known, &object)) {
                return self.put(known.clone());
            }
            self.new_bytes += object.size_bytes();
            self.memory.add(stored_bytes(&object));
            return self.put(object);
        }
        let (key, kind) = (object.key(), object.kind());
        if let Some(skipped) = self.status.count_skipped_to_warn("wrong-kind") {
            log!(warn, *self.name, %key, %kind, skipped, "list item skipped: unexpected kind");
        }
    }

    /// Skips and counts an item that cannot be parsed. The stored object stays, because a broken item is no reason to
    /// report its object as deleted.
    fn skip_invalid(&mut self, error: &ObjectError, key: Option<Key>) {
        if let Some(skipped) = self.status.count_skipped_to_warn(skip_reason(error)) {
            log!(warn, *self.name, %error, skipped, "list item skipped: invalid object");
        }
        if let Some(key) = key {
            self.keep(key.as_ref());
        }
    }

    /// Skips an item that is too large: the stored object stays and is marked outdated.
    pub(super) fn skip_too_long(&mut self, too_long: TooLong) {
        self.status.count_skipped("too-long");
        let Some(key) = too_long.key else {
            log!(
                warn,
                *self.name,
                bytes_max = too_long.bytes_max,
                "list item skipped: too large, and its key cannot be read"
            );
            return;
        };
        log!(
            warn,
            *self.name,
            %key,
            bytes_max = too_long.bytes_max,
            "list item skipped: too large; the key is outdated"
        );
        self.keep(key.as_ref());
        self.status.add_outdated(key);
        self.outdated = true;
    }

    /// How many objects are staged.
    pub(super) fn len(&self) -> usize {
        self.objects.len()
    }

    pub(super) fn finish(self) -> Staged {
        Staged {
            objects: self.objects,
            new_bytes: self.new_bytes,
            memory: self.memory,
            outdated: self.outdated,
        }
    }

    /// The store's own object, if `head` has its uid and version.
    fn unchanged(&self, head: &ObjectHead<'_>) -> Option<Object> {
        if self.compares_content {
            return None;
        }
        let known = self.known.get(head.key())?;
        let is_same_version = known.version() == head.version() || seeded_bug(SeededBug::RelistComparesUidOnly);
        let same = !head.version.is_empty() && is_same_version && known.uid() == head.uid;
        same.then(|| known.clone())
    }

    fn keep(&mut self, key: KeyRef<'_>) {
        if let Some(known) = self.known.get(key).cloned() {
            self.put(known);
        }
    }

    /// Stages `object`, replacing an older state of it if positions are known.
    fn put(&mut self, object: Object) {
        if let Some(positions) = &mut self.positions {
            let position = self.objects.len();
            match positions.entry(object.key().to_key()) {
                Entry::Vacant(entry) => drop(entry.insert(position)),
                Entry::Occupied(entry) => {
                    self.objects[*entry.get()] = object;
                    return;
                }
            }
        }
        self.objects.push(object);
    }

    /// Unstages an object that was deleted among the initial events.
    fn remove(&mut self, event: &WatchLine<'_>) {
        let key = match head(event.object) {
            Ok(head) => head.key().to_key(),
            Err(error) => {
                if let Some(skipped) = self.status.count_skipped_to_warn(skip_reason(&error)) {
                    log!(warn, *self.name, %error, skipped, "delete among the initial events skipped: invalid object");
                }
                return;
            }
        };
        let positions = self.index_positions();
        let Some(position) = positions.remove(&key) else { return };
        self.objects.swap_remove(position);
        if let Some(moved) = self.objects.get(position) {
            let key = moved.key().to_key();
            self.index_positions().insert(key, position);
        }
    }

    /// Starts to track the position of each staged object. Only changes among the initial events need that.
    fn index_positions(&mut self) -> &mut BTreeMap<Key, usize> {
        let objects = &self.objects;
        self.positions.get_or_insert_with(|| {
            let positions = objects.iter().enumerate();
            positions
                .map(|(position, object)| (object.key().to_key(), position))
                .collect()
        })
    }
}

/// Whether the objects are the same state with the same content.
fn is_same(known: &Object, object: &Object) -> bool {
    known.uid() == object.uid() && known.version() == object.version() && known.json() == object.json()
}

/// Whether `object` has the kind and API version of the source.
pub(super) fn has_expected_type(object: &Object, shape: &Shape) -> bool {
    object.kind() == shape.kind && object.api_version() == shape.api_version
}

pub(super) fn skip_reason(error: &ObjectError) -> &'static str {
    match error {
        ObjectError::NoName => "no-name",
        ObjectError::TooLarge { .. } => "too-long",
        _ => "not-json",
    }
}

/// The key of an object that cannot be parsed as a whole, if it can be read.
pub(super) fn key_of_invalid(json: &[u8]) -> Option<Key> {
    #[derive(Deserialize)]
    struct Item {
        metadata: Metadata,
    }
    #[derive(Deserialize)]
    struct Metadata {
        name: String,
        namespace: Option<String>,
    }
    let Item { metadata } = serde_json::from_slice(json).ok()?;
    (!metadata.name.is_empty()).then(|| Key::new(&metadata.namespace.unwrap_or_default(), &metadata.name))
}
