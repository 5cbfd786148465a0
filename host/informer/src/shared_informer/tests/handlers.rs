use std::sync::{Arc, Mutex};
use std::time::Duration;

use informant_apiserver::{Ending, Filter};
use informant_cache::listener::ListenerOptions;
use informant_cache::{EventContext, EventHandler, HandlerError, ListenerHandle, Snapshot};
use informant_object::{KeyRef, Object};

use crate::testing::{RecordingHandler, Rig, api_server, delete, pass, put, settle};

#[tokio::test(start_paused = true)]
async fn a_late_handler_receives_the_store_as_an_initial_list() {
    let server = api_server();
    put(&server, "a", 1);
    put(&server, "b", 1);
    let rig = Rig::start(&server);
    let early = rig.record();
    settle().await;
    put(&server, "a", 2);
    settle().await;
    let late = rig.record();
    settle().await;
    assert_eq!(late.take(), ["add a (initial)", "add b (initial)", "synced (initial)"]);
    put(&server, "b", 2);
    settle().await;
    assert_eq!(late.take(), ["update b 1->2"]);
    assert_eq!(
        early.take(),
        [
            "add a (initial)",
            "add b (initial)",
            "synced (initial)",
            "update a 1->2",
            "update b 1->2"
        ]
    );
}

#[tokio::test(start_paused = true)]
async fn a_handler_added_during_writes_receives_everything_once() {
    let server = api_server();
    for number in 0..300 {
        put(&server, &format!("pod-{number:03}"), 0);
    }
    let rig = Rig::start(&server);
    settle().await;
    let mut recorders = Vec::new();
    for round in 1..=20 {
        for number in 0..50 {
            put(&server, &format!("pod-{:03}", (round * 37 + number) % 300), round);
        }
        recorders.push(rig.record());
        tokio::task::yield_now().await;
    }
    settle().await;
    for recorder in recorders {
        let lines = recorder.take();
        for number in 0..300 {
            let name = format!("pod-{number:03}");
            let of_pod: Vec<_> = lines.iter().filter(|line| line.contains(&name)).collect();
            assert!(of_pod[0].starts_with("add"), "{of_pod:?}");
            assert!(of_pod[1..].iter().all(|line| line.starts_with("update")), "{of_pod:?}");
            // Each update starts at the state of the previous one.
            let steps: Vec<_> = of_pod[1..]
                .iter()
                .filter_map(|line| line.rsplit(' ').next()?.split_once("->"))
                .collect();
            assert!(steps.windows(2).all(|pair| pair[0].1 == pair[1].0), "{of_pod:?}");
        }
    }
}

#[tokio::test(start_paused = true)]
async fn an_early_handler_waits_for_the_complete_first_list() {
    let server = api_server();
    put(&server, "a", 1);
    server
        .faults()
        .delay(Filter::any().verb("list"), 1, Duration::from_secs(10));
    let rig = Rig::start(&server);
    let recorder = rig.record();
    pass(9).await;
    assert_eq!(recorder.take(), Vec::<String>::new());
    assert!(!recorder.registration.has_synced());
    pass(2).await;
    assert_eq!(recorder.take(), ["add a (initial)", "synced (initial)"]);
    assert!(recorder.registration.has_synced());
}

#[tokio::test(start_paused = true)]
async fn an_empty_source_is_synced_too() {
    let rig = Rig::start(&api_server());
    let mut recorder = rig.record();
    recorder.registration.synced().await;
    assert!(rig.informer.has_synced());
    settle().await;
    assert_eq!(recorder.take(), ["synced (initial)"]);
}

/// Looks up each object while handling its event.
struct LookingUp {
    snapshot: Arc<dyn Fn() -> Snapshot + Send + Sync>,
    behind: Arc<Mutex<Vec<String>>>,
}

impl LookingUp {
    fn check(&self, object: &Object) {
        let snapshot = (self.snapshot)();
        let found = snapshot.get(object.key()).map(|found| found.version().number());
        if found.is_none_or(|found| found < object.version().number()) {
            self.behind
                .lock()
                .unwrap()
                .push(format!("{object:?}: store has {found:?}"));
        }
    }
}

impl EventHandler for LookingUp {
    fn on_add(&mut self, object: &Object, _: &EventContext) -> Result<(), HandlerError> {
        self.check(object);
        Ok(())
    }

    fn on_update(&mut self, _: Option<&Object>, new: &Object, _: &EventContext) -> Result<(), HandlerError> {
        self.check(new);
        Ok(())
    }

    fn on_delete(&mut self, _: KeyRef<'_>, _: Option<&Object>, _: bool, _: &EventContext) -> Result<(), HandlerError> {
        Ok(())
    }
}

#[tokio::test(start_paused = true)]
async fn a_handler_can_look_up_the_delivered_state() {
    let server = api_server();
    let rig = Rig::start(&server);
    let behind = Arc::new(Mutex::new(Vec::new()));
    let source = rig.catalog.source(rig.informer.source()).unwrap();
    let handler = LookingUp {
        snapshot: Arc::new(move || source.snapshot()),
        behind: Arc::clone(&behind),
    };
    rig.informer
        .add_handler(Box::new(handler), ListenerOptions::default())
        .unwrap();
    for round in 0..50 {
        for number in 0..20 {
            put(&server, &format!("pod-{number}"), round);
        }
        if round % 10 == 9 {
            server.faults().drop_watches(&Filter::any(), Ending::Expired);
            pass(3).await;
        }
        tokio::task::yield_now().await;
    }
    pass(10).await;
    assert_eq!(rig.stored(), rig.truth());
    assert_eq!(*behind.lock().unwrap(), Vec::<String>::new());
}

#[tokio::test(start_paused = true)]
async fn a_panicking_handler_is_retried_and_affects_no_other() {
    let server = api_server();
    put(&server, "a", 1);
    let rig = Rig::start(&server);
    let lines = Arc::default();
    let mut panics_left = 2;
    let fail = Box::new(move |_: &str| {
        if panics_left > 0 {
            panics_left -= 1;
            panic!("the test handler failed");
        }
        Ok(())
    });
    let handler = RecordingHandler {
        lines: Arc::clone(&lines),
        fail: Some(fail),
    };
    let mut registration = rig
        .informer
        .add_handler(Box::new(handler), ListenerOptions::default())
        .unwrap();
    let other = rig.record();
    settle().await;
    assert_eq!(other.take(), ["add a (initial)", "synced (initial)"]);
    registration.synced().await;
    assert!(
        registration.has_synced(),
        "a handler that panicked does not keep its registration from syncing"
    );
    pass(30).await;
    let calls: Vec<String> = lines.lock().unwrap().clone();
    assert_eq!(
        calls.iter().filter(|line| line.starts_with("add a")).count(),
        2,
        "{calls:?}"
    );
    put(&server, "a", 2);
    settle().await;
    assert_eq!(other.take(), ["update a 1->2"]);
    assert_eq!(lines.lock().unwrap().last().unwrap(), "update a 1->2");
    assert_eq!(
        rig.metric(r#"native_handler_panics_total{informer="pods",cluster=""}"#),
        2.0
    );
}

#[tokio::test(start_paused = true)]
async fn a_failing_object_is_retried_and_delays_no_other() {
    let server = api_server();
    for name in ["a", "b", "c"] {
        put(&server, name, 1);
    }
    let rig = Rig::start(&server);
    let lines = Arc::default();
    let mut failures_left = 3;
    let fail = Box::new(move |line: &str| {
        if line.starts_with("add b") && failures_left > 0 {
            failures_left -= 1;
            return Err(HandlerError::Retryable("not now".to_owned()));
        }
        Ok(())
    });
    let handler = RecordingHandler {
        lines: Arc::clone(&lines),
        fail: Some(fail),
    };
    let registration = rig
        .informer
        .add_handler(Box::new(handler), ListenerOptions::default())
        .unwrap();
    settle().await;
    assert_eq!(
        *lines.lock().unwrap(),
        [
            "add a (initial)",
            "add b (initial)",
            "add c (initial)",
            "synced (initial)"
        ]
    );
    assert!(registration.has_synced());
    pass(60).await;
    let of_b = lines
        .lock()
        .unwrap()
        .iter()
        .filter(|line| line.starts_with("add b"))
        .count();
    assert_eq!(of_b, 4);
    assert_eq!(registration.listener().ledger().dead_letters().len(), 0);
}

#[tokio::test(start_paused = true)]
async fn each_handler_has_its_own_resync_period() {
    let server = api_server();
    put(&server, "a", 1);
    let rig = Rig::start(&server);
    let fast = rig.record_with(ListenerOptions {
        resync: Some(Duration::from_secs(2)),
        ..ListenerOptions::default()
    });
    let slow = rig.record_with(ListenerOptions {
        resync: Some(Duration::from_secs(7)),
        ..ListenerOptions::default()
    });
    let never = rig.record();
    pass(15).await;
    let resyncs = |lines: Vec<String>| lines.iter().filter(|line| *line == "update a 1->1 (resync)").count();
    assert_eq!(
        (resyncs(fast.take()), resyncs(slow.take()), resyncs(never.take())),
        (7, 2, 0)
    );
}

#[tokio::test(start_paused = true)]
async fn a_removed_handler_is_no_longer_called() {
    let server = api_server();
    put(&server, "a", 1);
    let rig = Rig::start(&server);
    let mut removed = rig.record();
    let kept = rig.record();
    settle().await;
    rig.informer.remove_handler(&removed.registration);
    removed.registration.ended().await;
    removed.take();
    put(&server, "a", 2);
    settle().await;
    assert_eq!(removed.take(), Vec::<String>::new());
    assert_eq!(kept.take().last().unwrap(), "update a 1->2");
    // Again, and with an unknown registration: nothing happens.
    rig.informer.remove_handler(&removed.registration);
    let other = Rig::start(&server);
    rig.informer.remove_handler(&other.record().registration);
    settle().await;
    put(&server, "a", 3);
    settle().await;
    assert_eq!(kept.take(), ["update a 2->3"]);
}

#[tokio::test(start_paused = true)]
async fn a_listener_may_be_shared_by_several_informers() {
    let (east, west) = (api_server(), api_server());
    put(&east, "e", 1);
    put(&west, "w", 1);
    let (rig_east, rig_west) = (Rig::start(&east), Rig::start(&west));
    let listener = ListenerHandle::new(ListenerOptions::default());
    rig_east.informer.add_listener(listener.clone()).unwrap();
    rig_east.informer.add_listener(listener.clone()).unwrap();
    settle().await;
    assert_eq!(listener.control().stats().sources, 1);
    rig_east.informer.remove_listener(&listener);
    rig_west.informer.add_listener(listener.clone()).unwrap();
    settle().await;
    assert!(
        !listener.feed().is_attached(rig_east.informer.source())
            || rig_east.informer.source() == rig_west.informer.source()
    );
    assert_eq!(listener.control().stats().sources, 1);
}

#[tokio::test(start_paused = true)]
async fn a_slow_handler_delays_neither_store_nor_other_handlers() {
    struct Blocked(ListenerHandle);
    let server = api_server();
    put(&server, "a", 0);
    let rig = Rig::start(&server);
    // This listener is not pulled from for a while, like a handler that hangs.
    let blocked = Blocked(ListenerHandle::new(ListenerOptions {
        pending_events_max: 8,
        ..ListenerOptions::default()
    }));
    rig.informer.add_listener(blocked.0.clone()).unwrap();
    let other = rig.record();
    settle().await;
    for revision in 1..=100 {
        put(&server, "a", revision);
        settle().await;
    }
    assert_eq!(rig.stored(), rig.truth());
    assert_eq!(other.take().len(), 102);
    let stats = blocked.0.control().stats();
    assert!(stats.pending <= 9, "{stats:?}");
    assert!(
        stats.counters.coalesced + stats.counters.left_to_cursor > 0,
        "{stats:?}"
    );
    delete(&server, "a");
    settle().await;
}
