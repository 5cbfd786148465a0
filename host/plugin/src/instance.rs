//! One instance of a plugin: one wasmtime store, and the calls into it.
//!
//! Owned by one actor, which makes one call at a time. A call that traps or is abandoned costs the instance: the owner
//! drops it and creates another. It does not know listeners or manifests.

pub(crate) mod config;
pub(crate) mod context;
#[cfg(test)]
mod fuzz;
pub(crate) mod guest;
pub(crate) mod version;
pub(crate) mod wasi;

use std::pin::pin;
use std::time::Duration;

use informant_cache::listener::Tick;
use informant_cache::{Awaited, Reason};
use informant_object::SourceId;
use jiff::Timestamp;
use wasmtime::{Engine, Store};

use crate::bindings::exports::informant::plugin::reconciler::Request;
use crate::bindings::exports::informant::plugin::timer_handler;
use crate::bindings::informant::plugin::types::{self, Call, Failure, ObjectRef};
use crate::capability::parts::CallEnd;
use crate::capability::permission::CallKind;
use crate::capability::{CallEffects, InitEffects};
use crate::capture::Tape;
use crate::component::PluginComponent;
use crate::component::roles::{Exports, Handled, IndexAnswer};
use crate::engine::TRANSFER_BYTES_MAX;
use crate::engine::trap::TrapReport;
use crate::engine::watchdog::{Abandoned, CallWatchdog};
use crate::error::LoadProblem;
use crate::instance::guest::{GuestState, InstanceResources};
use crate::observed::{CallResult, CurrentCause, ObservedCall, ObservedSubject};
use crate::text::truncated;

/// The result of a call into a guest: what it returned, or why it did not return.
pub(crate) type Called<T> = Result<T, Box<TrapReport>>;

pub(crate) struct Instance {
    store: Store<GuestState>,
    exports: Exports,
    watchdog: CallWatchdog,
    /// Whether it runs a script.
    is_script: bool,
    /// What the last call is to change, if it succeeded.
    effects: CallEffects,
    denied: Option<DeniedMemory>,
}

/// Calls that were denied memory and still returned.
#[derive(Debug)]
pub(crate) struct DeniedMemory {
    pub(crate) calls: u64,
    /// What the last one requested, and the limit.
    pub(crate) cause: String,
}

/// Calls a function of a role, whose export has this name. None if the component lacks the role.
macro_rules! call {
    ($self:ident, $role:ident, $kind:expr, $source:expr, $export:literal, $function:ident($($argument:ident),*)) => {{
        let guest = $self.exports.$role.as_ref()?;
        begin(&mut $self.store, $kind, $source);
        let answer = $self.watchdog.run(pin!(guest.$function(&mut $self.store, $($argument),*))).await;
        Some($self.finish($export, answer))
    }};
}

impl Instance {
    /// Creates an instance. Only its start functions have run.
    ///
    /// # Errors
    /// [`LoadProblem::Instantiate`] if it does not fit into the pool or its memory limit, [`LoadProblem::Trapped`] if
    /// its start functions trap or time out.
    pub(crate) async fn new(
        engine: &Engine,
        component: &PluginComponent<GuestState>,
        resources: InstanceResources,
        watchdog: CallWatchdog,
    ) -> Result<Instance, LoadProblem> {
        let mut store = GuestState::store(engine, resources, &watchdog, component.script.as_deref());
        let watchdog = watchdog.with_budget(&store.data().budget);
        begin(&mut store, CallKind::Start, None);
        let made = watchdog.run(pin!(component.pre().instantiate_async(&mut store))).await;
        let instance = match made {
            Ok(Ok(instance)) => instance,
            Ok(Err(error)) if is_refusal(&error) => return Err(refusal(&error, &store)),
            Ok(Err(error)) => return Err(LoadProblem::Trapped(trapped("start", &error, &store))),
            Err(cause) => return Err(LoadProblem::Trapped(abandoned("start", cause, &store))),
        };
        let exports = component
            .exports(&mut store, &instance)
            .map_err(|error| LoadProblem::Instantiate(format!("{error:#}")))?;
        end(&mut store, CallEnd::Succeeded);
        Ok(Instance {
            store,
            exports,
            watchdog,
            is_script: component.script.is_some(),
            effects: CallEffects::default(),
            denied: None,
        })
    }

    /// Takes what the last call is to change. Nothing if it failed.
    pub(crate) fn take_effects(&mut self) -> CallEffects {
        std::mem::take(&mut self.effects)
    }

    /// The source or index that the last call read before it was ready, if it did.
    pub(crate) fn awaited(&self) -> Option<Awaited> {
        self.store.data().capabilities.awaited()
    }

    /// When the last call is to be made again if it succeeded, whatever changes.
    pub(crate) fn again_after(&self) -> Option<Duration> {
        self.store.data().capabilities.again_after()
    }

    /// Takes the calls that were denied memory and returned, if there were any.
    pub(crate) fn take_denied(&mut self) -> Option<DeniedMemory> {
        self.denied.take()
    }

    pub(crate) fn memory_bytes(&self) -> usize {
        self.store.data().limiter.memory_bytes()
    }

    pub(crate) async fn describe(&mut self, context: &[u8]) -> Called<Result<Vec<u8>, String>> {
        begin(&mut self.store, CallKind::Describe, None);
        let answer = self
            .watchdog
            .run(pin!(self.exports.lifecycle.call_describe(&mut self.store, context)))
            .await;
        self.finish("describe", answer)
    }

    /// Calls `init`, which is a call of this `kind`. Its success adds what it has changed to `before`; otherwise
    /// nothing of that is left.
    pub(crate) async fn init(
        &mut self,
        kind: CallKind,
        context: &[u8],
        before: &mut InitEffects,
    ) -> Called<Result<(), Failure>> {
        begin(&mut self.store, kind, None);
        self.store.data_mut().capabilities.continue_init(before);
        let answer = self
            .watchdog
            .run(pin!(self.exports.lifecycle.call_init(&mut self.store, context)))
            .await;
        let called = self.finish("init", answer);
        self.take_effects().keep(before);
        called
    }

    /// Calls `on-add`. None if the component lacks the role `event-handler`; the same for the other calls.
    pub(crate) async fn on_add(&mut self, about: ObjectRef<'_>, call: Call, object: &[u8]) -> Option<Called<Handled>> {
        let seen = self.is_observed().then(|| ObservedSubject::of_object(&about, &call));
        let called = call!(
            self,
            events,
            CallKind::Event,
            Some(about.source),
            "on-add",
            call_on_add(about, call, object)
        )?;
        self.observe("on-add", seen, &called, |after| *after);
        Some(called)
    }

    pub(crate) async fn on_update(
        &mut self,
        about: ObjectRef<'_>,
        call: Call,
        old: Option<&[u8]>,
        object: &[u8],
    ) -> Option<Called<Handled>> {
        let seen = self.is_observed().then(|| ObservedSubject::of_object(&about, &call));
        let called = call!(
            self,
            events,
            CallKind::Event,
            Some(about.source),
            "on-update",
            call_on_update(about, call, old, object)
        )?;
        self.observe("on-update", seen, &called, |after| *after);
        Some(called)
    }

    pub(crate) async fn on_delete(
        &mut self,
        about: ObjectRef<'_>,
        call: Call,
        last: Option<&[u8]>,
        unknown: bool,
    ) -> Option<Called<Handled>> {
        let seen = self.is_observed().then(|| ObservedSubject::of_object(&about, &call));
        let called = call!(
            self,
            events,
            CallKind::Event,
            Some(about.source),
            "on-delete",
            call_on_delete(about, call, last, unknown)
        )?;
        self.observe("on-delete", seen, &called, |after| *after);
        Some(called)
    }

    pub(crate) async fn reconcile(
        &mut self,
        about: ObjectRef<'_>,
        request: Request,
        object: Option<&[u8]>,
    ) -> Option<Called<Handled>> {
        let call = Call {
            reason: request.reason,
            attempt: request.attempt,
        };
        let seen = self.is_observed().then(|| ObservedSubject::of_object(&about, &call));
        let called = call!(
            self,
            reconciler,
            CallKind::Event,
            Some(about.source),
            "reconcile",
            call_reconcile(about, request, object)
        )?;
        self.observe("reconcile", seen, &called, |after| *after);
        Some(called)
    }

    pub(crate) async fn on_timer(&mut self, tick: &Tick, attempt: u32) -> Option<Called<Result<(), Failure>>> {
        let seen = self.is_observed().then(|| ObservedSubject::of_timer(tick, attempt));
        let scheduled = rfc3339(tick.scheduled_ms);
        let tick = timer_handler::Tick {
            name: &tick.timer,
            scheduled: &scheduled,
            missed: tick.missed,
            attempt,
        };
        let called = call!(self, timer, CallKind::Event, None, "on-timer", call_on_timer(tick))?;
        self.observe("on-timer", seen, &called, |()| None);
        Some(called)
    }

    pub(crate) async fn on_synced(&mut self, source: u32, call: Call) -> Option<Called<Result<(), Failure>>> {
        let seen = self.is_observed().then(|| ObservedSubject::of_source(source, &call));
        let called = call!(
            self,
            sync,
            CallKind::Event,
            Some(source),
            "on-synced",
            call_on_synced(source, call)
        )?;
        self.observe("on-synced", seen, &called, |()| None);
        Some(called)
    }

    pub(crate) async fn index(&mut self, about: ObjectRef<'_>, object: &[u8]) -> Option<Called<IndexAnswer>> {
        call!(self, index, CallKind::Index, None, "index", call_index(about, object))
    }

    /// Whether it has the role `reconciler`.
    pub(crate) fn is_reconciler(&self) -> bool {
        self.exports.reconciler.is_some()
    }

    /// Whether it has the role `state`.
    pub(crate) fn has_state(&self) -> bool {
        self.exports.state.is_some()
    }

    /// Calls `save`. The state may be as large as the guest's memory: the host rejects one that is too large to be
    /// transferred, which does not cost the instance.
    pub(crate) async fn save(&mut self) -> Option<Called<Result<Vec<u8>, Failure>>> {
        let guest = self.exports.state.as_ref()?;
        begin(&mut self.store, CallKind::Swap, None);
        self.store.set_hostcall_fuel(usize::MAX);
        let answer = self.watchdog.run(pin!(guest.call_save(&mut self.store))).await;
        self.store.set_hostcall_fuel(TRANSFER_BYTES_MAX);
        let called = self.finish("save", answer);
        self.observe("save", None, &called, |_| None);
        Some(called)
    }

    pub(crate) async fn restore(&mut self, state: &[u8]) -> Option<Called<Result<(), Failure>>> {
        let called = call!(self, state, CallKind::Swap, None, "restore", call_restore(state))?;
        self.observe("restore", None, &called, |()| None);
        Some(called)
    }

    /// Records a call that is captured.
    pub(crate) fn tape(&self) -> &Tape {
        &self.store.data().tape
    }

    /// What the call is about that it makes at present, for effects.
    pub(crate) fn cause(&self) -> &CurrentCause {
        &self.store.data().cause
    }

    /// Whether somebody sees its calls: an observer, or a capture.
    fn is_observed(&self) -> bool {
        self.store.data().observed.wants_calls() || self.tape().runs()
    }

    fn observe<T>(
        &self,
        function: &'static str,
        about: Option<ObservedSubject>,
        called: &Called<Result<T, Failure>>,
        requeue: impl FnOnce(&T) -> Option<u32>,
    ) {
        if !self.is_observed() {
            return;
        }
        let call = ObservedCall {
            function,
            about,
            result: CallResult::of(called, requeue),
        };
        if let Some(recorder) = self.tape().recorder() {
            recorder.called(call.clone());
        }
        let observed = &self.store.data().observed;
        if observed.wants_calls() {
            observed.called(call);
        }
    }

    fn finish<T, E: Reported>(
        &mut self,
        export: &'static str,
        answer: Result<wasmtime::Result<Result<T, E>>, Abandoned>,
    ) -> Called<Result<T, E>> {
        let called = match answer {
            Ok(Ok(answer)) => match self.ran_out_of_memory(export, &answer) {
                Some(report) => Err(Box::new(report)),
                None => Ok(answer),
            },
            Ok(Err(error)) => Err(Box::new(trapped(export, &error, &self.store))),
            Err(cause) => Err(Box::new(abandoned(export, cause, &self.store))),
        };
        if called.is_ok()
            && let Some(cause) = self.store.data().limiter.explain()
        {
            let calls = self.denied.as_ref().map_or(0, |denied| denied.calls) + 1;
            self.denied = Some(DeniedMemory { calls, cause });
        }
        let ended = match &called {
            Ok(Ok(_)) => CallEnd::Succeeded,
            Ok(Err(failure)) => failure.end(),
            Err(_) => CallEnd::Failed,
        };
        self.effects = end(&mut self.store, ended);
        called
    }

    /// Why the instance is lost although its call answered: it was denied memory, and failed. Its next calls would fail
    /// alike. A script need not have failed: what it had queued for later ends silently without memory.
    fn ran_out_of_memory<T, E: Reported>(&self, export: &'static str, answer: &Result<T, E>) -> Option<TrapReport> {
        let state = self.store.data();
        let cause = state.limiter.explain()?;
        let failure = answer.as_ref().err();
        let has_failed = failure.is_some_and(|failure| matches!(failure.end(), CallEnd::Failed));
        // What cannot be saved is not swapped: the instance keeps running.
        if export == "save" || !(has_failed || self.is_script) {
            return None;
        }
        let mut last_lines = state.output.take_tail();
        let is_told = |message: &str| last_lines.last().is_some_and(|line| line.ends_with(message));
        if let Some(message) = failure.map(Reported::message).filter(|message| !is_told(message)) {
            last_lines.push(truncated(message));
        }
        Some(TrapReport::out_of_memory(export, cause, last_lines))
    }
}

/// What a guest returns instead of an answer.
trait Reported {
    fn message(&self) -> &str;

    fn end(&self) -> CallEnd {
        CallEnd::Failed
    }
}

impl Reported for String {
    fn message(&self) -> &str {
        self
    }
}

impl Reported for Failure {
    fn message(&self) -> &str {
        match self {
            Failure::Retryable(message) | Failure::Permanent(message) => message,
            Failure::RetryAfter(later) => &later.message,
        }
    }

    fn end(&self) -> CallEnd {
        match self {
            Failure::RetryAfter(later) => CallEnd::RetryAfter(Duration::from_millis(later.after_ms.into())),
            Failure::Retryable(_) | Failure::Permanent(_) => CallEnd::Failed,
        }
    }
}

/// Starts the limits of one call of this kind, about an object of `source` if there is one.
fn begin(store: &mut Store<GuestState>, kind: CallKind, source: Option<u32>) {
    store.set_epoch_deadline(1);
    let state = store.data_mut();
    state.capabilities.begin(kind, source.map(SourceId));
    state.limiter.begin();
    state.budget.begin();
}

/// Releases what the call held. Returns what it is to change.
fn end(store: &mut Store<GuestState>, ended: CallEnd) -> CallEffects {
    let state = store.data_mut();
    state.budget.end();
    state.capabilities.finish(ended)
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

/// A time in milliseconds since 1970, as text in UTC: `2026-11-28T08:00:00Z`.
fn rfc3339(unix_ms: i64) -> String {
    let time = Timestamp::from_millisecond(unix_ms);
    // What is scheduled was such a time before.
    time.map_or_else(|_| String::new(), |time| time.to_string())
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
            Reason::Related => types::Reason::Related,
            Reason::Takeover => types::Reason::Takeover,
        }
    }
}
