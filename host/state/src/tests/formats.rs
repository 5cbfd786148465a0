//! Files of earlier formats. `format-1.redb` was written by the last version with format 1, for the sources and the
//! handler of these tests: `a` was updated, `c` deleted, `d` deleted and created again, and none of it acknowledged;
//! `b` and `e` were acknowledged. A second source is encrypted and holds `s` and `t`, both acknowledged.

use super::*;
use crate::handler_state::INCARNATIONS_MAX;

/// A folder with the file of format 1.
fn format_1() -> (tempfile::TempDir, PathBuf) {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("state.redb");
    fs::write(&path, include_bytes!("format-1.redb")).unwrap();
    (folder, path)
}

#[test]
fn format_1_is_migrated_with_everything_in_it() {
    let now = [("a", "u1", 6), ("b", "u2", 2), ("e", "u7", 9)];
    let (_folder, path) = format_1();
    let received = next_process(&path, &now, OnStart::Continue);
    assert_eq!(
        received, "delete c@3, delete d@4, delete e@5?, delete d@9?, add a@6, add e@9, synced",
        "`d` has two incarnations: format 1 held the second as an object"
    );
    assert_eq!(next_process(&path, &now, OnStart::Continue), "synced");
    let (_folder, path) = format_1();
    let received = next_process(&path, &now, OnStart::Replay);
    assert_eq!(
        received,
        "delete c@3, delete d@4, delete e@5?, delete d@9?, add a@6, add b@2, add e@9, synced"
    );
}

#[test]
fn encrypted_source_of_format_1_is_migrated() {
    let mut options = sealed();
    options.identity.informer = "config".to_owned();
    let (_folder, path) = format_1();
    let process = Process::start(&path, options.clone());
    assert_eq!(process.journal().high_water(), Some(11));
    drop(process);
    let received = next_process_with(&path, &[("t", "u10", 11)], OnStart::Continue, options);
    assert_eq!(received, "delete s@10?, synced");
}

#[test]
fn migrated_file_is_not_migrated_again() {
    let (_folder, path) = format_1();
    let open = || TableStore::open(path.clone(), None, StateMetrics::default()).unwrap();
    drop(open());
    let rows = |store: &mut TableStore| {
        let counted = store.write(|tables| {
            use redb::ReadableTableMetadata as _;
            Ok((tables.open.len()?, tables.ended.len()?))
        });
        counted.unwrap()
    };
    let mut store = open();
    assert_eq!(rows(&mut store), (1, 2), "a; c and d");
    assert!(store.is_open());
}

/// The objects of [`continued`] without `a`.
const WITHOUT_A: [(&str, &str, u64); 2] = [("b", "u2", 2), ("c", "u3", 3)];

/// A second process, in which `a`, `b` and `c` are acknowledged, and where to copy its file at a crash.
fn continued() -> (tempfile::TempDir, Process, PathBuf) {
    let (folder, path) = kept(options());
    let mut process = Process::start(&path, options());
    process.sync([object("a", "u1", 1), object("b", "u2", 2), object("c", "u3", 3)]);
    process.attach(OnStart::Continue);
    process.settle();
    let crashed = folder.path().join("crashed");
    (folder, process, crashed)
}

fn incarnations_dropped(process: &Process) -> u64 {
    let source = process.metrics.source("pods", "");
    source.handler(HANDLER).incarnations_dropped.get()
}

#[test]
fn several_incarnations_are_reported_oldest_first() {
    let (_folder, mut process, crashed) = continued();
    for (uid, version) in [("v1", 10), ("v2", 20)] {
        process.delete("a", version);
        process.write(object("a", uid, version + 1));
        process.recorder.run_once();
        // Everything is handed out and accepted, which is not on disk yet.
        process.handle_all();
        process.crash(&crashed);
    }
    let received = next_process(&crashed, &WITHOUT_A, OnStart::Continue);
    assert_eq!(
        received, "delete a@11, delete a@21?, synced",
        "u1 was acknowledged meanwhile"
    );
    process.recorder.run_once();
    process.crash(&crashed);
    let received = next_process(&crashed, &WITHOUT_A, OnStart::Continue);
    assert_eq!(received, "delete a@21?, synced", "v1 was acknowledged, too");
}

#[test]
fn incarnations_merged_away_in_the_listener_are_forgotten() {
    let (_folder, mut process, crashed) = continued();
    process
        .listener
        .control()
        .pause(informant_cache::listener::Pause::Quarantine);
    for version in 0..3 * INCARNATIONS_MAX as u64 {
        process.delete("a", 10 * version + 10);
        process.write(object("a", &format!("v{version}"), 10 * version + 11));
        process.recorder.run_once();
    }
    process.delete("a", 1_000);
    process.recorder.run_once();
    process.recorder.run_once();
    process.crash(&crashed);
    assert_eq!(incarnations_dropped(&process), 0);
    assert_eq!(
        next_process(&crashed, &WITHOUT_A, OnStart::Continue),
        "delete a@1, synced"
    );
}

#[test]
fn incarnations_of_one_key_are_bounded_and_counted() {
    let (_folder, mut process, crashed) = continued();
    for version in 0..INCARNATIONS_MAX as u64 + 4 {
        process.delete("a", 10 * version + 10);
        process.write(object("a", &format!("v{version}"), 10 * version + 11));
    }
    process.recorder.run_once();
    process.crash(&crashed);
    assert_eq!(incarnations_dropped(&process), 4);
    let received = next_process(&crashed, &WITHOUT_A, OnStart::Continue);
    let stored_and_last = INCARNATIONS_MAX + 1;
    assert_eq!(received.matches("delete a").count(), stored_and_last, "{received}");
    assert!(
        received.starts_with("delete a@1, delete a@11"),
        "the oldest ones: {received}"
    );
}

#[test]
fn incarnations_in_the_first_batch_are_bounded_and_counted() {
    let (_folder, path) = kept(options());
    let mut process = Process::start(&path, options());
    process.sync([object("a", "u1", 1), object("b", "u2", 2), object("c", "u3", 3)]);
    process.attach(OnStart::Continue);
    for version in 0..INCARNATIONS_MAX as u64 + 4 {
        process.delete("a", 10 * version + 10);
        process.write(object("a", &format!("v{version}"), 10 * version + 11));
    }
    let received = process.settle();
    assert_eq!(incarnations_dropped(&process), 4);
    assert_eq!(
        received, "delete a@1, add a@201, synced",
        "the later ones came as changes, and were merged away"
    );
}

/// A file of a process whose handler received `a@200`, and before it as many deletes of `a` as are stored. It was
/// killed before their acknowledgements were stored.
fn full_before_the_last() -> (tempfile::TempDir, PathBuf) {
    let (folder, path) = kept(options());
    let crashed = folder.path().join("crashed");
    let mut process = Process::start(&path, options());
    process.sync([object("b", "u2", 2), object("c", "u3", 3)]);
    process.recorder.run_once();
    // No handler is there yet.
    for version in 1..INCARNATIONS_MAX as u64 {
        process.write(object("a", &format!("v{version}"), 2 * version));
        process.delete("a", 2 * version + 1);
    }
    process.write(object("a", "last", 200));
    process.attach(OnStart::Continue);
    process.recorder.run_once();
    let received = process.handle_all();
    assert!(received.ends_with("add a@200, synced"), "{received}");
    assert_eq!(incarnations_dropped(&process), 0);
    process.crash(&crashed);
    (folder, crashed)
}

/// All deletes of `a` have to come, the last one as `last`.
fn assert_all_come(mut process: Process, last: &str) {
    let received = process.settle();
    assert!(received.ends_with(last), "{received}");
    assert_eq!(received.matches("delete a").count(), INCARNATIONS_MAX + 1, "{received}");
    assert!(
        received.matches("add a").count() <= 1,
        "no add between them: {received}"
    );
    assert_eq!(incarnations_dropped(&process), 1, "it was not stored");
}

#[test]
fn delete_beyond_the_limit_reaches_a_handler_attached_later() {
    for is_attached_at_once in [false, true] {
        let (_folder, crashed) = full_before_the_last();
        let mut process = Process::start(&crashed, options());
        process.sync([object("a", "new", 300), object("b", "u2", 2)]);
        if !is_attached_at_once {
            process.recorder.run_once();
        }
        process.attach(OnStart::Continue);
        assert_all_come(process, "delete a@200?, add a@300, synced");
    }
}

#[test]
fn delete_beyond_the_limit_before_the_attachment_survives_a_failure() {
    let (_folder, crashed) = full_before_the_last();
    let mut process = Process::start(&crashed, options());
    process.sync([object("a", "last", 200), object("b", "u2", 2), object("c", "u3", 3)]);
    process.recorder.run_once();
    process.delete("a", 300);
    process.recorder.run_once();
    // Everything that is stored is read again.
    process.recorder.store().fail_disk_full();
    process.write(object("d", "u4", 400));
    process.recorder.run_once();
    process.recorder.reopen();
    process.recorder.run_once();
    process.attach(OnStart::Continue);
    assert_all_come(process, "delete a@200, add d@400, synced");
}

#[test]
fn delete_beyond_the_limit_comes_late_from_an_unreadable_database() {
    let (_folder, crashed) = full_before_the_last();
    let metrics = StateMetrics::default();
    let mut store = TableStore::open(crashed.clone(), None, metrics.clone()).unwrap();
    store.fail_disk_full();
    let mut process = Process::start_on(&crashed, store, metrics, options());
    process.sync([object("a", "new", 300), object("b", "u2", 2)]);
    process.attach(OnStart::Continue);
    assert_eq!(process.settle(), "add a@300, add b@2, synced");
    process.recorder.reopen();
    assert_all_come(process, "delete a@200?, add a@300");
}
