//! What the queue's consumer knows already: the questions that the queue asks of the store.

use informant_object::{KeyRef, Object};

/// A look-up failed. The queue then does what loses no news; see [`DeltaFifo`](crate::DeltaFifo)'s methods.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[error("a known object could not be looked up; read the log of what keeps the known objects")]
pub struct LookupFailed;

/// The objects the consumer has processed. Without it, deletions missed while the watch was down cannot be found.
///
/// To be written only with what was popped: a queue that is behind sees the store as it was, and makes up the rest from
/// what it still holds. Source: client-go `KeyListerGetter`.
pub trait KnownObjects {
    /// Shows every known key once, in an order that does not change while nothing is written. The object is `None`
    /// where its look-up failed.
    fn visit(&self, visit: &mut dyn FnMut(KeyRef<'_>, Option<&Object>));

    /// Whether it is certain that nothing is known: then a first list is queued without looking for what it lacks.
    fn is_empty(&self) -> bool {
        false
    }

    /// The object under `key`, if known.
    ///
    /// # Errors
    /// [`LookupFailed`] when it cannot be told. Ours never fail; a library user's may.
    fn get_by_key(&self, key: KeyRef<'_>) -> Result<Option<Object>, LookupFailed>;
}

/// For a queue whose consumer keeps nothing.
#[derive(Clone, Copy, Debug, Default)]
pub struct NothingKnown;

impl KnownObjects for NothingKnown {
    fn is_empty(&self) -> bool {
        true
    }

    fn visit(&self, _visit: &mut dyn FnMut(KeyRef<'_>, Option<&Object>)) {}

    fn get_by_key(&self, _key: KeyRef<'_>) -> Result<Option<Object>, LookupFailed> {
        Ok(None)
    }
}
