//! The rules one by one.

use super::*;
use crate::handler_state::OPEN_KEYS_CHECKED_MAX;
use crate::journal::QUEUED_CHANGES_MAX;
use crate::source::Purge;

/// The next process after [`kept`], for which nothing is new.
fn resumed(path: &Path) -> Process {
    let mut process = Process::start(path, options());
    process.sync([object("a", "u1", 1), object("b", "u2", 2), object("c", "u3", 3)]);
    process.attach(OnStart::Continue);
    assert_eq!(process.settle(), "synced");
    process
}

#[test]
fn objects_deleted_while_down_are_delivered_first() {
    let (_folder, path) = kept(options());
    let received = next_process(&path, &[("b", "u2", 2), ("d", "u4", 9)], OnStart::Replay);
    assert_eq!(received, "delete a@1?, delete c@3?, add b@2, add d@9, synced");
}

#[test]
fn continue_delivers_only_unacknowledged_states() {
    let (_folder, path) = kept(options());
    let now = [("a", "u1", 1), ("b", "u2", 7), ("c", "other", 3), ("d", "u4", 9)];
    let received = next_process(&path, &now, OnStart::Continue);
    assert_eq!(received, "delete c@3?, add b@7, add c@3, add d@9, synced");
    assert_eq!(
        next_process(&path, &now, OnStart::Continue),
        "synced",
        "everything was acknowledged"
    );
}

#[test]
fn unacknowledged_events_are_redelivered() {
    let (folder, path) = kept(options());
    let crashed = folder.path().join("crashed");
    let mut process = resumed(&path);
    process.write(object("a", "u1", 4));
    process.write(object("b", "u2", 5));
    process.delete("c", 6);
    process.recorder.run_once();
    let first = process.take().unwrap();
    let second = process.take().unwrap();
    process.done(&first, DeliveryOutcome::Ok);
    process.done(&second, DeliveryOutcome::Permanent("no".to_owned()));
    process.recorder.run_once();
    process.crash(&crashed);
    assert_eq!(
        (shown(&first), shown(&second)),
        ("update a@4".to_owned(), "update b@5".to_owned())
    );
    let now = [("a", "u1", 4), ("b", "u2", 5)];
    let received = next_process(&crashed, &now, OnStart::Continue);
    assert_eq!(
        received, "delete c@3, synced",
        "the delete waited, b is still a dead letter"
    );
}

#[test]
fn nothing_is_delivered_before_it_is_persisted() {
    let (folder, path) = kept(options());
    let crashed = folder.path().join("crashed");
    let mut process = resumed(&path);
    process.write(object("d", "u4", 4));
    assert!(process.take().is_none(), "not before it is persisted");
    let batches = process.recorder.commit();
    process.crash(&crashed);
    assert!(process.take().is_none(), "not while it is being persisted");
    process.recorder.deliver(batches);
    assert_eq!(process.handle_all(), "add d@4");
    let now = [("a", "u1", 1), ("b", "u2", 2), ("c", "u3", 3)];
    assert_eq!(next_process(&crashed, &now, OnStart::Continue), "delete d@4?, synced");
}

#[test]
fn kill_during_the_initial_list_replays_everything() {
    let folder = tempfile::tempdir().unwrap();
    let (path, crashed) = (folder.path().join("state.redb"), folder.path().join("crashed"));
    let mut process = Process::start(&path, options());
    process.sync([object("a", "u1", 1), object("b", "u2", 2)]);
    process.attach(OnStart::Continue);
    process.recorder.run_once();
    let first = process.take().unwrap();
    process.done(&first, DeliveryOutcome::Ok);
    process.recorder.run_once();
    process.crash(&crashed);
    let received = next_process(&crashed, &[("b", "u2", 2)], OnStart::Continue);
    assert_eq!(received, "delete a@1?, add b@2, synced");
}

#[test]
fn kill_during_a_replay_replays_everything() {
    let (folder, path) = kept(options());
    let (before, after) = (folder.path().join("before"), folder.path().join("after"));
    let now = [("a", "u1", 1), ("b", "u2", 2), ("c", "u3", 3)];
    let mut process = resumed(&path);
    process.listener.control().replay(Moment::ZERO);
    assert!(process.take().is_none(), "not before the replay is persisted");
    process.crash(&before);
    let batches = process.recorder.commit();
    assert!(process.take().is_none(), "not while it is being persisted");
    // A second replay, which the recorder has not seen; the persisted flag covers it too.
    process.listener.consumer().recover(0, Moment::ZERO);
    process.recorder.deliver(batches);
    let first = process.take().unwrap();
    assert_eq!(shown(&first), "add a@1");
    process.done(&first, DeliveryOutcome::Ok);
    process.crash(&after);
    assert_eq!(next_process(&before, &now, OnStart::Continue), "synced");
    assert_eq!(
        next_process(&after, &now, OnStart::Continue),
        "add a@1, add b@2, add c@3, synced"
    );
    assert_eq!(process.settle(), "add b@2, add c@3, synced");
    drop(process);
    assert_eq!(next_process(&path, &now, OnStart::Continue), "synced");
}

#[test]
fn replay_starts_if_it_cannot_be_persisted() {
    let (_folder, path) = kept(options());
    let all = "add a@1, add b@2, add c@3, synced";
    // The disk is full: delivered but not persisted, like everything then.
    let mut process = resumed(&path);
    process.recorder.store().fail_disk_full();
    process.listener.control().replay(Moment::ZERO);
    assert_eq!(process.settle(), all);
    process.recorder.reopen();
    process.recorder.run_once();
    // The informer is no longer persisted.
    process.command(RecorderCommand::Forget(Purge::Informer(
        "pods".to_owned(),
        String::new(),
    )));
    process.recorder.run_once();
    process.listener.control().replay(Moment::ZERO);
    assert_eq!(process.settle(), all);
    drop(process);
    // The recorder ends while a replay waits, and a later replay has no recorder.
    let mut process = Process::start(&path, options());
    process.sync([object("a", "u1", 1)]);
    process.attach(OnStart::Continue);
    process.settle();
    process.listener.control().replay(Moment::ZERO);
    let listener = process.listener.clone();
    drop(process.recorder);
    let NextDelivery::Deliver(first) = listener.consumer().next(Moment::ZERO) else {
        panic!("the waiting replay starts");
    };
    listener.consumer().done(first.token, DeliveryOutcome::Ok, Moment::ZERO);
    listener.control().replay(Moment::ZERO);
    assert!(matches!(
        listener.consumer().next(Moment::ZERO),
        NextDelivery::Deliver(_)
    ));
}

#[test]
fn acknowledged_delete_is_closed_for_a_late_handler_too() {
    let (_folder, path) = kept(options());
    let mut process = Process::start(&path, options());
    process.sync([object("a", "u1", 1)]);
    process.recorder.run_once();
    process.delete("a", 9);
    process.write(object("e", "u5", 10));
    process.recorder.run_once();
    process.attach(OnStart::Continue);
    assert_eq!(
        process.settle(),
        "delete a@1, delete b@2?, delete c@3?, add e@10, synced"
    );
    drop(process);
    assert_eq!(next_process(&path, &[("e", "u5", 10)], OnStart::Continue), "synced");
}

#[test]
fn high_water_mark_survives_a_restart() {
    let (_folder, path) = kept(options());
    let mut process = Process::start(&path, options());
    assert_eq!(process.journal().high_water(), None);
    process.sync([object("a", "u1", 1)]);
    process.write(object("a", "u1", 41));
    process.recorder.run_once();
    process.journal().set_high_water(42);
    process.recorder.run_once();
    drop(process);
    let process = Process::start(&path, options());
    assert_eq!(process.journal().high_water(), Some(42), "also of a bookmark");
}

#[test]
fn changed_form_or_restored_cluster_replays_everything() {
    let (_folder, path) = kept(options());
    let now = [("a", "u1", 1), ("b", "u2", 2), ("c", "u3", 3)];
    let other_form = SourceOptions {
        form: "without status".to_owned(),
        ..options()
    };
    let received = next_process_with(&path, &now, OnStart::Continue, other_form.clone());
    assert_eq!(received, "add a@1, add b@2, add c@3, synced");
    assert_eq!(
        next_process_with(&path, &now, OnStart::Continue, other_form.clone()),
        "synced"
    );
    let mut process = Process::start(&path, other_form);
    let snapshot = process.store.publish();
    process.journal().begin(SOURCE, &snapshot, true);
    process.attach(OnStart::Continue);
    assert_eq!(process.settle(), "delete a@1?, delete b@2?, delete c@3?, synced");
}

#[test]
fn changed_request_delivers_everything_and_no_deletes() {
    let (_folder, path) = kept(options());
    let selected = SourceOptions {
        request: "app=web".to_owned(),
        ..options()
    };
    // A request that is not answered changes nothing.
    let mut unanswered = Process::start(&path, selected.clone());
    unanswered.journal().set_high_water(4);
    unanswered.recorder.run_once();
    drop(unanswered);
    let two = [("a", "u1", 1), ("b", "u2", 2)];
    assert_eq!(
        next_process(&path, &two, OnStart::Continue),
        "delete c@3?, synced",
        "the previous request is back"
    );
    let mut process = Process::start(&path, selected.clone());
    process.sync([object("a", "u1", 1)]);
    process.attach(OnStart::Continue);
    assert_eq!(process.settle(), "add a@1, synced");
    drop(process);
    let received = next_process_with(&path, &[], OnStart::Continue, selected);
    assert_eq!(received, "delete a@1?, synced");
}

#[test]
fn deletes_are_delivered_with_another_cipher_key() {
    let (_folder, path) = kept(sealed());
    let received = next_process_with(&path, &[("b", "u2", 2)], OnStart::Continue, sealed());
    assert_eq!(received, "delete a@1?, delete c@3?, synced");
    let other = SourceOptions {
        cipher: Some(Cipher::of([2; 32])),
        ..options()
    };
    let received = next_process_with(&path, &[], OnStart::Continue, other);
    assert_eq!(received, "delete b@?, synced", "its last state cannot be read");
}

#[test]
fn stored_content_is_returned_as_configured() {
    for (content, has_spec) in [(StoredContent::Metadata, false), (StoredContent::Whole, true)] {
        let options = SourceOptions { content, ..options() };
        let (_folder, path) = kept(options.clone());
        let mut process = Process::start(&path, options);
        process.sync([]);
        process.attach(OnStart::Replay);
        process.recorder.run_once();
        let Notification::Delete { last: Some(last), .. } = process.take().unwrap().notification else {
            panic!("a delete with a state");
        };
        assert_eq!((&*last.kind(), last.uid()), ("Pod", "u1"));
        assert_eq!(last.text().contains("spec"), has_spec);
    }
}

#[test]
fn excess_changes_collapse_into_a_snapshot_difference() {
    let (_folder, path) = kept(options());
    let mut process = resumed(&path);
    process.delete("b", 4);
    for version in 0..QUEUED_CHANGES_MAX as u64 {
        process.write(object("a", "u1", 10 + version));
    }
    let last = 9 + QUEUED_CHANGES_MAX as u64;
    assert_eq!(process.settle(), format!("delete b@2?, update a@{last}"));
    assert_eq!(
        process.metrics.source("pods", "").behind.get(),
        1 + QUEUED_CHANGES_MAX as u64,
        "each dropped change"
    );
    drop(process);
    let now = [("a", "u1", last), ("c", "u3", 3)];
    assert_eq!(next_process(&path, &now, OnStart::Continue), "synced");
}

#[test]
fn many_open_keys_are_checked_in_turn() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("state.redb");
    let names: Vec<String> = (0..3 * OPEN_KEYS_CHECKED_MAX)
        .map(|number| format!("p{number:05}"))
        .collect();
    let mut process = Process::start(&path, options());
    process.sync([]);
    process.attach(OnStart::Continue);
    process.settle();
    for name in &names {
        process.write(object(name, "u", 5));
    }
    process.settle();
    for _ in 0..4 {
        process.recorder.run_once();
    }
    drop(process);
    let now: Vec<_> = names.iter().map(|name| (name.as_str(), "u", 5)).collect();
    assert_eq!(next_process(&path, &now, OnStart::Continue), "synced");
}

#[test]
fn unexpected_handler_is_deleted() {
    let (_folder, path) = kept(options());
    let no_handlers = SourceOptions {
        handlers: BTreeSet::new(),
        ..options()
    };
    let mut process = Process::start(&path, no_handlers);
    process.sync([object("a", "u1", 1)]);
    process.recorder.run_once();
    drop(process);
    assert_eq!(
        next_process(&path, &[("a", "u1", 1)], OnStart::Continue),
        "add a@1, synced"
    );
}

#[test]
fn purge_covers_exactly_the_given_sources() {
    let (_folder, path) = kept(options());
    let here = || options().identity;
    let elsewhere = || SourceIdentity {
        server: "https://elsewhere".to_owned(),
        ..options().identity
    };
    let pods = |name: &str, cluster: &str| (name.to_owned(), cluster.to_owned());
    let others = |stays: SourceIdentity| {
        let (name, cluster) = pods("pods", "");
        Purge::OtherSources(name, cluster, BTreeSet::from([stays]))
    };
    for (what, forgets) in [
        (Purge::AllBut(BTreeSet::from([pods("pods", "")])), false),
        (Purge::Informer("pod".to_owned(), String::new()), false),
        (Purge::Informer("pods".to_owned(), "east".to_owned()), false),
        (Purge::Source(elsewhere()), false),
        (others(here()), false),
        (Purge::AllBut(BTreeSet::from([pods("pods", "east")])), true),
        (others(elsewhere()), true),
    ] {
        let metrics = StateMetrics::default();
        let shared = Arc::new(Shared::default());
        let store = TableStore::open(path.clone(), None, metrics.clone()).unwrap();
        let mut recorder = Recorder::new(store, Arc::clone(&shared), metrics);
        shared.command(RecorderCommand::Forget(what));
        recorder.run_once();
        drop(recorder);
        let received = next_process(
            &path,
            &[("a", "u1", 1), ("b", "u2", 2), ("c", "u3", 3)],
            OnStart::Continue,
        );
        assert_eq!(received == "synced", !forgets, "{received}");
    }
}

#[test]
fn flush_completes_after_earlier_acknowledgements_are_persisted() {
    let (folder, path) = kept(options());
    let crashed = folder.path().join("crashed");
    let mut process = resumed(&path);
    process.write(object("a", "u1", 8));
    process.recorder.run_once();
    assert_eq!(process.handle_all(), "update a@8");
    let (done, flushed) = std::sync::mpsc::channel();
    process.journal().flush(Box::new(move || done.send(()).unwrap()));
    process.recorder.run_once();
    flushed.try_recv().unwrap();
    process.crash(&crashed);
    let now = [("a", "u1", 8), ("b", "u2", 2), ("c", "u3", 3)];
    assert_eq!(next_process(&crashed, &now, OnStart::Continue), "synced");
}

#[test]
fn full_disk_delays_no_event_and_recovers() {
    let (folder, path) = kept(options());
    let crashed = folder.path().join("crashed");
    let mut process = resumed(&path);
    process.recorder.store().fail_disk_full();
    process.write(object("d", "u4", 4));
    process.delete("a", 5);
    process.recorder.run_once();
    assert_eq!(
        process.handle_all(),
        "add d@4, delete a@1",
        "nothing waits for the disk"
    );
    assert_eq!(
        (
            process.metrics.failing.get(),
            process.metrics.source("pods", "").unkept.get()
        ),
        (1, 2)
    );
    process.recorder.reopen();
    assert_eq!(process.settle(), "", "nothing is delivered twice");
    assert_eq!(process.metrics.failing.get(), 0);
    process.crash(&crashed);
    let received = next_process(&crashed, &[("d", "u4", 4)], OnStart::Continue);
    assert_eq!(received, "delete b@2?, delete c@3?, synced");
}

#[test]
fn database_unreadable_at_start_is_read_before_it_is_written() {
    let (folder, path) = kept(options());
    let crashed = folder.path().join("crashed");
    let metrics = StateMetrics::default();
    let mut store = TableStore::open(path.clone(), None, metrics.clone()).unwrap();
    store.fail_disk_full();
    let mut process = Process::start_on(&path, store, metrics, options());
    process.sync([object("a", "u1", 1), object("b", "u2", 2)]);
    process.attach(OnStart::Continue);
    assert_eq!(
        process.settle(),
        "add a@1, add b@2, synced",
        "delivered as if nothing were known"
    );
    process.recorder.reopen();
    process.write(object("b", "u2", 9));
    process.recorder.run_once();
    process.crash(&crashed);
    let received = process.settle();
    assert_eq!(
        received, "delete c@3?, update b@9",
        "the delete that it could not know before"
    );
    drop(process);
    let now = [("a", "u1", 1), ("b", "u2", 9)];
    assert_eq!(
        next_process(&crashed, &now, OnStart::Continue),
        "delete c@3?, add a@1, add b@9, synced"
    );
    assert_eq!(next_process(&path, &now, OnStart::Continue), "synced");
}

#[test]
fn replacement_of_a_set_aside_file_has_the_present_objects() {
    let (folder, path) = kept(options());
    let crashed = folder.path().join("crashed");
    let mut process = Process::start(&path, options());
    process.sync([object("a", "u1", 1), object("b", "u2", 2)]);
    process.attach(OnStart::Continue);
    assert_eq!(process.settle(), "delete c@3?, synced");
    // Nothing is pending when it fails, and nothing happens until it recovers.
    process.recorder.store().fail_disk_full();
    std::fs::remove_file(&path).unwrap();
    process.recorder.reopen();
    process.recorder.run_once();
    process.crash(&crashed);
    let received = next_process(&crashed, &[("b", "u2", 2)], OnStart::Continue);
    assert_eq!(
        received, "delete a@1?, add b@2, synced",
        "the objects are known, acknowledgements are not"
    );
}

#[test]
fn deletes_right_after_the_start_are_delivered_once_in_order() {
    let (_folder, path) = kept(options());
    let mut process = Process::start(&path, options());
    process.sync([object("a", "u1", 1), object("c", "u3", 3)]);
    process.attach(OnStart::Continue);
    // All of this is in the first transaction, with the comparison of the first list.
    process.delete("a", 4);
    process.write(object("a", "u4", 5));
    process.delete("a", 6);
    assert_eq!(
        process.settle(),
        "delete b@2?, delete a@1, synced",
        "no delete of the second incarnation before that of the first"
    );
    assert_eq!(process.metrics.source("pods", "").void_deletes.get(), 0);
}

#[test]
fn deletes_between_the_first_list_and_the_attach_are_delivered() {
    let (_folder, path) = kept(options());
    let mut process = Process::start(&path, options());
    process.sync([object("a", "u1", 1), object("b", "u2", 2), object("c", "u3", 3)]);
    process.delete("a", 4);
    process.attach(OnStart::Continue);
    assert_eq!(process.settle(), "delete a@1, synced");
}
