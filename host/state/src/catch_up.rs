//! What the database has, against what there is.

use std::cmp::Ordering;
use std::collections::BTreeMap;

use informant_cache::listener::{AcceptedStates, Change, ChangeKind, Resume, Vanished};
use informant_cache::{ListenerHandle, Moment, Reason, Snapshot};
use informant_object::{Key, Object};
use redb::ReadableTable as _;

use crate::handler::Handler;
use crate::row::{self, HandlerRow, OpenRow, RowError};
use crate::source::Recorded;
use crate::store::Tables;

/// What a handler is told to be gone after it was shown what is there.
pub(crate) type LateDeletes = (ListenerHandle, Vec<Vanished>);

/// How one object differs from what is kept of it.
pub(crate) enum Differs {
    /// It is new, or in another state.
    State(Object),
    /// What was kept, by its row, is gone; `now` is another incarnation.
    Gone {
        key: Key,
        last: Vec<u8>,
        now: Option<Object>,
    },
}

impl Recorded {
    /// Reads what the database has of handlers. Those that nobody expects are forgotten.
    pub(crate) fn read_handlers(&mut self, tables: &mut Tables<'_>) -> Result<(), redb::Error> {
        let prefix = self.number.to_be_bytes();
        let end = row::after(&prefix);
        let mut kept = BTreeMap::new();
        for found in tables.handlers.range::<&[u8]>(&prefix[..]..&end[..])? {
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
            let mut handler = Handler {
                all_open,
                ..Handler::default()
            };
            if let Some(before) = present {
                // What could not be kept may have been anything.
                handler.all_open |= before.all_open;
                handler.listener = before.listener.clone();
                handler.on_start = before.on_start;
                handler.is_unasked = before.is_unasked;
                handler.seen_shown = before.seen_shown;
                handler.numbers = before.numbers.take();
            }
            self.read_open(tables, &name, &mut handler)?;
            known.insert(name, handler);
        }
        // Of the others nothing was kept. Nothing can fail from here on: a handler that is let go of is told of nothing
        // more.
        for (name, before) in std::mem::take(&mut self.handlers) {
            if known.contains_key(&name) {
                continue;
            }
            let handler = Handler {
                listener: before.listener,
                on_start: before.on_start,
                numbers: before.numbers,
                seen_shown: before.seen_shown,
                ..Handler::unknown()
            };
            known.insert(name, handler);
        }
        self.handlers = known;
        Ok(())
    }

    fn read_open(&self, tables: &Tables<'_>, name: &str, handler: &mut Handler) -> Result<(), redb::Error> {
        let prefix = row::open_prefix(self.number, name);
        let end = row::after(&prefix);
        for found in tables.open.range::<&[u8]>(&prefix[..]..&end[..])? {
            let (key, value) = found?;
            let key = row::key_of(key.value(), prefix.len()).map_err(damaged)?;
            let gone = matches!(OpenRow::decode(value.value()).map_err(damaged)?, OpenRow::Gone { .. });
            handler.set(key, gone);
        }
        Ok(())
    }

    /// How `snapshot` differs from what is kept. With `all`, every object counts as being in another state.
    pub(crate) fn differences(
        &self,
        tables: &Tables<'_>,
        snapshot: &Snapshot,
        all: bool,
    ) -> Result<Vec<Differs>, redb::Error> {
        let prefix = self.number.to_be_bytes();
        let end = row::after(&prefix);
        let mut differences = Vec::new();
        let mut objects = snapshot.iter().peekable();
        for found in tables.objects.range::<&[u8]>(&prefix[..]..&end[..])? {
            let (key, value) = found?;
            let key = row::key_of(key.value(), prefix.len()).map_err(damaged)?;
            // Both are in the order of keys.
            while let Some(object) = objects.next_if(|object| object.key() < key.as_ref()) {
                differences.push(Differs::State(object.clone()));
            }
            let object = objects.next_if(|object| object.key().cmp(&key.as_ref()) == Ordering::Equal);
            differences.extend(self.differs(key, value.value(), object, all)?);
        }
        differences.extend(objects.cloned().map(Differs::State));
        Ok(differences)
    }

    fn differs(
        &self,
        key: Key,
        kept: &[u8],
        object: Option<&Object>,
        all: bool,
    ) -> Result<Option<Differs>, redb::Error> {
        let state = row::decode_state(self.number, key.as_ref(), kept, self.options.sealer.as_ref());
        let unreadable = match &state {
            Ok(_) => false,
            Err(RowError::Sealed) => true,
            Err(error) => return Err(damaged(*error)),
        };
        if unreadable {
            self.numbers.unreadable();
        }
        let last = || if unreadable { Vec::new() } else { kept.to_vec() };
        let same = |object: &Object| state.as_ref().is_ok_and(|state| state.is_of(object));
        let same_uid = |object: &Object| state.as_ref().map_or(true, |state| state.uid == object.uid());
        Ok(match object {
            Some(object) if same(object) && !all => None,
            Some(object) if same_uid(object) => Some(Differs::State(object.clone())),
            now => Some(Differs::Gone {
                last: last(),
                key,
                now: now.cloned(),
            }),
        })
    }

    /// What a handler of an earlier process is shown.
    pub(crate) fn resume(
        &self,
        tables: &Tables<'_>,
        name: &str,
        handler: &Handler,
        accepts: bool,
    ) -> Result<Resume, redb::Error> {
        let mut deletes = Vec::new();
        let gone = handler.open.iter().filter(|(_, gone)| **gone);
        for (key, _) in gone {
            let found = tables.open.get(&row::open_key(self.number, name, key.as_ref())[..])?;
            let Some(found) = found else { continue };
            if let OpenRow::Gone { unknown, last } = OpenRow::decode(found.value()).map_err(damaged)? {
                let sealer = self.options.sealer.as_ref();
                let state = row::decode_state(self.number, key.as_ref(), &last, sealer).ok();
                deletes.push(Vanished {
                    key: key.clone(),
                    last: state.and_then(|state| state.object()),
                    final_state_unknown: unknown,
                });
            }
        }
        let accepted = if accepts {
            Some(self.accepted(tables, handler)?.into())
        } else {
            None
        };
        Ok(Resume { deletes, accepted })
    }

    /// What handlers that were attached before the database could be asked are still to be told is gone.
    pub(crate) fn late_deletes(&mut self, tables: &Tables<'_>) -> Result<Vec<LateDeletes>, redb::Error> {
        let mut late = Vec::new();
        for (name, handler) in &self.handlers {
            if let Some(listener) = handler.listener.as_ref().filter(|_| handler.is_unasked) {
                let mut gone = self.resume(tables, name, handler, false)?.deletes;
                gone.retain(|gone| !self.unkept_gone.contains_key(&gone.key));
                late.push((listener.clone(), gone));
            }
        }
        for handler in self.handlers.values_mut() {
            handler.is_unasked = false;
        }
        Ok(late)
    }

    /// The states that a handler has acknowledged.
    fn accepted(&self, tables: &Tables<'_>, handler: &Handler) -> Result<AcceptedStates, redb::Error> {
        let prefix = self.number.to_be_bytes();
        let end = row::after(&prefix);
        let mut accepted = AcceptedStates::default();
        for found in tables.objects.range::<&[u8]>(&prefix[..]..&end[..])? {
            let (key, value) = found?;
            let key = row::key_of(key.value(), prefix.len()).map_err(damaged)?;
            if handler.open.contains_key(&key) {
                continue;
            }
            let sealer = self.options.sealer.as_ref();
            if let Ok(state) = row::decode_state(self.number, key.as_ref(), value.value(), sealer) {
                accepted.insert(key, &state.uid, &state.version);
            }
        }
        Ok(accepted)
    }
}

pub(crate) fn damaged(error: RowError) -> redb::Error {
    redb::Error::Corrupted(error.to_string())
}

/// The difference of two snapshots of one source, deletes first. Of what is gone the final state was not seen.
pub(crate) fn difference(before: &Snapshot, after: &Snapshot, now: Moment) -> Vec<Change> {
    let change = |kind| Change {
        kind,
        reason: Reason::Watch,
        received: now,
    };
    let is_gone = |object: &&Object| after.get(object.key()).is_none();
    let deletes = before.iter().filter(is_gone).map(|object| {
        change(ChangeKind::Delete {
            last: Some(object.clone()),
            key: object.key().to_key(),
            final_state_unknown: true,
        })
    });
    let states = after.iter().filter_map(|object| match before.get(object.key()) {
        None => Some(change(ChangeKind::Add(object.clone()))),
        Some(old) if old.ptr_eq(object) => None,
        Some(old) => Some(change(ChangeKind::Update {
            old: old.clone(),
            new: object.clone(),
        })),
    });
    deletes.chain(states).collect()
}
