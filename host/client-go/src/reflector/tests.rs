//! The reflector against scripted answers, under paused time. Names in parentheses are client-go's tests of the same
//! rule.

use futures::stream;
use informant_informer::TokioEnvironment;
use insta::assert_snapshot;

use super::*;
use crate::testing::{pod, version};

type Log = Arc<Mutex<Vec<String>>>;
type ListResult = Result<ListedObjects, ListWatchError>;
/// The events of a watch, each after some milliseconds; then it ends, or stays open.
type WatchScript = Result<(Vec<(u64, WatchEvent)>, End), ListWatchError>;

#[derive(Clone)]
enum End {
    Closed,
    Open,
    Error(ListWatchError),
}

/// Answers lists and watches in this order, then never.
struct Script {
    lists: Vec<ListResult>,
    watches: Vec<WatchScript>,
    log: Log,
    began: tokio::time::Instant,
}

impl Script {
    fn note(&self, what: &str, version: &ResourceVersion) {
        let at = self.began.elapsed().as_secs_f64();
        lock(&self.log).push(format!("{at:.1} {what} {:?}", version.as_str()));
    }
}

impl ListerWatcher for Script {
    async fn list(&mut self, version: &ResourceVersion) -> ListResult {
        self.note("list", version);
        match self.lists.is_empty() {
            true => std::future::pending().await,
            false => self.lists.remove(0),
        }
    }

    async fn watch(&mut self, version: &ResourceVersion) -> Result<WatchStream, ListWatchError> {
        self.note("watch", version);
        if self.watches.is_empty() {
            std::future::pending::<()>().await;
        }
        let (events, end) = self.watches.remove(0)?;
        let events = stream::iter(events).then(|(after, event)| async move {
            tokio::time::sleep(Duration::from_millis(after)).await;
            Ok(event)
        });
        Ok(match end {
            End::Closed => events.boxed(),
            End::Open => events.chain(stream::pending()).boxed(),
            End::Error(error) => events.chain(stream::iter([Err(error)])).boxed(),
        })
    }
}

/// Records what is written.
struct Recorder(Log);

impl ReflectorStore for Recorder {
    fn add(&self, object: Object) -> Result<(), TransformError> {
        lock(&self.0).push(format!("add {}", object.name()));
        Ok(())
    }

    fn update(&self, object: Object) -> Result<(), TransformError> {
        lock(&self.0).push(format!("update {}", object.name()));
        Ok(())
    }

    fn delete(&self, object: Object) -> Result<(), TransformError> {
        lock(&self.0).push(format!("delete {}", object.name()));
        Ok(())
    }

    fn replace(&self, objects: Vec<Object>, version: &ResourceVersion) {
        let names: Vec<&str> = objects.iter().map(Object::name).collect();
        lock(&self.0).push(format!("replace {names:?} {version}"));
    }

    fn resync(&self) {
        lock(&self.0).push("resync".to_owned());
    }
}

fn listed(names: &[&str], number: u64) -> ListResult {
    Ok(ListedObjects {
        objects: names.iter().map(|name| pod(name, number)).collect(),
        version: version(number),
    })
}

fn failed(text: &str) -> ListWatchError {
    ListWatchError::Failed(text.to_owned())
}

fn expired() -> ListWatchError {
    ListWatchError::Expired("410".to_owned())
}

/// What happens within `seconds`.
async fn run(lists: Vec<ListResult>, watches: Vec<WatchScript>, resync: Option<u64>, seconds: u64) -> String {
    let log = Log::default();
    let script = Script {
        lists,
        watches,
        log: Arc::clone(&log),
        began: tokio::time::Instant::now(),
    };
    let errors = Arc::clone(&log);
    let environment = Arc::new(TokioEnvironment::current(7));
    let mut reflector = Reflector::new(script, Recorder(Arc::clone(&log)), environment)
        .with_error_handler(move |error| lock(&errors).push(format!("error: {error}")));
    if let Some(period) = resync {
        reflector = reflector.with_resync(Duration::from_secs(period));
    }
    let last = reflector.last_sync_resource_version();
    let _ = tokio::time::timeout(Duration::from_secs(seconds), reflector.run()).await;
    let mut log = lock(&log).clone();
    log.push(format!("last {:?}", last().as_str()));
    log.join("\n")
}

/// (`TestReflectorListAndWatch`)
#[tokio::test(start_paused = true)]
async fn a_list_is_followed_by_watches_from_its_version() {
    let events = vec![
        (1, WatchEvent::Added(pod("b", 6))),
        (1, WatchEvent::Modified(pod("a", 7))),
        (1, WatchEvent::Deleted(pod("b", 8))),
        (1, WatchEvent::Bookmark(version(20))),
    ];
    let shown = run(vec![listed(&["a"], 5)], vec![Ok((events, End::Closed))], None, 5).await;
    assert_snapshot!(shown, @r#"
    0.0 list "0"
    replace ["a"] 5
    0.0 watch "5"
    add b
    update a
    delete b
    0.0 watch "20"
    last "20"
    "#);
}

/// (`TestBackoffOnTooManyRequests`, `TestReflectorListAndWatchWithErrors`)
#[tokio::test(start_paused = true)]
async fn failures_back_off_and_an_unavailable_server_needs_no_list() {
    let unavailable = || Err(ListWatchError::Unavailable("429".to_owned()));
    let shown = run(
        vec![Err(failed("one")), Err(failed("two")), listed(&["a"], 5)],
        vec![unavailable(), Ok((Vec::new(), End::Open))],
        None,
        60,
    )
    .await;
    assert_snapshot!(shown, @r#"
    0.0 list "0"
    error: one
    1.2 list "0"
    error: two
    4.1 list "0"
    replace ["a"] 5
    4.1 watch "5"
    error: the server is not available: 429
    8.4 watch "5"
    last "5"
    "#);
}

/// (`TestReflectorExpiredExactResourceVersion`, `TestReflectorFullListIfExpired`)
#[tokio::test(start_paused = true)]
async fn an_expired_version_is_followed_by_the_most_recent_list() {
    let lists = vec![listed(&["a"], 5), Err(expired()), listed(&["b"], 90)];
    let watches = vec![Ok((Vec::new(), End::Error(expired())))];
    assert_snapshot!(run(lists, watches, None, 10).await, @r#"
    0.0 list "0"
    replace ["a"] 5
    0.0 watch "5"
    error: the resource version is not available: 410
    1.2 list "5"
    1.2 list ""
    replace ["b"] 90
    1.2 watch "90"
    last "90"
    "#);
}

/// (`TestReflectorWatchHandlerError`)
#[tokio::test(start_paused = true)]
async fn a_watch_that_ends_at_once_is_a_failure() {
    let lists = vec![listed(&[], 5), listed(&[], 6)];
    let watches = vec![Ok((Vec::new(), End::Closed))];
    assert_snapshot!(run(lists, watches, None, 10).await, @r#"
    0.0 list "0"
    replace [] 5
    0.0 watch "5"
    error: very short watch: it ended within a second and without an event
    1.2 list "5"
    replace [] 6
    1.2 watch "6"
    last "6"
    "#);
}

/// (`TestReflectorResync`)
#[tokio::test(start_paused = true)]
async fn resync_is_due_while_a_watch_is_open() {
    let events = vec![(15_000, WatchEvent::Added(pod("a", 6)))];
    let shown = run(vec![listed(&[], 5)], vec![Ok((events, End::Open))], Some(10), 35).await;
    assert_snapshot!(shown, @r#"
    0.0 list "0"
    replace [] 5
    0.0 watch "5"
    resync
    add a
    resync
    resync
    last "6"
    "#);
}

/// (`TestReflectorStopWatch`)
#[tokio::test(start_paused = true)]
async fn wait_grows_to_its_limit_and_starts_over() {
    let mut back_off = BackOff::default();
    let mut now = Moment::ZERO;
    let mut waits = Vec::new();
    for _ in 0..8 {
        let wait = back_off.next(now, 0);
        waits.push(wait.as_millis());
        now += wait;
    }
    assert_eq!(waits, [800, 1_600, 3_200, 6_400, 12_800, 25_600, 30_000, 30_000]);
    let most = back_off.next(now, 999);
    assert!(most > REFLECTOR_WAIT_MAX && most < 2 * REFLECTOR_WAIT_MAX);
    now += most + WAIT_RESET + Duration::from_secs(1);
    assert_eq!(back_off.next(now, 0), REFLECTOR_WAIT_MIN);
}

#[tokio::test(start_paused = true)]
async fn indexer_is_kept_up_to_date_without_a_queue() {
    let store = Indexer::default();
    let script = Script {
        lists: vec![listed(&["a", "b"], 5)],
        watches: vec![Ok((vec![(1, WatchEvent::Deleted(pod("a", 6)))], End::Open))],
        log: Log::default(),
        began: tokio::time::Instant::now(),
    };
    let environment = Arc::new(TokioEnvironment::current(7));
    let reflector = Reflector::new(script, store.clone(), environment);
    let _ = tokio::time::timeout(Duration::from_secs(1), reflector.run()).await;
    assert_eq!(store.list_keys().len(), 1);
    assert_eq!(store.last_store_sync_resource_version(), Some(version(5)));
}
