//! A kubeconfig's user as the caller of another server: its bearer token, and tokens for service accounts.

use std::time::Duration;

use http::header::{AUTHORIZATION, CONTENT_TYPE};
use http::{HeaderValue, Request, Response};
use informant_config::ClusterSection;
use kube::client::{Body, ConfigExt as _};
use kube::config::Config;
use serde_json::{Value, json};
use tower::{BoxError, Layer as _, ServiceExt as _};

use super::credentials::bearer;
use super::{Cluster, ClusterError, ClusterFlags, blocking, files, read};

/// How long a token requested for a service account is valid. API servers grant no shorter validity.
pub(super) const REQUESTED_TOKEN_VALIDITY: Duration = Duration::from_secs(600);

/// The audience of tokens that only Informant accepts.
const AUDIENCE: &str = "informant";

/// The user of a kubeconfig, or the service account of the pod that this program runs in.
pub(crate) struct User {
    pub(crate) cluster: Cluster,
    pub(crate) namespace: String,
    config: Config,
}

impl User {
    /// Reads the kubeconfig of the flags or of the environment, and logs in as [`Cluster::connect`] does.
    pub(crate) async fn connect(flags: &ClusterFlags) -> Result<Self, ClusterError> {
        let config = read(flags.over("", &ClusterSection::default())).await?;
        Ok(Self {
            cluster: Cluster::login(config.clone(), None).await?,
            namespace: config.default_namespace.clone(),
            config,
        })
    }

    /// Whom the user acts as (`as` in a kubeconfig).
    pub(crate) fn impersonates(&self) -> Option<&str> {
        self.config.auth_info.impersonate.as_deref()
    }

    /// The `Authorization` header with the user's bearer token; none if the user has no token.
    /// Errors: if the token cannot be read or renewed.
    pub(crate) async fn bearer(&self) -> Result<Option<HeaderValue>, ClusterError> {
        if let Some(credentials) = &self.cluster.credentials {
            let current = credentials.get().await.map_err(ClusterError::Login)?;
            return Ok(current.header.clone());
        }
        let config = self.config.clone();
        // May run the program of an auth provider.
        let layer = blocking(&files(&self.config), move || config.auth_layer()).await?;
        let Some(layer) = layer.map_err(ClusterError::Client)? else {
            return Ok(None);
        };
        // kube adds tokens to requests, and hands them out in no other way.
        let service = layer.layer(tower::service_fn(async |request: Request<Body>| {
            Ok::<_, BoxError>(Response::new(request.headers().get(AUTHORIZATION).cloned()))
        }));
        let header = service.oneshot(Request::new(Body::empty())).await;
        let header = header.map_err(ClusterError::Token)?.into_body();
        Ok(header.filter(|header| header.as_bytes().starts_with(b"Bearer ")))
    }

    /// Requests a token of a service account that only Informant accepts, for [`REQUESTED_TOKEN_VALIDITY`]. Returns
    /// the `Authorization` header; none if there is no usable token in the API server's answer.
    /// Errors: the API server's, or those of the connection. None contains the token.
    pub(crate) async fn request_token(&self, namespace: &str, name: &str) -> kube::Result<Option<HeaderValue>> {
        let request = json!({
            "apiVersion": "authentication.k8s.io/v1",
            "kind": "TokenRequest",
            "spec": { "audiences": [AUDIENCE], "expirationSeconds": REQUESTED_TOKEN_VALIDITY.as_secs() },
        });
        let path = format!("/api/v1/namespaces/{namespace}/serviceaccounts/{name}/token");
        let request = Request::post(path)
            .header(CONTENT_TYPE, "application/json")
            .body(request.to_string().into_bytes())
            .map_err(kube::Error::HttpError)?;
        // kube would log an answer that it cannot parse, with the token.
        let answer = self.cluster.client.request_text(request).await?;
        let answer: Value = serde_json::from_str(&answer).map_err(kube::Error::SerdeError)?;
        let token = answer["status"]["token"].as_str().filter(|token| !token.is_empty());
        Ok(token.and_then(|token| bearer(token).ok()))
    }
}
