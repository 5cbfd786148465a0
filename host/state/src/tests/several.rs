//! Several sources, several handlers, and handlers that move from one source to another.

use informant_cache::Snapshot;
use redb::ReadableTable as _;

use super::disk::{Disk, start_on};
use super::*;
use crate::handler_state::OPEN_KEYS_CHECKED_MAX;
use crate::stepped::{MemoryDisk, SteppedState};

const OLD: SourceId = SourceId(3);

fn in_namespace(namespace: &str) -> SourceOptions {
    SourceOptions {
        identity: SourceIdentity {
            namespace: Some(namespace.to_owned()),
            ..options().identity
        },
        ..options()
    }
}

fn snapshot(objects: impl IntoIterator<Item = Object>) -> Snapshot {
    let mut store = StoreWriter::default();
    objects.into_iter().for_each(|object| drop(store.add(object)));
    store.publish().clone()
}

/// Moves the handler, which knows `known` from another source, to the one of `process`.
fn transfer_to(process: &Process, known: &Snapshot) {
    process.listener.feed().attach(OLD, known, Moment::ZERO);
    process.handle_all();
    move_to(process);
}

fn move_to(process: &Process) {
    let names = (process.listener.clone(), HANDLER.to_owned(), OnStart::Continue);
    process.shared.names.lock().unwrap().push(names);
    let (listener, now) = (process.listener.clone(), process.store.published().clone());
    let apply = move || {
        listener
            .feed()
            .transfer(&[OLD], SOURCE, &|_| true, &now, &[], Moment::ZERO)
    };
    process.journal().transfer(&process.listener, Box::new(apply));
}

#[test]
fn moved_handler_receives_nothing_older_than_it_knows() {
    let folder = tempfile::tempdir().unwrap();
    let mut process = Process::start(&folder.path().join("state.redb"), options());
    process.sync([object("a", "u1", 1)]);
    process.recorder.run_once();
    process.write(object("a", "u1", 2));
    transfer_to(&process, &snapshot([object("a", "u1", 2)]));
    process.write(object("a", "u1", 3));
    process.recorder.run_once();
    assert_eq!(process.handle_all(), "update a@3", "it knows 2 from the other source");
}

#[test]
fn excess_changes_reach_a_handler_that_moved_before_them() {
    let folder = tempfile::tempdir().unwrap();
    let mut process = Process::start(&folder.path().join("state.redb"), options());
    process.sync([object("a", "u1", 1)]);
    process.recorder.run_once();
    process.write(object("a", "u1", 2));
    process.journal().flush(Box::new(|| {}));
    transfer_to(&process, &snapshot([object("a", "u1", 2)]));
    for version in 0..crate::QUEUED_CHANGES_MAX as u64 {
        process.write(object("b", "u2", 10 + version));
    }
    process.recorder.run_once();
    let last = 9 + crate::QUEUED_CHANGES_MAX as u64;
    assert_eq!(process.handle_all(), format!("add b@{last}"));
}

#[test]
fn kill_after_a_move_redelivers_unacknowledged_events() {
    // An earlier process stored for this source that `a` was acknowledged in its state then.
    let (folder, path) = kept(options());
    let crashed = folder.path().join("crashed");
    let mut process = Process::start(&path, options());
    process.sync([object("a", "u1", 1), object("b", "u2", 2), object("c", "u3", 3)]);
    process.recorder.run_once();
    // The other source has delivered `a`, which the handler is processing.
    process
        .listener
        .feed()
        .attach(OLD, process.store.published(), Moment::ZERO);
    let in_flight = process.take().unwrap();
    assert_eq!(shown(&in_flight), "add a@1");
    process.handle_all();
    move_to(&process);
    process.recorder.run_once();
    process.recorder.run_once();
    process.crash(&crashed);
    let received = next_process(&crashed, &[("a", "u1", 1), ("b", "u2", 2)], OnStart::Continue);
    assert!(received.starts_with("delete c@3?, add a@1"), "{received}");
}

#[test]
fn unchanged_source_is_not_written_again() {
    let folder = tempfile::tempdir().unwrap();
    let mut process = Process::start(&folder.path().join("state.redb"), in_namespace("one"));
    process.sync([object("a", "u1", 1)]);
    process.attach(OnStart::Continue);
    let other = process.open(in_namespace("two"));
    other.begin(SourceId(8), &snapshot([object("b", "u2", 2)]), false);
    other.attach(&process.listener, None, Moment::ZERO);
    other.set_high_water(2);
    process.settle();
    // If a row were written again, it would be back.
    let rows = |process: &mut Process, erase: bool| {
        let read = process.recorder.store().write(|tables| {
            let number = crate::source::source_row(tables, &in_namespace("two"))?.number;
            let head = crate::schema::handler_key(number, HANDLER);
            if erase {
                tables.handlers.remove(&head[..])?;
            }
            let found = tables.handlers.get(&head[..])?.is_some();
            Ok(found)
        });
        read.unwrap()
    };
    assert!(rows(&mut process, false), "the handler of the second source is kept");
    rows(&mut process, true);
    process.write(object("a", "u1", 7));
    assert_eq!(process.settle(), "update a@7");
    assert!(!rows(&mut process, false), "only what changed is written");
}

#[test]
fn metrics_are_sums_over_an_informers_sources() {
    let folder = tempfile::tempdir().unwrap();
    let mut process = Process::start(&folder.path().join("state.redb"), in_namespace("one"));
    let metrics = process.metrics.clone();
    process.sync([]);
    process.attach(OnStart::Continue);
    let other = process.open(in_namespace("two"));
    other.begin(SourceId(8), &snapshot([]), false);
    other.attach(&process.listener, None, Moment::ZERO);
    process.settle();
    process.write(object("a", "u1", 1));
    let change = ObjectChange {
        kind: ChangeKind::Add(object("b", "u2", 2)),
        reason: Reason::Watch,
        received: Moment::ZERO,
    };
    other.push(&snapshot([object("b", "u2", 2)]), &[change], Moment::ZERO);
    assert_eq!(metrics.queued_of("pods", ""), 2);
    process.recorder.run_once();
    assert_eq!(metrics.queued_of("pods", ""), 0);
    assert_eq!(metrics.open_keys_of("pods", "", HANDLER), Some(2), "one key in each");
    drop(other);
    process.recorder.run_once();
    assert_eq!(
        metrics.open_keys_of("pods", "", HANDLER),
        Some(1),
        "the second source has ended"
    );
    process.journal().detach(&process.listener);
    process.recorder.run_once();
    assert_eq!(
        metrics.open_keys_of("pods", "", HANDLER),
        None,
        "no handler has it any more"
    );
}

#[test]
fn two_handlers_with_one_name_both_receive_events() {
    let folder = tempfile::tempdir().unwrap();
    let mut process = Process::start(&folder.path().join("state.redb"), options());
    process.sync([object("a", "u1", 1)]);
    process.attach(OnStart::Continue);
    process.settle();
    let first = std::mem::replace(&mut process.listener, ListenerHandle::new(ListenerOptions::default()));
    process.attach(OnStart::Continue);
    assert_eq!(
        process.settle(),
        "add a@1, synced",
        "it has the same name, so it counts as the same handler"
    );
    process.write(object("a", "u1", 2));
    assert_eq!(process.settle(), "update a@2");
    process.listener = first;
    assert_eq!(process.handle_all(), "update a@2");
}

#[test]
fn flush_checks_every_open_key() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("state.redb");
    let mut process = Process::start(&path, options());
    process.sync([]);
    process.attach(OnStart::Continue);
    process.settle();
    let names: Vec<String> = (0..2 * OPEN_KEYS_CHECKED_MAX)
        .map(|number| format!("p{number:05}"))
        .collect();
    names.iter().for_each(|name| process.write(object(name, "u", 5)));
    process.recorder.run_once();
    // The first half is checked while nothing is acknowledged.
    process.recorder.run_once();
    process.handle_all();
    process.journal().flush(Box::new(|| {}));
    process.recorder.run_once();
    assert_eq!(process.metrics.open_keys_of("pods", "", HANDLER), Some(0));
}

#[test]
fn open_keys_are_counted_as_they_are_on_the_disk() {
    let disk = Disk::default();
    let mut process = start_on(&disk).unwrap();
    process.sync([]);
    process.attach(OnStart::Continue);
    process.settle();
    process.write(object("a", "u1", 1));
    process.recorder.run_once();
    let open = |process: &Process| process.metrics.open_keys_of("pods", "", HANDLER);
    assert_eq!(open(&process), Some(1));
    process.handle_all();
    disk.set_room(Some(0));
    process.recorder.run_once();
    assert_eq!(open(&process), Some(1), "the acknowledgement is not on the disk");
    disk.set_room(None);
    process.recorder.reopen();
    process.recorder.run_once();
    process.recorder.run_once();
    assert_eq!(open(&process), Some(0));
}

#[test]
fn source_opened_after_a_commit_does_not_deliver_later_changes() {
    let mut state = SteppedState::open(&MemoryDisk::default()).unwrap();
    let (journal, mut store) = (state.source(options()).unwrap(), StoreWriter::default());
    journal.begin(SOURCE, &store.publish(), false);
    let listener = ListenerHandle::new(ListenerOptions::default());
    journal.attach(&listener, None, Moment::ZERO);
    state.commit();
    state.deliver();
    let mut add = |name: &str, version: u64| {
        let object = object(name, "u1", version);
        store.add(object.clone());
        let change = ObjectChange {
            kind: ChangeKind::Add(object),
            reason: Reason::Watch,
            received: Moment::ZERO,
        };
        journal.push(&store.publish(), &[change], Moment::ZERO);
    };
    let received = || {
        let mut received = Vec::new();
        while let NextDelivery::Deliver(delivery) = listener.consumer().next(Moment::ZERO) {
            received.push(shown(&delivery));
            listener
                .consumer()
                .done(delivery.token, DeliveryOutcome::Ok, Moment::ZERO);
        }
        received.join(", ")
    };
    received();
    add("a", 1);
    state.commit();
    add("b", 2);
    let mut other = options();
    other.identity.informer = "others".to_owned();
    state.source(other).unwrap();
    assert_eq!(received(), "", "neither is delivered yet");
    state.deliver();
    assert_eq!(received(), "add a@1");
    state.commit();
    state.commit();
    assert_eq!(received(), "add b@2", "the second commit delivers the first one");
}
