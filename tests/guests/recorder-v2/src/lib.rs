//! Test guest: the recorder once more, as another version of the same plugin.

#[path = "../../recorder/src/behavior.rs"]
mod behavior;
#[path = "../../recorder/src/recorder.rs"]
mod recorder;

use informant_plugin_sdk::prelude::*;
use recorder::Recorder;

/// What the lines call this guest.
const GUEST: &str = "v2";

fn describe() -> Manifest {
    Manifest::new().events(Events::all().with_old())
}

export!(Recorder: events, sync);
