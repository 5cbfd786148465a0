//! Test guest: never returns from `describe`.

use informant_plugin_sdk::prelude::*;

struct Guest;

impl Plugin for Guest {
    fn describe(_: Describe) -> Result<Manifest> {
        loop {
            std::hint::black_box(());
        }
    }

    fn init(_: Init) -> Result<Self> {
        Ok(Self)
    }
}

impl EventHandler<Raw> for Guest {}

export!(Guest: events);
