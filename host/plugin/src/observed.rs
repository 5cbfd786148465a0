//! What plugins do, for who watches them: `informant dev` and `informant plugin test`. A capture has the same record of
//! its call.
//!
//! ```text
//! instance ──after each call────────▶ called ────┐
//! worker ────after each delivery────▶ delivered ─┼─▶ PluginObserver
//! effects ───with each effect───────▶ had_effect ┘
//! ```

mod cause;

use std::fmt;
use std::sync::Arc;
use std::time::Duration;

use informant_cache::listener::{DeliveryOutcome, Tick};
use informant_cache::{Moment, SourceInfo};
use informant_object::{Key, KeyRef, SourceId};

pub(crate) use self::cause::CurrentCause;
pub use self::cause::{CallCause, CauseObject, CauseSubject};
use crate::bindings::informant::plugin::types::{Call, Failure, ObjectRef, Reason};
use crate::engine::trap::TrapReport;

/// Receives what plugins do. Called on the threads of the guests, so it must not wait.
///
/// Calls and deliveries are two things, which end at two moments. A call ends with what the guest returned; `save`,
/// `restore` and a replayed call belong to no delivery. A delivery ends after its call, with the outcome that the host
/// makes of it, such as `not-ready` of a retryable error. It may have had no call, as when the body of its object could
/// not be read, and has no outcome if its call was aborted.
pub trait PluginObserver: fmt::Debug + Send + Sync {
    /// Whether it wants to know of calls, deliveries and changes of keys, too, which are many. If not, it receives the
    /// other effects only.
    fn wants_calls(&self) -> bool {
        true
    }

    /// A call of a handler, of `save` or of `restore` has ended.
    fn called(&self, _plugin: &str, _call: ObservedCall) {}

    /// A delivery of an event has an outcome, other than that no call was needed. What it commits follows.
    fn delivered(&self, _delivery: &ObservedDelivery<'_>) {}

    /// A plugin had an effect, or would have had it without dry run (`is_withheld`).
    fn had_effect(&self, _plugin: &str, _effect: &Effect, _is_withheld: bool) {}

    /// A delivery has failed: in its call, or in what the call committed.
    fn failed(&self, _plugin: &str, _call: &FailedCall) {}

    /// A call has recorded a Kubernetes Event, and succeeded.
    fn recorded(&self, _plugin: &str, _event: &KubernetesEvent) {}
}

/// A call into a guest.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ObservedCall {
    /// The function of the contract: `on-add`.
    pub function: &'static str,
    /// What the call was about; none for `save` and `restore`.
    pub about: Option<ObservedSubject>,
    pub result: CallResult,
}

/// What a call was about.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ObservedSubject {
    pub source: SourceId,
    /// Namespace and name; none for `on-synced` and `on-timer`.
    pub object: Option<(String, String)>,
    /// Of `on-timer`: the timer, and how many runs were missed.
    pub timer: Option<(String, u32)>,
    /// As in the contract: `watch`.
    pub reason: &'static str,
    /// 0 for the first one.
    pub attempt: u32,
}

/// How a call ended.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum CallResult {
    /// It succeeded, and asks for another call after this time.
    Ok { requeue_after: Option<Duration> },
    /// It failed, and is to be retried; after this time, if it asks for one.
    Retry { message: String, after: Option<Duration> },
    /// It failed for good.
    Permanent(String),
    /// It trapped, or did not return in time.
    Trap(String),
}

/// A delivery of an event.
#[derive(Debug)]
pub struct ObservedDelivery<'a> {
    pub plugin: &'a str,
    /// Whose object it was about. None: it was removed meanwhile.
    pub source: Option<SourceInfo>,
    /// None: the source is synced.
    pub key: Option<KeyRef<'a>>,
    /// `add`, `update`, `delete`, `sync`.
    pub event: &'static str,
    /// 0 for the first call for an event; each retry adds 1.
    pub attempt: u32,
    pub took: Duration,
    pub outcome: &'a DeliveryOutcome,
}

/// A delivery that failed.
#[derive(Clone, Debug)]
pub struct FailedCall {
    /// Whose object it was about. None: it was removed meanwhile, or the call was that of a timer.
    pub source: Option<SourceInfo>,
    /// None: the source is synced, or a timer was due.
    pub key: Option<Key>,
    /// `add`, `update`, `delete`, `sync` or `timer`.
    pub event: &'static str,
    /// 0 for the first call for an event; each retry adds 1.
    pub attempt: u32,
    /// `retryable`, `requeued`, `permanent`, `trap` or `timeout`.
    pub result: &'static str,
    pub error: String,
    /// That of the effects which the call has had. None of a plugin that cannot have any.
    pub cause: Option<Arc<CallCause>>,
}

/// A Kubernetes Event that a call has recorded.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct KubernetesEvent {
    /// `Normal` or `Warning`.
    pub event_type: &'static str,
    pub reason: String,
    pub action: String,
    pub note: String,
    /// `Pod web/a`.
    pub regarding: String,
    pub related: Option<String>,
}

/// What kind of effect it is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum EffectKind {
    Kube,
    Kv,
    Http,
    /// A Kubernetes Event.
    Event,
}

impl EffectKind {
    #[must_use]
    pub const fn as_str(self) -> &'static str {
        match self {
            EffectKind::Kube => "kube",
            EffectKind::Kv => "kv",
            EffectKind::Http => "http",
            EffectKind::Event => "event",
        }
    }
}

/// Something that a plugin did, or would have done.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Effect {
    pub at: Moment,
    pub kind: EffectKind,
    /// The verb: `patch`, `set`, `POST`; of a Kubernetes Event its type and reason.
    pub action: String,
    /// The cluster of an object; empty for the only one, and for everything else.
    pub cluster: String,
    /// The object, the key or the URL.
    pub target: String,
    /// The document that was sent, the size of a value, the status of a response; empty if there is none.
    pub detail: String,
    /// Why it failed or would have failed; none if it succeeded or would have, as far as that is known.
    pub error: Option<String>,
    /// `ok`, or the code of the error.
    pub result: &'static str,
    /// The object that was written, or that a Kubernetes Event is about.
    pub object: Option<EffectObject>,
    /// What of config.toml allows it.
    pub grant: String,
    /// The user that it was made as; none: Informant's own.
    pub identity: Option<Arc<str>>,
    /// The call that had it, if a call of a handler had.
    pub cause: Option<Arc<CallCause>>,
}

/// The object of an effect; its cluster is that of the effect.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct EffectObject {
    /// `apps/v1/deployments`; of an Event, as the kind suggests.
    pub resource: String,
    /// Empty for a cluster-scoped object.
    pub namespace: String,
    /// Empty if the API server made the name, and has not returned it.
    pub name: String,
    /// Empty: the object itself.
    pub subresource: String,
    /// The resource version after a write; empty if the response had none.
    pub version: String,
}

impl Effect {
    /// Whether somebody else than the plugin may notice it: not a request that only reads, nor a change of the plugin's
    /// own keys.
    #[must_use]
    pub fn is_noticeable(&self) -> bool {
        match self.kind {
            EffectKind::Kube | EffectKind::Event => true,
            EffectKind::Http => !matches!(&*self.action, "GET" | "HEAD"),
            EffectKind::Kv => false,
        }
    }

    /// One that succeeded, of which nothing else is known.
    pub fn new(kind: EffectKind, action: impl Into<String>, target: impl Into<String>) -> Effect {
        Effect {
            at: Moment::ZERO,
            kind,
            action: action.into(),
            cluster: String::new(),
            target: target.into(),
            detail: String::new(),
            error: None,
            result: "ok",
            object: None,
            grant: String::new(),
            identity: None,
            cause: None,
        }
    }
}

/// The observer of one plugin, if there is one.
#[derive(Clone, Default)]
pub(crate) struct Observed(Option<(Arc<str>, Arc<dyn PluginObserver>)>);

impl Observed {
    pub(crate) fn new(plugin: &Arc<str>, observer: Option<&Arc<dyn PluginObserver>>) -> Observed {
        Observed(observer.map(|observer| (Arc::clone(plugin), Arc::clone(observer))))
    }

    pub(crate) fn is_there(&self) -> bool {
        self.0.is_some()
    }

    /// Whether somebody wants to know of calls, deliveries and changes of keys.
    pub(crate) fn wants_calls(&self) -> bool {
        self.0.as_ref().is_some_and(|(_, observer)| observer.wants_calls())
    }

    pub(crate) fn called(&self, call: ObservedCall) {
        if let Some((plugin, observer)) = &self.0 {
            observer.called(plugin, call);
        }
    }

    pub(crate) fn recorded(&self, event: impl FnOnce() -> KubernetesEvent) {
        if let Some((plugin, observer)) = &self.0 {
            observer.recorded(plugin, &event());
        }
    }

    pub(crate) fn had_effect(&self, effect: &Effect, is_withheld: bool) {
        if let Some((plugin, observer)) = &self.0 {
            observer.had_effect(plugin, effect, is_withheld);
        }
    }
}

impl ObservedSubject {
    pub(crate) fn of_object(about: &ObjectRef<'_>, call: &Call) -> ObservedSubject {
        ObservedSubject {
            object: Some((about.namespace.to_owned(), about.name.to_owned())),
            ..ObservedSubject::of_source(about.source, call)
        }
    }

    pub(crate) fn of_timer(tick: &Tick, attempt: u32) -> ObservedSubject {
        ObservedSubject {
            source: SourceId(u32::MAX),
            object: None,
            timer: Some((tick.timer.to_string(), tick.missed)),
            reason: "timer",
            attempt,
        }
    }

    pub(crate) fn of_source(source: u32, call: &Call) -> ObservedSubject {
        ObservedSubject {
            source: SourceId(source),
            object: None,
            timer: None,
            reason: name_of(call.reason),
            attempt: call.attempt,
        }
    }
}

impl CallResult {
    #[must_use]
    pub const fn as_str(&self) -> &'static str {
        match self {
            CallResult::Ok { .. } => "ok",
            CallResult::Retry { .. } => "retry",
            CallResult::Permanent(_) => "permanent",
            CallResult::Trap(_) => "trap",
        }
    }

    /// What became of a call whose success asks for another one as `requeue` says.
    pub(crate) fn of<T>(
        called: &Result<Result<T, Failure>, Box<TrapReport>>,
        requeue: impl FnOnce(&T) -> Option<u32>,
    ) -> CallResult {
        let ms = |ms: u32| Duration::from_millis(ms.into());
        match called {
            Ok(Ok(answer)) => CallResult::Ok {
                requeue_after: requeue(answer).map(ms),
            },
            Ok(Err(Failure::Retryable(message))) => CallResult::Retry {
                message: message.clone(),
                after: None,
            },
            Ok(Err(Failure::RetryAfter(later))) => CallResult::Retry {
                message: later.message.clone(),
                after: Some(ms(later.after_ms)),
            },
            Ok(Err(Failure::Permanent(message))) => CallResult::Permanent(message.clone()),
            Err(report) => CallResult::Trap(report.to_string()),
        }
    }
}

/// The reason with this name in the contract.
pub(crate) fn reason_named(name: &str) -> Option<Reason> {
    const ALL: [Reason; 13] = [
        Reason::Initial,
        Reason::Watch,
        Reason::Relist,
        Reason::Resync,
        Reason::Replay,
        Reason::Requeue,
        Reason::Reconfigured,
        Reason::Restored,
        Reason::RequeueAfter,
        Reason::Trigger,
        Reason::Related,
        Reason::Takeover,
        Reason::Other,
    ];
    ALL.into_iter().find(|reason| name_of(*reason) == name)
}

/// The name of a reason in the contract.
const fn name_of(reason: Reason) -> &'static str {
    match reason {
        Reason::Initial => "initial",
        Reason::Watch => "watch",
        Reason::Relist => "relist",
        Reason::Resync => "resync",
        Reason::Replay => "replay",
        Reason::Requeue => "requeue",
        Reason::Reconfigured => "reconfigured",
        Reason::Restored => "restored",
        Reason::RequeueAfter => "requeue-after",
        Reason::Trigger => "trigger",
        Reason::Related => "related",
        Reason::Takeover => "takeover",
        Reason::Other => "other",
    }
}
