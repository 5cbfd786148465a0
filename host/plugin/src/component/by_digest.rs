//! What equal plugins have in memory once, however many they are.

use std::collections::BTreeMap;
use std::sync::{Arc, Mutex, Weak};

use informant_spec::Digest;

use crate::sync::lock;

/// Values by the digest of what they are made from: a thousand plugins may have few files behind them.
pub(crate) struct SharedByDigest<T: ?Sized>(Mutex<BTreeMap<Digest, Weak<T>>>);

/// Frees the memory of what is no longer in use when it is dropped.
pub(crate) struct ForgetUnused<'a, T: ?Sized>(&'a SharedByDigest<T>);

impl<T: ?Sized> Default for SharedByDigest<T> {
    fn default() -> SharedByDigest<T> {
        SharedByDigest(Mutex::default())
    }
}

impl<T: ?Sized> SharedByDigest<T> {
    /// The value with this digest, if it is in use.
    pub(crate) fn get(&self, digest: Digest) -> Option<Arc<T>> {
        lock(&self.0).get(&digest).and_then(Weak::upgrade)
    }

    /// The value with this digest that is in use, or else this one.
    pub(crate) fn share(&self, digest: Digest, value: &Arc<T>) -> Arc<T> {
        let mut known = lock(&self.0);
        if let Some(known) = known.get(&digest).and_then(Weak::upgrade) {
            return known;
        }
        known.retain(|_, value| value.strong_count() > 0);
        known.insert(digest, Arc::downgrade(value));
        Arc::clone(value)
    }

    /// How many are known, in use or not yet forgotten.
    #[cfg(test)]
    pub(crate) fn known(&self) -> usize {
        lock(&self.0).len()
    }

    /// The memory of what was in use is freed when this is dropped: until then, a weak handle keeps it.
    pub(crate) fn forget_unused(&self) -> ForgetUnused<'_, T> {
        ForgetUnused(self)
    }
}

impl<T: ?Sized> Drop for ForgetUnused<'_, T> {
    fn drop(&mut self) {
        lock(&self.0.0).retain(|_, value| value.strong_count() > 0);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn equal_values_are_in_memory_once() {
        let shared = SharedByDigest::<[u8]>::default();
        let share = |bytes: &[u8]| shared.share(Digest::of(bytes), &Arc::from(bytes));
        assert!(shared.get(Digest::of(b"a")).is_none());
        let (first, second, other) = (share(b"a"), share(b"a"), share(b"b"));
        assert!(Arc::ptr_eq(&first, &second));
        assert!(
            shared
                .get(Digest::of(b"a"))
                .is_some_and(|known| Arc::ptr_eq(&known, &first))
        );
        assert_eq!(&other[..], b"b");
        drop((first, second));
        drop(shared.forget_unused());
        assert_eq!(shared.known(), 1);
    }
}
