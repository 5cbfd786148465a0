//! One instance of a plugin: one wasmtime store, and the calls into it.
//!
//! Owned by one actor, which makes one call at a time. A call that traps or is abandoned costs the instance: the owner
//! drops it and creates another. It does not know listeners or manifests.

pub(crate) mod bindings;
pub(crate) mod guest;
pub(crate) mod output;
pub(crate) mod trap;
pub(crate) mod wasi;
pub(crate) mod watchdog;

use std::time::Duration;

use informant_cache::Reason;
use wasmtime::{Engine, Store};

use crate::component::roles::{Handled, IndexAnswer};
use crate::component::{Indices, PluginComponent};
use crate::error::LoadProblem;
use crate::hostcalls::kv::{CallChanges, InitChanges};
use crate::hostcalls::metrics::CallMetrics;
use crate::hostcalls::store::CallSubject;
use crate::instance::bindings::exports::informant::plugin::{
    event_handler, index_funcs, lifecycle, state, sync_handler,
};
use crate::instance::bindings::informant::plugin::types::{self, Call, Failure, ObjectRef};
use crate::instance::guest::{GuestState, InstanceResources, TRANSFER_BYTES_MAX};
use crate::instance::trap::TrapReport;
use crate::instance::watchdog::{Abandoned, CallWatchdog};
use crate::writes::DeferredWrite;

/// The reason `store`, `kube` and wasi:http return to `init` with `denied`.
pub(crate) const DENIED_IN_INIT: &str =
    "in init, only log and kv can be called: read the cache from on-synced on, and act on the cluster in a handler";

/// The reason they return to start functions, which run before `init`.
const DENIED_AT_START: &str =
    "before init, only log can be called: read the cache from on-synced on, and act in a handler";

/// The reason `kube` and wasi:http return to `save` and `restore`: the swap may still be refused.
const DENIED_IN_SWAP: &str = "in save and restore, only log and store can be called: act in a handler";

/// The result of a call into a guest: what it returned, or why it did not return.
pub(crate) type Called<T> = Result<T, Box<TrapReport>>;

/// A live instance.
pub(crate) struct Instance {
    store: Store<GuestState>,
    exports: Exports,
    watchdog: CallWatchdog,
}

struct Exports {
    lifecycle: lifecycle::Guest,
    events: Option<event_handler::Guest>,
    sync: Option<sync_handler::Guest>,
    index: Option<index_funcs::Guest>,
    state: Option<state::Guest>,
}

impl Instance {
    /// Creates an instance. Only its start functions have run.
    ///
    /// # Errors
    /// [`LoadProblem::Instantiate`] if it does not fit into the pool or its memory limit, [`LoadProblem::Trapped`] if
    /// its start functions trap or time out.
    pub(crate) async fn new(
        engine: &Engine,
        component: &PluginComponent,
        resources: InstanceResources,
        watchdog: CallWatchdog,
    ) -> Result<Instance, LoadProblem> {
        let mut store = GuestState::store(engine, resources, &watchdog, component.script.as_deref());
        let watchdog = watchdog.with_budget(&store.data().budget);
        begin(&mut store, CallSubject::None);
        store.data_mut().deny(Some(DENIED_AT_START));
        let made = watchdog.run(component.pre.instantiate_async(&mut store)).await;
        let instance = match made {
            Ok(Ok(instance)) => instance,
            Ok(Err(error)) if is_refusal(&error) => return Err(refusal(&error, &store)),
            Ok(Err(error)) => return Err(LoadProblem::Trapped(trapped("start", &error, &store))),
            Err(cause) => return Err(LoadProblem::Trapped(abandoned("start", cause, &store))),
        };
        let exports = Exports::load(&component.indices, &mut store, &instance)
            .map_err(|error| LoadProblem::Instantiate(format!("{error:#}")))?;
        end(&mut store);
        store.data_mut().deny(None);
        Ok(Instance {
            store,
            exports,
            watchdog,
        })
    }

    /// Takes the writes that the last call deferred. Only after its success.
    pub(crate) fn take_writes(&mut self) -> Vec<DeferredWrite> {
        self.store.data_mut().kube.take_writes()
    }

    /// Takes the changes of keys that the last call made, if there are any. Only after its success.
    pub(crate) fn take_changes(&mut self) -> Option<CallChanges> {
        self.store.data_mut().kv.take_changes()
    }

    /// Takes the changes of metrics that the last call made, if there are any.
    pub(crate) fn take_metrics(&mut self) -> Option<CallMetrics> {
        self.store.data_mut().metrics.take_changes()
    }

    /// Linear memory, in bytes.
    pub(crate) fn memory_bytes(&self) -> usize {
        self.store.data().limiter.memory_bytes()
    }

    pub(crate) async fn describe(&mut self, context: &[u8]) -> Called<Result<Vec<u8>, String>> {
        begin(&mut self.store, CallSubject::None);
        let answer = self
            .watchdog
            .run(self.exports.lifecycle.call_describe(&mut self.store, context))
            .await;
        finish_call(&mut self.store, "describe", answer)
    }

    /// Calls `init`, in which calls of `store`, `kube` and wasi:http are denied. Its success adds to `changes` what it
    /// changed in the keys; otherwise they are given up.
    pub(crate) async fn init(&mut self, context: &[u8], changes: &mut InitChanges) -> Called<Result<(), Failure>> {
        begin(&mut self.store, CallSubject::None);
        self.store.data_mut().deny(Some(DENIED_IN_INIT));
        self.store.data_mut().kv.begin_init(changes);
        let answer = self
            .watchdog
            .run(self.exports.lifecycle.call_init(&mut self.store, context))
            .await;
        self.store.data_mut().deny(None);
        let called = finish_call(&mut self.store, "init", answer);
        if let Ok(Ok(())) = called {
            self.store.data_mut().kv.keep(changes);
        }
        called
    }

    /// Calls `on-add`. None if the component lacks the role `event-handler`; the same for the other calls.
    pub(crate) async fn on_add(&mut self, about: ObjectRef<'_>, call: Call, object: &[u8]) -> Option<Called<Handled>> {
        let guest = self.exports.events.as_ref()?;
        begin(&mut self.store, CallSubject::Source(about.source));
        let answer = self
            .watchdog
            .run(guest.call_on_add(&mut self.store, about, call, object))
            .await;
        Some(finish_event(&mut self.store, "on-add", answer))
    }

    pub(crate) async fn on_update(
        &mut self,
        about: ObjectRef<'_>,
        call: Call,
        old: Option<&[u8]>,
        object: &[u8],
    ) -> Option<Called<Handled>> {
        let guest = self.exports.events.as_ref()?;
        begin(&mut self.store, CallSubject::Source(about.source));
        let answer = self
            .watchdog
            .run(guest.call_on_update(&mut self.store, about, call, old, object))
            .await;
        Some(finish_event(&mut self.store, "on-update", answer))
    }

    pub(crate) async fn on_delete(
        &mut self,
        about: ObjectRef<'_>,
        call: Call,
        last: Option<&[u8]>,
        final_state_unknown: bool,
    ) -> Option<Called<Handled>> {
        let guest = self.exports.events.as_ref()?;
        begin(&mut self.store, CallSubject::Source(about.source));
        let answer = self
            .watchdog
            .run(guest.call_on_delete(&mut self.store, about, call, last, final_state_unknown))
            .await;
        Some(finish_event(&mut self.store, "on-delete", answer))
    }

    pub(crate) async fn on_synced(&mut self, source: u32) -> Option<Called<Result<(), Failure>>> {
        let guest = self.exports.sync.as_ref()?;
        begin(&mut self.store, CallSubject::Source(source));
        let answer = self.watchdog.run(guest.call_on_synced(&mut self.store, source)).await;
        Some(finish_event(&mut self.store, "on-synced", answer))
    }

    pub(crate) async fn index(&mut self, about: ObjectRef<'_>, object: &[u8]) -> Option<Called<IndexAnswer>> {
        let guest = self.exports.index.as_ref()?;
        begin(&mut self.store, CallSubject::None);
        let answer = self
            .watchdog
            .run(guest.call_index(&mut self.store, about, object))
            .await;
        Some(finish_call(&mut self.store, "index", answer))
    }

    /// Whether it has the role `state`.
    pub(crate) fn has_state(&self) -> bool {
        self.exports.state.is_some()
    }

    /// Calls `save`. The state may be as large as the guest's memory: the host rejects one that is too large to be
    /// transferred, which does not cost the instance.
    pub(crate) async fn save(&mut self) -> Option<Called<Result<Vec<u8>, Failure>>> {
        let guest = self.exports.state.as_ref()?;
        begin(&mut self.store, CallSubject::None);
        self.store.set_hostcall_fuel(usize::MAX);
        self.store.data_mut().deny_effects(Some(DENIED_IN_SWAP));
        let answer = self.watchdog.run(guest.call_save(&mut self.store)).await;
        self.store.data_mut().deny_effects(None);
        self.store.set_hostcall_fuel(TRANSFER_BYTES_MAX);
        Some(finish_call(&mut self.store, "save", answer))
    }

    pub(crate) async fn restore(&mut self, state: &[u8]) -> Option<Called<Result<(), Failure>>> {
        let guest = self.exports.state.as_ref()?;
        begin(&mut self.store, CallSubject::None);
        self.store.data_mut().deny_effects(Some(DENIED_IN_SWAP));
        let answer = self.watchdog.run(guest.call_restore(&mut self.store, state)).await;
        self.store.data_mut().deny_effects(None);
        Some(finish_call(&mut self.store, "restore", answer))
    }
}

impl Exports {
    fn load(
        indices: &Indices,
        store: &mut Store<GuestState>,
        instance: &wasmtime::component::Instance,
    ) -> wasmtime::Result<Exports> {
        Ok(Exports {
            lifecycle: indices.lifecycle.load(&mut *store, instance)?,
            events: indices
                .events
                .as_ref()
                .map(|found| found.load(&mut *store, instance))
                .transpose()?,
            sync: indices
                .sync
                .as_ref()
                .map(|found| found.load(&mut *store, instance))
                .transpose()?,
            index: indices
                .index
                .as_ref()
                .map(|found| found.load(&mut *store, instance))
                .transpose()?,
            state: indices
                .state
                .as_ref()
                .map(|found| found.load(&mut *store, instance))
                .transpose()?,
        })
    }
}

/// Starts the limits of one call about `subject`.
fn begin(store: &mut Store<GuestState>, subject: CallSubject) {
    store.set_epoch_deadline(1);
    let state = store.data_mut();
    let is_event = matches!(subject, CallSubject::Source(_));
    state.kube.begin_call(is_event);
    state.kv.begin_call(is_event);
    state.metrics.begin_call(is_event);
    state.http.begin_call();
    state.reader.begin_call(subject);
    state.limiter.begin();
    state.budget.begin();
}

/// Releases what the call held.
fn end(store: &mut Store<GuestState>) {
    let state = store.data_mut();
    state.budget.end();
    state.reader.end_call();
    state.output.end_call();
}

fn finish_call<T>(
    store: &mut Store<GuestState>,
    export: &'static str,
    answer: Result<wasmtime::Result<T>, Abandoned>,
) -> Called<T> {
    let called = match answer {
        Ok(Ok(answer)) => Ok(answer),
        Ok(Err(error)) => Err(Box::new(trapped(export, &error, store))),
        Err(cause) => Err(Box::new(abandoned(export, cause, store))),
    };
    end(store);
    called
}

/// As [`finish_call`], for calls that may ask to be retried later: then the hosts that asked for it in the call are
/// closed to the plugin meanwhile.
fn finish_event<T>(
    store: &mut Store<GuestState>,
    export: &'static str,
    answer: Result<wasmtime::Result<Result<T, Failure>>, Abandoned>,
) -> Called<Result<T, Failure>> {
    let called = finish_call(store, export, answer);
    if let Ok(Err(Failure::RetryAfter(later))) = &called {
        let delay = Duration::from_millis(later.after_ms.into());
        store.data_mut().http.close_hosts(delay);
    }
    called
}

fn trapped(export: &'static str, error: &wasmtime::Error, store: &Store<GuestState>) -> TrapReport {
    let state = store.data();
    TrapReport::new(export, error, &state.limiter, state.output.take_tail())
}

fn abandoned(export: &'static str, cause: Abandoned, store: &Store<GuestState>) -> TrapReport {
    TrapReport::abandoned(export, cause, store.data().output.take_tail())
}

/// Whether no instance was created: the pool is full, or the initial memory is too large.
fn is_refusal(error: &wasmtime::Error) -> bool {
    error.downcast_ref::<wasmtime::WasmBacktrace>().is_none() && error.downcast_ref::<wasmtime::Trap>().is_none()
}

fn refusal(error: &wasmtime::Error, store: &Store<GuestState>) -> LoadProblem {
    let cause = store.data().limiter.explain().unwrap_or_else(|| format!("{error:#}"));
    LoadProblem::Instantiate(cause)
}

impl From<Reason> for types::Reason {
    fn from(reason: Reason) -> types::Reason {
        match reason {
            Reason::Initial => types::Reason::Initial,
            Reason::Watch => types::Reason::Watch,
            Reason::Relist => types::Reason::Relist,
            Reason::Resync => types::Reason::Resync,
            Reason::Replay => types::Reason::Replay,
            Reason::Requeue => types::Reason::Requeue,
            Reason::Reconfigured => types::Reason::Reconfigured,
            Reason::Restored => types::Reason::Restored,
            Reason::RequeueAfter => types::Reason::RequeueAfter,
            Reason::Trigger => types::Reason::Trigger,
        }
    }
}
