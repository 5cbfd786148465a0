//! The clauses that are checked at rest, when no further events can come.

use std::collections::BTreeMap;

use super::super::history::{Entry, ObjectVersion};
use super::{Checker, Clause, Handler, KeyState};

impl Checker {
    pub(super) fn at_rest(&mut self, at: usize, informer: u32, cluster: &[ObjectVersion], store: &[ObjectVersion]) {
        if cluster != store {
            let message = format!(
                "informer {informer}: the cluster has {}, the store {}",
                shown(cluster),
                shown(store)
            );
            self.violate(at, Clause::StoreConverges, message);
        }
        let handlers = self.handlers.iter().filter(|(_, handler)| handler.informer == informer);
        let findings: Vec<_> = handlers
            .flat_map(|(id, handler)| {
                let unreported = self.unreported(*id, handler, cluster);
                handler.at_rest(*id, cluster).into_iter().chain(unreported)
            })
            .collect();
        for (clause, message) in findings {
            self.violate(at, clause, message);
        }
    }
}

/// What returns leaves this part of the budget free.
const RETURN_BELOW_PERCENT: usize = informant_cache::RETURN_BELOW_PERCENT;

impl Checker {
    /// The budget holds, and what was shed is back where there is room.
    pub(super) fn cache_at_rest(&mut self, at: usize, entry: &Entry) {
        let Entry::CacheAtRest {
            max_bytes,
            used_bytes,
            bytes,
            whole,
            least_shed_bytes,
        } = entry
        else {
            return;
        };
        let mut found = Vec::new();
        if used_bytes != bytes {
            found.push(format!("{used_bytes} bytes are counted, and {bytes} are stored"));
        }
        if bytes > max_bytes && *whole > 0 {
            found.push(format!(
                "{bytes} of {max_bytes} bytes are stored, and {whole} objects are whole"
            ));
        }
        let allowed = max_bytes / 100 * RETURN_BELOW_PERCENT;
        if let Some(shed) = least_shed_bytes
            && bytes + shed <= allowed
        {
            found.push(format!(
                "{shed} bytes are shed, although only {bytes} of {max_bytes} are stored"
            ));
        }
        for message in found {
            self.violate(at, Clause::BudgetKept, message);
        }
    }
}

impl Handler {
    /// The violations of a handler that will receive no further calls.
    fn at_rest(&self, id: u32, cluster: &[ObjectVersion]) -> Vec<(Clause, String)> {
        let part = self.takeover.as_ref().and_then(|takeover| takeover.part);
        let is_own = |object: &&ObjectVersion| part.is_none_or(|part| part.covers(&object.namespace, &object.name));
        let cluster: Vec<_> = cluster.iter().filter(is_own).collect();
        let there: BTreeMap<_, _> = cluster.iter().map(|object| (object.key(), *object)).collect();
        let mut findings = Vec::new();
        // The end of a list of one part is not recorded.
        if self.synced == 0 && part.is_none() {
            findings.push((Clause::SyncComplete, format!("handler {id} was never synced")));
        }
        for (key, key_state) in &self.keys {
            let current = there.get(&(key.0.as_str(), key.1.as_str())).copied();
            if let Some(running) = &key_state.running {
                let message = format!("handler {id} never returned from {}", running.object);
                findings.push((Clause::LastStateNeverLost, message));
            }
            if key_state.asked.is_some() {
                let message = format!(
                    "handler {id}, {}/{}: the call that it asked for was not made",
                    key.0, key.1
                );
                findings.push((Clause::CalledAgain, message));
            }
            if key_state.unsent {
                let message = format!(
                    "handler {id}, {}/{}: the write that it deferred was not sent",
                    key.0, key.1
                );
                findings.push((Clause::WritesAfterSuccess, message));
            }
            if let Some(loss) = key_state.lost(current) {
                let message = format!("handler {id}, {}/{}: {loss}", key.0, key.1);
                findings.push((Clause::LastStateNeverLost, message));
            }
        }
        let undelivered = cluster
            .into_iter()
            .filter(|object| !self.attempted.contains(&object.incarnation()));
        findings.extend(undelivered.map(|object| {
            let message = format!("handler {id} never received {object}");
            (Clause::AtLeastOnce, message)
        }));
        findings.extend(self.owed.iter().map(|object| {
            let message = format!("handler {id} never received {object}, which its watch showed");
            (Clause::Resumable, message)
        }));
        findings
    }
}

impl KeyState {
    /// Whether the last accepted state differs from the current one.
    fn lost(&self, current: Option<&ObjectVersion>) -> Option<String> {
        // A permanently rejected state is a dead letter: it is listed, not lost. Later events are delivered as usual.
        match (&self.refused, current) {
            (Some((true, refused)), Some(current)) if refused == current => return None,
            (Some((false, _)), None) => return None,
            _ => {}
        }
        match (&self.accepted, current) {
            (Some((true, accepted)), Some(current)) if accepted == current => None,
            (Some((false, _)) | None, None) => None,
            (accepted, current) => Some(format!("accepted {accepted:?}, but the current state is {current:?}")),
        }
    }
}

fn shown(objects: &[ObjectVersion]) -> String {
    objects
        .iter()
        .map(ObjectVersion::to_string)
        .collect::<Vec<_>>()
        .join(", ")
}
