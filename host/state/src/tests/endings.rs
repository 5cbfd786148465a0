//! How things end: sources that are forgotten or reopened with changes in flight, a closed database, a thread that
//! panics.

use std::sync::mpsc;

use super::*;
use crate::command::StateClosed;
use crate::database::StateDatabase;
use crate::source::Purge;

/// Starts a flush; the receiver gets its completion.
fn flush(source: &SourceJournal) -> mpsc::Receiver<()> {
    let (done, flushed) = mpsc::channel();
    source.flush(Box::new(move || {
        // The test may not wait for it.
        let _ = done.send(());
    }));
    flushed
}

/// A process whose handler has received `a`, with an update and a flush in flight.
fn with_changes_in_flight(path: &Path) -> (Process, mpsc::Receiver<()>) {
    let mut process = Process::start(path, options());
    process.sync([object("a", "u1", 1)]);
    process.attach(OnStart::Continue);
    process.settle();
    process.write(object("a", "u1", 2));
    let flushed = flush(process.journal());
    (process, flushed)
}

fn folder() -> (tempfile::TempDir, PathBuf) {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("state.redb");
    (folder, path)
}

#[test]
fn in_flight_changes_of_a_forgotten_informer_are_delivered() {
    let (_folder, path) = folder();
    let (mut process, flushed) = with_changes_in_flight(&path);
    process.command(RecorderCommand::Forget(Purge::Informer(
        "pods".to_owned(),
        String::new(),
    )));
    process.recorder.run_once();
    assert_eq!(process.handle_all(), "update a@2");
    flushed.try_recv().expect("the flush completes");
    process.write(object("a", "u1", 3));
    assert_eq!(process.settle(), "update a@3", "delivery continues, unpersisted");
    drop(process);
    assert_eq!(
        next_process(&path, &[("b", "u2", 5)], OnStart::Continue),
        "add b@5, synced",
        "nothing is left of it"
    );
}

#[test]
fn in_flight_changes_of_a_reopened_source_are_delivered() {
    let (_folder, path) = folder();
    let (mut process, flushed) = with_changes_in_flight(&path);
    let newer = process.open(options());
    assert_eq!(process.handle_all(), "update a@2");
    flushed.try_recv().expect("the flush completes");
    process.listener.feed().detach(SOURCE);
    process.source = Some(newer);
    process.sync([]);
    process.journal().attach(&process.listener, None, Moment::ZERO);
    assert_eq!(
        process.settle(),
        "add a@2, synced",
        "the older source's deliveries were not persisted"
    );
}

#[test]
fn deletes_of_a_retiring_informer_are_kept_until_delivered() {
    let (folder, path) = folder();
    let crashed = folder.path().join("crashed");
    let (mut process, _) = with_changes_in_flight(&path);
    process.command(RecorderCommand::ForgetAtEnd("pods".to_owned(), String::new()));
    process.delete("a", 3);
    process.recorder.run_once();
    process.crash(&crashed);
    let received = next_process(&crashed, &[], OnStart::Continue);
    assert_eq!(received, "delete a@2, synced", "killed before it was delivered");
    assert_eq!(process.settle(), "update a@2, delete a@2");
    process.source = None;
    process.recorder.run_once();
    drop(process);
    let received = next_process(&path, &[("a", "u1", 2)], OnStart::Continue);
    assert_eq!(received, "add a@2, synced", "nothing is left of it");
}

#[test]
fn purge_on_a_full_disk_happens_before_reuse() {
    let (_folder, path) = kept(options());
    let mut process = Process::start(&path, options());
    process.recorder.store().fail_disk_full();
    process.command(RecorderCommand::Forget(Purge::Informer(
        "pods".to_owned(),
        String::new(),
    )));
    process.source = Some(process.open(options()));
    process.sync([object("a", "u1", 1)]);
    process.recorder.reopen();
    process.attach(OnStart::Continue);
    assert_eq!(
        process.settle(),
        "add a@1, synced",
        "neither deletes nor acknowledgements"
    );
}

#[test]
fn handler_detached_on_a_full_disk_starts_from_scratch() {
    let (_folder, path) = kept(options());
    let mut process = Process::start(&path, options());
    process.sync([object("a", "u1", 1), object("b", "u2", 2)]);
    process.attach(OnStart::Continue);
    assert_eq!(process.settle(), "delete c@3?, synced");
    process.recorder.store().fail_disk_full();
    process.journal().detach(&process.listener);
    process.delete("a", 5);
    process.recorder.run_once();
    process.recorder.reopen();
    process.recorder.run_once();
    process.journal().attach(&process.listener, None, Moment::ZERO);
    assert_eq!(
        process.settle(),
        "add b@2, synced",
        "no delete from before it was detached"
    );
}

#[test]
fn delete_of_a_recreated_object_is_counted_but_not_delivered() {
    let (_folder, path) = kept(options());
    let mut process = Process::start(&path, options());
    process.sync([object("b", "u2", 2), object("c", "u3", 3)]);
    process.recorder.run_once();
    drop(process);
    let mut process = Process::start(&path, options());
    process.sync([object("a", "u1", 1), object("c", "other", 9)]);
    process.attach(OnStart::Continue);
    // `b` and the first `c` are gone; `a` was, before the cluster was restored.
    assert_eq!(process.settle(), "delete b@2?, delete c@3?, add a@1, add c@9, synced");
    assert_eq!(process.metrics.source("pods", "").void_deletes.get(), 1);
}

fn state(path: &Path) -> (StateDatabase, StateMetrics) {
    let metrics = StateMetrics::default();
    (
        StateDatabase::open(path.to_owned(), None, metrics.clone()).unwrap(),
        metrics,
    )
}

#[test]
fn closed_database_blocks_nothing_and_counts_undelivered_changes() {
    let (_folder, path) = folder();
    let (state, metrics) = state(&path);
    let source = state.source(options()).unwrap();
    state.close();
    assert_eq!(state.source(options()).err(), Some(StateClosed));
    flush(&source).recv().expect("the flush completes");
    let mut store = StoreWriter::default();
    let new = object("a", "u1", 1);
    store.add(new.clone());
    let change = ObjectChange {
        kind: ChangeKind::Add(new),
        reason: Reason::Watch,
        received: Moment::ZERO,
    };
    source.push(&store.publish(), &[change], Moment::ZERO);
    assert_eq!(metrics.source("pods", "").untold.get(), 1);
    assert_eq!(metrics.failing.get(), 0, "it ended properly");
}

#[test]
fn panic_of_the_thread_blocks_nothing_and_is_visible() {
    let (_folder, path) = folder();
    let (state, metrics) = state(&path);
    let source = state.source(options()).unwrap();
    source.flush(Box::new(|| panic!("on purpose")));
    let after = flush(&source);
    // It completed or was dropped; nothing waits.
    let _ = after.recv();
    while state.source(options()).is_ok() {}
    flush(&source).recv().expect("later flushes complete");
    // The thread must have ended before the metric is read.
    state.close();
    assert_eq!(metrics.failing.get(), 1);
}
