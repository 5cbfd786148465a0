//! What the daemon answers over HTTP/1.1: probes and metrics on both of its ports, what is in the cache and actions on
//! the admin port only.
//!
//! ```text
//! [health] and [admin]: /livez  /readyz[?verbose]  /healthz  /metrics
//! [admin]:
//! /api/v1/get/RESOURCE  /api/v1/sources[/ID]  /api/v1/plugins  /api/v1/dead-letters  /api/v1/retries
//! /api/v1/configuration
//! POST: /api/v1/plugins/NAME/pause  /api/v1/plugins/NAME/resume  /api/v1/plugins/NAME/requeue
//! ```
//!
//! Reads the [`StatusRegistry`], snapshots and listeners; only a POST changes something, and only for one plugin. It
//! has no authentication, so it listens on loopback by default.

mod error;
mod freshness;
mod health;
mod objects;
mod plugins;
mod sources;

use std::sync::Arc;

use axum::extract::State;
use axum::response::IntoResponse;
use axum::routing::{get, post};
use axum::{Json, Router};
use http::StatusCode;
use http::header::CONTENT_TYPE;
use informant_cache::Environment;
use serde::{Deserialize, Serialize};
use tokio::sync::{OwnedSemaphorePermit, Semaphore};

pub use error::{AdminError, Code};
pub use freshness::{FreshAsOf, VERSION_WAIT_DEFAULT, VERSION_WAIT_MAX, VERSION_WAITS_MAX};
pub use objects::STREAMS_MAX;
pub(crate) use objects::{
    ABSENT_FIELDS, AbsentFields, Freshness, INDEX_FAILURES, MISSING_SOURCES, MissingSource, SOURCES,
};
pub use plugins::{
    DeadLetterView, LoadedView, Paused, PluginView, Plugins, RETRIES_LISTED_MAX, RETRIES_SHOWN_MAX, ReloadView,
    RequeueRequest, Requeued, Resumed, RetryView, StuckView,
};
pub use sources::{AgedText, FAILED_NAMED_MAX, FailedView, IndexFailuresView, SourceView, Sources};
pub(crate) use sources::{resource_or_section, running_in};

use crate::daemon::StatusRegistry;
use crate::metrics::Metrics;

/// The content type of OpenMetrics text.
const OPENMETRICS: &str = "application/openmetrics-text; version=1.0.0; charset=utf-8";

/// The status of the configuration file.
#[derive(Debug, Clone, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct ConfigurationView {
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
}

/// A section whose newest version is not running.
#[derive(Debug, Clone, Serialize, Deserialize)]
pub struct PendingSection {
    /// The header in the file, without brackets.
    pub section: String,
    /// Why.
    pub reason: String,
}

/// The state that all routes share.
#[derive(Clone)]
pub(crate) struct AdminState {
    pub(crate) registry: StatusRegistry,
    pub(crate) metrics: Metrics,
    pub(crate) environment: Arc<dyn Environment>,
    streams: Arc<Semaphore>,
    version_waits: Arc<Semaphore>,
}

impl AdminState {
    pub(crate) fn new(registry: StatusRegistry, metrics: Metrics, environment: Arc<dyn Environment>) -> Self {
        Self {
            registry,
            metrics,
            environment,
            streams: Arc::new(Semaphore::new(STREAMS_MAX)),
            version_waits: Arc::new(Semaphore::new(VERSION_WAITS_MAX)),
        }
    }

    /// A permit for one more streamed response.
    pub(crate) fn stream(&self) -> Result<OwnedSemaphorePermit, AdminError> {
        self.permit(&self.streams, "streams", || {
            format!("{STREAMS_MAX} responses are already being read; try again later")
        })
    }

    /// A permit for one more request that waits for a version.
    pub(crate) fn version_wait(&self) -> Result<OwnedSemaphorePermit, AdminError> {
        self.permit(&self.version_waits, "version-waits", || {
            format!("{VERSION_WAITS_MAX} requests are already waiting for a version; try again later")
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

/// Probes and metrics: what the health port answers.
pub(crate) fn health_routes(state: AdminState) -> Router {
    probes()
        .fallback(async || (StatusCode::NOT_FOUND, HEALTH_ROUTES))
        .with_state(state)
}

/// Everything: what the admin port answers.
pub(crate) fn admin_routes(state: AdminState) -> Router {
    probes()
        .route("/api/v1/get/{*resource}", get(objects::get))
        .route("/api/v1/sources", get(sources::list))
        .route("/api/v1/sources/{id}", get(sources::get))
        .route("/api/v1/plugins", get(plugins::list))
        .route("/api/v1/plugins/{name}/pause", post(plugins::pause))
        .route("/api/v1/plugins/{name}/resume", post(plugins::resume))
        .route("/api/v1/plugins/{name}/requeue", post(plugins::requeue))
        .route("/api/v1/dead-letters", get(plugins::dead_letters))
        .route("/api/v1/retries", get(plugins::retries))
        .route("/api/v1/configuration", get(configuration))
        .fallback(async || (StatusCode::NOT_FOUND, ADMIN_ROUTES))
        .with_state(state)
}

fn probes() -> Router<AdminState> {
    Router::new()
        .route("/livez", get(health::livez))
        .route("/readyz", get(health::readyz))
        .route("/healthz", get(health::livez))
        .route("/metrics", get(metrics))
}

/// The answer to another path on the health port.
const HEALTH_ROUTES: &str =
    "not found; available: /livez /readyz /healthz /metrics; data and actions are on the admin port\n";

/// The answer to another path on the admin port.
const ADMIN_ROUTES: &str = "not found; available: /livez /readyz /metrics /api/v1/get/RESOURCE /api/v1/sources /api/v1/sources/ID /api/v1/plugins /api/v1/dead-letters /api/v1/retries /api/v1/configuration\n";

async fn metrics(State(state): State<AdminState>) -> axum::response::Response {
    match state.metrics.encode() {
        Ok(text) => ([(CONTENT_TYPE, OPENMETRICS)], text).into_response(),
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
    })
}
