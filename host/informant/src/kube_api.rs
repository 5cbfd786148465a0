//! How plugins act on the cluster: [`KubeApi`] over kube's client.
//!
//! ```text
//! KubeCall ─▶ request (path, query, headers) ─▶ kube::Client ─▶ body, or the API server's Status as a KubeError
//! ```
//!
//! Sends each call once: no retry, no discovery, because a resource is named exactly. What plugins are told of an error
//! holds the API server's own words and never a credential. Grants were judged before.
//!
//! Requests run where informers do and not where guests do: connections are shared with the watches, and whoever opens
//! one drives it. A guest that spins must not hold up a watch.

mod errors;
mod request;

use std::collections::BTreeMap;
use std::sync::Arc;

use http::Request;
use http_body_util::{BodyExt, Limited};
use informant_cache::Environment;
use informant_plugin_host::{KubeApi, KubeCall, KubeError, KubeErrorCode, KubeFuture};
use kube::Client;
use kube::client::Body;
use tokio::sync::oneshot;

/// How much of an answer that refuses is read: a `Status` is small, an error page of a proxy need not be.
const ERROR_BODY_BYTES_MAX: usize = 64 * 1_024;

/// Where the clients of the moment are found, by cluster.
pub trait Clients: Send + Sync {
    /// All names; the empty one for the only cluster.
    fn names(&self) -> Vec<String>;

    /// The client for one.
    ///
    /// # Errors
    /// [`NoClient`] if there is none, or not yet.
    fn client(&self, cluster: &str) -> Result<Client, NoClient>;
}

/// Why there is no client.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum NoClient {
    /// No cluster is called that.
    Unknown,
    /// It is being logged in to; why that takes more than one try.
    NotYet(Option<Arc<str>>),
}

impl Clients for BTreeMap<String, Client> {
    fn names(&self) -> Vec<String> {
        self.keys().cloned().collect()
    }

    fn client(&self, cluster: &str) -> Result<Client, NoClient> {
        self.get(cluster).cloned().ok_or(NoClient::Unknown)
    }
}

/// The clusters that plugins may act on.
pub struct ClusterApi {
    clusters: Box<dyn Clients>,
    /// Where requests run.
    environment: Arc<dyn Environment>,
}

impl ClusterApi {
    /// Of the only cluster, whose name is empty.
    #[must_use]
    pub fn of_one(client: Client, environment: Arc<dyn Environment>) -> Self {
        Self::of(BTreeMap::from([(String::new(), client)]), environment)
    }

    /// Of several clusters, which may come and go. A call that names none means the only one.
    pub fn of(clusters: impl Clients + 'static, environment: Arc<dyn Environment>) -> Self {
        Self {
            clusters: Box::new(clusters),
            environment,
        }
    }

    fn client(&self, cluster: &str) -> Result<Client, KubeError> {
        let names = self.clusters.names();
        let meant = match &names[..] {
            [only] if cluster.is_empty() => only,
            _ => cluster,
        };
        self.clusters.client(meant).map_err(|why| match why {
            NoClient::Unknown => {
                let known = match &names[..] {
                    [only] if only.is_empty() => "config.toml has one, which has no name: leave it empty".to_owned(),
                    names => format!("config.toml has {}", names.join(", ")),
                };
                let message = format!("cluster: there is none called {cluster:?}; {known}");
                KubeError::new(KubeErrorCode::Invalid, message)
            }
            NoClient::NotYet(why) => {
                let why = why.map_or("it is being logged in to".to_owned(), |why| why.to_string());
                KubeError::new(
                    KubeErrorCode::Unavailable,
                    format!("cluster {meant:?} cannot be asked yet: {why}"),
                )
            }
        })
    }
}

impl std::fmt::Debug for ClusterApi {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        // Clients know tokens.
        f.debug_tuple("ClusterApi").field(&self.clusters.names()).finish()
    }
}

impl KubeApi for ClusterApi {
    fn call(&self, call: KubeCall) -> KubeFuture {
        let prepared = self
            .client(&call.address.cluster)
            .and_then(|client| Ok((client, request::of(&call)?)));
        let environment = Arc::clone(&self.environment);
        Box::pin(async move {
            let (client, request) = prepared?;
            let (answer, answered) = oneshot::channel();
            let sent = unless_given_up(answer, send(client, request, call.answer_bytes_max));
            environment.spawn("plugin-kube", Box::pin(sent));
            answered
                .await
                .unwrap_or_else(|_| Err(KubeError::new(KubeErrorCode::Unavailable, "Informant is stopping")))
        })
    }
}

/// Does `work` and hands in what it comes to; ends at once when nobody waits for it any more.
async fn unless_given_up<T>(mut answer: oneshot::Sender<T>, work: impl Future<Output = T>) {
    tokio::select! {
        biased;
        done = work => {
            // Given up just now.
            let _ = answer.send(done);
        }
        () = answer.closed() => {}
    }
}

async fn send(client: Client, request: Request<Body>, bytes_max: usize) -> Result<Vec<u8>, KubeError> {
    let response = client.send(request).await.map_err(|error| errors::of_client(&error))?;
    let (head, body) = response.into_parts();
    if !head.status.is_success() {
        // An error that cannot be read is told by its status alone.
        let body = Limited::new(body, ERROR_BODY_BYTES_MAX).collect().await;
        let body = body.map(|body| body.to_bytes()).unwrap_or_default();
        return Err(errors::of_answer(&head, &body));
    }
    match Limited::new(body, bytes_max).collect().await {
        Ok(body) => Ok(body.to_bytes().to_vec()),
        Err(error) if error.is::<http_body_util::LengthLimitError>() => {
            let message = format!("the answer is longer than {bytes_max} bytes; ask for fewer objects at a time");
            Err(KubeError::new(KubeErrorCode::TooLarge, message))
        }
        Err(error) => Err(KubeError::new(
            KubeErrorCode::Unavailable,
            format!("the answer broke off: {error}"),
        )),
    }
}

#[cfg(test)]
mod tests;
