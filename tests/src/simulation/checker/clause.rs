//! The clauses of the delivery contract, by name.

use std::fmt;

/// A clause of the contract.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Clause {
    /// Within one incarnation versions never decrease, and `old` is the last delivered state.
    Ordered,
    /// Calls for one key never overlap.
    OneAtATime,
    /// Every delivered state existed.
    NoInvention,
    /// After the delete of an incarnation no call is made for it.
    DeleteSeenOnce,
    /// A delete whose final state was not seen is marked, and no other is.
    TombstoneMarked,
    /// A delete and a create of one name are two incarnations: never an update.
    IncarnationSafe,
    /// A lookup during a call finds the delivered state or a newer one.
    SnapshotAtLeastAsNew,
    /// Synced is delivered, and after everything that existed.
    SyncComplete,
    /// A watch that is interrupted and resumed loses and repeats nothing.
    Resumable,
    /// The last accepted state is the last one written.
    LastStateNeverLost,
    /// Every handler received every object.
    AtLeastOnce,
    /// The store equals the API server.
    StoreConverges,
    /// An index answers the same as a scan.
    IndexCoherent,
    /// A plugin keeps its memory until it traps, and its saved state in the next version.
    StateTransferred,
    /// A call that a handler asks for is made once, not before it is due, unless another call for the key came first.
    CalledAgain,
    /// A deferred write is sent once if its call succeeded, before the next call for the key; never if the call failed.
    WritesAfterSuccess,
    /// Two calls for one key begin at least the handler's interval apart.
    IntervalKept,
    /// In a second at most as many calls of a handler begin as its burst and rate allow.
    RateKept,
    /// Calls about namespaces in which one trapped a short time ago take a share of a handler's time at most.
    PoisonLocal,
    /// What a handler keeps is that of its successful calls.
    RememberedWithSuccess,
    /// What a call keeps that also deferred a write is there after a kill only if the write was sent.
    RememberedWithWrites,
    /// A handler of several instances receives all events of an object in one of them.
    InstanceKept,
    /// The caches take no more than their budget, unless nothing is left to shed; what was shed returns.
    BudgetKept,
    /// The body of a shed object is of the state of its head, or of a newer one.
    ShedNeverOlder,
    /// The first calls of a handler come when all that it may read is there, or has been waited for long enough.
    BarrierKept,
    /// The last call about an object that is reconciled has seen its last state, and that of what leads to it.
    ReconciledLast,
    /// Two calls about an object that is reconciled never overlap.
    ReconciledOneAtATime,
    /// Nothing is pruned while the cache may lack something.
    PrunedByWholeView,
    /// A timer fires once for each of its times, or once for several that were missed, across kills.
    TimerOnce,
    /// What a failed call of a controller defers or records is never sent.
    EffectsAfterSuccess,
    /// Nothing is called, accepted or written by a replica after another one has begun to act.
    OneReplicaActs,
    /// At a takeover each object comes at most once, and what the watermark covers does not come.
    TakeoverRepeatsLittle,
}

impl Clause {
    /// All of them.
    pub const ALL: [Self; 32] = [
        Self::Ordered,
        Self::OneAtATime,
        Self::NoInvention,
        Self::DeleteSeenOnce,
        Self::TombstoneMarked,
        Self::IncarnationSafe,
        Self::SnapshotAtLeastAsNew,
        Self::SyncComplete,
        Self::Resumable,
        Self::LastStateNeverLost,
        Self::AtLeastOnce,
        Self::StoreConverges,
        Self::IndexCoherent,
        Self::StateTransferred,
        Self::CalledAgain,
        Self::WritesAfterSuccess,
        Self::IntervalKept,
        Self::RateKept,
        Self::PoisonLocal,
        Self::RememberedWithSuccess,
        Self::RememberedWithWrites,
        Self::InstanceKept,
        Self::BudgetKept,
        Self::ShedNeverOlder,
        Self::BarrierKept,
        Self::ReconciledLast,
        Self::ReconciledOneAtATime,
        Self::PrunedByWholeView,
        Self::TimerOnce,
        Self::EffectsAfterSuccess,
        Self::OneReplicaActs,
        Self::TakeoverRepeatsLittle,
    ];

    /// Its name as in `docs/explanation/delivery.md`.
    #[must_use]
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::Ordered => "ordered",
            Self::OneAtATime => "one at a time",
            Self::NoInvention => "no invention",
            Self::DeleteSeenOnce => "delete seen once",
            Self::TombstoneMarked => "tombstone marked",
            Self::IncarnationSafe => "incarnation safe",
            Self::SnapshotAtLeastAsNew => "snapshot at least as new",
            Self::SyncComplete => "sync complete",
            Self::Resumable => "resumable",
            Self::LastStateNeverLost => "last state never lost",
            Self::AtLeastOnce => "at least once",
            Self::StoreConverges => "store converges",
            Self::IndexCoherent => "index coherent",
            Self::StateTransferred => "state transferred",
            Self::CalledAgain => "called again",
            Self::WritesAfterSuccess => "writes after success",
            Self::IntervalKept => "interval kept",
            Self::RateKept => "rate kept",
            Self::PoisonLocal => "poison stays local",
            Self::RememberedWithSuccess => "remembered with success",
            Self::RememberedWithWrites => "remembered with writes",
            Self::InstanceKept => "instance kept",
            Self::BudgetKept => "budget kept",
            Self::ShedNeverOlder => "shed never older",
            Self::BarrierKept => "barrier kept",
            Self::ReconciledLast => "reconciled last",
            Self::ReconciledOneAtATime => "reconciled one at a time",
            Self::PrunedByWholeView => "pruned by a whole view",
            Self::TimerOnce => "timer once",
            Self::EffectsAfterSuccess => "effects after success",
            Self::OneReplicaActs => "one replica acts",
            Self::TakeoverRepeatsLittle => "takeover repeats little",
        }
    }
}

impl fmt::Display for Clause {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.as_str())
    }
}
