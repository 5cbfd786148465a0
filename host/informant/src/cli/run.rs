//! `informant run`: runs the daemon on two runtimes, until a signal ends it.

mod progress;

use std::net::SocketAddr;
use std::num::NonZero;
use std::path::PathBuf;
use std::sync::Mutex;
use std::thread;

use anyhow::{Context, Result, bail};
use clap::Args;
use informant_config::{Config, EXPOSED_HELP, exposed};
use tokio::runtime::{Builder, Runtime};

use super::{ClusterArgs, ConfigFlag};
use crate::activities::Activities;
use crate::admin;
use crate::cluster::{ClusterAccess, end_login_programs};
use crate::config_file;
use crate::daemon::{ConfigOverrides, Daemon, DaemonOptions, STOP_MAX};
use crate::directories;
use crate::exit::Exit;
use crate::guests::compiler;
use crate::signals::SignalThread;
use crate::sync::lock;

/// `informant run`.
#[derive(Debug, Args)]
pub(super) struct RunArgs {
    #[command(flatten)]
    config: ConfigFlag,
    /// Address of the admin server; port 0 picks a free port [default: [admin] in the configuration, 127.0.0.1:8089]
    #[arg(long, value_name = "ADDRESS:PORT")]
    admin_listen: Option<SocketAddr>,
    /// Address of probes and metrics; port 0 picks a free port [default: [health] in the configuration, [::]:8090]
    #[arg(long, value_name = "ADDRESS:PORT")]
    health_listen: Option<SocketAddr>,
    /// Directory for compiled components [default: $XDG_CACHE_HOME/informant, ~/.cache/informant]
    #[arg(long, value_name = "DIRECTORY", env = "INFORMANT_CACHE_DIR", hide_env_values = true)]
    cache_dir: Option<PathBuf>,
    #[command(flatten)]
    cluster: ClusterArgs,
}

pub(super) fn run(args: &RunArgs) -> Result<Exit> {
    // First, so that a signal ends the process whatever hangs afterwards: a file, a login, a disk.
    let activities = Activities::default();
    let signals = SignalThread::start(activities.clone()).context("cannot listen for signals")?;
    let config = config_file::load(&args.config.config)?;
    for warning in &config.warnings {
        config_file::log_warning(warning);
    }
    if let Some(exposed) = args
        .admin_listen
        .and_then(exposed)
        .filter(|_| config.admin.tls.is_none())
    {
        bail!("--admin-listen: {exposed}; {EXPOSED_HELP}");
    }
    let cores = thread::available_parallelism().map_or(1, NonZero::get);
    check_threads(informer_threads(cores) + cores + OTHER_THREADS)?;
    let informers = runtime("informer", informer_threads(cores))?;
    // Busy guests must not starve informers: they get their own threads.
    let guests = runtime("guest", cores)?;
    let exit = informers.block_on(serve(args, config, &guests, signals, activities));
    end_login_programs();
    // Do not wait: accepted events were delivered, and a guest may never return.
    guests.shutdown_background();
    informers.shutdown_background();
    exit
}

async fn serve(
    args: &RunArgs,
    config: Config,
    guests: &Runtime,
    mut signals: SignalThread,
    activities: Activities,
) -> Result<Exit> {
    let access = ClusterAccess::new(&config, args.cluster.flags()).await?;
    let clusters: Vec<_> = match &access.only_url {
        Some(url) => vec![url.as_str()],
        None => config.clusters.keys().map(String::as_str).collect(),
    };
    let clusters = clusters.join(", ");
    let (informers, plugins) = (config.informers.len(), config.plugins.len());
    tracing::info!(config = %config.path.display(), %clusters, informers, plugins, "informant starting");
    let daemon = Daemon::start(DaemonOptions {
        config,
        access,
        admin_listen: args.admin_listen,
        health_listen: args.health_listen,
        guests: guests.handle().clone(),
        compiler: compiler()?,
        routes: admin::routes,
        is_ready: admin::is_ready,
        cache_dir: args.cache_dir.clone().unwrap_or_else(directories::cache),
        activities,
        overrides: ConfigOverrides::default(),
        observer: None,
    })
    .await?;
    signals.daemon_runs();
    let progress = tokio::spawn(progress::show(daemon.registry().clone()));
    let mut reloads = signals.reloads();
    let signal = loop {
        tokio::select! {
            biased;
            signal = signals.stop_requested() => break signal,
            Ok(()) = reloads.changed() => {
                tracing::info!(signal = "SIGHUP", "reloading configuration, plugin files and credentials");
                daemon.reload();
            }
        }
    };
    progress.abort();
    // Its line is gone then. An error says that it was aborted.
    let _ = progress.await;
    tracing::info!(
        %signal,
        within_seconds = STOP_MAX.as_secs(),
        "stopping gracefully; a second signal ends the process immediately"
    );
    let report = daemon.stop(STOP_MAX).await;
    tracing::info!(undelivered = report.undelivered, retrying = report.retrying, "stopped");
    Ok(Exit::Done)
}

/// The threads for informers: half of the cores. A frame passes through several tasks, and waking
/// a task on another thread costs more than the task itself; idle threads also spread objects over more heaps, which
/// costs memory. Guests compute, so they may use all cores.
pub(super) const fn informer_threads(cores: usize) -> usize {
    if cores < 4 { 1 } else { cores / 2 }
}

/// Threads of a daemon besides those of its two runtimes: signals, the clock of the guests, three servers, the watch
/// on files, and some for files and look-ups.
pub(super) const OTHER_THREADS: usize = 9;

/// Whether the system permits so many threads more. The runtimes panic where one is missing later.
pub(super) fn check_threads(count: usize) -> Result<()> {
    let gate = Mutex::new(());
    let started = thread::scope(|scope| {
        // All of them are there at once.
        let _closed = lock(&gate);
        let start = |_| thread::Builder::new().spawn_scoped(scope, || drop(lock(&gate)));
        (0..count).try_for_each(|number| start(number).map(drop))
    });
    started.with_context(|| {
        format!(
            "cannot start {count} threads, which the daemon needs; raise the limit of threads (the container's pids, \
             ulimit -u) or of memory (ulimit -v)"
        )
    })
}

pub(super) fn runtime(name: &'static str, threads: usize) -> Result<Runtime> {
    Builder::new_multi_thread()
        .worker_threads(threads)
        .thread_name(name)
        .enable_all()
        .build()
        .with_context(|| format!("cannot start the {name} runtime"))
}
