//! The task that makes a plugin's writes, and what the event actor shares with it.

use std::sync::{Arc, Mutex, MutexGuard};
use std::time::Duration;

use informant_cache::listener::DeliveryOutcome;
use informant_cache::{LogThrottle, Moment};
use informant_object::{KeyRef, SourceId};
use informant_spec::Limits;
use tokio::sync::Notify;
use tokio_util::sync::CancellationToken;

use super::behind::BehindKeys;
use super::queue::{CallNumber, NextWrite, WriteEnd, WriteQueue, WritesStatus};
use super::result::WriteResult;
use super::seen::{self, Written};
use super::send::{Made, make};
use super::spacing::{Spacing, WritingKey};
use super::{DeferredWrite, KubeEffects, SPACING_WINDOW, Target, WRITES_REFUSED_PAUSE};
use crate::capability::kube::metrics::KubeSeries;
use crate::capability::kube::{CHILDREN_AGAIN_AFTER, KubePlugin};
use crate::capability::parts::{ActorWaker, HandledEvent, SourceKey};
use crate::effects::share::LimitShare;
use crate::sync::lock;

/// Lines about spaced keys of one plugin within [`SPACING_WINDOW`]: 10. The next one says how many had none.
const SPACING_WARNINGS_MAX: usize = 10;

/// Failed writes of one plugin that are logged within [`FAILURE_WARNING_PERIOD`]: 10. The next line says how many had
/// none.
const FAILURE_WARNINGS_MAX: usize = 10;

/// See [`FAILURE_WARNINGS_MAX`]: 60 s, as between two batches of warnings about dead letters.
const FAILURE_WARNING_PERIOD: Duration = Duration::from_secs(60);

/// An event that was handled, apart from its writes.
struct WrittenEvent {
    event: HandledEvent,
    /// What became of its writes so far.
    written: WrittenSoFar,
}

/// What became of the writes of one call.
#[derive(Default)]
struct WrittenSoFar {
    /// Those that the cache is to see.
    awaited: Vec<Written>,
    /// How long the next call of the key waits.
    spaced: Option<Duration>,
    /// Ends that wait.
    lifted: CancellationToken,
}

/// The writes of one plugin: committed by the event actor, made by the writer.
pub(crate) struct Writes {
    shared: Mutex<Shared>,
    /// Wakes the writer.
    changed: Notify,
    /// Wakes the event actor when there is room again.
    waker: Arc<ActorWaker>,
    /// A stop has begun: keys are no longer spaced. Parent of [`Shared::lifted`].
    stopping: CancellationToken,
    series: Arc<KubeSeries>,
}

struct Shared {
    queue: WriteQueue<WrittenEvent>,
    spacing: Spacing,
    spacing_warnings: LogThrottle,
    failure_warnings: LogThrottle,
    /// Ends the waits of the keys that are spaced now.
    lifted: CancellationToken,
    /// Keys of which the cache lacks writes.
    behind: BehindKeys,
    /// Ends what is in flight, and the waits of events, when the plugin stands by.
    term: CancellationToken,
    /// Nothing is committed any more.
    is_closed: bool,
}

impl Writes {
    pub(crate) fn new(limits: &Limits, waker: Arc<ActorWaker>, series: Arc<KubeSeries>) -> Writes {
        let stopping = CancellationToken::new();
        Writes {
            shared: Mutex::new(Shared {
                queue: WriteQueue::new(limits),
                spacing: Spacing::default(),
                spacing_warnings: LogThrottle::new(SPACING_WARNINGS_MAX, SPACING_WINDOW),
                failure_warnings: LogThrottle::new(FAILURE_WARNINGS_MAX, FAILURE_WARNING_PERIOD),
                lifted: stopping.child_token(),
                behind: BehindKeys::default(),
                term: CancellationToken::new(),
                is_closed: false,
            }),
            changed: Notify::new(),
            waker,
            stopping,
            series,
        }
    }

    pub(crate) fn set_limits(&self, limits: &Limits, share: LimitShare, now: Moment) {
        self.change(|shared| shared.queue.set_limits(limits, share, now));
    }

    /// Whether a call that has changed `targets` may have to be spaced.
    pub(crate) fn may_be_spaced(&self, targets: &[Target]) -> bool {
        !targets.is_empty() && self.lock().spacing.may_space(targets)
    }

    /// Accepts the writes of a successful call, at least one. `event` ends when they have.
    fn accept(&self, event: HandledEvent, written: WrittenSoFar, writes: Vec<DeferredWrite>) {
        self.change(|shared| shared.queue.commit(WrittenEvent { event, written }, writes));
    }

    /// Whether too many writes wait: the handler must not be called. Its actor is woken when that is over.
    pub(crate) fn is_full(&self) -> bool {
        self.lock().queue.is_full()
    }

    /// Starts no write from `at` on, for a stop.
    pub(crate) fn end_at(&self, at: Moment) {
        self.stopping.cancel();
        self.change(|shared| shared.queue.end_at(at));
    }

    /// Another replica acts: drops all writes and the events that wait, which do not end. Whether those in flight are
    /// made stays unknown.
    pub(crate) fn drop_all(&self) {
        let dropped = self.change(|shared| {
            std::mem::take(&mut shared.term).cancel();
            shared.behind = BehindKeys::default();
            shared.queue.drop_all()
        });
        for write in dropped {
            self.series.count_write(write.action.verb(), "dropped");
        }
    }

    /// Nothing more will be committed.
    pub(crate) fn close(&self) {
        self.change(|shared| shared.is_closed = true);
    }

    pub(crate) fn stats(&self) -> WritesStatus {
        self.lock().queue.stats()
    }

    /// The first `max` keys that are spaced because they write to one object again and again, and how many there are.
    pub(crate) fn spaced_keys(&self, now: Moment, max: usize) -> (usize, Vec<WritingKey>) {
        self.lock().spacing.keys(now, max)
    }

    /// Whether the cache lacks writes of earlier calls about this key, for the call that begins now.
    pub(crate) fn is_behind(&self, plugin: &KubePlugin, source: SourceId, key: KeyRef<'_>, now: Moment) -> bool {
        let seen = |write: &Written| write.is_seen(plugin);
        self.lock().behind.is_behind(source, || key.to_key(), now, seen)
    }

    /// Whether the cache will see a write of an earlier call about this key, and has not.
    pub(crate) fn awaits(&self, plugin: &KubePlugin, source: SourceId, key: KeyRef<'_>) -> bool {
        let is_coming = |write: &Written| write.is_coming(plugin);
        self.lock().behind.awaits(source, || key.to_key(), is_coming)
    }

    /// Spaces no key until it writes again and again from now on: the next call of a spaced key waits no longer. For
    /// another version of the handler, and for an operator. Returns whether a key was spaced at `now`.
    pub(crate) fn lift_spacing(&self, now: Moment) -> bool {
        let mut shared = self.lock();
        let were_spaced = shared.spacing.keys(now, 0).0 > 0;
        shared.spacing = Spacing::default();
        let lifted = std::mem::replace(&mut shared.lifted, self.stopping.child_token());
        drop(shared);
        lifted.cancel();
        were_spaced
    }

    /// Changes the queue, shows it, and wakes who waits for the change.
    fn change<R>(&self, change: impl FnOnce(&mut Shared) -> R) -> R {
        let mut shared = self.lock();
        let was_full = shared.queue.is_full();
        let result = change(&mut shared);
        let is_full = shared.queue.is_full();
        self.series.show_writes(shared.queue.stats());
        drop(shared);
        self.changed.notify_one();
        match (was_full, is_full) {
            (false, true) => self.series.count_full(),
            (true, false) => self.waker.wake(),
            _ => {}
        }
        result
    }

    fn lock(&self) -> MutexGuard<'_, Shared> {
        // The queue is consistent between its calls, which do not panic.
        lock(&self.shared)
    }
}

/// Accepts what a successful call has left behind. `event` ends with its writes, and after the wait of a spaced key.
/// None: it has deferred nothing, and ends now.
pub(crate) fn commit(plugin: &Arc<KubePlugin>, effects: KubeEffects, event: Option<HandledEvent>) {
    let KubeEffects {
        deferred,
        changed,
        awaited,
    } = effects;
    let Some(event) = event else {
        if !changed.is_empty() {
            let now = plugin.env.now();
            let spacing = &mut plugin.writes.lock().spacing;
            for target in &changed {
                spacing.count(target, now);
            }
        }
        return;
    };
    let mut written = WrittenSoFar {
        awaited,
        ..WrittenSoFar::default()
    };
    if !changed.is_empty() {
        let now = plugin.env.now();
        let mut shared = plugin.writes.lock();
        let Shared {
            spacing,
            spacing_warnings,
            lifted,
            ..
        } = &mut *shared;
        for target in &changed {
            space(
                plugin,
                (spacing, spacing_warnings, lifted),
                (&event, &mut written),
                target,
                now,
            );
        }
    }
    if !deferred.is_empty() {
        return plugin.writes.accept(event, written, deferred);
    }
    if written.spaced.is_none() && written.awaited.is_empty() {
        return event.end(None);
    }
    let (of, key, term) = (
        Arc::clone(plugin),
        event.source_key(),
        plugin.writes.lock().term.clone(),
    );
    let wait = async move {
        if let Some(again) = term.run_until_cancelled(wait_after(&of, &key, &written)).await {
            event.again_after(again).end(None);
        }
    };
    plugin.env.spawn("plugin-spaced-key", Box::pin(wait));
}

/// Makes the writes of a plugin until `abort`, or until its queue is closed and empty.
pub(crate) async fn run(plugin: Arc<KubePlugin>, abort: CancellationToken) {
    loop {
        let now = plugin.env.now();
        let (next, is_over, term) = {
            let mut shared = plugin.writes.lock();
            let next = shared.queue.next(now);
            (next, shared.is_closed && shared.queue.is_empty(), shared.term.clone())
        };
        let timer = match next {
            NextWrite::Send(number, write) => {
                start(&plugin, (&abort, term), number, write);
                continue;
            }
            NextWrite::Idle if is_over => return,
            NextWrite::Idle => None,
            NextWrite::WaitUntil(until) => Some(plugin.env.sleep(until - now)),
        };
        let timer = async {
            match timer {
                Some(timer) => timer.await,
                None => std::future::pending().await,
            }
        };
        tokio::select! {
            biased;
            () = abort.cancelled() => return,
            () = plugin.writes.changed.notified() => {}
            () = timer => {}
        }
    }
}

/// Sends a write in a task of its own.
fn start(
    plugin: &Arc<KubePlugin>,
    (abort, term): (&CancellationToken, CancellationToken),
    number: CallNumber,
    write: Arc<DeferredWrite>,
) {
    let (of, abort) = (Arc::clone(plugin), abort.clone());
    let task = async move {
        let work = async {
            let made = make(&of, &write).await;
            finish(&of, number, &write, made).await;
        };
        tokio::select! {
            biased;
            // Whether it was done stays unknown: the event is not acknowledged.
            () = abort.cancelled() => {}
            () = term.cancelled() => {}
            () = work => {}
        }
    };
    plugin.env.spawn("plugin-write", Box::pin(task));
}

/// Passes the result of a write on: the call's next write follows, or its event is done, or has failed.
async fn finish(plugin: &KubePlugin, number: CallNumber, write: &DeferredWrite, made: Made) {
    plugin.series.count_write(write.action.verb(), made.result.as_str());
    let now = plugin.env.now();
    let (end, failure) = match made.result {
        WriteResult::Ok | WriteResult::Unchanged | WriteResult::Gone => (WriteEnd::Done, None),
        WriteResult::Throttled(pause) => (WriteEnd::Pause(pause), None),
        WriteResult::Refused => (WriteEnd::Pause(WRITES_REFUSED_PAUSE), None),
        WriteResult::Failed(ref outcome) => (WriteEnd::Failed, Some(outcome.clone())),
    };
    let ended = plugin.writes.change(|shared| {
        if made.result == WriteResult::Unchanged {
            shared.queue.was_not_sent();
        }
        note(plugin, shared, number, write, &made, now);
        if let Some(outcome) = &failure {
            log_failed_write(plugin, shared, number, write, outcome, now);
        }
        shared.queue.ended(number, end, now)
    });
    let Some(WrittenEvent { event, written }) = ended else {
        return;
    };
    let key = event.source_key();
    let again = match failure {
        None => wait_after(plugin, &key, &written).await,
        // Its back-off follows.
        Some(_) => {
            remember_unseen(plugin, &key, &written);
            None
        }
    };
    event.again_after(again).end(failure);
}

/// Remembers what a write means for the end of its event.
fn note(plugin: &KubePlugin, shared: &mut Shared, number: CallNumber, write: &DeferredWrite, made: &Made, now: Moment) {
    let Shared {
        queue,
        spacing,
        spacing_warnings,
        lifted,
        ..
    } = shared;
    let Some(WrittenEvent { event, written }) = queue.about(number) else {
        return;
    };
    let is_awaited = write.is_awaited && !plugin.dry_run.is_dry_run();
    if is_awaited && made.result == WriteResult::Ok {
        let awaited = Written::new(&write.address, &write.name, &write.action, made.version.clone());
        written.awaited.push(awaited);
    }
    if made.is_effective {
        space(
            plugin,
            (spacing, spacing_warnings, lifted),
            (event, written),
            &write.target,
            now,
        );
    }
}

/// The event's call has changed `target`: spaces its key, if that was once too often.
fn space(
    plugin: &KubePlugin,
    (spacing, spacing_warnings, lifted): (&mut Spacing, &mut LogThrottle, &CancellationToken),
    (event, written): (&HandledEvent, &mut WrittenSoFar),
    target: &Target,
    now: Moment,
) {
    let Some(key) = &event.key else { return };
    let Some(wait) = spacing.wrote(event.source, key, target, now) else {
        return;
    };
    written.spaced = written.spaced.max(Some(wait));
    written.lifted = lifted.clone();
    plugin.series.count_spaced();
    if let Some(suppressed) = spacing_warnings.line(now) {
        let info = plugin.catalog.info(event.source);
        let informer = info.as_ref().map(|info| info.informer.as_str());
        let cluster = info.as_ref().map(|info| info.cluster.as_str());
        tracing::warn!(
            plugin = &*plugin.plugin,
            informer,
            cluster = cluster.filter(|cluster| !cluster.is_empty()),
            resource = info.as_ref().map(|info| info.resource.as_str()),
            key = %key,
            target_object = %target,
            wait_seconds = wait.as_secs(),
            suppressed = (suppressed > 0).then_some(suppressed),
            "plugin writes to one object again and again; calls of the key are spaced"
        );
    }
}

/// Logs that a write failed, as far as a line is due.
fn log_failed_write(
    plugin: &KubePlugin,
    shared: &mut Shared,
    number: CallNumber,
    write: &DeferredWrite,
    outcome: &DeliveryOutcome,
    now: Moment,
) {
    let (DeliveryOutcome::Permanent(error) | DeliveryOutcome::Retryable(error)) = outcome else {
        return;
    };
    let Some(suppressed) = shared.failure_warnings.line(now) else {
        return;
    };
    let key = shared.queue.about(number).and_then(|of| of.event.key.as_ref());
    let key = key.map(ToString::to_string);
    let (cluster, result) = (&*write.address.cluster, outcome.as_str());
    tracing::warn!(
        plugin = &*plugin.plugin,
        cluster = Some(cluster).filter(|cluster| !cluster.is_empty()),
        verb = write.action.verb().as_str(),
        resource = %write.address.resource,
        namespace = &*write.address.namespace,
        name = &*write.name,
        key,
        result,
        error,
        suppressed = (suppressed > 0).then_some(suppressed),
        "deferred write failed"
    );
}

/// The writes of an event have succeeded: waits until it counts as handled. Returns when a reconciler is to be called
/// again: an object that it wrote is gone, or the cache has not seen it, and no event may tell of either.
async fn wait_after(plugin: &KubePlugin, key: &SourceKey, written: &WrittenSoFar) -> Option<Duration> {
    wait_until_seen(plugin, key, written).await;
    let again = again_after(plugin, written);
    if let Some(wait) = written.spaced {
        tokio::select! {
            biased;
            () = written.lifted.cancelled() => {}
            () = plugin.env.sleep(wait) => {}
        }
    }
    again
}

fn again_after(plugin: &KubePlugin, written: &WrittenSoFar) -> Option<Duration> {
    if !plugin.reconciles() {
        return None;
    }
    let is_own = |write: &Written| written.awaited.iter().any(|other| other.deletes(write));
    if written
        .awaited
        .iter()
        .any(|write| write.is_gone(plugin) && !is_own(write))
    {
        // As soon as a call may follow another.
        return Some(Duration::ZERO);
    }
    let awaits = written.awaited.iter().any(|write| write.is_coming(plugin));
    awaits.then_some(CHILDREN_AGAIN_AFTER)
}

/// Waits until the cache has seen the writes that have succeeded. If it does not in time, the next call learns it.
async fn wait_until_seen(plugin: &KubePlugin, key: &SourceKey, written: &WrittenSoFar) {
    if !written.awaited.is_empty() && !seen::wait(plugin, &written.awaited).await {
        remember_unseen(plugin, key, written);
    }
}

/// The next call about the key learns what the cache has not seen, if it is that of a reconciler.
fn remember_unseen(plugin: &KubePlugin, (source, key): &SourceKey, written: &WrittenSoFar) {
    let Some(key) = key.as_ref().filter(|_| plugin.reconciles()) else {
        return;
    };
    let unseen: Vec<Written> = written
        .awaited
        .iter()
        .filter(|write| !write.is_seen(plugin))
        .cloned()
        .collect();
    if !unseen.is_empty() {
        let now = plugin.env.now();
        let behind = &mut plugin.writes.lock().behind;
        behind.insert(*source, key.clone(), unseen.into_iter(), now);
    }
}
