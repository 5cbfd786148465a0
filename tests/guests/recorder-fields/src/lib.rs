//! Test guest: the recorder with a projected payload: phase and labels of pods, changed-only, without old state; only
//! the metadata of other objects.

#[path = "../../recorder/src/behavior.rs"]
mod behavior;
#[path = "../../recorder/src/recorder.rs"]
mod recorder;

use informant_plugin_sdk::prelude::*;
use recorder::Recorder;

/// The name of this guest in its lines.
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
