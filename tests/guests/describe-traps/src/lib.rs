//! Test guest: panics in `describe`.

use informant_plugin_sdk::prelude::*;

struct Guest;

impl Plugin for Guest {
    fn describe(_: Describe) -> Result<Manifest> {
        panic!("asked to trap in describe")
    }

    fn init(_: Init) -> Result<Self> {
        Ok(Self)
    }
}

impl EventHandler<Raw> for Guest {}

export!(Guest: events);
