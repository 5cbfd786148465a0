//! Native indexes: a function computes their values.

use std::ops::Bound;
use std::sync::Arc;

use informant_object::{Key, KeyRef};

use super::super::root::StoredObject;
use super::StoreWriter;
use super::shed::fields_of;
use crate::index::{IndexConflict, IndexError, IndexFailures, IndexFunc, Postings};

/// How many stored objects are processed before other tasks get a turn: half a millisecond to two, by the index
/// functions.
pub const OBJECTS_BETWEEN_YIELDS_MAX: usize = 1_024;

/// Native indexes that are being filled, and how far they are.
#[derive(Debug)]
pub struct IndexFilling {
    first_new: usize,
    /// The last object that is in them.
    last: Option<Key>,
}

/// Indexes.
impl StoreWriter {
    /// Adds `indexes`, all or none, and fills them from what is stored.
    ///
    /// # Errors
    /// [`IndexConflict`] if a name exists already or occurs twice; nothing is added then.
    pub fn add_indexers(&mut self, indexes: Vec<Box<dyn IndexFunc>>) -> Result<(), IndexConflict> {
        let mut filling = self.begin_indexers(indexes)?;
        while !self.fill_indexers(&mut filling, OBJECTS_BETWEEN_YIELDS_MAX) {}
        Ok(())
    }

    /// Adds `indexes`, all or none, still empty: call [`fill_indexers`](Self::fill_indexers) until it is done, and
    /// write and publish nothing before that.
    ///
    /// # Errors
    /// [`IndexConflict`] if a name exists already or occurs twice; nothing is added then.
    pub fn begin_indexers(&mut self, indexes: Vec<Box<dyn IndexFunc>>) -> Result<IndexFilling, IndexConflict> {
        let mut names: Vec<&str> = indexes.iter().map(|index| index.name()).collect();
        names.sort_unstable();
        let taken = |at: usize| self.is_declared(names[at]) || (at > 0 && names[at] == names[at - 1]);
        let mut conflicts: Vec<String> = (0..names.len())
            .filter(|&at| taken(at))
            .map(|at| names[at].to_owned())
            .collect();
        conflicts.dedup();
        if !conflicts.is_empty() {
            return Err(IndexConflict { names: conflicts });
        }
        let first_new = self.root.functions.len();
        let functions = Arc::make_mut(&mut self.root.functions);
        functions.extend(indexes.into_iter().map(Arc::from));
        self.root.postings.resize_with(functions.len(), Postings::default);
        self.failures.resize_with(functions.len(), IndexFailures::default);
        self.head_fields = fields_of(functions).map(Arc::new);
        self.late_functions = match self.root.heads {
            0 => functions.len(),
            _ => self.late_functions.min(first_new),
        };
        self.dirty = true;
        Ok(IndexFilling { first_new, last: None })
    }

    /// Computes the values of at most `objects_max` more stored objects in the new indexes; the functions of the others
    /// are not run again. Returns whether the indexes are complete.
    pub fn fill_indexers(&mut self, filling: &mut IndexFilling, objects_max: usize) -> bool {
        let (first_new, late) = (filling.first_new, self.late_functions);
        let unfilled = self.root.objects.range(after(filling.last.as_ref()));
        let keys: Vec<Key> = unfilled.take(objects_max).map(|(key, _)| key.clone()).collect();
        for key in &keys {
            let Some(stored) = self.root.objects.get(key) else {
                continue;
            };
            let (functions, failures) = (&self.root.functions[first_new..], &mut self.failures[first_new..]);
            self.computed.load(&stored.values, 0..first_new);
            self.computed
                .compute((first_new, late), functions, failures, &stored.object);
            if !stored.values.are(&self.computed)
                && let Some(stored) = self.root.objects.get_mut(key)
            {
                stored.values.update(&mut self.computed, &mut self.root.postings, key);
            }
        }
        let is_complete = keys.len() < objects_max;
        filling.last = keys.into_iter().next_back();
        is_complete
    }

    /// An empty writer for the same source, without the native indexes called `removed`, and with `added`: call
    /// [`copy_objects`](Self::copy_objects) until it is done. External indexes are not copied: declare them again. The
    /// last snapshot stays published until the new writer publishes.
    ///
    /// # Errors
    /// [`IndexConflict`] if a name of `added` exists already.
    pub fn with_indexers(
        &self,
        removed: &[String],
        added: Vec<Box<dyn IndexFunc>>,
    ) -> Result<StoreWriter, IndexConflict> {
        let mut writer = StoreWriter {
            source: self.source.clone(),
            published: self.published.clone(),
            ..StoreWriter::new()
        };
        let functions = self.root.functions.iter();
        let slots: Vec<usize> = functions
            .enumerate()
            .filter(|(_, function)| !removed.iter().any(|name| name == function.name()))
            .map(|(slot, _)| slot)
            .collect();
        let kept = slots.iter().map(|slot| Arc::clone(&self.root.functions[*slot]));
        writer.root.usage = Arc::new(self.root.usage.without_objects());
        writer.root.functions = Arc::new(kept.collect());
        writer.root.postings.resize_with(slots.len(), Postings::default);
        writer.failures = slots.iter().map(|slot| self.failures[*slot].clone()).collect();
        writer.root.failures = Arc::new(writer.failures.clone());
        writer.add_indexers(added)?;
        if self.root.heads > 0 {
            let in_time = slots.iter().take_while(|slot| **slot < self.late_functions);
            writer.late_functions = in_time.count();
        }
        for namespace in &self.shed {
            writer.shed_namespace(namespace);
        }
        Ok(writer)
    }

    /// Copies at most `objects_max` more objects of `from`, with their values in the indexes that both have, and
    /// computes those in the others: heads may lack what the former were computed from. Returns whether this writer has
    /// the same content now. Nothing may be written to `from` meanwhile.
    pub fn copy_objects(&mut self, from: &StoreWriter, objects_max: usize) -> bool {
        let is_kept = |function: &&Arc<dyn IndexFunc>| self.root.functions.iter().any(|own| Arc::ptr_eq(own, function));
        let slots = from.root.functions.iter().enumerate();
        let kept: Vec<usize> = slots
            .filter(|(_, function)| is_kept(function))
            .map(|(slot, _)| slot)
            .collect();
        let objects = from.root.objects.range(after(self.top.as_ref())).take(objects_max);
        let objects: Vec<StoredObject> = objects.map(|(_, stored)| stored.clone()).collect();
        let is_complete = objects.len() < objects_max;
        for stored in objects {
            self.copy(stored, &kept);
        }
        if is_complete {
            self.root.version = from.root.version.clone();
            self.root.epoch = from.root.epoch;
            self.root.generation = from.root.generation;
            self.root.sheds = from.root.sheds.clone();
            self.root.replaced_bytes = from.root.replaced_bytes;
            self.root.reformed_bytes = from.root.reformed_bytes;
            self.dirty = true;
        }
        is_complete
    }

    /// Stores an object that sorts last, with its values in the first indexes; `kept` are their positions in these.
    fn copy(&mut self, StoredObject { object, values }: StoredObject, kept: &[usize]) {
        self.computed.load(&values, kept.iter().copied());
        let first = kept.len();
        let (functions, failures) = (&self.root.functions[first..], &mut self.failures[first..]);
        self.computed
            .compute((first, self.late_functions), functions, failures, &object);
        let fields = self.head_fields.as_ref().filter(|_| self.is_shed(object.namespace()));
        let head = fields.map(|fields| object.to_head(fields));
        self.insert(head.unwrap_or(object), true);
        self.dirty = true;
    }

    /// The failures of the native index called `index`; none if it does not exist.
    #[must_use]
    pub fn index_failures(&self, index: &str) -> Option<&IndexFailures> {
        self.root.slot(index).map(|slot| &self.failures[slot])
    }

    /// Copies changed failures to the next root.
    pub(super) fn publish_failures(&mut self) {
        let mut changed = false;
        for failures in &mut self.failures {
            changed |= failures.take_changed();
        }
        if changed {
            self.root.failures = Arc::new(self.failures.clone());
        }
    }

    pub(super) fn is_declared(&self, index: &str) -> bool {
        !matches!(self.root.index(index), Err(IndexError::UnknownIndex { .. }))
    }
}

/// All keys after `last`.
fn after(last: Option<&Key>) -> (Bound<KeyRef<'_>>, Bound<KeyRef<'_>>) {
    let start = last.map_or(Bound::Unbounded, |last| Bound::Excluded(last.as_ref()));
    (start, Bound::Unbounded)
}
