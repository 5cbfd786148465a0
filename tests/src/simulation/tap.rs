//! Records what watches deliver to an informer: what its handlers must receive.

use std::sync::{Arc, Weak};

use informant_object::KeyRef;
use serde_json::Value;

use super::history::{Entry, EventKind};
use super::world::{World, version_of};

/// Reads the body of one watch while the informer reads it.
pub(super) struct WatchTap {
    world: Weak<World>,
    informer: u32,
    /// The beginning of a line whose end has not been read yet.
    line: Vec<u8>,
    /// The objects of the initial list come first: they are a list, not changes.
    in_initial_list: bool,
}

impl WatchTap {
    /// A tap for the response to a request of `informer`; none if the request is not a watch.
    pub(super) fn of(world: &Arc<World>, informer: u32, uri: &http::Uri) -> Option<Self> {
        let query = uri.query().unwrap_or_default();
        let has =
            |name: &str| form_urlencoded::parse(query.as_bytes()).any(|(key, value)| key == name && value == "true");
        has("watch").then(|| Self {
            world: Arc::downgrade(world),
            informer,
            line: Vec::new(),
            in_initial_list: has("sendInitialEvents"),
        })
    }

    /// The informer reads these bytes.
    pub(super) fn read(&mut self, bytes: &[u8]) {
        for part in bytes.split_inclusive(|byte| *byte == b'\n') {
            self.line.extend_from_slice(part);
            if part.ends_with(b"\n") {
                let line = std::mem::take(&mut self.line);
                self.read_line(&line);
            }
        }
    }

    fn read_line(&mut self, line: &[u8]) {
        // Faults send lines that are not JSON.
        let Ok(event) = serde_json::from_slice::<Value>(line) else {
            return;
        };
        let kind = match event["type"].as_str() {
            Some("ADDED") => EventKind::Add,
            Some("MODIFIED") => EventKind::Update,
            Some("DELETED") => EventKind::Delete,
            Some("BOOKMARK") => {
                let annotations = &event["object"]["metadata"]["annotations"];
                self.in_initial_list &= annotations["k8s.io/initial-events-end"] != "true";
                return;
            }
            _ => return,
        };
        if let Some(world) = self.world.upgrade().filter(|_| !self.in_initial_list) {
            self.record(&world, kind, &event["object"]);
        }
    }

    fn record(&self, world: &World, kind: EventKind, object: &Value) {
        let object = version_of(object);
        let informers = world.informers();
        let Some(watched) = informers.iter().find(|watched| watched.id == self.informer) else {
            return;
        };
        let key = KeyRef::new(&object.namespace, &object.name);
        // An older state is of a lagging replica, or the past again: the informer rejects it.
        if watched.fresh_as_of(key).is_some_and(|fresh| object.version > fresh) {
            world.record(Entry::Shown {
                informer: self.informer,
                kind,
                object,
            });
        }
    }
}
