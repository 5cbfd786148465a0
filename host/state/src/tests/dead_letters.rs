//! Dead letters across restarts.

use std::time::Duration;

use informant_cache::listener::{DeadLetter, RequeueResult};

use super::*;

const NOW: [(&str, &str, u64); 2] = [("a", "u1", 1), ("b", "u2", 5)];

/// What was left by a process that was killed after the handler had refused `b@5` and the delete of `c`.
fn refused(options: SourceOptions) -> (tempfile::TempDir, PathBuf) {
    let (folder, path) = kept(options.clone());
    let crashed = folder.path().join("crashed");
    let mut process = Process::start(&path, options);
    process.sync([object("a", "u1", 1), object("b", "u2", 2), object("c", "u3", 3)]);
    process.attach(OnStart::Continue);
    process.settle();
    process.write(object("b", "u2", 5));
    process.delete("c", 6);
    process.recorder.run_once();
    while let Some(delivery) = process.take() {
        process.done(&delivery, DeliveryOutcome::Permanent("hunter2 is wrong".to_owned()));
    }
    process.recorder.run_once();
    process.crash(&crashed);
    (folder, crashed)
}

/// The next process, which lists `objects`, after everything was delivered.
fn next(path: &Path, objects: &[(&str, &str, u64)], on_start: OnStart, options: SourceOptions) -> (Process, String) {
    let mut process = Process::start(path, options);
    process.sync(objects.iter().map(|(name, uid, version)| object(name, uid, *version)));
    process.attach(on_start);
    let received = process.settle();
    (process, received)
}

pub(super) fn letters(process: &Process) -> String {
    let shown = |letter: &DeadLetter| {
        let version = letter.resource_version.as_deref().unwrap_or("-");
        format!("{} {}@{version}: {}", letter.event, letter.key.name(), letter.error)
    };
    let letters = process.listener.ledger().dead_letters();
    letters.iter().map(shown).collect::<Vec<_>>().join(", ")
}

#[test]
fn dead_letters_survive_a_restart_and_can_be_requeued() {
    for options in [options(), sealed()] {
        let (_folder, path) = refused(options.clone());
        for _ in 0..2 {
            let (process, received) = next(&path, &NOW, OnStart::Continue, options.clone());
            assert_eq!(received, "synced", "unchanged dead letters are not delivered again");
            let mut listed: Vec<&str> = Vec::new();
            let all = letters(&process);
            listed.extend(all.split(", "));
            listed.sort_unstable();
            assert_eq!(listed, ["delete c@-: hunter2 is wrong", "update b@5: hunter2 is wrong"]);
            let first = &process.listener.ledger().dead_letters()[0];
            assert_eq!((first.source, first.attempts, first.result), (SOURCE, 1, "permanent"));
            assert!(first.age_before < Duration::from_secs(600));
        }
        let (mut process, _) = next(&path, &NOW, OnStart::Continue, options.clone());
        for name in ["b", "c"] {
            let requeued = process.listener.control().requeue(SOURCE, key(name), Moment::ZERO);
            assert_eq!(requeued, RequeueResult::Queued);
        }
        assert_eq!(process.settle(), "add b@5, delete c@3");
        assert_eq!(letters(&process), "");
        drop(process);
        let (process, received) = next(&path, &NOW, OnStart::Continue, options.clone());
        assert_eq!((received, letters(&process)), ("synced".to_owned(), String::new()));
    }
}

#[test]
fn changed_object_of_a_dead_letter_is_delivered_after_restart() {
    let (_folder, path) = refused(options());
    let now = [("a", "u1", 1), ("b", "u2", 9), ("c", "u4", 10)];
    let (process, received) = next(&path, &now, OnStart::Continue, options());
    assert_eq!(received, "add b@9, add c@10, synced");
    assert_eq!(letters(&process), "", "its success removed it");
    let (_folder, path) = refused(options());
    let (process, received) = next(&path, &[("a", "u1", 1)], OnStart::Continue, options());
    assert_eq!(
        (received, letters(&process)),
        (
            "delete b@5?, synced".to_owned(),
            "delete c@-: hunter2 is wrong".to_owned()
        )
    );
}

#[test]
fn replay_after_restart_delivers_dead_letters_again() {
    let (_folder, path) = refused(options());
    let (process, received) = next(&path, &NOW, OnStart::Replay, options());
    assert_eq!(received, "delete c@3, add a@1, add b@5, synced");
    assert_eq!(letters(&process), "");
}

#[test]
fn dead_letters_are_encrypted_like_their_objects() {
    let holds_error = |path: &Path| {
        let bytes = fs::read(path).unwrap();
        bytes.windows(7).any(|window| window == b"hunter2")
    };
    let (_folder, path) = refused(options());
    assert!(holds_error(&path), "without a key the text can be found");
    let (_folder, path) = refused(sealed());
    assert!(!holds_error(&path));
    // With another key they cannot be read, and their events are delivered again.
    let other = SourceOptions {
        cipher: Some(Cipher::of([2; 32])),
        ..options()
    };
    let (process, received) = next(&path, &NOW, OnStart::Continue, other);
    assert_eq!(received, "delete c@, add a@1, add b@5, synced");
    assert_eq!(letters(&process), "");
}

#[test]
fn dead_letters_of_a_removed_handler_are_deleted() {
    let (_folder, path) = refused(options());
    let no_handlers = SourceOptions {
        handlers: BTreeSet::new(),
        ..options()
    };
    let mut process = Process::start(&path, no_handlers);
    process.sync([object("a", "u1", 1)]);
    process.recorder.run_once();
    drop(process);
    let (process, received) = next(&path, &NOW, OnStart::Continue, options());
    assert_eq!(received, "add a@1, add b@5, synced");
    assert_eq!(letters(&process), "");
}
