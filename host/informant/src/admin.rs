//! The admin server: health, metrics, and what is in the cache, over HTTP/1.1.
//!
//! ```text
//! /livez  /readyz[?verbose]  /metrics
//! /api/v1/get/RESOURCE  /api/v1/sources[/ID]  /api/v1/plugins  /api/v1/dead-letters  /api/v1/configuration
//! POST: /api/v1/plugins/NAME/resume  /api/v1/plugins/NAME/requeue
//! ```
//!
//! Reads the [`Board`], snapshots and listeners; changes nothing but what a POST asks of one plugin. It asks nobody who
//! they are, which is why it listens on loopback unless it is told otherwise.

mod configuration;
mod dead_letters;
mod error;
mod freshness;
mod health;
mod objects;
mod plugins;
mod source;
mod sources;

use std::net::SocketAddr;
use std::sync::Arc;

use axum::Router;
use axum::extract::State;
use axum::response::IntoResponse;
use axum::routing::{get, post};
use http::StatusCode;
use http::header::CONTENT_TYPE;
use informant_cache::Environment;
use tokio::net::TcpListener;
use tokio::sync::{OwnedSemaphorePermit, Semaphore};
use tokio::task::JoinHandle;
use tokio_util::sync::CancellationToken;

pub use configuration::{ConfigurationView, Waiting};
pub use error::{ApiError, Code};
pub use freshness::{FreshAsOf, VERSION_WAIT_DEFAULT, VERSION_WAIT_MAX, VERSION_WAITS_MAX};
pub use objects::STREAMS_MAX;
pub(crate) use objects::{Freshness, INDEX_FAILURES, SOURCES};
pub use plugins::{
    DeadLetterView, LoadedView, PluginView, Plugins, ReloadView, RequeueQuestion, Requeued, Resumed, StuckView,
};
pub(crate) use sources::running_in;
pub use sources::{AgedText, FAILED_NAMED_MAX, FailedView, IndexFailuresView, SourceView, Sources};

use crate::daemon::Board;
use crate::metrics::Metrics;

/// What OpenMetrics text is called on the wire.
const OPENMETRICS: &str = "application/openmetrics-text; version=1.0.0; charset=utf-8";

/// What every route reads.
#[derive(Clone)]
pub(crate) struct AdminState {
    pub(crate) board: Board,
    pub(crate) metrics: Metrics,
    pub(crate) environment: Arc<dyn Environment>,
    streams: Arc<Semaphore>,
    version_waits: Arc<Semaphore>,
}

impl AdminState {
    pub(crate) fn new(board: Board, metrics: Metrics, environment: Arc<dyn Environment>) -> Self {
        Self {
            board,
            metrics,
            environment,
            streams: Arc::new(Semaphore::new(STREAMS_MAX)),
            version_waits: Arc::new(Semaphore::new(VERSION_WAITS_MAX)),
        }
    }

    /// A place among the answers that are being read.
    pub(crate) fn stream(&self) -> Result<OwnedSemaphorePermit, ApiError> {
        self.place(&self.streams, "streams", || {
            format!("{STREAMS_MAX} answers are being read already: ask again later")
        })
    }

    /// A place among the questions that wait for a version.
    pub(crate) fn version_wait(&self) -> Result<OwnedSemaphorePermit, ApiError> {
        self.place(&self.version_waits, "version-waits", || {
            format!("{VERSION_WAITS_MAX} questions wait for a version already: ask again later")
        })
    }

    fn place(
        &self,
        places: &Arc<Semaphore>,
        limit: &'static str,
        message: impl FnOnce() -> String,
    ) -> Result<OwnedSemaphorePermit, ApiError> {
        Arc::clone(places).try_acquire_owned().map_err(|_| {
            self.metrics.daemon.admin_was_busy(limit);
            ApiError::new(Code::Busy, message())
        })
    }
}

/// The server while it runs.
#[derive(Debug)]
pub(crate) struct AdminServer {
    address: SocketAddr,
    stop: CancellationToken,
    task: JoinHandle<()>,
}

impl AdminServer {
    /// Serves on a listener that is bound already.
    pub(crate) fn start(listener: TcpListener, state: AdminState) -> std::io::Result<Self> {
        let address = listener.local_addr()?;
        let stop = CancellationToken::new();
        let stopped = stop.clone().cancelled_owned();
        let routes = routes(state);
        let task = tokio::spawn(async move {
            if let Err(error) = axum::serve(listener, routes).with_graceful_shutdown(stopped).await {
                tracing::error!(%error, "the admin server ended");
            }
        });
        Ok(Self { address, stop, task })
    }

    pub(crate) fn address(&self) -> SocketAddr {
        self.address
    }

    /// Ends at once; answers that are being read are cut off.
    pub(crate) fn stop(&self) {
        self.stop.cancel();
        self.task.abort();
    }
}

fn routes(state: AdminState) -> Router {
    Router::new()
        .route("/livez", get(health::livez))
        .route("/readyz", get(health::readyz))
        .route("/healthz", get(health::livez))
        .route("/metrics", get(metrics))
        .route("/api/v1/get/{*resource}", get(objects::get))
        .route("/api/v1/sources", get(sources::list))
        .route("/api/v1/sources/{id}", get(source::get))
        .route("/api/v1/plugins", get(plugins::list))
        .route("/api/v1/plugins/{name}/resume", post(plugins::resume))
        .route("/api/v1/plugins/{name}/requeue", post(plugins::requeue))
        .route("/api/v1/dead-letters", get(dead_letters::list))
        .route("/api/v1/configuration", get(configuration::get))
        .fallback(not_found)
        .with_state(state)
}

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

async fn not_found() -> (StatusCode, &'static str) {
    let routes = "there are: /livez /readyz /metrics /api/v1/get/RESOURCE /api/v1/sources /api/v1/sources/ID /api/v1/plugins /api/v1/dead-letters /api/v1/configuration\n";
    (StatusCode::NOT_FOUND, routes)
}
