//! A large list, and a handler that takes a second per object.

use std::collections::BTreeMap;
use std::sync::{Arc, Mutex};
use std::time::Duration;

use informant_cache::listener::{ListenerOptions, Notification, PENDING_BYTES_MAX, PENDING_EVENTS_MAX};
use informant_cache::{Environment, ListenerHandle};
use informant_object::Object;

use crate::TokioEnvironment;
use crate::testing::{Deliveries, Rig, api_server, pass, put, settle};

/// Objects in the first list.
const OBJECTS: usize = 100_000;

/// Objects that change while the handler is busy with the others.
const CHANGING: usize = 3_000;

/// Changes per changing object.
const ROUNDS: u64 = 5;

/// The handler's view: names and versions; and its number of calls.
type Known = Arc<Mutex<(BTreeMap<String, String>, usize)>>;

fn name(number: usize) -> String {
    format!("pod-{number:06}")
}

/// Takes a second per call, one after the other.
async fn work(listener: ListenerHandle, environment: Arc<TokioEnvironment>, known: Known) {
    let deliveries = Deliveries::of(listener, Arc::clone(&environment));
    while let Some(delivery) = deliveries.next().await {
        environment.sleep(Duration::from_secs(1)).await;
        {
            let mut known = known.lock().unwrap();
            known.1 += 1;
            match &delivery.notification {
                Notification::Add(object) | Notification::Update { new: object, .. } => {
                    known.0.insert(object.name().to_owned(), object.version().to_string())
                }
                Notification::Delete { key, .. } => known.0.remove(key.name()),
                Notification::Synced | Notification::Tick(_) => None,
            };
        }
        deliveries.done(&delivery);
    }
}

#[tokio::test(start_paused = true)]
async fn a_very_slow_handler_delays_neither_list_nor_watch() {
    let server = api_server();
    (0..OBJECTS).for_each(|number| put(&server, &name(number), 0));
    let rig = Rig::start(&server);
    let environment = Arc::new(TokioEnvironment::current(1));
    let listener = ListenerHandle::new(ListenerOptions::default());
    let known = Known::default();
    environment.spawn(
        "slow handler",
        Box::pin(work(listener.clone(), Arc::clone(&environment), Arc::clone(&known))),
    );
    rig.informer.add_listener(listener.clone()).unwrap();
    let begin = environment.now();
    rig.informer.synced().await.unwrap();
    assert!(environment.now() - begin < Duration::from_secs(5));
    assert_eq!(rig.informer.snapshot().len(), OBJECTS);

    // After an hour it has seen 3,600 objects. 3,000 of these change, five times each, and the store has each change at
    // once.
    pass(3_600).await;
    let calls = known.lock().unwrap().1;
    assert!((3_500..=3_601).contains(&calls), "{calls}");
    let before = listener.control().stats().counters;
    for revision in 1..=ROUNDS {
        (0..CHANGING).for_each(|number| put(&server, &name(number), revision));
        settle().await;
        let snapshot = rig.informer.snapshot();
        let is_new = |object: &&Object| object.label("revision").as_deref() == Some(&*revision.to_string());
        let new = snapshot.iter().take(CHANGING).filter(is_new).count();
        assert_eq!(new, CHANGING, "the watch is not delayed");
    }
    let stats = listener.control().stats();
    // One event per key, and up to the limit of full states before events fold.
    let kept = CHANGING + PENDING_EVENTS_MAX;
    assert!(stats.pending <= kept, "{} events wait", stats.pending);
    assert!(stats.bytes <= PENDING_BYTES_MAX, "{} bytes wait", stats.bytes);
    let folded = (stats.counters.coalesced - before.coalesced) as usize;
    assert_eq!(
        folded + stats.pending,
        ROUNDS as usize * CHANGING,
        "what is folded is counted"
    );
    assert_eq!(rig.informer.status().relists, 0);

    pass((OBJECTS + kept) as u64).await;
    let known = known.lock().unwrap();
    let seen: Vec<_> = known
        .0
        .iter()
        .map(|(name, version)| format!("{name}@{version}"))
        .collect();
    assert!(seen == rig.truth(), "the last state of each arrived");
    assert_eq!(
        known.1,
        OBJECTS + 1 + stats.pending,
        "an object each, synced, and what waited"
    );
}
