//! Another process calls the handler for a while.

use informant_cache::KeptDelete;
use informant_cache::listener::{ResumeState, Takeover};

use super::*;
use crate::handler_state::{HandlerState, TOMBSTONES_MAX};

fn kept_delete(name: &str, uid: &str, version: u64, gone_by: u64) -> KeptDelete {
    KeptDelete {
        key: Key::new("default", name),
        last: Some(object(name, uid, version)),
        final_state_unknown: false,
        gone_by: Some(gone_by),
        received: Moment::ZERO,
    }
}

impl Process {
    fn hand_over(&mut self) {
        self.journal().hand_over(&self.listener);
        self.recorder.run_once();
        assert!(!self.listener.feed().is_attached(SOURCE));
    }

    fn take_over(&mut self, watermark: Option<u64>, all_objects: bool, kept: Vec<KeptDelete>) -> String {
        let takeover = Takeover { watermark, all_objects };
        let resume = ResumeState::of_takeover(takeover, kept);
        self.journal().attach(&self.listener, Some(resume), Moment::ZERO);
        self.settle()
    }
}

/// The next process after [`kept`], which has called the handler.
fn called(path: &Path) -> Process {
    let mut process = Process::start(path, options());
    process.sync([object("a", "u1", 1), object("b", "u2", 2), object("c", "u3", 3)]);
    process.attach(OnStart::Continue);
    assert_eq!(process.settle(), "synced");
    process
}

#[test]
fn next_process_delivers_what_was_deleted_after_a_handover() {
    let (folder, path) = super::kept(options());
    let crashed = folder.path().join("crashed");
    let mut process = called(&path);
    process.hand_over();
    process.delete("c", 4);
    process.recorder.run_once();
    process.crash(&crashed);
    let received = next_process(&crashed, &[("b", "u2", 2)], OnStart::Continue);
    assert_eq!(
        received, "delete a@1?, delete c@3, add b@2, synced",
        "the other process may have delivered anything"
    );
}

#[test]
fn takeover_delivers_stored_and_kept_deletes_once() {
    let (_folder, path) = super::kept(options());
    let mut process = called(&path);
    process.hand_over();
    process.delete("a", 4);
    process.write(object("d", "u4", 5));
    process.delete("c", 6);
    process.recorder.run_once();
    // The row of `a` has no version of its delete, and what is kept has.
    let kept = vec![kept_delete("a", "u1", 1, 4), kept_delete("c", "u3", 3, 6)];
    let received = process.take_over(Some(2), false, kept);
    assert_eq!(received, "delete a@1, delete c@3, add d@5, synced");
    process.write(object("b", "u2", 7));
    assert_eq!(process.settle(), "update b@7");
    process.hand_over();
    let received = process.take_over(Some(7), false, Vec::new());
    assert_eq!(received, "synced", "the other process accepted all of that");
    process.hand_over();
    assert_eq!(process.take_over(None, true, Vec::new()), "add b@7, add d@5, synced");
}

#[test]
fn takeover_needs_no_row_of_the_handler() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("state.redb");
    let mut process = Process::start(&path, options());
    process.sync([object("a", "u1", 1), object("b", "u2", 2)]);
    process
        .shared
        .names
        .lock()
        .unwrap()
        .push((process.listener.clone(), HANDLER.to_owned(), OnStart::Continue));
    let received = process.take_over(Some(1), false, vec![kept_delete("x", "u9", 1, 3)]);
    assert_eq!(received, "delete x@1, add b@2, synced");
    let crashed = folder.path().join("crashed");
    process.crash(&crashed);
    let now = [("a", "u1", 1), ("b", "u2", 2)];
    assert_eq!(
        next_process(&crashed, &now, OnStart::Continue),
        "synced",
        "a was accepted elsewhere"
    );
}

impl Process {
    fn handler(&self) -> &HandlerState {
        &self.recorder.sources[0].handlers[HANDLER]
    }
}

#[test]
fn standby_keeps_deletes_in_the_file_alone() {
    let (folder, path) = super::kept(options());
    let crashed = folder.path().join("crashed");
    let mut process = called(&path);
    process.hand_over();
    for (name, version) in [("c", 4), ("d", 6), ("d", 8)] {
        if name == "d" {
            process.write(object("d", &format!("u{version}"), version - 1));
        }
        process.delete(name, version);
        process.recorder.run_once();
    }
    let handler = process.handler();
    assert!(handler.open.is_empty() && handler.all_open);
    assert_eq!(handler.tombstones, 3);
    process.crash(&crashed);

    let with_replicas = SourceOptions {
        has_replicas: true,
        ..options()
    };
    let mut next = Process::start(&crashed, with_replicas);
    next.sync([object("b", "u2", 2)]);
    next.recorder.run_once();
    let handler = next.handler();
    assert!(handler.open.is_empty() && handler.all_open);
    assert_eq!(handler.tombstones, 4, "a is gone, too");
    next.name(OnStart::Continue);
    let received = next.take_over(Some(2), false, Vec::new());
    assert_eq!(received, "delete a@1?, delete c@3, delete d@5, delete d@7, synced");
}

#[test]
fn standby_keeps_no_objects_above_the_limit() {
    let (_folder, path) = super::kept(options());
    let mut process = called(&path);
    process.hand_over();
    let handlers = &mut process.recorder.sources[0].handlers;
    handlers.get_mut(HANDLER).unwrap().tombstones = TOMBSTONES_MAX;
    process.delete("c", 4);
    process.recorder.run_once();
    assert!(process.handler().unstored.all().is_empty());
    let source = process.metrics.source("pods", "");
    assert_eq!(source.handler(HANDLER).tombstones_dropped.get(), 1);
}
