//! What this room needs from outside to act on a cluster: [`KubeApi`], in terms of its own, so that it knows no
//! Kubernetes client.
//!
//! What arrives there has been judged: it is granted, its parts can stand in a path, its document is not too long.
//! Deadlines are kept on this side: the future of a call that takes too long is dropped.

use std::pin::Pin;
use std::sync::Arc;
use std::time::Duration;

use crate::{KubeResource, KubeVerb};

/// What a call comes to. Boxed, because it waits for a network anyway.
pub type KubeFuture = Pin<Box<dyn Future<Output = Result<Vec<u8>, KubeError>> + Send>>;

/// Sends requests to API servers.
pub trait KubeApi: Send + Sync + 'static {
    /// Makes one call, once: whoever asks decides whether to try again. The answer is the body of the API server's, a
    /// JSON document.
    fn call(&self, call: KubeCall) -> KubeFuture;
}

/// One call.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct KubeCall {
    /// For whom it is made.
    pub plugin: Arc<str>,
    /// With what.
    pub address: KubeAddress,
    /// What is done.
    pub action: KubeAction,
    /// The longest answer that is wanted. Of a longer one nothing has to be kept: it is [`KubeErrorCode::TooLarge`].
    pub answer_bytes_max: usize,
}

/// An object, or a collection of them.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct KubeAddress {
    /// Empty: the only cluster.
    pub cluster: String,
    /// Which resource.
    pub resource: KubeResource,
    /// Empty: outside of namespaces, or in all of them.
    pub namespace: String,
    /// Empty: the collection.
    pub name: String,
    /// Empty: the object itself.
    pub subresource: String,
}

/// What is done.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum KubeAction {
    /// Read the object.
    Get,
    /// Read a page of the collection.
    List(KubeList),
    /// Add this object to the collection, or to the object's subresource.
    Create(Vec<u8>, KubeWrite),
    /// Put this object in the place of the one there is.
    Update(Vec<u8>, KubeWrite),
    /// Change the object.
    Patch(KubePatchKind, Vec<u8>, KubeWrite),
    /// Delete the object.
    Delete(KubeDelete),
}

/// Which page of a collection.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct KubeList {
    /// Empty: everything.
    pub label_selector: String,
    /// Empty: everything.
    pub field_selector: String,
    /// At most so many objects.
    pub limit: u32,
    /// Empty: the first page.
    pub cursor: String,
}

/// How something is written.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct KubeWrite {
    /// Who owns the fields. Never empty.
    pub field_manager: String,
    /// Take fields over from other managers.
    pub force: bool,
    /// Change nothing.
    pub dry_run: bool,
}

/// How something is deleted.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct KubeDelete {
    /// None: as the resource has it.
    pub propagation: Option<KubePropagation>,
    /// Empty: any incarnation.
    pub uid: String,
    /// Empty: any state.
    pub resource_version: String,
    /// Change nothing.
    pub dry_run: bool,
}

/// What becomes of what an object owns.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum KubePropagation {
    /// It is deleted later.
    Background,
    /// It is deleted first.
    Foreground,
    /// It stays.
    Orphan,
}

/// What a patch is.
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

/// Why a call did not come to what was wanted.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct KubeError {
    /// What kind of trouble.
    pub code: KubeErrorCode,
    /// The HTTP status of the answer; 0: there was none.
    pub status: u16,
    /// What to read. Goes to the plugin: it must hold no credentials.
    pub message: String,
    /// How long the API server asks to be left alone.
    pub retry_after: Option<Duration>,
}

/// What kind of trouble it is: the contract's `api-error-code`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum KubeErrorCode {
    /// config.toml does not grant it.
    Denied,
    /// The API server does not allow it.
    Forbidden,
    /// The API server does not know who asks.
    Unauthorized,
    /// There is no such object or resource.
    NotFound,
    /// There is such an object already.
    AlreadyExists,
    /// It is based on another state than there is.
    Conflict,
    /// It makes no sense.
    Invalid,
    /// The cursor is too old.
    Expired,
    /// Too long, on the way there or back.
    TooLarge,
    /// Asked too often.
    TooManyRequests,
    /// No answer in time.
    Timeout,
    /// Nobody there, or in trouble.
    Unavailable,
    /// Not with this resource.
    Unsupported,
}

impl KubeAction {
    /// Its verb, as grants and metrics name it.
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

    /// What is sent with it.
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
    /// All of them.
    pub const ALL: [KubeErrorCode; 13] = [
        KubeErrorCode::Denied,
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
    /// One that no API server has answered.
    #[must_use]
    pub fn new(code: KubeErrorCode, message: impl Into<String>) -> KubeError {
        KubeError {
            code,
            status: 0,
            message: message.into(),
            retry_after: None,
        }
    }
}
