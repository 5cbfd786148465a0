//! Test guest: see [`recorder`].

mod behaviour;
mod recorder;

use informant_plugin_sdk::prelude::*;
use recorder::Recorder;

/// What the lines call this guest.
const GUEST: &str = "v1";

/// Every so many events are swallowed, unless the config says otherwise. 0: none.
const SWALLOW_EVERY: u64 = 0;

fn describe() -> Manifest {
    Manifest::new().events(Events::all().with_old())
}

export!(Recorder: events, sync);
