//! One Lease (coordination.k8s.io/v1), written only under the version that was read.
//!
//! Knows nothing of why it is held: who renews when, and what a lost Lease means, is the caller's business.

use std::fmt;
use std::time::Duration;

use http_body_util::Limited;
use informant_cache::Environment;
use jiff::Timestamp;
use k8s_openapi::api::coordination::v1::{Lease, LeaseSpec};
use k8s_openapi::apimachinery::pkg::apis::meta::v1::MicroTime;
use kube::api::{ObjectMeta, PostParams};
use kube::client::Body;
use kube::{Api, Client};

/// How long one request about a Lease may take: 5 s. Then it has failed; the next one comes with the next renewal.
const REQUEST_MAX: Duration = Duration::from_secs(5);

/// The longest answer about a Lease that is read: 1 MiB, far more than a Lease has. A longer one is an error.
const ANSWER_BYTES_MAX: usize = 1 << 20;

/// Where one Lease is, and how to reach it.
pub(super) struct LeaseClient {
    api: Api<Lease>,
    namespace: String,
    name: String,
}

/// Why a Lease cannot be read or written.
#[derive(Debug)]
pub(super) struct LeaseProblem {
    pub(super) message: String,
    /// The API server refuses it to this user. Only a change of the user's rights helps.
    pub(super) is_forbidden: bool,
}

/// The result of a write.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Written {
    Done,
    /// It is no longer, or already, what was read: somebody else has written, created or deleted it.
    Conflict,
}

impl LeaseClient {
    /// The Lease `name` in the client's namespace.
    pub(super) fn new(client: Client, name: &str) -> Self {
        let namespace = client.default_namespace().to_owned();
        let limited = tower::service_fn(move |request: http::Request<Body>| {
            let client = client.clone();
            async move {
                let response = client.send(request).await?;
                Ok::<_, kube::Error>(response.map(|body| Limited::new(body, ANSWER_BYTES_MAX)))
            }
        });
        let client = Client::new(limited, namespace.clone());
        Self {
            api: Api::namespaced(client, &namespace),
            namespace,
            name: name.to_owned(),
        }
    }

    /// The Lease as it is now; none if there is none.
    pub(super) async fn read(&self, environment: &dyn Environment) -> Result<Option<Lease>, LeaseProblem> {
        within(environment, self.api.get_opt(&self.name)).await
    }

    /// Writes `spec` in place of what was `read`, or creates the Lease if there was none.
    pub(super) async fn write(
        &self,
        environment: &dyn Environment,
        read: Option<&Lease>,
        spec: LeaseSpec,
    ) -> Result<Written, LeaseProblem> {
        let metadata = match read {
            Some(lease) => lease.metadata.clone(),
            None => ObjectMeta {
                name: Some(self.name.clone()),
                ..ObjectMeta::default()
            },
        };
        let lease = Lease {
            metadata,
            spec: Some(spec),
        };
        let parameters = PostParams::default();
        let sent = async {
            let answer = match read {
                Some(_) => self.api.replace(&self.name, &parameters, &lease).await,
                None => self.api.create(&parameters, &lease).await,
            };
            match answer {
                Ok(_) => Ok(Written::Done),
                // 404: deleted since it was read.
                Err(kube::Error::Api(status)) if matches!(status.code, 404 | 409) => Ok(Written::Conflict),
                Err(error) => Err(error),
            }
        };
        within(environment, sent).await
    }
}

/// `NAMESPACE/NAME`.
impl fmt::Display for LeaseClient {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}/{}", self.namespace, self.name)
    }
}

/// The name in a Lease; empty if it is not held.
pub(super) fn holder(lease: &Lease) -> &str {
    let spec = lease.spec.as_ref();
    spec.and_then(|spec| spec.holder_identity.as_deref())
        .unwrap_or_default()
}

/// This moment, for people who read the Lease: no time in it is compared with another machine's.
pub(super) fn wall_clock() -> MicroTime {
    MicroTime(Timestamp::now())
}

async fn within<T>(
    environment: &dyn Environment,
    sent: impl Future<Output = Result<T, kube::Error>>,
) -> Result<T, LeaseProblem> {
    tokio::select! {
        biased;
        answer = sent => answer.map_err(|error| LeaseProblem::of(&error)),
        () = environment.sleep(REQUEST_MAX) => Err(LeaseProblem {
            message: format!("the API server did not answer within {} s", REQUEST_MAX.as_secs()),
            is_forbidden: false,
        }),
    }
}

impl LeaseProblem {
    fn of(error: &kube::Error) -> Self {
        match error {
            kube::Error::Api(status) => Self {
                message: format!("the API server answers {}: {}", status.code, status.message),
                is_forbidden: status.code == 403,
            },
            error => Self {
                message: format!("no answer of the API server: {error}"),
                is_forbidden: false,
            },
        }
    }
}
