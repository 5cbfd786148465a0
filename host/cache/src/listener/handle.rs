//! A listener shared between the informer loop and its consumer.

use std::fmt;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use informant_object::{Key, KeyRef, SourceId};

use crate::listener::cursor::CursorKind;
use crate::listener::{
    Change, DeadLetter, Delivery, Listener, ListenerOptions, ListenerStats, Next, OpenKeys, Outcome, Pause, Pull,
    Requeue, Resume, Token,
};
use crate::{Moment, Snapshot};

/// One handler's listener; clones are the same listener. See [the module](super) for what it promises.
///
/// Three parties share it: informer loops attach, push and detach; one consumer pulls and answers; whoever stops, swaps
/// or inspects the handler does the rest. Every call takes one lock for a short while (a batch of events costs well
/// below a microsecond each), and callbacks are called after it is released.
#[derive(Clone)]
pub struct ListenerHandle(Arc<Shared>);

type Waker = Arc<dyn Fn() + Send + Sync>;
type SyncedCallback = Arc<dyn Fn(SourceId) + Send + Sync>;

struct Shared {
    listener: Mutex<Listener>,
    waker: Mutex<Option<Waker>>,
    synced: Mutex<Option<SyncedCallback>>,
}

impl ListenerHandle {
    /// A listener that is attached to nothing.
    #[must_use]
    pub fn new(options: ListenerOptions) -> ListenerHandle {
        let listener = Mutex::new(Listener::new(options));
        ListenerHandle(Arc::new(Shared {
            listener,
            waker: Mutex::default(),
            synced: Mutex::default(),
        }))
    }

    /// A listener that neither folds nor cuts at its limits: whoever pushes asks [`has_room`](Self::has_room) before
    /// each batch, and waits while there is none. What fails still folds, in its one slot.
    ///
    /// For a handler that has its informer to itself; beside others it would hold them all up.
    #[must_use]
    pub fn new_blocking(options: ListenerOptions) -> ListenerHandle {
        let handle = ListenerHandle::new(options);
        lock(&handle.0.listener).queue.block();
        handle
    }

    /// Whether no limit on what waits is reached, or nothing is taken any more in any case.
    #[must_use]
    pub fn has_room(&self) -> bool {
        let listener = lock(&self.0.listener);
        listener.closed || listener.queue.has_room()
    }

    /// Has the listener behave by other options from now on: limits, resync, retries, what a failure leads to. What
    /// waits stays as it is, and so do `seed` and `dead_letters_max`. A changed resync period begins at `now`.
    pub fn set_options(&self, options: ListenerOptions, now: Moment) {
        self.change(|listener| listener.set_options(options, now));
    }

    /// Sets what is called when the consumer, having been told to wait, has to ask again. Replaces an earlier one.
    ///
    /// Called without any lock, from whatever thread changed something; at most once until the consumer is told to wait
    /// again.
    pub fn set_waker(&self, waker: Waker) {
        *lock(&self.0.waker) = Some(waker);
    }

    /// Sets what is called, without any lock, when every key of a source's initial list was attempted. Replaces an
    /// earlier one.
    pub fn set_synced_callback(&self, callback: SyncedCallback) {
        *lock(&self.0.synced) = Some(callback);
    }

    /// Begins to show a source whose first list is complete and published as `snapshot`. Informer side.
    ///
    /// A late handler is attached in the same way. Does nothing for a source that is attached already, or once closed.
    pub fn attach(&self, source: SourceId, snapshot: &Snapshot, now: Moment) {
        self.change(|listener| listener.attach(source, snapshot, now));
    }

    /// As [`attach`](Self::attach), for a handler that was told of the source by an earlier process: what vanished
    /// since is told first, as deletes with reason `Relist`; then every object is shown as an add with reason
    /// `Initial`, but for those that it accepted already. Informer side.
    pub fn attach_resumed(&self, source: SourceId, snapshot: &Snapshot, resume: Resume, now: Moment) {
        self.change(|listener| listener.attach_resumed(source, snapshot, resume, now));
    }

    /// Which of `keys` the handler has not done with: they wait, are in flight, have yet to be shown by a cursor, or
    /// are dead letters. None for a source that is not attached, and once a closed listener has refused changes.
    #[must_use]
    pub fn are_open(&self, source: SourceId, keys: &[Key]) -> Option<Vec<bool>> {
        lock(&self.0.listener).are_open(source, keys)
    }

    /// All keys that the handler has not done with, if they are no more than `max`. Looks at every key that waits.
    #[must_use]
    pub fn open_keys(&self, source: SourceId, max: usize) -> OpenKeys {
        lock(&self.0.listener).open_keys(source, max)
    }

    /// Takes `changes`, exactly those between the snapshot pushed before and this one. Informer side.
    ///
    /// To be called after each publish and before the next one: what a cursor shows and what is pushed would otherwise
    /// overlap. The snapshot pushed before is released here, so let what it alone kept alive
    /// ([`StoreWriter::take_garbage`](crate::StoreWriter)) be freed after this call, elsewhere.
    ///
    /// Changes are counted and ignored for a source that is not attached (its initial list will show them), and once
    /// closed.
    pub fn push(&self, source: SourceId, snapshot: &Snapshot, changes: &[Change], _now: Moment) {
        self.change(|listener| listener.push(source, snapshot, changes));
    }

    /// Drops a source with all that waits for it; no deletes are told. Informer side.
    ///
    /// Answers to deliveries that are in flight are counted and ignored from then on.
    pub fn detach(&self, source: SourceId) {
        self.change(|listener| listener.detach(source));
    }

    /// Attaches `new` in place of `olds` for the keys in its `scope`, whose objects the handler knows from them: it
    /// hears of `changes` alone, the difference between what `olds` showed and `snapshot`; what waits, fails or is in
    /// flight goes on under the new number. Informer side.
    ///
    /// Where `olds` have not been shown whole yet, `new` is shown as by a [`replay`](Self::replay); where they were not
    /// attached, as any source is ([`attach`](Self::attach)). `olds` stay attached, for the deletes of what they alone
    /// held.
    pub fn inherit(
        &self,
        olds: &[SourceId],
        new: SourceId,
        scope: &dyn Fn(KeyRef<'_>) -> bool,
        snapshot: &Snapshot,
        changes: &[Change],
        now: Moment,
    ) {
        self.change(|listener| listener.inherit(olds, new, scope, (snapshot, changes), now));
    }

    /// Has what waits, fails or is in flight for the keys in `scope` of `olds`, which left and have told all their
    /// deletes, go on under the number of `new`, which is to be attached next: what it shows of a key comes after the
    /// delete by which the key left. Informer side.
    pub fn follow(&self, olds: &[SourceId], new: SourceId, scope: &dyn Fn(KeyRef<'_>) -> bool) {
        self.change(|listener| listener.follow(olds, new, scope));
    }

    /// How many keys of a source have something waiting or in flight. Looks at every key that waits.
    #[must_use]
    pub fn busy_keys(&self, source: SourceId) -> usize {
        lock(&self.0.listener).busy_keys(source)
    }

    /// The next call to make. Consumer side.
    #[must_use]
    pub fn next(&self, now: Moment) -> Next {
        lock(&self.0.listener).next(now)
    }

    /// Appends up to `max` calls to make, each of another key. Consumer side.
    ///
    /// The consumer makes them in any order, at once or one by one, answers each, and asks again without waiting for
    /// the rest.
    pub fn next_batch(&self, now: Moment, max: usize, out: &mut Vec<Delivery>) -> Pull {
        lock(&self.0.listener).next_batch(now, max, out)
    }

    /// Answers one delivery. Consumer side.
    pub fn done(&self, token: Token, outcome: Outcome, now: Moment) {
        self.change(|listener| listener.done(token, outcome, now));
    }

    /// Answers several deliveries. Consumer side. Returns how many of them became dead letters.
    pub fn done_batch(&self, outcomes: impl IntoIterator<Item = (Token, Outcome)>, now: Moment) -> u64 {
        self.change(|listener| {
            let before = listener.queue.counters.dead_lettered;
            outcomes
                .into_iter()
                .for_each(|(token, outcome)| listener.done(token, outcome, now));
            listener.queue.counters.dead_lettered - before
        })
    }

    /// Takes back deliveries that were handed out but never made: they go out first, as if they had not been. Consumer
    /// side.
    ///
    /// For an instance that stops or traps with calls of a batch still to make. In the order in which they came.
    pub fn give_back(&self, tokens: impl IntoIterator<Item = Token, IntoIter: DoubleEndedIterator>) {
        self.change(|listener| tokens.into_iter().rev().for_each(|token| listener.give_back(token)));
    }

    /// Hands out nothing until [`resume`](Self::resume). What is in flight can be answered.
    pub fn pause(&self, pause: Pause) {
        self.change(|listener| listener.pause(pause));
    }

    /// Ends a [`pause`](Self::pause) of that kind.
    pub fn resume(&self, pause: Pause) {
        self.change(|listener| listener.resume(pause));
    }

    /// Tries everything that waits for another attempt at once. For a handler that was mended: it need not wait out
    /// what another one got wrong.
    pub fn retry_now(&self) {
        self.change(Listener::retry_now);
    }

    /// Shows every source again, reason `Replay`: deletes that wait first, then every object as an add, merged with
    /// what waits for it; [`What::Synced`](super::What::Synced) at the end. Keys in back-off stay there. A source that
    /// is [kept](Self::keep_replays) is shown once that is noted.
    ///
    /// A delete is told from now on even of an object the cursor has not reached, since the handler may know it from
    /// before.
    pub fn replay(&self, now: Moment) {
        self.show_again(now, CursorKind::Replay);
    }

    /// As [`replay`](Self::replay), for a handler that lost its memory over one of its events: states that are dead
    /// letters are left out, because it would lose it again. The letter is what says so; a newer state of the key is
    /// told as usual.
    pub fn recover(&self, now: Moment) {
        self.show_again(now, CursorKind::Recovery);
    }

    fn show_again(&self, now: Moment, kind: CursorKind) {
        let keepers = self.change(|listener| listener.replay(now, kind));
        keepers.iter().for_each(|wanted| wanted());
    }

    /// Has replays of `source` wait for [`begin_replay`](Self::begin_replay): what the handler has acknowledged of it
    /// is kept, and that it is shown everything again has to be kept before it is shown anything. `wanted` is called
    /// for each, under no lock. Until the source is detached, or the listener closed. Journal side.
    pub fn keep_replays(&self, source: SourceId, wanted: impl Fn() + Send + Sync + 'static) {
        self.change(|listener| listener.keep(source, Arc::new(wanted)));
    }

    /// Lets a replay of `source` begin that waits, if one does. Journal side.
    pub fn begin_replay(&self, source: SourceId) {
        self.change(|listener| listener.begin_replay(source));
    }

    /// Keeps replays of `source` waiting no more. Journal side.
    pub fn keep_replays_no_more(&self, source: SourceId) {
        self.change(|listener| listener.keep_no_more(source));
    }

    /// Tells one key again, reason `Requeue`: its current state, or its last known delete while it is absent.
    pub fn requeue(&self, source: SourceId, key: KeyRef<'_>, now: Moment) -> Requeue {
        self.change(|listener| listener.requeue(source, key, now))
    }

    /// Takes no more changes. What was accepted, initial lists and replays included, is still handed out; after it the
    /// consumer is told `Closed`.
    pub fn close(&self) {
        self.change(Listener::close);
    }

    /// Closes and drops all that is left, in flight or not. Returns how much that was, and counts it as discarded.
    pub fn abandon(&self) -> u64 {
        self.change(Listener::abandon)
    }

    /// Whether every key of the source's initial list was attempted; `false` for a source that is not attached.
    ///
    /// Source: client-go `ResourceEventHandlerRegistration.HasSynced`. A failing or trapping handler does not keep it
    /// `false`.
    #[must_use]
    pub fn has_synced(&self, source: SourceId) -> bool {
        lock(&self.0.listener)
            .sources
            .get(source)
            .is_some_and(|state| state.synced)
    }

    /// Whether the source is attached.
    #[must_use]
    pub fn is_attached(&self, source: SourceId) -> bool {
        lock(&self.0.listener).sources.get(source).is_some()
    }

    /// Whether it is [paused](Self::pause) by a quarantine: nothing goes out until somebody resumes it.
    #[must_use]
    pub fn is_quarantined(&self) -> bool {
        lock(&self.0.listener).quarantined
    }

    /// How many deliveries are handed out and not answered.
    #[must_use]
    pub fn in_flight(&self) -> usize {
        lock(&self.0.listener).queue.in_flight
    }

    /// How many events wait, those in back-off included.
    #[must_use]
    pub fn pending(&self) -> usize {
        lock(&self.0.listener).queue.pending
    }

    /// Events that failed for good, oldest first.
    #[must_use]
    pub fn dead_letters(&self) -> Vec<DeadLetter> {
        lock(&self.0.listener).letters.list()
    }

    /// The event that failed for good last, of those that are listed.
    #[must_use]
    pub fn last_dead_letter(&self) -> Option<DeadLetter> {
        lock(&self.0.listener).letters.newest_first().next().cloned()
    }

    /// The events that failed for good last, of those that are listed, oldest first; at most `max`.
    #[must_use]
    pub fn last_dead_letters(&self, max: usize) -> Vec<DeadLetter> {
        let mut letters: Vec<_> = {
            let listener = lock(&self.0.listener);
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

    /// The listener at this moment. Looks at every key that waits: for people and metrics, not for each event.
    #[must_use]
    pub fn stats(&self) -> ListenerStats {
        lock(&self.0.listener).stats()
    }

    /// Changes the listener under the lock, then calls back what has to be called.
    fn change<T>(&self, change: impl FnOnce(&mut Listener) -> T) -> T {
        let (result, wake, synced) = {
            let mut listener = lock(&self.0.listener);
            let result = change(&mut listener);
            (result, listener.take_wake(), std::mem::take(&mut listener.newly_synced))
        };
        if wake && let Some(waker) = lock(&self.0.waker).clone() {
            waker();
        }
        if !synced.is_empty()
            && let Some(callback) = lock(&self.0.synced).clone()
        {
            synced.into_iter().for_each(|source| callback(source));
        }
        result
    }
}

#[cfg(test)]
impl ListenerHandle {
    /// Counts everything again.
    pub(super) fn check(&self) {
        lock(&self.0.listener).queue.check();
    }
}

impl fmt::Debug for ListenerHandle {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("ListenerHandle")
            .field("stats", &self.stats())
            .finish_non_exhaustive()
    }
}

/// A listener is whole between two calls; a panic of a callback happens outside the lock.
fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}
