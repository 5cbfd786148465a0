//! Leases (coordination.k8s.io/v1) of one namespace: reads and writes.
//!
//! A write is a compare-and-swap: it creates the Lease, or changes one that still has the version that was read. It
//! names only what Informant knows of it, so labels and annotations of others stay.

use std::collections::BTreeMap;
use std::sync::{Arc, Mutex};
use std::time::Duration;

use http_body_util::Limited;
use informant_cache::Environment;
use informant_lease::{LeaseAnswer, LeaseContent, LeaseRecord, LeaseRequest, RequestId, RequestKind};
use informant_object::ResourceVersion;
use jiff::Timestamp;
use k8s_openapi::api::coordination::v1::Lease;
use k8s_openapi::apimachinery::pkg::apis::meta::v1::MicroTime;
use kube::api::{Patch, PatchParams, PostParams};
use kube::client::Body;
use kube::{Api, Client};
use serde_json::{Map, Value, json};

use crate::sync::lock;

/// The longest answer about a Lease that is read: 1 MiB, more than an object of Kubernetes has. A longer one is an
/// error.
const ANSWER_BYTES_MAX: usize = 1 << 20;

/// The label of a group's Leases, for people: its value is the group.
const GROUP_LABEL: &str = "informant.dev/group";

/// Where the Leases of a group are, and how to reach them.
#[derive(Clone)]
pub(crate) struct LeaseApi {
    api: Api<Lease>,
    namespace: Arc<str>,
    group: Arc<str>,
    environment: Arc<dyn Environment>,
    /// By name, the transitions at which the Lease was last acquired here, and when: for people.
    acquired: Arc<Mutex<BTreeMap<String, (u32, MicroTime)>>>,
}

impl LeaseApi {
    /// The Leases of `group` in the client's namespace, or in another one.
    pub(crate) fn new(
        client: Client,
        namespace: Option<&str>,
        group: &str,
        environment: Arc<dyn Environment>,
    ) -> LeaseApi {
        let namespace = namespace.unwrap_or(client.default_namespace()).to_owned();
        let limited = tower::service_fn(move |request: http::Request<Body>| {
            let client = client.clone();
            async move {
                let response = client.send(request).await?;
                Ok::<_, kube::Error>(response.map(|body| Limited::new(body, ANSWER_BYTES_MAX)))
            }
        });
        LeaseApi {
            api: Api::namespaced(Client::new(limited, namespace.clone()), &namespace),
            namespace: namespace.into(),
            group: group.into(),
            environment,
            acquired: Arc::default(),
        }
    }

    pub(crate) fn namespace(&self) -> &str {
        &self.namespace
    }

    /// Sends a request about the Lease `name`, and returns the answer, at the latest when its time is over.
    pub(crate) async fn send(self, name: Arc<str>, request: LeaseRequest) -> (RequestId, LeaseAnswer) {
        let LeaseRequest { id, within, kind } = request;
        let answer = tokio::select! {
            biased;
            answer = self.answer(&name, kind) => answer,
            () = self.environment.sleep(within) => {
                LeaseAnswer::Failed(format!("the API server did not answer within {}", seconds(within)).into())
            }
        };
        (id, answer)
    }

    async fn answer(&self, name: &str, kind: RequestKind) -> LeaseAnswer {
        let answered = match kind {
            RequestKind::Read => self.api.get(name).await,
            RequestKind::Create(content) => {
                let mut lease = self.document(name, &content);
                lease["metadata"]["name"] = json!(name);
                lease["metadata"]["labels"] = json!({ GROUP_LABEL: &*self.group });
                // There is nothing to remove from a new object.
                if let Some(annotations) = lease["metadata"]["annotations"].as_object_mut() {
                    annotations.retain(|_, text| !text.is_null());
                }
                match serde_json::from_value(lease) {
                    Ok(lease) => self.api.create(&PostParams::default(), &lease).await,
                    Err(error) => return LeaseAnswer::Failed(error.to_string().into()),
                }
            }
            RequestKind::Replace { version, uid, content } => {
                let mut patch = self.document(name, &content);
                patch["metadata"]["resourceVersion"] = json!(version.as_str());
                patch["metadata"]["uid"] = json!(&*uid);
                let parameters = PatchParams::default();
                self.api.patch(name, &parameters, &Patch::Merge(patch)).await
            }
        };
        match answered {
            Ok(lease) => LeaseAnswer::Record(record(&lease)),
            Err(error) => failed(&error),
        }
    }

    /// What a write names.
    fn document(&self, name: &str, content: &LeaseContent) -> Value {
        let annotations: Map<String, Value> = content
            .annotations()
            .map(|(name, text)| (name, text.map_or(Value::Null, Value::from)))
            .collect();
        let holder = Some(&*content.holder).filter(|holder| !holder.is_empty());
        json!({
            "metadata": { "annotations": annotations },
            "spec": {
                "holderIdentity": holder,
                "leaseDurationSeconds": content.duration_seconds().max(1),
                "leaseTransitions": content.lease_transitions(),
                "acquireTime": self.acquired(name, content.transitions),
                "renewTime": MicroTime(Timestamp::now()),
            },
        })
    }

    /// When the Lease was acquired for this time.
    fn acquired(&self, name: &str, transitions: u32) -> MicroTime {
        let mut acquired = lock(&self.acquired);
        match acquired.get(name) {
            Some((known, at)) if *known == transitions => at.clone(),
            _ => {
                let at = MicroTime(Timestamp::now());
                acquired.insert(name.to_owned(), (transitions, at.clone()));
                at
            }
        }
    }
}

/// What an object of the API says.
pub(crate) fn record(lease: &Lease) -> LeaseRecord {
    let (metadata, spec) = (&lease.metadata, lease.spec.as_ref());
    let annotations = metadata.annotations.iter().flatten();
    LeaseRecord {
        version: ResourceVersion::new(metadata.resource_version.as_deref().unwrap_or_default()),
        uid: metadata.uid.as_deref().unwrap_or_default().into(),
        content: LeaseContent::from_parts(
            spec.and_then(|spec| spec.holder_identity.as_deref()),
            spec.and_then(|spec| spec.lease_duration_seconds),
            spec.and_then(|spec| spec.lease_transitions),
            annotations.map(|(name, text)| (name.as_str(), text.as_str())),
        ),
    }
}

fn failed(error: &kube::Error) -> LeaseAnswer {
    match error {
        kube::Error::Api(status) => {
            let message = format!("the API server answers {}: {}", status.code, status.message);
            match status.code {
                404 if is_from_kubernetes(status) => LeaseAnswer::NotFound,
                409 => LeaseAnswer::Conflict,
                // Another Lease of that name.
                422 if status.message.contains("metadata.uid") => LeaseAnswer::Conflict,
                401 | 403 => LeaseAnswer::Refused(message.into()),
                _ => LeaseAnswer::Failed(message.into()),
            }
        }
        error => LeaseAnswer::Failed(format!("no answer of the API server: {error}").into()),
    }
}

/// Whether a `Status` was in the answer. A proxy's page says nothing about a Lease; kube-client makes a status of it.
fn is_from_kubernetes(status: &kube::core::Status) -> bool {
    status.reason == "NotFound"
}

fn seconds(time: Duration) -> String {
    format!("{} s", time.as_secs_f64())
}
