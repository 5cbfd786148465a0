//! A thread-safe delta queue.

use std::any::Any;
use std::cell::RefCell;
use std::fmt;
use std::panic::{AssertUnwindSafe, catch_unwind, resume_unwind};
use std::sync::{Arc, Condvar, Mutex, MutexGuard};

use informant_object::{Key, KeyRef, Object, ResourceVersion, VersionRef};

use super::{ClockFn, lock, wait};
use crate::delta::{DeltaObject, Deltas};
use crate::delta_fifo::{self, DeltaFifoOptions, DeltaFifoStats, Pop, ReplaceSummary};
use crate::known_objects::KnownObjects;
use crate::transform::TransformError;
use crate::{Moment, Reason};

/// A [`delta_fifo::DeltaFifo`](crate::DeltaFifo) behind a lock, with its consumer's known objects; clones are the same
/// queue.
///
/// A reflector's thread writes, [`pop`](Self::pop) blocks. Order, tombstones and the initial list are those of the pure
/// queue, as are its departures from client-go. It has no size limit: check [`bytes`](Self::bytes) to know when to stop
/// reading.
///
/// Source: client-go `DeltaFIFO`, each method under the name it has there.
///
/// ```
/// use std::{sync::Arc, thread, time::Instant};
/// use informant_cache::{DeltaFifoOptions, DeltaType, Moment};
/// use informant_cache::blocking::{DeltaFifo, Indexer, PopError, ProcessError};
/// # use informant_object::{Object, ResourceVersion, Shape};
/// # let pod = |name: &str| Object::parse(
/// #     format!(r#"{{"metadata":{{"namespace":"default","name":"{name}"}}}}"#).as_bytes(),
/// #     &Shape::of("v1", "Pod")).unwrap();
///
/// let began = Instant::now();
/// let store = Indexer::default();
/// let queue = DeltaFifo::new(
///     DeltaFifoOptions::default(),
///     Arc::new(store.clone()),
///     Arc::new(move || Moment::ZERO + began.elapsed()),
/// );
/// let consumer = queue.clone();
/// let controller = thread::spawn(move || loop {
///     let popped = consumer.pop(|deltas, _is_in_initial_list| {
///         for delta in deltas {
///             match (delta.kind, delta.object.object()) {
///                 (DeltaType::Deleted, _) => drop(store.delete(delta.key())),
///                 (_, Some(object)) => drop(store.add(object.clone())),
///                 (_, None) => {}
///             }
///         }
///         Ok::<(), ProcessError<String>>(())
///     });
///     if let Err(PopError::Closed) = popped {
///         return store.len();
///     }
/// });
/// queue.replace(vec![pod("a"), pod("b")], &ResourceVersion::new("1"));
/// queue.add(pod("c")).unwrap();
/// queue.close(); // queued keys are still popped
/// assert_eq!(controller.join().unwrap(), 3);
/// assert!(queue.has_synced());
/// ```
#[derive(Clone)]
pub struct DeltaFifo(Arc<Shared>);

struct Shared {
    fifo: Mutex<delta_fifo::DeltaFifo>,
    /// A key was queued, or the queue was closed.
    changed: Condvar,
    known: Arc<dyn KnownObjects + Send + Sync>,
    clock: ClockFn,
}

/// Why the deltas of a key were not processed.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum ProcessError<E> {
    /// Put them back, unless newer ones are queued. client-go: `ErrRequeue`, which was removed there.
    Requeue(E),
    /// Drop them; counted in [`DeltaFifoStats::failed_deltas`], and returned by [`DeltaFifo::pop`].
    Drop(E),
}

/// Why nothing was popped or processed.
#[derive(Debug)]
pub enum PopError<E> {
    /// The queue is closed and empty. client-go: `ErrFIFOClosed`.
    Closed,
    /// Processing failed, and the deltas, or newer ones of their key, are queued again.
    Requeued(E),
    /// Processing failed. The deltas are no longer in the queue.
    Failed(Deltas, E),
}

thread_local! {
    /// The queues that this thread is popping from.
    static POPPING: RefCell<Vec<usize>> = const { RefCell::new(Vec::new()) };
}

impl fmt::Debug for DeltaFifo {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.0.fifo.try_lock() {
            Ok(fifo) => f.debug_tuple("DeltaFifo").field(&*fifo).finish(),
            Err(_) => f.write_str("DeltaFifo(busy)"),
        }
    }
}

/// Construction.
impl DeltaFifo {
    /// An empty queue in front of `known`, the consumer's store, or [`NothingKnown`](crate::NothingKnown): then deletes
    /// missed while a watch was down are lost. Write to `known` only in [`pop`](Self::pop). client-go:
    /// `NewDeltaFIFOWithOptions`.
    #[must_use]
    pub fn new(options: DeltaFifoOptions, known: Arc<dyn KnownObjects + Send + Sync>, clock: ClockFn) -> DeltaFifo {
        DeltaFifo(Arc::new(Shared {
            fifo: Mutex::new(delta_fifo::DeltaFifo::new(options)),
            changed: Condvar::new(),
            known,
            clock,
        }))
    }
}

/// Writing.
impl DeltaFifo {
    /// Queues an `Added`. client-go: `Add`.
    ///
    /// # Errors
    /// [`TransformError`]; the queue is unchanged, and the event is counted.
    pub fn add(&self, object: Object) -> Result<(), TransformError> {
        self.change(|fifo, now| fifo.add(object, now))
    }

    /// Queues an `Updated`. client-go: `Update`.
    ///
    /// # Errors
    /// As [`add`](Self::add).
    pub fn update(&self, object: Object) -> Result<(), TransformError> {
        self.change(|fifo, now| fifo.update(object, now))
    }

    /// Queues a `Deleted` with the object's last state, or a [`Tombstone`](crate::Tombstone), if the key is queued or
    /// known. client-go: `Delete`.
    ///
    /// # Errors
    /// As [`add`](Self::add).
    pub fn delete(&self, object: impl Into<DeltaObject>) -> Result<(), TransformError> {
        let object = object.into();
        self.change(|fifo, now| fifo.delete(object, &*self.0.known, now))
    }

    /// Applies `objects`, a complete list at `version`. client-go: `Replace`, which queues deletes last; here they come
    /// first.
    pub fn replace(&self, objects: Vec<Object>, version: &ResourceVersion) -> ReplaceSummary {
        self.change(|fifo, now| {
            let reason = if fifo.is_populated() {
                Reason::Relist
            } else {
                Reason::Initial
            };
            fifo.replace(objects, version, &*self.0.known, reason, now)
        })
    }

    /// Queues a `Sync` for each known key that has nothing queued. client-go: `Resync`.
    pub fn resync(&self) {
        self.change(|fifo, now| fifo.resync(&*self.0.known, now));
    }

    /// Puts popped deltas back, unless their key is queued again; returns whether it did. client-go: `AddIfNotPresent`.
    pub fn add_if_not_present(&self, deltas: Deltas) -> bool {
        self.change(|fifo, _| fifo.add_if_not_present(deltas))
    }

    /// Records a bookmark: the source has sent all changes up to `version`. client-go: `Bookmark`.
    pub fn bookmark(&self, version: VersionRef<'_>) {
        self.change(|fifo, _| fifo.bookmark(version));
    }

    /// Closes the queue: queued keys are still popped, then [`pop`](Self::pop) returns [`PopError::Closed`]. Writes are
    /// not refused. client-go: `Close`.
    pub fn close(&self) {
        self.change(|fifo, _| fifo.close());
    }
}

/// Popping, and reading.
impl DeltaFifo {
    /// Pops the first key and calls `process` with its deltas; the flag is true for keys of the initial list. Blocks
    /// while the queue is empty. client-go: `Pop`.
    ///
    /// `process` runs under the queue's lock, as in client-go: so a concurrent `replace` or `resync` finds in the store
    /// what has left the queue.
    ///
    /// # Errors
    /// [`PopError`].
    ///
    /// # Panics
    /// If `process` panics; its deltas are then counted as failed, and the queue stays usable. Also if
    /// `process` uses this same queue, which would otherwise deadlock.
    pub fn pop<E>(
        &self,
        process: impl FnOnce(&Deltas, bool) -> Result<(), ProcessError<E>>,
    ) -> Result<Deltas, PopError<E>> {
        let mut fifo = self.lock();
        while fifo.is_empty() && !fifo.is_closed() {
            fifo = wait(&self.0.changed, fifo);
        }
        let popped = fifo.pop(|deltas, is_in_initial_list| {
            let _inside = Inside::enter(self.address());
            match catch_unwind(AssertUnwindSafe(|| process(deltas, is_in_initial_list))) {
                Ok(result) => result.map_err(Failure::Error),
                Err(panic) => Err(Failure::Panic(panic)),
            }
        });
        match popped {
            Pop::Processed(deltas) => Ok(deltas),
            Pop::Empty | Pop::Closed => Err(PopError::Closed),
            Pop::Failed(deltas, Failure::Error(ProcessError::Drop(error))) => Err(PopError::Failed(deltas, error)),
            Pop::Failed(deltas, Failure::Error(ProcessError::Requeue(error))) => {
                fifo.add_if_not_present(deltas);
                self.0.changed.notify_one();
                Err(PopError::Requeued(error))
            }
            Pop::Failed(_, Failure::Panic(panic)) => {
                drop(fifo);
                resume_unwind(panic)
            }
        }
    }

    /// The newest object of each queued key, in queue order. client-go: `List`.
    #[must_use]
    pub fn list(&self) -> Vec<DeltaObject> {
        self.lock().list().cloned().collect()
    }

    /// The queued keys, in queue order. client-go: `ListKeys`.
    #[must_use]
    pub fn list_keys(&self) -> Vec<Key> {
        self.lock().list_keys().map(|key| key.to_key()).collect()
    }

    /// The queued deltas of `object`'s key. client-go: `Get`.
    #[must_use]
    pub fn get(&self, object: &Object) -> Option<Deltas> {
        self.get_by_key(object.key())
    }

    /// The queued deltas of `key`. client-go: `GetByKey`.
    #[must_use]
    pub fn get_by_key(&self, key: KeyRef<'_>) -> Option<Deltas> {
        self.lock().get_by_key(key).cloned()
    }

    /// Whether every key of the first list has been processed, or any other write came first. client-go: `HasSynced`.
    #[must_use]
    pub fn has_synced(&self) -> bool {
        self.lock().has_synced()
    }

    /// Whether [`close`](Self::close) was called. client-go: `IsClosed`.
    #[must_use]
    pub fn is_closed(&self) -> bool {
        self.lock().is_closed()
    }

    /// How many keys are queued.
    #[must_use]
    pub fn len(&self) -> usize {
        self.lock().len()
    }

    /// Whether no key is queued.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.lock().is_empty()
    }

    /// Bytes of the queued objects.
    #[must_use]
    pub fn bytes(&self) -> usize {
        self.lock().bytes()
    }

    /// The counters of the queue.
    #[must_use]
    pub fn stats(&self) -> DeltaFifoStats {
        *self.lock().stats()
    }
}

/// The failure of `process`.
enum Failure<E> {
    Error(ProcessError<E>),
    Panic(Box<dyn Any + Send>),
}

/// A guard: this thread is popping from a queue.
struct Inside;

impl Inside {
    fn enter(queue: usize) -> Inside {
        POPPING.with_borrow_mut(|popping| popping.push(queue));
        Inside
    }
}

impl Drop for Inside {
    fn drop(&mut self) {
        POPPING.with_borrow_mut(Vec::pop);
    }
}

/// Internals.
impl DeltaFifo {
    fn change<R>(&self, change: impl FnOnce(&mut delta_fifo::DeltaFifo, Moment) -> R) -> R {
        let now = (self.0.clock)();
        let result = change(&mut self.lock(), now);
        // Only one popper runs at a time: waking all of them costs little, and no wake-up is lost.
        self.0.changed.notify_all();
        result
    }

    fn lock(&self) -> MutexGuard<'_, delta_fifo::DeltaFifo> {
        let is_inside = POPPING.with_borrow(|popping| popping.contains(&self.address()));
        assert!(
            !is_inside,
            "a queue was used inside its own pop: return ProcessError::Requeue, or use the queue after pop returns"
        );
        lock(&self.0.fifo)
    }

    fn address(&self) -> usize {
        Arc::as_ptr(&self.0) as usize
    }
}
