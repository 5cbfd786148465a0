//! `informant run` as a library: everything the configuration names, running, until it is stopped in order.
//!
//! ```text
//! FileWatch ─ticks─▶ ConfigKeeper ─Config─▶ Fleet ─orders─▶ ClusterKeeper (one a cluster) ─▶ client
//!                                                  ├─────▶ InformerKeeper (one an informer and cluster) ─▶ NamedInformer ─┐
//!                                                  └─────▶ PluginKeeper (one a plugin) ─▶ Plugin ◀─ listener, index feed
//!                     admin server ─reads─▶ Board ◀─write── keepers
//! ```
//!
//! Informers and the admin server run on the runtime that starts the daemon, guests on another. One that cannot come up
//! keeps nobody else from it. Owns the order in which things stop.

mod at_rest;
mod board;
mod cluster_keeper;
mod clusters;
mod config_keeper;
mod configuration;
mod content;
mod durables;
mod exclude_warnings;
mod file_watch;
mod fleet;
mod informer_keeper;
mod order;
mod plugin_keeper;
mod plugin_spec;
mod served;
mod stop;
mod wiring;

use std::net::SocketAddr;
use std::path::PathBuf;
use std::sync::Arc;

use anyhow::{Context, Result};
use informant_cache::{Catalog, Environment};
use informant_informer::TokioEnvironment;
use informant_plugin_host::{Compiler, HostOptions, PluginHost};
use tokio::net::TcpListener;
use tokio::runtime::Handle;
use tokio_util::sync::CancellationToken;
use tokio_util::task::TaskTracker;

pub use board::{Board, InformerEntry, InformerPhase, Place, Places, PluginEntry, PluginPhase, RunningInformer};
pub use cluster_keeper::{LOGIN_AWAITED_MAX, LOGIN_RETRY_FIRST, LOGIN_RETRY_MAX};
pub use configuration::{Configuration, ReloadResult, Section};
pub use file_watch::{POLL_PERIOD, SETTLE, SETTLE_MAX};
pub use informer_keeper::{DISCOVERY_RETRY_FIRST, DISCOVERY_RETRY_MAX};
pub(crate) use plugin_spec::Wanted;
pub use stop::{STOP_MAX, StopReport};

use crate::admin::{AdminServer, AdminState};
use crate::cluster::ClusterAccess;
use crate::config::Config;
use crate::directories;
use crate::kube_api::ClusterApi;
use crate::metrics::Metrics;
use crate::script_runner;
use config_keeper::ConfigKeeper;
use durables::Durables;
use file_watch::FileWatch;
use fleet::{Fleet, FleetParts};

/// What a daemon is started with.
#[derive(Debug)]
pub struct DaemonOptions {
    /// What to run.
    pub config: Config,
    /// How clusters are reached.
    pub access: ClusterAccess,
    /// Comes before the configuration's `[admin] listen`.
    pub admin_listen: Option<SocketAddr>,
    /// The runtime of the guests; a runtime apart, so that guests delay nobody else.
    pub guests: Handle,
    /// Where components are compiled.
    pub compiler: Compiler,
    /// Where compiled components are kept.
    pub cache_dir: PathBuf,
}

/// Everything that runs.
#[derive(Debug)]
pub struct Daemon {
    board: Board,
    metrics: Metrics,
    admin: AdminServer,
    durables: Durables,
    keepers: TaskTracker,
    stop: CancellationToken,
}

impl Daemon {
    /// Starts everything and returns at once: informers sync and plugins load on their own.
    ///
    /// Takes a runtime of several threads: durable informers wait for a disk in place.
    ///
    /// # Errors
    /// When the admin server cannot listen, or the engine for guests cannot be made.
    pub async fn start(options: DaemonOptions) -> Result<Self> {
        let DaemonOptions {
            config,
            access,
            admin_listen,
            guests,
            compiler,
            cache_dir,
        } = options;
        let listen = admin_listen.unwrap_or(config.admin.listen);
        let listener = TcpListener::bind(listen).await.with_context(|| {
            format!("the admin server cannot listen on {listen}; change `listen` in [admin], or use --admin-listen")
        })?;
        let environment = TokioEnvironment::current(seed());
        let guests_environment: Arc<dyn Environment> = Arc::new(environment.on(guests.clone()));
        let environment: Arc<dyn Environment> = Arc::new(environment);
        let (catalog, metrics, stop) = (Catalog::new(), Metrics::new(), CancellationToken::new());
        let board = Board::new(
            catalog.clone(),
            Configuration::new(config.path.clone(), environment.now()),
        );
        let host = PluginHost::new(HostOptions {
            cache_dir,
            env: guests_environment,
            handle: guests,
            compiler,
            catalog,
            metrics: metrics.plugins.clone(),
            kube: Some(Arc::new(ClusterApi::of(
                board.clusters().clone(),
                Arc::clone(&environment),
            ))),
            script_runner: script_runner::component()?,
        })
        .context("the engine for plugins cannot be made")?;
        let path = config.state.path.clone().or_else(directories::state_file);
        let path = path.unwrap_or_else(|| config.path.with_file_name("state.redb"));
        let durables = Durables::new(path, metrics.state.clone());
        durables
            .begin(&config)
            .await
            .context("what durable informers are to outlive the process by cannot be kept")?;
        metrics.watch(board.clone());
        let keepers = TaskTracker::new();
        let parts = FleetParts {
            board: board.clone(),
            access,
            environment: Arc::clone(&environment),
            host,
            metrics: metrics.clone(),
            durables: durables.clone(),
            tasks: keepers.clone(),
            stop: stop.clone(),
        };
        // What is to be waited for has to be known before anybody can ask whether we are ready.
        keep(&config, parts);
        let admin = AdminServer::start(listener, AdminState::new(board.clone(), metrics.clone(), environment))
            .inspect_err(|_| stop.cancel())?;
        tracing::info!(address = %admin.address(), "admin server listens");
        Ok(Self {
            board,
            metrics,
            admin,
            durables,
            keepers,
            stop,
        })
    }

    /// Where the admin server listens.
    #[must_use]
    pub fn admin_address(&self) -> SocketAddr {
        self.admin.address()
    }

    /// How everything fares.
    #[must_use]
    pub fn board(&self) -> &Board {
        &self.board
    }

    /// The numbers.
    #[must_use]
    pub fn metrics(&self) -> &Metrics {
        &self.metrics
    }
}

/// Starts what the configuration says, and follows it.
fn keep(config: &Config, parts: FleetParts) {
    let (board, metrics) = (parts.board.clone(), parts.metrics.clone());
    let (environment, tasks) = (Arc::clone(&parts.environment), parts.tasks.clone());
    let stop = parts.stop.clone();
    let watch = FileWatch::start(&environment, stop.clone());
    let keeper = ConfigKeeper::new(
        config,
        board,
        Fleet::new(parts),
        watch,
        metrics,
        Arc::clone(&environment),
    );
    environment.spawn("config-keeper", Box::pin(tasks.track_future(keeper.run(stop))));
}

/// Where randomness begins: differs from process to process, so that restarted daemons do not knock all at once.
pub(crate) fn seed() -> u64 {
    use std::hash::{BuildHasher, Hasher};
    std::hash::RandomState::new().build_hasher().finish()
}
