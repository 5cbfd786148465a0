//! The workqueue under threads.

use std::sync::atomic::{AtomicU64, AtomicUsize, Ordering};
use std::sync::mpsc;
use std::thread;
use std::time::Duration;

use super::*;

/// How long a condition may take before a test reports a hang.
const DEADLINE: Duration = Duration::from_secs(30);

fn real_clock() -> ClockFn {
    let began = std::time::Instant::now();
    Arc::new(move || Moment::ZERO + began.elapsed())
}

fn queue() -> WorkQueue<u32> {
    WorkQueue::new(WorkQueueOptions::default(), real_clock())
}

/// Runs `work` on its own thread; the result is expected within the deadline.
fn on_a_thread<R: Send + 'static>(work: impl FnOnce() -> R + Send + 'static) -> mpsc::Receiver<R> {
    let (sender, receiver) = mpsc::channel();
    thread::spawn(move || sender.send(work()));
    receiver
}

/// client-go: TestBasic. Two producers and eight workers.
#[test]
fn every_item_is_processed_and_never_concurrently() {
    let queue = queue();
    let owners: Arc<Vec<AtomicUsize>> = Arc::new((0..50).map(|_| AtomicUsize::new(0)).collect());
    let seen: Arc<Vec<AtomicUsize>> = Arc::new((0..50).map(|_| AtomicUsize::new(0)).collect());
    let workers: Vec<_> = (0..8)
        .map(|_| {
            let (queue, owners, seen) = (queue.clone(), Arc::clone(&owners), Arc::clone(&seen));
            on_a_thread(move || {
                while let Some(item) = queue.get() {
                    assert_eq!(
                        owners[item as usize].fetch_add(1, Ordering::SeqCst),
                        0,
                        "{item} has two owners"
                    );
                    seen[item as usize].fetch_add(1, Ordering::SeqCst);
                    thread::yield_now();
                    owners[item as usize].fetch_sub(1, Ordering::SeqCst);
                    queue.done(&item);
                }
            })
        })
        .collect();
    let producers = [0, 1].map(|_| {
        let queue = queue.clone();
        thread::spawn(move || {
            for number in 0..500 {
                queue.add(number % 50);
            }
        })
    });
    for producer in producers {
        producer.join().unwrap();
    }
    let _ = queue.shut_down();
    for worker in workers {
        worker.recv_timeout(DEADLINE).expect("workers end with the queue");
    }
    assert!(seen.iter().all(|seen| seen.load(Ordering::SeqCst) > 0));
    assert_eq!(queue.stats().adds, queue.stats().work_duration.count());
}

#[test]
fn get_wakes_for_items_delays_and_shutdown() {
    let queue = queue();
    let (sender, items) = mpsc::channel();
    let worker = queue.clone();
    thread::spawn(move || {
        while let Some(item) = worker.get() {
            worker.done(&item);
            sender.send(item).unwrap();
        }
    });
    queue.add_after(2, Duration::from_millis(20));
    queue.add(1);
    assert_eq!(items.recv_timeout(DEADLINE), Ok(1));
    assert_eq!(items.recv_timeout(DEADLINE), Ok(2));
    let _ = queue.shut_down();
    assert_eq!(items.recv_timeout(DEADLINE), Err(mpsc::RecvTimeoutError::Disconnected));
}

/// client-go: TestQueueDrainageUsingShutDownWithDrain.
#[test]
fn drain_waits_for_workers_and_returns_the_rest() {
    let queue = queue();
    queue.add(1);
    queue.add(2);
    assert_eq!(queue.get(), Some(1));
    let draining = queue.clone();
    let drained = on_a_thread(move || draining.shut_down_with_drain());
    let began = std::time::Instant::now();
    while !queue.is_shutting_down() {
        assert!(began.elapsed() < DEADLINE);
        thread::yield_now();
    }
    assert!(drained.try_recv().is_err(), "one item is still being processed");
    queue.done(&1);
    let remaining = drained.recv_timeout(DEADLINE).expect("the drain ends with the work");
    assert_eq!((remaining.queued, remaining.processing), (1, 0));
    assert_eq!((queue.get(), queue.is_empty()), (Some(2), true));
}

/// client-go: TestNoQueueDrainageUsingShutDown, TestForceQueueShutdownUsingShutDown.
#[test]
fn second_shut_down_ends_a_drain() {
    let queue = queue();
    queue.add(1);
    assert_eq!(queue.get(), Some(1));
    let draining = queue.clone();
    let drained = on_a_thread(move || draining.shut_down_with_drain());
    let began = std::time::Instant::now();
    let remaining = loop {
        // Whether it waits already is not observable: shut down until it ends.
        let _ = queue.shut_down();
        if let Ok(remaining) = drained.recv_timeout(Duration::from_millis(1)) {
            break remaining;
        }
        assert!(began.elapsed() < DEADLINE);
    };
    assert_eq!(remaining.processing, 1);
}

#[test]
fn waker_distinguishes_one_and_all() {
    let now = Arc::new(AtomicU64::new(0));
    let clock = Arc::clone(&now);
    let queue = WorkQueue::new(
        WorkQueueOptions::default(),
        Arc::new(move || Moment::from_nanos(clock.load(Ordering::SeqCst))),
    );
    let (sender, wakes) = mpsc::channel();
    queue.set_waker(move |wake| sender.send(wake).unwrap());
    let woken = || wakes.try_iter().collect::<Vec<_>>();
    queue.add(1);
    queue.add(1);
    assert_eq!(woken(), [Wake::One]);
    assert_eq!(queue.try_get(), Get::Item(1));
    queue.add(1);
    assert_eq!(woken(), [], "it is being processed");
    queue.done(&1);
    assert_eq!(woken(), [Wake::One]);
    queue.add_after(2, Duration::from_nanos(10));
    queue.add_after(3, Duration::from_nanos(20));
    queue.add_after(3, Duration::from_nanos(5));
    assert_eq!(
        woken(),
        [Wake::All, Wake::All],
        "the one in between is not the first that is due"
    );
    assert_eq!(queue.try_get(), Get::Item(1));
    assert_eq!(queue.try_get(), Get::WaitUntil(Moment::from_nanos(5)));
    now.store(5, Ordering::SeqCst);
    assert_eq!(queue.try_get(), Get::Item(3));
    let _ = queue.shut_down();
    assert_eq!(woken(), [Wake::All]);
}
