//! A source that takes over from others: the same objects, watched in another way, under a new number.

use informant_object::{KeyRef, SourceId};

use crate::listener::cursor::CursorKind;
use crate::listener::{Change, Listener};
use crate::seeded_bug::{SeededBug, seeded_bug};
use crate::{Moment, Snapshot};

impl Listener {
    /// Attaches `new` in place of `olds` for the keys in its `scope`: what waits, fails or is in flight for them goes
    /// on under the new number, and `changes` are the difference between what `olds` showed and `snapshot`. Where
    /// `olds` have not been shown whole yet, `snapshot` is shown as to a handler that may know anything of it.
    ///
    /// `olds` show nothing of their own accord any more, be it a resync, a replay or the rest of an initial list: what
    /// they held would be told after what `new` holds.
    pub(super) fn inherit(
        &mut self,
        olds: &[SourceId],
        new: SourceId,
        scope: &dyn Fn(KeyRef<'_>) -> bool,
        (snapshot, changes): (&Snapshot, &[Change]),
        now: Moment,
    ) {
        if self.closed || self.sources.get(new).is_some() {
            return;
        }
        let is_attached = |old: &SourceId| self.sources.get(*old).is_some();
        if !olds.is_empty() && !olds.iter().any(is_attached) {
            return self.attach(new, snapshot, now);
        }
        let was_shown = |old: &SourceId| {
            let state = self.sources.get(*old);
            state.is_some_and(|state| state.synced && state.syncing.is_none())
        };
        let were_shown = olds.iter().all(was_shown);
        for old in olds {
            self.hand_on(*old, new, scope, were_shown);
        }
        self.sources.take_over(new, snapshot.clone());
        if !were_shown {
            self.sources.show_again(new, CursorKind::Replay, now);
        }
        self.push(new, snapshot, changes);
    }

    /// Has what waits, fails or is in flight for the keys in `scope` of `olds` go on under the number of `new`, which
    /// is yet to be attached. `olds` are on their way out and have told all their deletes: whatever `new` shows of a
    /// key comes after the delete by which the key left.
    pub(super) fn follow(&mut self, olds: &[SourceId], new: SourceId, scope: &dyn Fn(KeyRef<'_>) -> bool) {
        if seeded_bug(SeededBug::ReturnOvertakesLeaving) {
            return;
        }
        for old in olds {
            self.hand_on(*old, new, scope, true);
        }
    }

    fn hand_on(&mut self, old: SourceId, new: SourceId, scope: &dyn Fn(KeyRef<'_>) -> bool, was_shown: bool) {
        self.sources.retire(old, was_shown);
        self.queue.forget_owed(old);
        self.queue.move_keys(old, new, scope);
        self.letters.move_keys(old, new, scope);
    }

    /// How many keys of a source have something waiting or in flight.
    pub(super) fn busy_keys(&self, source: SourceId) -> usize {
        self.queue.slots.iter().filter(|slot| slot.source == source).count()
    }
}
