//! The `kube` interface: lets a guest act on the cluster.
//!
//! ```text
//! guest ─▶ address valid? ─▶ granted? ─▶ not too large? ─▶ KubeApi, within the remaining time of the call ─▶ answer
//!                                                      └─▶ deferred: made after the call succeeded ([`writes`])
//! ```
//!
//! Promises: nothing is sent that config.toml does not grant, and `denied` contains the line that would grant it; a
//! host call ends before the guest's own call reaches its time limit; waiting is not charged to the guest's CPU time.
//! Calls from `index`, `describe`, `init`, `save` and `restore` always return `denied`.

pub(crate) mod api;
mod children;
mod convert;
mod defer;
mod direct;
mod document;
#[cfg(test)]
mod fuzz;
mod gate;
mod metrics;
mod options;
mod plugin;
mod uid;
pub(crate) mod writes;

use std::sync::Arc;

use informant_cache::Moment;
use informant_cache::seeded_bug::{SeededBug, seeded_bug};
use informant_spec::PluginSpec;
use tokio_util::sync::CancellationToken;
use wasmtime::component::{HasSelf, Linker};

use self::api::{KubeAction, KubeAddress, KubeError, KubeErrorCode};
use self::direct::{Before, DirectWrites};
use self::gate::Way;
use self::metrics::KubeSeries;
pub use self::metrics::KubeTraffic;
use self::plugin::KubeGrants;
pub(crate) use self::plugin::{KubePlugin, identity_of};
use self::writes::{CallWrites, KubeEffects};
use crate::bindings::informant::plugin::kube::{
    self, Address, ApiError, Child, Children, ObjectPage, Owner, PatchKind,
};
use crate::capability::HasCapabilities;
use crate::capability::parts::{
    CallEnd, CallPart, CallStart, CallSubject, Capability, CapabilityTask, Current, HandledEvent, InstanceParts,
    PluginParts,
};
use crate::capability::permission::MayUse;
use crate::capture::Tape;
use crate::component::manifest::Manifest;
use crate::engine::wait::CallTime;
use crate::observed::CurrentCause;
use crate::series::Live;

/// Objects of one page: at most 500, which is also the default.
pub(crate) const KUBE_PAGE_OBJECTS_MAX: u32 = 500;

/// The largest response that is passed to a guest: 8 MiB. A larger one is `too-large`.
pub(crate) const KUBE_ANSWER_BYTES_MAX: usize = 8 << 20;

/// The largest document that a guest may send: 3 MiB, the API server's limit. A larger one is `too-large`.
pub(crate) const KUBE_DOCUMENT_BYTES_MAX: usize = 3 << 20;

/// How long a guest waits for one response: 10 s, or the remaining time of its own call. Then the call returns
/// `timeout`.
pub(crate) const KUBE_WAIT_MAX: std::time::Duration = std::time::Duration::from_secs(10);

/// When a call is made again that could not do all it was asked to: it has pruned nothing, because the cache may lack
/// something, children were refused, or the cache lacks an earlier write. No change leads to it when that is over:
/// 60 s.
pub(crate) const CHILDREN_AGAIN_AFTER: std::time::Duration = std::time::Duration::from_secs(60);

type Answer<T> = Result<T, ApiError>;

/// Makes calls to the cluster for one instance.
pub(crate) struct KubeCaller {
    plugin: Arc<KubePlugin>,
    grants: Arc<Current<KubeGrants>>,
    may_use: MayUse,
    /// What the current call is about.
    subject: CallSubject,
    time: CallTime,
    /// Whether an event ends only when the cache has seen its deferred writes.
    awaits_writes: bool,
    /// Whether it does so for the writes of direct calls, too.
    awaits_direct: bool,
    manifest: Arc<Manifest>,
    /// The current call has set the children of its object.
    has_children: bool,
    /// Some were refused, or not pruned, or the cache lacks an earlier write: that may be over without a change that
    /// leads to the object.
    lacks_children: bool,
    /// The writes that the current call has deferred.
    deferred: CallWrites,
    /// What its direct calls have changed.
    changed: DirectWrites,
    tape: Tape,
    cause: CurrentCause,
}

impl Capability for KubePlugin {
    const INTERFACE: Option<&'static str> = Some("kube");

    type Host = Live<KubeSeries>;
    type Grants = KubeGrants;
    type Call = KubeCaller;

    fn grants(spec: &PluginSpec) -> KubeGrants {
        KubeGrants::new(spec)
    }

    fn new(host: &Self::Host, grants: &Arc<Current<KubeGrants>>, plugin: &PluginParts<'_>) -> KubePlugin {
        KubePlugin::of(host.of(plugin.plugin), grants, plugin)
    }

    fn configure(&self, spec: &PluginSpec, grants: &Arc<Current<KubeGrants>>, now: Moment) {
        self.set(spec, grants, now);
    }

    fn activate(&self, manifest: &Manifest) {
        self.set_reconciles(manifest.reconciler.is_some());
    }

    fn is_full(&self) -> bool {
        self.writes.is_full()
    }

    fn end_slow_downs(&self, now: Moment) -> bool {
        self.writes.lift_spacing(now)
    }

    fn stand_by(&self) {
        self.writes.drop_all();
    }

    fn close(&self) {
        self.writes.close();
    }

    /// The writer.
    fn task(self: &Arc<Self>, abort: &CancellationToken) -> Option<CapabilityTask> {
        let writer = writes::run(Arc::clone(self), abort.clone());
        Some(("plugin-writer", Box::pin(writer)))
    }

    fn call(self: &Arc<Self>, grants: &Arc<Current<KubeGrants>>, instance: &InstanceParts<'_>) -> KubeCaller {
        KubeCaller {
            plugin: Arc::clone(self),
            grants: Arc::clone(grants),
            may_use: Ok(()),
            subject: CallSubject::new(&self.catalog),
            time: instance.time.clone(),
            awaits_writes: instance.manifest.awaits_writes(),
            awaits_direct: instance.manifest.reconciler.is_some(),
            manifest: Arc::clone(instance.manifest),
            has_children: false,
            lacks_children: false,
            deferred: CallWrites::default(),
            changed: DirectWrites::default(),
            tape: instance.tape.clone(),
            cause: instance.cause.clone(),
        }
    }

    fn delays(&self, effects: &KubeEffects) -> bool {
        let is_awaited = !effects.deferred.is_empty() || !effects.awaited.is_empty();
        is_awaited || self.writes.may_be_spaced(&effects.changed)
    }

    /// The end of the event comes with its writes, which may fail, or after the wait of a spaced key.
    fn commit(self: &Arc<Self>, effects: KubeEffects, event: Option<HandledEvent>) {
        writes::commit(self, effects, event);
    }

    fn link<T: HasCapabilities>(linker: &mut Linker<T>) -> wasmtime::Result<()> {
        kube::add_to_linker::<_, HasSelf<KubeCaller>>(linker, |state: &mut T| &mut state.capabilities().kube)
    }
}

impl CallPart for KubeCaller {
    type Effects = KubeEffects;

    fn begin(&mut self, call: CallStart) {
        self.may_use = call.may_use;
        self.subject.set(call.source);
        (self.has_children, self.lacks_children) = (false, self.plugin.awaits_write(&self.cause));
        self.deferred.clear();
        self.changed.clear();
    }

    fn finish(&mut self, end: CallEnd) -> KubeEffects {
        match end.is_success() || seeded_bug(SeededBug::FailedCallWrites) {
            true => {
                let (changed, awaited) = self.changed.take();
                KubeEffects {
                    deferred: self.deferred.take(),
                    changed,
                    awaited,
                }
            }
            false => KubeEffects::default(),
        }
    }
}

impl KubeCaller {
    /// Whether the current call may use the interface.
    fn check(&self) -> Result<(), KubeError> {
        self.may_use
            .map_err(|reason| KubeError::new(KubeErrorCode::NotHere, reason))
    }

    /// When the last call is to be made again if it succeeded.
    pub(crate) fn again_after(&self) -> Option<std::time::Duration> {
        self.lacks_children.then_some(CHILDREN_AGAIN_AFTER)
    }

    /// Whether there is a single cluster, without a name.
    fn has_unnamed_cluster(&self) -> bool {
        let api = self.check().and_then(|()| gate::api(&self.plugin)).ok();
        api.is_some_and(|api| api.cluster("").is_ok_and(|name| name.is_empty()))
    }

    fn creating(&self, object: Vec<u8>, options: &[u8]) -> Result<KubeAction, KubeError> {
        let options = options::write(options, &self.plugin.field_manager())?;
        Ok(KubeAction::Create(object, options))
    }

    fn updating(&self, object: Vec<u8>, options: &[u8]) -> Result<KubeAction, KubeError> {
        let options = options::write(options, &self.plugin.field_manager())?;
        Ok(KubeAction::Update(object, options))
    }

    fn patching(&self, kind: PatchKind, document: Vec<u8>, options: &[u8]) -> Result<KubeAction, KubeError> {
        let options = options::patch(options, kind == PatchKind::Apply, &self.plugin.field_manager())?;
        Ok(KubeAction::Patch(kind.into(), document, options))
    }

    /// Adds the cluster of the object that the current call is about, if `address` names none.
    fn complete(&self, address: &mut Address) -> Result<(), KubeError> {
        if !address.cluster.is_empty() {
            return Ok(());
        }
        match self.subject.cluster() {
            Ok(cluster) => address.cluster = cluster.unwrap_or_default(),
            Err(_) if self.has_unnamed_cluster() => {}
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
        self.check()?;
        let began = self.plugin.env.now();
        let answer = self.call(address, action).await;
        if let Some(verb) = verb {
            self.plugin.count(verb, answer.as_ref().err(), began);
        }
        Ok(answer?)
    }

    /// Validates the address of a call and makes it, within the remaining time.
    async fn call(&mut self, address: Address, action: Result<KubeAction, KubeError>) -> Result<Vec<u8>, KubeError> {
        let (address, action) = (KubeAddress::try_from(address)?, action?);
        let (plugin, wait_max) = (&self.plugin, self.time.left().min(KUBE_WAIT_MAX));
        let before = Before::of(plugin, &address, &action);
        let (turns, recorder) = (plugin.permits(), self.tape.recorder());
        let way = Way {
            turns: Some(&turns),
            recorder: recorder.as_deref(),
            uid: None,
            cause: self.cause.get(),
        };
        let answer = gate::send(plugin, &self.grants, address, action, wait_max, way).await?;
        if let Some(before) = before {
            self.changed.note(before, &answer, self.awaits_direct);
        }
        Ok(answer)
    }
}

impl kube::Host for KubeCaller {
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
        Ok(self.act(address, self.creating(object, &options)).await)
    }

    async fn update(
        &mut self,
        address: Address,
        object: Vec<u8>,
        options: Vec<u8>,
    ) -> wasmtime::Result<Answer<Vec<u8>>> {
        Ok(self.act(address, self.updating(object, &options)).await)
    }

    async fn patch(
        &mut self,
        address: Address,
        kind: PatchKind,
        document: Vec<u8>,
        options: Vec<u8>,
    ) -> wasmtime::Result<Answer<Vec<u8>>> {
        Ok(self.act(address, self.patching(kind, document, &options)).await)
    }

    async fn delete(&mut self, address: Address, options: Vec<u8>) -> wasmtime::Result<Answer<()>> {
        let action = options::delete(&options).map(KubeAction::Delete);
        Ok(self.act(address, action).await.map(|_last_state| ()))
    }

    fn defer_create(&mut self, address: Address, object: Vec<u8>, options: Vec<u8>) -> wasmtime::Result<Answer<()>> {
        Ok(self.defer(address, self.creating(object, &options)))
    }

    fn defer_update(&mut self, address: Address, object: Vec<u8>, options: Vec<u8>) -> wasmtime::Result<Answer<()>> {
        Ok(self.defer(address, self.updating(object, &options)))
    }

    fn defer_patch(
        &mut self,
        address: Address,
        kind: PatchKind,
        document: Vec<u8>,
        options: Vec<u8>,
    ) -> wasmtime::Result<Answer<()>> {
        Ok(self.defer(address, self.patching(kind, document, &options)))
    }

    fn defer_delete(&mut self, address: Address, options: Vec<u8>) -> wasmtime::Result<Answer<()>> {
        Ok(self.defer(address, options::delete(&options).map(KubeAction::Delete)))
    }

    async fn defer_children(&mut self, owner: Owner, children: Vec<Child>) -> wasmtime::Result<Answer<Children>> {
        Ok(self.set_children(owner, children).await)
    }
}
