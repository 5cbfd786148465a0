//! What plugins remember: written with the end of the event whose call changed it.

use std::sync::mpsc;

use super::disk::{Disk, start_on};
use super::*;
use crate::key_value::{EventEnd, KeyChange, KeySpace};

/// Opens the handler's keys, as a call from another thread does.
pub(super) fn keys(process: &mut Process) -> KeySpace {
    let (reply, answer) = mpsc::channel();
    process.command(RecorderCommand::OpenKeys(HANDLER.into(), reply));
    process.recorder.run_once();
    answer.try_recv().unwrap().unwrap();
    process.shared.open_keys(HANDLER, &process.metrics).unwrap()
}

pub(super) fn value(keys: &KeySpace, key: &str) -> Option<String> {
    keys.get(key).map(|value| String::from_utf8(value.to_vec()).unwrap())
}

/// The end of a successful call.
fn end_of(process: &Process, delivery: &Delivery) -> EventEnd {
    let (listener, token) = (process.listener.clone(), delivery.token);
    EventEnd {
        source: delivery.source,
        key: delivery.key().map(KeyRef::to_key),
        report: Box::new(move || listener.consumer().done(token, DeliveryOutcome::Ok, Moment::ZERO)),
    }
}

/// The handler counts an event in its keys, and succeeds.
pub(super) fn count(process: &Process, keys: &KeySpace, delivery: Delivery) {
    keys.commit(counted_once_more(keys), Some(end_of(process, &delivery)));
}

fn counted_once_more(keys: &KeySpace) -> Vec<KeyChange> {
    let before = value(keys, "count").map_or(0, |count| count.parse::<u32>().unwrap());
    vec![("count".to_owned(), Some((before + 1).to_string().into_bytes().into()))]
}

#[test]
fn kill_keeps_changes_exactly_with_their_acknowledgement() {
    let (folder, path) = kept(options());
    let mut process = Process::start(&path, options());
    let objects = [("a", "u1", 1), ("b", "u2", 2), ("c", "u3", 3)];
    process.sync(objects.map(|(name, uid, version)| object(name, uid, version)));
    process.attach(OnStart::Continue);
    assert_eq!(process.settle(), "synced");
    let counted = keys(&mut process);
    process.write(object("b", "u2", 4));
    process.write(object("c", "u3", 5));
    process.recorder.run_once();
    let (first, second) = (process.take().unwrap(), process.take().unwrap());
    count(&process, &counted, first);
    let (before, between, after) = (
        folder.path().join("before"),
        folder.path().join("between"),
        folder.path().join("after"),
    );
    process.crash(&before);
    process.recorder.run_once();
    process.crash(&between);
    count(&process, &counted, second);
    process.recorder.run_once();
    process.crash(&after);

    for (killed, kept, delivered) in [
        (before, None, "add b@4, add c@5, synced"),
        (between, Some("1"), "add c@5, synced"),
        (after, Some("2"), "synced"),
    ] {
        let mut next = Process::start(&killed, options());
        let counted = keys(&mut next);
        assert_eq!(value(&counted, "count").as_deref(), kept, "{}", killed.display());
        next.sync([object("a", "u1", 1), object("b", "u2", 4), object("c", "u3", 5)]);
        next.attach(OnStart::Continue);
        assert_eq!(next.settle(), delivered, "{}", killed.display());
    }
}

/// The call for `b` defers a write, which takes its time; the one for `c` comes and ends meanwhile.
#[test]
fn kill_before_a_deferred_write_delivers_again_to_old_keys() {
    let (folder, path) = kept(options());
    let mut process = Process::start(&path, options());
    let objects = [("a", "u1", 1), ("b", "u2", 2), ("c", "u3", 3)];
    process.sync(objects.map(|(name, uid, version)| object(name, uid, version)));
    process.attach(OnStart::Continue);
    assert_eq!(process.settle(), "synced");
    let counted = keys(&mut process);
    process.write(object("b", "u2", 4));
    process.write(object("c", "u3", 5));
    process.recorder.run_once();
    let (first, second) = (process.take().unwrap(), process.take().unwrap());
    let written = vec![("written".to_owned(), Some(b"b"[..].into()))];
    let held = counted.hold(written);
    assert_eq!(value(&counted, "written").as_deref(), Some("b"), "calls see it");
    let (before, between, after) = (
        folder.path().join("before"),
        folder.path().join("between"),
        folder.path().join("after"),
    );
    process.recorder.run_once();
    process.crash(&before);
    count(&process, &counted, second);
    process.recorder.run_once();
    process.crash(&between);
    held.end(end_of(&process, &first));
    process.recorder.run_once();
    process.crash(&after);

    for (killed, kept, delivered) in [
        (before, (None, None), "add b@4, add c@5, synced"),
        (between, (None, Some("1")), "add b@4, synced"),
        (after, (Some("b"), Some("1")), "synced"),
    ] {
        let mut next = Process::start(&killed, options());
        let found = keys(&mut next);
        let found = (value(&found, "written"), value(&found, "count"));
        assert_eq!((found.0.as_deref(), found.1.as_deref()), kept, "{}", killed.display());
        next.sync([object("a", "u1", 1), object("b", "u2", 4), object("c", "u3", 5)]);
        next.attach(OnStart::Continue);
        assert_eq!(next.settle(), delivered, "{}", killed.display());
    }
}

/// More open keys than are checked at once: that of the event is checked nevertheless.
#[test]
fn acknowledgement_comes_with_its_changes_among_many_keys() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("state.redb");
    let mut process = Process::start(&path, options());
    process.sync([]);
    process.attach(OnStart::Continue);
    process.settle();
    let counted = keys(&mut process);
    let many = crate::OPEN_KEYS_CHECKED_MAX as u64 + 500;
    for number in 0..many {
        process.write(object(&format!("o-{number:05}"), &format!("u{number}"), 10 + number));
    }
    process.recorder.run_once();
    let last = std::iter::from_fn(|| process.take()).last().unwrap();
    assert_eq!(shown(&last), format!("add o-{:05}@{}", many - 1, many + 9));
    count(&process, &counted, last);
    process.recorder.run_once();
    let killed = folder.path().join("killed");
    process.crash(&killed);
    let objects: Vec<(String, String, u64)> = (0..many)
        .map(|number| (format!("o-{number:05}"), format!("u{number}"), 10 + number))
        .collect();
    let objects: Vec<(&str, &str, u64)> = objects
        .iter()
        .map(|(name, uid, version)| (&**name, &**uid, *version))
        .collect();
    let delivered = next_process(&killed, &objects, OnStart::Continue);
    assert!(
        !delivered.contains(&format!("o-{:05}", many - 1)),
        "it was acknowledged"
    );
    assert!(delivered.contains("o-00000"), "it was not");
}

#[test]
fn full_disk_keeps_changes_until_it_recovers() {
    let disk = Disk::default();
    let mut process = start_on(&disk).unwrap();
    process.sync([object("a", "u1", 1)]);
    process.attach(OnStart::Continue);
    process.settle();
    let counted = keys(&mut process);
    counted.commit(vec![("old".to_owned(), Some(b"1"[..].into()))], None);
    process.write(object("a", "u1", 2));
    process.recorder.run_once();
    let delivery = process.take().unwrap();
    disk.set_room(Some(0));
    counted.commit(vec![("old".to_owned(), None)], None);
    count(&process, &counted, delivery);
    process.recorder.run_once();
    assert!(counted.is_failing());
    assert_eq!(value(&counted, "count").as_deref(), Some("1"), "calls see it");
    process.write(object("a", "u1", 3));
    process.recorder.run_once();
    assert_eq!(shown(&process.take().unwrap()), "update a@3", "the event has ended");
    assert_eq!(value(&keys(&mut start_on(&disk.after_kill()).unwrap()), "count"), None);
    disk.set_room(None);
    process.recorder.reopen();
    process.recorder.run_once();
    assert!(!counted.is_failing());
    let kept = keys(&mut start_on(&disk.after_kill()).unwrap());
    assert_eq!(value(&kept, "count").as_deref(), Some("1"));
    assert_eq!(value(&kept, "old"), None, "it was deleted while the disk was full");
}

#[test]
fn keys_are_rewritten_to_a_file_that_was_replaced() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("state.redb");
    let mut process = Process::start(&path, options());
    let space = keys(&mut process);
    space.commit(vec![("a".to_owned(), Some(b"1"[..].into()))], None);
    process.recorder.run_once();
    process.recorder.store().fail_disk_full();
    fs::remove_file(&path).unwrap();
    process.recorder.reopen();
    process.recorder.run_once();
    let killed = folder.path().join("killed");
    process.crash(&killed);
    let kept = keys(&mut Process::start(&killed, options()));
    assert_eq!(value(&kept, "a").as_deref(), Some("1"));
}

#[test]
fn plugins_have_keys_of_their_own_until_they_are_removed() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("state.redb");
    let mut process = Process::start(&path, options());
    for plugin in ["a", "ab", "b"] {
        let (reply, _answer) = mpsc::channel();
        process.command(RecorderCommand::OpenKeys(plugin.into(), reply));
        process.recorder.run_once();
        let space = process.shared.open_keys(plugin, &process.metrics).unwrap();
        let set = |key: &str| (key.to_owned(), Some(plugin.as_bytes().into()));
        space.commit(vec![set("x/1"), set("x/2"), set("y")], None);
        space.commit(vec![("x/2".to_owned(), None)], None);
        assert_eq!(space.keys("x", "", 10), ["x/1"]);
        assert_eq!(space.keys("", "x/1", 10), ["y"]);
        assert_eq!(space.usage(), (2, 4 + 2 * plugin.len()));
    }
    process.recorder.run_once();
    process.command(RecorderCommand::KeepOnlyPlugins(BTreeSet::from(["ab".to_owned()])));
    process.recorder.run_once();
    drop(process);
    let mut process = Process::start(&path, options());
    let mut of = |plugin: &str| {
        let (reply, _answer) = mpsc::channel();
        process.command(RecorderCommand::OpenKeys(plugin.into(), reply));
        process.recorder.run_once();
        let space = process.shared.open_keys(plugin, &process.metrics).unwrap();
        (value(&space, "x/1"), space.usage().0)
    };
    assert_eq!(of("a"), (None, 0));
    assert_eq!(of("ab"), (Some("ab".to_owned()), 2));
    assert_eq!(of("b"), (None, 0));
}

#[test]
fn events_end_after_the_recorder_has_ended() {
    let folder = tempfile::tempdir().unwrap();
    let mut process = Process::start(&folder.path().join("state.redb"), options());
    let space = keys(&mut process);
    let (reported, reports) = mpsc::channel();
    let end = || {
        let reported = reported.clone();
        EventEnd {
            source: SOURCE,
            key: None,
            report: Box::new(move || reported.send(()).unwrap()),
        }
    };
    space.commit(Vec::new(), Some(end()));
    drop(process);
    space.commit(Vec::new(), Some(end()));
    assert_eq!(reports.try_iter().count(), 2);
    assert!(space.is_failing());
}
