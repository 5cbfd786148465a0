//! Requeues across restarts.

use std::time::Duration;

use informant_cache::listener::RequeueTimer;

use super::*;

const NOW: [(&str, &str, u64); 2] = [("a", "u1", 1), ("b", "u2", 2)];

/// What was left by a process that was killed after the handler had asked for another call of `b` and of the delete of
/// `c`, after `wait`.
fn requeued(options: SourceOptions, wait: Duration) -> (tempfile::TempDir, PathBuf) {
    let (folder, path) = kept(options.clone());
    let crashed = folder.path().join("crashed");
    let mut process = Process::start(&path, options);
    process.sync([object("a", "u1", 1), object("b", "u2", 1), object("c", "u3", 3)]);
    process.attach(OnStart::Continue);
    process.settle();
    process.write(object("b", "u2", 2));
    process.delete("c", 6);
    process.recorder.run_once();
    while let Some(delivery) = process.take() {
        process.done(&delivery, DeliveryOutcome::RequeueAfter(wait));
    }
    process.recorder.run_once();
    process.crash(&crashed);
    (folder, crashed)
}

/// The next process, after everything was delivered.
fn next(path: &Path, on_start: OnStart, options: SourceOptions) -> (Process, String) {
    let mut process = Process::start(path, options);
    process.sync(NOW.iter().map(|(name, uid, version)| object(name, uid, *version)));
    process.attach(on_start);
    let received = process.settle();
    (process, received)
}

/// What the handler receives until a minute from now, sorted.
fn later(process: &mut Process) -> String {
    let mut received = Vec::new();
    let now = Moment::ZERO + Duration::from_secs(60);
    while let NextDelivery::Deliver(delivery) = process.listener.consumer().next(now) {
        received.push(format!("{} {}", shown(&delivery), delivery.reason));
        process
            .listener
            .consumer()
            .done(delivery.token, DeliveryOutcome::Ok, now);
    }
    process.recorder.run_once();
    received.sort_unstable();
    received.join(", ")
}

fn minute() -> Duration {
    Duration::from_secs(60)
}

#[test]
fn requeues_survive_a_kill_and_keep_their_time() {
    for options in [options(), sealed()] {
        let (_folder, path) = requeued(options.clone(), minute());
        for _ in 0..2 {
            let (mut process, received) = next(&path, OnStart::Continue, options.clone());
            assert_eq!(received, "synced", "nothing is due yet");
            process.listener.ledger().record_requeues(SOURCE);
            let restored = process
                .listener
                .ledger()
                .requeue_changes(SOURCE, Moment::ZERO)
                .unwrap()
                .timers;
            let in_time = |timer: &RequeueTimer| (50..=60).contains(&timer.remaining.as_secs());
            assert_eq!(
                (restored.len(), restored.iter().all(in_time)),
                (2, true),
                "{restored:?}"
            );
            process.recorder.run_once();
        }
        let (mut process, _) = next(&path, OnStart::Continue, options.clone());
        assert_eq!(
            later(&mut process),
            "delete c@3 requeue-after, update b@2 requeue-after"
        );
        drop(process);
        let (process, _) = next(&path, OnStart::Continue, options.clone());
        assert_eq!(
            process.listener.control().stats().requeues,
            0,
            "their calls removed them"
        );
    }
}

#[test]
fn requeue_that_is_overdue_is_made_at_once() {
    let (_folder, path) = requeued(options(), Duration::ZERO);
    std::thread::sleep(Duration::from_millis(110));
    let (_, received) = next(&path, OnStart::Continue, options());
    let mut received: Vec<&str> = received.split(", ").collect();
    received.sort_unstable();
    assert_eq!(received, ["delete c@3", "synced", "update b@2"]);
}

#[test]
fn requeue_in_flight_at_a_kill_is_made_again() {
    let (folder, path) = requeued(options(), minute());
    let (mut process, _) = next(&path, OnStart::Continue, options());
    let crashed = folder.path().join("again");
    let now = Moment::ZERO + minute();
    let NextDelivery::Deliver(first) = process.listener.consumer().next(now) else {
        panic!("it is due")
    };
    process
        .listener
        .consumer()
        .done(first.token, DeliveryOutcome::Retryable("no".to_owned()), now);
    process.recorder.run_once();
    process.crash(&crashed);
    let (mut process, _) = next(&crashed, OnStart::Continue, options());
    assert_eq!(later(&mut process).matches("requeue-after").count(), 2);
}

#[test]
fn replay_removes_recorded_requeues() {
    let (_folder, path) = requeued(options(), minute());
    let (mut process, _) = next(&path, OnStart::Continue, options());
    process.listener.control().replay(Moment::ZERO);
    process.settle();
    drop(process);
    let (process, _) = next(&path, OnStart::Continue, options());
    assert_eq!(process.listener.control().stats().requeues, 0);
}

#[test]
fn removed_handler_has_no_requeues_left() {
    let (_folder, path) = requeued(options(), minute());
    let no_handlers = SourceOptions {
        handlers: BTreeSet::new(),
        ..options()
    };
    let mut process = Process::start(&path, no_handlers);
    process.sync([object("a", "u1", 1)]);
    process.recorder.run_once();
    drop(process);
    let (process, _) = next(&path, OnStart::Continue, options());
    assert_eq!(process.listener.control().stats().requeues, 0);
}
