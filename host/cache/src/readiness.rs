//! Sources and indexes become ready: who waits for that is called.

use std::collections::BTreeMap;
use std::fmt;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use informant_object::SourceId;

/// What a call waits for.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Awaited {
    /// The first list of this source.
    Source(SourceId),
    /// An index over this source.
    Index(SourceId),
    /// The body of an object of this source, of which the store has only the head.
    Body(SourceId),
    /// A source that does not exist yet: any that is added or becomes ready.
    AnySource,
}

impl Awaited {
    /// Whether what waits for this is worth another attempt once `ready` is ready.
    pub(crate) fn is_ready_with(self, ready: Awaited) -> bool {
        self == ready || matches!((self, ready), (Awaited::AnySource, Awaited::Source(_)))
    }
}

type Callback = Arc<dyn Fn(Awaited) + Send + Sync>;

/// The callbacks of those who wait. A clone is the same.
#[derive(Clone, Default)]
pub(crate) struct Readiness(Arc<Mutex<Callbacks>>);

#[derive(Default)]
struct Callbacks {
    by_number: BTreeMap<u64, Callback>,
    last: u64,
}

/// Calls its callback until it is dropped. See [`Catalog::watch_ready`](crate::Catalog::watch_ready).
#[must_use]
pub struct ReadyWatch {
    readiness: Readiness,
    number: u64,
}

impl Readiness {
    pub(crate) fn watch(&self, callback: Callback) -> ReadyWatch {
        let mut callbacks = self.callbacks();
        callbacks.last += 1;
        let number = callbacks.last;
        callbacks.by_number.insert(number, callback);
        ReadyWatch {
            readiness: self.clone(),
            number,
        }
    }

    /// Runs the callbacks, under no lock.
    pub(crate) fn notify(&self, ready: Awaited) {
        let callbacks: Vec<Callback> = self.callbacks().by_number.values().cloned().collect();
        callbacks.iter().for_each(|callback| callback(ready));
    }

    fn callbacks(&self) -> MutexGuard<'_, Callbacks> {
        // Changed by single inserts and removes.
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Drop for ReadyWatch {
    fn drop(&mut self) {
        self.readiness.callbacks().by_number.remove(&self.number);
    }
}

impl fmt::Debug for Readiness {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Readiness").finish_non_exhaustive()
    }
}

impl fmt::Debug for ReadyWatch {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("ReadyWatch").finish_non_exhaustive()
    }
}
