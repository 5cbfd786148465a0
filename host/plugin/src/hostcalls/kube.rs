//! The `kube` interface: lets a guest act on the cluster.
//!
//! ```text
//! guest ─▶ address valid? ─▶ granted? ─▶ not too large? ─▶ KubeApi, within the remaining time of the call ─▶ answer
//!                                                      └─▶ deferred: made after the call succeeded (`crate::writes`)
//! ```
//!
//! Promises: nothing is sent that config.toml does not grant, and `denied` contains the line that would grant it; a
//! host call ends before the guest's own call reaches its time limit; waiting is not charged to the guest's CPU time.
//! Calls from `index`, `describe`, `init`, `save` and `restore` always return `denied`.

mod access;
mod convert;
mod defer;
mod document;
mod gate;
mod metrics;
mod options;

pub(crate) use self::access::{KubeAccess, KubeGrants, KubeRights};
pub(crate) use self::gate::{describe, send, version_of};
pub(crate) use self::metrics::{KubeCounters, KubeFamilies};

use crate::hostcalls::kube_api::{KubeAction, KubeAddress, KubeError, KubeErrorCode};
use crate::hostcalls::wait::CallTime;
use crate::instance::bindings::informant::plugin::kube::{self, Address, ApiError, ObjectPage, PatchKind};
use crate::instance::guest::GuestState;
use crate::writes::{CallWrites, DeferredWrite};

/// Objects of one page: at most 500, which is also the default.
pub const KUBE_PAGE_OBJECTS_MAX: u32 = 500;

/// The largest response that is passed to a guest: 8 MiB. A larger one is `too-large`.
pub const KUBE_ANSWER_BYTES_MAX: usize = 8 << 20;

/// The largest document that a guest may send: 3 MiB, the API server's limit. A larger one is `too-large`.
pub const KUBE_DOCUMENT_BYTES_MAX: usize = 3 << 20;

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
    /// The writes that the current call has deferred.
    deferred: CallWrites,
}

impl KubeCaller {
    /// Calls are limited to the remaining `time`.
    pub(crate) fn new(access: KubeAccess, time: CallTime) -> KubeCaller {
        KubeCaller {
            access,
            denied: None,
            time,
            deferred: CallWrites::default(),
        }
    }

    /// A call into the guest begins. `commits`: its success commits the writes that it defers.
    pub(crate) fn begin_call(&mut self, commits: bool) {
        self.deferred.begin(commits);
    }

    /// The call succeeded: takes the writes that it deferred.
    pub(crate) fn take_writes(&mut self) -> Vec<DeferredWrite> {
        self.deferred.take()
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

    /// Whether there is a single cluster, without a name.
    fn has_unnamed_cluster(&self) -> bool {
        let api = self.rights().ok().and_then(|(rights, _)| gate::api(rights).ok());
        api.is_some_and(|api| api.cluster("").is_ok_and(|name| name.is_empty()))
    }

    fn create(&self, object: Vec<u8>, options: &[u8]) -> Result<KubeAction, KubeError> {
        let options = options::write(options, &self.access.field_manager())?;
        Ok(KubeAction::Create(object, options))
    }

    fn update(&self, object: Vec<u8>, options: &[u8]) -> Result<KubeAction, KubeError> {
        let options = options::write(options, &self.access.field_manager())?;
        Ok(KubeAction::Update(object, options))
    }

    fn patch(&self, kind: PatchKind, document: Vec<u8>, options: &[u8]) -> Result<KubeAction, KubeError> {
        let options = options::patch(options, kind == PatchKind::Apply, &self.access.field_manager())?;
        Ok(KubeAction::Patch(kind.into(), document, options))
    }
}

impl GuestState {
    /// Adds the cluster of the object that the current call is about, if `address` names none.
    fn complete(&self, address: &mut Address) -> Result<(), KubeError> {
        if !address.cluster.is_empty() {
            return Ok(());
        }
        match self.reader.cluster_of_call() {
            Ok(cluster) => address.cluster = cluster.unwrap_or_default(),
            Err(_) if self.kube.has_unnamed_cluster() => {}
            Err(gone) => {
                let message = format!("the cluster of this object is unknown: {gone}");
                return Err(KubeError::new(KubeErrorCode::Unavailable, message));
            }
        }
        Ok(())
    }

    async fn act(&mut self, mut address: Address, action: Result<KubeAction, KubeError>) -> Answer<Vec<u8>> {
        let action = self.complete(&mut address).and(action);
        let verb = action.as_ref().map(KubeAction::verb).ok();
        let rights = self.kube.rights();
        let answer = match rights {
            Ok((rights, grants)) => {
                let began = rights.env.now();
                let answer = call(rights, grants, &self.kube.time, address, action).await;
                if let Some(verb) = verb {
                    rights.count(verb, answer.as_ref().err(), began);
                }
                answer
            }
            Err(denied) => Err(denied),
        };
        answer.map_err(ApiError::from)
    }
}

/// Validates the address of a call and makes it, within the remaining `time`.
async fn call(
    rights: &KubeRights,
    grants: &KubeGrants,
    time: &CallTime,
    address: Address,
    action: Result<KubeAction, KubeError>,
) -> Result<Vec<u8>, KubeError> {
    let (address, action) = (KubeAddress::try_from(address)?, action?);
    let wait_max = time.left().min(KUBE_WAIT_MAX);
    gate::send(rights, grants, address, action, wait_max, Some(&rights.permits())).await
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
        let action = self.kube.create(object, &options);
        Ok(self.act(address, action).await)
    }

    async fn update(
        &mut self,
        address: Address,
        object: Vec<u8>,
        options: Vec<u8>,
    ) -> wasmtime::Result<Answer<Vec<u8>>> {
        let action = self.kube.update(object, &options);
        Ok(self.act(address, action).await)
    }

    async fn patch(
        &mut self,
        address: Address,
        kind: PatchKind,
        document: Vec<u8>,
        options: Vec<u8>,
    ) -> wasmtime::Result<Answer<Vec<u8>>> {
        let action = self.kube.patch(kind, document, &options);
        Ok(self.act(address, action).await)
    }

    async fn delete(&mut self, address: Address, options: Vec<u8>) -> wasmtime::Result<Answer<()>> {
        let action = options::delete(&options).map(KubeAction::Delete);
        Ok(self.act(address, action).await.map(|_last_state| ()))
    }

    fn defer_create(&mut self, address: Address, object: Vec<u8>, options: Vec<u8>) -> wasmtime::Result<Answer<()>> {
        let action = self.kube.create(object, &options);
        Ok(self.defer(address, action))
    }

    fn defer_update(&mut self, address: Address, object: Vec<u8>, options: Vec<u8>) -> wasmtime::Result<Answer<()>> {
        let action = self.kube.update(object, &options);
        Ok(self.defer(address, action))
    }

    fn defer_patch(
        &mut self,
        address: Address,
        kind: PatchKind,
        document: Vec<u8>,
        options: Vec<u8>,
    ) -> wasmtime::Result<Answer<()>> {
        let action = self.kube.patch(kind, document, &options);
        Ok(self.defer(address, action))
    }

    fn defer_delete(&mut self, address: Address, options: Vec<u8>) -> wasmtime::Result<Answer<()>> {
        let action = options::delete(&options).map(KubeAction::Delete);
        Ok(self.defer(address, action))
    }
}
