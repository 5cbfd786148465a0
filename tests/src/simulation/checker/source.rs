//! What the API server and its watches show, which is what handlers must receive.

use super::super::history::{EventKind, ObjectVersion, Selection};
use super::{Checker, Handler};

impl Checker {
    /// A watch delivered a state that is news to the informer.
    pub(super) fn shown(&mut self, informer: u32, kind: EventKind, object: &ObjectVersion) {
        self.shown.insert((informer, object.clone()));
        if self.ever_reconfigured(informer) || !self.existed(object) {
            return;
        }
        match kind {
            // An object may also leave the selection and come back.
            EventKind::Delete if self.removed.contains(object) => {
                self.deletes_shown.insert((informer, object.uid.clone()));
            }
            EventKind::Add => self.owe(informer, object),
            EventKind::Update | EventKind::Delete => {}
        }
    }

    /// From now on, the handlers that receive every state must receive the incarnation.
    fn owe(&mut self, informer: u32, object: &ObjectVersion) {
        let sources = self.sources(informer);
        let watches = |handler: &&mut Handler| {
            handler.informer == informer && handler.receives_every_state && handler.synced >= sources
        };
        for handler in self.handlers.values_mut().filter(watches) {
            if !handler.attempted.contains(&object.incarnation()) {
                handler.owed.push(object.clone());
            }
        }
    }

    pub(super) fn selected(&mut self, informer: u32, selection: &Selection) {
        self.selections.entry(informer).or_default().push(selection.clone());
        let sources = self.sources(informer);
        let of_informer = self
            .handlers
            .values_mut()
            .filter(|handler| handler.informer == informer);
        for handler in of_informer.filter(|handler| handler.syncs_left > 0) {
            (handler.syncs_left, handler.replays) = (sources, true);
        }
    }

    /// How many sources the informer has: one for each namespace, or one for all.
    pub(super) fn sources(&self, informer: u32) -> usize {
        let selection = self.selections.get(&informer).and_then(|all| all.last());
        selection.map_or(1, |selection| selection.namespaces.len().max(1))
    }

    /// The API server went back to `version`, with `objects`.
    pub(super) fn restored(&mut self, version: u64, objects: &[ObjectVersion]) {
        let is_kept = |state: &ObjectVersion| state.version <= version;
        let written = std::mem::take(&mut self.written).into_iter();
        let (kept, gone): (Vec<_>, Vec<_>) = written.partition(|(state, _)| is_kept(state));
        self.written.extend(kept);
        self.written_before_restore.extend(gone);
        self.revived.extend(objects.iter().map(|object| object.uid.clone()));
        self.living = objects.iter().map(|object| object.uid.clone()).collect();
        self.deletes_shown.clear();
        self.shown.clear();
        self.restores += 1;
        for handler in self.handlers.values_mut() {
            handler.owed.clear();
            handler.deleted.retain(|(_, uid)| !self.revived.contains(uid));
        }
    }
}
