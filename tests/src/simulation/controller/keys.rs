//! What the controller's plugin remembers: the real keys of a state database, on a disk in memory.

use std::sync::Arc;

use informant_plugin_host::{KeyValue, KvChange, KvHandled, KvHeld, KvOpening, KvSpace, KvUsage};
use informant_state::{EventEnd, KeySpace};
use serde_json::Value;

use super::super::process::SharedState;
use super::super::world::locked;

/// The key of the runs of timers.
const RUNS: &str = "\0timers";

pub(super) struct Storage(pub(super) SharedState);

struct Keys(KeySpace);

/// When the last run of the timer was due that is recorded as ended, in milliseconds.
pub(super) fn recorded_run(state: &SharedState) -> Option<i64> {
    let mut state = locked(state);
    let keys = state.as_mut()?.keys("controller").ok()?;
    let runs: Value = serde_json::from_slice(&keys.get(RUNS)?).ok()?;
    let due: jiff::Timestamp = runs["beat"].as_str()?.parse().ok()?;
    Some(due.as_millisecond())
}

impl KeyValue for Storage {
    fn open(&self, plugin: &str) -> KvOpening {
        let opened = match locked(&self.0).as_mut() {
            None => Err("the process was killed".to_owned()),
            Some(state) => state.keys(plugin).map_err(|error| error.to_string()),
        };
        Box::pin(async move { opened.map(|keys| Arc::new(Keys(keys)) as Arc<dyn KvSpace>) })
    }
}

impl KvSpace for Keys {
    fn get(&self, key: &str) -> Option<Arc<[u8]>> {
        self.0.get(key)
    }

    fn keys(&self, prefix: &str, cursor: &str, max: usize) -> Vec<String> {
        self.0.keys(prefix, cursor, max)
    }

    fn usage(&self) -> KvUsage {
        let (keys, bytes) = self.0.usage();
        KvUsage { keys, bytes }
    }

    fn failure(&self) -> Option<String> {
        None
    }

    fn commit(&self, changes: Vec<KvChange>, handled: Option<KvHandled>) {
        self.0.commit(changes, handled.map(event_end));
    }

    fn hold(&self, changes: Vec<KvChange>) -> KvHeld {
        let held = self.0.hold(changes);
        Box::new(move |handled| held.end(event_end(handled)))
    }
}

fn event_end(KvHandled { source, key, report }: KvHandled) -> EventEnd {
    EventEnd { source, key, report }
}
