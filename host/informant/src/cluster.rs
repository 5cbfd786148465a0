//! Builds the kube client of a cluster by the usual inference. Flags override config.toml, which overrides the
//! environment. Owns the client settings: kube's own retry is off, because informers pace themselves; the client has no
//! read timeout, because a watch may be silent for long and has its own.
//!
//! ```text
//! section ─▶ kube Config ─▶ Cluster::login ─▶ Client: Authenticated ─▶ kube's client ─▶ API server
//!              (files only)                              └── Credentials: token file, or login program (exec)
//! ```
//! kube reads kubeconfigs, and does TLS, proxies, client certificates, passwords, OIDC and auth providers. Token files
//! and login programs are Informant's own: kube's client runs a program without a deadline or a bound on its output,
//! and keeps a token that the API server has refused.

mod authenticated;
mod credentials;
mod effects;
mod exec_login;
mod proxy;
mod user;

use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Duration;

use informant_config::ClusterSection;
use informant_informer::ClusterClient;
use informant_spec::suggest::did_you_mean;
use kube::Client;
use kube::config::{Config, KubeConfigOptions, Kubeconfig, KubeconfigError};
use serde_json::{Value, json};

use self::authenticated::Authenticated;
use self::credentials::{Credentials, Source};
pub(crate) use self::exec_login::end_login_programs;

use crate::files::{Turn, read_regular_file};

/// The largest kubeconfig that a flag or a section names: 16 MiB. One of a thousand clusters has a few.
pub(crate) const KUBECONFIG_BYTES_MAX: usize = 16 << 20;

/// The timeout for connecting to the API server.
pub(crate) const CONNECT_MAX: Duration = Duration::from_secs(10);

/// The command line's flags for the cluster.
#[derive(Debug, Clone, Default)]
pub struct ClusterFlags {
    pub kubeconfig: Option<PathBuf>,
    pub context: Option<String>,
}

/// How a daemon reaches its clusters.
#[derive(Debug, Clone)]
pub struct ClusterAccess {
    pub flags: ClusterFlags,
    /// The URL of the only cluster, if it has no name.
    pub only_url: Option<String>,
    /// Stands for every cluster, without a login: an API server in this process.
    pub(crate) in_process: Option<Arc<Cluster>>,
}

impl ClusterAccess {
    /// Reads the kubeconfig of the only cluster, if it has no name, so that a missing one is reported at once. Logs in
    /// nowhere: the daemon logs in to each cluster on its own, so that one that is down holds up nothing else.
    ///
    /// # Errors
    /// `ClusterError` when the flags do not fit the clusters, or there is no usable kubeconfig for the only one.
    pub async fn new(config: &informant_config::Config, flags: ClusterFlags) -> Result<Self, ClusterError> {
        flags.validate(config)?;
        let only_url = match config.clusters.get("") {
            Some(section) => Some(url(&read(flags.over("", &section.value)).await?)),
            None => None,
        };
        Ok(Self {
            flags,
            only_url,
            in_process: None,
        })
    }
}

/// Why no client could be created. An unreachable cluster is not an error here: the first request reports it.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum ClusterError {
    #[error("cannot use kubeconfig {path}: {source}")]
    Kubeconfig { path: PathBuf, source: KubeconfigError },
    #[error(
        "cannot use the default kubeconfig ($KUBECONFIG, ~/.kube/config): {0}; check the context, or set --kubeconfig"
    )]
    Context(#[source] KubeconfigError),
    #[error("there is no context \"{context}\" in {files}; {hint}")]
    UnknownContext {
        context: String,
        files: String,
        hint: String,
    },
    #[error("cannot use the kubeconfig in $KUBECONFIG, {}: {}; correct the variable, or unset it", .files.display(), cause(.source))]
    Environment {
        files: PathBuf,
        source: kube::config::InferConfigError,
    },
    #[error(
        "no cluster configured: there is no kubeconfig in $KUBECONFIG or ~/.kube/config, no --kubeconfig and no [cluster] in the configuration, \
         and Informant does not run in a pod with a service account ({0}); to try it without a cluster: `informant apiserver --kubeconfig-out kubeconfig`"
    )]
    NotConfigured(#[source] kube::config::InferConfigError),
    #[error("cannot use in-cluster credentials: {0}; `in-cluster = true` works only in a pod with a service account")]
    InCluster(#[source] kube::config::InClusterError),
    #[error("--context {context} cannot be used with several clusters; set `context` in each [cluster.NAME] section")]
    AmbiguousContext { context: String },
    #[error("the login was aborted: {0}")]
    LoginAborted(#[source] tokio::task::JoinError),
    #[error("cannot log in as the kubeconfig's user: {0}")]
    Login(#[source] LoginError),
    #[error("cannot obtain the token of the kubeconfig's user: {0}")]
    Token(#[source] tower::BoxError),
    #[error("cannot build a client from the kubeconfig: {0}")]
    Client(#[source] kube::Error),
}

impl ClusterError {
    /// Whether an explicitly given kubeconfig is unusable. Retrying does not help then, unlike with an unreachable
    /// cluster.
    #[must_use]
    pub fn is_of_a_named_kubeconfig(&self) -> bool {
        match self {
            Self::Kubeconfig { .. } | Self::Environment { .. } => true,
            Self::Context(_) | Self::UnknownContext { .. } => of_environment().is_some(),
            _ => false,
        }
    }
}

/// $KUBECONFIG, if it names files.
fn of_environment() -> Option<PathBuf> {
    let files = std::env::var_os("KUBECONFIG").filter(|files| !files.is_empty());
    files.map(PathBuf::from)
}

/// Why the kubeconfig cannot be used: that there are no in-cluster credentials either is nothing new.
fn cause(error: &kube::config::InferConfigError) -> String {
    std::error::Error::source(error).map_or_else(|| error.to_string(), ToString::to_string)
}

pub(crate) use self::credentials::LoginError;
pub(crate) use self::credentials::bearer_of_file;
pub(crate) use self::effects::EffectGate;
pub(crate) use self::user::User;

#[derive(Clone)]
pub(crate) struct Cluster {
    /// Sends requests; cheap to clone.
    pub client: Client,
    /// The same client for informers, which share through it what they learn about the API server.
    pub sources: ClusterClient,
    /// Where the API server is, for messages.
    pub url: String,
    /// The API server's certificate is not verified (`insecure-skip-tls-verify`).
    pub insecure: bool,
    /// The kubeconfig makes requests those of another user.
    pub impersonates: bool,
    /// What the client was built from; two equal values make equal clients.
    settings: Value,
    /// Credentials that may change without a new client.
    credentials: Option<Arc<Credentials>>,
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
    /// A cluster in this process, to which `client` leads.
    pub(crate) fn in_process(client: Client) -> Self {
        let url = "https://in-process.invalid".to_owned();
        Self {
            sources: ClusterClient::new(url.clone(), client.clone()),
            client,
            url,
            insecure: false,
            impersonates: false,
            settings: Value::Null,
            credentials: None,
        }
    }

    /// Builds a client for the cluster of a section, or else of the environment, and logs in: reads the token file, or
    /// runs the login program, once. Sends no request to the API server.
    /// Errors: [`ClusterError`] when no cluster is configured, its kubeconfig is unusable, or its login fails.
    pub(crate) async fn connect(section: &ClusterSection) -> Result<Self, ClusterError> {
        Self::connect_gated(section, None).await
    }

    /// Like [`connect`](Self::connect), with a client that sends an [`Effect`](crate::kube_api::Effect) only while the
    /// gate is open.
    pub(crate) async fn connect_gated(section: &ClusterSection, gate: EffectGate) -> Result<Self, ClusterError> {
        Self::login(read(section.clone()).await?, gate).await
    }

    /// Like [`connect_gated`](Self::connect_gated), in place of `current`. Returns `current` if what it was built from
    /// is unchanged; its token is then read again before the next request.
    pub(crate) async fn reconnect(
        section: &ClusterSection,
        current: &Arc<Self>,
        gate: EffectGate,
    ) -> Result<Arc<Self>, ClusterError> {
        let config = read(section.clone()).await?;
        let of = config.clone();
        if blocking(&files(&config), move || settings(&of)).await? != current.settings {
            return Self::login(config, gate).await.map(Arc::new);
        }
        if let Some(credentials) = &current.credentials {
            credentials.invalidate();
        }
        Ok(Arc::clone(current))
    }

    async fn login(config: Config, gate: EffectGate) -> Result<Self, ClusterError> {
        let of = config.clone();
        let files = files(&config);
        let settings = blocking(&files, move || settings(&of)).await?;
        let (url, insecure) = (url(&config), config.accept_invalid_certs);
        let impersonates = impersonates(&config.auth_info);
        let source = Source::of(&config.auth_info);
        let (client, credentials) = match source {
            // Building it reads certificates, and may run the program of an auth provider.
            None => (
                blocking(&files, move || effects::client(config, gate))
                    .await?
                    .map_err(ClusterError::Client)?,
                None,
            ),
            Some(source) => {
                let namespace = config.default_namespace.clone();
                let credentials = Credentials::new(source, config, gate);
                credentials.get().await.map_err(ClusterError::Login)?;
                let service = Authenticated::new(Arc::clone(&credentials));
                (Client::new(service, namespace), Some(credentials))
            }
        };
        Ok(Self {
            sources: ClusterClient::new(url.clone(), client.clone()),
            client,
            url,
            insecure,
            impersonates,
            settings,
            credentials,
        })
    }
}

/// Reads the kubeconfig of a section.
async fn read(section: ClusterSection) -> Result<Config, ClusterError> {
    let runtime = tokio::runtime::Handle::current();
    let mut config = match section.kubeconfig.clone().filter(|_| !section.in_cluster) {
        Some(path) => {
            let file = path.clone();
            let kubeconfig = blocking(&path, move || read_kubeconfig(&file)).await??;
            check_context(&kubeconfig, &section, &path.display().to_string())?;
            let authority = authority(&kubeconfig, &section).unwrap_or_else(|| path.clone());
            let load = move || runtime.block_on(Config::from_custom_kubeconfig(kubeconfig, &options(&section)));
            let config = blocking(&authority, load).await?;
            config.map_err(|source| ClusterError::Kubeconfig { path, source })?
        }
        None => {
            let files = if section.in_cluster { "in-cluster" } else { "kubeconfig" };
            blocking(Path::new(files), move || runtime.block_on(infer(&section))).await??
        }
    };
    config.default_retry = false;
    config.connect_timeout = Some(CONNECT_MAX);
    config.read_timeout = None;
    config.proxy_url = proxy::select(&config);
    Ok(config)
}

/// Waits for the disk on a blocking thread, one for the same `files`.
async fn blocking<T: Send + 'static>(
    files: &Path,
    work: impl FnOnce() -> T + Send + 'static,
) -> Result<T, ClusterError> {
    Turn::of(files).run(work).await.map_err(ClusterError::LoginAborted)
}

/// The files that building a client reads or runs, joined; its URL if there are none. A client with other files does
/// not wait for those that hang.
fn files(config: &Config) -> PathBuf {
    let user = &config.auth_info;
    let program = user
        .auth_provider
        .as_ref()
        .and_then(|provider| provider.config.get("cmd-path"));
    let files = [user.client_certificate.as_ref(), user.client_key.as_ref(), program];
    let files: Vec<_> = files.into_iter().flatten().map(String::as_str).collect();
    match &*files {
        [] => config.cluster_url.to_string().into(),
        files => files.join("\n").into(),
    }
}

/// The file with the certificate authority of the cluster that a section selects.
fn authority(kubeconfig: &Kubeconfig, section: &ClusterSection) -> Option<PathBuf> {
    let name = section.context.as_ref().or(kubeconfig.current_context.as_ref())?;
    let context = kubeconfig.contexts.iter().find(|context| &context.name == name)?;
    let name = &context.context.as_ref()?.cluster;
    let cluster = kubeconfig.clusters.iter().find(|cluster| &cluster.name == name)?;
    cluster
        .cluster
        .as_ref()?
        .certificate_authority
        .as_ref()
        .map(PathBuf::from)
}

fn impersonates(user: &kube::config::AuthInfo) -> bool {
    user.impersonate.is_some()
        || user.impersonate_groups.is_some()
        || user.impersonate_uid.is_some()
        || user.impersonate_user_extra.is_some()
}

fn url(config: &Config) -> String {
    config.cluster_url.to_string().trim_end_matches('/').to_owned()
}

/// Everything that a client is built from, except tokens in files and what a login program prints. Reads files.
fn settings(config: &Config) -> Value {
    let user = &config.auth_info;
    let files = [&user.client_certificate, &user.client_key];
    let files = files.map(|path| path.as_ref().and_then(|path| std::fs::read(path).ok()));
    json!({
        "url": config.cluster_url.to_string(),
        "namespace": config.default_namespace,
        "authorities": config.root_cert,
        "proxy": config.proxy_url.as_ref().map(ToString::to_string),
        "serverName": config.tls_server_name,
        "insecure": config.accept_invalid_certs,
        "user": serde_json::to_value(user).unwrap_or_default(),
        "files": files,
    })
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
    /// `ClusterError::AmbiguousContext` for a context where there are several clusters.
    pub fn validate(&self, config: &informant_config::Config) -> Result<(), ClusterError> {
        match &self.context {
            Some(context) if config.has_named_clusters() => Err(ClusterError::AmbiguousContext {
                context: context.clone(),
            }),
            _ => Ok(()),
        }
    }
}

/// Without a kubeconfig in the section.
async fn infer(section: &ClusterSection) -> Result<Config, ClusterError> {
    if section.in_cluster {
        return Config::incluster().map_err(ClusterError::InCluster);
    }
    if section.context.is_none() {
        return Config::infer().await.map_err(|source| match of_environment() {
            Some(files) => ClusterError::Environment { files, source },
            None => ClusterError::NotConfigured(source),
        });
    }
    // A context implies a kubeconfig: the pod's service account would be another cluster.
    let kubeconfig = Kubeconfig::read().map_err(ClusterError::Context)?;
    check_context(
        &kubeconfig,
        section,
        "the default kubeconfig ($KUBECONFIG, ~/.kube/config)",
    )?;
    let config = Config::from_custom_kubeconfig(kubeconfig, &options(section)).await;
    config.map_err(ClusterError::Context)
}

/// Errors: [`ClusterError::UnknownContext`] for a context that `files` do not have.
fn check_context(kubeconfig: &Kubeconfig, section: &ClusterSection, files: &str) -> Result<(), ClusterError> {
    let known: Vec<&str> = kubeconfig.contexts.iter().map(|context| &*context.name).collect();
    match &section.context {
        Some(context) if !known.contains(&&**context) => Err(ClusterError::UnknownContext {
            context: context.clone(),
            files: files.to_owned(),
            hint: did_you_mean(context, &known, "contexts"),
        }),
        _ => Ok(()),
    }
}

fn options(section: &ClusterSection) -> KubeConfigOptions {
    KubeConfigOptions {
        context: section.context.clone(),
        ..KubeConfigOptions::default()
    }
}

fn read_kubeconfig(path: &Path) -> Result<Kubeconfig, ClusterError> {
    let failed = |source| ClusterError::Kubeconfig {
        path: path.to_owned(),
        source,
    };
    // kube reads any file to its end: a pipe whose writer waits, or a device that has none.
    read_regular_file(path, KUBECONFIG_BYTES_MAX).map_err(|error| {
        failed(KubeconfigError::ReadConfig(
            std::io::Error::other(error),
            path.to_owned(),
        ))
    })?;
    Kubeconfig::read_from(path).map_err(failed)
}

#[cfg(test)]
mod tests;
