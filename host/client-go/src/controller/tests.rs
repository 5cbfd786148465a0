//! The informer on scripted lists and watches. Names in parentheses are client-go's tests of the same rule.

use std::time::Instant;

use futures::stream::{self, StreamExt};
use informant_informer::TokioEnvironment;
use informant_object::{Pointer, Shape};
use tokio::sync::mpsc;

use super::*;
use crate::reflector::{ListWatchError, ListedObjects, WatchEvent, WatchStream};
use crate::testing::{pod, version};
use crate::{EventHandlerFuncs, PointerIndex};

/// How long a condition may take before a test reports a hang.
const DEADLINE: Duration = Duration::from_secs(30);

type Lines = Arc<Mutex<Vec<String>>>;
type Event = Result<WatchEvent, ListWatchError>;

/// Lists what it was given, one list after the other; all watches read from one channel.
struct Source {
    lists: Vec<(Vec<Object>, u64)>,
    events: Arc<tokio::sync::Mutex<mpsc::UnboundedReceiver<Event>>>,
}

impl ListerWatcher for Source {
    async fn list(&mut self, _: &ResourceVersion) -> Result<ListedObjects, ListWatchError> {
        if self.lists.is_empty() {
            return std::future::pending().await;
        }
        let (objects, number) = self.lists.remove(0);
        let version = version(number);
        Ok(ListedObjects { objects, version })
    }

    async fn watch(&mut self, _: &ResourceVersion) -> Result<WatchStream, ListWatchError> {
        let events = Arc::clone(&self.events);
        let next = |events: Arc<tokio::sync::Mutex<mpsc::UnboundedReceiver<Event>>>| async move {
            let event = events.lock().await.recv().await?;
            Some((event, events))
        };
        Ok(stream::unfold(events, next).boxed())
    }
}

struct Rig {
    informer: Informer,
    events: mpsc::UnboundedSender<Event>,
    lines: Lines,
}

impl Rig {
    fn send(&self, event: WatchEvent) {
        self.events.send(Ok(event)).unwrap();
    }

    /// Waits for a number of calls since the last time, and returns them.
    async fn calls(&self, count: usize) -> Vec<String> {
        until(|| lock(&self.lines).len() >= count).await;
        std::mem::take(&mut *lock(&self.lines))
    }
}

async fn until(condition: impl Fn() -> bool) {
    let began = Instant::now();
    while !condition() {
        assert!(began.elapsed() < DEADLINE, "the condition is still false");
        tokio::time::sleep(Duration::from_millis(1)).await;
    }
}

/// Decides the result of a call, by its recorded line.
type Outcome = Arc<dyn Fn(&str) -> Result<(), HandlerError> + Send + Sync>;

fn recording(lines: &Lines, outcome: Outcome) -> EventHandlerFuncs {
    let note = {
        let lines = Arc::clone(lines);
        move |line: String| {
            lock(&lines).push(line.clone());
            outcome(&line)
        }
    };
    let version = |object: &Object| object.version().to_string();
    let (add, update, delete) = (note.clone(), note.clone(), note);
    EventHandlerFuncs::new()
        .on_add(move |object, context| {
            add(format!(
                "add {} {} ({})",
                object.name(),
                version(object),
                context.reason
            ))
        })
        .on_update(move |old, new, context| {
            let old = old.map(version).unwrap_or_default();
            update(format!(
                "update {} {old}->{} ({})",
                new.name(),
                version(new),
                context.reason
            ))
        })
        .on_delete(move |key, last, unknown, _| {
            let unknown = if unknown { " unknown" } else { "" };
            delete(format!(
                "delete {} {}{unknown}",
                key.name,
                last.map(version).unwrap_or_default()
            ))
        })
}

fn start_with(lists: Vec<(Vec<Object>, u64)>, config: InformerConfig, outcome: Outcome) -> Rig {
    let (events, receiver) = mpsc::unbounded_channel();
    let source = Source {
        lists,
        events: Arc::new(tokio::sync::Mutex::new(receiver)),
    };
    let lines = Lines::default();
    let handler = Box::new(recording(&lines, outcome));
    let environment = Arc::new(TokioEnvironment::current(7));
    let informer = Informer::start(source, handler, environment, config).unwrap();
    Rig {
        informer,
        events,
        lines,
    }
}

fn start(lists: Vec<(Vec<Object>, u64)>) -> Rig {
    start_with(lists, InformerConfig::default(), Arc::new(|_| Ok(())))
}

fn expired() -> Event {
    Err(ListWatchError::Expired("410".to_owned()))
}

/// (`TestController`, `TestUpdate`)
#[tokio::test]
async fn each_change_reaches_the_store_then_the_handler() {
    let index = PointerIndex::new("node", Pointer::parse("/spec/nodeName").unwrap());
    let config = InformerConfig {
        indexers: vec![Box::new(index)],
        ..InformerConfig::default()
    };
    let rig = start_with(vec![(vec![pod("a", 1)], 5)], config, Arc::new(|_| Ok(())));
    assert_eq!(rig.calls(1).await, ["add a 1 (initial)"]);
    assert!(rig.informer.has_synced());
    rig.send(WatchEvent::Added(crate::testing::pod_with(
        "b",
        6,
        r#"{"nodeName":"n1"}"#,
    )));
    rig.send(WatchEvent::Modified(pod("a", 7)));
    rig.send(WatchEvent::Deleted(pod("a", 8)));
    let calls = rig.calls(3).await;
    assert_eq!(calls[0], "add b 6 (watch)");
    assert_eq!(calls[1..], ["update a 1->7 (watch)", "delete a 8"]);
    assert_eq!(rig.informer.store().by_index("node", "n1").unwrap().len(), 1);
    assert_eq!(rig.informer.last_sync_resource_version(), version(8));
    rig.informer.stop().await;
}

#[tokio::test]
async fn a_list_delivers_the_difference_and_recreated_objects_twice() {
    let recreated = crate::testing::object(
        r#"{"metadata":{"namespace":"default","name":"again","uid":"another","resourceVersion":"9"},"spec":{}}"#,
    );
    let first = vec![pod("again", 1), pod("gone", 2), pod("same", 3)];
    let second = vec![recreated, pod("same", 3)];
    let rig = start(vec![(first, 5), (second, 10)]);
    assert_eq!(rig.calls(3).await.len(), 3);
    rig.events.send(expired()).unwrap();
    assert_eq!(
        rig.calls(3).await,
        [
            "delete gone 2 unknown",
            "delete again 1 unknown",
            "add again 9 (relist)"
        ]
    );
}

#[tokio::test]
async fn a_blocking_handler_is_called_for_each_event() {
    let (open, gate) = std::sync::mpsc::channel::<()>();
    let gate = Mutex::new(Some(gate));
    let outcome = move |_: &str| {
        // Only the first call waits.
        if let Some(gate) = lock(&gate).take() {
            let _ = gate.recv_timeout(DEADLINE);
        }
        Ok(())
    };
    let rig = start_with(
        vec![(vec![pod("a", 1)], 1)],
        InformerConfig::default(),
        Arc::new(outcome),
    );
    until(|| !lock(&rig.lines).is_empty()).await;
    (2..=1_000).for_each(|number| rig.send(WatchEvent::Modified(pod("a", number))));
    until(|| rig.informer.last_sync_resource_version() == version(1_000)).await;
    assert_eq!(lock(&rig.lines).len(), 1, "it is still busy");
    open.send(()).unwrap();
    let calls = rig.calls(1_000).await;
    for (step, line) in (1..).zip(&calls[1..]) {
        assert_eq!(*line, format!("update a {step}->{} (watch)", step + 1));
    }
}

#[tokio::test]
async fn failed_call_is_repeated_unless_permanent_or_a_panic() {
    let attempts = AtomicU64::new(0);
    let outcome = move |line: &str| match line.split(' ').nth(1).unwrap() {
        "later" if attempts.fetch_add(1, Ordering::Relaxed) < 3 => Err(HandlerError::Retryable("busy".to_owned())),
        "never" => Err(HandlerError::Permanent("no".to_owned())),
        "panics" => panic!("the test handler failed"),
        _ => Ok(()),
    };
    let list = ["later", "never", "panics", "z"].map(|name| pod(name, 1)).to_vec();
    let rig = start_with(vec![(list, 5)], InformerConfig::default(), Arc::new(outcome));
    let calls = rig.calls(7).await;
    assert_eq!(calls.iter().filter(|line| line.contains("later")).count(), 4);
    assert_eq!(calls[6], "add z 1 (initial)");
    assert_eq!(rig.informer.failed_calls(), 2);
}

#[tokio::test]
async fn a_stop_delivers_what_was_read_and_gives_up_retries() {
    let rig = start_with(
        vec![(vec![pod("a", 1), pod("b", 1)], 5)],
        InformerConfig::default(),
        Arc::new(|line: &str| match line.starts_with("add a") {
            true => Err(HandlerError::RetryAfter {
                message: "not yet".to_owned(),
                after: DEADLINE * 10,
            }),
            false => Ok(()),
        }),
    );
    until(|| !lock(&rig.lines).is_empty()).await;
    let began = Instant::now();
    rig.informer.stop().await;
    assert!(began.elapsed() < DEADLINE);
    assert_eq!(rig.calls(2).await, ["add a 1 (initial)", "add b 1 (initial)"]);
    assert_eq!(rig.informer.failed_calls(), 1);
}

#[tokio::test]
async fn a_resync_calls_the_handler_for_each_object() {
    let config = InformerConfig {
        resync: Some(Duration::from_millis(5)),
        ..InformerConfig::default()
    };
    let rig = start_with(vec![(vec![pod("a", 1)], 5)], config, Arc::new(|_| Ok(())));
    assert_eq!(rig.calls(2).await[1], "update a 1->1 (resync)");
}

/// Removes the labels, but fails on pods called "bad".
struct Redact(Arc<AtomicU64>);

impl Transform for Redact {
    fn transform(&mut self, object: Object) -> Result<Object, String> {
        self.0.fetch_add(1, Ordering::Relaxed);
        if object.name() == "bad" {
            return Err("fails on purpose".to_owned());
        }
        let shape = Shape::new("v1", "Pod", vec![Pointer::parse("/spec").unwrap()], false).unwrap();
        Object::parse(object.json(), &shape).map_err(|error| error.to_string())
    }
}

/// (`TestTransformingInformer`)
#[tokio::test]
async fn a_failing_transform_affects_only_its_object() {
    let transforms = Arc::new(AtomicU64::new(0));
    let config = InformerConfig {
        transform: Some(Box::new(Redact(Arc::clone(&transforms)))),
        ..InformerConfig::default()
    };
    let list = vec![pod("a", 1), pod("bad", 1)];
    let rig = start_with(vec![(list, 5)], config, Arc::new(|_| Ok(())));
    rig.send(WatchEvent::Modified(pod("a", 6)));
    assert_eq!(rig.calls(2).await, ["add a 1 (initial)", "update a 1->6 (watch)"]);
    let stored = rig.informer.store().list();
    assert_eq!((stored.len(), transforms.load(Ordering::Relaxed)), (1, 3));
    assert!(!String::from_utf8_lossy(stored[0].json()).contains("spec"));
}
