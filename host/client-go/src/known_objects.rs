//! The objects that the queue's consumer has processed: how the queue looks into the store.

use informant_object::{KeyRef, Object};

/// A look-up failed. The queue then takes the path that loses no event.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[error("cannot look up a known object; see the log of the store")]
pub struct LookupFailed;

/// The objects that the consumer has processed. Without them, deletions missed while the watch was down cannot be
/// detected.
///
/// Write only popped deltas to it: the queue combines the store's state with the deltas it still holds. Source:
/// client-go `KeyListerGetter`.
pub trait KnownObjects {
    /// Visits every known key once, in an order that is stable while nothing is written. The object is `None` if its
    /// look-up failed.
    fn visit(&self, visit: &mut dyn FnMut(KeyRef<'_>, Option<&Object>));

    /// The object under `key`, if known.
    ///
    /// # Errors
    /// [`LookupFailed`] if the look-up fails. Ours never does; a library user's may.
    fn get_by_key(&self, key: KeyRef<'_>) -> Result<Option<Object>, LookupFailed>;
}

/// For a queue whose consumer stores nothing.
#[derive(Clone, Copy, Debug, Default)]
pub struct NothingKnown;

impl KnownObjects for NothingKnown {
    fn visit(&self, _visit: &mut dyn FnMut(KeyRef<'_>, Option<&Object>)) {}

    fn get_by_key(&self, _key: KeyRef<'_>) -> Result<Option<Object>, LookupFailed> {
        Ok(None)
    }
}
