//! The `kube` interface: lets a guest act on the cluster.
//!
//! ```text
//! guest ─▶ address valid? ─▶ granted? ─▶ not too large? ─▶ KubeApi, within the remaining time of the call ─▶ answer
//! ```
//!
//! Promises: nothing is sent that config.toml does not grant, and `denied` contains the line that would grant it; a
//! host call ends before the guest's own call reaches its time limit; waiting is not charged to the guest's CPU time.
//! Calls from `index`, `describe` and `init` always return `denied`.

mod access;
mod convert;
mod document;
mod metrics;
mod options;
mod wait;

use std::sync::Arc;

pub(crate) use self::access::{KubeAccess, KubeGrants, KubeRights};
pub(crate) use self::metrics::{KubeCounters, KubeFamilies};
pub(crate) use self::wait::CallTime;

use self::wait::TooLate;
use crate::hostcalls::grant::ResourceAttributes;
use crate::hostcalls::kube_api::{KubeAction, KubeAddress, KubeCall, KubeError, KubeErrorCode, KubePatchKind};
use crate::instance::bindings::informant::plugin::kube::{self, Address, ApiError, ObjectPage, PatchKind};
use crate::instance::guest::GuestState;

/// Objects of one page: at most 500, which is also the default.
pub const KUBE_PAGE_OBJECTS_MAX: u32 = 500;

/// The largest response that is passed to a guest: 8 MiB. A larger one is `too-large`.
pub const KUBE_ANSWER_BYTES_MAX: usize = 8 << 20;

/// The largest document that a guest may send: 3 MiB, the API server's limit. A larger one is `too-large`.
pub const KUBE_DOCUMENT_BYTES_MAX: usize = 3 << 20;

/// Concurrent calls of one plugin: 8. Further ones wait, within their own time limit.
pub const KUBE_CALLS_MAX: usize = 8;

/// How long a guest waits for one response: 10 s, or the remaining time of its own call. Then the call returns
/// `timeout`.
pub const KUBE_WAIT_MAX: std::time::Duration = std::time::Duration::from_secs(10);

type Answer<T> = Result<T, ApiError>;

/// Makes calls to the cluster for one instance.
pub(crate) struct KubeCaller {
    access: KubeAccess,
    /// Why every call is denied at present, if so.
    denied: Option<&'static str>,
    time: CallTime,
}

impl KubeCaller {
    /// Calls are limited to the remaining `time`.
    pub(crate) fn new(access: KubeAccess, time: CallTime) -> KubeCaller {
        KubeCaller {
            access,
            denied: None,
            time,
        }
    }

    /// Denies all calls for this reason, or no longer.
    pub(crate) fn deny(&mut self, reason: Option<&'static str>) {
        self.denied = reason;
    }

    fn rights(&self) -> Result<(&KubeRights, &KubeGrants), KubeError> {
        match self.denied {
            Some(reason) => Err(KubeError::new(KubeErrorCode::Denied, reason)),
            None => self.access.rights(),
        }
    }
}

impl GuestState {
    async fn act(&mut self, mut address: Address, action: Result<KubeAction, KubeError>) -> Answer<Vec<u8>> {
        if address.cluster.is_empty() {
            address.cluster = self.reader.cluster_of_call().unwrap_or_default();
        }
        let verb = action.as_ref().map(KubeAction::verb).ok();
        self.budget.begin_wait();
        let rights = self.kube.rights();
        let answer = match rights {
            Ok((rights, grants)) => {
                let began = rights.env.now();
                let answer = call(rights, grants, &self.kube.time, address, action).await;
                if let Some(verb) = verb {
                    rights
                        .counters
                        .count(verb, answer.as_ref().err(), rights.env.now() - began);
                }
                answer
            }
            Err(denied) => Err(denied),
        };
        self.budget.end_wait();
        answer.map_err(ApiError::from)
    }
}

/// Authorizes a call and makes it.
async fn call(
    rights: &KubeRights,
    grants: &KubeGrants,
    time: &CallTime,
    address: Address,
    action: Result<KubeAction, KubeError>,
) -> Result<Vec<u8>, KubeError> {
    let (address, action) = (KubeAddress::try_from(address)?, action?);
    authorize(&rights.plugin, grants, &address, &action)?;
    let Some(api) = &rights.api else {
        let message = "no cluster is connected: kube calls need `informant run`";
        return Err(KubeError::new(KubeErrorCode::Unavailable, message));
    };
    let call = KubeCall {
        plugin: Arc::clone(&rights.plugin),
        address,
        action,
        answer_bytes_max: KUBE_ANSWER_BYTES_MAX,
    };
    let wait_max = time.left().min(KUBE_WAIT_MAX);
    let made = async {
        // Never closed.
        let _permit = rights.permits.acquire().await;
        api.call(call).await
    };
    match wait::at_most(&*rights.env, wait_max, made).await {
        Ok(answer) => answer,
        Err(TooLate) => Err(KubeError::new(
            KubeErrorCode::Timeout,
            format!(
                "no response within {wait_max:?}; a write may still have taken effect; read the object before you retry"
            ),
        )),
    }
}

/// Rejects calls that are not granted, invalid or too large.
fn authorize(plugin: &str, grants: &KubeGrants, address: &KubeAddress, action: &KubeAction) -> Result<(), KubeError> {
    let refuse = |code, message: String| Err(KubeError::new(code, message));
    let of_collection = matches!(action, KubeAction::List(_))
        || (matches!(action, KubeAction::Create(..)) && address.subresource.is_empty());
    if of_collection && !(address.name.is_empty() && address.subresource.is_empty()) {
        let message = format!(
            "{} addresses a collection, not an object: leave name and subresource empty",
            action.verb()
        );
        return refuse(KubeErrorCode::Invalid, message);
    }
    if !of_collection && address.name.is_empty() {
        return refuse(
            KubeErrorCode::Invalid,
            format!("{} needs the name of an object", action.verb()),
        );
    }
    let document = action.document();
    if document.len() > KUBE_DOCUMENT_BYTES_MAX {
        let message = format!(
            "the document is too large: {} bytes; at most {KUBE_DOCUMENT_BYTES_MAX} are allowed",
            document.len()
        );
        return refuse(KubeErrorCode::TooLarge, message);
    }
    let made = match action {
        KubeAction::Create(document, _) if address.subresource.is_empty() => document::name_of(document)?,
        _ => String::new(),
    };
    let call = ResourceAttributes {
        verb: action.verb(),
        resource: &address.resource,
        namespace: &address.namespace,
        name: if made.is_empty() { &address.name } else { &made },
        subresource: &address.subresource,
    };
    grants.authorize(plugin, &call)?;
    match action {
        // It may create the object.
        KubeAction::Patch(KubePatchKind::Apply, document, _) | KubeAction::Update(document, _)
            if address.subresource.is_empty() && !document::has_uid(document)? =>
        {
            let create = ResourceAttributes {
                verb: crate::KubeVerb::Create,
                ..call
            };
            grants.authorize(plugin, &create)
        }
        _ => Ok(()),
    }
}

impl kube::Host for GuestState {
    async fn get(&mut self, address: Address) -> wasmtime::Result<Answer<Vec<u8>>> {
        Ok(self.act(address, Ok(KubeAction::Get)).await)
    }

    async fn list(&mut self, address: Address, options: Vec<u8>) -> wasmtime::Result<Answer<ObjectPage>> {
        let action = options::list(&options).map(KubeAction::List);
        let body = self.act(address, action).await;
        Ok(body.and_then(|body| document::page(&body).map_err(ApiError::from)))
    }

    async fn create(
        &mut self,
        address: Address,
        object: Vec<u8>,
        options: Vec<u8>,
    ) -> wasmtime::Result<Answer<Vec<u8>>> {
        let options = options::write(&options, &self.kube.access.field_manager());
        let action = options.map(|options| KubeAction::Create(object, options));
        Ok(self.act(address, action).await)
    }

    async fn update(
        &mut self,
        address: Address,
        object: Vec<u8>,
        options: Vec<u8>,
    ) -> wasmtime::Result<Answer<Vec<u8>>> {
        let options = options::write(&options, &self.kube.access.field_manager());
        let action = options.map(|options| KubeAction::Update(object, options));
        Ok(self.act(address, action).await)
    }

    async fn patch(
        &mut self,
        address: Address,
        kind: PatchKind,
        document: Vec<u8>,
        options: Vec<u8>,
    ) -> wasmtime::Result<Answer<Vec<u8>>> {
        let options = options::patch(&options, kind == PatchKind::Apply, &self.kube.access.field_manager());
        let action = options.map(|options| KubeAction::Patch(kind.into(), document, options));
        Ok(self.act(address, action).await)
    }

    async fn delete(&mut self, address: Address, options: Vec<u8>) -> wasmtime::Result<Answer<()>> {
        let action = options::delete(&options).map(KubeAction::Delete);
        Ok(self.act(address, action).await.map(|_last_state| ()))
    }
}
