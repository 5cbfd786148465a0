//! Informers and plugins as in a daemon, on one runtime whose clock may be paused: for runs of scenarios.
//!
//! ```text
//! Config ─▶ the daemon's supervisors ─▶ informers ──client──▶ embedded API server, without a socket
//!                                   └─▶ plugins ───▶ KubeApi, HttpClient, KeyValue of the caller
//! ```
//!
//! The wiring is that of [`Daemon`](super::Daemon). It lacks what has no part in the behavior of a plugin: the servers,
//! the Lease and the state database. The clock of a paused runtime moves when nothing is left to do, so nothing here
//! may wait for a socket or for another process: components must be in the cache of compiled components before.

use std::path::PathBuf;
use std::sync::Arc;
use std::time::Duration;

use anyhow::{Context, Result};
use informant_cache::{Catalog, Environment};
use informant_config::Config;
use informant_informer::TokioEnvironment;
use informant_plugin_host::{
    Compiler, HostOptions, HttpClient, KeyValue, KubeApi, PluginHost, PluginObserver, Services,
};
use kube::Client;
use tokio::runtime::Handle;
use tokio::sync::watch;
use tokio_util::sync::{CancellationToken, DropGuard};
use tokio_util::task::TaskTracker;

use super::config_reader::config_channel;
use super::config_supervisor::SupervisorParts;
use super::configuration::Configuration;
use super::durable_state::DurableState;
use super::file_watch::FileWatch;
use super::overrides::ConfigOverrides;
use super::status_registry::StatusRegistry;
use super::supervise;
use crate::activities::Activities;
use crate::cluster::{Cluster, ClusterAccess, ClusterFlags};
use crate::kube_api::ClusterApi;
use crate::metrics::Metrics;
use crate::script_runners;

/// What replaces the outside of a daemon.
pub(crate) struct InProcessParts {
    /// With one cluster, without a name, and without durable informers.
    pub(crate) config: Config,
    /// The client of the cluster.
    pub(crate) client: Client,
    /// Puts itself in front of what sends the plugins' requests to the cluster.
    pub(crate) watch_kube: Box<dyn FnOnce(ClusterApi) -> Arc<dyn KubeApi>>,
    /// None: plugins are denied to use keys.
    pub(crate) key_value: Option<Arc<dyn KeyValue>>,
    pub(crate) http: Arc<dyn HttpClient>,
    pub(crate) observer: Arc<dyn PluginObserver>,
    /// The time of guests at the start, since 1970.
    pub(crate) unix_time: Duration,
    pub(crate) compiler: Compiler,
    pub(crate) cache_dir: PathBuf,
    /// Of random numbers.
    pub(crate) seed: u64,
}

/// Running informers and plugins. They end when it is dropped.
pub(crate) struct InProcess {
    registry: StatusRegistry,
    metrics: Metrics,
    environment: Arc<dyn Environment>,
    files: FileWatch,
    _stop: DropGuard,
}

impl InProcess {
    /// Starts everything on the current runtime, which must have one thread, and returns at once.
    ///
    /// # Errors
    /// If the engine for guests cannot be created.
    pub(crate) fn start(parts: InProcessParts) -> Result<Self> {
        let environment: Arc<dyn Environment> = Arc::new(TokioEnvironment::current(parts.seed));
        let (metrics, stop) = (Metrics::new(), CancellationToken::new());
        let configuration = Configuration::new(parts.config.path.clone(), &parts.config.hash, environment.now());
        let registry = StatusRegistry::new(Catalog::new(), configuration);
        let clusters = ClusterApi::of(registry.clusters().clone(), Arc::clone(&environment));
        let options = HostOptions {
            cache_dir: parts.cache_dir,
            env: Arc::clone(&environment),
            handle: Handle::current(),
            compiler: parts.compiler,
            services: Services {
                catalog: registry.catalog().clone(),
                kube: Some((parts.watch_kube)(clusters)),
                key_value: parts.key_value,
                http: Some(parts.http),
                observer: Some(parts.observer),
                gate: None,
            },
            metrics: metrics.plugins.clone(),
            script_runners: script_runners::sources(&parts.config.script_runners)?,
        };
        let host =
            PluginHost::for_scenario(options, parts.unix_time).context("cannot create the WebAssembly engine")?;
        let files = FileWatch::start(&environment, stop.clone());
        let channel = config_channel(&environment);
        let state_file = parts.config.path.with_file_name("state.redb");
        let supervisors = SupervisorParts {
            effects: None,
            registry: registry.clone(),
            access: ClusterAccess {
                flags: ClusterFlags::default(),
                only_url: None,
                in_process: Some(Arc::new(Cluster::in_process(parts.client))),
            },
            activities: Activities::default(),
            reloads: watch::Sender::new(0).subscribe(),
            environment: Arc::clone(&environment),
            host,
            metrics: metrics.clone(),
            // Opened by durable informers only.
            durables: DurableState::new(state_file, None, metrics.state.clone()),
            watch: files.clone(),
            checks: channel.checks.clone(),
            tasks: TaskTracker::new(),
            stop: stop.clone(),
        };
        supervise(&parts.config, ConfigOverrides::default(), supervisors, channel);
        Ok(Self {
            registry,
            metrics,
            environment,
            files,
            _stop: stop.drop_guard(),
        })
    }

    /// Checks config.toml and all plugin files for changes now.
    pub(crate) fn reload(&self) {
        self.files.check_all();
    }

    pub(crate) fn registry(&self) -> &StatusRegistry {
        &self.registry
    }

    pub(crate) fn metrics(&self) -> &Metrics {
        &self.metrics
    }

    pub(crate) fn environment(&self) -> &Arc<dyn Environment> {
        &self.environment
    }
}
