//! A thread-safe delta queue. Source: client-go `delta_fifo.go` (v0.31, which still had `AddIfNotPresent`).

mod queue;
#[cfg(test)]
mod tests;

use std::any::Any;
use std::cell::RefCell;
use std::fmt;
use std::panic::{AssertUnwindSafe, catch_unwind, resume_unwind};
use std::sync::{Arc, Condvar, Mutex, MutexGuard};

use informant_cache::DeltaObject;
use informant_object::{Key, KeyRef, Object};

use self::queue::Queue;
use crate::delta::Deltas;
use crate::known_objects::KnownObjects;
use crate::locks::{lock, wait};
use crate::transform::{Transform, TransformError};

/// A queue of keys, each with the changes of its object since it was last popped; clones are the same queue.
///
/// A reflector's thread writes, [`pop`](Self::pop) blocks. Keys leave in the order in which they first entered, all
/// deltas of a key together. Every delta that came in and was not popped is in a counter of [`DeltaFifoStats`]. It has
/// no size limit: check [`bytes`](Self::bytes) to know when to stop reading.
///
/// Departures from client-go: tombstones come before the other deltas of a [`replace`](Self::replace); an item that is
/// the known object itself is not repeated; and the initial list counts as synced when it has been processed, not when
/// it was popped.
///
/// Source: client-go `DeltaFIFO`, each method under the name it has there.
///
/// ```
/// use std::{sync::Arc, thread};
/// use informant_client_go::{DeltaFifo, DeltaFifoOptions, DeltaType, Indexer, PopError, ProcessError};
/// # use informant_object::{Object, Shape};
/// # let pod = |name: &str| Object::parse(
/// #     format!(r#"{{"metadata":{{"namespace":"default","name":"{name}"}}}}"#).as_bytes(),
/// #     &Shape::of("v1", "Pod")).unwrap();
///
/// let store = Indexer::default();
/// let queue = DeltaFifo::new(DeltaFifoOptions::default(), Arc::new(store.clone()));
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
/// queue.replace(vec![pod("a"), pod("b")]);
/// queue.add(pod("c")).unwrap();
/// queue.close(); // queued keys are still popped
/// assert_eq!(controller.join().unwrap(), 3);
/// assert!(queue.has_synced());
/// ```
#[derive(Clone)]
pub struct DeltaFifo(Arc<Shared>);

struct Shared {
    queue: Mutex<Queue>,
    /// A key was queued, or the queue was closed.
    changed: Condvar,
    known: Arc<dyn KnownObjects + Send + Sync>,
}

/// The options of a [`DeltaFifo`]. client-go: `DeltaFIFOOptions`.
pub struct DeltaFifoOptions {
    /// Whether a replace queues [`Replaced`](crate::DeltaType::Replaced), or [`Sync`](crate::DeltaType::Sync) as
    /// client-go did before `Replaced` existed. client-go: `EmitDeltaTypeReplaced`, off by default.
    pub emit_replaced: bool,
    /// Whether a replace leaves out items that are the known object itself (`Object::ptr_eq`) and have nothing queued.
    /// client-go repeats them.
    pub skip_unchanged: bool,
    /// Changes each object that comes from the API server. client-go: `Transformer`.
    pub transform: Option<Box<dyn Transform>>,
}

impl Default for DeltaFifoOptions {
    fn default() -> DeltaFifoOptions {
        DeltaFifoOptions {
            emit_replaced: true,
            skip_unchanged: true,
            transform: None,
        }
    }
}

/// Counters of one [`DeltaFifo`]. Each only grows.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct DeltaFifoStats {
    /// Deltas that were queued, except requeued ones.
    pub queued_deltas: u64,
    /// Deltas that were popped.
    pub popped_deltas: u64,
    /// Deletes queued by a replace for objects that its list lacked.
    pub tombstones: u64,
    /// Items of a replace that were the known object itself, with nothing queued: nothing to deliver.
    pub unchanged: u64,
    /// Deletes of objects that were neither queued nor known.
    pub deletes_ignored: u64,
    /// Deletes merged with the delete before them.
    pub deletes_collapsed: u64,
    /// Objects whose new version was withheld because the transform failed.
    pub transforms_failed: u64,
    /// Deltas whose processing failed. Those put back are counted in `requeued`, too.
    pub failed_deltas: u64,
    /// Deltas put back.
    pub requeued: u64,
    /// Deltas not put back, because newer ones of their key were queued.
    pub requeues_superseded: u64,
    /// Look-ups of known objects that failed.
    pub lookups_failed: u64,
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
        let Ok(queue) = self.0.queue.try_lock() else {
            return f.write_str("DeltaFifo(busy)");
        };
        f.debug_struct("DeltaFifo")
            .field("keys", &queue.len())
            .field("bytes", &queue.bytes())
            .field("closed", &queue.is_closed())
            .finish_non_exhaustive()
    }
}

/// Construction.
impl DeltaFifo {
    /// An empty queue in front of `known`, the consumer's store, or [`NothingKnown`](crate::NothingKnown): then deletes
    /// missed while a watch was down are lost. Write to `known` only in [`pop`](Self::pop). client-go:
    /// `NewDeltaFIFOWithOptions`.
    #[must_use]
    pub fn new(options: DeltaFifoOptions, known: Arc<dyn KnownObjects + Send + Sync>) -> DeltaFifo {
        DeltaFifo(Arc::new(Shared {
            queue: Mutex::new(Queue::new(options)),
            changed: Condvar::new(),
            known,
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
        self.change(|queue| queue.add(object))
    }

    /// Queues an `Updated`. client-go: `Update`.
    ///
    /// # Errors
    /// As [`add`](Self::add).
    pub fn update(&self, object: Object) -> Result<(), TransformError> {
        self.change(|queue| queue.update(object))
    }

    /// Queues a `Deleted` with the object's last state, or a [`Tombstone`](crate::Tombstone), if the key is queued or
    /// known, or if the look-up fails. A delete of an unknown object is ignored and counted. client-go: `Delete`.
    ///
    /// # Errors
    /// As [`add`](Self::add).
    pub fn delete(&self, object: impl Into<DeltaObject>) -> Result<(), TransformError> {
        let object = object.into();
        self.change(|queue| queue.delete(object, &*self.0.known))
    }

    /// Applies `objects`, a complete list.
    ///
    /// First queues a `Deleted` with a tombstone for each key that the list lacks: for queued keys with the newest
    /// queued state, then for other known keys with the known state. Then queues each object as `Replaced`. The first
    /// call, if no other write came before, determines the initial list ([`has_synced`](Self::has_synced)).
    ///
    /// client-go: `Replace`, which queues deletes last. There an error of the transform fails the whole replace; here
    /// it withholds one object, whose known state stays. There is no version to pass: client-go's queue ignores it.
    pub fn replace(&self, objects: Vec<Object>) {
        self.change(|queue| queue.replace(objects, &*self.0.known));
    }

    /// Queues a `Sync` for each known key that has nothing queued. client-go: `Resync`.
    pub fn resync(&self) {
        self.change(|queue| queue.resync(&*self.0.known));
    }

    /// Puts popped deltas back, unless their key is queued again; returns whether it did. client-go: `AddIfNotPresent`.
    pub fn add_if_not_present(&self, deltas: Deltas) -> bool {
        self.change(|queue| queue.add_if_not_present(deltas))
    }

    /// Closes the queue: queued keys are still popped, then [`pop`](Self::pop) returns [`PopError::Closed`]. Writes are
    /// not refused. client-go: `Close`.
    pub fn close(&self) {
        self.change(Queue::close);
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
        let mut queue = self.lock();
        while queue.len() == 0 && !queue.is_closed() {
            queue = wait(&self.0.changed, queue);
        }
        let Some(popped) = queue.pop() else {
            return Err(PopError::Closed);
        };
        let result = {
            let _inside = Inside::enter(self.address());
            let call = || process(&popped.deltas, popped.is_in_initial_list);
            catch_unwind(AssertUnwindSafe(call)).map_err(Panic)
        };
        queue.processed(&popped, !matches!(result, Ok(Ok(()))));
        match result {
            Ok(Ok(())) => Ok(popped.deltas),
            Ok(Err(ProcessError::Drop(error))) => Err(PopError::Failed(popped.deltas, error)),
            Ok(Err(ProcessError::Requeue(error))) => {
                queue.add_if_not_present(popped.deltas);
                self.0.changed.notify_one();
                Err(PopError::Requeued(error))
            }
            Err(Panic(panic)) => {
                drop(queue);
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
        self.lock().list_keys().cloned().collect()
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
        self.len() == 0
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

/// `process` panicked.
struct Panic(Box<dyn Any + Send>);

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
    fn change<R>(&self, change: impl FnOnce(&mut Queue) -> R) -> R {
        let result = change(&mut self.lock());
        // Only one popper runs at a time: waking all of them costs little, and no wake-up is lost.
        self.0.changed.notify_all();
        result
    }

    fn lock(&self) -> MutexGuard<'_, Queue> {
        let is_inside = POPPING.with_borrow(|popping| popping.contains(&self.address()));
        assert!(
            !is_inside,
            "a queue was used inside its own pop: return ProcessError::Requeue, or use the queue after pop returns"
        );
        lock(&self.0.queue)
    }

    fn address(&self) -> usize {
        Arc::as_ptr(&self.0) as usize
    }
}
