//! `informant dev`: runs a plugin while it is being written.
//!
//! ```text
//! sources ──save──▶ Builds ──▶ component ──▶ Daemon: swaps it in ──▶ calls, effects, log on stdout
//! objects ──save──▶ embedded API server ──watch──▶ informers ┘
//! ```
//!
//! The daemon is that of `informant run`, in this process, and so are the ways in which it applies changed files. This
//! command adds the API server, the builds, a configuration where there is none, and the stream. It acts on a cluster
//! of the user's own only with a flag, and then in dry run.

mod builds;
mod generated;
mod local_cluster;
mod objects;
mod project;
mod stream;

use std::collections::BTreeSet;
use std::net::SocketAddr;
use std::num::NonZero;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::thread;

use anyhow::{Context, Result, bail, ensure};
use clap::Args;
use informant_cache::Environment;
use informant_config::{EXPOSED_HELP, exposed};
use informant_informer::TokioEnvironment;
use tempfile::TempDir;
use tokio::runtime::Runtime;
use tokio_util::sync::CancellationToken;

use self::builds::{BuildEnd, Builds};
use self::generated::GeneratedConfig;
use self::local_cluster::LocalCluster;
use self::objects::{Changes, Objects};
use self::project::{BuildFlags, Project};
use self::stream::{EffectStream, took};
use super::build::ToolUnusable;
use super::run::{OTHER_THREADS, check_threads, informer_threads, runtime};
use super::{ClusterArgs, Exit, count, output};
use crate::activities::Activities;
use crate::admin;
use crate::cluster::{ClusterAccess, ClusterFlags, end_login_programs};
use crate::config_file;
use crate::daemon::{ConfigOverrides, Daemon, DaemonOptions, FileTicks, FileWatch, STOP_MAX, or_never, seed};
use crate::directories;
use crate::guests::compiler;
use crate::logging::{self, DEV_TARGET};
use crate::signals::SignalThread;

/// `informant dev`.
#[derive(Debug, Args)]
pub(super) struct DevArgs {
    /// Folder, source file or configuration of a plugin
    #[arg(default_value = ".")]
    path: PathBuf,
    /// Manifests of objects for the embedded API server, in YAML or JSON; applied again when they change; may be
    /// repeated
    #[arg(long, value_name = "FILE|DIRECTORY")]
    objects: Vec<PathBuf>,
    /// Call each new version for all objects
    #[arg(long)]
    replay: bool,
    /// Address of the embedded API server (no authentication); port 0 picks a free port
    #[arg(long, value_name = "ADDRESS:PORT", default_value = "127.0.0.1:0")]
    listen: SocketAddr,
    /// File for the kubeconfig of the embedded API server [default: a temporary one]
    #[arg(long, value_name = "FILE")]
    kubeconfig_out: Option<PathBuf>,
    /// Folder for the state database [default: a temporary one]
    #[arg(long, value_name = "DIRECTORY")]
    state: Option<PathBuf>,
    /// Address of the admin server; port 0 picks a free port
    #[arg(long, value_name = "ADDRESS:PORT", default_value = "127.0.0.1:0")]
    admin_listen: SocketAddr,
    /// Directory for compiled components [default: $XDG_CACHE_HOME/informant, ~/.cache/informant]
    #[arg(long, value_name = "DIRECTORY", env = "INFORMANT_CACHE_DIR", hide_env_values = true)]
    cache_dir: Option<PathBuf>,
    /// Of npm packages, bundle what they export under these conditions, for example `browser`
    #[arg(long, value_name = "NAME", value_delimiter = ',')]
    conditions: Vec<String>,
    /// Folder of the SDK for C or Python, as for `informant plugin build`
    #[arg(long, value_name = "DIRECTORY")]
    sdk: Option<PathBuf>,
    /// Use the cluster of the configuration or the environment instead of the embedded API server, in dry run; implied
    /// by --kubeconfig and --context
    #[arg(long, conflicts_with_all = ["objects", "listen", "kubeconfig_out"])]
    no_apiserver: bool,
    /// On a cluster of your own, end the dry run: let the plugin write, and send HTTP requests
    #[arg(long)]
    write: bool,
    #[command(flatten)]
    cluster: ClusterArgs,
}

impl DevArgs {
    /// Whether a cluster of the user's own is used.
    fn is_own_cluster(&self) -> bool {
        self.no_apiserver || self.cluster.kubeconfig.is_some() || self.cluster.context.is_some()
    }

    fn check(&self) -> Result<()> {
        if self.is_own_cluster() {
            ensure!(
                self.objects.is_empty() && self.kubeconfig_out.is_none(),
                "--objects and --kubeconfig-out are for the embedded API server: leave them out, and use `kubectl \
                 apply`"
            );
        } else {
            ensure!(
                !self.write,
                "--write is for a cluster of your own (--no-apiserver, --kubeconfig, --context): on the embedded API \
                 server plugins write anyway"
            );
        }
        if let Some(exposed) = exposed(self.admin_listen) {
            bail!("--admin-listen: {exposed}; {EXPOSED_HELP}");
        }
        Ok(())
    }
}

pub(super) fn run(args: &DevArgs) -> Result<Exit> {
    args.check()?;
    let activities = Activities::default();
    let signals = SignalThread::start(activities.clone()).context("cannot listen for signals")?;
    // From now on, so that temporary files are removed.
    signals.daemon_runs();
    let cores = thread::available_parallelism().map_or(1, NonZero::get);
    check_threads(informer_threads(cores) + cores + OTHER_THREADS)?;
    let informers = runtime("informer", informer_threads(cores))?;
    let guests = runtime("guest", cores)?;
    let exit = informers.block_on(serve(args, &guests, signals, activities));
    end_login_programs();
    // Do not wait: a guest or a build may never return.
    guests.shutdown_background();
    informers.shutdown_background();
    exit
}

async fn serve(args: &DevArgs, guests: &Runtime, mut signals: SignalThread, activities: Activities) -> Result<Exit> {
    let stop = CancellationToken::new();
    let _ends = stop.clone().drop_guard();
    let mut session = Session::new(args, guests, activities, &stop).await?;
    let mut reloads = signals.reloads();
    let ended = loop {
        if session.is_ready && session.daemon.is_none() {
            session.start_daemon().await?;
        }
        tokio::select! {
            biased;
            signal = signals.stop_requested() => break signal,
            Ok(()) = reloads.changed() => session.daemon.iter().for_each(Daemon::reload),
            change = session.next() => session.handle(change).await?,
        }
    };
    say(&format!("stopping ({ended})"));
    if let Some(daemon) = session.daemon.take() {
        daemon.stop(STOP_MAX).await;
    }
    if let Some(builds) = session.builds.take() {
        builds.end().await;
    }
    Ok(Exit::Done)
}

/// What has changed.
enum Change {
    Built(BuildEnd),
    /// The script that a generated configuration loads as it is.
    Script,
    Objects,
}

/// A run of `informant dev`.
struct Session<'a> {
    args: &'a DevArgs,
    guests: &'a Runtime,
    activities: Activities,
    folder: TempDir,
    config: PathBuf,
    cluster: Option<LocalCluster>,
    objects: Objects,
    object_ticks: Vec<FileTicks>,
    builds: Option<Builds>,
    generated: Option<GeneratedConfig>,
    /// Of the script that a generated configuration loads as it is.
    script_ticks: Option<FileTicks>,
    /// The daemon has what it needs to start.
    is_ready: bool,
    daemon: Option<Daemon>,
    /// Hints that were given.
    hints: BTreeSet<String>,
}

impl<'a> Session<'a> {
    async fn new(
        args: &'a DevArgs,
        guests: &'a Runtime,
        activities: Activities,
        stop: &CancellationToken,
    ) -> Result<Self> {
        let folder = tempfile::Builder::new().prefix("informant-dev-").tempdir();
        let folder = folder.context("cannot create a folder for temporary files; check TMPDIR")?;
        let flags = BuildFlags {
            conditions: args.conditions.clone(),
            sdk: args.sdk.clone(),
        };
        let project = Project::find(&args.path, &flags, folder.path())?;
        let environment: Arc<dyn Environment> = Arc::new(TokioEnvironment::current(seed()));
        let watch = FileWatch::start(&environment, stop.clone());
        let generated = project.config.is_none().then(|| GeneratedConfig {
            file: folder.path().join("config.toml"),
            name: project.name.clone(),
            content: project.content.clone(),
        });
        let is_unbuilt = generated.is_some() && project.build.is_none();
        let cluster = match args.is_own_cluster() {
            true => None,
            false => {
                let file = args.kubeconfig_out.clone();
                let file = file.unwrap_or_else(|| folder.path().join("kubeconfig"));
                Some(LocalCluster::start(args.listen, file, stop.clone()).await?)
            }
        };
        let mut session = Self {
            args,
            guests,
            activities,
            config: project.config.unwrap_or_else(|| folder.path().join("config.toml")),
            objects: Objects::new(&args.objects),
            object_ticks: args.objects.iter().map(|path| subscribe(&watch, path)).collect(),
            is_ready: generated.is_none() && project.build.is_none(),
            builds: (project.build).map(|build| Builds::new(build.args, &build.source, build.output, &watch)),
            script_ticks: is_unbuilt.then(|| watch.subscribe(&project.content)),
            generated,
            cluster,
            folder,
            daemon: None,
            hints: BTreeSet::new(),
        };
        session.show_cluster();
        if let Some(cluster) = &session.cluster {
            show(&session.objects.apply(&cluster.server).await?);
        }
        Ok(session)
    }

    fn show_cluster(&self) {
        match &self.cluster {
            Some(LocalCluster {
                address, kubeconfig, ..
            }) => {
                let kubeconfig = kubeconfig.display();
                say(&format!(
                    "embedded API server at http://{address}: kubectl --kubeconfig {kubeconfig} get pods"
                ));
            }
            None if self.args.write => say("your own cluster, and plugins write to it (--write)"),
            None => say("your own cluster, in dry run: what plugins would change is withheld (--write ends that)"),
        }
    }

    /// Waits for the next change. May be dropped at any point.
    async fn next(&mut self) -> Change {
        let objects = self.object_ticks.iter_mut().map(|ticks| Box::pin(ticks.next()));
        let objects: Vec<_> = objects.collect();
        let objects = (!objects.is_empty()).then(|| futures::future::select_all(objects));
        tokio::select! {
            biased;
            _ = or_never(objects) => Change::Objects,
            () = or_never(self.script_ticks.as_mut().map(FileTicks::next)) => Change::Script,
            end = or_never(self.builds.as_mut().map(Builds::next)) => Change::Built(end),
        }
    }

    async fn handle(&mut self, change: Change) -> Result<()> {
        match change {
            Change::Objects => self.apply_objects().await,
            Change::Script => self.update_config("not loaded; save it to try again").await,
            Change::Built(BuildEnd {
                result: Ok(built),
                took: time,
            }) => {
                say(&format!("built {} in {}", built.output.display(), took(time)));
                self.is_ready |= self.generated.is_none();
                self.update_config("no configuration for it").await;
            }
            // No change of the sources helps.
            Change::Built(BuildEnd { result: Err(error), .. }) if error.is::<ToolUnusable>() && !self.is_ready => {
                return Err(error);
            }
            Change::Built(BuildEnd { result: Err(error), .. }) => complain(
                match self.is_ready {
                    true => "not built; the previous version keeps running",
                    false => "not built; save the sources to try again",
                },
                &error,
            ),
        }
        Ok(())
    }

    async fn apply_objects(&mut self) {
        let Some(cluster) = &self.cluster else { return };
        match self.objects.apply(&cluster.server).await {
            Ok(changes) => show(&changes),
            Err(error) => complain("objects not applied", &error),
        }
        self.hint();
    }

    /// Generates the configuration again, if it is generated. A version that is refused while another one runs is
    /// reported by the daemon.
    async fn update_config(&mut self, refused: &str) {
        let Some(generated) = self.generated.clone() else {
            return;
        };
        let kinds = self.objects.kinds();
        let updated = tokio::task::spawn_blocking(move || generated.update(&kinds)).await;
        match updated.unwrap_or_else(|error| Err(error.into())) {
            Ok(text) => {
                self.is_ready = true;
                if let Some(text) = text {
                    say("there is no config.toml, so this one is used; write it to run the plugin elsewhere:");
                    text.lines()
                        .filter(|line| !line.is_empty())
                        .for_each(|line| say(&format!("  {line}")));
                }
                self.hint();
            }
            Err(error) if !self.is_ready => complain(refused, &error),
            Err(_) => {}
        }
    }

    /// Names the objects that no informer watches, once.
    fn hint(&mut self) {
        // What is wrong with the configuration is reported elsewhere.
        let (true, Ok(config)) = (self.is_ready, config_file::load(&self.config)) else {
            return;
        };
        for hint in self.objects.unwatched(&config) {
            if self.hints.insert(hint.clone()) {
                tracing::warn!(target: DEV_TARGET, "{hint}");
            }
        }
    }

    async fn start_daemon(&mut self) -> Result<()> {
        let args = self.args;
        let mut config = config_file::load(&self.config)?;
        for warning in &config.warnings {
            config_file::log_warning(warning);
        }
        let overrides = self.overrides()?;
        overrides.apply(&mut config);
        let flags = match &self.cluster {
            Some(_) => ClusterFlags::default(),
            None => args.cluster.flags(),
        };
        let daemon = Daemon::start(DaemonOptions {
            access: ClusterAccess::new(&config, flags).await?,
            config,
            admin_listen: Some(args.admin_listen),
            health_listen: Some(SocketAddr::from(([127, 0, 0, 1], 0))),
            guests: self.guests.handle().clone(),
            compiler: compiler()?,
            routes: admin::routes,
            is_ready: admin::is_ready,
            cache_dir: args.cache_dir.clone().unwrap_or_else(directories::cache),
            activities: self.activities.clone(),
            overrides,
            observer: Some(Arc::new(EffectStream)),
        });
        let daemon = daemon.await?;
        let admin = daemon.admin_address();
        logging::set_dev_admin(admin);
        say(&format!("admin server at {admin}: informant status --admin {admin}"));
        self.daemon = Some(daemon);
        self.hint();
        Ok(())
    }

    fn overrides(&self) -> Result<ConfigOverrides> {
        let state = match &self.args.state {
            Some(folder) => {
                let created = std::fs::create_dir_all(folder);
                created.with_context(|| format!("cannot create the folder {} (--state)", folder.display()))?;
                folder.clone()
            }
            None => self.folder.path().to_owned(),
        };
        Ok(ConfigOverrides {
            kubeconfig: self.cluster.as_ref().map(|cluster| absolute(&cluster.kubeconfig)),
            dry_run: self.cluster.is_none() && !self.args.write,
            replay: self.args.replay,
            state: Some(state.join("state.redb")),
            admin_socket: Some(self.folder.path().join("admin.sock")),
        })
    }
}

/// Ticks when manifests change.
fn subscribe(watch: &FileWatch, path: &Path) -> FileTicks {
    match path.is_dir() {
        // Not the folders in it: their files are not applied.
        true => watch.subscribe_tree(path, |_| true),
        false => watch.subscribe(path),
    }
}

/// A path that does not depend on the current folder.
fn absolute(path: &Path) -> PathBuf {
    std::path::absolute(path).unwrap_or_else(|_| path.to_owned())
}

fn show(changes: &Changes) {
    if changes.applied > 0 {
        say(&format!("applied {}", count(changes.applied, "object")));
    }
    if changes.deleted > 0 {
        say(&format!(
            "deleted {}, which no file has any more",
            count(changes.deleted, "object")
        ));
    }
}

/// A line of this command itself.
fn say(text: &str) {
    tracing::info!(target: DEV_TARGET, "{text}");
}

/// A line about something that failed.
fn complain(text: &str, error: &anyhow::Error) {
    let error = output::chain(error);
    tracing::error!(target: DEV_TARGET, error, "{text}");
}
