//! What the supervisor of a handler and operators do with its listener.

use std::sync::Arc;

use informant_object::{Key, KeyRef, SourceId};

use super::Shared;
use crate::delivery::tick::TIMER_SOURCE;
use crate::listener::cursor::CursorKind;
use crate::listener::{
    ChangedSelection, GainedShard, HeldShards, Lane, Listener, ListenerOptions, ListenerStats, Pause, Relations,
    RequeueResult, Triggered,
};
use crate::{Catalog, KeptDeletes, Moment, ShardSet};

/// Pauses, redelivers, changes and closes.
#[derive(Clone, Debug)]
pub struct Control(pub(super) Arc<Shared>);

impl Control {
    /// Applies other options from now on: limits, resync, retries, failure policy. Pending events stay as they are, and
    /// so do `seed` and `dead_letters_max`. A changed resync period starts at `now`.
    pub fn set_options(&self, options: ListenerOptions, now: Moment) {
        self.0.change(|listener| listener.set_options(options, now));
    }

    /// From now on, sources that are attached are delivered only if they have no relation; changes of others lead to
    /// calls with [`Reason::Related`](crate::Reason::Related). Sources that are attached already stay as they are.
    ///
    /// A listener with relations is level-triggered: at most one state of an object is pending, and the reason of a
    /// call is that of its first cause.
    pub fn set_relations(&self, relations: Option<Arc<dyn Relations>>) {
        self.0.change(|listener| listener.set_relations(relations));
    }

    /// Delivers nothing until [`resume`](Self::resume). Outcomes of deliveries in flight are still accepted.
    pub fn pause(&self, pause: Pause) {
        self.0.change(|listener| listener.pause(pause));
    }

    /// Ends a [`pause`](Self::pause) of this kind.
    pub fn resume(&self, pause: Pause) {
        self.0.change(|listener| listener.resume(pause));
    }

    /// Redelivers every source, with reason `Replay`: pending deletes first, then every object as an add, merged with
    /// its pending events; [`Notification::Synced`](crate::listener::Notification::Synced) at the end. Keys in
    /// back-off stay
    /// there; requeues are canceled, and no key waits for its [`min_interval`](ListenerOptions::min_interval). The
    /// replay of a [gated](super::Ledger::gate_replays) source starts once it is recorded.
    ///
    /// From now on a delete is delivered even for an object that the cursor has not reached, since the handler may have
    /// seen it before.
    pub fn replay(&self, now: Moment) {
        self.0.start_replay(now, CursorKind::Replay, None);
    }

    /// The handler selects other objects of these sources than before: it receives the difference, with reason
    /// `Reconfigured`. Each object that only the new selection contains is delivered as an add. Each that only an
    /// earlier one contains is an add with [`seen_unknown`](crate::listener::Delivery::seen_unknown), which the
    /// consumer makes a delete. Pending deletes have that mark from now on, too. No
    /// [`Notification::Synced`](crate::listener::Notification::Synced) follows. `only`: the keys of this lane.
    pub fn reselect(&self, changed: Vec<(SourceId, Arc<dyn ChangedSelection>)>, only: Option<Lane>, now: Moment) {
        self.0
            .change_and_request(|listener| listener.reselect(changed, only, now));
    }

    /// Redelivers one key, with reason `Requeue`: its current state, or its last known delete while the object is
    /// absent.
    pub fn requeue(&self, source: SourceId, key: KeyRef<'_>, now: Moment) -> RequeueResult {
        self.0.change(|listener| listener.requeue(source, key, now))
    }

    /// Asks for a call, with reason `Trigger`, for each of the live objects at `keys`. Holds the lock meanwhile: pass
    /// at most about a thousand keys at a time. The calls take turns with other deliveries, and wait while the handler
    /// is paused; a stop does not wait for them.
    pub fn trigger(&self, source: SourceId, keys: &[Key], now: Moment) -> Triggered {
        self.0.change(|listener| listener.trigger(source, keys, now))
    }

    /// Calls now what is in back-off or waits for a source or an index, without a limit on the rate, but not within
    /// [`min_interval`](ListenerOptions::min_interval) of the key's last call. For a handler that was replaced: it need
    /// not wait for its predecessor's back-off.
    pub fn retry_now(&self) {
        self.0.change(Listener::retry_now);
    }

    /// Counts requests for another call of an unchanged object from scratch; what they slowed down is due at `now`, and
    /// no namespace is suspect. For a handler that was replaced, and for an operator. Returns whether any were slowed
    /// down.
    pub fn end_slow_downs(&self, now: Moment) -> bool {
        self.0.change(|listener| {
            let were_suspect = listener.queue.slots.counts().suspect > 0;
            listener.queue.suspects.clear();
            listener.requeues.end_slow_downs(now) || were_suspect
        })
    }

    /// A namespace is [suspect](ListenerOptions::limits_suspects) only in the cluster of its sources, which `catalog`
    /// knows. Without this, all sources are in one cluster.
    pub fn set_catalog(&self, catalog: Catalog) {
        self.0.change(|listener| listener.queue.suspects.set_catalog(catalog));
    }

    /// From now on only objects of `held` shards are delivered, of sources that are divided into shards: other
    /// processes handle the others. None: all. Before sources are attached, or while no shard is held.
    pub fn set_shards(&self, held: Option<HeldShards>) {
        self.0.change(|listener| listener.set_shards(held));
    }

    /// How the handler continues with each of the shards that were [set](Self::set_shards). Sources that are attached
    /// begin with the lowest of their watermarks, and leave out what the one of the object's shard covers.
    pub fn begin_shards(&self, begun: Vec<GainedShard>) {
        self.0.change(|listener| listener.begin_shards(begun));
    }

    /// Other processes handle these shards from now on: what is pending of them, under retry, asked for or a dead
    /// letter is dropped and counts as handed over; what is in flight ends, see
    /// [`Ledger::in_flight_elsewhere`](super::Ledger::in_flight_elsewhere).
    pub fn lose_shards(&self, lost: ShardSet) {
        self.0.change(|listener| listener.lose_shards(lost));
    }

    /// This process handles the shard from now on. Each of its objects that the handler has not accepted elsewhere is
    /// delivered with reason `Takeover`, once its source has it, after the deletes that were `kept` of it; then
    /// [`Notification::Synced`](crate::listener::Notification::Synced).
    pub fn gain_shard(&self, gained: &GainedShard, kept: &KeptDeletes, now: Moment) {
        self.0.change(|listener| listener.gain_shard(gained, kept, now));
    }

    /// No longer accepts changes. Accepted events, initial lists and replays are still delivered; then the consumer
    /// gets `Closed`.
    pub fn close(&self) {
        self.0.change(Listener::close);
    }

    /// From now on, keys in back-off do not keep a closed listener open: for an orderly stop, which they could only
    /// delay.
    pub fn end_retries(&self) {
        self.0.change(|listener| listener.retries_ended = true);
    }

    /// From now on no key waits for its [`min_interval`](ListenerOptions::min_interval): the last states are delivered
    /// at once. For an orderly stop, whose deadline may be shorter than the interval. [`close`](Self::close) does the
    /// same.
    pub fn end_intervals(&self) {
        self.0.change(Listener::end_intervals);
    }

    /// Closes and drops all remaining events, in flight or not. Returns how many, and counts them as discarded.
    pub fn abandon(&self) -> u64 {
        self.0.change(Listener::abandon)
    }

    /// Drops the runs of timers, pending or in flight, for a handler that another process calls from now on: it makes
    /// them. Counts them as handed over. See [`Feed::hand_over`](super::Feed::hand_over) for the sources.
    pub fn hand_over_timers(&self) {
        self.0.change(|listener| listener.hand_over(TIMER_SOURCE));
    }

    /// Statistics of the listener now. Visits every pending key: for status and metrics, not for each event.
    #[must_use]
    pub fn stats(&self) -> ListenerStats {
        self.0.lock().stats()
    }
}
