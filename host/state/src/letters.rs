//! Stores the dead letters of a handler and restores them.
//!
//! The rows follow what the listener lists, so its limit is theirs. A dead letter that is not stored yet when the
//! process is killed is an open key like others: its event is delivered again, and fails again.

use std::collections::BTreeMap;
use std::time::Duration;

use informant_cache::listener::{DeadLetter, DeadLetterChanges, LastDelete};
use informant_cache::{Moment, Reason};
use informant_object::{Key, Object, Shape, SourceId};
use informant_spec::StoredContent;
use redb::ReadableTable as _;

use crate::cipher::Cipher;
use crate::handler_state::HandlerState;
use crate::schema::{self, Reader, RowError, push_text, since_epoch};
use crate::source::{PersistedSource, SourceOptions};
use crate::tables::Tables;

/// The bits of a row's flags.
const HAS_VERSION: u8 = 1;
const IS_DELETE: u8 = 2;
const IS_UNKNOWN: u8 = 4;
const HAS_LAST: u8 = 8;

impl HandlerState {
    /// Writes how the dead letters of the handler `name` changed.
    pub(crate) fn persist_letters(
        &mut self,
        tables: &mut Tables<'_>,
        (source, name): (u32, &str),
        options: &SourceOptions,
        changes: &DeadLetterChanges,
    ) -> Result<(), redb::Error> {
        for key in self.letters.difference(&changes.keys) {
            let row_key = schema::open_key(source, name, key.as_ref());
            tables.dead_letters.remove(&row_key[..])?;
        }
        for letter in &changes.added {
            let row_key = schema::open_key(source, name, letter.key.as_ref());
            let row = encode(letter, &row_key, options.content, options.cipher.as_ref());
            tables.dead_letters.insert(&row_key[..], &row[..])?;
        }
        self.letters.clone_from(&changes.keys);
        Ok(())
    }
}

impl PersistedSource {
    /// The stored dead letters of a handler. One that cannot be read is left out: its event is delivered again.
    pub(crate) fn restored_letters(
        &self,
        tables: &Tables<'_>,
        name: &str,
        handler: &HandlerState,
    ) -> Result<BTreeMap<Key, DeadLetter>, redb::Error> {
        let mut letters = BTreeMap::new();
        for key in &handler.letters {
            let row_key = schema::open_key(self.number, name, key.as_ref());
            let Some(row) = tables.dead_letters.get(&row_key[..])? else {
                continue;
            };
            match decode(key, row.value(), &row_key, self.options.cipher.as_ref()) {
                Ok(letter) => drop(letters.insert(key.clone(), letter)),
                Err(_) => self.metrics.unreadable(),
            }
        }
        Ok(letters)
    }
}

/// Binds an encrypted row to its key, and to its table.
fn associated_data(row_key: &[u8]) -> Vec<u8> {
    [b"dead letter ", row_key].concat()
}

pub(crate) fn encode(letter: &DeadLetter, row_key: &[u8], content: StoredContent, cipher: Option<&Cipher>) -> Vec<u8> {
    // It became one a moment ago, or was restored a moment ago.
    let given_up = since_epoch().saturating_sub(letter.age_before);
    let last = letter.delete.as_ref().and_then(|delete| delete.last.as_ref());
    let flag = |is_set: bool, bit: u8| if is_set { bit } else { 0 };
    let is_unknown = letter.delete.as_ref().is_some_and(|delete| delete.final_state_unknown);
    let flags = flag(letter.resource_version.is_some(), HAS_VERSION)
        | flag(letter.delete.is_some(), IS_DELETE)
        | flag(is_unknown, IS_UNKNOWN)
        | flag(last.is_some(), HAS_LAST);
    let mut plain = given_up.as_secs().to_be_bytes().to_vec();
    plain.extend(letter.attempts.to_be_bytes());
    plain.push(flags);
    let version = letter.resource_version.as_deref().unwrap_or_default();
    for text in [
        letter.event,
        letter.reason.as_str(),
        letter.result,
        &letter.error,
        version,
    ] {
        push_text(&mut plain, text);
    }
    plain.extend(last.map_or_else(Vec::new, |last| schema::stored(content, last)));
    schema::seal(plain, cipher, &associated_data(row_key))
}

pub(crate) fn decode(key: &Key, row: &[u8], row_key: &[u8], cipher: Option<&Cipher>) -> Result<DeadLetter, RowError> {
    let plain = schema::unseal(row, cipher, &associated_data(row_key))?;
    let mut reader = Reader(&plain);
    let given_up = Duration::from_secs(u64::from_be_bytes(reader.array()?));
    let attempts = u32::from_be_bytes(reader.array()?);
    let [flags] = reader.array()?;
    let is_set = |bit: u8| flags & bit != 0;
    // A name that is unknown comes from a version with more of them.
    let event = DeadLetter::event_named(&reader.text()?).ok_or(RowError::Malformed)?;
    let reason = Reason::from_name(&reader.text()?).ok_or(RowError::Malformed)?;
    let result = DeadLetter::result_named(&reader.text()?).ok_or(RowError::Malformed)?;
    let error = reader.text()?;
    let version = reader.text()?;
    let last = is_set(HAS_LAST).then(|| Object::parse(reader.0, &Shape::verbatim()).ok());
    let delete = is_set(IS_DELETE).then(|| LastDelete {
        last: last.flatten(),
        final_state_unknown: is_set(IS_UNKNOWN),
    });
    Ok(DeadLetter {
        // Its source and its times are those of this process, set when it is restored.
        source: SourceId(0),
        received: Moment::ZERO,
        given_up: Moment::ZERO,
        age_before: since_epoch().saturating_sub(given_up),
        key: key.clone(),
        event,
        resource_version: is_set(HAS_VERSION).then_some(version),
        reason,
        error,
        result,
        attempts,
        delete,
    })
}
