//! Kubernetes calls of plugins: [`KubeApi`] over kube's client.
//!
//! ```text
//! KubeCall ─▶ request (path, query, headers) ─▶ kube::Client ─▶ body, or the API server's Status as a KubeError
//! ```
//! Sends each call once, without a retry. Discovery is asked only when a call without a namespace fails: whether it
//! needs one. The errors that plugins receive contain the API server's own message and never a credential. Grants are
//! checked before. Requests run on the informers' runtime, not on the guests': connections are shared with the watches,
//! and the task that opens one drives it. A guest that spins must not delay a watch.

mod errors;
mod request;
mod scope;

use std::collections::BTreeMap;
use std::sync::Arc;

use http::Request;
use http_body_util::{BodyExt, Limited};
use informant_cache::Environment;
use informant_plugin_host::{KubeApi, KubeCall, KubeError, KubeErrorCode, KubeFuture};
use kube::Client;
use kube::client::Body;
use tokio::sync::oneshot;

/// How much of an error response is read: a `Status` is small, a proxy's error page may not be.
const ERROR_BODY_BYTES_MAX: usize = 64 * 1_024;

/// Marks a request that changes something on behalf of a plugin: a client may have connections of their own for these.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Effect;

/// Provides the current clients by cluster.
pub(crate) trait ClientSource: Send + Sync {
    /// All cluster names; empty for the only cluster.
    fn names(&self) -> Vec<String>;

    /// The client of a cluster.
    /// Errors: [`ClientUnavailable`] if there is none, or none yet.
    fn client(&self, cluster: &str) -> Result<Client, ClientUnavailable>;

    /// Whether requests to it are those of another user (`as`, `as-groups`, `as-uid` or `as-user-extra` in the
    /// kubeconfig).
    fn impersonates(&self, _cluster: &str) -> bool {
        false
    }
}

/// Why there is no client.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum ClientUnavailable {
    /// There is no cluster of that name.
    Unknown,
    /// Authentication is pending; the last error, if any.
    NotYet(Option<Arc<str>>),
}

impl ClientSource for BTreeMap<String, Client> {
    fn names(&self) -> Vec<String> {
        self.keys().cloned().collect()
    }

    fn client(&self, cluster: &str) -> Result<Client, ClientUnavailable> {
        self.get(cluster).cloned().ok_or(ClientUnavailable::Unknown)
    }
}

/// The clusters that plugins may call.
pub(crate) struct ClusterApi {
    clusters: Box<dyn ClientSource>,
    environment: Arc<dyn Environment>,
    /// The name of this process: that of its pod.
    process: String,
}

impl ClusterApi {
    /// For several clusters, which may be added and removed. A call without a cluster name means the only one.
    pub(crate) fn of(clusters: impl ClientSource + 'static, environment: Arc<dyn Environment>) -> Self {
        Self {
            clusters: Box::new(clusters),
            environment,
            process: std::env::var("HOSTNAME").unwrap_or_else(|_| "informant".to_owned()),
        }
    }

    /// The client for a call.
    fn client_for(&self, call: &KubeCall) -> Result<Client, KubeError> {
        let client = self.client(&call.address.cluster)?;
        let names = self.clusters.names();
        // The groups of the kubeconfig would be added to the ServiceAccount.
        if call.identity.is_some() && self.clusters.impersonates(meant(&names, &call.address.cluster)) {
            let message = "the kubeconfig acts as another user, so that the plugin cannot act as its ServiceAccount: \
                           remove `as` and its like from the kubeconfig, or from the section of the plugin";
            return Err(KubeError::new(KubeErrorCode::Denied, message));
        }
        Ok(client)
    }

    fn client(&self, cluster: &str) -> Result<Client, KubeError> {
        let names = self.clusters.names();
        let meant = meant(&names, cluster);
        self.clusters.client(meant).map_err(|why| match why {
            ClientUnavailable::Unknown => {
                let known = match &names[..] {
                    [only] if only.is_empty() => {
                        "config.toml has one cluster, without a name: leave it empty".to_owned()
                    }
                    names => format!("config.toml has {}", names.join(", ")),
                };
                let message = match cluster {
                    "" => format!("the call is about no object, so its address must name a cluster; {known}"),
                    cluster => format!("there is no cluster named {cluster:?}; {known}"),
                };
                KubeError::new(KubeErrorCode::Invalid, message)
            }
            ClientUnavailable::NotYet(why) => {
                let why = why.map_or("authentication is pending".to_owned(), |why| why.to_string());
                KubeError::new(
                    KubeErrorCode::Unavailable,
                    format!("cluster {meant:?} is not ready: {why}"),
                )
            }
        })
    }
}

impl std::fmt::Debug for ClusterApi {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        // ClientSource know tokens.
        f.debug_tuple("ClusterApi").field(&self.clusters.names()).finish()
    }
}

/// The name of the cluster that `cluster` means: the only one, if it is empty.
fn meant<'a>(names: &'a [String], cluster: &'a str) -> &'a str {
    match names {
        [only] if cluster.is_empty() => only,
        _ => cluster,
    }
}

impl KubeApi for ClusterApi {
    fn process(&self) -> &str {
        &self.process
    }

    fn cluster(&self, name: &str) -> Result<String, KubeError> {
        match self.client(name) {
            Err(error) if error.code == KubeErrorCode::Invalid => Err(error),
            // Its login may be pending.
            _ => Ok(meant(&self.clusters.names(), name).to_owned()),
        }
    }

    fn call(&self, call: KubeCall) -> KubeFuture {
        let prepared = self
            .client_for(&call)
            .and_then(|client| Ok((client, request::of(&call)?)));
        let environment = Arc::clone(&self.environment);
        Box::pin(async move {
            let (client, mut request) = prepared?;
            if call.action.is_write() {
                request.extensions_mut().insert(Effect);
            }
            let (answer, answered) = oneshot::channel();
            let sent = unless_abandoned(answer, send_to(client, request, call));
            environment.spawn("plugin-kube", Box::pin(sent));
            answered
                .await
                .unwrap_or_else(|_| Err(KubeError::new(KubeErrorCode::Unavailable, "Informant is stopping")))
        })
    }
}

/// Sends the request of a call. A missing namespace is an error of its own: the API server's looks like an absent
/// object.
async fn send_to(client: Client, request: Request<Body>, call: KubeCall) -> Result<Vec<u8>, KubeError> {
    let answer = send(client.clone(), request, call.answer_bytes_max).await;
    match answer {
        Err(error) if call.address.namespace.is_empty() && errors::is_of_path(&error) => {
            Err(scope::explain(client, &call.address.resource, error).await)
        }
        answer => answer,
    }
}

/// Runs `work` and sends its result; stops as soon as the receiver is dropped.
pub(crate) async fn unless_abandoned<T>(mut answer: oneshot::Sender<T>, work: impl Future<Output = T>) {
    if answer.is_closed() {
        return;
    }
    tokio::select! {
        biased;
        done = work => {
            // Abandoned just now.
            let _ = answer.send(done);
        }
        () = answer.closed() => {}
    }
}

/// Sends a request, and reads an answer of at most so many bytes.
pub(crate) async fn send(client: Client, request: Request<Body>, bytes_max: usize) -> Result<Vec<u8>, KubeError> {
    let response = client.send(request).await.map_err(|error| errors::of_client(&error))?;
    let (head, body) = response.into_parts();
    if !head.status.is_success() {
        // An error response that cannot be read is reported by its status alone.
        let body = Limited::new(body, ERROR_BODY_BYTES_MAX).collect().await;
        let body = body.map(|body| body.to_bytes()).unwrap_or_default();
        return Err(errors::of_answer(&head, &body));
    }
    match Limited::new(body, bytes_max).collect().await {
        Ok(body) => Ok(body.to_bytes().to_vec()),
        Err(error) if error.is::<http_body_util::LengthLimitError>() => {
            let message = format!("the response exceeds {bytes_max} bytes; request fewer objects per page");
            Err(KubeError::new(KubeErrorCode::TooLarge, message))
        }
        Err(error) => Err(KubeError::new(
            KubeErrorCode::Unavailable,
            format!("the response was interrupted: {error}"),
        )),
    }
}

#[cfg(test)]
mod tests;
