//! The handler: what it remembers, and when it speaks.

use std::collections::BTreeMap;

use informant_plugin_sdk::prelude::*;
use serde::Deserialize;

use crate::pod::{self, Pod};
use crate::report::Known;

/// The plugin: its config, and what it has said.
pub(crate) struct CrashLoop {
    config: Config,
    /// By pod uid, then container.
    pub(crate) known: BTreeMap<String, BTreeMap<String, Known>>,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields, rename_all = "kebab-case")]
struct Config {
    #[serde(default = "one")]
    min_restarts: u32,
}

fn one() -> u32 {
    1
}

impl Plugin for CrashLoop {
    fn describe() -> Manifest {
        Manifest::new().events(Events::of("v1", "Pod").fields(pod::pointers()).changed_only())
    }

    fn init(init: Init) -> Result<Self> {
        Ok(Self {
            config: init.config()?,
            known: BTreeMap::new(),
        })
    }
}

impl EventHandler for CrashLoop {
    type Object = Pod;

    fn on_upsert(&mut self, event: &Event, pod: Pod) -> Result {
        self.look_at(event, &pod);
        Ok(())
    }

    fn on_delete(&mut self, event: &Event, _: Deleted<Pod>) -> Result {
        self.known.remove(&event.uid);
        Ok(())
    }
}

impl SyncHandler for CrashLoop {
    fn on_synced(&mut self, source: SourceId) -> Result {
        let containers = || self.known.values().flat_map(BTreeMap::values);
        let looping = containers().filter(|known| known.is_looping).count();
        let killed: u32 = containers().map(|known| known.oom_kills).sum();
        info!("source {source} is synced; in all sources {looping} containers crash-looping, {killed} OOM kills seen");
        Ok(())
    }
}

impl CrashLoop {
    fn look_at(&mut self, event: &Event, pod: &Pod) {
        for container in pod.containers() {
            let known = self.known.get(&event.uid).and_then(|known| known.get(&container.name));
            let mut known = known.cloned().unwrap_or_default();
            for news in known.look_at(container, self.config.min_restarts) {
                warn!("{event}: container {} {news}", container.name);
            }
            // Only containers of which something was said take memory.
            if known != Known::default() {
                self.known
                    .entry(event.uid.clone())
                    .or_default()
                    .insert(container.name.clone(), known);
            } else if let Some(known) = self.known.get_mut(&event.uid) {
                known.remove(&container.name);
            }
        }
    }
}
