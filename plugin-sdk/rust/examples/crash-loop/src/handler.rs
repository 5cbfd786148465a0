//! The handler: its state and its reports.

use std::collections::BTreeMap;

use informant_plugin_sdk::prelude::*;
use serde::Deserialize;

use crate::pod::{self, Pod};
use crate::report::Reported;

/// The plugin: its config, and the reported state of each container.
pub(crate) struct CrashLoop {
    config: Config,
    /// By pod uid, then container.
    pub(crate) reported: BTreeMap<String, BTreeMap<String, Reported>>,
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
    fn describe(_: Describe) -> Result<Manifest> {
        let pods = Events::of("v1", "Pod").fields(pod::pointers()).changed_only();
        Ok(Manifest::new().events(pods))
    }

    fn init(init: Init) -> Result<Self> {
        Ok(Self {
            config: init.config()?,
            reported: BTreeMap::new(),
        })
    }
}

impl EventHandler<Pod> for CrashLoop {
    fn on_upsert(&mut self, event: &Event, pod: Pod) -> Result<Action> {
        self.report(event, &pod);
        Ok(Action::done())
    }

    fn on_delete(&mut self, event: &Event, _: Deleted<Pod>) -> Result<Action> {
        self.reported.remove(&event.uid);
        Ok(Action::done())
    }
}

impl SyncHandler for CrashLoop {
    fn on_synced(&mut self, synced: &Synced) -> Result {
        let source = synced.source;
        let containers = || self.reported.values().flat_map(BTreeMap::values);
        let looping = containers().filter(|container| container.is_looping).count();
        let killed: u32 = containers().map(|container| container.oom_kills).sum();
        info!("source {source} is synced; in all sources {looping} containers crash-looping, {killed} OOM kills seen");
        Ok(())
    }
}

impl CrashLoop {
    fn report(&mut self, event: &Event, pod: &Pod) {
        for container in pod.containers() {
            let pod = self.reported.get(&event.uid);
            let mut reported = pod
                .and_then(|pod| pod.get(&container.name))
                .cloned()
                .unwrap_or_default();
            for report in reported.update(container, self.config.min_restarts) {
                warn!("{event}: container {} {report}", container.name);
            }
            // Only containers with reports take memory.
            if reported != Reported::default() {
                self.reported
                    .entry(event.uid.clone())
                    .or_default()
                    .insert(container.name.clone(), reported);
            } else if let Some(pod) = self.reported.get_mut(&event.uid) {
                pod.remove(&container.name);
            }
        }
    }
}
