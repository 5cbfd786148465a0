//! The states of objects that a handler accepted in an earlier process.

use std::collections::BTreeMap;

use informant_object::{AsKey, Key, Object, ResourceVersion};

/// States of objects, by key: uid and version.
#[derive(Debug, Default)]
pub struct AcceptedStates(BTreeMap<Key, (Box<str>, ResourceVersion)>);

impl AcceptedStates {
    /// Adds an accepted state of `key`.
    pub fn insert(&mut self, key: Key, uid: &str, version: &str) {
        self.0.insert(key, (uid.into(), ResourceVersion::new(version)));
    }

    /// How many.
    #[must_use]
    pub fn len(&self) -> usize {
        self.0.len()
    }

    /// Whether there are none.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.0.is_empty()
    }

    /// Whether `object` is one of them. An object without a version never is.
    pub(crate) fn holds(&self, object: &Object) -> bool {
        let accepted = self.0.get(&object.key() as &dyn AsKey);
        let is_it = |(uid, version): &(Box<str>, ResourceVersion)| {
            **uid == *object.uid() && version.as_ref() == object.version() && !version.is_empty()
        };
        accepted.is_some_and(is_it)
    }
}
