//! Processes that share one Lease on the embedded API server, under a paused clock.

use std::path::PathBuf;

use informant_apiserver::{Answer, ApiServer, Filter, Options};
use informant_cache::{Catalog, Moment};
use informant_config::TextHash;
use informant_informer::TokioEnvironment;
use kube::Client;
use serde_json::Value;
use tokio::task::JoinHandle;
use tokio::time::{Instant, sleep};

use super::super::configuration::Configuration;
use super::*;
use crate::metrics::Metrics;

const LEASES: &str = "coordination.k8s.io/v1/leases";

const RENEW_EVERY: Duration = TIMES.retry;

/// How long another process counts.
const OTHER_COUNTS: Duration = Duration::from_secs(60);

struct World {
    server: ApiServer,
    environment: Arc<dyn Environment>,
}

/// A process that announces itself.
struct Process {
    registry: StatusRegistry,
    metrics: Metrics,
    end: CancellationToken,
    task: JoinHandle<()>,
}

impl World {
    fn new() -> Self {
        Self {
            server: ApiServer::new(Options::default()),
            environment: Arc::new(TokioEnvironment::current(7)),
        }
    }

    fn start(&self, name: &str) -> Process {
        let registry = StatusRegistry::new(
            Catalog::new(),
            Configuration::new(PathBuf::new(), &TextHash::of(""), Moment::ZERO),
        );
        let (metrics, end) = (Metrics::new(), CancellationToken::new());
        let report = Report::new(&AnnouncerParts {
            environment: Arc::clone(&self.environment),
            registry: registry.clone(),
            metrics: metrics.daemon.clone(),
        });
        let client = Client::new(self.server.service(), "default");
        let environment = Arc::clone(&self.environment);
        let leases = LeaseApi::new(client, None, "informant", Arc::clone(&environment));
        let renewal = Renewal::new(leases, "informant".into(), name.into(), environment, report);
        let task = tokio::spawn(renewal.run(end.clone()));
        Process {
            registry,
            metrics,
            end,
            task,
        }
    }

    fn spec(&self) -> Value {
        let lease = self.server.get(LEASES, "default", "informant").unwrap();
        lease.unwrap_or_default()["spec"].clone()
    }

    fn holder(&self) -> String {
        self.spec()["holderIdentity"].as_str().unwrap_or_default().to_owned()
    }

    fn requests(&self) -> usize {
        let requests = self.server.requests();
        requests
            .iter()
            .filter(|request| request.uri.contains("/leases"))
            .count()
    }
}

impl Process {
    fn other(&self) -> Option<String> {
        let announcement = self.registry.configuration().announcement.clone();
        let other = match announcement {
            Some(Announcement::Announced { lease, other }) => {
                assert_eq!(&*lease, "default/informant");
                other.map(|other| other.to_string())
            }
            unexpected => panic!("not announced: {unexpected:?}"),
        };
        self.check_gauge(other)
    }

    /// The other process that it still knows of while it is not announced.
    fn other_while_failing(&self) -> Option<String> {
        match self.registry.configuration().announcement.clone() {
            Some(Announcement::Failing { other, .. }) => self.check_gauge(other.map(|other| other.to_string())),
            unexpected => panic!("not failing: {unexpected:?}"),
        }
    }

    fn check_gauge(&self, other: Option<String>) -> Option<String> {
        let gauge = format!("\ninformant_other_processes {}\n", u8::from(other.is_some()));
        assert!(self.metrics.encode().unwrap().contains(&gauge), "{gauge}");
        other
    }

    fn reason(&self) -> String {
        match self.registry.configuration().announcement.clone() {
            Some(Announcement::Failing { reason, .. }) => reason.to_string(),
            unexpected => panic!("not failing: {unexpected:?}"),
        }
    }

    async fn end(self) {
        self.end.cancel();
        self.task.await.unwrap();
    }
}

fn leases() -> Filter {
    Filter::any().resource("leases")
}

#[tokio::test(start_paused = true)]
async fn two_processes_notice_each_other_within_two_renewals() {
    for apart in [0, 1, 9, 10, 13] {
        let world = World::new();
        let first = world.start("informant-0_a");
        sleep(Duration::from_secs(apart)).await;
        let second = world.start("informant-1_b");
        // And the time of a request.
        sleep(RENEW_EVERY * 2 + Duration::from_millis(10)).await;
        assert_eq!(first.other().as_deref(), Some("informant-1_b"), "{apart} s apart");
        assert_eq!(second.other().as_deref(), Some("informant-0_a"), "{apart} s apart");
        first.end().await;
        second.end().await;
    }
}

#[tokio::test(start_paused = true)]
async fn killed_process_is_not_taken_for_another_one() {
    let world = World::new();
    let killed = world.start("informant-0_a");
    sleep(RENEW_EVERY).await;
    killed.task.abort();
    assert_eq!(world.holder(), "informant-0_a");
    let next = world.start("informant-0_b");
    for _ in 0..10 {
        sleep(RENEW_EVERY).await;
        assert_eq!(next.other(), None);
    }
    assert_eq!(world.holder(), "informant-0_b");
}

#[tokio::test(start_paused = true)]
async fn rolling_restart_reports_no_other_process() {
    let world = World::new();
    for id in 0..5 {
        let process = world.start(&format!("informant-0_{id}"));
        sleep(Duration::from_secs(35)).await;
        assert_eq!(process.other(), None);
        assert_eq!(world.holder(), format!("informant-0_{id}"));
        process.end().await;
        assert_eq!(world.holder(), "", "released");
    }
}

#[tokio::test(start_paused = true)]
async fn another_process_counts_until_its_name_stays_away() {
    let world = World::new();
    let (first, second) = (world.start("informant-0_a"), world.start("informant-1_b"));
    sleep(RENEW_EVERY * 2).await;
    assert!(first.other().is_some());
    second.task.abort();
    sleep(OTHER_COUNTS + RENEW_EVERY * 2).await;
    assert_eq!(first.other(), None);
}

#[tokio::test(start_paused = true)]
async fn released_lease_of_another_holder_stays_as_it_is() {
    let world = World::new();
    let (first, second) = (world.start("informant-0_a"), world.start("informant-1_b"));
    sleep(RENEW_EVERY * 3 + Duration::from_secs(1)).await;
    let (last, other) = match world.holder().as_str() {
        "informant-0_a" => (first, second),
        _ => (second, first),
    };
    let holder = world.holder();
    other.end().await;
    assert_eq!(world.holder(), holder);
    last.end().await;
    assert_eq!(world.holder(), "");
}

#[tokio::test(start_paused = true)]
async fn lease_says_who_since_when_and_for_how_long() {
    let world = World::new();
    let process = world.start("informant-0_a");
    sleep(RENEW_EVERY).await;
    let spec = world.spec();
    assert_eq!(spec["leaseDurationSeconds"], 30);
    for time in ["acquireTime", "renewTime"] {
        let text = spec[time].as_str().unwrap();
        // kube-apiserver reads exactly six digits.
        assert_eq!(text.len(), "2026-01-01T00:00:00.000000Z".len(), "{time}: {text}");
    }
    process.end().await;
}

#[tokio::test(start_paused = true)]
async fn deleted_lease_is_created_again() {
    let world = World::new();
    let process = world.start("informant-0_a");
    sleep(Duration::from_secs(1)).await;
    world.server.delete(LEASES, "default", "informant").unwrap();
    sleep(RENEW_EVERY).await;
    assert_eq!(world.holder(), "informant-0_a");
    assert_eq!(process.other(), None);
}

#[tokio::test(start_paused = true)]
async fn missing_right_is_named_and_asked_for_seldom() {
    let world = World::new();
    world.server.faults().forbid(leases());
    let process = world.start("informant-0_a");
    sleep(TIMES.refused * 2 - Duration::from_secs(1)).await;
    assert_eq!(world.requests(), 2);
    let reason = process.reason();
    assert!(reason.starts_with("Lease default/informant: "), "{reason}");
    assert!(reason.contains("403") && reason.contains("forbidden"), "{reason}");
    world.server.faults().clear();
    sleep(TIMES.refused).await;
    assert_eq!(process.other(), None);
}

#[tokio::test(start_paused = true)]
async fn announcement_returns_with_the_api_server() {
    let world = World::new();
    let process = world.start("informant-0_a");
    sleep(Duration::from_secs(1)).await;
    world.server.faults().answer(leases(), 3, Answer::internal_error());
    sleep(RENEW_EVERY).await;
    assert!(process.reason().contains("500"), "{}", process.reason());
    sleep(RENEW_EVERY * 3).await;
    assert_eq!(process.other(), None);
}

#[tokio::test(start_paused = true)]
async fn failing_api_server_hides_no_other_process() {
    for failure in [Answer::internal_error(), Answer::forbidden("no")] {
        let world = World::new();
        let (first, second) = (world.start("informant-0_a"), world.start("informant-1_b"));
        sleep(RENEW_EVERY * 2 + Duration::from_secs(1)).await;
        assert!(first.other().is_some());
        world.server.faults().answer(leases(), 1_000, failure);
        sleep(RENEW_EVERY).await;
        assert_eq!(first.other_while_failing().as_deref(), Some("informant-1_b"));
        sleep(OTHER_COUNTS).await;
        assert_eq!(first.other_while_failing(), None);
        second.task.abort();
    }
}

#[tokio::test(start_paused = true)]
async fn renewal_that_only_conflicts_has_failed() {
    let world = World::new();
    let process = world.start("informant-0_a");
    sleep(Duration::from_secs(1)).await;
    let conflict = Answer::Raw {
        code: 409,
        content_type: "application/json".to_owned(),
        body: r#"{"kind":"Status","apiVersion":"v1","status":"Failure","reason":"Conflict","message":"changed","code":409}"#
            .to_owned(),
    };
    world.server.faults().answer(leases().verb("patch"), 4, conflict);
    sleep(RENEW_EVERY).await;
    assert!(
        process.reason().contains("others wrote it 4 times"),
        "{}",
        process.reason()
    );
    sleep(RENEW_EVERY).await;
    assert_eq!(process.other(), None);
}

#[tokio::test(start_paused = true)]
async fn silent_api_server_delays_neither_stop_nor_renewal() {
    let world = World::new();
    let process = world.start("informant-0_a");
    sleep(Duration::from_secs(1)).await;
    world.server.faults().hold(leases(), 2);
    sleep(RENEW_EVERY + Duration::from_secs(6)).await;
    assert!(
        process.reason().contains("did not answer within 5 s"),
        "{}",
        process.reason()
    );
    let began = Instant::now();
    process.end().await;
    assert!(began.elapsed() <= RELEASE_MAX, "{:?}", began.elapsed());
}

#[test]
fn lease_has_the_name_of_the_stateful_set() {
    let sets = [
        "informant-0",
        "team-a-informant-12",
        "informant",
        "informant-7d9f8b6c5-x2x4z",
        "-0",
        "a-",
    ]
    .map(stateful_set);
    assert_eq!(
        sets,
        [Some("informant"), Some("team-a-informant"), None, None, None, None]
    );
}
