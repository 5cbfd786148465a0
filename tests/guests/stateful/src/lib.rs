//! Test guest: counts the events of each object, and transfers the counts to the next version. It logs a line for each
//! event: `{"guest":"stateful","instance":0,"name":"a","version":"7","times":2,"events":5}`; `events` is the sum over
//! all objects of the instance. Several instances may share the objects.
//!
//! Objects with these names cause errors: `save-fails`, `save-traps`, `save-loops` and `save-is-large` in the next
//! save; `restore-fails`, `restore-traps` and `restore-loops` in the next version's restore.

use std::collections::BTreeMap;

use informant_plugin_sdk::prelude::*;
use serde::{Deserialize, Serialize};
use serde_json::json;

#[derive(Default)]
struct Counting {
    instance: u32,
    seen: Seen,
    on_save: Option<String>,
}

#[derive(Clone, Default, Serialize, Deserialize)]
struct Seen {
    times: BTreeMap<String, u64>,
    on_restore: Option<String>,
    #[serde(default, skip_serializing_if = "String::is_empty")]
    padding: String,
}

impl Plugin for Counting {
    fn describe(_: Describe) -> Result<Manifest> {
        Ok(Manifest::new().parallel())
    }

    fn init(init: Init) -> Result<Self> {
        let instance = init.instance;
        Ok(Counting {
            instance,
            ..Counting::default()
        })
    }
}

impl EventHandler<Raw> for Counting {
    fn on_upsert(&mut self, event: &Event, _: Raw) -> Result<Action> {
        if let Some(how) = event.name.strip_prefix("save-") {
            self.on_save = Some(how.to_owned());
        }
        if let Some(how) = event.name.strip_prefix("restore-") {
            self.seen.on_restore = Some(how.to_owned());
        }
        let times = self.seen.times.entry(event.name.clone()).or_default();
        *times += 1;
        let line = json!({
            "guest": "stateful",
            "instance": self.instance,
            "name": event.name,
            "version": event.resource_version,
            "times": *times,
            "events": self.seen.times.values().sum::<u64>(),
        });
        info!("{line}");
        Ok(Action::done())
    }
}

impl Stateful for Counting {
    type State = Seen;

    fn save(&self) -> Result<Seen> {
        misbehave(self.on_save.as_deref())?;
        let padding = match self.on_save.as_deref() {
            // Above the size limit of a state, but within the memory limit.
            Some("is-large") => "x".repeat(17 << 20),
            _ => String::new(),
        };
        let seen = self.seen.clone();
        Ok(Seen { padding, ..seen })
    }

    fn restore(&mut self, seen: Seen) -> Result {
        misbehave(seen.on_restore.as_deref())?;
        self.seen = seen;
        Ok(())
    }
}

fn misbehave(how: Option<&str>) -> Result {
    match how {
        Some("fails") => Err(Failure::permanent("asked to fail")),
        Some("traps") => panic!("asked to trap"),
        Some("loops") => loop {
            std::hint::black_box(());
        },
        _ => Ok(()),
    }
}

export!(Counting: events, state);
