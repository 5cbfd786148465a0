//! Secrets of Informant's namespace with what plugins remember: reads and writes.
//!
//! A write is a compare-and-swap: it creates the Secret, or replaces one that still has the version that was read.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Duration;

use http::Request;
use http::header::{ACCEPT, CONTENT_TYPE};
use informant_cache::Environment;
use informant_plugin_host::KubeError;
use informant_state::{SECRET_DATA_KEY, SECRET_GROUP_LABEL, SecretAnswer, SecretFailure, SecretRequest, SecretVerb};
use k8s_openapi::ByteString;
use k8s_openapi::api::core::v1::Secret;
use k8s_openapi::apimachinery::pkg::apis::meta::v1::ObjectMeta;
use kube::Client;
use kube::client::Body;

use crate::kube_api;

/// The longest answer that is read: 3 MiB. A Secret has at most 1 MiB of data, a third more in base64, and metadata. A
/// longer answer is an error.
const ANSWER_BYTES_MAX: usize = 3 << 20;

/// How long a request may take at most: 5 s. Then its outcome is unknown, and is found out by the next one.
pub(crate) const SECRET_REQUEST_MAX: Duration = Duration::from_secs(5);

/// Where the Secrets of a group are, and how to reach them.
#[derive(Clone)]
pub(crate) struct SecretApi {
    client: Client,
    namespace: Arc<str>,
    group: Arc<str>,
    environment: Arc<dyn Environment>,
}

impl SecretApi {
    /// The Secrets of `group` in the client's namespace, or in another one.
    pub(crate) fn new(
        client: Client,
        namespace: Option<&str>,
        group: &str,
        environment: Arc<dyn Environment>,
    ) -> SecretApi {
        let namespace = namespace.unwrap_or(client.default_namespace()).into();
        SecretApi {
            client,
            namespace,
            group: group.into(),
            environment,
        }
    }

    pub(crate) fn group(&self) -> &str {
        &self.group
    }

    pub(crate) fn namespace(&self) -> &str {
        &self.namespace
    }

    /// Sends a request, and returns the answer, at the latest after `at_most`, and after [`SECRET_REQUEST_MAX`].
    pub(crate) async fn send(&self, request: SecretRequest, at_most: Duration) -> SecretAnswer {
        let at_most = at_most.min(SECRET_REQUEST_MAX);
        tokio::select! {
            biased;
            answer = self.answer(request) => answer,
            () = self.environment.sleep(at_most) => {
                failed(format!("the API server did not answer within {} s", at_most.as_secs_f32()))
            }
        }
    }

    async fn answer(&self, request: SecretRequest) -> SecretAnswer {
        let request_of = match self.request(&request) {
            Ok(request) => request,
            Err(error) => return failed(format!("invalid request: {error}")),
        };
        let body = match kube_api::send(self.client.clone(), request_of, ANSWER_BYTES_MAX).await {
            Ok(body) => body,
            Err(error) => return refused(&request.verb, error),
        };
        let secret: Secret = match serde_json::from_slice(&body) {
            Ok(secret) => secret,
            Err(error) => return failed(format!("the API server's answer is no Secret: {error}")),
        };
        let version = secret.metadata.resource_version.unwrap_or_default();
        match request.verb {
            SecretVerb::Get => {
                let data = secret.data.unwrap_or_default().remove(SECRET_DATA_KEY);
                let data = data.map(|ByteString(data)| data).unwrap_or_default();
                SecretAnswer::Found { version, data }
            }
            SecretVerb::Create(_) | SecretVerb::Update(..) => SecretAnswer::Written { version },
        }
    }

    fn request(&self, SecretRequest { name, verb }: &SecretRequest) -> Result<Request<Body>, String> {
        let (namespace, request) = (&self.namespace, Request::builder().header(ACCEPT, "application/json"));
        let all = format!("/api/v1/namespaces/{namespace}/secrets");
        let (request, body) = match verb {
            SecretVerb::Get => (request.method("GET").uri(format!("{all}/{name}")), Vec::new()),
            SecretVerb::Create(data) => (request.method("POST").uri(all), self.document(name, data, None)?),
            SecretVerb::Update(data, version) => (
                request.method("PUT").uri(format!("{all}/{name}")),
                self.document(name, data, Some(version))?,
            ),
        };
        let request = match body.is_empty() {
            true => request,
            false => request.header(CONTENT_TYPE, "application/json"),
        };
        request.body(Body::from(body)).map_err(|error| error.to_string())
    }

    fn document(&self, name: &str, data: &[u8], version: Option<&str>) -> Result<Vec<u8>, String> {
        let secret = Secret {
            metadata: ObjectMeta {
                name: Some(name.to_owned()),
                resource_version: version.map(str::to_owned),
                labels: Some(BTreeMap::from([(
                    SECRET_GROUP_LABEL.to_owned(),
                    (*self.group).to_owned(),
                )])),
                ..ObjectMeta::default()
            },
            data: Some(BTreeMap::from([(
                SECRET_DATA_KEY.to_owned(),
                ByteString(data.to_vec()),
            )])),
            ..Secret::default()
        };
        serde_json::to_vec(&secret).map_err(|error| error.to_string())
    }
}

fn failed(message: String) -> SecretAnswer {
    SecretAnswer::Failed(SecretFailure {
        message,
        is_denied: false,
        retry_after: None,
    })
}

fn refused(verb: &SecretVerb, error: KubeError) -> SecretAnswer {
    match (error.status, verb) {
        // Of a Secret that is created, it is the namespace that does not exist.
        (404, SecretVerb::Get | SecretVerb::Update(..)) if error.is_from_kubernetes => SecretAnswer::Missing,
        (409, SecretVerb::Create(_) | SecretVerb::Update(..)) => SecretAnswer::Conflict,
        (status, _) => SecretAnswer::Failed(SecretFailure {
            is_denied: matches!(status, 401 | 403),
            message: error.message,
            retry_after: error.retry_after,
        }),
    }
}

#[cfg(test)]
mod tests {
    use http::{HeaderMap, Method, StatusCode};
    use informant_apiserver::{ApiServer, Options};
    use informant_informer::TokioEnvironment;

    use super::*;

    fn api(client: Client) -> SecretApi {
        SecretApi::new(client, None, "informant", Arc::new(TokioEnvironment::current(0)))
    }

    fn request(verb: SecretVerb) -> SecretRequest {
        SecretRequest {
            name: "informant-state-journal".to_owned(),
            verb,
        }
    }

    fn bytes(text: &str) -> Arc<[u8]> {
        text.as_bytes().into()
    }

    #[tokio::test]
    async fn writes_compare_and_swap() {
        let server = ApiServer::new(Options::default());
        let api = api(Client::new(server.service(), "default"));
        let send = async |verb| api.send(request(verb), SECRET_REQUEST_MAX).await;
        assert_eq!(send(SecretVerb::Get).await, SecretAnswer::Missing);
        let update = |text: &str, version: &str| SecretVerb::Update(bytes(text), version.to_owned());
        assert_eq!(send(update("a", "7")).await, SecretAnswer::Missing);
        let SecretAnswer::Written { version } = send(SecretVerb::Create(bytes("a"))).await else {
            panic!("it was not created")
        };
        assert_eq!(send(SecretVerb::Create(bytes("b"))).await, SecretAnswer::Conflict);
        let data = b"a".to_vec();
        let found = SecretAnswer::Found {
            version: version.clone(),
            data,
        };
        assert_eq!(send(SecretVerb::Get).await, found);
        let SecretAnswer::Written { version: next } = send(update("c", &version)).await else {
            panic!("it was not replaced")
        };
        assert_ne!(version, next);
        assert_eq!(send(update("d", &version)).await, SecretAnswer::Conflict);
        let secret = server.get("v1/secrets", "default", "informant-state-journal").unwrap();
        assert_eq!(secret.unwrap()["metadata"]["labels"][SECRET_GROUP_LABEL], "informant");
    }

    /// The answer of an API server that refuses everything.
    async fn of(status: StatusCode, headers: HeaderMap, body: &'static str) -> SecretAnswer {
        let service = tower::service_fn(move |request: Request<Body>| {
            assert_eq!(request.method(), Method::GET);
            let mut response = http::Response::new(Body::from(body.as_bytes().to_vec()));
            *response.status_mut() = status;
            *response.headers_mut() = headers.clone();
            async move { Ok::<_, std::convert::Infallible>(response) }
        });
        api(Client::new(service, "default"))
            .send(request(SecretVerb::Get), SECRET_REQUEST_MAX)
            .await
    }

    #[tokio::test]
    async fn failures_say_whether_rights_are_missing_and_when_to_retry() {
        let status = r#"{"kind":"Status","message":"secrets is forbidden"}"#;
        let failure = |message: &str, is_denied, retry_after| {
            SecretAnswer::Failed(SecretFailure {
                message: message.to_owned(),
                is_denied,
                retry_after,
            })
        };
        let none = HeaderMap::new();
        let denied = of(StatusCode::FORBIDDEN, none.clone(), status).await;
        assert_eq!(denied, failure("secrets is forbidden", true, None));
        let later = HeaderMap::from_iter([(http::header::RETRY_AFTER, http::HeaderValue::from_static("7"))]);
        let busy = of(StatusCode::TOO_MANY_REQUESTS, later, status).await;
        let seven = Some(Duration::from_secs(7));
        assert_eq!(busy, failure("secrets is forbidden", false, seven));
        // A proxy's page says nothing about the Secret.
        let page = of(StatusCode::NOT_FOUND, none, "not here").await;
        assert!(matches!(page, SecretAnswer::Failed(_)), "{page:?}");
    }
}
