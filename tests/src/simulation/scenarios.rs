//! The scenarios, by subject.

mod changes;
mod handlers;
mod lists;
mod takeovers;
mod versions;
mod watches;

use informant_apiserver::{Filter, Injection};
use serde_json::json;

use super::scenario::{Scenario, Stage};
use super::world::RESOURCE;

/// All scenarios.
pub const SCENARIOS: &[&[Scenario]] = &[
    changes::SCENARIOS,
    handlers::SCENARIOS,
    lists::SCENARIOS,
    takeovers::SCENARIOS,
    versions::SCENARIOS,
    watches::SCENARIOS,
];

impl Stage {
    /// Sends a line between the events of every watch of all namespaces.
    fn show(&self, kind: &str, object: &serde_json::Value) {
        let line = json!({"type": kind, "object": object}).to_string();
        self.faults().inject(&Filter::any(), &Injection::Raw(line));
    }

    /// Sends a bookmark.
    fn show_bookmark(&self, version: u64) {
        let metadata = json!({"resourceVersion": version.to_string()});
        let object = json!({"apiVersion": "v1", "kind": "ConfigMap", "metadata": metadata});
        self.show("BOOKMARK", &object);
    }

    /// Sends the events after `version` again, up to and including `last`.
    fn show_again(&self, version: u64, last: u64) -> usize {
        let writes = self
            .world
            .server()
            .writes_after(RESOURCE, version)
            .expect("not compacted");
        let writes = writes.iter().filter(|write| write.revision <= last);
        writes.inspect(|write| self.show(write.kind, &write.object)).count()
    }
}

/// The future that `play` of a scenario returns.
macro_rules! play_fn {
    ($play:path) => {
        |stage: Arc<Stage>| Box::pin($play(stage))
    };
}
use play_fn;
