//! What a run of a scenario adds to a host: it observes the calls of handlers, and its guests see the clock of the run.
//!
//! ```text
//! instance ──after each call──▶ CallObserver        Environment::now ──▶ the clocks of guests
//! ```

use std::sync::Arc;
use std::time::Duration;

use informant_cache::{Environment, Moment};
use informant_object::SourceId;
use wasmtime_wasi::{HostMonotonicClock, HostWallClock};

use crate::bindings::informant::plugin::types::{Call, Failure, ObjectRef, Reason};
use crate::engine::trap::TrapReport;

/// Not 0: Go's runtime takes that for a broken clock.
const MONOTONIC_FIRST_NANOS: u64 = 1_000_000_000;

/// Sees the calls of handlers, and `save` and `restore`. Must not wait.
pub trait CallObserver: Send + Sync + 'static {
    /// A call has ended.
    fn called(&self, call: ScenarioCall);
}

/// One call that has ended.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ScenarioCall {
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
    /// Namespace and name; none for `on-synced`.
    pub object: Option<(String, String)>,
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

/// What a run of a scenario adds to a host.
pub struct ScenarioHooks {
    pub observer: Arc<dyn CallObserver>,
    /// The time of guests when the host is created, since 1970.
    pub unix_time: Duration,
}

/// The hooks, with the clock that they belong to.
pub(crate) struct Hooks {
    pub(crate) observer: Arc<dyn CallObserver>,
    pub(crate) clock: GuestClock,
}

/// Shows an environment's time to guests.
#[derive(Clone)]
pub(crate) struct GuestClock {
    env: Arc<dyn Environment>,
    began: Moment,
    unix_time: Duration,
}

impl Hooks {
    pub(crate) fn new(hooks: ScenarioHooks, env: &Arc<dyn Environment>) -> Hooks {
        let clock = GuestClock {
            began: env.now(),
            env: Arc::clone(env),
            unix_time: hooks.unix_time,
        };
        Hooks {
            observer: hooks.observer,
            clock,
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

    pub(crate) fn of_source(source: u32, call: &Call) -> ObservedSubject {
        ObservedSubject {
            source: SourceId(source),
            object: None,
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

impl GuestClock {
    fn elapsed(&self) -> Duration {
        self.env.now() - self.began
    }
}

impl HostWallClock for GuestClock {
    fn resolution(&self) -> Duration {
        Duration::from_nanos(1)
    }

    fn now(&self) -> Duration {
        self.unix_time + self.elapsed()
    }
}

impl HostMonotonicClock for GuestClock {
    fn resolution(&self) -> u64 {
        1
    }

    fn now(&self) -> u64 {
        let nanos = u64::try_from(self.elapsed().as_nanos()).unwrap_or(u64::MAX);
        MONOTONIC_FIRST_NANOS.saturating_add(nanos)
    }
}
