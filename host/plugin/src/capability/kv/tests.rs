mod fuzz;

use std::collections::BTreeMap;
use std::sync::Mutex;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Duration;

use informant_cache::listener::DeliveryOutcome;
use informant_object::SourceId;

use super::key_value::{KeyValue, KvChange, KvHandled, KvHeld, KvOpening, KvSpace, KvUsage};
use super::overlay::Overlay;
use super::*;
use crate::bindings::informant::plugin::kv::Host as _;
use crate::effects::withheld;
use crate::observed::CurrentCause;
use crate::output::Output;
use crate::testing::{TestParts, call_about};
use prometheus_client::metrics::counter::Counter;

/// Keys in memory.
#[derive(Clone, Default)]
struct Space {
    rows: Arc<Mutex<BTreeMap<String, Arc<[u8]>>>>,
    /// How many changes that were held are persisted.
    persisted: Arc<AtomicUsize>,
    failure: Option<&'static str>,
    /// By how much the keys of all plugins may grow; none: by any number of bytes.
    room: Option<usize>,
    denied: Option<&'static str>,
}

impl KvSpace for Space {
    fn get(&self, key: &str) -> Option<Arc<[u8]>> {
        self.rows.lock().unwrap().get(key).cloned()
    }

    fn keys(&self, prefix: &str, cursor: &str, max: usize) -> Vec<String> {
        let rows = self.rows.lock().unwrap();
        let found = rows
            .keys()
            .filter(|key| key.starts_with(prefix) && key.as_str() > cursor);
        found.take(max).cloned().collect()
    }

    fn usage(&self) -> KvUsage {
        let rows = self.rows.lock().unwrap();
        KvUsage {
            keys: rows.len(),
            bytes: rows.iter().map(|(key, value)| key.len() + value.len()).sum(),
        }
    }

    fn room(&self) -> usize {
        self.room.unwrap_or(usize::MAX)
    }

    fn failure(&self) -> Option<String> {
        self.failure.map(str::to_owned)
    }

    fn commit(&self, changes: Vec<KvChange>, _handled: Option<KvHandled>) {
        let mut rows = self.rows.lock().unwrap();
        for (key, value) in changes {
            match value {
                Some(value) => drop(rows.insert(key, value)),
                None => drop(rows.remove(&key)),
            }
        }
    }

    fn hold(&self, changes: Vec<KvChange>) -> KvHeld {
        self.commit(changes, None);
        let persisted = Arc::clone(&self.persisted);
        Box::new(move |handled| {
            persisted.fetch_add(1, Ordering::Relaxed);
            (handled.report)();
        })
    }
}

impl KeyValue for Space {
    fn open(&self, _plugin: &str) -> KvOpening {
        let space: Arc<dyn KvSpace> = Arc::new(self.clone());
        Box::pin(async move { Ok(space) })
    }

    fn denied(&self) -> Option<&'static str> {
        self.denied
    }
}

/// The keys of the plugin `counter`, with this quota.
fn rights(quota_bytes: usize) -> Arc<KvPlugin> {
    rights_with(None, quota_bytes, false)
}

fn rights_with(api: Option<Arc<dyn KeyValue>>, quota_bytes: usize, is_dry_run: bool) -> Arc<KvPlugin> {
    let mut parts = TestParts::new("counter", is_dry_run);
    parts.services.key_value = api;
    parts.spec.limits.kv_bytes = quota_bytes;
    Arc::new(KvPlugin::of(Arc::default(), &parts.plugin()))
}

fn call(rights: &Arc<KvPlugin>, space: &Space) -> CallChanges {
    CallChanges::new(Arc::clone(rights), Arc::new(space.clone()))
}

/// The keys that a call uses now.
async fn opened(rights: &Arc<KvPlugin>) -> Arc<dyn KvSpace> {
    let stored = rights.open().await.unwrap();
    rights.overlaid(&stored)
}

fn text(value: Option<Arc<[u8]>>) -> Option<String> {
    value.map(|value| String::from_utf8(value.to_vec()).unwrap())
}

fn commit(call: CallChanges) {
    call.commit(None);
}

#[test]
fn call_reads_its_own_changes_and_commits_them() {
    let (rights, space) = (rights(1 << 20), Space::default());
    let mut first = call(&rights, &space);
    first.set("a".to_owned(), b"1".to_vec()).unwrap();
    first.set("b".to_owned(), b"2".to_vec()).unwrap();
    first.delete("b").unwrap();
    assert_eq!(text(first.get("a")).as_deref(), Some("1"));
    assert_eq!(first.list("", "", 10), ["a"]);
    assert_eq!(space.get("a"), None, "the call still runs");
    commit(first);
    let mut failed = call(&rights, &space);
    failed.set("a".to_owned(), b"2".to_vec()).unwrap();
    failed.delete("a").unwrap();
    assert_eq!(failed.get("a"), None);
    drop(failed);
    assert_eq!(text(space.get("a")).as_deref(), Some("1"));
}

#[test]
fn list_merges_changes_in_order_and_pages() {
    let (rights, space) = (rights(1 << 20), Space::default());
    let mut first = call(&rights, &space);
    for key in ["x/1", "x/2", "x/3", "x/5", "y/1"] {
        first.set(key.to_owned(), Vec::new()).unwrap();
    }
    commit(first);
    let mut second = call(&rights, &space);
    second.delete("x/1").unwrap();
    second.delete("x/2").unwrap();
    second.set("x/4".to_owned(), Vec::new()).unwrap();
    assert_eq!(second.list("x/", "", 2), ["x/3", "x/4"]);
    assert_eq!(second.list("x/", "x/4", 2), ["x/5"]);
    assert_eq!(second.list("z", "", 2), [""; 0]);
}

#[test]
fn quota_counts_running_calls_and_frees_what_fails() {
    let (rights, space) = (rights(2 * (KV_KEY_COST_BYTES + 11)), Space::default());
    let set = |call: &mut CallChanges, key: &str| call.set(key.to_owned(), vec![0; 10]);
    let mut running = call(&rights, &space);
    set(&mut running, "a").unwrap();
    let mut other = call(&rights, &space);
    set(&mut other, "b").unwrap();
    let refused = set(&mut other, "c").unwrap_err();
    assert_eq!(refused.code, ErrorCode::Exhausted);
    insta::assert_snapshot!(refused.message, @"the plugin's keys would take 225 bytes, and may take 150: delete keys, or raise `kv` in [plugin.counter.limits]");
    drop(running);
    set(&mut other, "c").unwrap();
    commit(other);
    let mut full = call(&rights, &space);
    assert_eq!(set(&mut full, "d").unwrap_err().code, ErrorCode::Exhausted);
    full.set("b".to_owned(), vec![1; 10]).unwrap();
    full.delete("c").unwrap();
    set(&mut full, "d").unwrap();
    commit(full);
    assert_eq!(space.keys("", "", 10), ["b", "d"]);
    rights.set_quota(1);
    let mut shrinking = call(&rights, &space);
    shrinking.set("b".to_owned(), Vec::new()).unwrap();
    assert_eq!(set(&mut shrinking, "e").unwrap_err().code, ErrorCode::Exhausted);
}

#[test]
fn two_running_calls_never_both_set_an_absent_key() {
    let (rights, space) = (rights(1 << 20), Space::default());
    let set = |call: &mut CallChanges| call.set_if_absent("seen".to_owned(), b"1".to_vec());
    let mut first = call(&rights, &space);
    assert!(set(&mut first).unwrap());
    assert!(!set(&mut first).unwrap(), "it has set it itself");
    let mut second = call(&rights, &space);
    let refused = set(&mut second).unwrap_err();
    assert_eq!(refused.code, ErrorCode::Conflict);
    assert!(refused.message.contains("\"seen\""), "{}", refused.message);
    drop(first);
    assert!(set(&mut second).unwrap(), "the first call failed");
    commit(second);
    assert!(!set(&mut call(&rights, &space)).unwrap());
}

#[test]
fn call_claims_no_more_keys_than_it_sets() {
    let (rights, space) = (rights(2 * (KV_KEY_COST_BYTES + 11)), Space::default());
    let set = |call: &mut CallChanges, key: &str| call.set_if_absent(key.to_owned(), vec![0; 10]);
    let mut first = call(&rights, &space);
    assert!(set(&mut first, "a").unwrap());
    assert!(set(&mut first, "b").unwrap());
    let full = set(&mut first, "c").unwrap_err();
    assert_eq!(full.code, ErrorCode::Exhausted);
    first.delete("a").unwrap();
    let mut second = call(&rights, &space);
    assert!(set(&mut second, "a").unwrap(), "the first call does not set it");
    assert_eq!(set(&mut second, "b").unwrap_err().code, ErrorCode::Conflict);
    drop(first);
    assert!(set(&mut second, "c").unwrap(), "its set had failed");
}

#[test]
fn deleted_key_is_absent_to_the_same_call() {
    let (rights, space) = (rights(1 << 20), Space::default());
    let mut first = call(&rights, &space);
    first.set("a".to_owned(), Vec::new()).unwrap();
    commit(first);
    let mut second = call(&rights, &space);
    second.delete("a").unwrap();
    assert!(second.set_if_absent("a".to_owned(), b"2".to_vec()).unwrap());
    commit(second);
    assert_eq!(text(space.get("a")).as_deref(), Some("2"));
}

#[test]
fn keys_and_values_outside_the_bounds_are_refused() {
    let refused = |key: &str| valid(key.to_owned()).unwrap_err();
    insta::assert_snapshot!(refused("").message, @"the key is empty");
    insta::assert_snapshot!(refused("a\0b").message, @r#"the key "a\0b" contains NUL"#);
    let long = refused(&"k".repeat(KV_KEY_BYTES_MAX + 1));
    insta::assert_snapshot!(long.message, @"the key has 513 bytes, and may have 512: shorten or hash it");
    assert_eq!(long.code, ErrorCode::Invalid);
    assert!(valid("k".repeat(KV_KEY_BYTES_MAX)).is_ok());
    let (rights, space) = (rights(100 << 20), Space::default());
    let large = call(&rights, &space)
        .set("a".to_owned(), vec![0; 10 << 20])
        .unwrap_err();
    assert_eq!(large.code, ErrorCode::TooLarge);
    insta::assert_snapshot!(large.message, @r#"the value of "a" has 10485760 bytes, and a value may have 262144: split it"#);
    call(&rights, &space)
        .set("a".to_owned(), vec![0; KV_VALUE_BYTES_MAX])
        .unwrap();
}

#[test]
fn changes_are_refused_while_the_database_fails() {
    let space = Space {
        failure: Some("the state database cannot be written"),
        ..Space::default()
    };
    let rights = rights(1 << 20);
    let mut call = call(&rights, &space);
    assert_eq!(
        call.set("a".to_owned(), Vec::new()).unwrap_err().code,
        ErrorCode::Unavailable
    );
    let absent = call.set_if_absent("a".to_owned(), Vec::new()).unwrap_err();
    assert_eq!(absent.code, ErrorCode::Unavailable);
    assert_eq!(
        call.delete("a").unwrap_err().message,
        "the state database cannot be written"
    );
    assert_eq!(call.get("a"), None);
}

#[tokio::test]
async fn without_state_every_function_names_the_line_to_add() {
    let denied = rights(1 << 20).open().await.err().unwrap();
    assert_eq!(denied.code, ErrorCode::Denied);
    insta::assert_snapshot!(denied.message, @"kv needs the state database; add this line to config.toml: [state]");
}

#[tokio::test]
async fn only_calls_that_commit_may_use_keys() {
    let rights = rights_with(Some(Arc::new(Space::default())), 1 << 20, false);
    let time = CallTime::new(Arc::new(crate::testing::TokioTime), Duration::from_secs(1));
    let parts = InstanceParts {
        manifest: &Arc::default(),
        time: &time,
        output: &Output::new(Arc::from("counter"), Counter::default()),
        tape: &Tape::default(),
        cause: &CurrentCause::default(),
    };
    let mut caller = rights.call(&Arc::new(Current::new(())), &parts);
    caller.begin(call_about(None, Err("not here")));
    let denied = caller.get("a".to_owned()).await.unwrap().unwrap_err();
    assert_eq!((denied.code, &*denied.message), (ErrorCode::NotHere, "not here"));
    caller.begin(call_about(None, Ok(())));
    assert!(caller.set("a".to_owned(), Vec::new()).await.unwrap().is_ok());
    assert!(caller.finish(CallEnd::Failed).is_none());
    assert!(caller.set("a".to_owned(), Vec::new()).await.unwrap().is_ok());
    assert!(caller.finish(CallEnd::Succeeded).is_some());
}

/// Opens keys when the test says which.
#[derive(Clone, Default)]
struct Openings(Arc<Mutex<Vec<tokio::sync::oneshot::Sender<Space>>>>);

impl KeyValue for Openings {
    fn open(&self, _plugin: &str) -> KvOpening {
        let (open, opened) = tokio::sync::oneshot::channel();
        self.0.lock().unwrap().push(open);
        Box::pin(async move { Ok(Arc::new(opened.await.unwrap()) as Arc<dyn KvSpace>) })
    }
}

impl Openings {
    /// Ends the next one. The key `a` has this value.
    fn end(&self, value: &str) {
        let space = Space::default();
        space.commit(vec![("a".to_owned(), Some(value.as_bytes().into()))], None);
        drop(self.0.lock().unwrap().remove(0).send(space));
    }
}

#[tokio::test]
async fn keys_of_an_ended_term_are_not_kept() {
    let openings = Openings::default();
    let rights = rights_with(Some(Arc::new(openings.clone())), 1 << 20, false);
    let open = || {
        let rights = Arc::clone(&rights);
        tokio::spawn(async move { rights.open().await })
    };
    let (former, next) = (open(), open());
    tokio::task::yield_now().await;
    rights.forget_keys();
    openings.end("former");
    assert_eq!(former.await.unwrap().err().unwrap().code, ErrorCode::Unavailable);
    tokio::task::yield_now().await;
    openings.end("next");
    let opened = next.await.unwrap().unwrap();
    assert_eq!(text(opened.get("a")).as_deref(), Some("next"));
    assert_eq!(text(rights.stored().unwrap().get("a")).as_deref(), Some("next"));
}

#[tokio::test]
async fn opening_of_an_ended_term_is_not_awaited() {
    let openings = Openings::default();
    let rights = rights_with(Some(Arc::new(openings.clone())), 1 << 20, false);
    assert!(futures::FutureExt::now_or_never(rights.open()).is_none());
    rights.forget_keys();
    let next = tokio::spawn({
        let rights = Arc::clone(&rights);
        async move { rights.open().await }
    });
    tokio::task::yield_now().await;
    openings.end("former");
    openings.end("next");
    assert_eq!(text(next.await.unwrap().unwrap().get("a")).as_deref(), Some("next"));
}

#[test]
fn dry_run_remembers_deletes_of_stored_keys_only() {
    let stored = Space::default();
    stored.commit(vec![("kept".to_owned(), Some(Arc::from(&b"1"[..])))], None);
    let overlay = Overlay::new(Arc::new(stored.clone()), Arc::new(withheld(true)));
    for number in 0..10 {
        let key = format!("new/{number}");
        overlay.commit(vec![(key.clone(), Some(Arc::from(&b"1"[..])))], None);
        overlay.commit(vec![(key, None), (format!("never/{number}"), None)], None);
    }
    overlay.commit(vec![("kept".to_owned(), None)], None);
    assert_eq!(overlay.changed_keys(), ["kept"]);
    assert_eq!((overlay.usage().keys, overlay.usage().bytes), (0, 0));
    assert!(overlay.keys("", "", 10).is_empty());
}

#[tokio::test]
async fn keys_of_a_dry_run_are_seen_and_not_stored() {
    let stored = Space::default();
    let kept = ("kept".to_owned(), Some(Arc::from(&b"1"[..])));
    let deleted = ("gone".to_owned(), Some(Arc::from(&b"1"[..])));
    stored.commit(vec![kept, deleted], None);
    let rights = rights_with(Some(Arc::new(stored.clone())), 1 << 20, true);
    let mut first = CallChanges::new(Arc::clone(&rights), opened(&rights).await);
    first.set("new".to_owned(), b"22".to_vec()).unwrap();
    first.delete("gone").unwrap();
    let mut failed = CallChanges::new(Arc::clone(&rights), opened(&rights).await);
    failed.set("failed".to_owned(), Vec::new()).unwrap();
    drop(failed);
    commit(first);
    let space = opened(&rights).await;
    let usage = space.usage();
    assert_eq!((usage.keys, usage.bytes), (2, 5 + 5));
    let mut second = CallChanges::new(Arc::clone(&rights), space);
    assert_eq!(second.list("", "", 10), ["kept", "new"]);
    assert_eq!(text(second.get("new")).as_deref(), Some("22"));
    assert_eq!(second.get("gone"), None);
    assert!(second.set_if_absent("gone".to_owned(), b"3".to_vec()).unwrap());
    commit(second);
    assert_eq!(stored.keys("", "", 10), ["gone", "kept"], "nothing is stored");
    let effects = rights.dry_run.list().effects.into_iter();
    let effects = effects.map(|effect| format!("{} {} {}", effect.action, effect.target, effect.detail));
    assert_eq!(
        effects.collect::<Vec<_>>(),
        ["delete gone ", "set new 2 B", "set gone 1 B"]
    );
    // The next run starts from what is stored, and so does the plugin after it.
    rights.dry_run.set_dry_run(false);
    rights.dry_run.set_dry_run(true);
    assert_eq!(opened(&rights).await.keys("", "", 10), ["gone", "kept"]);
    rights.dry_run.set_dry_run(false);
    assert_eq!(opened(&rights).await.keys("", "", 10), ["gone", "kept"]);
}

/// An event that another capability ends, and how it ended.
fn event() -> (HandledEvent, Arc<Mutex<Option<DeliveryOutcome>>>) {
    let ended: Arc<Mutex<Option<DeliveryOutcome>>> = Arc::default();
    let end = Arc::clone(&ended);
    let event = HandledEvent {
        source: SourceId(1),
        key: None,
        outcome: DeliveryOutcome::Ok,
        end: Box::new(move |outcome| *end.lock().unwrap() = Some(outcome)),
    };
    (event, ended)
}

#[test]
fn changes_of_a_writing_call_are_persisted_with_its_end() {
    let (rights, space) = (rights(1 << 20), Space::default());
    for failure in [None, Some(DeliveryOutcome::Retryable("conflict".into()))] {
        let mut writing = call(&rights, &space);
        writing.set("a".to_owned(), b"1".to_vec()).unwrap();
        let (event, ended) = event();
        let event = rights.commit_with(Some(writing), event);
        assert_eq!(text(space.get("a")).as_deref(), Some("1"), "later calls see it");
        assert_eq!(space.persisted.swap(0, Ordering::Relaxed), 0);
        assert_eq!(*ended.lock().unwrap(), None);
        event.end(failure.clone());
        assert_eq!(space.persisted.swap(0, Ordering::Relaxed), 1);
        assert_eq!(*ended.lock().unwrap(), Some(failure.unwrap_or(DeliveryOutcome::Ok)));
    }
}

#[test]
fn ends_that_are_given_up_no_longer_wait() {
    let rights = rights(1 << 20);
    let track = || rights.track(SourceId(1), None, || panic!("it does not end"));
    let waiting: Vec<KvHandled> = (0..KV_WAITING_MAX).map(|_| track()).collect();
    assert!(rights.is_full());
    drop(waiting);
    assert!(!rights.is_full());
    let _waiting: Vec<KvHandled> = (1..KV_WAITING_MAX).map(|_| track()).collect();
    assert!(!rights.is_full(), "each counted once");
}

#[test]
fn keys_grow_only_while_there_is_room_for_all_plugins() {
    let (rights, mut space) = (rights(1 << 20), Space::default());
    space.room = Some(KV_KEY_COST_BYTES + 11);
    let mut full = call(&rights, &space);
    full.set("a".to_owned(), vec![0; 10]).unwrap();
    let refused = full.set("b".to_owned(), Vec::new()).unwrap_err();
    assert_eq!(refused.code, ErrorCode::Exhausted);
    insta::assert_snapshot!(refused.message, @"the keys of all plugins may grow by 75 bytes, and this call needs 140: delete keys, of any plugin");
    full.set("a".to_owned(), vec![0; 5]).unwrap();
}

#[tokio::test]
async fn denied_keys_come_with_the_reason() {
    let api = Space {
        denied: Some("not with replicas"),
        ..Space::default()
    };
    let rights = rights_with(Some(Arc::new(api)), 1 << 20, false);
    let denied = rights.open().await.err().unwrap();
    assert_eq!(
        (denied.code, &*denied.message),
        (ErrorCode::Denied, "not with replicas")
    );
    assert!(
        rights.recorded_runs().await.unwrap().is_empty(),
        "timers have no record"
    );
}

#[test]
fn calls_stop_while_too_many_changes_wait_for_writes() {
    let (rights, space) = (rights(64 << 20), Space::default());
    let mut waiting = Vec::new();
    while !rights.is_full() {
        let mut writing = call(&rights, &space);
        // The keys are small; what waits is every version of them.
        writing.set("a".to_owned(), vec![0; KV_VALUE_BYTES_MAX]).unwrap();
        waiting.push(rights.commit_with(Some(writing), event().0));
    }
    assert_eq!(waiting.len(), KV_HELD_BYTES_MAX / KV_VALUE_BYTES_MAX);
    waiting.pop().unwrap().end(None);
    assert!(!rights.is_full());
    waiting.clear();
    assert!(!rights.is_full(), "they were given up");
}
