//! `informant run` as a library: starts everything that the configuration names and stops it in order.
//!
//! ```text
//! FileWatch ─ticks─▶ ConfigReader ─text─▶ ConfigWatcher ─Config─▶ ConfigSupervisor
//!                      ├─commands─▶ ClusterSupervisor (one per cluster) ─▶ client
//!                      ├─commands─▶ InformerSupervisor (one per informer and cluster) ─▶ NamedInformer ─┐
//!                      └─commands─▶ PluginSupervisor (one per plugin) ─▶ Plugin ◀─ listener, index feed ┘
//! FileWatch ─ticks─▶ PluginSupervisor ◀─ Acting ◀─ Replica ─▶ Leases: one of several replicas acts
//!                                                 Announcer ─▶ Lease: without `[ha]` a second process is noticed
//!          health and admin servers ─reads─▶ StatusRegistry ◀─write── supervisors
//! ```
//!
//! Informers run on the runtime that starts the daemon, guests on another one, and each server on a thread of its own.
//! A cluster, informer or plugin that cannot start does not block the others. Owns the shutdown order.

mod acting;
mod admin_certificate;
mod announcement;
mod cache_budget;
mod call_barrier;
mod cluster_registry;
mod cluster_supervisor;
mod config_reader;
mod config_supervisor;
mod config_watcher;
mod configuration;
mod durable_state;
mod exclude_warnings;
mod file_content;
mod file_watch;
mod ha;
pub(crate) mod history;
mod in_process;
mod informer_supervisor;
mod overrides;
mod plugin_attachments;
mod plugin_content;
mod plugin_keys;
mod plugin_supervisor;
mod resource_follower;
mod sampler;
mod section_command;
mod shared_state;
mod shared_term;
mod status_registry;
mod stop;

use std::net::{SocketAddr, TcpListener};
use std::path::{Path, PathBuf};
use std::sync::Arc;

use anyhow::{Context, Result};
use axum::Router;
use futures::FutureExt as _;
use informant_cache::{CacheBudget, Catalog, Environment};
use informant_informer::TokioEnvironment;
use informant_plugin_host::{ActingGate, Compiler, HostOptions, KeyValue, PluginHost, PluginObserver, Services};
use tokio::runtime::Handle;
use tokio::sync::watch;
use tokio_rustls::TlsAcceptor;
use tokio_util::sync::CancellationToken;
use tokio_util::task::TaskTracker;

pub(crate) use admin_certificate::CertificateStatus;
pub(crate) use configuration::{Announcement, Configuration};
pub use file_watch::SETTLE;
pub(crate) use file_watch::{FileTicks, FileWatch};
pub(crate) use in_process::{InProcess, InProcessParts};
pub use overrides::ConfigOverrides;
pub(crate) use status_registry::{
    InformerEntry, InformerPhase, InformerStatus, InformerStatuses, PluginEntry, PluginPhase, ReplicasStatus,
    RunningInformer, StatusRegistry,
};
pub(crate) use stop::STOP_MAX;
pub use stop::ShutdownReport;

use crate::activities::Activities;
use crate::cluster::{ClusterAccess, EffectGate};
use crate::directories;
use crate::guests::compile_memory_bytes;
use crate::http_client::{HttpSender, SystemResolver};
use crate::kube_api::ClusterApi;
use crate::metrics::Metrics;
use crate::script_runners;
use crate::server::{ConnectionLimits, HttpServer, LocalServer, LocalSocket, SocketProblem, bind};
use acting::Acting;
use admin_certificate::{IdentityParts, server_identity};
use announcement::{Announcer, AnnouncerParts};
use config_reader::{ConfigChannel, config_channel};
use config_supervisor::{ConfigSupervisor, SupervisorParts};
use config_watcher::ConfigWatcher;
use durable_state::DurableState;
pub(crate) use ha::IsReady;
use ha::{ProcessGate, Replica, ReplicaParts, ReplicaPlace};
use informant_config::{ADMIN_SOCKET_DEFAULT, AdminSection, Config, KeyStore};
use plugin_keys::PluginKeys;
use shared_state::SharedState;

/// What the servers of a daemon answer.
pub struct Routes {
    /// On the health port.
    pub health: Router,
    /// On the admin port.
    pub admin: Router,
    /// On the admin socket, whose callers are this user.
    pub local: Router,
}

/// Makes the routes of a daemon: the status of everything, its metrics, its clock and `[admin]`.
pub(crate) type MakeRoutes = fn(StatusRegistry, Metrics, Arc<dyn Environment>, &AdminSection) -> Routes;

/// The options of [`Daemon::start`].
#[derive(Debug)]
pub struct DaemonOptions {
    pub config: Config,
    pub access: ClusterAccess,
    /// Overrides the configuration's `[admin] listen`.
    pub admin_listen: Option<SocketAddr>,
    /// Overrides the configuration's `[health] listen`.
    pub health_listen: Option<SocketAddr>,
    /// The runtime of the guests, a separate one, so that guests do not delay informers or the admin server.
    pub guests: Handle,
    /// Compiles components.
    pub compiler: Compiler,
    /// Where compiled components are cached.
    pub cache_dir: PathBuf,
    /// What the servers answer, from the status of everything.
    pub routes: MakeRoutes,
    /// Whether everything that the configuration requires is ready.
    pub is_ready: IsReady,
    /// Lists what is in progress, for a stop that hangs.
    pub activities: Activities,
    /// Set in this and every later version of the configuration.
    pub overrides: ConfigOverrides,
    /// Who watches what plugins do.
    pub observer: Option<Arc<dyn PluginObserver>>,
}

#[derive(Debug)]
pub struct Daemon {
    registry: StatusRegistry,
    metrics: Metrics,
    health: HttpServer,
    admin: HttpServer,
    admin_socket: Option<LocalServer>,
    presence: Presence,
    durables: DurableState,
    activities: Activities,
    supervisors: TaskTracker,
    files: FileWatch,
    reloads: watch::Sender<u64>,
    stop: CancellationToken,
}

/// How other processes know of this one.
#[derive(Debug)]
enum Presence {
    /// It acts alone, and a second process is noticed.
    Announced(Announcer),
    /// It is one of several replicas.
    Replica(Replica),
}

impl Presence {
    fn start(replica: Option<ReplicaParts>, alone: impl FnOnce() -> AnnouncerParts) -> Self {
        match replica {
            Some(parts) => Self::Replica(Replica::start(parts)),
            None => Self::Announced(Announcer::start(alone())),
        }
    }
}

impl Daemon {
    /// Starts everything and returns at once: informers sync and plugins load on their own.
    /// Needs a multi-threaded runtime: durable informers block in place while they wait for the disk.
    ///
    /// # Errors
    /// When the admin server cannot listen, the engine for guests cannot be created, or the state database cannot be
    /// opened.
    pub async fn start(mut options: DaemonOptions) -> Result<Self> {
        options.overrides.apply(&mut options.config);
        let config = &options.config;
        let admin = listen("admin", options.admin_listen.unwrap_or(config.admin.listen))?;
        let health = listen("health", options.health_listen.unwrap_or(config.health.listen))?;
        let socket = admin_socket(&config.admin)?;
        let clock = TokioEnvironment::current(seed()).with_boot_clock();
        let guests: Arc<dyn Environment> = Arc::new(clock.on(options.guests.clone()));
        let environment: Arc<dyn Environment> = Arc::new(clock);
        let (metrics, stop) = (Metrics::new(), CancellationToken::new());
        let registry = StatusRegistry::new(
            Catalog::with_budget(CacheBudget::new(cache_budget::max_bytes(&config.cache))),
            Configuration::new(config.path.clone(), &config.hash, environment.now()),
        );
        let durables = open_state(&options, &metrics).await?;
        let place = ReplicaPlace::of(config, &options.access)?;
        let gate = place.is_some().then(|| stand_by(&registry, &environment));
        let shared = shared_state(config, &metrics, &environment);
        let keys = PluginKeys::of(config, &durables, shared.as_ref());
        let runtimes = (guests, &environment);
        let effects = gate.clone().map(|gate| gate as Arc<dyn ActingGate>);
        let host = plugin_host(&options, runtimes, &registry, &metrics, keys, effects.clone())?;
        let supervisors = TaskTracker::new();
        if config.key_store() == KeyStore::File {
            let open = durables
                .clone()
                .open_for_keys(Arc::clone(&environment), options.activities.clone());
            let open = stop.clone().run_until_cancelled_owned(open);
            environment.spawn("state-database", Box::pin(supervisors.track_future(open.map(drop))));
        }
        let sampler = sampler::run(registry.clone(), stop.clone());
        environment.spawn("history", Box::pin(supervisors.track_future(sampler)));
        let files = FileWatch::start(&environment, stop.clone());
        let channel = config_channel(&environment);
        let reloads = watch::Sender::new(0);
        let parts = SupervisorParts {
            registry: registry.clone(),
            access: options.access,
            effects,
            activities: options.activities.clone(),
            reloads: reloads.subscribe(),
            environment: Arc::clone(&environment),
            host,
            metrics: metrics.clone(),
            durables: durables.clone(),
            watch: files.clone(),
            checks: channel.checks.clone(),
            tasks: supervisors.clone(),
            stop: stop.clone(),
        };
        // The registry has to know what readiness waits for before the first readiness request.
        supervise(config, options.overrides, parts, channel);
        let identity = IdentityParts {
            environment: Arc::clone(&environment),
            watch: files.clone(),
            registry: registry.clone(),
            metrics: metrics.clone(),
            stop: stop.clone(),
        };
        let tls = admin_tls(config, &admin, identity).await;
        let tls = tls.inspect_err(|_| stop.cancel())?;
        let clock = Arc::clone(&environment);
        let routes = (options.routes)(registry.clone(), metrics.clone(), clock, &config.admin);
        let servers = serve(routes, health, (admin, tls), socket, &metrics).inspect_err(|_| stop.cancel())?;
        let replica = place.zip(gate).map(|(place, gate)| ReplicaParts {
            place,
            environment: Arc::clone(&environment),
            registry: registry.clone(),
            gate,
            shared,
            is_ready: options.is_ready,
            address: reachable_address(servers.admin.address()),
        });
        let presence = Presence::start(replica, || AnnouncerParts {
            environment,
            registry: registry.clone(),
            metrics: metrics.daemon.clone(),
        });
        Ok(Self {
            registry,
            metrics,
            health: servers.health,
            admin: servers.admin,
            admin_socket: servers.admin_socket,
            presence,
            durables,
            activities: options.activities,
            supervisors,
            files,
            reloads,
            stop,
        })
    }

    /// Checks config.toml and all plugin files for changes now, as if each of them had been written, and reads the
    /// credentials of clusters again. Returns at once.
    pub fn reload(&self) {
        self.files.check_all();
        self.reloads.send_modify(|number| *number += 1);
    }

    /// Where the admin server listens.
    #[must_use]
    pub fn admin_address(&self) -> SocketAddr {
        self.admin.address()
    }

    /// The path of the admin socket, if there is one.
    #[must_use]
    pub fn admin_socket(&self) -> Option<&Path> {
        self.admin_socket.as_ref().map(LocalServer::path)
    }

    /// Where probes and metrics are served.
    #[must_use]
    pub fn health_address(&self) -> SocketAddr {
        self.health.address()
    }

    /// The status of clusters, informers and plugins.
    #[must_use]
    pub fn registry(&self) -> &StatusRegistry {
        &self.registry
    }

    #[must_use]
    pub fn metrics(&self) -> &Metrics {
        &self.metrics
    }
}

/// Listens for the server of a section; the error names the key and the flag.
fn listen(section: &str, address: SocketAddr) -> Result<TcpListener> {
    bind(address).with_context(|| {
        format!(
            "the {section} server cannot listen on {address}; change `listen` in [{section}], or use --{section}-listen"
        )
    })
}

/// What plugins remember, if it is in Secrets for all replicas.
fn shared_state(config: &Config, metrics: &Metrics, environment: &Arc<dyn Environment>) -> Option<SharedState> {
    (config.key_store() == KeyStore::Secrets).then(|| {
        let group_interval = config.state.group_interval;
        SharedState::new(group_interval, metrics.shared_state.clone(), Arc::clone(environment))
    })
}

/// This process is one of several replicas: it stands by until the Lease says otherwise. Returns its gate.
fn stand_by(registry: &StatusRegistry, environment: &Arc<dyn Environment>) -> Arc<ProcessGate> {
    registry.set_acting(Acting::No);
    registry.set_not_joined("it has just started".into());
    // Before the first source begins.
    ha::keep_deletes(registry.catalog(), environment.now());
    Arc::new(ProcessGate::closed(registry.catalog().clone(), Arc::clone(environment)))
}

/// The host of all plugins, on the runtime of the guests.
fn plugin_host(
    options: &DaemonOptions,
    (guests, environment): (Arc<dyn Environment>, &Arc<dyn Environment>),
    registry: &StatusRegistry,
    metrics: &Metrics,
    keys: Option<PluginKeys>,
    gate: EffectGate,
) -> Result<PluginHost> {
    let clusters = ClusterApi::of(registry.clusters().clone(), Arc::clone(environment));
    let host = PluginHost::new(HostOptions {
        cache_dir: options.cache_dir.clone(),
        env: guests,
        handle: options.guests.clone(),
        compiler: options.compiler.clone(),
        services: Services {
            catalog: registry.catalog().clone(),
            kube: Some(Arc::new(clusters)),
            key_value: keys.map(|keys| Arc::new(keys) as Arc<dyn KeyValue>),
            http: Some(Arc::new(HttpSender::new(
                &options.config.http,
                SystemResolver,
                Arc::clone(environment),
            ))),
            observer: Some(registry.effects().recorder(options.observer.clone())),
            gate,
        },
        metrics: metrics.plugins.clone(),
        script_runners: script_runners::sources(&options.config.script_runners)?,
    })
    .context("cannot create the WebAssembly engine")?;
    host.set_compile_memory(compile_memory_bytes(&options.config.all_plugins));
    Ok(host)
}

/// Opens the state database if an informer needs it to start. A stop that hangs names it while the disk does not
/// respond.
async fn open_state(options: &DaemonOptions, metrics: &Metrics) -> Result<DurableState> {
    let (config, activities) = (&options.config, &options.activities);
    let path = directories::state_path(config);
    // All configurations of a user have the same default, and each deletes what the other's informers and plugins left.
    let owner = config
        .state
        .path
        .is_none()
        .then(|| directories::real_folder_of(&config.path));
    let owner = owner.map(|owner| owner.display().to_string());
    let durables = DurableState::new(path, owner, metrics.state.clone());
    {
        let _activity = activities.begin("state database: open");
        durables.open_if_needed(config).await.context("state database")?;
    }
    let metrics = metrics.state.clone();
    activities.add_probe(move || {
        let age = metrics.write_in_progress()?;
        Some(("state database: write and fsync".to_owned(), age))
    });
    Ok(durables)
}

/// TLS of the admin server, if it is configured.
async fn admin_tls(config: &Config, listener: &TcpListener, parts: IdentityParts) -> Result<Option<TlsAcceptor>> {
    let Some(tls) = &config.admin.tls else {
        return Ok(None);
    };
    let identity = server_identity(&tls.value, &config.admin.hosts, listener.local_addr()?, parts).await;
    let acceptor = identity.context("cannot set up TLS for the admin server")?.acceptor();
    Ok(Some(acceptor.context("cannot set up TLS for the admin server")?))
}

/// The admin socket. Without `socket` in the file there is none where the default has no place.
fn admin_socket(section: &AdminSection) -> Result<Option<LocalSocket>> {
    let path = section.socket.as_deref().unwrap_or(Path::new(ADMIN_SOCKET_DEFAULT));
    match LocalSocket::bind(path) {
        Err(problem) if section.socket.is_none() && !matches!(problem, SocketProblem::InUse { .. }) => {
            tracing::info!(reason = %problem, "no admin socket");
            Ok(None)
        }
        bound => bound.map(Some).context("[admin] socket"),
    }
}

/// Where other machines reach the admin server, as `ADDRESS:PORT`; empty if they do not. A pod knows its address from
/// the environment variable `POD_IP`.
fn reachable_address(listening: SocketAddr) -> Arc<str> {
    if listening.ip().is_loopback() {
        return "".into();
    }
    let address = match listening.ip().is_unspecified() {
        true => std::env::var("POD_IP").ok().and_then(|address| address.parse().ok()),
        false => Some(listening.ip()),
    };
    let address = address.map(|address| SocketAddr::new(address, listening.port()).to_string());
    address.unwrap_or_default().into()
}

struct Servers {
    health: HttpServer,
    admin: HttpServer,
    admin_socket: Option<LocalServer>,
}

fn serve(
    routes: Routes,
    health: TcpListener,
    (admin, tls): (TcpListener, Option<TlsAcceptor>),
    socket: Option<LocalSocket>,
    metrics: &Metrics,
) -> Result<Servers> {
    let start = |name, listener, routes, limits, tls| {
        HttpServer::start(name, listener, routes, limits, tls, &metrics.servers)
            .with_context(|| format!("cannot start the {name} server"))
    };
    let health_limits = ConnectionLimits::of_health();
    let with_tls = tls.is_some();
    let health = start("health", health, routes.health, health_limits, None)?;
    let admin = start("admin", admin, routes.admin, ConnectionLimits::default(), tls)?;
    tracing::info!(address = %health.address(), "health server listening");
    tracing::info!(address = %admin.address(), tls = with_tls, "admin server listening");
    let local = socket.map(|socket| LocalServer::start("admin-socket", socket, routes.local, &metrics.servers));
    let admin_socket = local
        .transpose()
        .context("cannot start the server of the admin socket")?;
    if let Some(socket) = &admin_socket {
        tracing::info!(path = %socket.path().display(), "admin socket listening");
    }
    Ok(Servers {
        health,
        admin,
        admin_socket,
    })
}

/// Starts what the configuration names and follows its changes.
fn supervise(config: &Config, overrides: ConfigOverrides, parts: SupervisorParts, channel: ConfigChannel) {
    let (registry, metrics) = (parts.registry.clone(), parts.metrics.clone());
    let (environment, tasks) = (Arc::clone(&parts.environment), parts.tasks.clone());
    let stop = parts.stop.clone();
    let ticks = parts.watch.subscribe(&config.path);
    let (reader, texts) = channel.reader((config.path.clone(), config.hash), registry.clone(), ticks);
    let supervisor = ConfigSupervisor::new(parts);
    let watcher = ConfigWatcher::new(
        config,
        overrides,
        registry,
        supervisor,
        texts,
        metrics,
        Arc::clone(&environment),
    );
    let run = async move {
        tokio::select! {
            biased;
            () = stop.cancelled() => {}
            () = watcher.run() => {}
            () = reader.run() => {}
        }
    };
    environment.spawn("config-watcher", Box::pin(tasks.track_future(run)));
}

/// Runs `work` until it ends, or until `stop`, which comes first.
async fn until(stop: CancellationToken, work: impl Future<Output = ()>) {
    tokio::select! {
        biased;
        () = stop.cancelled() => {}
        () = work => {}
    }
}

/// Waits for a future that there may not be: then forever.
pub(crate) async fn or_never<F: Future>(future: Option<F>) -> F::Output {
    match future {
        Some(future) => future.await,
        None => std::future::pending().await,
    }
}

/// The random seed. Differs from process to process, so that daemons restarted together do not reconnect together.
pub(crate) fn seed() -> u64 {
    use std::hash::{BuildHasher, Hasher};
    std::hash::RandomState::new().build_hasher().finish()
}
