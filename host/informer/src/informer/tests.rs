use std::sync::{Arc, Mutex};
use std::time::Duration;

use informant_apiserver::ApiServer;
use informant_cache::listener::ListenerOptions;
use informant_cache::{Catalog, EventHandlerFuncs, HandlerError};
use informant_object::{LabelSelector, Object};
use kube::Client;

use super::*;
use crate::testing::{api_server, delete, pass, pods, put, settle};
use crate::{InformerMetrics, ReflectorOptions, TokioEnvironment};

const PENDING_MAX: usize = 8;

fn start(server: &ApiServer, handler: EventHandlerFuncs, when_full: WhenFull) -> Informer {
    let handler = InformerHandler {
        handler: Box::new(handler),
        options: ListenerOptions {
            pending_events_max: PENDING_MAX,
            ..ListenerOptions::default()
        },
        when_full,
    };
    let client = Client::new(server.service(), "default");
    let environment = Arc::new(TokioEnvironment::current(7));
    let options = InformerOptions {
        reflector: ReflectorOptions::default(),
        ..InformerOptions::default()
    };
    let metrics = InformerMetrics::default();
    Informer::start(pods(), client, environment, Catalog::new(), &metrics, options, handler).expect("it starts")
}

type Lines = Arc<Mutex<Vec<String>>>;

fn revision(object: &Object) -> String {
    object.label("revision").unwrap_or_default().into_owned()
}

fn recording(lines: &Lines) -> EventHandlerFuncs {
    let (adds, updates) = (Arc::clone(lines), Arc::clone(lines));
    EventHandlerFuncs::new()
        .on_add(move |object, _| {
            adds.lock().unwrap().push(revision(object));
            Ok(())
        })
        .on_update(move |old, new, _| {
            let old = old.map(revision).unwrap_or_default();
            updates.lock().unwrap().push(format!("{old}->{}", revision(new)));
            Ok(())
        })
}

#[tokio::test(start_paused = true)]
async fn a_blocking_handler_is_called_for_each_event() {
    let server = api_server();
    put(&server, "a", 0);
    let lines = Lines::default();
    let informer = start(&server, recording(&lines), WhenFull::Block);
    informer.synced().await.unwrap();
    settle().await;
    // All at once: far more than the limit of queued events.
    (1..=1_000).for_each(|revision| put(&server, "a", revision));
    pass(1).await;
    let calls = lines.lock().unwrap().clone();
    assert_eq!((calls.len(), calls[0].as_str()), (1_001, "0"));
    for (step, line) in calls[1..].iter().enumerate() {
        assert_eq!(*line, format!("{step}->{}", step + 1));
    }
    assert_eq!(
        informer.registration().listener().control().stats().counters.coalesced,
        0
    );
    assert!(informer.stop(Duration::from_secs(1)).await.is_clean());
}

/// Folding is the default for all other handlers.
#[tokio::test(start_paused = true)]
async fn a_folding_handler_misses_steps_but_receives_the_last_state() {
    let server = api_server();
    put(&server, "a", 0);
    let lines = Lines::default();
    let informer = start(&server, recording(&lines), WhenFull::Fold);
    informer.synced().await.unwrap();
    settle().await;
    (1..=1_000).for_each(|revision| put(&server, "a", revision));
    pass(1).await;
    let calls = lines.lock().unwrap().clone();
    assert!(
        calls.len() < 1_000 && calls.last().unwrap().ends_with("->1000"),
        "{calls:?}"
    );
}

/// Fails for a while, so that events queue up.
fn refusing(until: tokio::time::Instant) -> EventHandlerFuncs {
    let refuse = move || match tokio::time::Instant::now() < until {
        true => Err(HandlerError::RetryAfter {
            message: "not yet".to_owned(),
            after: Duration::from_secs(10),
        }),
        false => Ok(()),
    };
    EventHandlerFuncs::new()
        .on_add(move |_, _| refuse())
        .on_update(move |_, _, _| refuse())
}

#[tokio::test(start_paused = true)]
async fn a_blocking_handler_pauses_reading_and_loses_nothing() {
    let server = api_server();
    let until = tokio::time::Instant::now() + Duration::from_secs(25);
    let informer = start(&server, refusing(until), WhenFull::Block);
    informer.synced().await.unwrap();
    for number in 0..100 {
        put(&server, &format!("pod-{number}"), 1);
        settle().await;
    }
    let seen = informer.snapshot().len();
    assert!((PENDING_MAX..20).contains(&seen), "{seen} objects were read");
    assert_eq!(informer.registration().status().failing, PENDING_MAX);
    pass(60).await;
    assert_eq!(informer.snapshot().len(), 100);
    assert_eq!(informer.registration().status().pending, 0);
    delete(&server, "pod-0");
    settle().await;
    assert_eq!(informer.snapshot().len(), 99);
}

#[tokio::test(start_paused = true)]
async fn a_blocked_informer_stops_within_its_deadline_and_counts_undelivered() {
    let server = api_server();
    let until = tokio::time::Instant::now() + Duration::from_secs(1_000_000);
    let informer = start(&server, refusing(until), WhenFull::Block);
    informer.synced().await.unwrap();
    for number in 0..100 {
        put(&server, &format!("pod-{number}"), 1);
        settle().await;
    }
    let before = tokio::time::Instant::now();
    let report = informer.stop(Duration::from_secs(5)).await;
    assert!(before.elapsed() <= Duration::from_secs(6));
    assert!(
        report.loop_unfinished && report.undelivered >= PENDING_MAX as u64,
        "{report:?}"
    );
    let registration = informer.registration().clone();
    drop(informer);
    settle().await;
    assert!(registration.has_ended());
    assert_eq!(server.stats().watches_open, 0);
}

#[tokio::test(start_paused = true)]
async fn a_filtering_handler_stays_correct_across_relists() {
    let server = api_server();
    (0..4).for_each(|number| put(&server, &format!("pod-{number}"), number % 2));
    let lines = Lines::default();
    let (added, gone) = (Arc::clone(&lines), Arc::clone(&lines));
    let handler = EventHandlerFuncs::new()
        .on_add(move |object, _| {
            added.lock().unwrap().push(format!("add {}", object.name()));
            Ok(())
        })
        .on_delete(move |key, _, _, _| {
            gone.lock().unwrap().push(format!("delete {}", key.name));
            Ok(())
        });
    let odd = LabelSelector::parse("revision=1").unwrap();
    let filter = move |pod: &Object| odd.matches(pod);
    let filtering = informant_cache::FilteringEventHandler::new(filter, handler);
    let shared = crate::testing::Rig::start(&server);
    shared
        .informer
        .add_handler(Box::new(filtering), ListenerOptions::default())
        .unwrap();
    settle().await;
    let calls = || std::mem::take(&mut *lines.lock().unwrap());
    assert_eq!(calls(), ["add pod-1", "add pod-3"]);
    put(&server, "pod-1", 2);
    put(&server, "pod-0", 1);
    settle().await;
    assert_eq!(calls(), ["delete pod-1", "add pod-0"]);
    // Deleted while the watch is down, after it stopped matching the filter.
    let any = informant_apiserver::Filter::any();
    server.faults().drop_watches(&any, informant_apiserver::Ending::Expired);
    put(&server, "pod-3", 2);
    delete(&server, "pod-3");
    delete(&server, "pod-1");
    pass(5).await;
    assert_eq!(calls(), ["delete pod-3"]);
}
