//! External indexes: their values come from index plugins.
//!
//! A declared index returns `NotReady`. Its contents are computed separately, from a snapshot and the keys written
//! since, and attached complete. From then on the loop sets the values of each object that it writes, before the
//! publish; objects without new values are removed from the index. A detached index returns `NotReady` again.

use std::collections::BTreeSet;
use std::sync::Arc;

use informant_object::{Key, KeyRef};

use super::StoreWriter;
use crate::index::{IndexConflict, IndexContents, IndexError};

/// The writer's state of one external index between two publishes.
#[derive(Debug, Default)]
pub(super) struct ExternalState {
    attached: bool,
    /// Written since the last publish, without values so far.
    expected: BTreeSet<Key>,
    missing: u64,
}

impl ExternalState {
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
        let at = self.external(name)?;
        self.root.external[at].1 = Some(contents);
        self.external_states[at] = ExternalState {
            attached: true,
            expected: BTreeSet::new(),
            missing: self.external_states[at].missing,
        };
        self.dirty = true;
        Ok(())
    }

    /// Detaches the contents: the index returns [`IndexError::NotReady`] from the next publish on.
    ///
    /// # Errors
    /// As [`attach_index`](Self::attach_index).
    pub fn detach_index(&mut self, name: &str) -> Result<(), IndexError> {
        let at = self.external(name)?;
        self.dirty |= self.root.external[at].1.take().is_some();
        self.external_states[at] = ExternalState {
            attached: false,
            expected: BTreeSet::new(),
            missing: self.external_states[at].missing,
        };
        Ok(())
    }

    /// Removes the index and its name: the plugin was removed.
    ///
    /// # Errors
    /// As [`attach_index`](Self::attach_index).
    pub fn remove_index(&mut self, name: &str) -> Result<(), IndexError> {
        let at = self.external(name)?;
        self.root.external.remove(at);
        self.external_states.remove(at);
        self.dirty = true;
        Ok(())
    }

    /// Sets the values of the stored object at `key` in the attached index called `name`; returns whether they were
    /// set: not while the index is detached, nor for an object that is not stored.
    ///
    /// # Errors
    /// A message when there are too many values; the object is then absent from the index.
    pub fn set_index_values<'a>(
        &mut self,
        name: &str,
        key: KeyRef<'_>,
        values: impl IntoIterator<Item = &'a str>,
    ) -> Result<bool, String> {
        let Ok(at) = self.external(name) else { return Ok(false) };
        let Some(contents) = &mut self.root.external[at].1 else {
            return Ok(false);
        };
        let Some((key, _)) = self.root.objects.get_key_value(&key) else {
            return Ok(false);
        };
        self.external_states[at].expected.remove(key);
        self.dirty = true;
        contents.set(key, values).map(|()| true)
    }

    /// Whether the external index called `name` is attached.
    #[must_use]
    pub fn is_attached(&self, name: &str) -> bool {
        self.external(name).is_ok_and(|at| self.external_states[at].attached)
    }

    /// How often an object was published without values in the external index called `name` because none were set.
    #[must_use]
    pub fn values_missing(&self, name: &str) -> u64 {
        self.external(name).map_or(0, |at| self.external_states[at].missing)
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

    fn external(&self, name: &str) -> Result<usize, IndexError> {
        let at = self.root.external.iter().position(|(external, _)| **external == *name);
        at.ok_or_else(|| IndexError::UnknownIndex {
            name: name.to_owned(),
            available: self.root.index_names(),
        })
    }
}
