//! The rules one by one.

use super::*;
use crate::forgetting::Forgetting;
use crate::handler::OPEN_KEYS_ASKED_MAX;
use crate::queue::QUEUED_CHANGES_MAX;

/// The next process after [`kept`], for which nothing is new.
fn going_on(path: &Path) -> Process {
    let mut process = Process::start(path, options());
    process.sync([object("a", "u1", 1), object("b", "u2", 2), object("c", "u3", 3)]);
    process.attach(OnStart::Continue);
    assert_eq!(process.settle(), "synced");
    process
}

#[test]
fn what_vanished_while_nothing_ran_is_told_with_its_last_state_before_everything_else() {
    let (_folder, path) = kept(options());
    let told = next_process(&path, &[("b", "u2", 2), ("d", "u4", 9)], OnStart::Replay);
    assert_eq!(told, "delete a@1?, delete c@3?, add b@2, add d@9, synced");
}

#[test]
fn continuing_only_what_is_newer_than_acknowledged_is_told() {
    let (_folder, path) = kept(options());
    let now = [("a", "u1", 1), ("b", "u2", 7), ("c", "other", 3), ("d", "u4", 9)];
    let told = next_process(&path, &now, OnStart::Continue);
    assert_eq!(told, "delete c@3?, add b@7, add c@3, add d@9, synced");
    assert_eq!(
        next_process(&path, &now, OnStart::Continue),
        "synced",
        "all was acknowledged"
    );
}

#[test]
fn what_a_handler_had_not_acknowledged_is_told_again() {
    let (folder, path) = kept(options());
    let crashed = folder.path().join("crashed");
    let mut process = going_on(&path);
    process.write(object("a", "u1", 4));
    process.write(object("b", "u2", 5));
    process.delete("c", 6);
    process.recorder.turn();
    let first = process.take().unwrap();
    let second = process.take().unwrap();
    process.done(&first, Outcome::Ok);
    process.done(&second, Outcome::Permanent("no".to_owned()));
    process.recorder.turn();
    process.crash(&crashed);
    assert_eq!(
        (shown(&first), shown(&second)),
        ("update a@4".to_owned(), "update b@5".to_owned())
    );
    let now = [("a", "u1", 4), ("b", "u2", 5)];
    let told = next_process(&crashed, &now, OnStart::Continue);
    assert_eq!(
        told, "delete c@3, add b@5, synced",
        "the delete waited, b was a dead letter"
    );
}

#[test]
fn nobody_is_told_what_is_not_kept_yet() {
    let (folder, path) = kept(options());
    let crashed = folder.path().join("crashed");
    let mut process = going_on(&path);
    process.write(object("d", "u4", 4));
    assert!(process.take().is_none(), "not before it is kept");
    let groups = process.recorder.commit();
    process.crash(&crashed);
    assert!(process.take().is_none(), "not while it is being kept");
    process.recorder.hand_on(groups);
    assert_eq!(process.handle_all(), "add d@4");
    let now = [("a", "u1", 1), ("b", "u2", 2), ("c", "u3", 3)];
    assert_eq!(next_process(&crashed, &now, OnStart::Continue), "delete d@4?, synced");
}

#[test]
fn killed_during_its_first_list_a_handler_is_shown_all_again() {
    let folder = tempfile::tempdir().unwrap();
    let (path, crashed) = (folder.path().join("state.redb"), folder.path().join("crashed"));
    let mut process = Process::start(&path, options());
    process.sync([object("a", "u1", 1), object("b", "u2", 2)]);
    process.attach(OnStart::Continue);
    process.recorder.turn();
    let first = process.take().unwrap();
    process.done(&first, Outcome::Ok);
    process.recorder.turn();
    process.crash(&crashed);
    let told = next_process(&crashed, &[("b", "u2", 2)], OnStart::Continue);
    assert_eq!(told, "delete a@1?, add b@2, synced");
}

#[test]
fn killed_while_it_is_shown_all_again_a_handler_that_goes_on_is_shown_all_again() {
    let (folder, path) = kept(options());
    let (before, after) = (folder.path().join("before"), folder.path().join("after"));
    let now = [("a", "u1", 1), ("b", "u2", 2), ("c", "u3", 3)];
    let mut process = going_on(&path);
    process.listener.replay(Moment::ZERO);
    assert!(process.take().is_none(), "not before it is kept that it is shown all");
    process.crash(&before);
    let groups = process.recorder.commit();
    assert!(process.take().is_none(), "not while it is being kept");
    // Another one, which nobody has seen yet; what is kept says all that it has to.
    process.listener.recover(Moment::ZERO);
    process.recorder.hand_on(groups);
    let first = process.take().unwrap();
    assert_eq!(shown(&first), "add a@1");
    process.done(&first, Outcome::Ok);
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
fn a_replay_waits_for_nobody_who_does_not_keep_it() {
    let (_folder, path) = kept(options());
    let all = "add a@1, add b@2, add c@3, synced";
    // The disk is full: told and not kept, as everything is then.
    let mut process = going_on(&path);
    process.recorder.store().break_off();
    process.listener.replay(Moment::ZERO);
    assert_eq!(process.settle(), all);
    process.recorder.reopen();
    process.recorder.turn();
    // Nothing is kept of the informer any more.
    process.command(Command::Forget(Forgetting::InCluster("pods".to_owned(), String::new())));
    process.recorder.turn();
    process.listener.replay(Moment::ZERO);
    assert_eq!(process.settle(), all);
    drop(process);
    // The recorder is over while a replay waits, and then for good.
    let mut process = Process::start(&path, options());
    process.sync([object("a", "u1", 1)]);
    process.attach(OnStart::Continue);
    process.settle();
    process.listener.replay(Moment::ZERO);
    let listener = process.listener.clone();
    drop(process.recorder);
    let Next::Deliver(first) = listener.next(Moment::ZERO) else {
        panic!("it goes on with what waited");
    };
    listener.done(first.token, Outcome::Ok, Moment::ZERO);
    listener.replay(Moment::ZERO);
    assert!(matches!(listener.next(Moment::ZERO), Next::Deliver(_)));
}

#[test]
fn a_delete_is_closed_once_acknowledged_also_for_a_handler_that_comes_late() {
    let (_folder, path) = kept(options());
    let mut process = Process::start(&path, options());
    process.sync([object("a", "u1", 1)]);
    process.recorder.turn();
    process.delete("a", 9);
    process.write(object("e", "u5", 10));
    process.recorder.turn();
    process.attach(OnStart::Continue);
    assert_eq!(
        process.settle(),
        "delete a@1, delete b@2?, delete c@3?, add e@10, synced"
    );
    drop(process);
    assert_eq!(next_process(&path, &[("e", "u5", 10)], OnStart::Continue), "synced");
}

#[test]
fn the_highest_version_is_remembered() {
    let (_folder, path) = kept(options());
    let mut process = Process::start(&path, options());
    assert_eq!(process.journal().high_water(), None);
    process.sync([object("a", "u1", 1)]);
    process.write(object("a", "u1", 41));
    process.recorder.turn();
    process.journal().seen(42);
    process.recorder.turn();
    drop(process);
    let process = Process::start(&path, options());
    assert_eq!(process.journal().high_water(), Some(42), "also of a bookmark");
}

#[test]
fn another_form_or_another_history_shows_everything_again() {
    let (_folder, path) = kept(options());
    let now = [("a", "u1", 1), ("b", "u2", 2), ("c", "u3", 3)];
    let other_form = SourceOptions {
        form: "without status".to_owned(),
        ..options()
    };
    let told = next_process_with(&path, &now, OnStart::Continue, other_form.clone());
    assert_eq!(told, "add a@1, add b@2, add c@3, synced");
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
fn with_another_key_nothing_is_believed_and_what_vanished_is_still_told() {
    let (_folder, path) = kept(sealed());
    let told = next_process_with(&path, &[("b", "u2", 2)], OnStart::Continue, sealed());
    assert_eq!(told, "delete a@1?, delete c@3?, synced");
    let other = SourceOptions {
        sealer: Some(Sealer::of([2; 32])),
        ..options()
    };
    let told = next_process_with(&path, &[], OnStart::Continue, other);
    assert_eq!(told, "delete b@?, synced", "its last state cannot be read");
}

#[test]
fn whole_objects_come_back_whole_and_metadata_as_metadata() {
    for (keep, has_spec) in [(Keep::Metadata, false), (Keep::Whole, true)] {
        let options = SourceOptions { keep, ..options() };
        let (_folder, path) = kept(options.clone());
        let mut process = Process::start(&path, options);
        process.sync([]);
        process.attach(OnStart::Replay);
        process.recorder.turn();
        let What::Delete { last: Some(last), .. } = process.take().unwrap().what else {
            panic!("a delete with a state");
        };
        assert_eq!((last.kind(), last.uid()), ("Pod", "u1"));
        assert_eq!(last.text().contains("spec"), has_spec);
    }
}

#[test]
fn more_changes_than_may_wait_become_the_difference_and_the_last_state_is_told() {
    let (_folder, path) = kept(options());
    let mut process = going_on(&path);
    process.delete("b", 4);
    for version in 0..QUEUED_CHANGES_MAX as u64 {
        process.write(object("a", "u1", 10 + version));
    }
    let last = 9 + QUEUED_CHANGES_MAX as u64;
    assert_eq!(process.settle(), format!("delete b@2?, update a@{last}"));
    assert_eq!(
        process.metrics.source("pods", "").behind.get(),
        1 + QUEUED_CHANGES_MAX as u64,
        "each change that was left out"
    );
    drop(process);
    let now = [("a", "u1", last), ("c", "u3", 3)];
    assert_eq!(next_process(&path, &now, OnStart::Continue), "synced");
}

#[test]
fn many_open_keys_are_looked_up_in_turn() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("state.redb");
    let names: Vec<String> = (0..3 * OPEN_KEYS_ASKED_MAX)
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
        process.recorder.turn();
    }
    drop(process);
    let now: Vec<_> = names.iter().map(|name| (name.as_str(), "u", 5)).collect();
    assert_eq!(next_process(&path, &now, OnStart::Continue), "synced");
}

#[test]
fn a_handler_that_is_not_expected_any_more_is_forgotten() {
    let (_folder, path) = kept(options());
    let nobody = SourceOptions {
        handlers: BTreeSet::new(),
        ..options()
    };
    let mut process = Process::start(&path, nobody);
    process.sync([object("a", "u1", 1)]);
    process.recorder.turn();
    drop(process);
    assert_eq!(
        next_process(&path, &[("a", "u1", 1)], OnStart::Continue),
        "add a@1, synced"
    );
}

#[test]
fn what_nobody_keeps_any_more_is_forgotten() {
    let (_folder, path) = kept(options());
    let here = || options().identity;
    let elsewhere = || SourceIdentity {
        server: "https://elsewhere".to_owned(),
        ..options().identity
    };
    let pods = |name: &str, cluster: &str| (name.to_owned(), cluster.to_owned());
    let others = |stays: SourceIdentity| {
        let (name, cluster) = pods("pods", "");
        Forgetting::OthersInCluster(name, cluster, BTreeSet::from([stays]))
    };
    for (what, forgets) in [
        (Forgetting::AllBut(BTreeSet::from([pods("pods", "")])), false),
        (Forgetting::InCluster("pod".to_owned(), String::new()), false),
        (Forgetting::InCluster("pods".to_owned(), "east".to_owned()), false),
        (Forgetting::Source(elsewhere()), false),
        (others(here()), false),
        (Forgetting::AllBut(BTreeSet::from([pods("pods", "east")])), true),
        (others(elsewhere()), true),
    ] {
        let metrics = StateMetrics::default();
        let shared = Arc::new(Shared::default());
        let store = Store::open(path.clone(), metrics.clone()).unwrap();
        let mut recorder = Recorder::new(store, Arc::clone(&shared), metrics);
        shared.command(Command::Forget(what));
        recorder.turn();
        drop(recorder);
        let told = next_process(
            &path,
            &[("a", "u1", 1), ("b", "u2", 2), ("c", "u3", 3)],
            OnStart::Continue,
        );
        assert_eq!(told == "synced", !forgets, "{told}");
    }
}

#[test]
fn a_flush_is_answered_once_what_was_acknowledged_before_it_is_kept() {
    let (folder, path) = kept(options());
    let crashed = folder.path().join("crashed");
    let mut process = going_on(&path);
    process.write(object("a", "u1", 8));
    process.recorder.turn();
    assert_eq!(process.handle_all(), "update a@8");
    let (done, flushed) = std::sync::mpsc::channel();
    process.journal().flush(Box::new(move || done.send(()).unwrap()));
    process.recorder.turn();
    flushed.try_recv().unwrap();
    process.crash(&crashed);
    let now = [("a", "u1", 8), ("b", "u2", 2), ("c", "u3", 3)];
    assert_eq!(next_process(&crashed, &now, OnStart::Continue), "synced");
}

#[test]
fn while_the_disk_is_full_events_go_out_and_what_was_missed_is_made_up_for() {
    let (folder, path) = kept(options());
    let crashed = folder.path().join("crashed");
    let mut process = going_on(&path);
    process.recorder.store().break_off();
    process.write(object("d", "u4", 4));
    process.delete("a", 5);
    process.recorder.turn();
    assert_eq!(process.handle_all(), "add d@4, delete a@1", "nobody waits for a disk");
    assert_eq!(
        (
            process.metrics.failing.get(),
            process.metrics.source("pods", "").unkept.get()
        ),
        (1, 2)
    );
    process.recorder.reopen();
    assert_eq!(process.settle(), "", "nothing is told twice");
    assert_eq!(process.metrics.failing.get(), 0);
    process.crash(&crashed);
    let told = next_process(&crashed, &[("d", "u4", 4)], OnStart::Continue);
    assert_eq!(told, "delete b@2?, delete c@3?, synced");
}

#[test]
fn a_database_that_could_not_be_asked_at_first_is_asked_before_anything_is_written() {
    let (folder, path) = kept(options());
    let crashed = folder.path().join("crashed");
    let metrics = StateMetrics::default();
    let mut store = Store::open(path.clone(), metrics.clone()).unwrap();
    store.break_off();
    let mut process = Process::start_on(&path, store, metrics, options());
    process.sync([object("a", "u1", 1), object("b", "u2", 2)]);
    process.attach(OnStart::Continue);
    assert_eq!(
        process.settle(),
        "add a@1, add b@2, synced",
        "shown as if nothing were known"
    );
    process.recorder.reopen();
    process.write(object("b", "u2", 9));
    process.recorder.turn();
    process.crash(&crashed);
    let told = process.settle();
    assert_eq!(told, "delete c@3?, update b@9", "what it could not know");
    drop(process);
    let now = [("a", "u1", 1), ("b", "u2", 9)];
    assert_eq!(
        next_process(&crashed, &now, OnStart::Continue),
        "delete c@3?, add a@1, add b@9, synced"
    );
    assert_eq!(next_process(&path, &now, OnStart::Continue), "synced");
}

#[test]
fn what_a_file_held_that_was_set_aside_is_in_the_one_that_takes_its_place() {
    let (folder, path) = kept(options());
    let crashed = folder.path().join("crashed");
    let mut process = Process::start(&path, options());
    process.sync([object("a", "u1", 1), object("b", "u2", 2)]);
    process.attach(OnStart::Continue);
    assert_eq!(process.settle(), "delete c@3?, synced");
    // Nothing waits when it fails, and nothing happens until it can be written again.
    process.recorder.store().break_off();
    std::fs::remove_file(&path).unwrap();
    process.recorder.reopen();
    process.recorder.turn();
    process.crash(&crashed);
    let told = next_process(&crashed, &[("b", "u2", 2)], OnStart::Continue);
    assert_eq!(
        told, "delete a@1?, add b@2, synced",
        "what there was is known; what was acknowledged is not any more"
    );
}
