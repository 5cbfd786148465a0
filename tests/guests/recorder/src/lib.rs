//! Test guest: see `recorder`.

mod behavior;
mod recorder;

use informant_plugin_sdk::prelude::*;
use recorder::Recorder;

/// The name of this guest in its lines.
const GUEST: &str = "v1";

fn describe() -> Manifest {
    Manifest::new().events(Events::all().with_old())
}

export!(Recorder: events, sync);
