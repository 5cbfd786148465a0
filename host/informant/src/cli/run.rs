//! `informant run`: the daemon on two runtimes, until a signal ends it.

use std::net::SocketAddr;
use std::num::NonZero;
use std::path::PathBuf;

use anyhow::{Context, Result};
use clap::Args;
use tokio::runtime::{Builder, Runtime};

use super::{ClusterArgs, ConfigFlag, Exit, compiler, output};
use crate::cluster::ClusterAccess;
use crate::config::Config;
use crate::daemon::{Daemon, DaemonOptions, STOP_MAX};
use crate::directories;
use crate::signals::{Signal, Signals};

/// `informant run`.
#[derive(Debug, Args)]
pub(super) struct RunArgs {
    #[command(flatten)]
    config: ConfigFlag,
    /// Where the admin server listens; port 0 takes a free one [default: [admin] in the configuration, 127.0.0.1:8089]
    #[arg(long, value_name = "ADDRESS:PORT")]
    admin_listen: Option<SocketAddr>,
    /// Where compiled components are kept [default: $XDG_CACHE_HOME/informant, ~/.cache/informant]
    #[arg(long, value_name = "FOLDER", env = "INFORMANT_CACHE_DIR", hide_env_values = true)]
    cache_dir: Option<PathBuf>,
    #[command(flatten)]
    cluster: ClusterArgs,
}

pub(super) fn run(args: &RunArgs) -> Result<Exit> {
    let config = Config::load(&args.config.config)?;
    for warning in &config.warnings {
        output::note(&warning.to_string());
    }
    let cores = std::thread::available_parallelism().map_or(1, NonZero::get);
    let informers = runtime("informer", informer_threads(cores))?;
    // Guests that spin must not keep informers and the admin server from running: they get threads of their own.
    let guests = runtime("guest", cores)?;
    let exit = informers.block_on(serve(args, config, &guests));
    // Nothing is waited for: what had to be delivered was, and a guest may never come back.
    guests.shutdown_background();
    informers.shutdown_background();
    exit
}

async fn serve(args: &RunArgs, config: Config, guests: &Runtime) -> Result<Exit> {
    // Before anything is started: a signal at any time ends in order.
    let mut signals = Signals::listen().context("signals cannot be listened to")?;
    let access = ClusterAccess::new(&config, args.cluster.flags()).await?;
    let clusters: Vec<_> = match &access.connected {
        Some(cluster) => vec![cluster.url.as_str()],
        None => config.clusters.keys().map(String::as_str).collect(),
    };
    let clusters = clusters.join(", ");
    let (informers, plugins) = (config.informers.len(), config.plugins.len());
    tracing::info!(config = %config.path.display(), %clusters, informers, plugins, "informant starts");
    let daemon = Daemon::start(DaemonOptions {
        config,
        access,
        admin_listen: args.admin_listen,
        guests: guests.handle().clone(),
        compiler: compiler()?,
        cache_dir: args.cache_dir.clone().unwrap_or_else(directories::cache),
    })
    .await?;
    let signal = signals.next().await;
    tracing::info!(%signal, within_seconds = STOP_MAX.as_secs(), "stopping: what was accepted is delivered; a second signal ends at once");
    tokio::select! {
        biased;
        signal = signals.next() => end_at_once(signal),
        report = daemon.stop(STOP_MAX) => {
            tracing::info!(undelivered = report.undelivered, "stopped");
            Ok(Exit::Done)
        }
    }
}

/// Ends the process without waiting for anybody, as a shell expects of a process that a signal ended.
fn end_at_once(signal: Signal) -> ! {
    tracing::warn!(%signal, "ended at once: events that were accepted may be undelivered");
    std::process::exit(signal.exit_code())
}

/// The threads of informers and the admin server on a machine of so many cores: half of them. What a frame brings
/// passes through several tasks, and waking one on another thread costs more than the task does; more threads than are
/// busy also spread objects over more heaps, which costs memory. Guests, which compute, may have all cores.
const fn informer_threads(cores: usize) -> usize {
    if cores < 4 { 1 } else { cores / 2 }
}

fn runtime(name: &'static str, threads: usize) -> Result<Runtime> {
    Builder::new_multi_thread()
        .worker_threads(threads)
        .thread_name(name)
        .enable_all()
        .build()
        .with_context(|| format!("the {name} runtime cannot be made"))
}
