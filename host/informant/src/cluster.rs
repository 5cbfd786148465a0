//! The way to the cluster: a kube client by the usual inference, with flags before config.toml before the environment.
//!
//! Owns how the client is set up: kube's own retry is off, because informers pace themselves; reading has no deadline of the
//! client's, because a watch is silent for long and has one of its own.

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
    /// A client cannot be made of what the kubeconfig says.
    #[error("the kubeconfig makes no client: {0}")]
    Client(#[source] kube::Error),
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
    /// A client for the cluster that flags, config.toml and the environment name, in this order. Sends nothing.
    ///
    /// # Errors
    /// [`ClusterError`] when none is named, or its kubeconfig is of no use.
    pub async fn connect(section: &ClusterSection, flags: &ClusterFlags) -> Result<Self, ClusterError> {
        let mut config = infer(section, flags).await?;
        config.default_retry = false;
        config.connect_timeout = Some(CONNECT_MAX);
        config.read_timeout = None;
        config.proxy_url = proxy::judge(&config);
        let url = config.cluster_url.to_string().trim_end_matches('/').to_owned();
        let client = Client::try_from(config).map_err(ClusterError::Client)?;
        Ok(Self { client, url })
    }
}

async fn infer(section: &ClusterSection, flags: &ClusterFlags) -> Result<Config, ClusterError> {
    let options = KubeConfigOptions {
        context: flags.context.clone().or_else(|| section.context.clone()),
        ..KubeConfigOptions::default()
    };
    match (
        flags.kubeconfig.as_ref().or(section.kubeconfig.as_ref()),
        &options.context,
    ) {
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
