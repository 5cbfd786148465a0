//! A list on its way in: items become objects as they arrive, and are staged until the last one is there.

use informant_cache::Snapshot;
use informant_object::frames::TooLong;
use informant_object::{Object, Shape, head};

use super::skipped::{is_of_shape, reason_of, salvaged_key};
use crate::status::StatusCell;

/// What a list has brought so far.
///
/// An item that the store holds already, with the same uid and version, is recognised before anything is copied, and the store's own object is
/// staged in its place: a relist in which little changed costs a scan per item and a handle of eight bytes.
pub(super) struct Staging<'a> {
    shape: &'a Shape,
    status: &'a StatusCell,
    /// What the store holds; empty before the first list.
    known: Snapshot,
    objects: Vec<Object>,
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
            objects,
            new_bytes: 0,
            outdated: false,
        }
    }

    /// Takes one item. One that cannot be used is counted; what the store holds of it stays, because a broken item is no reason to report its
    /// object as deleted.
    pub(super) fn take(&mut self, json: &[u8]) {
        if let Some(known) = self.unchanged(json) {
            return self.objects.push(known);
        }
        match Object::parse(json, self.shape) {
            Ok(object) if is_of_shape(&object, self.shape) => {
                self.new_bytes += object.size_bytes();
                self.objects.push(object);
            }
            Ok(object) => {
                self.status.count_skipped("wrong-kind");
                tracing::warn!(
                    "a list holds {} {}, which is no {}; skipped",
                    object.kind(),
                    object.key(),
                    self.shape.kind
                );
            }
            Err(error) => {
                self.status.count_skipped(reason_of(&error));
                tracing::warn!("an item of a list cannot be used and is skipped: {error}");
                if let Some(key) = salvaged_key(json) {
                    self.keep(key.as_ref());
                }
            }
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

    /// The store's own object, if `json` is the same state of it.
    fn unchanged(&self, json: &[u8]) -> Option<Object> {
        if self.known.is_empty() {
            return None;
        }
        let head = head(json).ok()?;
        let known = self.known.get(head.key())?;
        let same = known.version() == head.version() && known.uid() == head.uid && !head.version.is_empty();
        same.then(|| known.clone())
    }

    fn keep(&mut self, key: informant_object::KeyRef<'_>) {
        if let Some(known) = self.known.get(key) {
            self.objects.push(known.clone());
        }
    }
}
