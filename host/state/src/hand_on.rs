//! What becomes of a group after its transaction: what could not be kept is noted, and all is handed on.

use informant_cache::listener::{Change, ChangeKind, Resume, Vanished};
use informant_cache::{ListenerHandle, Moment, Reason, Snapshot};
use informant_object::SourceId;

use crate::catch_up::difference;
use crate::group::Group;
use crate::handler::{Handler, TOMBSTONES_MAX};
use crate::queue::Order;
use crate::source::{Names, Recorded};

impl Recorded {
    /// What could not be kept is read again once it can. Who is attached is noted all the same.
    pub(crate) fn was_not_kept(&mut self, group: &mut Group, names: &Names) {
        self.doubt();
        if !self.is_forgotten {
            self.note_gone(&group.orders);
        }
        for (place, order) in group.orders.iter().enumerate() {
            match order {
                Order::Begin { restored, .. } => self.distrusted |= *restored,
                Order::Push(_, changes, _) => {
                    // What is to be forgotten is not missed.
                    if !self.is_forgotten {
                        self.numbers.unkept.inc_by(changes.len() as u64);
                    }
                }
                Order::Attach(listener, _) => {
                    if self.note_attached(listener, names) && !self.is_forgotten {
                        // It may know anything from before.
                        group.resumes.insert(place, Resume::default());
                    }
                }
                Order::Adopt(listener, _) => drop(self.note_attached(listener, names)),
                Order::Detach(listener) => drop(self.lose(listener)),
                Order::Difference(..) | Order::Flush(_) => {}
            }
        }
    }

    /// Notes what `orders`, which are not kept one by one, tell to be gone. Of several incarnations handlers know the
    /// first.
    pub(crate) fn note_gone(&mut self, orders: &[Order]) {
        let mut current = self.current.clone();
        for order in orders {
            match order {
                Order::Push(snapshot, changes, _) => {
                    self.note_gone_in(changes);
                    current = snapshot.clone();
                }
                Order::Difference(snapshot, now) => {
                    self.note_gone_in(&difference(&current, snapshot, *now));
                    current = snapshot.clone();
                }
                Order::Begin { snapshot, .. } => current = snapshot.clone(),
                _ => {}
            }
        }
    }

    fn note_gone_in(&mut self, changes: &[Change]) {
        for change in changes {
            let Some((key, gone)) = self.gone(change) else { continue };
            if self.unkept_gone.contains_key(&key) {
                continue;
            }
            if self.unkept_gone.len() >= TOMBSTONES_MAX {
                for numbers in self.handlers.values().filter_map(|handler| handler.numbers.as_ref()) {
                    numbers.tombstones_dropped.inc();
                }
                continue;
            }
            self.unkept_gone.insert(key, gone);
        }
    }

    /// Whether it is news, and has a name.
    fn note_attached(&mut self, listener: &ListenerHandle, names: &Names) -> bool {
        if self.listeners().any(|known| known.ptr_eq(listener)) {
            return false;
        }
        let Some((name, on_start)) = self.claim(listener, names) else {
            return false;
        };
        let handler = self.handlers.entry(name).or_default();
        handler.listener = Some(listener.clone());
        handler.on_start = on_start;
        handler.is_unasked = true;
        handler.all_open = true;
        true
    }

    /// Carries the orders out, in order.
    pub(crate) fn hand_on(&mut self, group: Group) {
        let Group {
            orders,
            mut resumes,
            late,
            ..
        } = group;
        for (listener, gone) in late {
            self.tell_late(&listener, gone);
        }
        // Who comes in this group is among the listeners already, and is told of nothing before.
        let comes = |order: &Order| match order {
            Order::Attach(listener, _) | Order::Adopt(listener, _) => Some(listener.clone()),
            _ => None,
        };
        let mut later: Vec<ListenerHandle> = orders.iter().filter_map(comes).collect();
        for (place, order) in orders.into_iter().enumerate() {
            if let Some(listener) = comes(&order) {
                later.retain(|other| !other.ptr_eq(&listener));
            }
            match (order, self.id) {
                (Order::Begin { source, snapshot, .. }, _) => {
                    self.id = Some(source);
                    self.current = snapshot;
                }
                (Order::Push(snapshot, changes, now), Some(id)) => self.push(id, snapshot, &changes, now, &later),
                (Order::Difference(snapshot, now), Some(id)) => {
                    let changes = difference(&self.current, &snapshot, now);
                    self.push(id, snapshot, &changes, now, &later);
                }
                (Order::Attach(listener, now), Some(id)) => {
                    self.now = now;
                    self.keep_replays(&listener, id);
                    match resumes.remove(&place) {
                        Some(resume) => listener.attach_resumed(id, &self.current, self.sensible(resume), now),
                        None => listener.attach(id, &self.current, now),
                    }
                }
                (Order::Detach(listener), Some(id)) => listener.detach(id),
                (Order::Adopt(listener, then), Some(id)) => {
                    self.keep_replays(&listener, id);
                    then();
                }
                (order, _) => self.inbox.let_fall(order),
            }
        }
        self.begin_replays();
    }

    /// Has replays of a handler that is kept wait until they are.
    fn keep_replays(&self, listener: &ListenerHandle, id: SourceId) {
        let is_kept = |handler: &Handler| handler.listener.as_ref().is_some_and(|own| own.ptr_eq(listener));
        if self.handlers.values().any(is_kept) {
            let bell = self.inbox.bell();
            listener.keep_replays(id, move || bell.ring());
        }
    }

    /// Lets the replays begin that were seen before what is kept by now. Those that could not be kept begin too: they
    /// are told, and not kept, like all else.
    fn begin_replays(&mut self) {
        let Some(id) = self.id else { return };
        for handler in self.handlers.values_mut() {
            if std::mem::take(&mut handler.seen_shown)
                && let Some(listener) = &handler.listener
            {
                listener.begin_replay(id);
            }
        }
        self.others.iter().for_each(|listener| listener.begin_replay(id));
    }

    /// Nobody keeps anything of it any more: its replays wait for nothing.
    pub(crate) fn let_replays_go(&self) {
        if let Some(id) = self.id {
            self.listeners().for_each(|listener| listener.keep_replays_no_more(id));
        }
    }

    fn push(&mut self, id: SourceId, snapshot: Snapshot, changes: &[Change], now: Moment, later: &[ListenerHandle]) {
        self.now = now;
        let is_here = |listener: &&ListenerHandle| !later.iter().any(|other| other.ptr_eq(listener));
        for listener in self.listeners().filter(is_here) {
            listener.push(id, &snapshot, changes, now);
        }
        self.current = snapshot;
    }

    /// Tells a handler, which has been shown what is there, what it knew before and is gone. What is there under the
    /// name of something that is gone is shown again after its delete.
    fn tell_late(&self, listener: &ListenerHandle, gone: Vec<Vanished>) {
        let change = |kind| Change {
            kind,
            reason: Reason::Relist,
            received: self.now,
        };
        let mut changes = Vec::new();
        for Vanished {
            key,
            last,
            final_state_unknown,
        } in self
            .sensible(Resume {
                deletes: gone,
                accepted: None,
            })
            .deletes
        {
            let now = self.current.get(key.as_ref()).cloned();
            changes.push(change(ChangeKind::Delete {
                last,
                key,
                final_state_unknown,
            }));
            changes.extend(now.map(|now| change(ChangeKind::Add(now))));
        }
        if let Some(id) = self.id {
            listener.push(id, &self.current, &changes, self.now);
        }
    }

    /// Without deletes of what is there again, or still. Of what is not known to be the same the delete is told.
    fn sensible(&self, mut resume: Resume) -> Resume {
        let before = resume.deletes.len();
        resume.deletes.retain(|gone| {
            let now = self.current.get(gone.key.as_ref());
            let is_same = gone
                .last
                .as_ref()
                .zip(now)
                .is_some_and(|(last, now)| last.uid() == now.uid());
            !is_same
        });
        let void = before - resume.deletes.len();
        self.numbers.void_deletes.inc_by(void as u64);
        resume
    }
}
