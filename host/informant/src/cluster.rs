//! The way to a cluster: a kube client by the usual inference, with flags before config.toml before the environment.
//!
//! Owns how the client is set up: kube's own retry is off, because informers pace themselves; reading has no deadline
//! of the client's, because a watch is silent for long and has one of its own.

mod proxy;

use std::path::{Path, PathBuf};
use std::time::Duration;

use kube::Client;
use kube::config::{Config, KubeConfigOptions, Kubeconfig, KubeconfigError};

use crate::config::ClusterSection;

/// How long a connection to the API server may take to come about.
pub const CONNECT_MAX: Duration = Duration::from_secs(10);

/// What the command line says about the cluster.
#[derive(Debug, Clone, Default)]
pub struct ClusterFlags {
    /// `--kubeconfig`.
    pub kubeconfig: Option<PathBuf>,
    /// `--context`.
    pub context: Option<String>,
}

/// How a daemon reaches its clusters.
#[derive(Debug, Clone)]
pub struct ClusterAccess {
    /// What the command line says.
    pub flags: ClusterFlags,
    /// The only cluster, where there is one without a name: who names none hears at once that none can be found.
    pub connected: Option<Cluster>,
}

impl ClusterAccess {
    /// Logs in to the only cluster, if it has no name. Clusters with names are logged in to by the daemon, each on its
    /// own, so that one that is down holds up no other.
    ///
    /// # Errors
    /// [`ClusterError`] when the flags do not fit the clusters, or the only one cannot be logged in to.
    pub async fn new(config: &crate::config::Config, flags: ClusterFlags) -> Result<Self, ClusterError> {
        flags.judge(config)?;
        let connected = match config.clusters.get("") {
            Some(section) => Some(Cluster::connect(&flags.over("", &section.value)).await?),
            None => None,
        };
        Ok(Self { flags, connected })
    }
}

/// Why there is no client. That the cluster cannot be reached is none of these: it shows at the first request.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum ClusterError {
    /// The kubeconfig that was named is of no use.
    #[error("kubeconfig {path}: {source}")]
    Kubeconfig {
        /// The file.
        path: PathBuf,
        /// Why.
        source: KubeconfigError,
    },
    /// The usual kubeconfig lacks what was asked for.
    #[error("the kubeconfig ($KUBECONFIG, ~/.kube/config): {0}")]
    Context(#[source] KubeconfigError),
    /// Nothing says which cluster.
    #[error(
        "no cluster is named: no kubeconfig in $KUBECONFIG or ~/.kube/config, no --kubeconfig, no [cluster] in the configuration, \
         and this is no pod with a service account ({0}); to try things out without one: `informant apiserver --kubeconfig-out kubeconfig`"
    )]
    Nowhere(#[source] kube::config::InferConfigError),
    /// `in-cluster`, and this is no pod.
    #[error("in-cluster: {0}")]
    InCluster(#[source] kube::config::InClusterError),
    /// `--context` where the configuration has several clusters.
    #[error(
        "--context {context} could be meant for any of several clusters: name it in their sections, [cluster.NAME] with `context`, instead"
    )]
    WhichContext {
        /// The flag's.
        context: String,
    },
    /// What logged in broke off.
    #[error("the login broke off: {0}")]
    Ended(#[source] tokio::task::JoinError),
    /// A client cannot be made of what the kubeconfig says.
    #[error("the kubeconfig makes no client: {0}")]
    Client(#[source] kube::Error),
}

impl ClusterError {
    /// Whether a kubeconfig that somebody named is of no use. It will be of none later either, unlike a cluster that is
    /// away.
    #[must_use]
    pub fn is_of_a_named_kubeconfig(&self) -> bool {
        match self {
            Self::Kubeconfig { .. } => true,
            Self::Context(_) | Self::Nowhere(_) => {
                std::env::var_os("KUBECONFIG").is_some_and(|paths| !paths.is_empty())
            }
            _ => false,
        }
    }
}

/// A cluster that can be asked.
#[derive(Clone)]
pub struct Cluster {
    /// Sends requests; cheap to clone.
    pub client: Client,
    /// Where the API server is, for messages.
    pub url: String,
}

impl std::fmt::Debug for Cluster {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        // The client knows tokens.
        f.debug_struct("Cluster")
            .field("url", &self.url)
            .finish_non_exhaustive()
    }
}

impl Cluster {
    /// A client for the cluster that a section names, or else the environment. Asks the API server nothing; a login may
    /// run a program, which blocks nobody but who waits for this.
    ///
    /// # Errors
    /// [`ClusterError`] when none is named, its kubeconfig is of no use, or its login fails.
    pub async fn connect(section: &ClusterSection) -> Result<Self, ClusterError> {
        let section = section.clone();
        let runtime = tokio::runtime::Handle::current();
        // Reads files, and runs what `users[].user.exec` names: nothing that belongs on a thread that drives others.
        let connected = tokio::task::spawn_blocking(move || runtime.block_on(Self::of(&section)));
        connected.await.map_err(ClusterError::Ended)?
    }

    async fn of(section: &ClusterSection) -> Result<Self, ClusterError> {
        let mut config = infer(section).await?;
        config.default_retry = false;
        config.connect_timeout = Some(CONNECT_MAX);
        config.read_timeout = None;
        config.proxy_url = proxy::judge(&config);
        let url = config.cluster_url.to_string().trim_end_matches('/').to_owned();
        let client = Client::try_from(config).map_err(ClusterError::Client)?;
        Ok(Self { client, url })
    }
}

impl ClusterFlags {
    /// How a cluster of the configuration is reached by a program with these flags. For the only one they come before
    /// the section; of several, those that name no kubeconfig take the flag's.
    #[must_use]
    pub fn over(&self, name: &str, section: &ClusterSection) -> ClusterSection {
        if !name.is_empty() {
            let file = self.kubeconfig.clone().filter(|_| !section.in_cluster);
            return ClusterSection {
                kubeconfig: section.kubeconfig.clone().or(file),
                ..section.clone()
            };
        }
        ClusterSection {
            context: self.context.clone().or_else(|| section.context.clone()),
            kubeconfig: self.kubeconfig.clone().or_else(|| section.kubeconfig.clone()),
            in_cluster: section.in_cluster && self.context.is_none() && self.kubeconfig.is_none(),
        }
    }

    /// Whether the flags can be meant for these clusters.
    ///
    /// # Errors
    /// [`ClusterError::WhichContext`] for a context where there are several clusters.
    pub fn judge(&self, config: &crate::config::Config) -> Result<(), ClusterError> {
        match &self.context {
            Some(context) if config.has_named_clusters() => Err(ClusterError::WhichContext {
                context: context.clone(),
            }),
            _ => Ok(()),
        }
    }
}

async fn infer(section: &ClusterSection) -> Result<Config, ClusterError> {
    if section.in_cluster {
        return Config::incluster().map_err(ClusterError::InCluster);
    }
    let options = KubeConfigOptions {
        context: section.context.clone(),
        ..KubeConfigOptions::default()
    };
    match (&section.kubeconfig, &options.context) {
        (Some(path), _) => from_file(path, &options).await,
        // Who names a context means a kubeconfig: the service account of the pod would be another cluster.
        (None, Some(_)) => Config::from_kubeconfig(&options).await.map_err(ClusterError::Context),
        (None, None) => Config::infer().await.map_err(ClusterError::Nowhere),
    }
}

async fn from_file(path: &Path, options: &KubeConfigOptions) -> Result<Config, ClusterError> {
    let failed = |source| ClusterError::Kubeconfig {
        path: path.to_owned(),
        source,
    };
    let kubeconfig = Kubeconfig::read_from(path).map_err(failed)?;
    Config::from_custom_kubeconfig(kubeconfig, options)
        .await
        .map_err(failed)
}
