use std::future::Future;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Duration;

use informant_apiserver::{Ending, Filter};
use informant_cache::index_feed::{IndexFeedHandle, IndexState};
use informant_cache::{Environment, IndexError, IndexFunc, IndexValues, OBJECTS_BETWEEN_YIELDS_MAX};
use informant_object::{Object, Pointer};
use tokio::sync::Notify;

use crate::testing::{Rig, RigOptions, api_server, by_list, delete, pass, pods, put, settle};
use crate::{ReflectorOptions, SourceSpec, StartError, TokioEnvironment};

fn node_index() -> RigOptions {
    let mut spec = pods();
    spec.indexes = vec![("node".to_owned(), Pointer::parse("/spec/nodeName").unwrap())];
    RigOptions {
        spec,
        ..RigOptions::default()
    }
}

fn by_index(rig: &Rig, index: &str, value: &str) -> Result<Vec<String>, IndexError> {
    let snapshot = rig.informer.snapshot();
    Ok(snapshot
        .by_index(index, value)?
        .map(|object| object.name().to_owned())
        .collect())
}

/// Pods by their label `revision`, except for 13.
struct ByRevision;

impl IndexFunc for ByRevision {
    fn name(&self) -> &str {
        "revision"
    }

    fn values(&self, object: &Object, values: &mut IndexValues) -> Result<(), String> {
        match object.label("revision").as_deref() {
            Some("13") => Err("unlucky".to_owned()),
            Some(revision) => {
                values.push(revision);
                Ok(())
            }
            None => Ok(()),
        }
    }
}

#[tokio::test(start_paused = true)]
async fn native_indexes_follow_the_store() {
    let server = api_server();
    put(&server, "a", 1);
    put(&server, "b", 2);
    let rig = Rig::start_with(&server, node_index());
    settle().await;
    put(&server, "a", 2);
    put(&server, "c", 1);
    settle().await;
    assert_eq!(by_index(&rig, "node", "node-2").unwrap(), ["a", "b"]);
    assert_eq!(by_index(&rig, "node", "node-1").unwrap(), ["c"]);
    delete(&server, "c");
    settle().await;
    assert_eq!(by_index(&rig, "node", "node-1").unwrap(), Vec::<String>::new());
    assert_eq!(by_index(&rig, "namespace", "default").unwrap(), ["a", "b"]);
    assert_eq!(
        rig.metric(r#"index_attached{informer="pods",cluster="",index="node"}"#),
        1.0
    );
}

#[tokio::test(start_paused = true)]
async fn a_late_index_is_backfilled_and_its_failures_counted() {
    let server = api_server();
    put(&server, "a", 1);
    put(&server, "b", 13);
    let rig = Rig::start(&server);
    settle().await;
    rig.informer.add_indexers(vec![Box::new(ByRevision)]).await.unwrap();
    assert_eq!(by_index(&rig, "revision", "1").unwrap(), ["a"]);
    let conflict = rig.informer.add_indexers(vec![Box::new(ByRevision)]).await.unwrap_err();
    assert!(conflict.to_string().contains("revision"), "{conflict}");
    put(&server, "a", 13);
    settle().await;
    assert_eq!(by_index(&rig, "revision", "1").unwrap(), Vec::<String>::new());
    assert_eq!(rig.informer.snapshot().len(), 2);
    assert_eq!(
        rig.metric(r#"index_errors_total{informer="pods",cluster="",index="revision"}"#),
        2.0
    );
}

#[tokio::test(start_paused = true)]
async fn two_indexes_of_one_name_are_refused_before_anything_starts() {
    let mut spec = pods();
    spec.indexes = vec![
        ("node".to_owned(), Pointer::parse("/spec/nodeName").unwrap()),
        ("node".to_owned(), Pointer::parse("/spec/other").unwrap()),
    ];
    let catalog = informant_cache::Catalog::new();
    let client = crate::testing::client(|_| unreachable!("nothing is asked"));
    let environment = Arc::new(TokioEnvironment::current(1));
    let metrics = crate::InformerMetrics::default();
    let error = crate::SharedInformer::start(spec, client, environment, catalog.clone(), &metrics).unwrap_err();
    assert!(matches!(error, StartError::Index { .. }), "{error}");
    assert_eq!(catalog.all().len(), 0);
}

/// An index plugin: computes each batch of a feed after `delay`.
fn plugin(feed: &IndexFeedHandle, delay: Arc<dyn Fn() -> Duration + Send + Sync>) {
    let (feed, woken) = (feed.clone(), Arc::new(Notify::new()));
    let waker = Arc::clone(&woken);
    feed.set_worker_waker(Arc::new(move || waker.notify_one()));
    feed.loaded();
    tokio::spawn(async move {
        let environment = TokioEnvironment::current(1);
        loop {
            let mut jobs = Vec::new();
            feed.next_batch(16, &mut jobs);
            if jobs.is_empty() {
                woken.notified().await;
                continue;
            }
            environment.sleep(delay()).await;
            feed.complete(jobs.into_iter().map(|job| {
                let revision = job.object.label("revision").map(|value| value.into_owned());
                let values = vec![revision.into_iter().collect()];
                job.answer(Ok(values))
            }));
        }
    });
}

fn feed() -> IndexFeedHandle {
    IndexFeedHandle::new(["revision".to_owned()])
}

#[tokio::test(start_paused = true)]
async fn an_index_plugin_is_not_ready_until_attached() {
    let server = api_server();
    for number in 0..40 {
        put(&server, &format!("pod-{number:02}"), 1);
    }
    let rig = Rig::start(&server);
    let feed = feed();
    settle().await;
    rig.informer.add_index_feed(feed.clone()).await.unwrap();
    assert!(matches!(
        by_index(&rig, "revision", "1"),
        Err(IndexError::NotReady { .. })
    ));
    assert_eq!(
        rig.metric(r#"index_attached{informer="pods",cluster="",index="revision"}"#),
        0.0
    );
    plugin(&feed, Arc::new(|| Duration::from_millis(10)));
    tokio::time::sleep(Duration::from_millis(15)).await;
    assert!(
        matches!(by_index(&rig, "revision", "1"), Err(IndexError::NotReady { .. })),
        "never a part"
    );
    pass(1).await;
    assert_eq!(by_index(&rig, "revision", "1").unwrap().len(), 40);
    assert_eq!(
        rig.metric(r#"index_attached{informer="pods",cluster="",index="revision"}"#),
        1.0
    );
    let recorder = rig.record();
    settle().await;
    recorder.take();
    put(&server, "pod-07", 2);
    delete(&server, "pod-08");
    tokio::time::sleep(Duration::from_millis(5)).await;
    assert_eq!(
        recorder.take(),
        Vec::<String>::new(),
        "the batch waits for its index values"
    );
    pass(1).await;
    assert_eq!(by_index(&rig, "revision", "2").unwrap(), ["pod-07"]);
    assert_eq!(by_index(&rig, "revision", "1").unwrap().len(), 38);
    assert_eq!(recorder.take().len(), 2);
}

#[tokio::test(start_paused = true)]
async fn time_without_the_cpu_takes_no_index_budget() {
    let server = api_server();
    put(&server, "a", 1);
    let rig = Rig::start(&server);
    let feed = feed();
    rig.informer.add_index_feed(feed.clone()).await.unwrap();
    plugin(&feed, Arc::new(|| Duration::from_millis(150)));
    pass(1).await;
    let recorder = rig.record();
    settle().await;
    recorder.take();
    put(&server, "a", 2);
    // Let the loop begin to wait.
    tokio::time::sleep(Duration::from_millis(1)).await;
    // Nothing runs for 100 ms, as on a busy machine.
    tokio::time::advance(Duration::from_millis(100)).await;
    assert!(
        by_index(&rig, "revision", "1").is_ok(),
        "the batch still waits for its values"
    );
    assert_eq!(recorder.take(), Vec::<String>::new());
    tokio::time::advance(Duration::from_millis(100)).await;
    pass(1).await;
    assert_eq!(recorder.take(), ["update a 1->2"]);
    assert_eq!(by_index(&rig, "revision", "2").unwrap(), ["a"]);
    assert_eq!(feed.counters().overruns, 0);
}

#[tokio::test(start_paused = true)]
async fn a_slow_index_plugin_is_detached_until_it_catches_up() {
    let server = api_server();
    put(&server, "a", 1);
    let rig = Rig::start(&server);
    let feed = feed();
    rig.informer.add_index_feed(feed.clone()).await.unwrap();
    let slow = Arc::new(std::sync::atomic::AtomicU64::new(1));
    let delay = Arc::clone(&slow);
    plugin(
        &feed,
        Arc::new(move || Duration::from_millis(delay.load(std::sync::atomic::Ordering::Relaxed))),
    );
    pass(1).await;
    assert_eq!(by_index(&rig, "revision", "1").unwrap(), ["a"]);
    let recorder = rig.record();
    settle().await;
    recorder.take();
    slow.store(200, std::sync::atomic::Ordering::Relaxed);
    put(&server, "a", 2);
    tokio::time::sleep(Duration::from_millis(60)).await;
    assert_eq!(
        recorder.take(),
        ["update a 1->2"],
        "the cache waits for at most the budget"
    );
    assert!(matches!(
        by_index(&rig, "revision", "2"),
        Err(IndexError::NotReady { .. })
    ));
    assert_eq!(
        rig.metric(r#"index_attached{informer="pods",cluster="",index="revision"}"#),
        0.0
    );
    tokio::time::sleep(Duration::from_millis(200)).await;
    assert_eq!(by_index(&rig, "revision", "2").unwrap(), ["a"]);
    // A second time within ten seconds: it stays detached for longer.
    put(&server, "a", 3);
    pass(2).await;
    assert!(matches!(
        by_index(&rig, "revision", "3"),
        Err(IndexError::NotReady { .. })
    ));
    assert!(matches!(
        feed.state(rig.informer.source()),
        Some(IndexState::Behind {
            held_until: Some(_),
            ..
        })
    ));
    pass(10).await;
    assert_eq!(by_index(&rig, "revision", "3").unwrap(), ["a"]);
}

#[tokio::test(start_paused = true)]
async fn an_index_plugin_follows_a_relist() {
    let server = api_server();
    for number in 0..600 {
        put(&server, &format!("pod-{number:03}"), 1);
    }
    let rig = Rig::start(&server);
    let feed = feed();
    rig.informer.add_index_feed(feed.clone()).await.unwrap();
    plugin(&feed, Arc::new(|| Duration::ZERO));
    pass(1).await;
    server.faults().drop_watches(&Filter::any(), Ending::Expired);
    settle().await;
    for number in 0..500 {
        put(&server, &format!("pod-{number:03}"), 2);
    }
    delete(&server, "pod-599");
    pass(5).await;
    assert_eq!(rig.stored(), rig.truth());
    assert_eq!(by_index(&rig, "revision", "2").unwrap().len(), 500);
    assert_eq!(by_index(&rig, "revision", "1").unwrap().len(), 99);
}

#[tokio::test(start_paused = true)]
async fn a_failed_or_removed_plugin_detaches_its_index() {
    let server = api_server();
    put(&server, "a", 1);
    let rig = Rig::start(&server);
    let feed = feed();
    rig.informer.add_index_feed(feed.clone()).await.unwrap();
    plugin(&feed, Arc::new(|| Duration::ZERO));
    pass(1).await;
    assert_eq!(by_index(&rig, "revision", "1").unwrap(), ["a"]);
    feed.failed("trapped too often");
    settle().await;
    assert!(matches!(
        by_index(&rig, "revision", "1"),
        Err(IndexError::NotReady { .. })
    ));
    rig.informer.remove_index_feed(&feed);
    settle().await;
    assert!(matches!(
        by_index(&rig, "revision", "1"),
        Err(IndexError::UnknownIndex { .. })
    ));
    // The name is free again.
    rig.informer.add_indexers(vec![Box::new(ByRevision)]).await.unwrap();
    let conflict = rig.informer.add_index_feed(feed).await.unwrap_err();
    assert!(conflict.to_string().contains("revision"), "{conflict}");
    assert_eq!(by_index(&rig, "revision", "1").unwrap(), ["a"]);
}

#[tokio::test(start_paused = true)]
async fn an_early_index_plugin_is_attached_after_the_first_list() {
    let server = api_server();
    put(&server, "a", 1);
    server
        .faults()
        .delay(Filter::any().verb("list"), 1, Duration::from_secs(5));
    let rig = Rig::start(&server);
    let feed = feed();
    plugin(&feed, Arc::new(|| Duration::ZERO));
    rig.informer.add_index_feed(feed.clone()).await.unwrap();
    pass(4).await;
    assert!(matches!(
        by_index(&rig, "revision", "1"),
        Err(IndexError::NotReady { .. })
    ));
    pass(2).await;
    assert_eq!(by_index(&rig, "revision", "1").unwrap(), ["a"]);
}

/// Counts the objects that it sees.
struct Counting {
    name: &'static str,
    objects: Arc<AtomicUsize>,
}

impl IndexFunc for Counting {
    fn name(&self) -> &str {
        self.name
    }

    fn values(&self, object: &Object, values: &mut IndexValues) -> Result<(), String> {
        self.objects.fetch_add(1, Ordering::Relaxed);
        values.push(object.name());
        Ok(())
    }
}

/// The most objects that an index sees while `change` lets no other task run.
async fn most_between_turns(objects: &AtomicUsize, change: impl Future<Output = ()>) -> usize {
    let mut change = std::pin::pin!(change);
    let (mut before, mut most) = (objects.load(Ordering::Relaxed), 0);
    loop {
        let done = tokio::select! {
            biased;
            () = &mut change => true,
            () = tokio::task::yield_now() => false,
        };
        let now = objects.load(Ordering::Relaxed);
        (before, most) = (now, most.max(now - before));
        if done {
            return most;
        }
    }
}

#[tokio::test(start_paused = true)]
async fn reindexing_yields_after_1024_objects_and_loses_no_event() {
    let server = api_server();
    for number in 0..3_000 {
        put(&server, &format!("pod-{number:04}"), 1);
    }
    let objects = Arc::new(AtomicUsize::new(0));
    let count = |name| -> Vec<Box<dyn IndexFunc>> {
        let objects = Arc::clone(&objects);
        vec![Box::new(Counting { name, objects })]
    };
    let rig = Rig::start_with(&server, node_index());
    pass(1).await;
    let added = async {
        rig.informer.add_indexers(count("first")).await.unwrap();
    };
    assert_eq!(most_between_turns(&objects, added).await, OBJECTS_BETWEEN_YIELDS_MAX);
    assert_eq!(objects.load(Ordering::Relaxed), 3_000);
    assert_eq!(by_index(&rig, "first", "pod-2999").unwrap(), ["pod-2999"]);

    let change_to = |index: &str| {
        let pointer = Pointer::parse("/spec/nodeName").unwrap();
        let spec = SourceSpec {
            indexes: vec![(index.to_owned(), pointer)],
            ..pods()
        };
        let reflector = by_list(ReflectorOptions::default()).reflector;
        rig.informer.reconfigure(spec, reflector)
    };
    let mut turns = 0;
    let mut changed = std::pin::pin!(change_to("on"));
    while futures::poll!(&mut changed).is_pending() {
        turns += 1;
        tokio::task::yield_now().await;
    }
    assert!(turns > 3_000 / OBJECTS_BETWEEN_YIELDS_MAX, "{turns}");
    assert_eq!(
        objects.load(Ordering::Relaxed),
        3_000,
        "the values of the other index are kept"
    );

    let mut change = std::pin::pin!(change_to("node-name"));
    for _ in 0..2 {
        assert!(futures::poll!(&mut change).is_pending());
        tokio::task::yield_now().await;
    }
    let old = by_index(&rig, "on", "node-1").unwrap();
    assert_eq!(old.len(), 3_000, "the old index answers");
    put(&server, "pod-0000", 2);
    delete(&server, "pod-2999");
    change.await.unwrap();
    pass(1).await;
    assert_eq!(by_index(&rig, "node-name", "node-2").unwrap(), ["pod-0000"]);
    assert_eq!(by_index(&rig, "node-name", "node-1").unwrap().len(), 2_998);
    assert!(matches!(
        by_index(&rig, "on", "node-1"),
        Err(IndexError::UnknownIndex { .. })
    ));
}
