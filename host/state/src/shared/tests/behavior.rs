//! What a holder writes, and when.

use std::sync::Mutex;

use super::*;
use crate::shared::{CHECK_INTERVAL, RETRY_PAUSE_MAX, SecretFailure};

const JOURNAL: &str = "informant-state-journal";
const CHUNK_0: &str = "informant-state-chunk-0";

/// The names of events, in the order in which they ended.
#[derive(Clone, Default)]
struct Ends(Arc<Mutex<Vec<&'static str>>>);

impl Ends {
    fn of(&self, name: &'static str) -> EventEnd {
        let ends = Arc::clone(&self.0);
        end(move || ends.lock().unwrap().push(name))
    }

    fn took(&self) -> String {
        std::mem::take(&mut *self.0.lock().unwrap()).join(" ")
    }
}

fn failure(is_denied: bool, retry_after: Option<u64>) -> SecretAnswer {
    SecretAnswer::Failed(SecretFailure {
        message: "no".to_owned(),
        is_denied,
        retry_after: retry_after.map(Duration::from_secs),
    })
}

/// A replica whose next request waits for its answer.
fn sent(replica: &mut Replica) -> SecretRequest {
    loop {
        match replica.journal.step(replica.now) {
            SharedStep::Send(request) => return request,
            SharedStep::Wait(until) => replica.now = until,
            other => panic!("{other:?}"),
        }
    }
}

#[test]
fn many_changes_are_written_once_per_interval() {
    let mut server = Server::default();
    let mut replica = Replica::open("a", &mut server);
    assert_eq!(
        replica.took(),
        format!("get {JOURNAL}, get {CHUNK_0}, create {JOURNAL}"),
        "nothing was there"
    );
    replica.set("k", "1");
    let began = replica.now;
    replica.settle(&mut server);
    assert_eq!(
        (replica.took(), replica.now),
        (format!("update {JOURNAL}, create {CHUNK_0}"), began),
        "the first chunk shows that there is state"
    );
    for text in ["2", "3"] {
        replica.set("k", text);
    }
    let other = replica.journal.space("q", RowKind::Pause);
    other.commit(change("source", "7"), None);
    replica.settle(&mut server);
    assert_eq!(replica.took(), format!("update {JOURNAL}"), "one write for all plugins");
    assert_eq!(replica.now, began + Duration::from_millis(200));
    replica.settle(&mut server);
    assert_eq!(replica.took(), "", "idle");
    let next = Replica::open("b", &mut server);
    assert_eq!(next.get("k").as_deref(), Some("3"));
    assert_eq!(next.journal.space("q", RowKind::Pause).get("source"), value("7"));
    assert_eq!(next.journal.epoch(), 2);
}

#[test]
fn hand_over_does_not_wait_for_the_interval() {
    let mut server = Server::default();
    let mut replica = Replica::open("a", &mut server);
    replica.set("k", "1");
    replica.settle(&mut server);
    replica.set("k", "2");
    assert!(!replica.journal.is_written());
    replica.journal.flush();
    let before = replica.now;
    replica.settle(&mut server);
    assert!(replica.journal.is_written());
    assert_eq!(replica.now, before);
}

#[test]
fn ends_wait_while_the_api_server_fails() {
    let mut server = Server::default();
    let mut replica = Replica::open("a", &mut server);
    let (space, ends) = (replica.journal.space("p", RowKind::Key), Ends::default());
    space.commit(change("k", "1"), Some(ends.of("first")));
    assert_eq!(space.get("k"), value("1"), "calls see it");
    for _ in 0..5 {
        let request = sent(&mut replica);
        space.commit(change("k", "2"), Some(ends.of("second")));
        assert_ne!(request.verb, SecretVerb::Create(Arc::from([])));
        replica.journal.answer(replica.now, failure(false, None));
        assert!(space.is_failing());
    }
    assert_eq!(ends.took(), "");
    replica.settle(&mut server);
    assert_eq!(ends.took(), "first second second second second second");
    assert!(!space.is_failing());
    assert_eq!(Replica::open("b", &mut server).get("k").as_deref(), Some("2"));
}

/// Each end belongs to the write that has its changes, not to one that was under way.
#[test]
fn end_waits_for_the_write_that_has_its_changes() {
    let mut server = Server::default();
    let mut replica = Replica::open("a", &mut server);
    let (space, ends) = (replica.journal.space("p", RowKind::Key), Ends::default());
    space.commit(change("k", "1"), Some(ends.of("first")));
    let request = sent(&mut replica);
    space.commit(change("k", "2"), Some(ends.of("second")));
    replica.journal.answer(replica.now, server.apply(&request));
    assert_eq!(ends.took(), "first");
    replica.settle(&mut server);
    assert_eq!(ends.took(), "second");
}

#[test]
fn held_changes_are_written_with_their_end_or_never() {
    let mut server = Server::default();
    let mut replica = Replica::open("a", &mut server);
    let (space, ends) = (replica.journal.space("p", RowKind::Key), Ends::default());
    let (ended, dropped) = (space.hold(change("ended", "1")), space.hold(change("dropped", "1")));
    replica.set("other", "1");
    replica.settle(&mut server);
    assert_eq!(texts(&stored(&server).unwrap()).len(), 1);
    ended.end(ends.of("end"));
    drop(dropped);
    replica.settle(&mut server);
    assert_eq!(ends.took(), "end");
    let rows = texts(&stored(&server).unwrap());
    assert_eq!(rows.keys().collect::<Vec<_>>(), ["p/ended", "p/other"]);
}

#[test]
fn full_journal_is_folded_into_chunks() {
    let mut server = Server::default();
    let mut replica = Replica::open("a", &mut server);
    for number in 0..40 {
        replica.set(&format!("key-{number:02}"), &format!("{number}:{}", "x".repeat(100)));
        replica.settle(&mut server);
    }
    for number in 0..20 {
        let space = replica.journal.space("p", RowKind::Key);
        space.commit(vec![(format!("key-{number:02}"), None)], None);
        replica.settle(&mut server);
    }
    let chunks = server.secrets.keys().filter(|name| name.contains("chunk")).count();
    assert!((5..=16).contains(&chunks), "{chunks}");
    for (name, (_, data)) in &server.secrets {
        assert!(data.len() < 1_500, "{name} has {} bytes", data.len());
    }
    let next = Replica::open("b", &mut server);
    assert_eq!(texts(&next.journal.export()), texts(&replica.journal.export()));
    assert_eq!(next.journal.space("p", RowKind::Key).usage().0, 20);
}

#[test]
fn fold_delays_a_group_by_one_chunk_at_most() {
    let mut server = Server::default();
    let mut replica = Replica::open("a", &mut server);
    for number in 0..40 {
        replica.set(&format!("key-{number:02}"), &"x".repeat(100));
        replica.settle(&mut server);
    }
    replica.took();
    for number in 0..12 {
        replica.set(&format!("key-{:02}", number * 3), &"y".repeat(100));
        replica.now += Duration::from_millis(200);
        let request = sent(&mut replica);
        replica.requests.push(request.name.clone());
        replica.journal.answer(replica.now, server.apply(&request));
    }
    let requests = replica.took();
    assert!(requests.contains("chunk"), "{requests}");
    let in_a_row = "informant-state-chunk";
    let names: Vec<&str> = requests.split(", ").collect();
    assert!(
        !names
            .windows(2)
            .any(|pair| pair.iter().all(|name| name.starts_with(in_a_row))),
        "{requests}"
    );
}

#[test]
fn large_changes_come_in_parts_and_their_end_last() {
    let mut server = Server::default();
    let mut replica = Replica::open("a", &mut server);
    let (space, ends) = (replica.journal.space("p", RowKind::Key), Ends::default());
    let large = (0..6).map(|number| (format!("key-{number}"), value(&"x".repeat(600))));
    space.commit(large.collect(), Some(ends.of("large")));
    let small = replica.journal.space("q", RowKind::Key);
    small.commit(change("k", "1"), Some(ends.of("small")));
    let mut writes = 0;
    while ends.0.lock().unwrap().is_empty() {
        let request = sent(&mut replica);
        writes += usize::from(request.name == JOURNAL);
        replica.journal.answer(replica.now, server.apply(&request));
    }
    assert!(writes >= 2, "{writes}");
    replica.settle(&mut server);
    let ended = ends.took();
    assert!(ended == "large small" || ended == "small large", "{ended}");
    assert_eq!(stored(&server).unwrap().len(), 7);
}

#[test]
fn former_holder_reports_its_loss_and_no_end() {
    let mut server = Server::default();
    let mut former = Replica::open("a", &mut server);
    let (space, ends) = (former.journal.space("p", RowKind::Key), Ends::default());
    let held = space.hold(change("held", "1"));
    let successor = Replica::open("b", &mut server);
    space.commit(change("k", "1"), Some(ends.of("late")));
    let SharedStep::Lost(lost) = former.settle(&mut server) else {
        panic!("it has not lost")
    };
    assert_eq!(
        lost.to_string(),
        "b holds the shared state now, with epoch 2; the epoch of this replica was 1"
    );
    held.end(ends.of("held"));
    space.commit(change("k", "2"), Some(ends.of("later")));
    assert!(space.is_failing() && ends.took().is_empty());
    assert_eq!(former.journal.metrics.ends_dropped.get(), 1);
    assert_eq!(successor.get("k"), None);
    assert_eq!(stored(&server).unwrap(), []);
}

#[test]
fn lost_answer_is_no_loss() {
    let mut server = Server::default();
    let mut replica = Replica::open("a", &mut server);
    let (space, ends) = (replica.journal.space("p", RowKind::Key), Ends::default());
    space.commit(change("k", "1"), Some(ends.of("end")));
    let request = sent(&mut replica);
    server.apply(&request);
    replica.journal.answer(replica.now, failure(false, None));
    replica.took();
    replica.settle(&mut server);
    assert_eq!(replica.took(), format!("get {JOURNAL}, create {CHUNK_0}"));
    assert_eq!(ends.took(), "end");
}

#[test]
fn secrets_that_were_deleted_or_edited_are_written_again() {
    let mut server = Server::default();
    let mut replica = Replica::open("a", &mut server);
    for number in 0..10 {
        replica.set(&format!("key-{number}"), &"x".repeat(100));
        replica.settle(&mut server);
    }
    let expected = stored(&server).unwrap();
    let names: Vec<String> = server.secrets.keys().cloned().collect();
    assert!(names.len() >= 3, "{names:?}");
    for name in names {
        for is_deleted in [true, false] {
            match is_deleted {
                true => drop(server.secrets.remove(&name)),
                false => server.edit(&name, |data| data.push(1)),
            }
            assert!(stored(&server).is_err(), "{name} is noticed at a start");
            // Each is compared in turn.
            for _ in 0..=server.secrets.len() {
                replica.now += CHECK_INTERVAL;
                replica.settle(&mut server);
            }
            assert_eq!(stored(&server).unwrap(), expected, "{name}");
        }
    }
    assert!(replica.journal.is_open());
}

#[test]
fn deleted_chunk_is_written_again_while_keys_change() {
    let mut server = Server::default();
    let mut replica = Replica::open("a", &mut server);
    for number in 0..10 {
        replica.set(&format!("key-{number}"), &"x".repeat(100));
        replica.settle(&mut server);
    }
    let chunks: Vec<String> = server.secrets.keys().filter(|name| *name != JOURNAL).cloned().collect();
    drop(server.secrets.remove(&chunks[0]));
    for round in 0..=2 * server.secrets.len() {
        replica.now += CHECK_INTERVAL / 2;
        replica.set("busy", &round.to_string());
        replica.settle(&mut server);
    }
    assert!(server.secrets.contains_key(&chunks[0]));
    assert!(replica.journal.metrics.rewrites.get() > 0);
}

#[test]
fn ends_of_a_write_in_flight_are_counted_when_dropped() {
    let mut server = Server::default();
    let mut replica = Replica::open("a", &mut server);
    let (space, ends) = (replica.journal.space("p", RowKind::Key), Ends::default());
    space.commit(change("k", "1"), Some(ends.of("in flight")));
    let _ = sent(&mut replica);
    space.commit(change("k", "2"), Some(ends.of("waits")));
    let metrics = replica.journal.metrics.clone();
    drop(replica);
    assert_eq!((metrics.ends_dropped.get(), ends.took().as_str()), (2, ""));
}

#[test]
fn failed_request_is_repeated_after_a_growing_pause() {
    let mut server = Server::default();
    let mut replica = Replica::open("a", &mut server);
    replica.set("k", "1");
    let mut pauses = Vec::new();
    for retry_after in [None, None, None, Some(3), Some(3_600), None, None] {
        let _ = sent(&mut replica);
        replica.journal.answer(replica.now, failure(false, retry_after));
        let SharedStep::Wait(until) = replica.journal.step(replica.now) else {
            panic!("it does not wait")
        };
        pauses.push(until.since(replica.now).as_millis());
    }
    let limit = RETRY_PAUSE_MAX.as_millis();
    assert_eq!(pauses, [100, 200, 400, 3_000, limit, 3_200, limit]);
    replica.settle(&mut server);
    assert_eq!(Replica::open("b", &mut server).get("k").as_deref(), Some("1"));
}

/// Reads succeed, so that each write is preceded by one.
#[test]
fn pause_grows_while_only_writes_fail() {
    let mut server = Server::default();
    let mut replica = Replica::open("a", &mut server);
    replica.set("k", "1");
    let began = replica.now;
    for _ in 0..20 {
        let request = sent(&mut replica);
        let answer = match request.verb {
            SecretVerb::Get => server.apply(&request),
            _ => failure(true, None),
        };
        replica.journal.answer(replica.now, answer);
    }
    assert!(replica.now.since(began) > Duration::from_secs(25));
    let message = replica.journal.metrics.failure().unwrap();
    assert!(
        message.starts_with(&format!("Informant may not update the Secret {JOURNAL}: no")),
        "{message}"
    );
}

#[test]
fn missing_right_is_named_with_verb_and_secret() {
    let mut replica = Replica::new("a");
    let request = sent(&mut replica);
    assert_eq!(request.verb, SecretVerb::Get);
    replica.journal.answer(replica.now, failure(true, None));
    let message = replica.journal.metrics.failure().unwrap();
    assert_eq!(
        message,
        format!(
            "Informant may not get the Secret {JOURNAL}: no; its service account needs `get`, `create` and `update` on Secrets of this namespace"
        )
    );
    replica.settle(&mut Server::default());
    assert!(replica.journal.is_open() && replica.journal.metrics.failure().is_none());
}

#[test]
fn keys_of_all_plugins_share_a_limit() {
    let mut server = Server::default();
    let replica = Replica::open("a", &mut server);
    let (space, other) = (
        replica.journal.space("p", RowKind::Key),
        replica.journal.space("q", RowKind::Key),
    );
    let before = space.room();
    assert_eq!(before, 8 << 20);
    other.commit(change("key", "value"), None);
    assert_eq!(space.room(), before - 8);
    assert_eq!(replica.journal.space("p", RowKind::Pause).room(), 1 << 20);
}

#[test]
fn removed_plugins_lose_their_rows() {
    let mut server = Server::default();
    let mut replica = Replica::open("a", &mut server);
    for plugin in ["p", "q"] {
        for kind in RowKind::ALL {
            replica.journal.space(plugin, kind).commit(change("k", "1"), None);
        }
    }
    replica.settle(&mut server);
    replica.journal.keep_only_plugins(&["q".to_owned()].into());
    replica.settle(&mut server);
    let next = Replica::open("b", &mut server);
    assert_eq!(texts(&next.journal.export()).into_keys().collect::<Vec<_>>(), ["q/k"]);
    assert_eq!(next.journal.export().len(), RowKind::ALL.len());
}
