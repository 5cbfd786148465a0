//! The delta queue and the store under threads.

use std::sync::{Arc, mpsc};
use std::thread;
use std::time::Duration;

use crate::testing::pod;
use crate::{DeltaFifo, DeltaFifoOptions, DeltaType, Indexer, NothingKnown, PopError, ProcessError};

const DEADLINE: Duration = Duration::from_secs(30);

fn fifo_before(store: &Indexer) -> DeltaFifo {
    DeltaFifo::new(DeltaFifoOptions::default(), Arc::new(store.clone()))
}

/// Writes what is popped to `store`, as a controller does.
fn apply(queue: &DeltaFifo, store: &Indexer) -> Result<Vec<String>, PopError<String>> {
    let popped = queue.pop(|deltas, _| {
        for delta in deltas {
            match delta.object.object() {
                Some(object) if delta.kind != DeltaType::Deleted => drop(store.add(object.clone())),
                _ => drop(store.delete(delta.key())),
            }
        }
        Ok(())
    })?;
    Ok(popped
        .iter()
        .map(|delta| format!("{}: {delta}", delta.key().name))
        .collect())
}

/// client-go: TestDeltaFIFO_addUpdate, ReplaceMakesDeletionsReplaced, Resync, HasSynced.
#[test]
fn methods_behave_like_those_of_client_go() {
    let store = Indexer::default();
    let queue = fifo_before(&store);
    assert!(!queue.has_synced());
    queue.replace(vec![pod("a", 1), pod("b", 2)]);
    assert_eq!(
        (queue.len(), queue.has_synced(), queue.list_keys().len()),
        (2, false, 2)
    );
    queue.update(pod("a", 3)).unwrap();
    assert_eq!(queue.get(&pod("a", 0)).unwrap().len(), 2);
    assert_eq!(apply(&queue, &store).unwrap(), ["a: Replaced(1)", "a: Updated(3)"]);
    assert_eq!(apply(&queue, &store).unwrap(), ["b: Replaced(2)"]);
    assert!(queue.has_synced() && queue.is_empty());
    queue.delete(pod("stranger", 1)).unwrap();
    assert!(queue.is_empty(), "the object is unknown");
    queue.replace(vec![pod("b", 4)]);
    assert_eq!(
        apply(&queue, &store).unwrap(),
        ["a: Deleted(unknown final state, last seen at 3)"]
    );
    assert_eq!(apply(&queue, &store).unwrap(), ["b: Replaced(4)"]);
    queue.resync();
    assert_eq!(apply(&queue, &store).unwrap(), ["b: Sync(4)"]);
    queue.delete(pod("b", 5)).unwrap();
    queue.close();
    assert!(queue.is_closed());
    assert_eq!(apply(&queue, &store).unwrap(), ["b: Deleted(5)"]);
    assert!(matches!(apply(&queue, &store), Err(PopError::Closed)));
    assert!(store.is_empty());
}

/// client-go: TestDeltaFIFO_PopShouldUnblockWhenClosed.
#[test]
fn pop_blocks_until_an_item_or_close() {
    let queue = DeltaFifo::new(DeltaFifoOptions::default(), Arc::new(NothingKnown));
    let (sender, popped) = mpsc::channel();
    for _ in 0..3 {
        let (queue, sender) = (queue.clone(), sender.clone());
        thread::spawn(move || {
            while let Ok(deltas) = queue.pop(|_, _| Ok::<(), ProcessError<()>>(())) {
                sender.send(deltas.key().name.to_owned()).unwrap();
            }
        });
    }
    drop(sender);
    queue.add(pod("a", 1)).unwrap();
    assert_eq!(popped.recv_timeout(DEADLINE).unwrap(), "a");
    queue.close();
    assert_eq!(popped.recv_timeout(DEADLINE), Err(mpsc::RecvTimeoutError::Disconnected));
}

#[test]
fn closed_queue_drains_then_returns_closed() {
    let queue = DeltaFifo::new(DeltaFifoOptions::default(), Arc::new(NothingKnown));
    queue.add(pod("a", 1)).unwrap();
    queue.close();
    assert!(queue.is_closed());
    assert!(queue.pop(|_, _| Ok::<(), ProcessError<()>>(())).is_ok());
    let closed = queue.pop(|_, _| Ok::<(), ProcessError<()>>(()));
    assert!(matches!(closed, Err(PopError::Closed)));
}

/// client-go (until 2025): TestDeltaFIFO_requeueOnPop.
#[test]
fn failed_deltas_are_requeued_or_counted_as_lost() {
    let queue = DeltaFifo::new(DeltaFifoOptions::default(), Arc::new(NothingKnown));
    queue.replace(vec![pod("a", 1)]);
    let again = queue.pop(|_, is_in_initial_list| {
        assert!(is_in_initial_list);
        Err(ProcessError::Requeue("not now"))
    });
    assert!(matches!(again, Err(PopError::Requeued("not now"))));
    assert_eq!((queue.len(), queue.stats().requeued), (1, 1));
    let lost = queue.pop(|_, _| Err(ProcessError::Drop("never")));
    assert!(matches!(&lost, Err(PopError::Failed(deltas, "never")) if deltas.key().name == "a"));
    assert_eq!((queue.len(), queue.stats().failed_deltas), (0, 2));
    let Err(PopError::Failed(deltas, _)) = lost else {
        unreachable!()
    };
    queue.add(pod("a", 2)).unwrap();
    assert!(!queue.add_if_not_present(deltas), "newer news wins");
}

#[test]
fn panic_in_pop_leaves_the_queue_usable() {
    let queue = DeltaFifo::new(DeltaFifoOptions::default(), Arc::new(NothingKnown));
    queue.replace(vec![pod("a", 1)]);
    let popping = queue.clone();
    let panicked =
        thread::spawn(move || popping.pop(|_, _| -> Result<(), ProcessError<()>> { panic!("the processing panics") }));
    assert!(panicked.join().is_err());
    assert!(queue.has_synced() && queue.stats().failed_deltas == 1);
    queue.add(pod("b", 2)).unwrap();
    assert!(queue.pop(|_, _| Ok::<(), ProcessError<()>>(())).is_ok());
    // Using the queue inside its own pop would deadlock; it panics instead.
    queue.add(pod("c", 3)).unwrap();
    let popping = queue.clone();
    let misused = thread::spawn(move || {
        let inner = popping.clone();
        popping.pop(move |_, _| {
            inner.add(pod("d", 4)).unwrap();
            Ok::<(), ProcessError<()>>(())
        })
    });
    assert!(misused.join().is_err());
    assert!(queue.is_empty());
}

/// client-go: TestHammerController.
#[test]
fn concurrent_writers_converge_to_the_last_state() {
    let store = Indexer::default();
    let queue = fifo_before(&store);
    let (applying, target) = (queue.clone(), store.clone());
    let controller = thread::spawn(move || while apply(&applying, &target).is_ok() {});
    // Each writer owns its names, as a reflector owns its objects; the order of its writes determines the result.
    let truth: Vec<String> = thread::scope(|scope| {
        let writers: Vec<_> = (0..4_u64)
            .map(|writer| {
                let queue = &queue;
                scope.spawn(move || {
                    let mut alive = Vec::new();
                    for name in 0..20 {
                        let name = format!("{writer}-{name:02}");
                        let mut state = 0;
                        for step in 0..50_u64 {
                            let number = writer * 1_000_000 + step;
                            match (step * 7 + writer + name.len() as u64 + state) % 5 {
                                0 => queue.delete(pod(&name, number)).unwrap(),
                                1 => queue.resync(),
                                _ => queue.update(pod(&name, number)).unwrap(),
                            }
                            state = (state + step) % 3;
                        }
                        queue.update(pod(&name, 1_000)).unwrap();
                        if writer % 2 == 0 {
                            queue.delete(pod(&name, 1_001)).unwrap();
                        } else {
                            alive.push(name);
                        }
                    }
                    alive
                })
            })
            .collect();
        writers.into_iter().flat_map(|writer| writer.join().unwrap()).collect()
    });
    queue.close();
    controller.join().unwrap();
    let stored: Vec<String> = store.list().iter().map(|object| object.name().to_owned()).collect();
    assert_eq!(stored, truth);
    assert!(store.list().iter().all(|object| object.version().to_string() == "1000"));
    let stats = queue.stats();
    assert_eq!(stats.queued_deltas, stats.popped_deltas + stats.deletes_collapsed);
}
