//! Test guest: the recorder with a projected payload: pods' phase and labels, changed-only, no old state; of anything
//! else the metadata.

#[path = "../../recorder/src/behavior.rs"]
mod behavior;
#[path = "../../recorder/src/recorder.rs"]
mod recorder;

use informant_plugin_sdk::prelude::*;
use recorder::Recorder;

/// What the lines call this guest.
const GUEST: &str = "fields";

fn describe() -> Manifest {
    Manifest::new()
        .events(
            Events::of("v1", "Pod")
                .fields(["/metadata/labels", "/status/phase"])
                .changed_only(),
        )
        .events(Events::all().metadata())
}

export!(Recorder: events, sync);
