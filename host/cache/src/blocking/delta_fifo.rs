//! A delta queue that threads share.

use std::any::Any;
use std::cell::RefCell;
use std::fmt;
use std::panic::{AssertUnwindSafe, catch_unwind, resume_unwind};
use std::sync::{Arc, Condvar, Mutex, MutexGuard};

use informant_object::{Key, KeyRef, Object, ResourceVersion, VersionRef};

use super::{Clock, lock, wait};
use crate::delta::{DeltaObject, Deltas};
use crate::delta_fifo::{self, DeltaFifoOptions, DeltaFifoStats, Pop, ReplaceSummary};
use crate::known_objects::KnownObjects;
use crate::transform::TransformError;
use crate::{Moment, Reason};

/// A [`delta_fifo::DeltaFifo`](crate::DeltaFifo) behind a lock, with the objects its consumer knows; clones are the
/// same queue.
///
/// A reflector's thread writes, [`pop`](Self::pop) waits. What it promises of order, tombstones and the initial list is
/// the pure queue's, as are its departures from client-go. Bounds itself by nothing: [`bytes`](Self::bytes) tells when
/// to stop reading.
///
/// Source: client-go `DeltaFIFO`, each method under the name it has there.
///
/// ```
/// use std::{sync::Arc, thread, time::Instant};
/// use informant_cache::{DeltaFifoOptions, DeltaType, Moment};
/// use informant_cache::blocking::{DeltaFifo, Indexer, PopError, ProcessError};
/// # use informant_object::{Object, ResourceVersion, Shape};
/// # let pod = |name: &str| Object::parse(
/// #     format!(r#"{{"metadata":{{"namespace":"default","name":"{name}"}}}}"#).as_bytes(), &Shape::of("v1", "Pod")).unwrap();
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
/// queue.close(); // what waits is still handed out
/// assert_eq!(controller.join().unwrap(), 3);
/// assert!(queue.has_synced());
/// ```
#[derive(Clone)]
pub struct DeltaFifo(Arc<Shared>);

struct Shared {
    fifo: Mutex<delta_fifo::DeltaFifo>,
    /// A key came into line, or the queue was closed.
    changed: Condvar,
    known: Arc<dyn KnownObjects + Send + Sync>,
    clock: Clock,
}

/// Why the deltas of a key were not processed.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum ProcessError<E> {
    /// Put them back in line, unless newer ones came. client-go: `ErrRequeue`, which today's has no more.
    Requeue(E),
    /// They are lost; counted in [`DeltaFifoStats::failed_deltas`], and in the answer of [`DeltaFifo::pop`].
    Drop(E),
}

/// Why nothing was popped, or in vain.
#[derive(Debug)]
pub enum PopError<E> {
    /// The queue is closed and nothing waits. client-go: `ErrFIFOClosed`.
    Closed,
    /// Processing failed, and the deltas are in line again, or newer ones of their key are.
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

/// Making.
impl DeltaFifo {
    /// An empty queue in front of `known`, the consumer's store, or [`NothingKnown`](crate::NothingKnown): then deletes
    /// that were missed while a watch was down are lost. `known` must be written only by what [`pop`](Self::pop) runs.
    /// client-go: `NewDeltaFIFOWithOptions`.
    #[must_use]
    pub fn new(options: DeltaFifoOptions, known: Arc<dyn KnownObjects + Send + Sync>, clock: Clock) -> DeltaFifo {
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
    /// [`TransformError`]; the queue is then as before, and the event counted.
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

    /// Queues a `Deleted` with the object's last state, or a [`Tombstone`](crate::Tombstone), if the key is in line or
    /// known. client-go: `Delete`.
    ///
    /// # Errors
    /// As [`add`](Self::add).
    pub fn delete(&self, object: impl Into<DeltaObject>) -> Result<(), TransformError> {
        let object = object.into();
        self.change(|fifo, now| fifo.delete(object, &*self.0.known, now))
    }

    /// Takes `objects`, a complete list at `version`, for all there is. client-go: `Replace`, which queues deletes
    /// last; here they come first.
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

    /// Puts back what was popped, unless its key is in line again; returns whether it did. client-go:
    /// `AddIfNotPresent`.
    pub fn add_if_not_present(&self, deltas: Deltas) -> bool {
        self.change(|fifo, _| fifo.add_if_not_present(deltas))
    }

    /// Notes that the source has shown all up to `version`. client-go: `Bookmark`.
    pub fn bookmark(&self, version: VersionRef<'_>) {
        self.change(|fifo, _| fifo.bookmark(version));
    }

    /// Closes the queue: what waits is still handed out, then [`pop`](Self::pop) gives [`PopError::Closed`]. Writing is
    /// not refused. client-go: `Close`.
    pub fn close(&self) {
        self.change(|fifo, _| fifo.close());
    }
}

/// Taking out, and reading.
impl DeltaFifo {
    /// Takes the first key out of line and has `process` work on its deltas; the flag says whether they are of the
    /// initial list. Blocks while nothing waits. client-go: `Pop`.
    ///
    /// `process` runs under the queue's lock, as there: only so does a `replace` or `resync` that comes meanwhile find
    /// in the store what is no longer in line.
    ///
    /// # Errors
    /// [`PopError`].
    ///
    /// # Panics
    /// If `process` does; its deltas are then counted as failed, and the queue can be used on. Also if `process` uses
    /// this very queue, which would otherwise block forever.
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

    /// The newest object of each key in line, in line order. client-go: `List`.
    #[must_use]
    pub fn list(&self) -> Vec<DeltaObject> {
        self.lock().list().cloned().collect()
    }

    /// The keys in line, first to leave first. client-go: `ListKeys`.
    #[must_use]
    pub fn list_keys(&self) -> Vec<Key> {
        self.lock().list_keys().map(|key| key.to_key()).collect()
    }

    /// The deltas that wait under `object`'s key. client-go: `Get`.
    #[must_use]
    pub fn get(&self, object: &Object) -> Option<Deltas> {
        self.get_by_key(object.key())
    }

    /// The deltas that wait under `key`. client-go: `GetByKey`.
    #[must_use]
    pub fn get_by_key(&self, key: KeyRef<'_>) -> Option<Deltas> {
        self.lock().get_by_key(key).cloned()
    }

    /// Whether every key of the first list has been processed, or anything else came before it. client-go: `HasSynced`.
    #[must_use]
    pub fn has_synced(&self) -> bool {
        self.lock().has_synced()
    }

    /// Whether [`close`](Self::close) was called. client-go: `IsClosed`.
    #[must_use]
    pub fn is_closed(&self) -> bool {
        self.lock().is_closed()
    }

    /// How many keys wait.
    #[must_use]
    pub fn len(&self) -> usize {
        self.lock().len()
    }

    /// Whether no key waits.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.lock().is_empty()
    }

    /// Bytes of the objects that wait.
    #[must_use]
    pub fn bytes(&self) -> usize {
        self.lock().bytes()
    }

    /// What the queue has done so far.
    #[must_use]
    pub fn stats(&self) -> DeltaFifoStats {
        *self.lock().stats()
    }
}

/// How `process` failed.
enum Failure<E> {
    Error(ProcessError<E>),
    Panic(Box<dyn Any + Send>),
}

/// While it lives, this thread is popping from a queue.
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

/// Steps.
impl DeltaFifo {
    fn change<R>(&self, change: impl FnOnce(&mut delta_fifo::DeltaFifo, Moment) -> R) -> R {
        let now = (self.0.clock)();
        let result = change(&mut self.lock(), now);
        // Of several poppers only one works at a time: that all of them look costs little, and nothing is missed.
        self.0.changed.notify_all();
        result
    }

    fn lock(&self) -> MutexGuard<'_, delta_fifo::DeltaFifo> {
        let is_inside = POPPING.with_borrow(|popping| popping.contains(&self.address()));
        assert!(
            !is_inside,
            "a queue was used by what its pop runs: return ProcessError::Requeue, or use it afterwards"
        );
        lock(&self.0.fifo)
    }

    fn address(&self) -> usize {
        Arc::as_ptr(&self.0) as usize
    }
}
