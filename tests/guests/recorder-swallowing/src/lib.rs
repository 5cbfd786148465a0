//! Test guest: the recorder, built to accept every tenth event without recording it: what counts events has to notice.

#[path = "../../recorder/src/behaviour.rs"]
mod behaviour;
#[path = "../../recorder/src/recorder.rs"]
mod recorder;

use informant_plugin_sdk::prelude::*;
use recorder::Recorder;

/// What the lines call this guest.
const GUEST: &str = "swallowing";

/// Every so many events are swallowed, unless the config says otherwise. 0: none.
const SWALLOW_EVERY: u64 = 10;

fn describe() -> Manifest {
    Manifest::new().events(Events::all().with_old())
}

export!(Recorder: events, sync);
