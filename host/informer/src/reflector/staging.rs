//! Staging of a list, by LIST or by WatchList: items become objects as they arrive and are held until the last one is
//! there.

use std::collections::btree_map::Entry;
use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use informant_cache::seeded_bug::{SeededBug, seeded_bug};
use informant_cache::{ShardFilter, Snapshot, stored_bytes};
use informant_object::frames::{
    ListError, ListObject, ListSplitter, RecoveredHead, TooLong, WatchEventType, WatchLine,
};
use informant_object::{Key, KeyRef, Object, ObjectError, ObjectHead, Shape, first_head, head};

use super::ReflectorParts;
use super::other_namespaces::{self, Counts, OtherNamespaces};
use super::staged_heads::{StagedHeads, is_new};
use crate::metrics::{CounterFamily, SourceMetrics, StagedBytes};
use crate::source_name::{SourceName, log};
use crate::status::{OUTDATED_KEYS_MAX, StatusTracker};
use crate::update_channel::ListHeads;

/// A list that is being received.
///
/// An item with the same uid and version as in the store is recognized before anything is copied, and the store's own
/// object is staged instead: a relist with few changes costs a scan per item and a handle of eight bytes.
pub(super) struct Staging<'a> {
    name: &'a SourceName,
    shape: &'a Shape,
    status: &'a StatusTracker,
    metrics: &'a SourceMetrics,
    known: KnownObjects<'a>,
    /// An item with the uid and version of a stored object may differ from it.
    compares_content: bool,
    objects: Vec<Object>,
    /// The position of each of `objects`, once it was needed.
    positions: Option<BTreeMap<Key, usize>>,
    /// Bytes of the new objects.
    new_bytes: usize,
    /// Keys of items that could not be kept: the cache has an older state of them, or none.
    outdated: BTreeSet<Key>,
    /// The memory that they will take in the store.
    memory: StagedBytes,
    heads: StagedHeads,
    /// The shards that are read; items of others are left out.
    shards: Option<ShardFilter>,
    others: &'a OtherNamespaces,
    /// Objects that are left out.
    left_out_of: Counts,
    reads_nothing: bool,
    left_out: u64,
}

/// The store's content; empty before the first list.
struct KnownObjects<'a> {
    all: &'a Snapshot,
    /// Those after the object that was found last.
    ahead: Box<dyn Iterator<Item = &'a Object> + Send + 'a>,
    next: Option<&'a Object>,
}

impl<'a> KnownObjects<'a> {
    fn new(all: &'a Snapshot) -> Self {
        let mut ahead = Box::new(all.iter());
        let next = ahead.next();
        Self { all, ahead, next }
    }

    /// The object with the key that this returns. A first list does not read it.
    fn find_with<'k>(&mut self, key: impl FnOnce() -> KeyRef<'k>) -> Option<&'a Object> {
        match self.all.is_empty() {
            true => None,
            false => self.find(key()),
        }
    }

    /// The object with this key. Lists have nearly the order of the store: it is probably the next one, and a search
    /// would take most of the time of a relist.
    fn find(&mut self, key: KeyRef<'_>) -> Option<&'a Object> {
        if let Some(next) = self.next.filter(|next| next.key() == key) {
            self.next = self.ahead.next();
            return Some(next);
        }
        let found = self.all.get(key)?;
        self.ahead = Box::new(self.all.after(Some(found.key())));
        self.next = self.ahead.next();
        Some(found)
    }
}

/// A complete staged list.
pub(super) struct Staged {
    pub(super) objects: Vec<Object>,
    pub(super) new_bytes: usize,
    pub(super) memory: StagedBytes,
    pub(super) outdated: BTreeSet<Key>,
    pub(super) heads: ListHeads,
}

impl<'a> Staging<'a> {
    pub(super) fn new(parts: &'a ReflectorParts, known: &'a Snapshot) -> Self {
        let objects = Vec::with_capacity(known.len());
        let heads = StagedHeads::new(Arc::clone(&parts.cache), known, parts.request.metadata_only);
        Self {
            name: &parts.name,
            shape: &parts.shape,
            status: &parts.status,
            metrics: &parts.metrics,
            known: KnownObjects::new(known),
            compares_content: false,
            objects,
            positions: None,
            new_bytes: 0,
            outdated: BTreeSet::new(),
            memory: StagedBytes::new(Arc::clone(&parts.metrics), Arc::clone(&parts.cache)),
            heads,
            shards: parts.request.shards,
            others: &parts.others,
            left_out_of: Counts::default(),
            reads_nothing: parts.request.reads_nothing(),
            left_out: 0,
        }
    }

    /// Stages the next item of the list in `splitter`, in one scan; false if there is none.
    ///
    /// # Errors
    /// As [`ListSplitter::next_object`].
    pub(super) fn stage_next(&mut self, splitter: &mut ListSplitter) -> Result<bool, ListError> {
        let (shape, mut same) = (self.shape, None);
        let item = splitter.next_object(shape, |head| {
            if self.leaves_out(head.key()) {
                return false;
            }
            same = self.unchanged(head);
            same.is_none()
        })?;
        match item {
            None => return Ok(false),
            Some(ListObject::Unwanted) => {
                if let Some(known) = same {
                    self.put(known);
                }
            }
            Some(ListObject::Object(object)) => self.stage(object),
            Some(ListObject::Invalid { error, head }) => self.skip_invalid(&error, head),
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
        let is_other = self.shards.is_some() && first_head(event.object).is_ok_and(|head| self.leaves_out(head.key()));
        if is_other {
            return;
        }
        if event.event_type == WatchEventType::Deleted {
            return self.remove(event);
        }
        if event.event_type == WatchEventType::Modified {
            self.index_positions();
        }
        self.stage_json(event.object, || event.object(shape));
    }

    fn stage_json(&mut self, json: &[u8], parse: impl FnOnce() -> Result<Object, ObjectError>) {
        if !self.known.all.is_empty()
            && !self.compares_content
            && let Ok(head) = head(json)
            && let Some(known) = self.unchanged(&head)
        {
            self.put(known);
            return;
        }
        match parse() {
            Ok(object) => self.stage(object),
            Err(error) => self.skip_invalid(&error, RecoveredHead::read(json)),
        }
    }

    fn stage(&mut self, object: Object) {
        if object.has_type_of(self.shape) {
            let known = self.known.find_with(|| object.key());
            if let Some(known) = known.filter(|known| is_same(known, &object)) {
                self.put(known.clone());
                return;
            }
            let object = self.heads.form(object);
            self.new_bytes += object.size_bytes();
            self.memory.add(stored_bytes(&object));
            let position = self.put(object);
            self.heads.count(&self.objects[position], position);
            return;
        }
        let (key, kind) = (object.key(), object.kind());
        if let Some(skipped) = self.status.count_skipped_to_warn("wrong-kind") {
            log!(warn, *self.name, %key, %kind, skipped, "list item skipped: unexpected kind");
        }
    }

    /// Reports the new bytes; while the budget of all caches is exceeded, makes heads of the largest namespaces of the
    /// list. Looks at `objects_max` objects at most; returns whether some may be left.
    pub(super) fn shed_some(&mut self, objects_max: usize) -> bool {
        self.memory.report();
        let memory = &mut self.memory;
        let new_bytes = &mut self.new_bytes;
        self.heads
            .shed_some(&mut self.objects, self.known.all, objects_max, |whole, head| {
                memory.remove(stored_bytes(whole));
                memory.add(stored_bytes(head));
                *new_bytes = (*new_bytes + head.size_bytes()).saturating_sub(whole.size_bytes());
            })
    }

    /// Skips and counts an item that cannot be parsed.
    fn skip_invalid(&mut self, error: &ObjectError, head: Option<RecoveredHead>) {
        if let Some(skipped) = self.status.count_skipped_to_warn(skip_reason(error)) {
            let key = head.as_ref().map_or("unknown", |head| head.key.as_str());
            log!(warn, *self.name, key, %error, skipped, "list item skipped: invalid object");
        }
        if let Some(head) = head {
            self.keep(head);
        }
    }

    /// Skips an item or initial event that is too large. A delete needs only its name.
    pub(super) fn skip_too_long(&mut self, too_long: TooLong) {
        let TooLong {
            head,
            event_type,
            bytes_max,
        } = too_long;
        if let (Some(WatchEventType::Deleted), Some(head)) = (event_type, &head) {
            return self.unstage(&head.key);
        }
        self.status.count_skipped("too-long");
        let Some(head) = head else {
            log!(
                warn,
                *self.name,
                bytes_max,
                "list item skipped: too large, and its key cannot be read"
            );
            return;
        };
        log!(
            warn,
            *self.name,
            key = %head.key,
            bytes_max,
            "list item skipped: too large; the key is outdated"
        );
        self.keep(head);
    }

    /// How many objects are staged.
    pub(super) fn len(&self) -> usize {
        self.objects.len()
    }

    pub(super) fn finish(mut self) -> Staged {
        self.memory.report();
        self.metrics.count_by(CounterFamily::OtherShards, "list", self.left_out);
        if self.shards.is_some() && !self.reads_nothing {
            self.others.listed(self.left_out_of, self.objects.len());
        }
        Staged {
            objects: self.objects,
            new_bytes: self.new_bytes,
            memory: self.memory,
            outdated: self.outdated,
            heads: self.heads.into_shed(),
        }
    }

    /// Whether the object at `key` belongs to a shard that is not read; then it is counted.
    fn leaves_out(&mut self, key: KeyRef<'_>) -> bool {
        let is_other = self.shards.as_ref().is_some_and(|shards| !shards.includes(key));
        if is_other {
            self.left_out += 1;
            other_namespaces::count(&mut self.left_out_of, key.namespace);
        }
        is_other
    }

    /// The store's own object, if `head` has its uid and version.
    fn unchanged(&mut self, head: &ObjectHead<'_>) -> Option<Object> {
        if self.compares_content {
            return None;
        }
        let known = self.known.find_with(|| head.key())?;
        let is_same_version = known.version() == head.version() || seeded_bug(SeededBug::RelistComparesUidOnly);
        let same = !head.version.is_empty() && is_same_version && known.uid() == head.uid;
        same.then(|| known.clone())
    }

    /// Stages the stored state of an item that cannot be kept, and marks its key as outdated: an item that cannot be
    /// read is no reason to report its object as deleted. Another uid is: the stored object is gone.
    fn keep(&mut self, head: RecoveredHead) {
        let known = self.known.find(head.key.as_ref());
        if let Some(known) = known.filter(|known| head.can_be(known.key(), known.uid())).cloned() {
            self.put(known);
        }
        if self
            .shards
            .as_ref()
            .is_some_and(|shards| !shards.includes(head.key.as_ref()))
        {
            return;
        }
        if self.outdated.len() < OUTDATED_KEYS_MAX {
            self.outdated.insert(head.key);
        }
    }

    /// Stages `object`, replacing an older state of it if positions are known. Returns its position.
    fn put(&mut self, object: Object) -> usize {
        let position = self.objects.len();
        if let Some(positions) = &mut self.positions {
            match positions.entry(object.key().to_key()) {
                Entry::Vacant(entry) => drop(entry.insert(position)),
                Entry::Occupied(entry) => {
                    let position = *entry.get();
                    let older = std::mem::replace(&mut self.objects[position], object);
                    self.forget(&older);
                    return position;
                }
            }
        }
        self.objects.push(object);
        position
    }

    /// Unstages an object that was deleted among the initial events.
    fn remove(&mut self, event: &WatchLine<'_>) {
        let error = match head(event.object) {
            Ok(head) => return self.unstage(&head.key().to_key()),
            Err(error) => error,
        };
        if let Some(head) = RecoveredHead::read(event.object) {
            return self.unstage(&head.key);
        }
        if let Some(skipped) = self.status.count_skipped_to_warn(skip_reason(&error)) {
            log!(warn, *self.name, %error, skipped, "delete among the initial events skipped: invalid object");
        }
    }

    fn unstage(&mut self, key: &Key) {
        self.outdated.remove(key);
        let positions = self.index_positions();
        let Some(position) = positions.remove(key) else { return };
        let object = self.objects.swap_remove(position);
        self.forget(&object);
        if let Some(moved) = self.objects.get(position) {
            self.heads.moved(moved, position);
            let key = moved.key().to_key();
            self.index_positions().insert(key, position);
        }
    }

    /// An object is no longer staged: its bytes are given back, unless the store has it.
    fn forget(&mut self, object: &Object) {
        if is_new(object, self.known.all) {
            self.memory.remove(stored_bytes(object));
            self.new_bytes = self.new_bytes.saturating_sub(object.size_bytes());
            self.heads.forget(object);
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
    known.uid() == object.uid() && known.version() == object.version() && known.has_same_content(object)
}

pub(super) fn skip_reason(error: &ObjectError) -> &'static str {
    match error {
        ObjectError::NoName => "no-name",
        ObjectError::TooLarge { .. } | ObjectError::FieldTooLong { .. } => "too-long",
        _ => "not-json",
    }
}
