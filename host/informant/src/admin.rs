//! What the daemon answers over HTTP/1.1: probes and metrics on both of its ports, what is in the cache and actions on
//! the admin port only.
//!
//! ```text
//! [health] and [admin]: /livez  /readyz[?verbose]  /healthz  /metrics
//! [admin]: /dashboard/
//! /api/v1/get/RESOURCE  /api/v1/sources[/ID]  /api/v1/plugins[/NAME]  /api/v1/plugins/NAME/{effects,logs,series,why}
//! /api/v1/why/RESOURCE  /api/v1/calls/RESOURCE  /api/v1/indexes/RESOURCE  /api/v1/dead-letters  /api/v1/retries
//! /api/v1/configuration  /api/v1/replicas  /api/v1/stream
//! POST: /api/v1/plugins/NAME/{pause,resume,restart,requeue,trigger,capture}  /api/v1/loglevel
//! ```
//!
//! Reads the [`StatusRegistry`], snapshots and listeners; only a POST changes something: one plugin, or the log level.
//! Callers are authenticated and authorized if the port has TLS (`access`); otherwise it listens on loopback. The admin
//! socket has the port's routes for processes of this user, which are not asked for more.

mod access;
mod calls;
mod capture;
mod dashboard;
mod error;
mod freshness;
mod health;
mod index_values;
mod log_level;
mod objects;
mod one_object;
mod origin;
pub(crate) mod plugins;
mod replica_metrics;
mod replicas;
mod secrets;
mod shards;
pub(crate) mod sources;
mod status_metrics;
mod stream;
mod trigger;
mod why;

use std::sync::Arc;
use std::time::Duration;

use axum::body::{Body, to_bytes};
use axum::extract::{Request, State};
use axum::middleware::{Next, from_fn, from_fn_with_state};
use axum::response::{IntoResponse, Response};
use axum::routing::{get, post};
use axum::{Json, Router};
use http::header::{CONTENT_TYPE, VARY};
use http::{HeaderMap, StatusCode};
use informant_cache::Environment;
use informant_config::AdminSection;
use serde::{Deserialize, Serialize};
use tokio::runtime::Handle;
use tokio::sync::{OwnedSemaphorePermit, Semaphore};

pub(crate) use capture::{CAPTURE_WAIT_MAX, CaptureRequest, CapturedView};
pub(crate) use error::{AdminError, Code, ResourceRight};
pub(crate) use freshness::VERSION_WAITS_MAX;
pub(crate) use log_level::{LogLevelRequest, LogLevelView};
pub(crate) use objects::STREAMS_MAX;
pub(crate) use objects::{
    ABSENT_FIELDS, AbsentFields, Freshness, HEADS, INDEX_FAILURES, MISSING_SOURCES, MissingSource, SOURCES,
};
pub(crate) use plugins::{
    DeadLettersView, EffectView, EffectsView, FailedEventView, LoadedView, LogLineView, LogsView, Paused, PluginView,
    Plugins, RequeueRequest, Requeued, Restarted, Resumed, RetriesView, remarks,
};
pub(crate) use replicas::{OtherReplica, ReplicaView, ReplicasView, ShardView};
pub(crate) use shards::AnswerPart;
pub(crate) use sources::{FailedView, IndexFailuresView, LARGEST_NAMED_MAX, NamespaceView, SourceView, Sources};
pub(crate) use stream::{Memory, Overview, PluginRow, SourceRow};
pub(crate) use trigger::{TriggerRequest, TriggeredObjects};
pub(crate) use why::{WhyCause, WhyItem, WhyObject, WhyView};

pub use self::health::is_ready;

use self::access::{ReviewParts, Reviews};
use self::origin::KnownHosts;
use self::status_metrics::StatusCollector;
use self::stream::Feed;
use crate::daemon::{Announcement, Routes, StatusRegistry};
use crate::metrics::{Metrics, MetricsFormat};
use crate::runbooks;

/// The longest body of a request.
pub(crate) const BODY_BYTES_MAX: usize = 64 * 1024;

/// How long the body of a request may take to arrive.
pub(crate) const BODY_WAIT_MAX: Duration = Duration::from_secs(10);

/// How many answers to `/readyz` and `/metrics` a server computes at a time. Further requests wait.
pub(crate) const STATUS_ANSWERS_MAX: usize = 2;

#[derive(Debug, Clone, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub(crate) struct ConfigurationView {
    /// The file, as passed to the daemon.
    pub path: String,
    /// `applied`, `partial` (some sections are pending), `refused` (the present file is invalid) or `unreadable` (it is
    /// missing, empty or cannot be read).
    pub state: String,
    /// How long ago the file last changed, or the daemon started.
    pub age_ms: u64,
    /// The result of the last change: `ok`, `partial`, `refused`, `unchanged`; null before the first.
    pub last_result: Option<String>,
    /// Why the file cannot be read now; the previous configuration stays active.
    #[serde(default)]
    pub unreadable: Option<String>,
    /// Why the present file was refused.
    pub refused: Option<String>,
    /// Sections whose newest version is not running.
    pub waiting: Vec<PendingSection>,
    #[serde(default)]
    pub log_level: String,
    /// The certificate of the admin port; null without TLS.
    #[serde(default)]
    pub certificate: Option<CertificateView>,
    /// The runbook, while the newest file is not applied: `informant explain CODE`.
    #[serde(default)]
    pub code: Option<String>,
    /// Why the state database cannot be opened or written.
    #[serde(default)]
    pub state_database: Option<ProblemView>,
    /// Whether a second process on the same configuration would be noticed; null until that is known.
    #[serde(default)]
    pub announcement: Option<AnnouncementView>,
}

#[derive(Debug, Clone, Serialize, Deserialize)]
pub(crate) struct AnnouncementView {
    /// `announced`, `failing` (in a pod, and the Lease cannot be used) or `off` (not in a pod).
    pub state: String,
    /// Why it is not announced.
    pub reason: Option<String>,
    /// `NAMESPACE/NAME` of the Lease.
    pub lease: Option<String>,
    /// Another process that acts on this configuration.
    pub other: Option<String>,
    /// The runbook, while there is another process: `informant explain CODE`.
    pub code: Option<String>,
}

impl AnnouncementView {
    fn of(announcement: &Announcement) -> Self {
        let (state, reason, lease) = match announcement {
            Announcement::Off { reason } => ("off", Some(reason), None),
            Announcement::Failing { reason, .. } => ("failing", Some(reason), None),
            Announcement::Announced { lease, .. } => ("announced", None, Some(lease)),
        };
        let other = announcement.other();
        let text = |value: Option<&Arc<str>>| value.map(ToString::to_string);
        Self {
            state: state.to_owned(),
            reason: text(reason),
            lease: text(lease),
            other: text(other),
            code: other.map(|_| runbooks::TWO_PROCESSES.code.to_owned()),
        }
    }
}

#[derive(Debug, Clone, Serialize, Deserialize)]
pub(crate) struct CertificateView {
    /// When it expires; null if there is none, so that no client can connect.
    pub expires: Option<String>,
    /// Why the files cannot be used, or that it has expired.
    pub problem: Option<String>,
    /// The runbook, while there is a problem: `informant explain CODE`.
    #[serde(default)]
    pub code: Option<String>,
}

#[derive(Debug, Clone, Serialize, Deserialize)]
pub(crate) struct ProblemView {
    pub message: String,
    /// The runbook: `informant explain CODE`.
    pub code: String,
}

/// A section whose newest version is not running.
#[derive(Debug, Clone, Serialize, Deserialize)]
pub(crate) struct PendingSection {
    /// The header in the file, without brackets.
    pub section: String,
    pub reason: String,
}

#[derive(Clone)]
pub(crate) struct AdminState {
    pub(crate) registry: StatusRegistry,
    pub(crate) metrics: Metrics,
    pub(crate) environment: Arc<dyn Environment>,
    streams: Arc<Semaphore>,
    version_waits: Arc<Semaphore>,
    page_streams: Arc<Semaphore>,
    /// What clients of the stream share.
    feed: Arc<Feed>,
    hosts: KnownHosts,
    /// None without TLS, and on the admin socket.
    reviews: Option<Arc<Reviews>>,
}

impl AdminState {
    fn new(
        registry: StatusRegistry,
        metrics: Metrics,
        environment: Arc<dyn Environment>,
        admin: &AdminSection,
    ) -> Self {
        let reviews = admin.tls.is_some().then(|| {
            Arc::new(Reviews::new(ReviewParts {
                clusters: Box::new(registry.clusters().clone()),
                cluster: admin.cluster.clone(),
                environment: Arc::clone(&environment),
                metrics: metrics.daemon.clone(),
            }))
        });
        Self {
            registry,
            metrics,
            environment,
            streams: Arc::new(Semaphore::new(STREAMS_MAX)),
            version_waits: Arc::new(Semaphore::new(VERSION_WAITS_MAX)),
            page_streams: Arc::new(Semaphore::new(stream::STREAMS_MAX)),
            feed: Arc::default(),
            hosts: KnownHosts::new(&admin.hosts),
            reviews,
        }
    }

    pub(crate) fn stream(&self) -> Result<OwnedSemaphorePermit, AdminError> {
        self.permit(&self.streams, "streams", || {
            format!("{STREAMS_MAX} responses are already being read; try again later")
        })
    }

    pub(crate) fn version_wait(&self) -> Result<OwnedSemaphorePermit, AdminError> {
        self.permit(&self.version_waits, "version-waits", || {
            format!("{VERSION_WAITS_MAX} requests are already waiting for a version; try again later")
        })
    }

    pub(crate) fn page_stream(&self) -> Result<OwnedSemaphorePermit, AdminError> {
        self.permit(&self.page_streams, "page-streams", || {
            format!(
                "{} streams are already being read; try again later",
                stream::STREAMS_MAX
            )
        })
    }

    fn permit(
        &self,
        permits: &Arc<Semaphore>,
        limit: &'static str,
        message: impl FnOnce() -> String,
    ) -> Result<OwnedSemaphorePermit, AdminError> {
        Arc::clone(permits).try_acquire_owned().map_err(|_| {
            self.metrics.daemon.admin_was_busy(limit);
            AdminError::new(Code::Busy, message())
        })
    }
}

/// What a daemon's two ports answer. Adds the status of everything in `registry` to `metrics`.
#[must_use]
pub fn routes(
    registry: StatusRegistry,
    metrics: Metrics,
    environment: Arc<dyn Environment>,
    section: &AdminSection,
) -> Routes {
    metrics.collect(StatusCollector(
        registry.clone(),
        metrics.daemon.clone(),
        Arc::clone(&environment),
    ));
    let state = AdminState::new(registry, metrics, environment, section);
    Routes {
        health: probes()
            .fallback(async || (StatusCode::NOT_FOUND, HEALTH_ROUTES))
            .with_state(state.clone()),
        local: admin_routes(AdminState {
            reviews: None,
            ..state.clone()
        }),
        admin: admin_routes(state),
    }
}

fn admin_routes(state: AdminState) -> Router {
    probes()
        .merge(dashboard::routes())
        .route("/api/v1/get/{*resource}", get(objects::get))
        .route("/api/v1/sources", get(sources::list))
        .route("/api/v1/sources/{id}", get(sources::get))
        .route("/api/v1/plugins", get(plugins::list))
        .route("/api/v1/plugins/{name}", get(plugins::get))
        .route("/api/v1/plugins/{name}/series", get(plugins::series))
        .route("/api/v1/calls/{*resource}", get(calls::calls))
        .route("/api/v1/indexes/{*resource}", get(index_values::index_values))
        .route("/api/v1/stream", get(stream::stream))
        .route("/api/v1/plugins/{name}/pause", post(plugins::commands::pause))
        .route("/api/v1/plugins/{name}/resume", post(plugins::commands::resume))
        .route("/api/v1/plugins/{name}/restart", post(plugins::commands::restart))
        .route("/api/v1/plugins/{name}/requeue", post(plugins::commands::requeue))
        .route("/api/v1/plugins/{name}/logs", get(plugins::logs::logs))
        .route("/api/v1/plugins/{name}/effects", get(plugins::effects::effects))
        .route("/api/v1/plugins/{name}/why", get(why::of_plugin))
        .route("/api/v1/why/{*resource}", get(why::of_object))
        .route("/api/v1/plugins/{name}/trigger", post(trigger::trigger))
        .route("/api/v1/plugins/{name}/capture", post(capture::capture))
        .route("/api/v1/dead-letters", get(plugins::failures::dead_letters))
        .route("/api/v1/retries", get(plugins::failures::retries))
        .route("/api/v1/configuration", get(configuration))
        .route("/api/v1/replicas", get(replicas::list))
        .route("/api/v1/loglevel", post(log_level::set))
        .fallback(async || (StatusCode::NOT_FOUND, ADMIN_ROUTES))
        .layer(from_fn(with_whole_body))
        .layer(from_fn_with_state(state.clone(), replicas::refuse_in_standby))
        .layer(from_fn_with_state(state.clone(), access::check_access))
        .layer(from_fn_with_state(state.clone(), origin::refuse_foreign))
        .with_state(state)
}

fn probes() -> Router<AdminState> {
    Router::new()
        .route("/readyz", get(health::readyz))
        .route("/metrics", get(metrics))
        .route_layer(from_fn_with_state(
            Arc::new(Semaphore::new(STATUS_ANSWERS_MAX)),
            on_another_thread,
        ))
        .route("/livez", get(health::livez))
        .route("/healthz", get(health::livez))
}

/// Computes an answer on another thread: it takes locks that informers and plugins hold for a moment, and `/livez`
/// must not wait for them. A request whose client has gone leaves the queue.
async fn on_another_thread(State(answers): State<Arc<Semaphore>>, request: Request, next: Next) -> Response {
    let permit = answers.acquire_owned().await.expect("the semaphore is never closed");
    let runtime = Handle::current();
    let answer = tokio::task::spawn_blocking(move || {
        let _permit = permit;
        runtime.block_on(next.run(request))
    });
    answer
        .await
        .unwrap_or_else(|_| StatusCode::INTERNAL_SERVER_ERROR.into_response())
}

/// Reads the request's body before anything else: it is small, or refused.
async fn with_whole_body(request: Request, next: Next) -> Response {
    let (head, body) = request.into_parts();
    let refused = |message: String| AdminError::new(Code::Invalid, message).into_response();
    match tokio::time::timeout(BODY_WAIT_MAX, to_bytes(body, BODY_BYTES_MAX)).await {
        Ok(Ok(body)) => next.run(Request::from_parts(head, Body::from(body))).await,
        Ok(Err(error)) => refused(format!(
            "cannot read the request's body, which may have {BODY_BYTES_MAX} bytes: {error}"
        )),
        Err(_) => refused(format!(
            "the request's body did not arrive within {} s",
            BODY_WAIT_MAX.as_secs()
        )),
    }
}

/// The answer to another path on the health port.
const HEALTH_ROUTES: &str =
    "not found; available: /livez /readyz /healthz /metrics; data and actions are on the admin port\n";

/// The answer to another path on the admin port.
const ADMIN_ROUTES: &str = "not found; available: /dashboard/ /livez /readyz /metrics /api/v1/get/RESOURCE /api/v1/sources \
    /api/v1/sources/ID /api/v1/plugins /api/v1/plugins/NAME /api/v1/plugins/NAME/effects /api/v1/plugins/NAME/logs \
    /api/v1/plugins/NAME/series /api/v1/plugins/NAME/why /api/v1/why/RESOURCE /api/v1/calls/RESOURCE \
    /api/v1/indexes/RESOURCE /api/v1/dead-letters /api/v1/retries /api/v1/configuration /api/v1/replicas /api/v1/stream; \
    by POST: /api/v1/plugins/NAME/pause /api/v1/plugins/NAME/resume /api/v1/plugins/NAME/restart \
    /api/v1/plugins/NAME/requeue /api/v1/plugins/NAME/trigger /api/v1/plugins/NAME/capture /api/v1/loglevel\n";

async fn metrics(State(state): State<AdminState>, headers: HeaderMap) -> Response {
    let format = MetricsFormat::accepted(&headers);
    match state.metrics.encode() {
        Ok(text) => {
            let headers = [(CONTENT_TYPE, format.content_type()), (VARY, "accept")];
            (headers, format.convert(text)).into_response()
        }
        Err(error) => (
            StatusCode::INTERNAL_SERVER_ERROR,
            format!("failed to write metrics: {error}\n"),
        )
            .into_response(),
    }
}

async fn configuration(State(state): State<AdminState>) -> Json<ConfigurationView> {
    let configuration = state.registry.configuration().clone();
    let waiting = configuration.waiting.iter().map(|(section, reason)| PendingSection {
        section: section.to_string(),
        reason: reason.to_string(),
    });
    Json(ConfigurationView {
        path: configuration.path.display().to_string(),
        state: configuration.state().to_owned(),
        age_ms: plugins::age_ms(state.environment.now(), configuration.read),
        last_result: configuration.result.map(|result| result.as_str().to_owned()),
        unreadable: configuration.unreadable.as_ref().map(ToString::to_string),
        refused: configuration.refused.as_ref().map(ToString::to_string),
        waiting: waiting.collect(),
        log_level: crate::logging::level().unwrap_or_default(),
        certificate: configuration.certificate.as_ref().map(|status| CertificateView {
            expires: status.expires.map(|at| at.to_string()),
            problem: status.problem.clone(),
            code: (status.problem.as_ref()).map(|_| runbooks::ADMIN_CERTIFICATE.code.to_owned()),
        }),
        code: (!configuration.is_applied()).then(|| runbooks::CONFIG_NOT_APPLIED.code.to_owned()),
        state_database: state_failure(&state.metrics).map(|message| ProblemView {
            message,
            code: runbooks::STATE_FAILING.code.to_owned(),
        }),
        announcement: configuration.announcement.as_ref().map(AnnouncementView::of),
    })
}

/// Why what must outlive the process cannot be stored at present.
fn state_failure(metrics: &Metrics) -> Option<String> {
    let shared = || metrics.shared_state.failure();
    metrics
        .state
        .failure()
        .or_else(|| shared().map(|why| format!("shared state: {why}")))
}
