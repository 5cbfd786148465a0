//! A candidate's list of a divided source waits until the reflector before has sent what precedes it: no list shows
//! deletes of shards that one of the two does not read. Meanwhile commands are handled, so that the next candidate
//! replaces this one.
//!
//! ```text
//! candidate: list of version v waits ──────────────────────────────┐ applied
//! reflector: events up to v are processed as ever; the one after v ┴ or silence: it ends
//! ```

use std::time::Duration;

use informant_cache::{Environment, Moment};

use super::InformerLoop;
use crate::metrics::CounterFamily;
use crate::source_name::log;
use crate::update_channel::{EventKind, StagedList, Update, Updates};

/// For how long the reflector before may send nothing until it counts as having sent all that the candidate's list
/// knows: 500 ms. A watch is seldom later than that.
const LIST_WAIT_SILENCE_MAX: Duration = Duration::from_millis(500);

/// How long it is waited for altogether: 10 s. Deletes that it sends later are lost for handlers that have not had
/// them.
const LIST_WAIT_MAX: Duration = Duration::from_secs(10);

/// Why a list waits no longer.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum WaitEnd {
    /// The reflector before has sent all that the list knows.
    CaughtUp,
    /// It was silent for too long.
    Silent,
    /// It has sent for too long.
    Late,
    /// It has lost its watch, and what that has not sent.
    Relisted,
}

impl WaitEnd {
    /// The label in metrics.
    fn as_str(self) -> &'static str {
        match self {
            WaitEnd::CaughtUp => "caught-up",
            WaitEnd::Silent => "silent",
            WaitEnd::Late => "late",
            WaitEnd::Relisted => "relisted",
        }
    }
}

pub(super) struct WaitingList {
    list: StagedList,
    received: Moment,
    until: Moment,
    silent_until: Moment,
    /// The newest version that the reflector before has sent since.
    seen: Option<u64>,
}

impl WaitingList {
    pub(super) fn new(list: StagedList, received: Moment, now: Moment) -> WaitingList {
        WaitingList {
            list,
            received,
            until: now + LIST_WAIT_MAX,
            silent_until: now + LIST_WAIT_SILENCE_MAX,
            seen: None,
        }
    }

    fn listed(&self) -> Option<u64> {
        self.list.version.as_ref().number()
    }
}

/// When the reflector before has been silent for too long, or has sent for too long; pending if no list waits.
pub(super) async fn is_over(waiting: Option<&WaitingList>, environment: &dyn Environment) {
    let Some(waiting) = waiting else {
        return std::future::pending().await;
    };
    let (now, until) = (environment.now(), waiting.until.min(waiting.silent_until));
    if now < until {
        environment.sleep(until - now).await;
    }
}

impl InformerLoop {
    /// Processes what the reflector before has sent up to the version of the list that waits.
    pub(super) async fn catch_up(&mut self, updates: Updates) {
        let Some(waiting) = &mut self.waiting_list else { return };
        let now = self.parts.environment.now();
        let listed = waiting.listed();
        let (updates, received) = updates.into_parts();
        waiting.silent_until = now + LIST_WAIT_SILENCE_MAX;
        let is_list = |update: &Update| matches!(update, Update::Replace(_));
        let before_list = updates.iter().take_while(|update| !is_list(update));
        waiting.seen = before_list.filter_map(Update::version).max().max(waiting.seen);
        let end = match waiting.seen >= listed {
            true => Some(WaitEnd::CaughtUp),
            false if updates.iter().any(is_list) => Some(WaitEnd::Relisted),
            false => (now >= waiting.until).then_some(WaitEnd::Late),
        };
        let is_newer = |update: &Update| update.version() > listed || is_list(update);
        let (newer, updates): (Vec<_>, Vec<_>) = updates.into_iter().partition(is_newer);
        self.receive_all(updates, received).await;
        let Some(end) = end else { return };
        let unread = self.unread();
        match self.use_waiting_list(end).await {
            true => self.keep_newer_deletes(newer.into_iter().chain(unread), received),
            false => {
                self.receive_all(newer.into_iter().chain(unread).collect(), received)
                    .await
            }
        }
    }

    /// What the reflector before has sent already.
    fn unread(&mut self) -> Vec<Update> {
        let mut unread = Vec::new();
        while let Ok(updates) = self.parts.updates.try_recv() {
            unread.extend(updates.into_parts().0);
        }
        unread
    }

    /// The candidate's watch sends again what is newer than its list, but deletes of other shards only if the API
    /// server does not select, and if it does not end before.
    fn keep_newer_deletes(&self, newer: impl Iterator<Item = Update>, received: Moment) {
        for update in newer {
            if let Update::Event {
                kind: EventKind::Deleted,
                object,
            } = update
                && self.is_of_other_shard(object.key())
            {
                self.keep_others_delete(object, received);
            }
        }
    }

    async fn receive_all(&mut self, updates: Vec<Update>, received: Moment) {
        for update in updates {
            self.receive_one(update, received).await;
        }
        self.process_queued().await;
    }

    /// The reflector before is silent, or late: then what it has not sent is left out.
    pub(super) async fn end_catch_up(&mut self) {
        let now = self.parts.environment.now();
        let end = match &self.waiting_list {
            Some(waiting) if now >= waiting.until => WaitEnd::Late,
            _ => WaitEnd::Silent,
        };
        self.use_waiting_list(end).await;
    }

    /// Returns whether it is accepted.
    async fn use_waiting_list(&mut self, end: WaitEnd) -> bool {
        let Some(waiting) = self.waiting_list.take() else {
            return false;
        };
        let WaitingList {
            list, received, seen, ..
        } = waiting;
        self.parts.metrics.count(CounterFamily::ListWaits, end.as_str());
        if end != WaitEnd::CaughtUp {
            let version = list.version.as_str();
            log!(
                debug,
                *self.parts.name,
                resource_version = version,
                seen,
                end = end.as_str(),
                "list used before the watch had caught up"
            );
        }
        self.replace_reflector(list, received).await
    }

    /// The candidate that has sent it is not wanted any more.
    pub(super) fn drop_waiting_list(&mut self) {
        if let Some(waiting) = self.waiting_list.take() {
            self.parts.dropper.drop_later(waiting.list);
        }
    }

    /// The reflector before has not been read for a while.
    pub(super) fn restart_catch_up(&mut self) {
        let now = self.parts.environment.now();
        if let Some(waiting) = &mut self.waiting_list {
            waiting.until = now + LIST_WAIT_MAX;
            waiting.silent_until = now + LIST_WAIT_SILENCE_MAX;
        }
    }
}
