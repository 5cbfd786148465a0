//! One group of one source: what was acknowledged and what changed into a transaction. Then it is handed on
//! (`hand_on`).

use std::collections::BTreeMap;

use informant_cache::ListenerHandle;
use informant_cache::listener::{Change, ChangeKind, Resume};
use informant_object::{Key, Object};
use redb::ReadableTable as _;

use crate::catch_up::{Differs, LateDeletes, damaged, difference};
use crate::handler::{Acknowledged, Handler, TOMBSTONES_MAX};
use crate::queue::Order;
use crate::recorder::source_row;
use crate::row::{self, HandlerRow, OpenRow, SourceRow};
use crate::source::{Names, OnStart, Recorded};
use crate::store::Tables;

/// What a source brings into a transaction.
pub(crate) struct Group {
    pub(crate) orders: Vec<Order>,
    acknowledged: BTreeMap<String, Acknowledged>,
    /// How those that are attached in this group begin, by their place among the orders.
    pub(crate) resumes: BTreeMap<usize, Resume>,
    /// What comes before all that.
    pub(crate) late: Vec<LateDeletes>,
}

impl Group {
    /// Whether a transaction is worth while.
    pub(crate) fn is_worth_keeping(&self) -> bool {
        !self.orders.is_empty() || !self.acknowledged.is_empty()
    }
}

/// Before the transaction.
impl Recorded {
    /// Takes what waits, and looks up what listeners have acknowledged of what was handed on before.
    pub(crate) fn gather(&mut self) -> Group {
        let orders = self.inbox.take();
        let somebody_waits = orders.iter().any(|order| matches!(order, Order::Flush(_)));
        let mut acknowledged = BTreeMap::new();
        for (name, handler) in &mut self.handlers {
            match self.id {
                Some(id) if self.is_known => {
                    let found = handler.look_up(id, somebody_waits);
                    if !found.is_nothing() {
                        acknowledged.insert(name.clone(), found);
                    }
                }
                Some(id) => handler.look_whether_shown(id),
                None => {}
            }
        }
        Group {
            orders,
            acknowledged,
            resumes: BTreeMap::new(),
            late: Vec::new(),
        }
    }
}

/// In the transaction. An error leaves what is remembered here wrong: it is to be read again.
impl Recorded {
    /// Writes a group.
    pub(crate) fn keep(
        &mut self,
        tables: &mut Tables<'_>,
        group: &mut Group,
        names: &Names,
    ) -> Result<(), redb::Error> {
        let acknowledged = std::mem::take(&mut group.acknowledged);
        for (name, acknowledged) in &acknowledged {
            self.close(tables, name, acknowledged)?;
        }
        let mut current = self.current.clone();
        let was_known = self.is_known;
        if !was_known {
            self.keep_all(tables, group)?;
            group.late = self.late_deletes(tables)?;
        }
        for (place, order) in group.orders.iter().enumerate() {
            match order {
                Order::Begin { snapshot, .. } => current = snapshot.clone(),
                Order::Push(snapshot, changes, _) => {
                    current = snapshot.clone();
                    if was_known {
                        self.keep_changes(tables, changes)?;
                    }
                }
                Order::Difference(snapshot, now) => {
                    if was_known {
                        self.keep_changes(tables, &difference(&current, snapshot, *now))?;
                    }
                    current = snapshot.clone();
                }
                Order::Attach(listener, _) => {
                    if let Some(resume) = self.keep_attached(tables, listener, names)? {
                        group.resumes.insert(place, resume);
                    }
                }
                Order::Adopt(listener, _) => self.keep_adopted(tables, listener, names)?,
                Order::Detach(listener) => {
                    if let Some(name) = self.lose(listener) {
                        tables.clear_handler(self.number, &name)?;
                    }
                }
                Order::Flush(_) => {}
            }
        }
        self.keep_heads(tables, &row::through(current.version()))
    }

    /// Notes what a handler has acknowledged.
    fn close(&mut self, tables: &mut Tables<'_>, name: &str, found: &Acknowledged) -> Result<(), redb::Error> {
        let Some(handler) = self.handlers.get_mut(name) else {
            return Ok(());
        };
        handler.all_open = found.all_open.unwrap_or(handler.all_open);
        for key in &found.opened {
            let row_key = row::open_key(self.number, name, key.as_ref());
            tables.open.insert(&row_key[..], &OpenRow::State.encode()[..])?;
            handler.set(key.clone(), false);
        }
        for key in &found.closed {
            tables
                .open
                .remove(&row::open_key(self.number, name, key.as_ref())[..])?;
            handler.close(key);
        }
        Ok(())
    }

    /// Makes the database say what the newest snapshot says, whatever it said before.
    fn keep_all(&mut self, tables: &mut Tables<'_>, group: &Group) -> Result<(), redb::Error> {
        self.number = source_row(tables, &self.options.identity.row_key(), &self.options.form)?.number;
        self.read_handlers(tables)?;
        let newest = group.orders.iter().rev().find_map(|order| match order {
            Order::Begin { snapshot, .. } | Order::Push(snapshot, ..) | Order::Difference(snapshot, _) => {
                Some(snapshot)
            }
            _ => None,
        });
        let began = group.orders.iter().any(|order| matches!(order, Order::Begin { .. }));
        if self.id.is_none() && !began {
            return Ok(());
        }
        let restored = |order: &Order| matches!(order, Order::Begin { restored: true, .. });
        let distrusted = self.distrusted || self.has_other_form(tables)? || group.orders.iter().any(restored);
        if distrusted {
            self.handlers.values_mut().for_each(|handler| handler.all_open = true);
        }
        let snapshot = newest.unwrap_or(&self.current).clone();
        let differences = self.differences(tables, &snapshot, distrusted)?;
        self.note_gone(&group.orders);
        for (key, gone) in self.unkept_gone.clone() {
            self.keep_gone(tables, &key, gone)?;
        }
        for differs in differences {
            match differs {
                Differs::State(object) => self.keep_state(tables, &object)?,
                Differs::Gone { key, last, now } => {
                    self.keep_gone(tables, &key, OpenRow::Gone { unknown: true, last })?;
                    if let Some(now) = now {
                        self.keep_state(tables, &now)?;
                    }
                }
            }
        }
        self.is_known = true;
        self.distrusted = false;
        Ok(())
    }

    fn has_other_form(&self, tables: &Tables<'_>) -> Result<bool, redb::Error> {
        let found = tables.sources.get(&self.options.identity.row_key()[..])?;
        let kept = found
            .map(|row| SourceRow::decode(row.value()))
            .transpose()
            .map_err(damaged)?;
        Ok(kept.is_some_and(|kept| kept.form != self.options.form))
    }

    fn keep_changes(&mut self, tables: &mut Tables<'_>, changes: &[Change]) -> Result<(), redb::Error> {
        for change in changes {
            if let Some((key, gone)) = self.gone(change) {
                self.keep_gone(tables, &key, gone)?;
            }
            if let ChangeKind::Add(object) | ChangeKind::Update { new: object, .. } = &change.kind {
                self.keep_state(tables, object)?;
            }
        }
        Ok(())
    }

    /// The incarnation that ends by a change.
    pub(crate) fn gone(&self, change: &Change) -> Option<(Key, OpenRow)> {
        let (key, last, unknown) = match &change.kind {
            ChangeKind::Update { old, new } if old.uid() != new.uid() => (old.key().to_key(), Some(old), true),
            ChangeKind::Delete {
                last,
                key,
                final_state_unknown,
            } => (key.clone(), last.as_ref(), *final_state_unknown),
            ChangeKind::Add(_) | ChangeKind::Update { .. } => return None,
        };
        let last = last.map_or_else(Vec::new, |last| self.encode(last));
        Some((key, OpenRow::Gone { unknown, last }))
    }

    /// The object is in this state, which nobody has acknowledged.
    fn keep_state(&mut self, tables: &mut Tables<'_>, object: &Object) -> Result<(), redb::Error> {
        let row_key = row::object_key(self.number, object.key());
        tables.objects.insert(&row_key[..], &self.encode(object)[..])?;
        let key = object.key().to_key();
        for (name, handler) in &mut self.handlers {
            // A delete that is still to be told stays in front of what came after it.
            if handler.all_open || handler.open.contains_key(&key) {
                continue;
            }
            let row_key = row::open_key(self.number, name, key.as_ref());
            tables.open.insert(&row_key[..], &OpenRow::State.encode()[..])?;
            handler.set(key.clone(), false);
        }
        Ok(())
    }

    /// The object is gone, which nobody has acknowledged.
    fn keep_gone(&mut self, tables: &mut Tables<'_>, key: &Key, gone: OpenRow) -> Result<(), redb::Error> {
        tables.objects.remove(&row::object_key(self.number, key.as_ref())[..])?;
        let gone = gone.encode();
        for (name, handler) in &mut self.handlers {
            // Of several incarnations the handler knows the first.
            if handler.is_gone(key) {
                continue;
            }
            if handler.tombstones >= TOMBSTONES_MAX {
                let numbers = handler.numbers.get_or_insert_with(|| self.numbers.handler(name));
                numbers.tombstones_dropped.inc();
                continue;
            }
            let row_key = row::open_key(self.number, name, key.as_ref());
            tables.open.insert(&row_key[..], &gone[..])?;
            handler.set(key.clone(), true);
        }
        Ok(())
    }

    /// A listener is about to be attached. What it begins with, if an earlier process told it of the source.
    fn keep_attached(
        &mut self,
        tables: &mut Tables<'_>,
        listener: &ListenerHandle,
        names: &Names,
    ) -> Result<Option<Resume>, redb::Error> {
        let Some((name, on_start)) = self.claim(listener, names) else {
            return Ok(None);
        };
        let known = self.handlers.remove(&name);
        let is_known = known.is_some();
        let mut handler = known.unwrap_or_else(Handler::unknown);
        handler.listener = Some(listener.clone());
        handler.on_start = on_start;
        let accepts = on_start == OnStart::Continue && !handler.all_open;
        handler.all_open = !accepts;
        let resume = if is_known {
            Some(self.resume(tables, &name, &handler, accepts)?)
        } else {
            tables.clear_handler(self.number, &name)?;
            None
        };
        self.handlers.insert(name, handler);
        Ok(resume)
    }

    /// A listener is about to go over to this source from others. What it knows it knows from them: what an earlier
    /// process told it of this source is of no account, and what it has acknowledged is found out anew.
    fn keep_adopted(
        &mut self,
        tables: &mut Tables<'_>,
        listener: &ListenerHandle,
        names: &Names,
    ) -> Result<(), redb::Error> {
        let Some((name, on_start)) = self.claim(listener, names) else {
            return Ok(());
        };
        tables.clear_handler(self.number, &name)?;
        let handler = Handler {
            listener: Some(listener.clone()),
            on_start,
            ..Handler::unknown()
        };
        self.handlers.insert(name, handler);
        Ok(())
    }

    /// The rows of the source and its handlers, where they changed.
    fn keep_heads(&mut self, tables: &mut Tables<'_>, through: &str) -> Result<(), redb::Error> {
        for (name, handler) in &mut self.handlers {
            let numbers = handler.numbers.get_or_insert_with(|| self.numbers.handler(name));
            numbers.open.set(handler.open.len());
            let head = HandlerRow {
                all_open: handler.all_open,
                through: through.to_owned(),
            };
            if handler.head_kept.as_ref() != Some(&head) {
                let row_key = row::handler_key(self.number, name);
                tables.handlers.insert(&row_key[..], &head.encode()[..])?;
                handler.head_kept = Some(head);
            }
        }
        let head = SourceRow {
            number: self.number,
            high_water: self.inbox.high_water(),
            form: self.options.form.clone(),
        };
        // Until the first list is compared, the form is that of what was kept.
        if self.is_known && self.row_kept.as_ref() != Some(&head) {
            let row_key = self.options.identity.row_key();
            tables.sources.insert(&row_key[..], &head.encode()[..])?;
            self.row_kept = Some(head);
        }
        Ok(())
    }

    fn encode(&self, object: &Object) -> Vec<u8> {
        row::encode_state(self.number, object, self.options.keep, self.options.sealer.as_ref())
    }
}
