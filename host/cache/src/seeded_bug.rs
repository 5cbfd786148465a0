//! Bugs that are in the code on purpose, so that the simulation can show that it would notice them.
//!
//! Each is one call where the mistake would be made, `if seeded_bug(SeededBug::…)`. It answers no unless a test seeds
//! that bug for its own thread, and without debug assertions it is a constant `false`: a release build holds nothing of
//! it. What each breaks, and how many seeds it takes to be caught, is tested by `tests/tests/seeded_bugs.rs`.

use std::cell::Cell;

thread_local! {
    static SEEDED: Cell<Option<SeededBug>> = const { Cell::new(None) };
}

/// A mistake that somebody could make.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum SeededBug {
    /// A relist does not report what vanished.
    RelistMissesDeletes,
    /// A delete whose final state was not seen does not say so.
    TombstoneUnmarked,
    /// A delete and a create of one name become an update.
    UpdateAcrossUids,
    /// Lists and events that are older than what is known are taken.
    VersionGuardOff,
    /// A watch is opened one version too late.
    WatchSkipsVersion,
    /// The first page of a list is taken for all of it.
    FirstPageTakenForList,
    /// A relist takes an object for unchanged by its uid alone.
    RelistComparesUidOnly,
    /// Handlers are told before readers can see it.
    NotifiedBeforePublish,
    /// Of two waiting events of a key the older state is kept.
    FoldLosesLastState,
    /// Of two waiting updates of a key the newer old state is kept.
    FoldTakesNewerOld,
    /// A key whose event failed for good is never told of again.
    DeadLetterBlocksKey,
    /// What failed is not tried again.
    FailureNotRetried,
    /// A cursor shows what it fetched before the objects changed.
    CursorShowsStaleObjects,
    /// A cursor leaves out the first object of each stretch.
    CursorSkipsObject,
    /// An index keeps an object that is gone.
    IndexKeepsDeleted,
    /// An index keeps the values of the state before.
    IndexKeepsStaleValues,
    /// An event goes out while another one of its key is being handled.
    ConcurrentCallsOfKey,
    /// Synced is told before anything else.
    SyncedDeliveredFirst,
    /// A delete is told twice.
    DeleteDeliveredTwice,
    /// What comes while a handler is being swapped is dropped.
    SwapDropsEvents,
    /// A source that has an heir goes on showing what it held.
    RetiredSourceStillShown,
    /// A bookmark counts as if everything up to its version had been shown.
    BookmarkHidesEvents,
    /// A watch that shows nothing is believed forever.
    SilentWatchStaysLive,
    /// What comes back does not wait for the deletes by which it left.
    ReattachOvertakesDeletes,
}

impl SeededBug {
    /// All of them.
    pub const ALL: [Self; 24] = [
        Self::RelistMissesDeletes,
        Self::TombstoneUnmarked,
        Self::UpdateAcrossUids,
        Self::VersionGuardOff,
        Self::WatchSkipsVersion,
        Self::FirstPageTakenForList,
        Self::RelistComparesUidOnly,
        Self::NotifiedBeforePublish,
        Self::FoldLosesLastState,
        Self::FoldTakesNewerOld,
        Self::DeadLetterBlocksKey,
        Self::FailureNotRetried,
        Self::CursorShowsStaleObjects,
        Self::CursorSkipsObject,
        Self::IndexKeepsDeleted,
        Self::IndexKeepsStaleValues,
        Self::ConcurrentCallsOfKey,
        Self::SyncedDeliveredFirst,
        Self::DeleteDeliveredTwice,
        Self::SwapDropsEvents,
        Self::RetiredSourceStillShown,
        Self::BookmarkHidesEvents,
        Self::SilentWatchStaysLive,
        Self::ReattachOvertakesDeletes,
    ];

    /// Runs `what` with this bug in all code that this thread runs.
    pub fn run_with<T>(self, what: impl FnOnce() -> T) -> T {
        /// Takes it back, also if `what` panics.
        struct Restore(Option<SeededBug>);
        impl Drop for Restore {
            fn drop(&mut self) {
                SEEDED.set(self.0);
            }
        }
        let _restore = Restore(SEEDED.replace(Some(self)));
        what()
    }
}

/// Whether `bug` is seeded here. Never in a release build.
#[inline(always)]
#[must_use]
pub fn seeded_bug(bug: SeededBug) -> bool {
    cfg!(debug_assertions) && SEEDED.get() == Some(bug)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_bug_is_seeded_for_one_thread_and_as_long_as_it_is_said_to_be() {
        let bug = SeededBug::ALL[0];
        bug.run_with(|| {
            assert!(seeded_bug(bug) && !seeded_bug(SeededBug::ALL[1]));
            let elsewhere = std::thread::spawn(move || seeded_bug(bug));
            assert!(!elsewhere.join().expect("it does not panic"));
        });
        assert!(!seeded_bug(bug));
    }
}
