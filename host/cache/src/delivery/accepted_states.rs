//! The states of objects that a handler accepted in another process.

use std::collections::BTreeMap;

use informant_object::{AsKey, Key, Object, ResourceVersion};

/// States of objects, by key: uid and version; and all up to a version.
#[derive(Clone, Debug, Default)]
pub struct AcceptedStates {
    by_key: BTreeMap<Key, (Box<str>, ResourceVersion)>,
    /// Every state up to this version.
    watermark: Option<u64>,
}

impl AcceptedStates {
    /// Adds an accepted state of `key`.
    pub fn insert(&mut self, key: Key, uid: &str, version: &str) {
        self.by_key.insert(key, (uid.into(), ResourceVersion::new(version)));
    }

    /// As these, with every state up to `watermark`. A state whose version is no number is never among those.
    #[must_use]
    pub fn up_to(self, watermark: Option<u64>) -> AcceptedStates {
        AcceptedStates { watermark, ..self }
    }

    /// The version up to which every state was accepted.
    pub(crate) fn watermark(&self) -> Option<u64> {
        self.watermark
    }

    /// Whether `object` is one of them. An object without a version never is.
    pub(crate) fn holds(&self, object: &Object) -> bool {
        let version = object.version().number();
        if self
            .watermark
            .zip(version)
            .is_some_and(|(watermark, version)| version <= watermark)
        {
            return true;
        }
        let accepted = self.by_key.get(&object.key() as &dyn AsKey);
        let is_it = |(uid, version): &(Box<str>, ResourceVersion)| {
            **uid == *object.uid() && version.as_ref() == object.version() && !version.is_empty()
        };
        accepted.is_some_and(is_it)
    }
}
