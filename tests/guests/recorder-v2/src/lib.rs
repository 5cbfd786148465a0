//! Test guest: another version of the recorder.

#[path = "../../recorder/src/behavior.rs"]
mod behavior;
#[path = "../../recorder/src/recorder.rs"]
mod recorder;

use informant_plugin_sdk::prelude::*;
use recorder::Recorder;

/// The name of this guest in its lines.
const GUEST: &str = "v2";

fn describe() -> Manifest {
    Manifest::new().events(Events::all().with_old())
}

export!(Recorder: events, sync);
