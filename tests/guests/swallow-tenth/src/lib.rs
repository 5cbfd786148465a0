//! Test guest: the crash-loop plugin, changed to accept every tenth event without handling it. A test that counts the
//! reports of the handler has to notice this.

#[path = "../../../../plugin-sdk/rust/examples/crash-loop/src/handler.rs"]
mod handler;
#[path = "../../../../plugin-sdk/rust/examples/crash-loop/src/pod.rs"]
mod pod;
#[path = "../../../../plugin-sdk/rust/examples/crash-loop/src/report.rs"]
mod report;

use handler::CrashLoop;
use informant_plugin_sdk::prelude::*;
use pod::Pod;

/// Every n-th event is swallowed.
const SWALLOWED: u64 = 10;

struct SwallowTenth {
    plugin: CrashLoop,
    events: u64,
}

impl SwallowTenth {
    fn swallows(&mut self) -> bool {
        self.events += 1;
        self.events.is_multiple_of(SWALLOWED)
    }
}

impl Plugin for SwallowTenth {
    fn describe(describe: Describe) -> Result<Manifest> {
        CrashLoop::describe(describe)
    }

    fn init(init: Init) -> Result<Self> {
        Ok(Self {
            plugin: CrashLoop::init(init)?,
            events: 0,
        })
    }
}

impl EventHandler<Pod> for SwallowTenth {
    fn on_upsert(&mut self, event: &Event, pod: Pod) -> Result<Action> {
        if self.swallows() {
            Ok(Action::done())
        } else {
            self.plugin.on_upsert(event, pod)
        }
    }

    fn on_delete(&mut self, event: &Event, pod: Deleted<Pod>) -> Result<Action> {
        if self.swallows() {
            Ok(Action::done())
        } else {
            self.plugin.on_delete(event, pod)
        }
    }
}

impl SyncHandler for SwallowTenth {
    fn on_synced(&mut self, synced: &Synced) -> Result {
        self.plugin.on_synced(synced)
    }
}

export!(SwallowTenth: events, sync);
