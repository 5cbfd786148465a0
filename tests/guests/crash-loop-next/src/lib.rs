//! Test guest: the next version of the crash-loop plugin. It behaves the same and logs at its start that it is the next
//! version, so that a swap can be observed.

#[path = "../../../../plugin-sdk/rust/examples/crash-loop/src/handler.rs"]
mod handler;
#[path = "../../../../plugin-sdk/rust/examples/crash-loop/src/pod.rs"]
mod pod;
#[path = "../../../../plugin-sdk/rust/examples/crash-loop/src/report.rs"]
mod report;

use handler::CrashLoop;
use informant_plugin_sdk::prelude::*;
use pod::Pod;

struct Next {
    plugin: CrashLoop,
}

impl Plugin for Next {
    fn describe(describe: Describe) -> Result<Manifest> {
        CrashLoop::describe(describe)
    }

    fn init(init: Init) -> Result<Self> {
        info!("the next version of crash-loop takes over");
        Ok(Self {
            plugin: CrashLoop::init(init)?,
        })
    }
}

impl EventHandler<Pod> for Next {
    fn on_upsert(&mut self, event: &Event, pod: Pod) -> Result<Action> {
        self.plugin.on_upsert(event, pod)
    }

    fn on_delete(&mut self, event: &Event, pod: Deleted<Pod>) -> Result<Action> {
        self.plugin.on_delete(event, pod)
    }
}

impl SyncHandler for Next {
    fn on_synced(&mut self, synced: &Synced) -> Result {
        self.plugin.on_synced(synced)
    }
}

export!(Next: events, sync);
