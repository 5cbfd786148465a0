//! Native indexes: a function computes their values.

use std::sync::Arc;

use super::StoreWriter;
use crate::index::{IndexConflict, IndexFailures, IndexFunc, NAMESPACE_INDEX, Postings};

/// Indexes.
impl StoreWriter {
    /// Adds `indexes`, all or none, and fills them from what is stored.
    ///
    /// # Errors
    /// [`IndexConflict`] if a name exists already or occurs twice; nothing is added then.
    pub fn add_indexers(&mut self, indexes: Vec<Box<dyn IndexFunc>>) -> Result<(), IndexConflict> {
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
        self.dirty = true;
        self.back_fill(first_new);
        Ok(())
    }

    /// A writer with the same objects, without the native indexes called `removed`, and with `added`. External indexes
    /// are not copied: declare them again. The last snapshot stays published until the new writer publishes.
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
        let functions = self.root.functions.iter().cloned();
        let kept: Vec<_> = functions
            .filter(|function| !removed.iter().any(|name| name == function.name()))
            .collect();
        writer.root.postings.resize_with(kept.len(), Postings::default);
        writer.failures.resize_with(kept.len(), IndexFailures::default);
        writer.root.functions = Arc::new(kept);
        writer.add_indexers(added)?;
        for stored in self.root.objects.values() {
            writer.add(stored.object.clone());
        }
        writer.root.version = self.root.version.clone();
        writer.root.epoch = self.root.epoch;
        writer.root.generation = self.root.generation;
        writer.dirty = true;
        Ok(writer)
    }

    /// The names of all indexes, ready or not, sorted.
    #[must_use]
    pub fn get_indexers(&self) -> Vec<String> {
        self.root.index_names()
    }

    /// The failures of the native index called `index`; none if it does not exist.
    #[must_use]
    pub fn index_failures(&self, index: &str) -> Option<&IndexFailures> {
        self.slot(index).map(|slot| &self.failures[slot])
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

    fn slot(&self, index: &str) -> Option<usize> {
        self.root.functions.iter().position(|function| function.name() == index)
    }

    pub(super) fn is_declared(&self, index: &str) -> bool {
        index == NAMESPACE_INDEX
            || self.slot(index).is_some()
            || self.root.external.iter().any(|(name, _)| **name == *index)
    }

    /// Computes the values of all stored objects in the native indexes from `first_new` on. The others are not run
    /// again.
    fn back_fill(&mut self, first_new: usize) {
        for key in self.root.objects.keys().cloned().collect::<Vec<_>>() {
            let Some(stored) = self.root.objects.get(&key) else {
                continue;
            };
            let (functions, failures) = (&self.root.functions[first_new..], &mut self.failures[first_new..]);
            self.computed.load(&stored.values, first_new);
            self.computed.compute(first_new, functions, failures, &stored.object);
            if !stored.values.are(&self.computed)
                && let Some(stored) = self.root.objects.get_mut(&key)
            {
                stored.values.update(&mut self.computed, &mut self.root.postings, &key);
            }
        }
    }
}
