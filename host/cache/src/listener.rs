//! The listener: the queue between the informer loop and one handler (client-go's `processorListener`).
//!
//! ```text
//! informer loop ──attach, push──▶ Listener ──next──▶ consumer (a plugin's instances, a native handler's driver)
//!                                    ▲                  │
//!                                    └────────done──────┘
//! ```
//!
//! A pull state machine, one per handler, over any number of sources. The listener calls no handler itself: the loop
//! pushes changes after each publish, the consumer pulls deliveries and reports their outcomes, and a callback wakes a
//! consumer that waits.
//!
//! # The life of a slot
//!
//! A slot belongs to a subject (an object, the end of a list, a timer) and exists while something of it is pending or
//! in flight. It holds what the handler *knows*, the *first* state that follows, and the *rest*, in order. A *state*
//! becomes an *event* when it is handed out (`state`); a *delivery* is one attempt. What the handler knows changes when
//! the event ends.
//!
//! | the slot is | when | known | first | rest |
//! |---|---|---|---|---|
//! | created, ready | a change, a cursor, or a request arrives | what the store held, or uncertain¹ | the state | – |
//! | ready | below the limits another state arrives | – | – | grows |
//! | ready | at the limits, or paused for anything but a swap | – | newer states fold in² | what cannot fold |
//! | in flight | [`Consumer::next`] hands it out | – | fixed | grows |
//! | ready again | the consumer gives it back | – | – | – |
//! | ready again | its back-off, interval or wait ends | – | fixed below the limits | grows |
//! | ready, or removed | accepted | exactly the first | the next, or none | shrinks |
//! | ready, or removed | dead letter or skipped | maybe the first; nothing after an end | the next, or none | shrinks |
//! | backing off | failed | uncertain | newer states fold in | what cannot fold |
//! | spaced | its key was called within the interval | – | newer states fold in | what cannot fold |
//! | suspect | its namespace has used up its share of time | – | newer states fold in | what cannot fold |
//! | waiting | the call found a source or an index not ready | uncertain | newer states fold in | what cannot fold |
//! | cut to its ends | a replay or another selection begins | – | an end, one that failed, or none | ends |
//! | removed | its source is detached | | | |
//!
//! ¹ After a replay, a restart or a failure.
//!
//! ² Into the last state. An object that the handler knows nothing of and its end cancel out.
//!
//! Promises, per key (source, namespace, name):
//!
//! - Events of a key are delivered in order, one at a time. A delete and a create under the same name are two events,
//!   never an update.
//! - Nothing is dropped without a counter. While nothing fails, waits, is paused or replayed, and at most
//!   [`pending_events_max`](ListenerOptions::pending_events_max) events are pending, each event is delivered exactly
//!   once. Above that limit the listener is *keyed*: newer events fold into the pending event of their key. `old` is
//!   always the last state whose delivery ended. Pending events are bounded in bytes, too.
//! - A source's objects are delivered once from the first list (`Initial`), and again on [`Control::replay`] and
//!   every [`resync`](ListenerOptions::resync). All three walk the newest snapshot; nothing is queued for them.
//!   [`Notification::Synced`] is delivered once every key of an initial list or replay was attempted. A replay of a
//!   source whose acknowledgements are persisted ([`Ledger::gate_replays`]) waits until the replay is recorded.
//! - A failing key delays no other key: it is retried with growing back-off, at most
//!   [`retries_per_second_max`](ListenerOptions::retries_per_second_max) keys a second, and becomes a [`DeadLetter`]
//!   when it runs out of attempts.
//! - A key is called at most once per [`min_interval`](ListenerOptions::min_interval), if there is one.
//! - At most [`calls_per_second_max`](ListenerOptions::calls_per_second_max) deliveries start in a second, after a
//!   burst of as many. What waits for that stays where it is.
//! - A consumer that handles keys apart from each other, such as a plugin with several instances, divides them into
//!   [lanes](Consumer::set_lanes). Each has its own ready list and its own cursors, so that a slow lane delays
//!   only its own keys. Limits, timers and retries are the listener's. `Synced` is delivered in every lane, once all
//!   have attempted every key.
//! - If a handler [limits them](ListenerOptions::limits_suspects), namespaces with an object that crashed it get a
//!   share of its time, all together: what they wait for delays no other namespace.
//! - Sources whose objects only [lead to others](Control::set_relations) are not delivered: their changes are causes
//!   of calls. With any such source the listener is keyed, and a call has the reason of its first cause.
//! - A run of a timer ([`Consumer::tick`]) is delivered as an event; of one timer there is one at a time.
//! - A handler that [asks for another call](DeliveryOutcome::RequeueAfter) of a key receives one, with its present
//!   state, unless it is called for the key before. Such a timer is no pending event.
//!
//! Order across keys is not guaranteed. No I/O, no clock (time is passed in), no tasks.

mod answer;
mod attach;
mod cursor;
mod handle;
mod pull;
mod push;
mod queue;
mod related;
mod replay;
mod requeue_after;
mod reselect;
mod resume;
mod retry;
mod shards;
mod slots;
mod sources;
mod state;
mod stats;
mod subject;
mod tick;
mod transfer;
mod waits;
mod wake;
mod watermark;

mod sync {
    pub(super) use std::sync::{Mutex, MutexGuard, PoisonError};
}

#[cfg(test)]
mod tests;

use std::sync::Arc;

use informant_object::SourceId;

pub use self::handle::{Consumer, Control, Feed, Ledger, ListenerHandle};
pub use self::replay::RequeueResult;
pub use self::requeue_after::{RequeueChanges, RequeueTimer, SlowedKey, Triggered};
pub use self::reselect::{ChangedSelection, Selected};
pub use self::resume::{OpenKey, OpenKeys, ResumeState, Vanished};
pub use self::retry::RetriedKey;
pub use self::shards::{GainedShard, HeldShards};
pub use self::stats::{InFlight, ListenerCounters, ListenerStats};
pub use crate::delivery::accepted_states::AcceptedStates;
pub use crate::delivery::beginning::{Beginning, TAKEOVER_LAG_MAX, Takeover};
pub use crate::delivery::change::{ChangeKind, ObjectChange};
pub use crate::delivery::dead_letters::{DeadLetter, DeadLetterChanges, LastDelete};
pub use crate::delivery::lanes::{LANES_MAX, Lane, LaneSet, ResourceIdentities};
pub use crate::delivery::options::{
    DEAD_LETTERS_MAX, ERROR_BYTES_MAX, FailurePolicy, ListenerOptions, PENDING_BYTES_MAX, PENDING_EVENTS_MAX,
    REQUEUE_AFTER_MIN, REQUEUE_AFTER_MIN_UNCHANGED, REQUEUE_CHANGES_MAX, REQUEUED_DELETES_MAX, REQUEUES_IN_A_ROW_MAX,
    RESYNC_MIN, RETRIED_DELETES_MAX, RETRIES_PER_SECOND_MAX, RETRY_AFTER_MAX, RETRY_ERROR_BYTES_MAX, RetryOptions,
    SPACED_KEYS_MAX, SUSPECT_SHARE_PERCENT, SUSPECT_TIME, SUSPECTS_MAX, TIMEOUTS_MAX, TRAPS_MAX, UNACCEPTED_KEYS_MAX,
};
pub use crate::delivery::relations::{RelatedCause, RelatedTo, Relation, Relations};
pub use crate::delivery::{
    Awaited, Delivery, DeliveryOutcome, DeliveryToken, NextBatch, NextDelivery, Notification, Tick,
};

use self::queue::Queue;
use self::replay::ReplayGate;
use self::shards::Shards;
use self::sources::AttachedSources;
use self::waits::Waits;
use crate::delivery::dead_letters::DeadLetters;
use crate::delivery::requeues::Requeues;
use crate::delivery::timers::{RetryRate, Timers};
use crate::{Moment, TokenBucket};

/// Why delivery is paused. Several reasons can apply at once.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Pause {
    /// The handler is being swapped. New events queue as usual.
    Swap,
    /// The handler is in quarantine. New events fold key by key, so that afterwards only the difference is delivered.
    Quarantine,
    /// An operator paused the handler. New events fold as in quarantine.
    Operator,
    /// Another replica calls its handler. New events fold as in quarantine.
    Standby,
}

/// The reasons for which delivery is paused.
#[derive(Clone, Copy, Debug, Default)]
struct Pauses(u8);

impl Pauses {
    fn set(&mut self, pause: Pause, paused: bool) {
        self.0 = self.0 & !(1 << pause as u8) | u8::from(paused) << pause as u8;
    }

    fn contains(self, pause: Pause) -> bool {
        self.0 & (1 << pause as u8) != 0
    }

    fn is_empty(self) -> bool {
        self.0 == 0
    }

    /// Whether the pause may be long: events fold meanwhile.
    fn folds(self) -> bool {
        [Pause::Quarantine, Pause::Operator, Pause::Standby]
            .into_iter()
            .any(|pause| self.contains(pause))
    }
}

/// What is delivered next in one lane.
#[derive(Clone, Copy, Debug, Default)]
struct Turns {
    /// From a cursor, if one runs.
    cursor: bool,
    /// A requeue, if one is due.
    requeue: bool,
}

/// The state behind a [`ListenerHandle`].
#[derive(Debug)]
struct Listener {
    options: ListenerOptions,
    queue: Queue,
    sources: AttachedSources,
    /// Which sources lead to objects of others, from the next that is attached on.
    relations: Option<Arc<dyn Relations>>,
    timers: Timers,
    waits: Waits,
    retry_rate: RetryRate,
    /// Limits all deliveries; none without [`calls_per_second_max`](ListenerOptions::calls_per_second_max).
    call_rate: Option<TokenBucket>,
    /// The lane that is looked at first in the next batch.
    next_lane: Lane,
    /// Since the last delivery, something waited for `call_rate`.
    is_held_by_rate: bool,
    letters: DeadLetters,
    requeues: Requeues,
    /// When the next resync is due; none before the first source is attached, or without resync.
    resync_next: Option<Moment>,
    pauses: Pauses,
    closed: bool,
    /// Once closed, keys in back-off are not waited for.
    retries_ended: bool,
    /// One per lane.
    turns: Vec<Turns>,
    /// The consumer waits until then, or until it is woken.
    waits_until: Option<Moment>,
    /// The lanes for which it waits.
    waits_for: LaneSet,
    /// Sources that became synced and were not yet reported to the callback.
    newly_synced: Vec<SourceId>,
    /// Runs of timers that have ended, with whether they were accepted, and were not yet reported to the callback.
    ended_ticks: Vec<(Arc<Tick>, bool)>,
    replay_gate: ReplayGate,
    shards: Shards,
}

impl Listener {
    fn new(mut options: ListenerOptions) -> Listener {
        options.resync = options.resync.map(|period| period.max(RESYNC_MIN));
        Listener {
            queue: Queue::new(&options),
            sources: AttachedSources::default(),
            relations: None,
            timers: Timers::default(),
            waits: Waits::default(),
            retry_rate: RetryRate::default(),
            next_lane: 0,
            call_rate: options.calls_per_second_max.map(|max| TokenBucket::new(max, max)),
            is_held_by_rate: false,
            letters: DeadLetters::new(options.dead_letters_max, options.pending_bytes_max),
            requeues: Requeues::default(),
            resync_next: None,
            pauses: Pauses::default(),
            closed: false,
            retries_ended: false,
            turns: vec![Turns::default()],
            waits_until: None,
            waits_for: LaneSet::FIRST,
            newly_synced: Vec::new(),
            ended_ticks: Vec::new(),
            replay_gate: ReplayGate::default(),
            shards: Shards::default(),
            options,
        }
    }
}
