//! The task that makes a plugin's writes, and what the event actor shares with it.

use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use informant_cache::Moment;
use informant_cache::listener::{DeliveryOutcome, DeliveryToken};
use informant_object::{Key, SourceId};
use tokio::sync::Notify;

use crate::Limits;
use crate::actor::PluginContext;
use crate::actor::mailbox::{ActorCommand, CommandSender};
use crate::hostcalls::kube::{KUBE_WAIT_MAX, describe, send};
use crate::metrics::EventCounters;
use crate::spec::OnFailure;
use crate::writes::queue::{CallNumber, NextWrite, WriteEnd, WriteQueue, WritesStatus};
use crate::writes::result::WriteResult;
use crate::writes::{DeferredWrite, WriteCounters};

/// A callback that wakes the event actor.
type Waker = Arc<dyn Fn() + Send + Sync>;

/// An event that was handled, apart from its writes.
pub(crate) struct HandledEvent {
    pub(crate) token: DeliveryToken,
    pub(crate) source: SourceId,
    /// None: the event is that a source is synced.
    pub(crate) key: Option<Key>,
    /// `add`, `update`, `delete`, `sync`.
    pub(crate) event: &'static str,
    pub(crate) attempt: u32,
    pub(crate) counters: EventCounters,
    /// What the handler answered, a success.
    pub(crate) outcome: DeliveryOutcome,
}

/// The writes of one plugin: committed by the event actor, made by the writer.
pub(crate) struct Writes {
    shared: Mutex<Shared>,
    /// Wakes the writer.
    changed: Notify,
    /// Wakes the event actor when there is room again.
    waker: Mutex<Option<Waker>>,
    counters: WriteCounters,
}

struct Shared {
    queue: WriteQueue<HandledEvent>,
    /// Nothing is committed any more.
    is_closed: bool,
}

impl Writes {
    pub(crate) fn new(limits: &Limits, counters: WriteCounters) -> Writes {
        Writes {
            shared: Mutex::new(Shared {
                queue: WriteQueue::new(limits),
                is_closed: false,
            }),
            changed: Notify::new(),
            waker: Mutex::default(),
            counters,
        }
    }

    /// Sets the callback for when the plugin may be called again.
    pub(crate) fn set_waker(&self, waker: Waker) {
        *self.waker.lock().unwrap_or_else(PoisonError::into_inner) = Some(waker);
    }

    /// Applies other limits from now on.
    pub(crate) fn set_limits(&self, limits: &Limits) {
        self.change(|shared| shared.queue.set_limits(limits));
    }

    /// Accepts the writes of a successful call, at least one. The listener learns the outcome of `event` later.
    pub(crate) fn commit(&self, event: HandledEvent, writes: Vec<DeferredWrite>) {
        self.change(|shared| shared.queue.commit(event, writes));
    }

    /// Whether too many writes wait: the handler must not be called. Its actor is woken when that is over.
    pub(crate) fn is_full(&self) -> bool {
        self.lock().queue.is_full()
    }

    /// Starts no write from `at` on.
    pub(crate) fn end_at(&self, at: Moment) {
        self.change(|shared| shared.queue.end_at(at));
    }

    /// Nothing more will be committed.
    pub(crate) fn close(&self) {
        self.change(|shared| shared.is_closed = true);
    }

    pub(crate) fn stats(&self) -> WritesStatus {
        self.lock().queue.stats()
    }

    /// Changes the queue, shows it, and wakes who waits for the change.
    fn change<R>(&self, change: impl FnOnce(&mut Shared) -> R) -> R {
        let mut shared = self.lock();
        let was_full = shared.queue.is_full();
        let result = change(&mut shared);
        let is_full = shared.queue.is_full();
        self.counters.show(shared.queue.stats());
        drop(shared);
        self.changed.notify_one();
        match (was_full, is_full) {
            (false, true) => self.counters.count_full(),
            (true, false) => self.wake_actor(),
            _ => {}
        }
        result
    }

    fn wake_actor(&self) {
        let waker = self.waker.lock().unwrap_or_else(PoisonError::into_inner).clone();
        if let Some(wake) = waker {
            wake();
        }
    }

    fn lock(&self) -> MutexGuard<'_, Shared> {
        // The queue is consistent between its calls, which do not panic.
        self.shared.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// Makes the writes of a plugin until it is dropped, or until its queue is closed and empty. `actor` calls the handler.
pub(crate) async fn run(context: Arc<PluginContext>, actor: CommandSender) {
    loop {
        let now = context.now();
        let (next, is_over) = {
            let mut shared = context.writes.lock();
            let next = shared.queue.next(now);
            (next, shared.is_closed && shared.queue.is_empty())
        };
        let timer = match next {
            NextWrite::Send(number, write) => {
                start(&context, &actor, number, write);
                continue;
            }
            NextWrite::Idle if is_over => return,
            NextWrite::Idle => None,
            NextWrite::WaitUntil(until) => Some(context.host.env.sleep(until - now)),
        };
        let timer = async {
            match timer {
                Some(timer) => timer.await,
                None => std::future::pending().await,
            }
        };
        tokio::select! {
            biased;
            () = context.abort.cancelled() => return,
            () = context.writes.changed.notified() => {}
            () = timer => {}
        }
    }
}

/// Sends a write in a task of its own.
fn start(context: &Arc<PluginContext>, actor: &CommandSender, number: CallNumber, write: Arc<DeferredWrite>) {
    let (parts, actor) = (Arc::clone(context), actor.clone());
    let task = async move {
        tokio::select! {
            biased;
            // Whether it was done stays unknown: the event is not acknowledged.
            () = parts.abort.cancelled() => {}
            result = make(&parts, &write) => finish(&parts, &actor, number, &write, result).await,
        }
    };
    context.host.env.spawn("plugin-write", Box::pin(task));
}

/// Makes a write, if it is still granted.
async fn make(context: &PluginContext, write: &DeferredWrite) -> WriteResult {
    let grants = Arc::clone(&context.config().kube);
    let answer = send(
        &context.kube,
        &grants,
        write.address.clone(),
        write.action.clone(),
        KUBE_WAIT_MAX,
        None,
    );
    WriteResult::of(&write.action, &describe(&write.address, &write.action), answer.await)
}

/// Passes the result of a write on: the call's next write follows, or its event is done, or has failed.
async fn finish(
    context: &PluginContext,
    actor: &CommandSender,
    number: CallNumber,
    write: &DeferredWrite,
    result: WriteResult,
) {
    let writes = &context.writes;
    writes.counters.count(write.action.verb(), result.as_str());
    let (end, failure) = match result {
        WriteResult::Ok | WriteResult::Gone => (WriteEnd::Done, None),
        WriteResult::Throttled(pause) => (WriteEnd::Pause(pause), None),
        WriteResult::Failed(outcome) => (WriteEnd::Failed, Some(outcome)),
    };
    let now = context.now();
    let Some(event) = writes.change(|shared| shared.queue.ended(number, end, now)) else {
        return;
    };
    let quarantine_because = match &failure {
        Some(DeliveryOutcome::Permanent(message)) => Some(message.clone()),
        _ => None,
    };
    let outcome = failure.unwrap_or_else(|| event.outcome.clone());
    event.counters.count(event.event, outcome.as_str());
    let has_failed = !outcome.is_ok();
    if has_failed {
        context.log_failure(event.source, event.key.as_ref(), event.event, event.attempt, &outcome);
    }
    context.answer([(event.token, outcome)], has_failed, now);
    if let Some(message) = quarantine_because
        && context.config().spec.on_failure == OnFailure::Quarantine
    {
        actor.send(ActorCommand::Quarantine(message)).await;
    }
}
