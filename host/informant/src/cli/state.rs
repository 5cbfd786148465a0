//! `informant state copy`: moves what plugins remember between the state database and shared state.

use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Duration;

use anyhow::{Context as _, Result, bail};
use clap::{Args, Subcommand, ValueEnum};
use informant_cache::Environment;
use informant_config::{ClusterSection, Config};
use informant_informer::TokioEnvironment;
use informant_state::{
    Row, SecretAnswer, SecretRequest, SecretVerb, SharedJournal, SharedMetrics, SharedOptions, SharedPart, SharedStep,
    export_file, import_file,
};

use super::{ClusterArgs, ConfigFlag, Exit, count, output};
use crate::cluster::Cluster;
use crate::replicas::{SECRET_REQUEST_MAX, SecretApi};
use crate::{config_file, directories};

/// How long reading or writing shared state may take: 60 s. Its 15 MiB are a few seconds.
const SHARED_TIME_MAX: Duration = Duration::from_secs(60);

/// `informant state`.
#[derive(Debug, Subcommand)]
pub(super) enum StateCommand {
    /// Copy what plugins remember from the state database to shared state, or back, while no replica runs
    Copy(CopyArgs),
}

/// `informant state copy`.
#[derive(Debug, Args)]
pub(super) struct CopyArgs {
    /// Where the values are
    #[arg(long, value_name = "STORE", value_enum)]
    from: Store,
    /// Where they are copied to
    #[arg(long, value_name = "STORE", value_enum)]
    to: Store,
    /// Delete what the target has
    #[arg(long)]
    replace: bool,
    /// State database [default: as `informant run` uses it with this configuration]
    #[arg(long, value_name = "FILE")]
    file: Option<PathBuf>,
    /// Group of the replicas [default: `group` in [ha]]
    #[arg(long, value_name = "NAME")]
    group: Option<String>,
    /// Namespace of Informant [default: `namespace` in [ha], that of the kubeconfig]
    #[arg(short, long)]
    namespace: Option<String>,
    #[command(flatten)]
    config: ConfigFlag,
    #[command(flatten)]
    cluster_args: ClusterArgs,
}

/// Where what plugins remember is stored.
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
enum Store {
    /// The state database
    File,
    /// Secrets of Informant's namespace
    Kubernetes,
}

pub(super) fn run(command: &StateCommand) -> Result<Exit> {
    let StateCommand::Copy(args) = command;
    let config = config(args)?;
    let of_config = || config.as_ref().map(directories::state_path);
    let file = args
        .file
        .clone()
        .or_else(of_config)
        .context("set --file to the state database")?;
    let (copied, from, to) = match (args.from, args.to) {
        (Store::File, Store::Kubernetes) => {
            let rows = export_file(&file)?;
            super::runtime()?.block_on(async {
                let mut shared = Shared::open(args, config.as_ref()).await?;
                let copied = shared.journal.import(rows, args.replace)?;
                shared.drive(SharedJournal::is_written).await?;
                anyhow::Ok((copied, shown(&file), shared.name()))
            })?
        }
        (Store::Kubernetes, Store::File) => {
            let (rows, name) = super::runtime()?.block_on(read_shared(args, config.as_ref()))?;
            (import_file(&file, &rows, args.replace)?, name, shown(&file))
        }
        _ => bail!("--from and --to are the same store: there is nothing to copy"),
    };
    let copied = count(copied, "row");
    output::to_stdout(|out| output::line(out, &format!("{copied} copied from {from} to {to}")))?;
    Ok(Exit::Done)
}

/// The configuration; none if there is no such file, and the flags say what it would.
fn config(args: &CopyArgs) -> Result<Option<Config>> {
    let path = &args.config.config;
    match args.file.is_some() && args.group.is_some() && !path.exists() {
        true => Ok(None),
        false => Ok(Some(config_file::load(path)?)),
    }
}

fn shown(file: &Path) -> String {
    file.display().to_string()
}

async fn read_shared(args: &CopyArgs, config: Option<&Config>) -> Result<(Vec<Row>, String)> {
    let secrets = connect(args, config).await?;
    let name = SharedPart::Journal.secret_name(secrets.group());
    let verb = SecretVerb::Get;
    // Reading claims the state, which would create it.
    let request = SecretRequest {
        name: name.clone(),
        verb,
    };
    if secrets.send(request, SECRET_REQUEST_MAX).await == SecretAnswer::Missing {
        let namespace = secrets.namespace();
        bail!("there is no Secret {name} in the namespace {namespace}: name others with --group and --namespace");
    }
    let shared = Shared::claim(secrets).await?;
    Ok((shared.journal.export(), shared.name()))
}

/// The Secrets as the flags and the configuration say, by the caller's kubeconfig.
async fn connect(args: &CopyArgs, config: Option<&Config>) -> Result<SecretApi> {
    let (group, namespace) = match config.and_then(|config| config.ha.as_ref()) {
        Some(section) => (section.group.as_deref(), section.namespace.as_deref()),
        None => (None, None),
    };
    let group = args.group.as_deref().or(group);
    let group = group.context(
        "set --group to the group of the replicas: without `group` in [ha], it is the name of the StatefulSet",
    )?;
    let section = ClusterSection {
        kubeconfig: args.cluster_args.kubeconfig.clone(),
        context: args.cluster_args.context.clone(),
        ..ClusterSection::default()
    };
    let client = Cluster::connect(&section).await?.client;
    let environment = Arc::new(TokioEnvironment::current(0));
    let namespace = args.namespace.as_deref().or(namespace);
    Ok(SecretApi::new(client, namespace, group, environment))
}

/// Shared state that this process has claimed.
struct Shared {
    secrets: SecretApi,
    journal: SharedJournal,
    metrics: SharedMetrics,
    environment: TokioEnvironment,
}

impl Shared {
    async fn open(args: &CopyArgs, config: Option<&Config>) -> Result<Shared> {
        Shared::claim(connect(args, config).await?).await
    }

    async fn claim(secrets: SecretApi) -> Result<Shared> {
        let metrics = SharedMetrics::default();
        let options = SharedOptions {
            group: secrets.group().to_owned(),
            // Two copies at the same time are two holders.
            holder: format!("informant-state-copy_{}", std::process::id()),
            lease_transitions: 0,
            group_interval: Duration::ZERO,
        };
        let mut shared = Shared {
            secrets,
            journal: SharedJournal::new(options, metrics.clone()),
            metrics,
            environment: TokioEnvironment::current(0),
        };
        shared.drive(SharedJournal::is_open).await?;
        Ok(shared)
    }

    /// Sends requests until `is_done`.
    async fn drive(&mut self, is_done: fn(&SharedJournal) -> bool) -> Result<()> {
        let until = self.environment.now() + SHARED_TIME_MAX;
        while !is_done(&self.journal) {
            let now = self.environment.now();
            if now >= until {
                let why = self
                    .metrics
                    .failure()
                    .unwrap_or_else(|| "the API server is too slow".to_owned());
                bail!(
                    "shared state was not read or written within {} s: {why}",
                    SHARED_TIME_MAX.as_secs()
                );
            }
            match self.journal.step(now) {
                SharedStep::Send(request) => {
                    let answer = self.secrets.send(request, SECRET_REQUEST_MAX).await;
                    if let SecretAnswer::Failed(failure) = &answer
                        && failure.is_denied
                    {
                        bail!("{}", failure.message);
                    }
                    self.journal.answer(self.environment.now(), answer);
                }
                SharedStep::Wait(at) => self.environment.sleep(at.min(until) - now).await,
                SharedStep::Lost(lost) => bail!(
                    "{lost}: stop all replicas, for example with `kubectl scale --replicas=0`, and then repeat this with \
                     --replace"
                ),
                SharedStep::Refused(error) => return Err(error.into()),
            }
        }
        Ok(())
    }

    fn name(&self) -> String {
        let (namespace, group) = (self.secrets.namespace(), self.secrets.group());
        format!("the Secrets {group}-state-* in the namespace {namespace}")
    }
}
