//! Index plugins: attached only when complete, and isolated from event handlers.

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Duration;

use informant_cache::index_feed::{IndexPoll, IndexState};
use informant_cache::listener::{ChangeKind, ObjectChange};
use informant_cache::{BodyAnswer, BodyUnavailable, Environment, IndexFeedHandle, ReadBodies, Reason};
use informant_object::{KeyRef, Object};
use informant_plugin_host::{Plugin, PluginState};
use informant_spec::{Limits, PluginSpec};
use serde_json::json;

use crate::world::{NAMESPACES, Pods, Reload, World, guest, pod};

const APP_WEB: &str = r#","labels":{"app":"web"}"#;

/// The part of an informer loop that serves an index plugin, for one source.
pub(crate) struct Loop<'w> {
    world: &'w World,
    pub(crate) pods: Pods,
    pub(crate) feed: IndexFeedHandle,
}

impl<'w> Loop<'w> {
    pub(crate) fn new(world: &'w World, plugin: &Plugin) -> Loop<'w> {
        Loop::of(world, plugin, world.pods("pods"))
    }

    /// As [`new`](Self::new), for the source of `pods`.
    pub(crate) fn of(world: &'w World, plugin: &Plugin, mut pods: Pods) -> Loop<'w> {
        let feed = plugin.index_feed().expect("it computes indexes");
        feed.add_source(pods.id, Arc::new(|| {}));
        for name in feed.names() {
            pods.writer.declare_index(&name).unwrap();
        }
        pods.writer.publish();
        Loop { world, pods, feed }
    }

    pub(crate) fn apply(&mut self, name: &str, rest: &str) {
        self.apply_in("default", name, rest);
    }

    pub(crate) fn apply_in(&mut self, namespace: &str, name: &str, rest: &str) {
        self.pods.apply_in(namespace, name, rest);
        let snapshot = self.pods.snapshot();
        let object = snapshot.get(KeyRef { namespace, name }).unwrap().clone();
        let change = ObjectChange {
            kind: ChangeKind::Add(object),
            reason: Reason::Watch,
            received: self.world.env.now(),
        };
        self.feed.submit(self.pods.id, &[change]);
    }

    fn state(&self) -> IndexState {
        self.feed.state(self.pods.id).unwrap()
    }

    /// Starts a backfill if one is wanted, and attaches the index when it is complete. Returns whether it was attached.
    fn turn(&mut self) -> bool {
        if self.feed.wants_backfill(self.pods.id) {
            self.feed.begin_backfill(self.pods.id, &self.pods.snapshot());
        }
        let IndexPoll::Ready(contents) = self.feed.poll(self.pods.id, self.world.env.now()) else {
            return false;
        };
        for (name, contents) in contents {
            self.pods.writer.attach_index(&name, contents).unwrap();
        }
        self.pods.writer.publish();
        true
    }

    pub(crate) async fn attach(&mut self) {
        let world = self.world;
        world.until("the index to be attached", || self.turn()).await;
    }

    /// The names of the objects under `value`.
    pub(crate) fn under(&self, index: &str, value: &str) -> Vec<String> {
        let snapshot = self.pods.snapshot();
        snapshot
            .by_index(index, value)
            .unwrap()
            .map(|object| object.name().to_owned())
            .collect()
    }
}

fn quick(spec: &mut PluginSpec) {
    spec.limits = Limits {
        cpu: Duration::from_millis(500),
        memory_bytes: 8 << 20,
        ..Limits::default()
    };
}

#[tokio::test(start_paused = true)]
async fn an_index_is_backfilled_and_attached_when_complete() {
    let world = World::new();
    let plugin = world.run("guest_index", json!({}), quick).await;
    let mut informer = Loop::new(&world, &plugin);
    for number in 0..1_000 {
        informer.apply(&format!("pod-{number:04}"), APP_WEB);
    }
    assert!(
        informer.pods.snapshot().by_index("app", "web").is_err(),
        "answered before it was complete"
    );
    informer.attach().await;
    assert_eq!(informer.under("app", "web").len(), 1_000);
    informer.apply("pod-1000", APP_WEB);
    informer.attach().await;
    assert_eq!(informer.under("app", "web").len(), 1_001);
    assert_eq!(informer.state(), IndexState::Attached);
}

#[tokio::test(start_paused = true)]
async fn a_failing_object_is_left_out_and_listed() {
    let world = World::new();
    let plugin = world.run("guest_index", json!({}), quick).await;
    let mut informer = Loop::new(&world, &plugin);
    for name in [
        "fail-0", "trap-0", "loop-0", "grow-0", "many-0", "stray-0", "twice-0", "good-0", "good-1",
    ] {
        informer.apply(name, APP_WEB);
    }
    informer.attach().await;
    assert_eq!(informer.under("app", "web"), ["good-0", "good-1", "twice-0"]);
    let failures: Vec<String> = informer
        .feed
        .failures()
        .into_iter()
        .map(|failure| format!("{}: {}", failure.key, failure.error))
        .collect();
    insta::assert_snapshot!(failures.join("\n"), @r#"
    default/fail-0: asked to fail
    default/grow-0: index for v1 Pod default/grow-0 ran out of memory: it requested 8.1 MiB of memory, but limits.memory = "8MiB" of [plugin.guest_index]; it wrote: memory allocation of 1048576 bytes failed | note: run with `RUST_BACKTRACE=1` environment variable to display a backtrace
    default/loop-0: index for v1 Pod default/loop-0 did not return: it ran for more than 500ms, the limit for one call (limits.cpu)
    default/many-0: more than 1024 values or 65536 bytes of them for one object; index a field with fewer values
    default/stray-0: the manifest does not declare the index "stray"
    default/trap-0: index for v1 Pod default/trap-0 trapped: it panicked; it wrote: panicked at tests/guests/index/src/lib.rs:68:23: asked to trap
    "#);
    assert_eq!(plugin.status().restarts, 3);
    insta::assert_snapshot!(world.metrics("informant_plugin_index_objects"), @r#"
    informant_plugin_index_objects_total{plugin="guest_index",result="error"} 2
    informant_plugin_index_objects_total{plugin="guest_index",result="ok"} 4
    informant_plugin_index_objects_total{plugin="guest_index",result="timeout"} 1
    informant_plugin_index_objects_total{plugin="guest_index",result="trap"} 2
    "#);
}

/// Returns pods with these metadata, after as many failures as are left.
struct Bodies {
    failures: AtomicUsize,
    metadata: String,
}

impl ReadBodies for Bodies {
    fn read_body(&self, head: &Object, answer: BodyAnswer) {
        let take_one = |left: usize| left.checked_sub(1);
        match self
            .failures
            .fetch_update(Ordering::Relaxed, Ordering::Relaxed, take_one)
        {
            Ok(_) => drop(answer.send(Err(BodyUnavailable::Failed("429".to_owned())))),
            Err(_) => drop(answer.send(Ok(pod(head.name(), 1, &self.metadata)))),
        }
    }
}

#[tokio::test(start_paused = true)]
async fn an_index_waits_for_objects_that_cannot_be_read() {
    let world = World::new();
    let plugin = world.run("guest_both", json!({}), |_| {}).await;
    let mut informer = Loop::new(&world, &plugin);
    informer.pods.writer.shed_namespace("default");
    // More than a head keeps.
    let metadata = format!(r#","annotations":{{"a":"{}"}}"#, "x".repeat(5_000));
    let bodies = Arc::new(Bodies {
        failures: AtomicUsize::new(3),
        metadata: metadata.clone(),
    });
    let source = world.catalog.source(informer.pods.id).unwrap();
    source.set_body_reader(Arc::clone(&bodies) as Arc<dyn ReadBodies>);
    let began = world.env.now();
    for name in ["a", "b", "c"] {
        informer.apply(name, &metadata);
    }
    informer.attach().await;
    assert_eq!(bodies.failures.load(Ordering::Relaxed), 0);
    assert!(world.env.now() - began >= Duration::from_secs(3));
    for name in ["a", "b", "c"] {
        assert_eq!(informer.under("name", name), [name]);
    }
    assert!(informer.feed.failures().is_empty());
}

#[tokio::test(start_paused = true)]
async fn host_calls_from_an_index_function_are_denied() {
    let world = World::new();
    let plugin = world
        .run("guest_index", json!({}), |spec| {
            spec.informers = vec![("pods".into(), "pods".into())]
        })
        .await;
    let mut informer = Loop::new(&world, &plugin);
    informer.apply("ask-0", "");
    informer.attach().await;
    assert_eq!(informer.under("app", "not-here"), ["ask-0"]);
}

#[tokio::test(start_paused = true)]
async fn a_trap_storm_detaches_the_index_until_resume() {
    let world = World::new();
    let plugin = world.run("guest_index", json!({}), quick).await;
    let mut informer = Loop::new(&world, &plugin);
    informer.apply("good", APP_WEB);
    informer.attach().await;
    let traps: Vec<_> = (0..30).map(|number| format!("trap-{number}")).collect();
    for (namespace, name) in NAMESPACES
        .iter()
        .flat_map(|namespace| traps.iter().map(move |name| (namespace, name)))
    {
        informer.apply_in(namespace, name, "");
    }
    world
        .until("quarantine", || {
            informer.turn();
            plugin.status().state == PluginState::Quarantined
        })
        .await;
    assert!(
        matches!(informer.state(), IndexState::Detached { .. }),
        "{:?}",
        informer.state()
    );
    for (namespace, name) in NAMESPACES
        .iter()
        .flat_map(|namespace| traps.iter().map(move |name| (namespace, name)))
    {
        informer.pods.delete_in(namespace, name);
    }
    plugin.resume().await;
    informer.attach().await;
    assert_eq!(informer.under("app", "web"), ["good"]);
    assert_eq!(plugin.status().state, PluginState::Running);
}

#[tokio::test(start_paused = true)]
async fn handler_and_index_functions_share_no_memory() {
    let world = World::new();
    let plugin = world.run("guest_both", json!({}), |_| {}).await;
    let mut informer = Loop::new(&world, &plugin);
    informer.pods.attach(&plugin.listener());
    informer.apply("a", "");
    informer.attach().await;
    world.recorded(1, |line| line["call"] == "on-add").await;
    let lines: Vec<String> = world
        .log
        .json()
        .iter()
        .map(|line| format!("{} {} {}", line["role"], line["calls"], line["call"]).replace('"', ""))
        .collect();
    let of = |role: &str| {
        lines
            .iter()
            .filter(|line| line.starts_with(role))
            .cloned()
            .collect::<Vec<_>>()
            .join(", ")
    };
    insta::assert_snapshot!(of("events"), @"events 1 init, events 2 on-add, events 3 on-synced");
    insta::assert_snapshot!(of("index"), @"index 1 init, index 2 index");
    insta::assert_snapshot!(world.metrics("informant_plugin_instances"), @r#"informant_plugin_instances{plugin="guest_both"} 2"#);
}

#[tokio::test(start_paused = true)]
async fn a_new_version_recomputes_its_index() {
    let world = World::new();
    let plugin = world.run("guest_index", json!({}), quick).await;
    let mut informer = Loop::new(&world, &plugin);
    informer.apply("a", APP_WEB);
    informer.attach().await;
    let swapped = plugin.swap(&guest("guest_index")).await.unwrap();
    assert!(
        plugin.index_feed().unwrap().ptr_eq(&informer.feed),
        "the same names keep the feed"
    );
    assert!(swapped.previous_feed.unwrap().ptr_eq(&informer.feed));
    assert!(
        matches!(informer.state(), IndexState::Detached { .. }),
        "{:?}",
        informer.state()
    );
    informer.attach().await;
    assert_eq!(informer.under("app", "web"), ["a"]);
    // A version with other indexes has another feed, and the old one reports why it is empty.
    plugin.swap(&guest("guest_both")).await.unwrap();
    let feed = plugin.index_feed().unwrap();
    assert_eq!(
        feed.names().iter().map(ToString::to_string).collect::<Vec<_>>(),
        ["name"]
    );
    assert!(matches!(informer.state(), IndexState::Detached { .. }));
}

#[tokio::test(start_paused = true)]
async fn a_plugin_that_is_stopped_detaches_its_index() {
    let world = World::new();
    let plugin = world.run("guest_index", json!({}), quick).await;
    let mut informer = Loop::new(&world, &plugin);
    informer.apply("a", APP_WEB);
    informer.attach().await;
    plugin.stop(Duration::from_secs(1)).await;
    let IndexState::Detached { reason } = informer.state() else {
        panic!("{:?}", informer.state())
    };
    assert_eq!(&*reason, "the plugin is stopped");
}
