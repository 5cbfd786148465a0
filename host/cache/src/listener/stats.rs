//! Counters and statistics of a listener.

use informant_object::{Key, SourceId};

use crate::Moment;

/// Counters since the listener was created. Nothing is dropped without being counted here.
///
/// While no source is detached, `accepted + shown` equals the completed events (`ok + filtered + skipped +
/// dead_lettered`) plus those left out (`coalesced + left_to_cursor + 2 × vanished + discarded`) plus those pending or
/// in flight.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct ListenerCounters {
    /// Changes that were pushed and accepted, and keys requeued on request. A change that is delivered as two (see
    /// [`ChangeKind::Update`](super::ChangeKind::Update)) counts twice.
    pub accepted: u64,
    /// Events produced by cursors: initial adds, replays, resyncs; `Synced`; and calls that the handler asked for.
    pub shown: u64,
    /// Deliveries, including retries, excluding those given back.
    pub delivered: u64,
    /// Deliveries that the handler accepted.
    pub ok: u64,
    /// Those among them for which the handler asked for another call.
    pub requeued: u64,
    /// Calls that the handler asked for and that will not be made: their object was gone, the event was filtered, too
    /// many deletes waited ([`requeued_deletes_max`](super::ListenerOptions::requeued_deletes_max)), or the source was
    /// detached. Without those that were canceled by another call of the key or by a replay.
    pub requeues_dropped: u64,
    /// Deliveries for which the handler was not called, because no field it subscribes to changed.
    pub filtered: u64,
    /// Deliveries that failed and will be retried.
    pub retried: u64,
    /// Retries that started later than their back-off ended, because of
    /// [`retries_per_second_max`](super::ListenerOptions::retries_per_second_max).
    pub retries_limited: u64,
    /// Events that waited for the end of their key's interval
    /// ([`min_interval`](super::ListenerOptions::min_interval)), without those that folded into a waiting one.
    pub spaced: u64,
    /// Calls after which the next call of the key was not delayed, because more than
    /// [`SPACED_KEYS_MAX`](super::SPACED_KEYS_MAX) keys were called within the interval.
    pub intervals_cut: u64,
    /// How often deliveries had to stop because of
    /// [`calls_per_second_max`](super::ListenerOptions::calls_per_second_max).
    pub rate_holds: u64,
    /// Events that waited because the share of time of suspect namespaces was used up
    /// ([`limits_suspects`](super::ListenerOptions::limits_suspects)), without those that folded into a waiting one.
    pub suspects_held: u64,
    /// Namespaces that are suspect no longer, because there were more than [`SUSPECTS_MAX`](super::SUSPECTS_MAX).
    pub suspects_forgotten: u64,
    /// Failures dropped because of [`FailurePolicy::Skip`](super::FailurePolicy::Skip), and `Synced` that ran out of
    /// attempts.
    pub skipped: u64,
    /// Events that became dead letters.
    pub dead_lettered: u64,
    /// Dead letters evicted because there were too many.
    pub dead_letters_evicted: u64,
    /// Events folded into an older one of their key, or left to a cursor as its state.
    pub coalesced: u64,
    /// Adds left to the cursor, which will deliver the object.
    pub left_to_cursor: u64,
    /// Objects deleted before their add was delivered: neither event was delivered.
    pub vanished: u64,
    /// Resync rounds started.
    pub resyncs: u64,
    /// Resync rounds skipped because the last round, an initial list or a replay was still running for every source.
    pub resync_ticks_skipped: u64,
    /// Keys skipped in a resync round because events of theirs were pending.
    pub resync_keys_skipped: u64,
    /// `old` states dropped because of [`pending_bytes_max`](super::ListenerOptions::pending_bytes_max).
    pub olds_dropped: u64,
    /// Objects of which the store keeps only the head, and of which the queue no longer keeps more either, because of
    /// [`pending_bytes_max`](super::ListenerOptions::pending_bytes_max).
    pub bodies_dropped: u64,
    /// Deletes, pending or requeued, cut to their metadata because of
    /// [`pending_bytes_max`](super::ListenerOptions::pending_bytes_max).
    pub deletes_cut: u64,
    /// Calls that changes of related objects led to; each is among `accepted`.
    pub related: u64,
    /// Changes of related objects that led to no call.
    pub unrelated: u64,
    /// How often everything was called again that a change might lead to, because what it led to was unknown.
    pub related_to_all: u64,
    /// Changes refused because the listener was closed.
    pub refused: u64,
    /// Changes of a source that is not attached: its initial list will deliver them, or it was detached.
    pub unattached: u64,
    /// Events dropped when their source was detached or the listener was abandoned, including those in flight and
    /// objects that a cursor had not delivered.
    pub discarded: u64,
    /// The deletes among them.
    pub deletes_discarded: u64,
    /// Events dropped because another process calls the handler from now on and delivers them, including those in
    /// flight and objects that a cursor had not delivered.
    pub handed_over: u64,
    /// Outcomes of deliveries that no longer exist: their source was detached, or an outcome was already reported.
    pub late: u64,
}

/// Statistics of a listener at one time.
#[derive(Clone, Debug, Default)]
pub struct ListenerStats {
    /// Counters since it was created.
    pub counters: ListenerCounters,
    /// Pending events, including those in back-off.
    pub pending: usize,
    /// Deliveries in flight.
    pub in_flight: usize,
    /// Keys under retry: their last delivery failed, and they are in back-off, ready again, or in flight again.
    pub failing: usize,
    /// Keys with pending events that wait for the end of their interval
    /// ([`min_interval`](super::ListenerOptions::min_interval)). Without keys in back-off and requeues, which may wait
    /// for it, too.
    pub spaced: usize,
    /// Keys whose last call found a source or an index not ready. They are called again when it is, and are pending.
    pub waiting: usize,
    /// Keys that wait because the share of time of suspect namespaces is used up
    /// ([`limits_suspects`](super::ListenerOptions::limits_suspects)).
    pub suspect: usize,
    /// Something waits because of [`calls_per_second_max`](super::ListenerOptions::calls_per_second_max).
    pub held_by_rate: bool,
    /// Calls that the handler asked for and that have not ended. Not pending, even if they are due.
    pub requeues: usize,
    /// Those among them that are slowed down ([`Ledger::slowed_keys`](super::Ledger::slowed_keys)).
    pub slowed: usize,
    /// New events fold into the pending ones of their key.
    pub keyed: bool,
    /// Bytes of states that only this listener keeps in memory.
    pub bytes: usize,
    /// Dead letters kept now.
    pub dead_letters: usize,
    /// Bytes of the last states of deletes among them.
    pub dead_letters_bytes: usize,
    /// Sources attached.
    pub sources: usize,
    /// Sources whose initial list or replay is running.
    pub syncing: usize,
    /// Delivery is paused, for whatever reason.
    pub paused: bool,
    /// Changes are no longer accepted.
    pub closed: bool,
    /// When the frame of the oldest pending event was read.
    pub oldest_pending: Option<Moment>,
    /// The same over pending events and those in flight.
    pub oldest_event: Option<Moment>,
    /// The delivery that has been in flight for longest: the one a stuck handler hangs on.
    pub oldest_in_flight: Option<InFlight>,
}

/// A delivery in flight: the consumer has not reported its outcome.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct InFlight {
    /// The source of the object.
    pub source: SourceId,
    /// The key of the object; none for `Synced`.
    pub key: Option<Key>,
    /// `add`, `update`, `delete` or `sync`.
    pub event: &'static str,
    /// When it was delivered.
    pub since: Moment,
    /// 0 at the first attempt.
    pub attempt: u32,
}
