//! Persists one batch of one source: writes acknowledgements and changes into a transaction. Delivery follows in
//! `deliver`.

use std::cell::OnceCell;
use std::collections::BTreeMap;

use informant_cache::listener::{ChangeKind, ObjectChange, ResumeState};
use informant_cache::seeded_bug::{SeededBug, seeded_bug};
use informant_cache::{ListenerHandle, Snapshot};
use informant_object::{Key, Object};

use crate::handler_state::{Acknowledgements, Ended, HandlerState, OnStart};
use crate::journal::JournalEntry;
use crate::key_value::EndedKeys;
use crate::reconcile::{Difference, LateDeletes, difference, for_each_change, stored_ends};
use crate::schema::{self, EndedRow, HandlerRow, SourceRow};
use crate::source::{ListenerNames, PersistedSource, source_row};
use crate::tables::Tables;

/// What a source contributes to a transaction.
pub(crate) struct SourceBatch {
    pub(crate) entries: Vec<JournalEntry>,
    acknowledged: BTreeMap<String, Acknowledgements>,
    /// How the listeners that are attached in this batch resume, by their index among the entries.
    pub(crate) resumes: BTreeMap<usize, ResumeState>,
    /// Deletes to deliver before the entries.
    pub(crate) late: Vec<LateDeletes>,
}

impl SourceBatch {
    /// Whether there is anything to write.
    pub(crate) fn has_changes(&self) -> bool {
        !self.entries.is_empty() || !self.acknowledged.is_empty()
    }
}

/// Before the transaction.
impl PersistedSource {
    /// Takes the pending entries, and reads from listeners what they have acknowledged.
    /// Those of the keys in `ended` are read in any case.
    pub(crate) fn gather(&mut self, ended: &EndedKeys) -> SourceBatch {
        let entries = self.queue.take();
        let somebody_waits = entries.iter().any(|entry| matches!(entry, JournalEntry::Flush(_)));
        let mut acknowledged = BTreeMap::new();
        let now = self.now();
        for (name, handler) in &mut self.handlers {
            match self.id {
                Some(id) if self.is_verified => {
                    let ended = ended.get(&(id, name.clone())).map_or(&[][..], Vec::as_slice);
                    let found = handler.poll_acknowledged(id, now, somebody_waits, ended);
                    if !found.is_empty() {
                        acknowledged.insert(name.clone(), found);
                    }
                }
                Some(id) => handler.check_replaying(id),
                None => {}
            }
        }
        SourceBatch {
            entries,
            acknowledged,
            resumes: BTreeMap::new(),
            late: Vec::new(),
        }
    }
}

/// Runs in the transaction. After an error the in-memory state is invalid and must be read from the database again.
impl PersistedSource {
    pub(crate) fn keep(
        &mut self,
        tables: &mut Tables<'_>,
        batch: &mut SourceBatch,
        names: &ListenerNames,
    ) -> Result<(), redb::Error> {
        let acknowledged = std::mem::take(&mut batch.acknowledged);
        for (name, acknowledged) in &acknowledged {
            self.close(tables, name, acknowledged)?;
        }
        let mut current = self.current.clone();
        let ends = OnceCell::new();
        let was_known = self.is_verified;
        if !was_known {
            self.persist_all(tables, batch)?;
            batch.late = self.late_deletes(tables)?;
        }
        for (place, entry) in batch.entries.iter().enumerate() {
            match entry {
                JournalEntry::Begin { snapshot, .. } => current = snapshot.clone(),
                JournalEntry::Push(snapshot, changes, _) => {
                    current = snapshot.clone();
                    if was_known {
                        self.persist_changes(tables, changes)?;
                    }
                }
                JournalEntry::Difference(snapshot, now) => {
                    if was_known {
                        self.persist_changes(tables, &difference(&current, snapshot, *now))?;
                    }
                    current = snapshot.clone();
                }
                JournalEntry::Attach(listener, ..) => {
                    if let Some(mut resume) = self.persist_attach(tables, listener, names)? {
                        if !was_known && !seeded_bug(SeededBug::LaterDeletesResumed) {
                            // All deletes of this batch are stored already; the listener receives the later ones as
                            // changes.
                            let ends = ends.get_or_init(|| ends_in(&self.current, &batch.entries));
                            resume.deletes.retain(|gone| {
                                let uid = gone.last.as_ref().map(|last| last.uid().into());
                                ends.get(&(gone.key.clone(), uid)).is_none_or(|last| *last < place)
                            });
                        }
                        batch.resumes.insert(place, resume);
                    }
                }
                JournalEntry::Transfer(listener, _) => self.persist_transfer(tables, listener, names)?,
                JournalEntry::Detach(listener) => {
                    if let Some(name) = self.remove_listener(listener) {
                        tables.clear_handler(self.number, &name)?;
                    }
                }
                JournalEntry::HandOver(listener) => self.release_listener(listener),
                JournalEntry::Flush(_) => {}
            }
        }
        self.persist_headers(tables, &schema::version_text(current.version()))
    }

    /// Records what a handler has acknowledged.
    fn close(&mut self, tables: &mut Tables<'_>, name: &str, found: &Acknowledgements) -> Result<(), redb::Error> {
        let Some(handler) = self.handlers.get_mut(name) else {
            return Ok(());
        };
        handler.all_open = found.all_open.unwrap_or(handler.all_open);
        for key in &found.opened {
            let row_key = schema::open_key(self.number, name, key.as_ref());
            tables.open.insert(&row_key[..], schema::IS_OPEN)?;
            handler.open(key);
        }
        for key in &found.closed {
            let row_key = schema::open_key(self.number, name, key.as_ref());
            tables.open.remove(&row_key[..])?;
            for incarnation in handler.close(key) {
                let row_key = schema::incarnation_key(row_key.clone(), incarnation.number);
                tables.ended.remove(&row_key[..])?;
            }
        }
        for (key, finished) in &found.finished {
            let row_key = schema::open_key(self.number, name, key.as_ref());
            for number in finished {
                let row_key = schema::incarnation_key(row_key.clone(), *number);
                tables.ended.remove(&row_key[..])?;
            }
            if handler.finish(key, finished) {
                // What keeps it open is its present state, or the one before its last delete.
                tables.open.insert(&row_key[..], schema::IS_OPEN)?;
            }
        }
        if let Some(changes) = &found.letters {
            handler.persist_letters(tables, (self.number, name), &self.options, changes)?;
        }
        if let Some(changes) = &found.requeues {
            handler.persist_requeues(tables, (self.number, name), &self.options, changes)?;
        }
        Ok(())
    }

    /// Makes the database match the newest snapshot, whatever it contains.
    fn persist_all(&mut self, tables: &mut Tables<'_>, batch: &SourceBatch) -> Result<(), redb::Error> {
        let row = source_row(tables, &self.options)?;
        self.number = row.number;
        let newest = batch.entries.iter().rev().find_map(|entry| match entry {
            JournalEntry::Begin { snapshot, .. }
            | JournalEntry::Push(snapshot, ..)
            | JournalEntry::Difference(snapshot, _) => Some(snapshot),
            _ => None,
        });
        let began = batch
            .entries
            .iter()
            .any(|entry| matches!(entry, JournalEntry::Begin { .. }));
        let is_listed = self.id.is_some() || began;
        if is_listed && row.request.is_some_and(|request| request != self.options.request) {
            tables.clear(self.number)?;
        }
        self.read_handlers(tables)?;
        if !is_listed {
            return Ok(());
        }
        let restored = |entry: &JournalEntry| matches!(entry, JournalEntry::Begin { restored: true, .. });
        let versions_incomparable =
            self.versions_incomparable || row.form != self.options.form || batch.entries.iter().any(restored);
        if versions_incomparable {
            self.handlers.values_mut().for_each(|handler| handler.all_open = true);
        }
        let snapshot = newest.unwrap_or(&self.current).clone();
        let differences = self.differences(tables, &snapshot, versions_incomparable)?;
        self.record_deletes(&batch.entries);
        for differs in &differences {
            if let Difference::Deleted { ended, .. } = differs
                && !self.unpersisted_deletes.has(&ended.key, ended.uid.as_deref())
            {
                self.persist_delete(tables, ended)?;
            }
        }
        for ended in self.unpersisted_deletes.all() {
            self.persist_delete(tables, &ended)?;
        }
        for differs in differences {
            if let Difference::Changed(now) | Difference::Deleted { now: Some(now), .. } = differs {
                self.persist_state(tables, &now)?;
            }
        }
        self.is_verified = true;
        self.versions_incomparable = false;
        Ok(())
    }

    fn persist_changes(&mut self, tables: &mut Tables<'_>, changes: &[ObjectChange]) -> Result<(), redb::Error> {
        for change in changes {
            if let Some(ended) = self.ended(change) {
                self.persist_delete(tables, &ended)?;
            }
            if let ChangeKind::Add(object) | ChangeKind::Update { new: object, .. } = &change.kind {
                self.persist_state(tables, object)?;
            }
            if let ChangeKind::Forget { key } = &change.kind {
                self.forget(tables, key)?;
            }
        }
        Ok(())
    }

    /// Another process reads the object from now on, and keeps what handlers have not acknowledged of it.
    fn forget(&mut self, tables: &mut Tables<'_>, key: &Key) -> Result<(), redb::Error> {
        let row_key = schema::object_key(self.number, key.as_ref());
        tables.objects.remove(&row_key[..])?;
        for (name, handler) in &mut self.handlers {
            let row_key = schema::open_key(self.number, name, key.as_ref());
            tables.open.remove(&row_key[..])?;
            for incarnation in handler.close(key) {
                let row_key = schema::incarnation_key(row_key.clone(), incarnation.number);
                tables.ended.remove(&row_key[..])?;
            }
        }
        Ok(())
    }

    /// The incarnation that a change ends.
    pub(crate) fn ended(&self, change: &ObjectChange) -> Option<Ended> {
        let (key, last, unknown) = end_of(change)?;
        let uid = last.map(|last| last.uid().into());
        let last = last.map_or_else(Vec::new, |last| self.encode(last));
        let row = EndedRow { unknown, last };
        Some(Ended { key, uid, row })
    }

    /// Writes an object's state, which no handler has acknowledged.
    fn persist_state(&mut self, tables: &mut Tables<'_>, object: &Object) -> Result<(), redb::Error> {
        let row_key = schema::object_key(self.number, object.key());
        tables.objects.insert(&row_key[..], &self.encode(object)[..])?;
        let key = object.key().to_key();
        for (name, handler) in &mut self.handlers {
            if handler.all_open || !handler.open(&key) {
                continue;
            }
            let row_key = schema::open_key(self.number, name, key.as_ref());
            tables.open.insert(&row_key[..], schema::IS_OPEN)?;
        }
        Ok(())
    }

    /// Writes the end of an incarnation, whose delete no handler has acknowledged. Deletes of earlier incarnations of
    /// the key stay in front of it: a handler that received them may have received this one, too.
    fn persist_delete(&mut self, tables: &mut Tables<'_>, ended: &Ended) -> Result<(), redb::Error> {
        let Ended { key, uid, row } = ended;
        tables
            .objects
            .remove(&schema::object_key(self.number, key.as_ref())[..])?;
        let row = row.encode();
        for (name, handler) in &mut self.handlers {
            let recorded = match handler.is_elsewhere {
                true => {
                    let known = stored_ends(tables, (self.number, name), key, self.options.cipher.as_ref())?;
                    handler.end_elsewhere(&known, uid.as_deref())
                }
                false => handler.end(key, uid.as_deref()),
            };
            let metrics = handler.metrics.get_or_insert_with(|| self.metrics.handler(name));
            match recorded {
                Ok(number) => {
                    let row_key = schema::ended_key(self.number, name, key.as_ref(), number);
                    tables.ended.insert(&row_key[..], &row[..])?;
                }
                Err(limit) => {
                    metrics.dropped(limit, uid.as_deref());
                    if handler.is_unattached() && !handler.is_elsewhere {
                        // An earlier process may have delivered this incarnation. Beyond the limits it is counted, too.
                        let _ = handler.unstored.add(ended.clone());
                    }
                }
            }
        }
        Ok(())
    }

    /// Persists that a listener is about to be attached. Returns how it resumes, if an earlier process delivered from
    /// this source.
    fn persist_attach(
        &mut self,
        tables: &mut Tables<'_>,
        listener: &ListenerHandle,
        names: &ListenerNames,
    ) -> Result<Option<ResumeState>, redb::Error> {
        let Some((name, on_start)) = self.claim(listener, names) else {
            return Ok(None);
        };
        let known = self.handlers.remove(&name);
        let is_verified = known.is_some();
        let mut handler = known.unwrap_or_else(HandlerState::all_open);
        if std::mem::take(&mut handler.is_elsewhere) {
            handler.tombstones = 0;
            self.read_open(tables, &name, &mut handler)?;
        }
        handler.listener = Some(listener.clone());
        handler.on_start = on_start;
        let accepts = on_start == OnStart::Continue && !handler.all_open;
        handler.all_open = !accepts;
        let resume = if is_verified {
            let resume = self.resume(tables, &name, &handler, accepts)?;
            handler.unstored.clear();
            Some(resume)
        } else {
            tables.clear_handler(self.number, &name)?;
            None
        };
        self.handlers.insert(name, handler);
        Ok(resume)
    }

    /// Persists that a listener is about to move here from other sources. Its knowledge comes from those sources: what
    /// an earlier process delivered from this one no longer counts. Its acknowledgements are read again.
    fn persist_transfer(
        &mut self,
        tables: &mut Tables<'_>,
        listener: &ListenerHandle,
        names: &ListenerNames,
    ) -> Result<(), redb::Error> {
        let Some((name, on_start)) = self.claim(listener, names) else {
            return Ok(());
        };
        tables.clear_handler(self.number, &name)?;
        let handler = HandlerState {
            listener: Some(listener.clone()),
            on_start,
            ..HandlerState::all_open()
        };
        self.handlers.insert(name, handler);
        Ok(())
    }

    /// Writes the rows of the source and its handlers, where they changed.
    fn persist_headers(&mut self, tables: &mut Tables<'_>, through: &str) -> Result<(), redb::Error> {
        for (name, handler) in &mut self.handlers {
            let head = HandlerRow {
                all_open: handler.all_open,
                through: through.to_owned(),
            };
            if handler.stored_row.as_ref() != Some(&head) {
                let row_key = schema::handler_key(self.number, name);
                tables.handlers.insert(&row_key[..], &head.encode()[..])?;
                handler.stored_row = Some(head);
            }
        }
        let head = SourceRow {
            number: self.number,
            high_water: self.queue.high_water(),
            form: self.options.form.clone(),
            request: Some(self.options.request.clone()),
        };
        // Until the first list is compared, form and request remain those of the stored objects.
        if self.is_verified && self.stored_row.as_ref() != Some(&head) {
            let row_key = self.options.identity.row_key();
            tables.sources.insert(&row_key[..], &head.encode()[..])?;
            self.stored_row = Some(head);
        }
        Ok(())
    }

    fn encode(&self, object: &Object) -> Vec<u8> {
        schema::encode_state(self.number, object, self.options.content, self.options.cipher.as_ref())
    }
}

/// The incarnation that a change ends: its key, its last known state, and whether its final state is unknown.
fn end_of(change: &ObjectChange) -> Option<(Key, Option<&Object>, bool)> {
    match &change.kind {
        ChangeKind::Update { old, new } if old.uid() != new.uid() => Some((old.key().to_key(), Some(old), true)),
        ChangeKind::Delete {
            last,
            key,
            final_state_unknown,
        } => Some((key.clone(), last.as_ref(), *final_state_unknown)),
        ChangeKind::Add(_) | ChangeKind::Update { .. } | ChangeKind::Forget { .. } => None,
    }
}

/// The incarnations, by key and uid, that `entries` end, which follow the snapshot `before`: each with the index of the
/// last entry that ends it. Nothing is encoded, unlike in [`PersistedSource::ended`].
fn ends_in(before: &Snapshot, entries: &[JournalEntry]) -> BTreeMap<(Key, Option<Box<str>>), usize> {
    let mut ends = BTreeMap::new();
    for_each_change(before, entries, |place, change| {
        if let Some((key, last, _)) = end_of(change) {
            ends.insert((key, last.map(|last| last.uid().into())), place);
        }
    });
    ends
}
