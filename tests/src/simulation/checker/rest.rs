//! The clauses that show when everything has come to rest.

use std::collections::BTreeMap;

use super::super::history::ObjectVersion;
use super::{Believed, Checker, Clause, Handler};

impl Checker {
    pub(super) fn at_rest(&mut self, at: usize, informer: u32, cluster: &[ObjectVersion], store: &[ObjectVersion]) {
        if cluster != store {
            let message = format!(
                "informer {informer}: the cluster holds {}, the store {}",
                shown(cluster),
                shown(store)
            );
            self.violate(at, Clause::StoreConverges, message);
        }
        let handlers = self.handlers.iter().filter(|(_, handler)| handler.informer == informer);
        let breaches: Vec<_> = handlers
            .flat_map(|(id, handler)| handler.at_rest(*id, cluster))
            .collect();
        for (clause, message) in breaches {
            self.violate(at, clause, message);
        }
    }
}

impl Handler {
    /// What is wrong with a handler to which nothing more will be told.
    fn at_rest(&self, id: u32, cluster: &[ObjectVersion]) -> Vec<(Clause, String)> {
        let there: BTreeMap<_, _> = cluster.iter().map(|object| (object.key(), object)).collect();
        let mut breaches = Vec::new();
        if !self.synced {
            breaches.push((
                Clause::SyncComplete,
                format!("handler {id} was never told it is synced"),
            ));
        }
        for (key, believed) in &self.keys {
            let current = there.get(&(key.0.as_str(), key.1.as_str())).copied();
            if let Some(running) = &believed.running {
                let message = format!("handler {id} never came back from {}", running.object);
                breaches.push((Clause::LastStateNeverLost, message));
            }
            if let Some(breach) = believed.lost(current) {
                let message = format!("handler {id}, {}/{}: {breach}", key.0, key.1);
                breaches.push((Clause::LastStateNeverLost, message));
            }
        }
        let told = |object: &ObjectVersion| self.keys.contains_key(&(object.namespace.clone(), object.name.clone()));
        let untold = cluster.iter().filter(|object| !told(object));
        breaches.extend(untold.map(|object| {
            let message = format!("handler {id} was never told of {object}");
            (Clause::AtLeastOnce, message)
        }));
        breaches
    }
}

impl Believed {
    /// What is wrong with the last state that was accepted, given the state there is.
    fn lost(&self, current: Option<&ObjectVersion>) -> Option<String> {
        // What was refused for good is a dead letter: it is listed, not lost. What came after it is told as usual.
        match (&self.refused, current) {
            (Some((true, refused)), Some(current)) if refused == current => return None,
            (Some((false, _)), None) => return None,
            _ => {}
        }
        match (&self.accepted, current) {
            (Some((true, accepted)), Some(current)) if accepted == current => None,
            (Some((false, _)) | None, None) => None,
            (accepted, current) => Some(format!("accepted {accepted:?}, but there is {current:?}")),
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
