//! Builds the kube client of a cluster by the usual inference. Flags override config.toml, which overrides the
//! environment. Owns the client settings: kube's own retry is off, because informers pace themselves; the client has no
//! read timeout, because a watch may be silent for long and has its own.

mod proxy;

use std::path::{Path, PathBuf};
use std::time::Duration;

use informant_informer::ClusterClient;
use kube::Client;
use kube::config::{Config, KubeConfigOptions, Kubeconfig, KubeconfigError};

use crate::config::ClusterSection;

/// The timeout for connecting to the API server.
pub const CONNECT_MAX: Duration = Duration::from_secs(10);

/// The command line's flags for the cluster.
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
    /// The command line's flags.
    pub flags: ClusterFlags,
    /// The only cluster, if it has no name. It is connected before the daemon starts, so that a missing kubeconfig is
    /// reported at once.
    pub connected: Option<Cluster>,
}

impl ClusterAccess {
    /// Logs in to the only cluster, if it has no name. The daemon logs in to clusters with names, each
    /// on its own, so that one that is down holds up no other.
    ///
    /// # Errors
    /// [`ClusterError`] when the flags do not fit the clusters, or logging in to the only one fails.
    pub async fn new(config: &crate::config::Config, flags: ClusterFlags) -> Result<Self, ClusterError> {
        flags.validate(config)?;
        let connected = match config.clusters.get("") {
            Some(section) => Some(Cluster::connect(&flags.over("", &section.value)).await?),
            None => None,
        };
        Ok(Self { flags, connected })
    }
}

/// Why no client could be created. An unreachable cluster is not an error here: the first request reports it.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum ClusterError {
    /// The given kubeconfig is unusable.
    #[error("cannot use kubeconfig {path}: {source}")]
    Kubeconfig {
        /// The file.
        path: PathBuf,
        /// Why.
        source: KubeconfigError,
    },
    /// The default kubeconfig lacks the requested context.
    #[error(
        "cannot use the default kubeconfig ($KUBECONFIG, ~/.kube/config): {0}; check the context, or set --kubeconfig"
    )]
    Context(#[source] KubeconfigError),
    /// No cluster is configured.
    #[error(
        "no cluster configured: there is no kubeconfig in $KUBECONFIG or ~/.kube/config, no --kubeconfig and no [cluster] in the configuration, \
         and Informant does not run in a pod with a service account ({0}); to try it without a cluster: `informant apiserver --kubeconfig-out kubeconfig`"
    )]
    NotConfigured(#[source] kube::config::InferConfigError),
    /// `in-cluster` outside of a pod.
    #[error("cannot use in-cluster credentials: {0}; `in-cluster = true` works only in a pod with a service account")]
    InCluster(#[source] kube::config::InClusterError),
    /// `--context` where the configuration has several clusters.
    #[error("--context {context} cannot be used with several clusters; set `context` in each [cluster.NAME] section")]
    AmbiguousContext {
        /// The flag's value.
        context: String,
    },
    /// The login task was aborted.
    #[error("the login was aborted: {0}")]
    LoginAborted(#[source] tokio::task::JoinError),
    /// The kubeconfig does not yield a client.
    #[error("cannot build a client from the kubeconfig: {0}")]
    Client(#[source] kube::Error),
}

impl ClusterError {
    /// Whether an explicitly given kubeconfig is unusable. Retrying does not help then, unlike with an unreachable
    /// cluster.
    #[must_use]
    pub fn is_of_a_named_kubeconfig(&self) -> bool {
        match self {
            Self::Kubeconfig { .. } => true,
            Self::Context(_) | Self::NotConfigured(_) => {
                std::env::var_os("KUBECONFIG").is_some_and(|paths| !paths.is_empty())
            }
            _ => false,
        }
    }
}

/// A cluster with its client.
#[derive(Clone)]
pub struct Cluster {
    /// Sends requests; cheap to clone.
    pub client: Client,
    /// The same client for informers, which share through it what they learn about the API server.
    pub sources: ClusterClient,
    /// Where the API server is, for messages.
    pub url: String,
}

impl std::fmt::Debug for Cluster {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        // The client holds tokens.
        f.debug_struct("Cluster")
            .field("url", &self.url)
            .finish_non_exhaustive()
    }
}

impl Cluster {
    /// Builds a client for the cluster of a section, or else of the environment. Sends no request to the API server; a
    /// login may run a program, on a blocking thread.
    ///
    /// # Errors
    /// [`ClusterError`] when no cluster is configured, its kubeconfig is unusable, or its login fails.
    pub async fn connect(section: &ClusterSection) -> Result<Self, ClusterError> {
        let section = section.clone();
        let runtime = tokio::runtime::Handle::current();
        // Reads files and runs the program of `users[].user.exec`, which must not block the runtime.
        let connected = tokio::task::spawn_blocking(move || runtime.block_on(Self::of(&section)));
        connected.await.map_err(ClusterError::LoginAborted)?
    }

    async fn of(section: &ClusterSection) -> Result<Self, ClusterError> {
        let mut config = infer(section).await?;
        config.default_retry = false;
        config.connect_timeout = Some(CONNECT_MAX);
        config.read_timeout = None;
        config.proxy_url = proxy::select(&config);
        let url = config.cluster_url.to_string().trim_end_matches('/').to_owned();
        let client = Client::try_from(config).map_err(ClusterError::Client)?;
        let sources = ClusterClient::new(url.clone(), client.clone());
        Ok(Self { client, sources, url })
    }
}

impl ClusterFlags {
    /// A cluster section with these flags applied. They override the section of an only cluster; where there are
    /// several, those without a kubeconfig use the flag's.
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

    /// Checks that the flags are unambiguous for these clusters.
    ///
    /// # Errors
    /// [`ClusterError::AmbiguousContext`] for a context where there are several clusters.
    pub fn validate(&self, config: &crate::config::Config) -> Result<(), ClusterError> {
        match &self.context {
            Some(context) if config.has_named_clusters() => Err(ClusterError::AmbiguousContext {
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
        // A context implies a kubeconfig: the pod's service account would be another cluster.
        (None, Some(_)) => Config::from_kubeconfig(&options).await.map_err(ClusterError::Context),
        (None, None) => Config::infer().await.map_err(ClusterError::NotConfigured),
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
