//! How things end: sources that are forgotten or opened anew with something on its way, a database that is closed, a
//! thread that panics.

use std::sync::mpsc;

use super::*;
use crate::forgetting::Forgetting;
use crate::state::{State, StateClosed};

/// A flush of `process`, and whether it is answered.
fn flush(source: &SourceState) -> mpsc::Receiver<()> {
    let (done, flushed) = mpsc::channel();
    source.flush(Box::new(move || {
        // The test may not wait for it.
        let _ = done.send(());
    }));
    flushed
}

/// A process that has told its handler of `a`, with an update and a flush on their way.
fn with_something_on_its_way(path: &Path) -> (Process, mpsc::Receiver<()>) {
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
fn what_is_on_its_way_when_an_informer_is_forgotten_is_told_and_who_waits_is_answered() {
    let (_folder, path) = folder();
    let (mut process, flushed) = with_something_on_its_way(&path);
    process.command(Command::Forget(Forgetting::InCluster("pods".to_owned(), String::new())));
    process.recorder.turn();
    assert_eq!(process.handle_all(), "update a@2");
    flushed.try_recv().expect("the flush is answered");
    process.write(object("a", "u1", 3));
    assert_eq!(process.settle(), "update a@3", "it goes on, unkept");
    drop(process);
    assert_eq!(
        next_process(&path, &[("b", "u2", 5)], OnStart::Continue),
        "add b@5, synced",
        "nothing is left of it"
    );
}

#[test]
fn what_is_on_its_way_when_a_source_is_opened_anew_is_told_and_its_handler_is_shown_all_again() {
    let (_folder, path) = folder();
    let (mut process, flushed) = with_something_on_its_way(&path);
    let newer = process.open(options());
    assert_eq!(process.handle_all(), "update a@2");
    flushed.try_recv().expect("the flush is answered");
    process.listener.detach(SOURCE);
    process.source = Some(newer);
    process.sync([]);
    process.journal().attach(&process.listener, Moment::ZERO);
    assert_eq!(
        process.settle(),
        "add a@2, synced",
        "what the older one still told was not kept"
    );
}

#[test]
fn what_an_informer_tells_as_it_leaves_is_kept_until_it_is_told_and_then_it_is_forgotten() {
    let (folder, path) = folder();
    let crashed = folder.path().join("crashed");
    let (mut process, _) = with_something_on_its_way(&path);
    process.command(Command::ForgetAtEnd("pods".to_owned(), String::new()));
    process.delete("a", 3);
    process.recorder.turn();
    process.crash(&crashed);
    let told = next_process(&crashed, &[], OnStart::Continue);
    assert_eq!(told, "delete a@2, synced", "killed before it was told");
    assert_eq!(process.settle(), "update a@2, delete a@2");
    process.source = None;
    process.recorder.turn();
    drop(process);
    let told = next_process(&path, &[("a", "u1", 2)], OnStart::Continue);
    assert_eq!(told, "add a@2, synced", "nothing is left of it");
}

#[test]
fn what_cannot_be_forgotten_while_the_disk_is_full_is_forgotten_before_it_is_believed_again() {
    let (_folder, path) = kept(options());
    let mut process = Process::start(&path, options());
    process.recorder.store().break_off();
    process.command(Command::Forget(Forgetting::InCluster("pods".to_owned(), String::new())));
    process.source = Some(process.open(options()));
    process.sync([object("a", "u1", 1)]);
    process.recorder.reopen();
    process.attach(OnStart::Continue);
    assert_eq!(
        process.settle(),
        "add a@1, synced",
        "neither deletes nor what was acknowledged"
    );
}

#[test]
fn a_handler_that_leaves_while_the_disk_is_full_and_comes_back_begins_anew() {
    let (_folder, path) = kept(options());
    let mut process = Process::start(&path, options());
    process.sync([object("a", "u1", 1), object("b", "u2", 2)]);
    process.attach(OnStart::Continue);
    assert_eq!(process.settle(), "delete c@3?, synced");
    process.recorder.store().break_off();
    process.journal().detach(&process.listener);
    process.delete("a", 5);
    process.recorder.turn();
    process.recorder.reopen();
    process.recorder.turn();
    process.journal().attach(&process.listener, Moment::ZERO);
    assert_eq!(process.settle(), "add b@2, synced", "no delete of what it left");
}

#[test]
fn a_delete_of_what_is_there_again_is_not_told_but_counted() {
    let (_folder, path) = kept(options());
    let mut process = Process::start(&path, options());
    process.sync([object("b", "u2", 2), object("c", "u3", 3)]);
    process.recorder.turn();
    drop(process);
    let mut process = Process::start(&path, options());
    process.sync([object("a", "u1", 1), object("c", "other", 9)]);
    process.attach(OnStart::Continue);
    // `b` and the first `c` are gone; `a` was, before the cluster went back.
    assert_eq!(process.settle(), "delete b@2?, delete c@3?, add a@1, add c@9, synced");
    assert_eq!(process.metrics.source("pods", "").void_deletes.get(), 1);
}

fn state(path: &Path) -> (State, StateMetrics) {
    let metrics = StateMetrics::default();
    (State::open(path.to_owned(), metrics.clone()).unwrap(), metrics)
}

#[test]
fn once_closed_nobody_waits_and_what_is_not_told_is_counted() {
    let (_folder, path) = folder();
    let (state, metrics) = state(&path);
    let source = state.source(options()).unwrap();
    state.close();
    assert_eq!(state.source(options()).err(), Some(StateClosed));
    flush(&source).recv().expect("the flush is answered");
    let mut store = StoreWriter::default();
    let new = object("a", "u1", 1);
    store.add(new.clone());
    let change = Change {
        kind: ChangeKind::Add(new),
        reason: Reason::Watch,
        received: Moment::ZERO,
    };
    source.push(&store.publish(), &[change], Moment::ZERO);
    assert_eq!(metrics.source("pods", "").untold.get(), 1);
    assert_eq!(metrics.failing.get(), 0, "it ended in order");
}

#[test]
fn a_panic_of_the_thread_leaves_nobody_waiting_and_shows() {
    let (_folder, path) = folder();
    let (state, metrics) = state(&path);
    let source = state.source(options()).unwrap();
    source.flush(Box::new(|| panic!("on purpose")));
    let after = flush(&source);
    // Whether it was answered or dropped: nobody waits.
    let _ = after.recv();
    while state.source(options()).is_ok() {}
    flush(&source).recv().expect("later ones are answered");
    // It has ended for good before it says so.
    state.close();
    assert_eq!(metrics.failing.get(), 1);
}
