//! Indexes whose values come from outside: index plugins.
//!
//! Declared, such an index answers `NotReady`. Its contents are computed aside, from a snapshot and the keys written
//! since, and attached whole. From then on the loop tells the values of each object that it writes, before the publish;
//! what it does not tell is taken out. Detached, it answers `NotReady` again.

use std::collections::BTreeSet;
use std::sync::Arc;

use informant_object::{Key, KeyRef};

use super::StoreWriter;
use crate::index::{IndexConflict, IndexContents, IndexError};

/// What the writer remembers of one external index between two publishes.
#[derive(Debug, Default)]
pub(super) struct ExternalState {
    attached: bool,
    /// Written since the last publish, and no values told.
    awaited: BTreeSet<Key>,
    missing: u64,
}

impl ExternalState {
    pub(super) fn await_values(&mut self, key: &Key) {
        if self.attached {
            self.awaited.insert(key.clone());
        }
    }
}

/// External indexes.
impl StoreWriter {
    /// Makes the name known: until it is attached, the index answers [`IndexError::NotReady`].
    ///
    /// # Errors
    /// [`IndexConflict`] when the name is taken.
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

    /// Puts `contents` in place, in constant time. They are to be those of what this writer holds now: of a snapshot,
    /// brought up to date with the keys written since it was published.
    ///
    /// # Errors
    /// [`IndexError::UnknownIndex`] when the name was not declared (any more).
    pub fn attach_index(&mut self, name: &str, contents: IndexContents) -> Result<(), IndexError> {
        let at = self.external(name)?;
        self.root.external[at].1 = Some(contents);
        self.external_states[at] = ExternalState {
            attached: true,
            awaited: BTreeSet::new(),
            missing: self.external_states[at].missing,
        };
        self.dirty = true;
        Ok(())
    }

    /// Takes the contents away: the index answers [`IndexError::NotReady`] from the next publish on.
    ///
    /// # Errors
    /// As [`attach_index`](Self::attach_index).
    pub fn detach_index(&mut self, name: &str) -> Result<(), IndexError> {
        let at = self.external(name)?;
        self.dirty |= self.root.external[at].1.take().is_some();
        self.external_states[at] = ExternalState {
            attached: false,
            awaited: BTreeSet::new(),
            missing: self.external_states[at].missing,
        };
        Ok(())
    }

    /// Forgets the name too: the plugin is gone.
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

    /// Tells the values of the stored object at `key` in the attached index called `name`; returns whether they were
    /// taken: not while the index is detached, nor for an object that is not stored.
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
        self.external_states[at].awaited.remove(key);
        self.dirty = true;
        contents.set(key, values).map(|()| true)
    }

    /// Whether the external index called `name` is attached.
    #[must_use]
    pub fn is_attached(&self, name: &str) -> bool {
        self.external(name).is_ok_and(|at| self.external_states[at].attached)
    }

    /// How often an object was published without values in the external index called `name` because none were told.
    #[must_use]
    pub fn values_missing(&self, name: &str) -> u64 {
        self.external(name).map_or(0, |at| self.external_states[at].missing)
    }

    pub(super) fn drop_awaited_values(&mut self) {
        for (state, (_, contents)) in self.external_states.iter_mut().zip(&mut self.root.external) {
            let Some(contents) = contents else { continue };
            for key in std::mem::take(&mut state.awaited) {
                state.missing += 1;
                contents.remove(key.as_ref());
            }
        }
    }

    /// The object at `key` is gone.
    pub(super) fn forget_external(&mut self, key: &Key) {
        for (state, (_, contents)) in self.external_states.iter_mut().zip(&mut self.root.external) {
            state.awaited.remove(key);
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
