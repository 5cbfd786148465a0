//! `informant run` as a library: everything the configuration names, running, until it is stopped in order.
//!
//! ```text
//! Config ─▶ Board ◀─ InformerKeeper (one an informer) ─▶ SharedInformer ─┐
//!             ▲   ◀─ PluginKeeper (one a plugin) ─▶ Plugin ◀─ listener, index feed
//!             └──── admin server          ▲
//!                               FileWatch ┴ ticks ─▶ ConfigKeeper
//! ```
//!
//! Informers and the admin server run on the runtime that starts the daemon, guests on another. One that cannot come up keeps
//! nobody else from it. Owns the order in which things stop.

mod board;
mod config_keeper;
mod content;
mod file_watch;
mod informer_keeper;
mod plugin_keeper;
mod stop;
mod wiring;

use std::net::SocketAddr;
use std::path::PathBuf;
use std::sync::Arc;

use anyhow::{Context, Result};
use informant_cache::{Catalog, Environment};
use informant_informer::TokioEnvironment;
use informant_plugin_host::{HostOptions, PluginHost};
use tokio::net::TcpListener;
use tokio::runtime::Handle;
use tokio_util::sync::CancellationToken;
use tokio_util::task::TaskTracker;

pub use board::{Board, InformerEntry, InformerPhase, PluginEntry, PluginPhase, RunningInformer};
pub use file_watch::{POLL_PERIOD, SETTLE, SETTLE_MAX};
pub use informer_keeper::{DISCOVERY_RETRY_FIRST, DISCOVERY_RETRY_MAX};
pub use stop::{STOP_MAX, StopReport};

use crate::admin::{AdminServer, AdminState};
use crate::cluster::Cluster;
use crate::config::Config;
use crate::metrics::Metrics;
use config_keeper::ConfigKeeper;
use file_watch::FileWatch;
use informer_keeper::InformerKeeper;
use plugin_keeper::PluginKeeper;

/// What a daemon is started with.
#[derive(Debug)]
pub struct DaemonOptions {
    /// What to run.
    pub config: Config,
    /// Which cluster.
    pub cluster: Cluster,
    /// Comes before the configuration's `[admin] listen`.
    pub admin_listen: Option<SocketAddr>,
    /// The runtime of the guests; a runtime apart, so that guests delay nobody else.
    pub guests: Handle,
    /// Where compiled components are kept.
    pub cache_dir: PathBuf,
}

/// Everything that runs.
#[derive(Debug)]
pub struct Daemon {
    board: Board,
    metrics: Metrics,
    admin: AdminServer,
    keepers: TaskTracker,
    stop: CancellationToken,
}

impl Daemon {
    /// Starts everything and returns at once: informers sync and plugins load on their own.
    ///
    /// # Errors
    /// When the admin server cannot listen, or the engine for guests cannot be made.
    pub async fn start(options: DaemonOptions) -> Result<Self> {
        let DaemonOptions {
            config,
            cluster,
            admin_listen,
            guests,
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
        let host = PluginHost::new(HostOptions {
            cache_dir,
            env: guests_environment,
            handle: guests,
            catalog: catalog.clone(),
            metrics: metrics.plugins.clone(),
        })
        .context("the engine for plugins cannot be made")?;
        let board = Board::new(&config, catalog);
        metrics.watch(board.clone());
        let admin = AdminServer::start(
            listener,
            AdminState::new(board.clone(), metrics.clone(), Arc::clone(&environment)),
        )?;
        tracing::info!(address = %admin.address(), "admin server listens");
        let daemon = Self {
            board,
            metrics,
            admin,
            keepers: TaskTracker::new(),
            stop,
        };
        daemon.keep_informers(&cluster, &environment);
        daemon.keep_files(&config, &host, &environment);
        Ok(daemon)
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

    fn keep_informers(&self, cluster: &Cluster, environment: &Arc<dyn Environment>) {
        for entry in self.board.informers() {
            let keeper = InformerKeeper {
                entry: Arc::clone(entry),
                cluster: cluster.clone(),
                environment: Arc::clone(environment),
                catalog: self.board.catalog().clone(),
                metrics: self.metrics.clone(),
                stop: self.stop.clone(),
            };
            self.spawn(environment, "informer-keeper", keeper.run());
        }
    }

    fn keep_files(&self, config: &Config, host: &PluginHost, environment: &Arc<dyn Environment>) {
        let components = config.plugins.values().map(|plugin| plugin.component.value.clone());
        let files = components.chain([config.path.clone()]);
        let watch = FileWatch::start(files, environment, self.stop.clone());
        for entry in self.board.plugins() {
            let keeper = PluginKeeper {
                entry: Arc::clone(entry),
                board: self.board.clone(),
                host: host.clone(),
                metrics: self.metrics.clone(),
                ticks: watch.ticks(),
                stop: self.stop.clone(),
            };
            self.spawn(environment, "plugin-keeper", keeper.run());
        }
        let keeper = ConfigKeeper {
            path: config.path.clone(),
            metrics: self.metrics.clone(),
            ticks: watch.ticks(),
            stop: self.stop.clone(),
        };
        self.spawn(environment, "config-keeper", keeper.run());
    }

    fn spawn(
        &self,
        environment: &Arc<dyn Environment>,
        name: &'static str,
        task: impl Future<Output = ()> + Send + 'static,
    ) {
        environment.spawn(name, Box::pin(self.keepers.track_future(task)));
    }
}

/// Where jitter begins: differs from process to process, so that restarted daemons do not knock all at once.
fn seed() -> u64 {
    use std::hash::{BuildHasher, Hasher};
    std::hash::RandomState::new().build_hasher().finish()
}
