//! External indexes: their values come from index plugins.
//!
//! A declared index returns `NotReady`. Its contents are computed separately, from a snapshot and the keys written
//! since, and attached complete; from then on the loop attaches new contents before each publish. Objects written after
//! that are removed from the index. A detached index returns `NotReady` again.

use std::collections::BTreeSet;
use std::sync::Arc;

use informant_object::Key;

use super::StoreWriter;
use crate::index::{IndexConflict, IndexContents, IndexError};

/// The writer's state of one external index between two publishes.
#[derive(Debug, Default)]
pub(super) struct ExternalState {
    attached: bool,
    /// Written since it was attached and not published yet: without values.
    expected: BTreeSet<Key>,
    missing: u64,
}

impl ExternalState {
    fn restart(&mut self, attached: bool) {
        self.attached = attached;
        self.expected.clear();
    }

    pub(super) fn expect_values(&mut self, key: &Key) {
        if self.attached {
            self.expected.insert(key.clone());
        }
    }
}

/// External indexes.
impl StoreWriter {
    /// Declares the name: until it is attached, the index returns [`IndexError::NotReady`].
    ///
    /// # Errors
    /// [`IndexConflict`] if the name exists already.
    pub fn declare_index(&mut self, name: &str) -> Result<(), IndexConflict> {
        if self.is_declared(name) {
            return Err(IndexConflict {
                names: vec![name.to_owned()],
            });
        }
        self.root.external.push((Arc::from(name), None));
        self.external_states.push(ExternalState::default());
        self.dirty = true;
        Ok(())
    }

    /// Attaches `contents`, in constant time. They must match the objects of this writer: computed from a snapshot, and
    /// updated with the keys written since it was published.
    ///
    /// # Errors
    /// [`IndexError::UnknownIndex`] if the name is not declared, or no longer.
    pub fn attach_index(&mut self, name: &str, contents: IndexContents) -> Result<(), IndexError> {
        let at = self.root.external_slot(name)?;
        self.root.external[at].1 = Some(contents);
        self.external_states[at].restart(true);
        self.dirty = true;
        Ok(())
    }

    /// Detaches the contents: the index returns [`IndexError::NotReady`] from the next publish on.
    ///
    /// # Errors
    /// As [`attach_index`](Self::attach_index).
    pub fn detach_index(&mut self, name: &str) -> Result<(), IndexError> {
        let at = self.root.external_slot(name)?;
        self.dirty |= self.root.external[at].1.take().is_some();
        self.external_states[at].restart(false);
        Ok(())
    }

    /// Removes the index and its name: the plugin was removed.
    ///
    /// # Errors
    /// As [`attach_index`](Self::attach_index).
    pub fn remove_index(&mut self, name: &str) -> Result<(), IndexError> {
        let at = self.root.external_slot(name)?;
        self.root.external.remove(at);
        self.external_states.remove(at);
        self.dirty = true;
        Ok(())
    }

    /// How often an object was published without values in the external index called `name` because it was written
    /// after its contents were attached.
    #[must_use]
    pub fn values_missing(&self, name: &str) -> u64 {
        self.root
            .external_slot(name)
            .map_or(0, |at| self.external_states[at].missing)
    }

    pub(super) fn drop_missing_values(&mut self) {
        for (state, (_, contents)) in self.external_states.iter_mut().zip(&mut self.root.external) {
            let Some(contents) = contents else { continue };
            for key in std::mem::take(&mut state.expected) {
                state.missing += 1;
                contents.remove(key.as_ref());
            }
        }
    }

    /// Removes the deleted object at `key`.
    pub(super) fn forget_external(&mut self, key: &Key) {
        for (state, (_, contents)) in self.external_states.iter_mut().zip(&mut self.root.external) {
            state.expected.remove(key);
            if let Some(contents) = contents {
                contents.remove(key.as_ref());
            }
        }
    }
}
