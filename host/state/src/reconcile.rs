//! Compares the database with the present objects.

use std::cmp::Ordering;
use std::collections::BTreeMap;

use informant_cache::listener::{AcceptedStates, ChangeKind, DeadLetter, ObjectChange, ResumeState, Vanished};
use informant_cache::{ListenerHandle, Moment, Reason, Snapshot};
use informant_object::{Key, KeyRef, Object};
use redb::ReadableTable as _;

use crate::cipher::Cipher;
use crate::handler_state::{Ended, HandlerState, Incarnation};
use crate::journal::JournalEntry;
use crate::schema::{self, EndedRow, HandlerRow, RowError};
use crate::source::PersistedSource;
use crate::tables::{Tables, damaged, with_prefix};

/// Deletes that a handler receives after its initial list.
pub(crate) type LateDeletes = (ListenerHandle, Vec<Vanished>);

/// How one object differs from its stored state.
pub(crate) enum Difference {
    /// It is new, or in another state.
    Changed(Object),
    /// The stored object is gone; `now` is another incarnation.
    Deleted { ended: Ended, now: Option<Object> },
}

impl PersistedSource {
    /// Reads the handlers' rows. Handlers that are not expected are deleted.
    pub(crate) fn read_handlers(&mut self, tables: &mut Tables<'_>) -> Result<(), redb::Error> {
        let prefix = self.number.to_be_bytes();
        let mut kept = BTreeMap::new();
        for found in with_prefix(&tables.handlers, &prefix)? {
            let (key, value) = found?;
            let name = String::from_utf8_lossy(&key.value()[prefix.len()..]).into_owned();
            kept.insert(name, HandlerRow::decode(value.value()).map_err(damaged)?);
        }
        let mut known = BTreeMap::new();
        for (name, HandlerRow { all_open, .. }) in kept {
            let present = self.handlers.get_mut(&name);
            let is_expected = present.is_some() || self.options.handlers.contains(&name);
            if !is_expected || self.left.contains(&name) {
                tables.clear_handler(self.number, &name)?;
                continue;
            }
            let mut handler = HandlerState {
                all_open,
                ..HandlerState::default()
            };
            if let Some(before) = present {
                // What could not be persisted may have been anything.
                handler.all_open |= before.all_open;
                handler.listener = before.listener.clone();
                handler.on_start = before.on_start;
                handler.attached_unread = before.attached_unread;
                handler.is_elsewhere = before.is_elsewhere;
                handler.replay_seen = before.replay_seen;
                handler.unstored = std::mem::take(&mut before.unstored);
                handler.metrics = before.metrics.take();
            }
            handler.is_elsewhere |= self.options.has_replicas && handler.listener.is_none();
            match handler.is_elsewhere {
                true => {
                    handler.all_open = true;
                    let prefix = schema::open_prefix(self.number, &name);
                    handler.tombstones = with_prefix(&tables.ended, &prefix)?.count();
                }
                false => self.read_open(tables, &name, &mut handler)?,
            }
            known.insert(name, handler);
        }
        // Of the others nothing is stored. Nothing may fail from here on: a handler that were dropped here would
        // receive nothing more.
        for (name, before) in std::mem::take(&mut self.handlers) {
            if known.contains_key(&name) {
                continue;
            }
            let handler = HandlerState {
                listener: before.listener,
                on_start: before.on_start,
                metrics: before.metrics,
                replay_seen: before.replay_seen,
                ..HandlerState::all_open()
            };
            known.insert(name, handler);
        }
        self.handlers = known;
        Ok(())
    }

    pub(crate) fn read_open(
        &self,
        tables: &Tables<'_>,
        name: &str,
        handler: &mut HandlerState,
    ) -> Result<(), redb::Error> {
        let prefix = schema::open_prefix(self.number, name);
        for found in with_prefix(&tables.open, &prefix)? {
            handler.open(&schema::key_of(found?.0.value(), prefix.len()).map_err(damaged)?);
        }
        for found in with_prefix(&tables.dead_letters, &prefix)? {
            let key = schema::key_of(found?.0.value(), prefix.len()).map_err(damaged)?;
            handler.letters.insert(key);
        }
        handler.has_requeues = with_prefix(&tables.requeues, &prefix)?.next().is_some();
        for found in with_prefix(&tables.ended, &prefix)? {
            let (key, value) = found?;
            let (key, number) = schema::incarnation_of(key.value(), prefix.len()).map_err(damaged)?;
            let row = EndedRow::decode(value.value()).map_err(damaged)?;
            let uid = self.last_state(key.as_ref(), &row).map(|last| last.uid().into());
            handler.add(key, Incarnation { number, uid });
        }
        Ok(())
    }

    /// The last state in a row, as handlers receive it.
    fn last_state(&self, key: KeyRef<'_>, row: &EndedRow) -> Option<Object> {
        let state = schema::decode_state(self.number, key, &row.last, self.options.cipher.as_ref());
        state.ok()?.object()
    }

    /// The delete in a row, as handlers receive it.
    fn vanished(&self, key: &Key, row: &EndedRow) -> Vanished {
        Vanished {
            gone_by: None,
            received: None,
            key: key.clone(),
            last: self.last_state(key.as_ref(), row),
            final_state_unknown: row.unknown,
        }
    }

    /// How `snapshot` differs from the stored objects. With `all`, every object counts as changed.
    pub(crate) fn differences(
        &self,
        tables: &Tables<'_>,
        snapshot: &Snapshot,
        all: bool,
    ) -> Result<Vec<Difference>, redb::Error> {
        let prefix = self.number.to_be_bytes();
        let mut differences = Vec::new();
        let mut objects = snapshot.iter().peekable();
        for found in with_prefix(&tables.objects, &prefix)? {
            let (key, value) = found?;
            let key = schema::key_of(key.value(), prefix.len()).map_err(damaged)?;
            // Both are sorted by key.
            while let Some(object) = objects.next_if(|object| object.key() < key.as_ref()) {
                differences.push(Difference::Changed(object.clone()));
            }
            let object = objects.next_if(|object| object.key().cmp(&key.as_ref()) == Ordering::Equal);
            differences.extend(self.differs(key, value.value(), object, all)?);
        }
        differences.extend(objects.cloned().map(Difference::Changed));
        Ok(differences)
    }

    fn differs(
        &self,
        key: Key,
        kept: &[u8],
        object: Option<&Object>,
        all: bool,
    ) -> Result<Option<Difference>, redb::Error> {
        let state = schema::decode_state(self.number, key.as_ref(), kept, self.options.cipher.as_ref());
        let unreadable = match &state {
            Ok(_) => false,
            Err(RowError::Encrypted) => true,
            Err(error) => return Err(damaged(*error)),
        };
        if unreadable {
            self.metrics.unreadable();
        }
        let ended = |key| Ended {
            uid: state.as_ref().ok().map(|state| state.uid.as_str().into()),
            row: EndedRow {
                unknown: true,
                last: if unreadable { Vec::new() } else { kept.to_vec() },
            },
            key,
        };
        let same = |object: &Object| state.as_ref().is_ok_and(|state| state.is_of(object));
        let same_uid = |object: &Object| state.as_ref().map_or(true, |state| state.uid == object.uid());
        Ok(match object {
            Some(object) if same(object) && !all => None,
            Some(object) if same_uid(object) => Some(Difference::Changed(object.clone())),
            now => Some(Difference::Deleted {
                ended: ended(key),
                now: now.cloned(),
            }),
        })
    }

    /// How a handler of an earlier process resumes.
    pub(crate) fn resume(
        &self,
        tables: &Tables<'_>,
        name: &str,
        handler: &HandlerState,
        accepts: bool,
    ) -> Result<ResumeState, redb::Error> {
        let letters = self.restored_letters(tables, name, handler)?;
        let is_letter = |key: &Key, last: Option<&Object>| {
            let letter = letters.get(key).and_then(|letter| letter.delete.as_ref());
            let failed = letter.and_then(|delete| delete.last.as_ref());
            failed.is_some_and(|failed| last.is_some_and(|last| last.uid() == failed.uid()))
        };
        let mut deletes = Vec::new();
        let ended = handler
            .open
            .iter()
            .flat_map(|(key, ended)| ended.iter().map(move |one| (key, one)));
        for (key, incarnation) in ended {
            let row_key = schema::ended_key(self.number, name, key.as_ref(), incarnation.number);
            let Some(found) = tables.ended.get(&row_key[..])? else {
                continue;
            };
            let row = EndedRow::decode(found.value()).map_err(damaged)?;
            let vanished = self.vanished(key, &row);
            if accepts && is_letter(key, vanished.last.as_ref()) {
                continue;
            }
            deletes.push(vanished);
        }
        let unstored = handler.unstored.all();
        deletes.extend(unstored.iter().map(|ended| self.vanished(&ended.key, &ended.row)));
        // Those of one key follow each other, the stored ones first: they are older.
        deletes.sort_by(|one, other| one.key.cmp(&other.key));
        let accepted = if accepts {
            Some(self.accepted(tables, handler, &letters)?.into())
        } else {
            None
        };
        let mut dead_letters: Vec<DeadLetter> = letters.into_values().collect();
        dead_letters.sort_by_key(|letter| std::cmp::Reverse(letter.age_before));
        Ok(ResumeState {
            deletes,
            accepted,
            dead_letters: Some(dead_letters),
            requeues: self.restored_requeues(tables, name)?,
            takeover: None,
        })
    }

    /// The deletes for handlers that were attached before the database could be read.
    pub(crate) fn late_deletes(&mut self, tables: &Tables<'_>) -> Result<Vec<LateDeletes>, redb::Error> {
        let mut late = Vec::new();
        for (name, handler) in &self.handlers {
            if let Some(listener) = handler.listener.as_ref().filter(|_| handler.attached_unread) {
                let mut gone = self.resume(tables, name, handler, false)?.deletes;
                // Those it has received from this process.
                gone.retain(|gone| {
                    let uid = gone.last.as_ref().map(Object::uid);
                    !self.unpersisted_deletes.has(&gone.key, uid)
                });
                late.push((listener.clone(), gone));
            }
        }
        for handler in self.handlers.values_mut() {
            if std::mem::take(&mut handler.attached_unread) {
                handler.unstored.clear();
            }
        }
        Ok(late)
    }

    /// The states that a handler has acknowledged, and those that are dead letters.
    fn accepted(
        &self,
        tables: &Tables<'_>,
        handler: &HandlerState,
        letters: &BTreeMap<Key, DeadLetter>,
    ) -> Result<AcceptedStates, redb::Error> {
        let prefix = self.number.to_be_bytes();
        let mut accepted = AcceptedStates::default();
        for found in with_prefix(&tables.objects, &prefix)? {
            let (key, value) = found?;
            let key = schema::key_of(key.value(), prefix.len()).map_err(damaged)?;
            let letter = letters.get(&key).and_then(|letter| letter.resource_version.as_deref());
            let ended = handler.open.get(&key);
            // A delete that is delivered before it may change its fate.
            if ended.is_some_and(|ended| letter.is_none() || !ended.is_empty()) {
                continue;
            }
            let cipher = self.options.cipher.as_ref();
            if let Ok(state) = schema::decode_state(self.number, key.as_ref(), value.value(), cipher)
                && (ended.is_none() || letter == Some(&state.version))
            {
                accepted.insert(key, &state.uid, &state.version);
            }
        }
        Ok(accepted)
    }
}

/// The incarnations in the rows of a key whose deletes the handler of a source has not acknowledged, oldest first.
pub(crate) fn stored_ends(
    tables: &Tables<'_>,
    (source, name): (u32, &str),
    key: &Key,
    cipher: Option<&Cipher>,
) -> Result<Vec<Incarnation>, redb::Error> {
    let of_handler = schema::open_prefix(source, name).len();
    let mut prefix = schema::open_key(source, name, key.as_ref());
    prefix.push(0);
    let mut ends = Vec::new();
    for found in with_prefix(&tables.ended, &prefix)? {
        let (row_key, row) = found?;
        let (_, number) = schema::incarnation_of(row_key.value(), of_handler).map_err(damaged)?;
        let row = EndedRow::decode(row.value()).map_err(damaged)?;
        let last = schema::decode_state(source, key.as_ref(), &row.last, cipher).ok();
        let uid = last.map(|last| last.uid.into());
        ends.push(Incarnation { number, uid });
    }
    Ok(ends)
}

/// The changes between two snapshots of one source, deletes first. The final states of deleted objects are unknown.
pub(crate) fn difference(before: &Snapshot, after: &Snapshot, now: Moment) -> Vec<ObjectChange> {
    let change = |kind| ObjectChange {
        kind,
        reason: Reason::Watch,
        received: now,
    };
    let is_gone = |object: &&Object| after.get(object.key()).is_none();
    let deletes = before.iter().filter(is_gone).map(|object| {
        let key = object.key().to_key();
        change(match after.is_about(object.key()) {
            true => ChangeKind::Delete {
                last: Some(object.clone()),
                key,
                final_state_unknown: true,
            },
            // Another process reads it.
            false => ChangeKind::Forget { key },
        })
    });
    let states = after.iter().filter_map(|object| match before.get(object.key()) {
        None => Some(change(ChangeKind::Add(object.clone()))),
        // An object whose body was shed, or has returned, did not change.
        Some(old) if old.is_same_state(object) => None,
        Some(old) => Some(change(ChangeKind::Update {
            old: old.clone(),
            new: object.clone(),
        })),
    });
    deletes.chain(states).collect()
}

/// Calls `each` for the changes in `entries`, which follow the snapshot `before`, with the index of their entry.
pub(crate) fn for_each_change(before: &Snapshot, entries: &[JournalEntry], mut each: impl FnMut(usize, &ObjectChange)) {
    let mut current = before;
    for (place, entry) in entries.iter().enumerate() {
        match entry {
            JournalEntry::Push(snapshot, changes, _) => {
                changes.iter().for_each(|change| each(place, change));
                current = snapshot;
            }
            JournalEntry::Difference(snapshot, now) => {
                let changes = difference(current, snapshot, *now);
                changes.iter().for_each(|change| each(place, change));
                current = snapshot;
            }
            JournalEntry::Begin { snapshot, .. } => current = snapshot,
            _ => {}
        }
    }
}

#[cfg(test)]
mod tests {
    use informant_cache::StoreWriter;
    use informant_object::Shape;

    use super::*;

    #[test]
    fn shedding_and_returning_are_no_changes() {
        let text = format!(
            r#"{{"metadata":{{"namespace":"a","name":"b","uid":"u","resourceVersion":"7"}},"data":{{"k":"{}"}}}}"#,
            "x".repeat(1_024)
        );
        let whole = Object::parse(text.as_bytes(), &Shape::verbatim()).unwrap();
        let mut writer = StoreWriter::new();
        writer.add(whole.clone());
        let before = writer.publish();
        writer.shed_namespace("a");
        while writer.shed_some(1) {}
        let shed = writer.publish();
        writer.unshed_namespace("a");
        assert!(writer.restore_body(whole));
        let after = writer.publish();
        assert_eq!(shed.heads(), 1);
        assert!(difference(&before, &shed, Moment::ZERO).is_empty());
        assert!(difference(&shed, &after, Moment::ZERO).is_empty());
    }
}
