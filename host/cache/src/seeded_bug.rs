//! Seeded bugs: deliberate mistakes that prove that the simulation would detect them.
//!
//! Each bug is a branch `if seeded_bug(SeededBug::…)` at the place of the mistake. It is `false` unless a test enables
//! that bug for its own thread, and without debug assertions it is a constant `false`: a release build contains none of
//! it. `tests/tests/seeded_bugs.rs` tests what each bug breaks, and how many seeds it takes to detect it; for those of
//! leases, `host/lease/src/simulation` does.

use std::cell::Cell;

thread_local! {
    static ENABLED: Cell<Option<SeededBug>> = const { Cell::new(None) };
}

/// Defines the bugs and the list of all of them.
macro_rules! seeded_bugs {
    ($($(#[$doc:meta])+ $bug:ident,)+) => {
        /// A plausible mistake.
        #[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
        pub enum SeededBug {
            $($(#[$doc])+ $bug,)+
        }

        impl SeededBug {
            /// All of them.
            pub const ALL: &[SeededBug] = &[$(SeededBug::$bug),+];
        }
    };
}

seeded_bugs! {
    /// A relist does not report vanished objects.
    RelistMissesDeletes,
    /// A delete whose final state was not observed is not marked as such.
    TombstoneUnmarked,
    /// A delete and a create of one name become an update.
    UpdateAcrossUids,
    /// Lists and events older than the known state are accepted.
    VersionGuardOff,
    /// A watch starts one version too late.
    WatchSkipsVersion,
    /// Treats the first page of a list as the whole list.
    FirstPageTakenForList,
    /// A relist considers an object unchanged if only its uid is equal.
    RelistComparesUidOnly,
    /// Handlers are notified before the state is published to readers.
    NotifiedBeforePublish,
    /// Folding two events of a key keeps the older state.
    FoldLosesLastState,
    /// Folding two updates of a key keeps the newer `old`.
    FoldTakesNewerOld,
    /// A key with a dead letter never receives another event.
    DeadLetterBlocksKey,
    /// Failed events are not retried.
    FailureNotRetried,
    /// A cursor delivers objects that it fetched before they changed.
    CursorShowsStaleObjects,
    /// A cursor skips the first object of each chunk.
    CursorSkipsObject,
    /// An index keeps a deleted object.
    IndexKeepsDeleted,
    /// An index keeps the values of the previous state.
    IndexKeepsStaleValues,
    /// An event is delivered while another one of its key is in flight.
    ConcurrentCallsOfKey,
    /// `Synced` is delivered before all other events.
    SyncedDeliveredFirst,
    /// A delete is delivered twice.
    DeleteDeliveredTwice,
    /// Events that arrive during a swap are dropped.
    SwapDropsEvents,
    /// A source whose keys were transferred keeps delivering its old objects.
    RetiredSourceStillShown,
    /// A bookmark counts as if all events up to its version had been received.
    BookmarkHidesEvents,
    /// A silent watch stays live forever.
    SilentWatchStaysLive,
    /// A source that is attached again does not wait for the deletes of its drained predecessor.
    ReattachOvertakesDeletes,
    /// Every delete is marked as one whose final state is unknown.
    EveryDeleteMarked,
    /// An add that is not delivered yet and its delete cancel out, although few events are pending.
    ShortLivedObjectVanishes,
    /// An object that was deleted and created again while the watch was down is delivered only as a delete.
    NewIncarnationMissed,
    /// The store keeps its states if the API server went back to older ones.
    RestoredStateRejected,
    /// An event on which a plugin trapped counts as handled.
    TrapTakenForSuccess,
    /// A new version of a plugin does not receive the state that the previous one saved.
    SavedStateNotRestored,
    /// Of several ended incarnations of one key, only the last is stored for the next process.
    OnlyLastIncarnationStored,
    /// What was handed out counts as acknowledged: the next process does not know of it.
    HandedOutTakenForAcknowledged,
    /// The next process reports deletes that happened after its start as if they were from before.
    LaterDeletesResumed,
    /// The index of a plugin is attached while values are still being computed.
    PartialIndexAttached,
    /// Another call of the key does not cancel the one that the handler asked for.
    RequeueNotCanceled,
    /// What a failed call deferred is written.
    FailedCallWrites,
    /// A key is called again before its interval ends.
    IntervalNotKept,
    /// More calls start in a second than may.
    RateNotKept,
    /// What a plugin remembers is stored after the acknowledgement of the event whose call changed it.
    KeysStoredLate,
    /// What a plugin remembers is stored before the writes that its call deferred are sent.
    KeysBeforeWrites,
    /// A former holder of shared state writes over the journal of its successor.
    OldJournalAccepted,
    /// The end of an event is reported before shared state has the changes of its call.
    EndsBeforeWrite,
    /// Calls about suspect namespaces take more than their share of time.
    SuspectsNotLimited,
    /// A key moves to another lane when its source is replaced.
    LaneFollowsSource,
    /// A source that is asked to free bytes of the budget frees none.
    BudgetIgnored,
    /// A namespace that was shed does not return.
    ShedForever,
    /// First calls do not wait for what they may read.
    BarrierIgnored,
    /// The body of an object is taken from a page, whatever its state.
    OldBodyTaken,
    /// A related change is dropped if a call about what it leads to is pending or in flight.
    RelatedChangeDropped,
    /// A related change leads to a call in another instance, while one runs.
    ReconciledConcurrently,
    /// Children are pruned whatever the cache lacks.
    PrunedByPartialView,
    /// The runs of timers that have ended are not recorded.
    TimerRunNotRecorded,
    /// A renewal that is answered after the deadline opens the gate again.
    LateRenewalReopens,
    /// A holder counts from the answer to its renewal instead of from sending it.
    LeaseCountsFromAnswer,
    /// A Lease that was deleted is acquired at once.
    DeletedLeaseTaken,
    /// A Lease that has expired by the watch is acquired although the read before that finds it changed.
    ChangedLeaseTaken,
    /// A Lease without a holder counts as released, although it was emptied by hand.
    EmptiedLeaseTaken,
    /// A candidate waits as long as the Lease says, although that was edited by hand.
    EditedDurationBelieved,
    /// The own name in the Lease is enough to acquire it at once.
    OwnNameSuffices,
    /// The Lease is released while effects of its holder still run.
    ReleasedTooEarly,
    /// A Lease that was released is acquired by any member at once.
    PreferredIgnored,
    /// A member that is not ready acquires the Lease.
    UnreadyMemberActs,
    /// One member gets all shards.
    UnboundedShare,
    /// The next layout is in force while shards of the one before are held.
    LayoutChangedTooEarly,
    /// A member hashes keys to shards otherwise than the others.
    OtherShardHash,
    /// Objects of a shard that is read by another process from now on are delivered as deleted.
    LostShardDeletes,
    /// Deletes of shards that another process reads are not kept.
    OthersDeletesNotKept,
    /// A process that takes over does not deliver the deletes that it kept.
    DeleteLostAtTakeover,
    /// A process that takes over delivers what the watermark covers.
    WatermarkNotApplied,
    /// A watermark does not wait for what is queued or in flight.
    WatermarkAheadOfQueue,
    /// The gate stays open after its deadline until the holder has noticed that.
    StaleHolderWrites,
}

impl SeededBug {
    /// Those that the simulation of `informant-lease` catches. It has no informers and no handlers.
    pub const OF_LEASES: &[SeededBug] = &[
        SeededBug::LateRenewalReopens,
        SeededBug::LeaseCountsFromAnswer,
        SeededBug::DeletedLeaseTaken,
        SeededBug::ChangedLeaseTaken,
        SeededBug::EmptiedLeaseTaken,
        SeededBug::EditedDurationBelieved,
        SeededBug::OwnNameSuffices,
        SeededBug::ReleasedTooEarly,
        SeededBug::PreferredIgnored,
        SeededBug::UnreadyMemberActs,
        SeededBug::UnboundedShare,
        SeededBug::LayoutChangedTooEarly,
        SeededBug::OtherShardHash,
    ];

    /// Runs `body` with this bug enabled on this thread.
    pub fn run_with<T>(self, body: impl FnOnce() -> T) -> T {
        /// Restores the previous state, even if `body` panics.
        struct Restore(Option<SeededBug>);
        impl Drop for Restore {
            fn drop(&mut self) {
                ENABLED.set(self.0);
            }
        }
        let _restore = Restore(ENABLED.replace(Some(self)));
        body()
    }
}

/// Whether `bug` is enabled on this thread. Never in a release build.
#[inline(always)]
#[must_use]
pub fn seeded_bug(bug: SeededBug) -> bool {
    cfg!(debug_assertions) && ENABLED.get() == Some(bug)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn bug_is_enabled_only_for_its_thread_and_closure() {
        let bug = SeededBug::ALL[0];
        bug.run_with(|| {
            assert!(seeded_bug(bug) && !seeded_bug(SeededBug::ALL[1]));
            let elsewhere = std::thread::spawn(move || seeded_bug(bug));
            assert!(!elsewhere.join().expect("the thread does not panic"));
        });
        assert!(!seeded_bug(bug));
    }
}
