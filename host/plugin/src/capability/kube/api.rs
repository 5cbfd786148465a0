//! [`KubeApi`], the trait behind the `kube` interface. It has its own types, so that this crate needs no Kubernetes
//! client.
//!
//! Calls that reach it are validated: they are granted, their parts are valid in a path, and their document is not too
//! large. Deadlines are enforced on this side: the future of a call that takes too long is dropped.

use std::pin::Pin;
use std::sync::Arc;
use std::time::Duration;

use informant_spec::{KubeResource, KubeVerb};
use serde_json::{Map, Value, json};

use crate::capture::{KubeFailure, KubeRequest};
use crate::text::truncated;

/// The future of a call. Boxed, because it waits for the network anyway.
pub type KubeFuture = Pin<Box<dyn Future<Output = Result<Vec<u8>, KubeError>> + Send>>;

/// Sends requests to API servers.
pub trait KubeApi: Send + Sync + 'static {
    /// Makes one call, without retries, which are up to the caller. Returns the body of the API server's response, a
    /// JSON document.
    fn call(&self, call: KubeCall) -> KubeFuture;

    /// The name of this process, for Kubernetes Events: at most 128 bytes.
    fn process(&self) -> &str {
        "informant"
    }

    /// The full name of a cluster, which may be empty for the only one. So that each object has one address.
    /// Errors: [`KubeErrorCode::Invalid`] if there is no such cluster.
    fn cluster(&self, name: &str) -> Result<String, KubeError> {
        Ok(name.to_owned())
    }
}

/// One call.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct KubeCall {
    /// The plugin that makes it.
    pub plugin: Arc<str>,
    pub address: KubeAddress,
    pub action: KubeAction,
    /// The UID that the object of a deferred update or patch must have; empty: any, or the action says it. Send the
    /// [document](KubeCall::document) with it.
    pub uid: String,
    pub purpose: KubePurpose,
    /// The user that it is made as, by impersonation; none: Informant's own.
    pub identity: Option<Arc<str>>,
    /// The largest accepted response in bytes. A larger one can be discarded: it is [`KubeErrorCode::TooLarge`].
    pub answer_bytes_max: usize,
}

/// What a call is for.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum KubePurpose {
    /// The plugin asked for it.
    #[default]
    Plugin,
    /// It records a Kubernetes Event.
    Event,
}

impl KubeCall {
    /// Whether it records a Kubernetes Event.
    #[must_use]
    pub fn is_event(&self) -> bool {
        self.purpose == KubePurpose::Event
    }
}

/// The address of an object or a collection.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct KubeAddress {
    /// Empty: the only cluster.
    pub cluster: String,
    pub resource: KubeResource,
    /// Empty: cluster-scoped, or all namespaces.
    pub namespace: String,
    /// Empty: the collection.
    pub name: String,
    /// Empty: the object itself.
    pub subresource: String,
}

#[cfg(test)]
impl KubeAddress {
    /// The pod `name` in the namespace `web`.
    pub(crate) fn of_pod(name: &str) -> KubeAddress {
        KubeAddress {
            cluster: String::new(),
            resource: KubeResource::parse("v1/pods").unwrap(),
            namespace: "web".to_owned(),
            name: name.to_owned(),
            subresource: String::new(),
        }
    }
}

#[derive(Clone, Debug, PartialEq, Eq)]
pub enum KubeAction {
    Get,
    List(KubeList),
    Create(Vec<u8>, KubeWrite),
    Update(Vec<u8>, KubeWrite),
    Patch(KubePatchKind, Vec<u8>, KubeWrite),
    Delete(KubeDelete),
}

#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct KubeList {
    /// Empty: everything.
    pub label_selector: String,
    /// Empty: everything.
    pub field_selector: String,
    /// Most objects to return.
    pub limit: u32,
    /// Empty: the first page.
    pub cursor: String,
}

#[derive(Clone, Debug, Default, PartialEq, Eq, Hash)]
pub struct KubeWrite {
    /// The field manager. Never empty.
    pub field_manager: String,
    /// `Ignore`, `Warn` or `Strict`; none: the API server's default.
    pub field_validation: Option<&'static str>,
    /// Take ownership of conflicting fields.
    pub force: bool,
    /// Dry run: change nothing.
    pub dry_run: bool,
}

#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct KubeDelete {
    /// None: the resource's default.
    pub propagation: Option<KubePropagation>,
    /// How many seconds the object may take to end; none: its own default.
    pub grace_period_seconds: Option<u32>,
    /// Empty: any UID.
    pub uid: String,
    /// Empty: any resource version.
    pub resource_version: String,
    /// Dry run: change nothing.
    pub dry_run: bool,
}

/// What happens to an object's dependents.
#[derive(Clone, Copy, Debug, PartialEq, Eq, serde::Deserialize)]
pub enum KubePropagation {
    /// They are deleted later.
    Background,
    /// They are deleted first.
    Foreground,
    /// They are kept.
    Orphan,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum KubePatchKind {
    /// RFC 7386.
    Merge,
    /// RFC 6902.
    Json,
    /// Lists are merged by key.
    Strategic,
    /// Server-side apply.
    Apply,
}

#[derive(Clone, Debug, PartialEq, Eq)]
pub struct KubeError {
    pub code: KubeErrorCode,
    /// The HTTP status of the response; 0: there was none.
    pub status: u16,
    /// The `reason` of the API server's `Status`; empty: there was none.
    pub reason: String,
    /// Whether the response was a Kubernetes `Status`. A proxy's page is none, nor is the API server's for a version
    /// that it does not serve.
    pub is_from_kubernetes: bool,
    /// The message. It is passed to the plugin and must not contain credentials.
    pub message: String,
    /// The API server's Retry-After.
    pub retry_after: Option<Duration>,
}

/// The kind of error: the contract's `api-error-code`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum KubeErrorCode {
    /// config.toml does not grant it.
    Denied,
    /// The current call may not use the interface.
    NotHere,
    /// The API server forbids it.
    Forbidden,
    /// The API server rejects the credentials.
    Unauthorized,
    /// There is no such object or resource.
    NotFound,
    /// The object already exists.
    AlreadyExists,
    /// It is based on an outdated state.
    Conflict,
    /// The request is invalid.
    Invalid,
    /// The cursor has expired.
    Expired,
    /// The request or the response is too large.
    TooLarge,
    /// The API server throttles requests.
    TooManyRequests,
    /// No response in time.
    Timeout,
    /// The API server is unreachable or failing.
    Unavailable,
    /// The resource does not support it.
    Unsupported,
}

impl KubeAction {
    #[must_use]
    pub fn verb(&self) -> KubeVerb {
        match self {
            KubeAction::Get => KubeVerb::Get,
            KubeAction::List(_) => KubeVerb::List,
            KubeAction::Create(..) => KubeVerb::Create,
            KubeAction::Update(..) => KubeVerb::Update,
            KubeAction::Patch(..) => KubeVerb::Patch,
            KubeAction::Delete(_) => KubeVerb::Delete,
        }
    }

    /// Whether it may change an object. Nothing that is a dry run does.
    #[must_use]
    pub fn is_write(&self) -> bool {
        match self {
            KubeAction::Get | KubeAction::List(_) => false,
            KubeAction::Create(_, options) | KubeAction::Update(_, options) | KubeAction::Patch(_, _, options) => {
                !options.dry_run
            }
            KubeAction::Delete(options) => !options.dry_run,
        }
    }

    pub(crate) fn document(&self) -> &[u8] {
        match self {
            KubeAction::Create(document, _) | KubeAction::Update(document, _) | KubeAction::Patch(_, document, _) => {
                document
            }
            KubeAction::Get | KubeAction::List(_) | KubeAction::Delete(_) => &[],
        }
    }
}

impl KubeErrorCode {
    pub const ALL: [KubeErrorCode; 14] = [
        KubeErrorCode::Denied,
        KubeErrorCode::NotHere,
        KubeErrorCode::Forbidden,
        KubeErrorCode::Unauthorized,
        KubeErrorCode::NotFound,
        KubeErrorCode::AlreadyExists,
        KubeErrorCode::Conflict,
        KubeErrorCode::Invalid,
        KubeErrorCode::Expired,
        KubeErrorCode::TooLarge,
        KubeErrorCode::TooManyRequests,
        KubeErrorCode::Timeout,
        KubeErrorCode::Unavailable,
        KubeErrorCode::Unsupported,
    ];

    /// The name in the contract and in metrics.
    #[must_use]
    pub const fn as_str(self) -> &'static str {
        match self {
            KubeErrorCode::Denied => "denied",
            KubeErrorCode::NotHere => "not-here",
            KubeErrorCode::Forbidden => "forbidden",
            KubeErrorCode::Unauthorized => "unauthorized",
            KubeErrorCode::NotFound => "not-found",
            KubeErrorCode::AlreadyExists => "already-exists",
            KubeErrorCode::Conflict => "conflict",
            KubeErrorCode::Invalid => "invalid",
            KubeErrorCode::Expired => "expired",
            KubeErrorCode::TooLarge => "too-large",
            KubeErrorCode::TooManyRequests => "too-many-requests",
            KubeErrorCode::Timeout => "timeout",
            KubeErrorCode::Unavailable => "unavailable",
            KubeErrorCode::Unsupported => "unsupported",
        }
    }
}

impl KubeError {
    /// An error without a response of an API server.
    #[must_use]
    pub fn new(code: KubeErrorCode, message: impl Into<String>) -> KubeError {
        KubeError {
            code,
            status: 0,
            reason: String::new(),
            is_from_kubernetes: false,
            message: truncated(message),
            retry_after: None,
        }
    }
}

impl KubeWrite {
    /// The field manager of a plugin's writes that name none.
    pub(crate) fn default_manager(plugin: &str) -> String {
        format!("informant-{plugin}")
    }

    /// The options that differ from the defaults of a plugin.
    fn asked(&self, plugin: &str) -> Map<String, Value> {
        let KubeWrite {
            field_manager,
            field_validation,
            force,
            dry_run,
        } = self;
        let is_default = *field_manager == KubeWrite::default_manager(plugin);
        given([
            ("fieldManager", (!is_default).then(|| json!(field_manager))),
            ("fieldValidation", field_validation.map(Value::from)),
            ("force", force.then(|| json!(true))),
            ("dryRun", dry_run.then(|| json!(["All"]))),
        ])
    }
}

impl KubeDelete {
    /// The options that differ from the defaults.
    fn asked(&self) -> Map<String, Value> {
        let KubeDelete {
            propagation,
            grace_period_seconds,
            uid,
            resource_version,
            dry_run,
        } = self;
        let text = |text: &String| (!text.is_empty()).then(|| json!(text));
        let preconditions = given([("uid", text(uid)), ("resourceVersion", text(resource_version))]);
        given([
            ("propagationPolicy", propagation.map(|of| Value::from(of.as_str()))),
            ("gracePeriodSeconds", grace_period_seconds.map(Value::from)),
            (
                "preconditions",
                (!preconditions.is_empty()).then(|| preconditions.into()),
            ),
            ("dryRun", dry_run.then(|| json!(["All"]))),
        ])
    }
}

/// The members that have a value.
fn given<const N: usize>(members: [(&str, Option<Value>); N]) -> Map<String, Value> {
    let given = members
        .into_iter()
        .filter_map(|(name, value)| Some((name.to_owned(), value?)));
    given.collect()
}

impl KubePropagation {
    /// Its name in the API.
    #[must_use]
    pub const fn as_str(self) -> &'static str {
        match self {
            KubePropagation::Background => "Background",
            KubePropagation::Foreground => "Foreground",
            KubePropagation::Orphan => "Orphan",
        }
    }
}

impl KubePatchKind {
    /// Its name in scenarios.
    #[must_use]
    pub const fn as_str(self) -> &'static str {
        match self {
            KubePatchKind::Merge => "merge",
            KubePatchKind::Json => "json",
            KubePatchKind::Strategic => "strategic",
            KubePatchKind::Apply => "apply",
        }
    }
}

impl From<&KubeCall> for KubeRequest {
    fn from(call: &KubeCall) -> KubeRequest {
        let KubeCall { address, action, .. } = call;
        let mut request = KubeRequest {
            verb: action.verb().as_str(),
            resource: address.resource.to_string(),
            namespace: address.namespace.clone(),
            name: address.name.clone(),
            subresource: address.subresource.clone(),
            ..KubeRequest::default()
        };
        match action {
            KubeAction::Get => {}
            KubeAction::Delete(options) => request.options = options.asked(),
            KubeAction::List(list) => {
                request.label_selector.clone_from(&list.label_selector);
                request.field_selector.clone_from(&list.field_selector);
                request.cursor.clone_from(&list.cursor);
            }
            KubeAction::Create(document, options) | KubeAction::Update(document, options) => {
                request.options = options.asked(&call.plugin);
                request.document = Some(document.clone());
            }
            KubeAction::Patch(kind, document, options) => {
                request.patch = Some(kind.as_str());
                request.options = options.asked(&call.plugin);
                request.document = Some(document.clone());
            }
        }
        request
    }
}

impl From<&KubeError> for KubeFailure {
    fn from(error: &KubeError) -> KubeFailure {
        KubeFailure {
            code: error.code.as_str(),
            status: error.status,
            reason: error.reason.clone(),
            message: error.message.clone(),
            retry_after: error.retry_after,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn options(action: KubeAction) -> String {
        let call = KubeCall {
            purpose: KubePurpose::Plugin,
            identity: None,
            plugin: Arc::from("greeter"),
            address: KubeAddress {
                cluster: String::new(),
                resource: KubeResource::parse("v1/pods").unwrap(),
                namespace: "shop".to_owned(),
                name: "web-0".to_owned(),
                subresource: String::new(),
            },
            action,
            uid: String::new(),
            answer_bytes_max: 1,
        };
        Value::from(KubeRequest::from(&call).options).to_string()
    }

    #[test]
    fn requests_have_the_options_that_were_asked_for() {
        let write = |field_manager: &str| KubeWrite {
            field_manager: field_manager.to_owned(),
            ..KubeWrite::default()
        };
        let apply = KubeWrite {
            field_validation: Some("Strict"),
            force: true,
            dry_run: true,
            ..write("me")
        };
        let delete = KubeDelete {
            propagation: Some(KubePropagation::Foreground),
            grace_period_seconds: Some(0),
            uid: "5f1c".to_owned(),
            ..KubeDelete::default()
        };
        let shown = [
            KubeAction::Get,
            KubeAction::Create(b"{}".to_vec(), write("informant-greeter")),
            KubeAction::Patch(KubePatchKind::Apply, b"{}".to_vec(), apply),
            KubeAction::Delete(KubeDelete::default()),
            KubeAction::Delete(delete),
        ];
        insta::assert_snapshot!(shown.map(options).join("\n"), @r#"
        {}
        {}
        {"dryRun":["All"],"fieldManager":"me","fieldValidation":"Strict","force":true}
        {}
        {"gracePeriodSeconds":0,"preconditions":{"uid":"5f1c"},"propagationPolicy":"Foreground"}
        "#);
    }
}
