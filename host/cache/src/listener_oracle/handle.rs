//! A listener shared between the informer loop and its consumer.

use std::fmt;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use informant_object::{Key, KeyRef, SourceId};

use crate::listener_oracle::cursor::CursorKind;
use crate::listener_oracle::wake::{Waker, WakingLock};
use crate::listener_oracle::{
    ChangedSelection, DeadLetter, DeadLetterChanges, Delivery, DeliveryOutcome, DeliveryToken, Lane, LaneSet, Listener,
    ListenerOptions, ListenerStats, NextBatch, NextDelivery, ObjectChange, OpenKey, OpenKeys, Pause, RequeueChanges,
    RequeueResult, ResourceIdentities, ResumeState, RetriedKey, SlowedKey, Triggered, Vanished,
};
use crate::{Moment, Snapshot};

/// One handler's listener; clones are the same listener. See [the module](super) for what it promises.
///
/// Three parties share it: informer loops attach, push and detach; one consumer pulls deliveries and reports outcomes;
/// the supervisor of the handler pauses, replays, closes and inspects it. Every call takes one lock for a short time
/// (well below a microsecond per event of a batch), and callbacks run after it is released.
#[derive(Clone)]
pub struct ListenerHandle(Arc<Shared>);

type SyncedCallback = Arc<dyn Fn(SourceId) + Send + Sync>;

struct Shared {
    listener: WakingLock<Listener>,
    synced: Mutex<Option<SyncedCallback>>,
}

impl ListenerHandle {
    pub fn feed(&self) -> &Self {
        self
    }
    pub fn consumer(&self) -> &Self {
        self
    }
    pub fn control(&self) -> &Self {
        self
    }
    pub fn ledger(&self) -> &Self {
        self
    }
    /// A listener without sources.
    #[must_use]
    pub fn new(options: ListenerOptions) -> ListenerHandle {
        let listener = WakingLock::new(Listener::new(options));
        ListenerHandle(Arc::new(Shared {
            listener,
            synced: Mutex::default(),
        }))
    }

    /// A listener that neither folds nor cuts at its limits: the pusher checks [`has_room`](Self::has_room) before each
    /// batch, and waits while there is none. Failing keys still fold. They count, so a handler that fails without end
    /// on as many keys as the limit allows stops the pusher.
    ///
    /// For a handler with its own informer. With other handlers on the same informer, it would delay them all.
    #[must_use]
    pub fn new_blocking(options: ListenerOptions) -> ListenerHandle {
        let handle = ListenerHandle::new(options);
        handle.0.listener.lock().queue.block();
        handle
    }

    /// Whether no limit on pending events is reached; also true once closed, when nothing is accepted anyway.
    #[must_use]
    pub fn has_room(&self) -> bool {
        let listener = self.0.listener.lock();
        listener.closed || listener.queue.has_room()
    }

    /// Applies other options from now on: limits, resync, retries, failure policy. Pending events stay as they are, and
    /// so do `seed` and `dead_letters_max`. A changed resync period starts at `now`.
    pub fn set_options(&self, options: ListenerOptions, now: Moment) {
        self.change(|listener| listener.set_options(options, now));
    }

    /// Sets the callback that wakes a waiting consumer. Replaces an earlier one.
    ///
    /// Called without any lock, from the thread that made the change; at most once until the consumer waits again.
    pub fn set_waker(&self, waker: Waker) {
        self.0.listener.set_waker(waker);
    }

    /// Sets the callback that is called, without any lock, when every key of a source's initial list was attempted.
    /// Replaces an earlier one.
    pub fn set_synced_callback(&self, callback: SyncedCallback) {
        *lock(&self.0.synced) = Some(callback);
    }

    /// Attaches a source whose first list is complete and published as `snapshot`, and starts its initial list.
    /// Informer side.
    ///
    /// Also used for a handler that is added late. Does nothing for a source that is attached already, or once closed.
    pub fn attach(&self, source: SourceId, snapshot: &Snapshot, now: Moment) {
        self.change(|listener| listener.attach(source, snapshot, now));
    }

    /// As [`attach`](Self::attach), for a handler that received the source in an earlier process. First delivers what
    /// vanished since, as deletes with reason `Relist`; then every object as an add with reason `Initial`, except those
    /// it accepted already. Informer side.
    pub fn attach_resumed(&self, source: SourceId, snapshot: &Snapshot, resume: ResumeState, now: Moment) {
        self.change(|listener| listener.attach_resumed(source, snapshot, resume, now));
    }

    /// Delivers what vanished before this process, for a handler that was attached before that was known: as deletes
    /// with reason `Relist`, each name's before an add of what is there now. Informer side.
    pub fn push_vanished(&self, source: SourceId, deletes: Vec<Vanished>, now: Moment) {
        self.change(|listener| listener.push_vanished(source, deletes, now));
    }

    /// What is open of each of `keys`: pending, in flight, ahead of a cursor, or dead letters; `None` of a key with
    /// which the handler has finished. `None` for a source that is not attached, and once a closed listener has refused
    /// changes.
    #[must_use]
    pub fn are_open(&self, source: SourceId, keys: &[Key]) -> Option<Vec<Option<OpenKey>>> {
        self.0.listener.lock().are_open(source, keys)
    }

    /// All open keys, if there are at most `max`. Visits every pending key.
    #[must_use]
    pub fn open_keys(&self, source: SourceId, max: usize) -> OpenKeys {
        self.0.listener.lock().open_keys(source, max)
    }

    /// Accepts `changes`, exactly those between the snapshot pushed before and this one. Informer side.
    ///
    /// Call it after each publish and before the next one: otherwise cursor and pushed changes would overlap. This call
    /// releases the snapshot pushed before, so free its garbage ([`StoreWriter::take_garbage`](crate::StoreWriter))
    /// after it, on another thread.
    ///
    /// Changes of a source that is not attached are counted and ignored (its initial list will deliver them), as are
    /// all changes once closed.
    pub fn push(&self, source: SourceId, snapshot: &Snapshot, changes: &[ObjectChange]) {
        self.change(|listener| listener.push(source, snapshot, changes));
    }

    /// Drops a source with all its pending events; no deletes are delivered. Informer side.
    ///
    /// Outcomes of its deliveries in flight are counted and ignored from then on.
    pub fn detach(&self, source: SourceId) {
        self.change(|listener| listener.detach(source));
    }

    /// Attaches `new` in place of `olds` for the keys in its `scope`, whose objects the handler has seen from them. It
    /// receives only `changes`, the difference between what `olds` delivered and `snapshot`; pending, failing and
    /// in-flight events and requeues continue under the new source id. Informer side.
    ///
    /// If `olds` were not delivered completely yet, `new` is delivered as by a [`replay`](Self::replay); if they were
    /// not attached, `new` is [attached](Self::attach) as usual. `olds` stay attached, for the deletes of objects that
    /// only they held.
    pub fn transfer(
        &self,
        olds: &[SourceId],
        new: SourceId,
        scope: &dyn Fn(KeyRef<'_>) -> bool,
        snapshot: &Snapshot,
        changes: &[ObjectChange],
        now: Moment,
    ) {
        self.change(|listener| listener.transfer(olds, new, scope, (snapshot, changes), now));
    }

    /// Transfers the pending, failing and in-flight events and the requeues of the keys in `scope` from `olds`, which
    /// were drained and have pushed all their deletes, to `new`, which is attached next: whatever `new` delivers of a
    /// key follows the key's delete. Informer side.
    pub fn transfer_pending(&self, olds: &[SourceId], new: SourceId, scope: &dyn Fn(KeyRef<'_>) -> bool) {
        self.change(|listener| listener.transfer_pending(olds, new, scope));
    }

    /// How many keys of a source have events pending or in flight. Visits every pending key.
    #[must_use]
    pub fn busy_keys(&self, source: SourceId) -> usize {
        self.0.listener.lock().busy_keys(source)
    }

    /// How many keys of a source are in back-off, and the first `max` of them. Visits every pending key.
    #[must_use]
    pub fn retrying_keys(&self, source: SourceId, max: usize) -> (usize, Vec<Key>) {
        self.0.listener.lock().retrying_keys(source, max)
    }

    /// Of the [busy keys](Self::busy_keys), how many are worth waiting for in an orderly stop: none while an operator
    /// or a quarantine pauses the handler, and otherwise those that are not in back-off.
    #[must_use]
    pub fn deliverable_keys(&self, source: SourceId) -> usize {
        self.0.listener.lock().deliverable_keys(source)
    }

    /// How many keys are under retry, and those of them that failed first, at most `max`, oldest first. Visits every
    /// pending key.
    #[must_use]
    pub fn retried_keys(&self, max: usize) -> (usize, Vec<RetriedKey>) {
        self.0.listener.lock().retried_keys(max)
    }

    /// How many keys ask for another call again and again without a change, at shorter intervals than they may
    /// ([`REQUEUE_AFTER_MIN_UNCHANGED`](super::REQUEUE_AFTER_MIN_UNCHANGED)), and the first `max` of them by source and
    /// key. Visits every requeue if there are such keys.
    #[must_use]
    pub fn slowed_keys(&self, max: usize) -> (usize, Vec<SlowedKey>) {
        self.0.listener.lock().slowed_keys(max)
    }

    /// The next delivery. Consumer side.
    #[must_use]
    pub fn next(&self, now: Moment) -> NextDelivery {
        self.0.listener.lock().next(now)
    }

    /// Appends up to `max` deliveries of one of `lanes`, each of a different key. For a consumer of several
    /// [lanes](Self::set_lanes), which are served by turns if it asks for those whose deliveries it has handled.
    pub fn next_batch(&self, lanes: LaneSet, now: Moment, max: usize, out: &mut Vec<Delivery>) -> NextBatch {
        self.0.listener.lock().next_batch(now, lanes, max, out)
    }

    /// Reports the outcome of one delivery. Consumer side.
    pub fn done(&self, token: DeliveryToken, outcome: DeliveryOutcome, now: Moment) {
        self.change(|listener| listener.done(token, outcome, now));
    }

    /// Reports the outcomes of several deliveries. Consumer side. Returns how many of them became dead letters.
    pub fn done_batch(&self, outcomes: impl IntoIterator<Item = (DeliveryToken, DeliveryOutcome)>, now: Moment) -> u64 {
        self.change(|listener| {
            let before = listener.queue.counters.dead_lettered;
            outcomes
                .into_iter()
                .for_each(|(token, outcome)| listener.done(token, outcome, now));
            listener.queue.counters.dead_lettered - before
        })
    }

    /// Takes back deliveries whose calls were never made: they are delivered next, as if for the first time. Consumer
    /// side.
    ///
    /// For an instance that stops or traps before the end of a batch. Pass the tokens in the order in which they came.
    pub fn give_back(&self, tokens: impl IntoIterator<Item = DeliveryToken, IntoIter: DoubleEndedIterator>) {
        self.change(|listener| tokens.into_iter().rev().for_each(|token| listener.give_back(token)));
    }

    /// Delivers nothing until [`resume`](Self::resume). Outcomes of deliveries in flight are still accepted.
    pub fn pause(&self, pause: Pause) {
        self.change(|listener| listener.pause(pause));
    }

    /// Ends a [`pause`](Self::pause) of this kind.
    pub fn resume(&self, pause: Pause) {
        self.change(|listener| listener.resume(pause));
    }

    /// Retries everything in back-off now, without a limit on the rate, but not within
    /// [`min_interval`](ListenerOptions::min_interval) of the key's last call. For a handler that was replaced: it need
    /// not wait for its predecessor's back-off.
    pub fn retry_now(&self) {
        self.change(Listener::retry_now);
    }

    /// Counts requests for another call of an unchanged object from scratch; what they slowed down is due at `now`. For
    /// a handler that was replaced, and for an operator. Returns whether any were slowed down.
    pub fn end_slow_downs(&self, now: Moment) -> bool {
        self.change(|listener| listener.requeues.end_slow_downs(now))
    }

    /// Redelivers every source, with reason `Replay`: pending deletes first, then every object as an add, merged with
    /// its pending events; [`Notification::Synced`](super::Notification::Synced) at the end. Keys in back-off stay
    /// there; requeues are canceled, and no key waits for its [`min_interval`](ListenerOptions::min_interval). The
    /// replay of a [gated](Self::gate_replays) source starts once it is recorded.
    ///
    /// From now on a delete is delivered even for an object that the cursor has not reached, since the handler may have
    /// seen it before.
    pub fn replay(&self, now: Moment) {
        self.start_replay(now, CursorKind::Replay, None);
    }

    /// Like [`replay`](Self::replay), for a handler whose instance was lost because of an event. Delivers the keys of
    /// that instance's lane only; with several lanes, the intervals of all keys end. Skips dead-lettered states,
    /// because they would crash the next instance, too. A newer state of such a key is delivered as usual.
    pub fn recover(&self, lane: Lane, now: Moment) {
        self.start_replay(now, CursorKind::Recovery, Some(lane));
    }

    /// Like [`replay`](Self::replay), of the keys of one lane.
    pub fn replay_lane(&self, lane: Lane, now: Moment) {
        self.start_replay(now, CursorKind::Replay, Some(lane));
    }

    fn start_replay(&self, now: Moment, kind: CursorKind, only: Option<Lane>) {
        let callbacks = self.change(|listener| {
            let has_lanes = listener.queue.slots.lane_map.count() > 1;
            listener.replay(now, kind, only.filter(|_| has_lanes))
        });
        callbacks.iter().for_each(|requested| requested());
    }

    /// Divides the keys among `count` lanes from now on, at most [`LANES_MAX`](super::LANES_MAX), for one consumer
    /// that handles each lane apart; and [replays](Self::replay) all sources, since each lane has lost what it had
    /// seen. `identity` says which sources deliver the same objects. Consumer side, while it makes no call.
    pub fn set_lanes(&self, count: Lane, identity: ResourceIdentities, now: Moment) {
        let callbacks = self.change(|listener| listener.set_lanes(count, identity, now));
        callbacks.iter().for_each(|requested| requested());
    }

    /// The handler selects other objects of these sources than before: it receives the difference, with reason
    /// `Reconfigured`. Each object that only the new selection contains is delivered as an add. Each that only an
    /// earlier one contains is an add with [`seen_unknown`](super::Delivery::seen_unknown), which the consumer makes a
    /// delete. Pending deletes have that mark from now on, too. No
    /// [`Notification::Synced`](super::Notification::Synced) follows.
    /// `only`: the keys of this lane.
    pub fn reselect(&self, changed: Vec<(SourceId, Arc<dyn ChangedSelection>)>, only: Option<Lane>, now: Moment) {
        let callbacks = self.change(|listener| listener.reselect(changed, only, now));
        callbacks.iter().for_each(|requested| requested());
    }

    /// Holds replays of `source` until [`begin_replay`](Self::begin_replay): its acknowledgements are persisted, and a
    /// replay has to be persisted before it delivers anything. `requested` is called for each replay, under no lock.
    /// Applies until the source is detached or the listener is closed. Journal side.
    pub fn gate_replays(&self, source: SourceId, requested: impl Fn() + Send + Sync + 'static) {
        self.change(|listener| listener.gate(source, Arc::new(requested)));
    }

    /// Starts a held replay of `source`, if there is one. Journal side.
    pub fn begin_replay(&self, source: SourceId) {
        self.change(|listener| listener.begin_replay(source));
    }

    /// No longer holds replays of `source`. Journal side.
    pub fn ungate_replays(&self, source: SourceId) {
        self.change(|listener| listener.ungate(source));
    }

    /// Redelivers one key, with reason `Requeue`: its current state, or its last known delete while the object is
    /// absent.
    pub fn requeue(&self, source: SourceId, key: KeyRef<'_>, now: Moment) -> RequeueResult {
        self.change(|listener| listener.requeue(source, key, now))
    }

    /// Asks for a call, with reason `Trigger`, for each of the live objects at `keys`. Holds the lock meanwhile: pass
    /// at most about a thousand keys at a time. The calls take turns with other deliveries, and wait while the handler
    /// is paused; a stop does not wait for them.
    pub fn trigger(&self, source: SourceId, keys: &[Key], now: Moment) -> Triggered {
        self.change(|listener| listener.trigger(source, keys, now))
    }

    /// No longer accepts changes. Accepted events, initial lists and replays are still delivered; then the consumer
    /// gets `Closed`.
    pub fn close(&self) {
        self.change(Listener::close);
    }

    /// From now on, keys in back-off do not keep a closed listener open: for an orderly stop, which they could only
    /// delay.
    pub fn end_retries(&self) {
        self.change(|listener| listener.retries_ended = true);
    }

    /// From now on no key waits for its [`min_interval`](ListenerOptions::min_interval): the last states are delivered
    /// at once. For an orderly stop, whose deadline may be shorter than the interval. [`close`](Self::close) does the
    /// same.
    pub fn end_intervals(&self) {
        self.change(Listener::end_intervals);
    }

    /// Closes and drops all remaining events, in flight or not. Returns how many, and counts them as discarded.
    pub fn abandon(&self) -> u64 {
        self.change(Listener::abandon)
    }

    /// Whether every key of the source's initial list was attempted; `false` for a source that is not attached.
    ///
    /// Source: client-go `ResourceEventHandlerRegistration.HasSynced`. A failing or trapping handler does not keep it
    /// `false`.
    #[must_use]
    pub fn has_synced(&self, source: SourceId) -> bool {
        self.0
            .listener
            .lock()
            .sources
            .get(source)
            .is_some_and(|state| state.synced)
    }

    /// Whether the source is attached.
    #[must_use]
    pub fn is_attached(&self, source: SourceId) -> bool {
        self.0.listener.lock().sources.get(source).is_some()
    }

    /// How many deliveries are in flight.
    #[must_use]
    pub fn in_flight(&self) -> usize {
        self.0.listener.lock().queue.in_flight
    }

    /// How many events are pending, including those in back-off.
    #[must_use]
    pub fn pending(&self) -> usize {
        self.0.listener.lock().queue.pending
    }

    /// What has changed in the dead letters of a source since the call that returned `seen`, which is `None` at first.
    /// None if nothing has. Journal side.
    #[must_use]
    pub fn dead_letter_changes(&self, source: SourceId, seen: Option<u64>) -> Option<DeadLetterChanges> {
        let listener = self.0.listener.lock();
        // A source that was detached meanwhile took its letters along; that is no change.
        listener.sources.get(source)?;
        listener.letters.changes(source, seen)
    }

    /// Remembers from now on which requeues of `source` change, for [`requeue_changes`](Self::requeue_changes), until
    /// the source is detached. Call it again if recorded changes were lost. Journal side.
    pub fn record_requeues(&self, source: SourceId) {
        self.0.listener.lock().requeues.record(source);
    }

    /// What has changed in the requeues of a [recorded](Self::record_requeues) source since the last call, which is
    /// everything at first. None if nothing has. Journal side.
    ///
    /// Read acknowledgements ([`are_open`](Self::are_open)) first and record both at once: then no key is recorded as
    /// acknowledged without the requeue that the same call asked for. A requeue is removed only when the call that it
    /// asked for, or another one of the key, has ended.
    #[must_use]
    pub fn requeue_changes(&self, source: SourceId, now: Moment) -> Option<RequeueChanges> {
        self.0.listener.lock().requeue_changes(source, now)
    }

    /// The dead letters, oldest first.
    #[must_use]
    pub fn dead_letters(&self) -> Vec<DeadLetter> {
        self.0.listener.lock().letters.list()
    }

    /// The newest dead letter that is still listed.
    #[must_use]
    pub fn last_dead_letter(&self) -> Option<DeadLetter> {
        self.0.listener.lock().letters.newest_first().next().cloned()
    }

    /// The newest dead letters that are still listed, at most `max`, oldest first.
    #[must_use]
    pub fn last_dead_letters(&self, max: usize) -> Vec<DeadLetter> {
        let mut letters: Vec<_> = {
            let listener = self.0.listener.lock();
            listener.letters.newest_first().take(max).cloned().collect()
        };
        letters.reverse();
        letters
    }

    /// Whether both are the same listener.
    #[must_use]
    pub fn ptr_eq(&self, other: &ListenerHandle) -> bool {
        Arc::ptr_eq(&self.0, &other.0)
    }

    /// Statistics of the listener now. Visits every pending key: for status and metrics, not for each event.
    #[must_use]
    pub fn stats(&self) -> ListenerStats {
        self.0.listener.lock().stats()
    }

    /// Changes the listener under the lock, then runs the callbacks.
    fn change<T>(&self, change: impl FnOnce(&mut Listener) -> T) -> T {
        let (result, synced) = self.0.listener.change(|listener| {
            let result = change(listener);
            (result, std::mem::take(&mut listener.newly_synced))
        });
        if !synced.is_empty()
            && let Some(callback) = lock(&self.0.synced).clone()
        {
            synced.into_iter().for_each(|source| callback(source));
        }
        result
    }
}

impl fmt::Debug for ListenerHandle {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("ListenerHandle")
            .field("stats", &self.stats())
            .finish_non_exhaustive()
    }
}

/// The listener is consistent between calls; callbacks panic outside the lock.
fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}
