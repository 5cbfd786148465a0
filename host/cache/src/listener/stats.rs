//! What can be counted about a listener.

use informant_object::{Key, SourceId};

use crate::Moment;

/// What a listener has counted since it was made. Nothing is dropped without one of these.
///
/// While no source is detached: `accepted + shown` equals what was told to its end (`ok + filtered + skipped +
/// dead_lettered`) plus what was left out (`coalesced + left_to_cursor + 2 × vanished + discarded`) plus what waits or
/// is in flight.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct ListenerCounters {
    /// Changes that were pushed and taken, and keys requeued. One that is told as two (see
    /// [`ChangeKind::Update`](super::ChangeKind::Update)) counts twice.
    pub accepted: u64,
    /// Events made by cursors: initial adds, replays, resyncs; and `Synced`.
    pub shown: u64,
    /// Deliveries handed out, retries included, those given back not.
    pub delivered: u64,
    /// Deliveries the handler accepted.
    pub ok: u64,
    /// Deliveries it did not have to be called for.
    pub filtered: u64,
    /// Deliveries that failed and will be tried again.
    pub retried: u64,
    /// Failures dropped because of [`OnFailure::Skip`](super::OnFailure::Skip), and `Synced` given up.
    pub skipped: u64,
    /// Events that became dead letters.
    pub dead_lettered: u64,
    /// Dead letters that had to go because there were too many.
    pub dead_letters_evicted: u64,
    /// Events folded into an older one of their key, or into what a cursor will show.
    pub coalesced: u64,
    /// Adds left to the cursor, which will show the object.
    pub left_to_cursor: u64,
    /// Objects whose add was never handed out before they were deleted: neither was told.
    pub vanished: u64,
    /// Resync rounds begun.
    pub resyncs: u64,
    /// Resync rounds left out because the last round, an initial list or a replay still ran for every source.
    pub resync_ticks_skipped: u64,
    /// Keys left out of a resync round because something of theirs was waiting.
    pub resync_keys_skipped: u64,
    /// `old` states dropped because of [`pending_bytes_max`](super::ListenerOptions::pending_bytes_max).
    pub olds_dropped: u64,
    /// Deletes cut to their metadata because of [`pending_bytes_max`](super::ListenerOptions::pending_bytes_max).
    pub deletes_cut: u64,
    /// Changes refused because the listener was closed.
    pub refused: u64,
    /// Changes of a source that is not attached: its initial list will show them, or it is gone.
    pub unattached: u64,
    /// Events dropped when their source was detached or the listener abandoned, with what was in flight and what a
    /// cursor had not shown.
    pub discarded: u64,
    /// Answers to deliveries that no longer exist: their source was detached, or they were answered already.
    pub late: u64,
}

/// A listener at one moment.
#[derive(Clone, Debug, Default)]
pub struct ListenerStats {
    /// Counted since it was made.
    pub counters: ListenerCounters,
    /// Events that wait, those in back-off included.
    pub pending: usize,
    /// Deliveries handed out and not answered.
    pub in_flight: usize,
    /// Keys in back-off.
    pub failing: usize,
    /// New events fold into waiting ones of their key.
    pub keyed: bool,
    /// Bytes of states that are kept alive by this listener alone.
    pub bytes: usize,
    /// Dead letters listed now.
    pub dead_letters: usize,
    /// Sources attached.
    pub sources: usize,
    /// Sources whose initial list or replay is being shown.
    pub syncing: usize,
    /// Nothing is handed out for now.
    pub paused: bool,
    /// No more changes are taken.
    pub closed: bool,
    /// When the frame of the oldest waiting event was read.
    pub oldest_pending: Option<Moment>,
    /// The delivery that has been in flight for longest: what a stuck handler is stuck on.
    pub oldest_in_flight: Option<InFlight>,
}

/// A delivery that was handed out and not answered.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct InFlight {
    /// The source of the object.
    pub source: SourceId,
    /// Which object; none for `Synced`.
    pub key: Option<Key>,
    /// `add`, `update`, `delete` or `sync`.
    pub event: &'static str,
    /// When it was handed out.
    pub since: Moment,
    /// 0 at the first try.
    pub attempt: u32,
}
