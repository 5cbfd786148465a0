//! Stores the requeues of a handler, the calls that it asked for, and restores them.
//!
//! A row has the wall-clock time at which the call is due, because no other clock survives a restart. The row stays
//! until the call has ended: a call that was not finished when the process ended is made again.

use std::time::Duration;

use informant_cache::listener::{LastDelete, RequeueChanges, RequeueTimer};
use informant_cache::{Moment, Reason};
use informant_object::{Key, Object, Shape, SourceId};
use informant_spec::StoredContent;

use crate::cipher::Cipher;
use crate::handler_state::HandlerState;
use crate::schema::{self, Reader, RowError, since_epoch};
use crate::source::{PersistedSource, SourceOptions};
use crate::tables::{Tables, clear_prefix, damaged, with_prefix};

/// The bits of a row's flags.
const IS_DELETE: u8 = 1;
const IS_UNKNOWN: u8 = 2;
const HAS_LAST: u8 = 4;
const IS_TRIGGER: u8 = 8;

impl HandlerState {
    /// How the listener's requeues differ from the stored ones.
    pub(crate) fn poll_requeues(&mut self, source: SourceId, now: Moment) -> Option<RequeueChanges> {
        let listener = self
            .listener
            .as_ref()
            .filter(|listener| listener.feed().is_attached(source))?;
        if !std::mem::replace(&mut self.records_requeues, true) {
            listener.ledger().record_requeues(source);
        }
        let changes = listener.ledger().requeue_changes(source, now)?;
        let differs = self.has_requeues || !changes.timers.is_empty();
        differs.then_some(changes)
    }

    /// Writes how the requeues of the handler `name` changed.
    pub(crate) fn persist_requeues(
        &mut self,
        tables: &mut Tables<'_>,
        (source, name): (u32, &str),
        options: &SourceOptions,
        changes: &RequeueChanges,
    ) -> Result<(), redb::Error> {
        self.has_requeues = true;
        if changes.is_complete {
            clear_prefix(&mut tables.requeues, &schema::open_prefix(source, name))?;
            self.has_requeues = !changes.timers.is_empty();
        }
        for key in &changes.removed {
            let row_key = schema::open_key(source, name, key.as_ref());
            tables.requeues.remove(&row_key[..])?;
        }
        for timer in &changes.timers {
            let row_key = schema::open_key(source, name, timer.key.as_ref());
            let row = encode(timer, &row_key, options.content, options.cipher.as_ref(), since_epoch());
            tables.requeues.insert(&row_key[..], &row[..])?;
        }
        Ok(())
    }
}

impl PersistedSource {
    /// The stored requeues of a handler. One that cannot be read is left out, and counted.
    pub(crate) fn restored_requeues(&self, tables: &Tables<'_>, name: &str) -> Result<Vec<RequeueTimer>, redb::Error> {
        let prefix = schema::open_prefix(self.number, name);
        let mut timers = Vec::new();
        for found in with_prefix(&tables.requeues, &prefix)? {
            let (row_key, row) = found?;
            let key = schema::key_of(row_key.value(), prefix.len()).map_err(damaged)?;
            let cipher = self.options.cipher.as_ref();
            match decode(key, row.value(), row_key.value(), cipher, since_epoch()) {
                Ok(timer) => timers.push(timer),
                Err(_) => self.metrics.unreadable(),
            }
        }
        Ok(timers)
    }
}

/// Binds an encrypted row to its key, and to its table.
fn associated_data(row_key: &[u8]) -> Vec<u8> {
    [b"requeue ", row_key].concat()
}

/// The row of a requeue at the time `now` since the epoch.
fn encode(
    timer: &RequeueTimer,
    row_key: &[u8],
    content: StoredContent,
    cipher: Option<&Cipher>,
    now: Duration,
) -> Vec<u8> {
    let millis = |duration: Duration| u64::try_from(duration.as_millis()).unwrap_or(u64::MAX);
    let last = timer.delete.as_ref().and_then(|delete| delete.last.as_ref());
    let flag = |is_set: bool, bit: u8| if is_set { bit } else { 0 };
    let is_unknown = timer.delete.as_ref().is_some_and(|delete| delete.final_state_unknown);
    let mut plain = millis(now + timer.remaining).to_be_bytes().to_vec();
    plain.extend(millis(timer.remaining).to_be_bytes());
    let of_delete = flag(timer.delete.is_some(), IS_DELETE) | flag(is_unknown, IS_UNKNOWN);
    let is_trigger = timer.reason == Reason::Trigger;
    plain.push(of_delete | flag(last.is_some(), HAS_LAST) | flag(is_trigger, IS_TRIGGER));
    plain.extend(last.map_or_else(Vec::new, |last| schema::stored(content, last)));
    schema::seal(plain, cipher, &associated_data(row_key))
}

/// The requeue of a row, read at the time `now` since the epoch.
fn decode(
    key: Key,
    row: &[u8],
    row_key: &[u8],
    cipher: Option<&Cipher>,
    now: Duration,
) -> Result<RequeueTimer, RowError> {
    let plain = schema::unseal(row, cipher, &associated_data(row_key))?;
    let mut reader = Reader(&plain);
    let due = Duration::from_millis(u64::from_be_bytes(reader.array()?));
    let remaining = Duration::from_millis(u64::from_be_bytes(reader.array()?));
    let [flags] = reader.array()?;
    let is_set = |bit: u8| flags & bit != 0;
    let last = is_set(HAS_LAST).then(|| Object::parse(reader.0, &Shape::verbatim()).ok());
    let delete = is_set(IS_DELETE).then(|| LastDelete {
        last: last.flatten(),
        final_state_unknown: is_set(IS_UNKNOWN),
    });
    Ok(RequeueTimer {
        key,
        // A clock that was set back makes no wait longer than it was.
        remaining: due.saturating_sub(now).min(remaining),
        reason: if is_set(IS_TRIGGER) {
            Reason::Trigger
        } else {
            Reason::RequeueAfter
        },
        delete,
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn clock_that_jumps_never_lengthens_a_requeue() {
        let seconds = Duration::from_secs;
        let timer = RequeueTimer {
            key: Key::new("default", "a"),
            remaining: seconds(60),
            reason: Reason::RequeueAfter,
            delete: None,
        };
        let row = encode(&timer, b"row", StoredContent::Metadata, None, seconds(1_000));
        let remaining = |now| {
            let read = decode(timer.key.clone(), &row, b"row", None, seconds(now));
            read.unwrap().remaining
        };
        assert_eq!([1_000, 1_020, 1_060, 9_000].map(remaining), [60, 40, 0, 0].map(seconds));
        assert_eq!(remaining(1), seconds(60), "it was set back");
    }

    #[test]
    fn stored_call_keeps_the_reason_for_which_it_is_made() {
        for reason in [Reason::RequeueAfter, Reason::Trigger] {
            let timer = RequeueTimer {
                key: Key::new("default", "a"),
                remaining: Duration::ZERO,
                reason,
                delete: None,
            };
            let row = encode(&timer, b"row", StoredContent::Metadata, None, Duration::ZERO);
            let read = decode(timer.key.clone(), &row, b"row", None, Duration::ZERO);
            assert_eq!(read.unwrap().reason, reason);
        }
    }
}
