//! What a journal records of a listener, and what an operator lists.

use std::sync::Arc;
use std::time::Duration;

use informant_object::{Key, KeyRef, SourceId};

use super::Shared;
use crate::Moment;
use crate::listener::{DeadLetter, DeadLetterChanges, OpenKey, OpenKeys, RequeueChanges, RetriedKey, SlowedKey};

/// Reads what is open, has failed, or was asked for; and holds replays until they are recorded.
#[derive(Clone, Debug)]
pub struct Ledger(pub(super) Arc<Shared>);

impl Ledger {
    /// What is open of each of `keys`: pending, in flight, ahead of a cursor, or dead letters; `None` of a key with
    /// which the handler has finished. `None` for a source that is not attached, and once a closed listener has refused
    /// changes.
    #[must_use]
    pub fn are_open(&self, source: SourceId, keys: &[Key]) -> Option<Vec<Option<OpenKey>>> {
        self.0.lock().are_open(source, keys)
    }

    /// All open keys, if there are at most `max`. Visits every pending key.
    #[must_use]
    pub fn open_keys(&self, source: SourceId, max: usize) -> OpenKeys {
        self.0.lock().open_keys(source, max)
    }

    /// Holds replays of `source` until [`begin_replay`](Self::begin_replay): its acknowledgements are persisted, and a
    /// replay has to be persisted before it delivers anything. `requested` is called for each replay, under no lock.
    /// Applies until the source is detached or the listener is closed.
    pub fn gate_replays(&self, source: SourceId, requested: impl Fn() + Send + Sync + 'static) {
        self.0.change(|listener| listener.gate(source, Arc::new(requested)));
    }

    /// Starts a held replay of `source`, if there is one.
    pub fn begin_replay(&self, source: SourceId) {
        self.0.change(|listener| listener.begin_replay(source));
    }

    /// No longer holds replays of `source`.
    pub fn ungate_replays(&self, source: SourceId) {
        self.0.change(|listener| listener.ungate(source));
    }

    /// Remembers from now on which requeues of `source` change, for [`requeue_changes`](Self::requeue_changes), until
    /// the source is detached. Call it again if recorded changes were lost.
    pub fn record_requeues(&self, source: SourceId) {
        self.0.lock().requeues.record(source);
    }

    /// What has changed in the requeues of a [recorded](Self::record_requeues) source since the last call, which is
    /// everything at first. None if nothing has.
    ///
    /// Read acknowledgements ([`are_open`](Self::are_open)) first and record both at once: then no key is recorded as
    /// acknowledged without the requeue that the same call asked for. A requeue is removed only when the call that it
    /// asked for, or another one of the key, has ended.
    #[must_use]
    pub fn requeue_changes(&self, source: SourceId, now: Moment) -> Option<RequeueChanges> {
        self.0.lock().requeue_changes(source, now)
    }

    /// What has changed in the dead letters of a source since the call that returned `seen`, which is `None` at first.
    /// None if nothing has.
    #[must_use]
    pub fn dead_letter_changes(&self, source: SourceId, seen: Option<u64>) -> Option<DeadLetterChanges> {
        let listener = self.0.lock();
        // A source that was detached meanwhile took its letters along; that is no change.
        listener.sources.get(source)?;
        listener.letters.changes(source, seen)
    }

    /// Every version of `source` up to this one was accepted: another process that continues in place of this one need
    /// not deliver objects and deletes up to it. Dead letters count as accepted: they are kept elsewhere.
    ///
    /// None while that is unknown: for a source that is not attached or whose versions are no numbers, during a first
    /// list, a replay or another selection, and once a closed listener has refused changes. Never greater than the
    /// version of what was pushed to this listener. Visits every pending key.
    #[must_use]
    pub fn watermark(&self, source: SourceId) -> Option<u64> {
        self.0.lock().watermark(source)
    }

    /// As [`watermark`](Self::watermark), of the objects of one shard, also of one that was
    /// [lost](super::Control::lose_shards). Dead letters do not count as accepted: no other process has them. None
    /// while the source has not listed the shard.
    #[must_use]
    pub fn shard_watermark(&self, source: SourceId, shard: u8) -> Option<u64> {
        self.0.lock().shard_watermark(source, shard)
    }

    /// How many calls run about objects of shards that other processes handle. Visits every pending key.
    #[must_use]
    pub fn in_flight_elsewhere(&self) -> usize {
        self.0.lock().in_flight_elsewhere()
    }

    /// How long ago the oldest delete was received that is pending or in flight, of any source. None if there is none.
    /// Dead letters count as accepted. Visits every pending key.
    #[must_use]
    pub fn oldest_delete(&self, now: Moment) -> Option<Duration> {
        self.0.lock().oldest_delete(now)
    }

    /// The dead letters, oldest first.
    #[must_use]
    pub fn dead_letters(&self) -> Vec<DeadLetter> {
        self.0.lock().letters.list()
    }

    /// The newest dead letters that are still listed, at most `max`, oldest first.
    #[must_use]
    pub fn last_dead_letters(&self, max: usize) -> Vec<DeadLetter> {
        let mut letters: Vec<_> = {
            let listener = self.0.lock();
            listener.letters.newest_first().take(max).cloned().collect()
        };
        letters.reverse();
        letters
    }

    /// How many keys are under retry, and those of them that failed first, at most `max`, oldest first. Visits every
    /// pending key.
    #[must_use]
    pub fn retried_keys(&self, max: usize) -> (usize, Vec<RetriedKey>) {
        self.retried_keys_of(max, |_, _| true)
    }

    /// As [`retried_keys`](Self::retried_keys), of the sources and keys that `selects` selects; it is called under the
    /// lock. The end of a list has no key.
    #[must_use]
    pub fn retried_keys_of(
        &self,
        max: usize,
        selects: impl Fn(SourceId, Option<KeyRef<'_>>) -> bool,
    ) -> (usize, Vec<RetriedKey>) {
        self.0.lock().retried_keys(max, selects)
    }

    /// How many keys ask for another call again and again without a change, at shorter intervals than they may
    /// ([`REQUEUE_AFTER_MIN_UNCHANGED`](crate::listener::REQUEUE_AFTER_MIN_UNCHANGED)), and the first `max` of them by
    /// source and
    /// key. Visits every requeue if there are such keys.
    #[must_use]
    pub fn slowed_keys(&self, max: usize) -> (usize, Vec<SlowedKey>) {
        self.0.lock().slowed_keys(max)
    }

    /// How many keys are under retry whose last delivery had `result`, and the one of them that failed first.
    #[must_use]
    pub fn retried_after(&self, result: &str) -> (usize, Option<RetriedKey>) {
        self.0.lock().retried_after(result)
    }

    /// How many namespaces, or cluster-scoped objects, are suspect, and the first `max` of them by name.
    #[must_use]
    pub fn suspects(&self, max: usize) -> (usize, Vec<String>) {
        self.0.lock().queue.suspects.list(max)
    }

    /// How many events are pending, including those in back-off.
    #[must_use]
    pub fn pending(&self) -> usize {
        self.0.lock().queue.pending()
    }
}
