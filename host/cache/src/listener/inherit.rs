//! A source that takes over from others: the same objects, watched in another way, under a new number.

use informant_object::{KeyRef, SourceId};

use crate::Snapshot;
use crate::listener::{Change, Listener};

impl Listener {
    /// Attaches `new` in place of `olds` for the keys in its `scope`: what waits, fails or is in flight for them goes on under the new number, and
    /// `changes` are the difference between what `olds` showed and `snapshot`. Returns false, and does nothing, if `olds` have not been shown whole
    /// yet: then `new` is to be attached as any source is.
    pub(super) fn inherit(
        &mut self,
        olds: &[SourceId],
        new: SourceId,
        scope: &dyn Fn(KeyRef<'_>) -> bool,
        snapshot: &Snapshot,
        changes: &[Change],
    ) -> bool {
        if self.closed || self.sources.get(new).is_some() {
            return true;
        }
        let was_shown = |old: &SourceId| {
            let state = self.sources.get(*old);
            state.is_some_and(|state| state.synced && state.syncing.is_none())
        };
        if !olds.iter().all(was_shown) {
            return false;
        }
        self.sources.take_over(new, snapshot.clone());
        for old in olds {
            self.queue.move_keys(*old, new, scope);
            self.letters.move_keys(*old, new, scope);
        }
        self.push(new, snapshot, changes);
        true
    }

    /// How many keys of a source have something waiting or in flight.
    pub(super) fn busy_keys(&self, source: SourceId) -> usize {
        self.queue.slots.iter().filter(|slot| slot.source == source).count()
    }
}
