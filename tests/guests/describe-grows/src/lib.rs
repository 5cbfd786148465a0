//! Test guest: allocates in `describe` until memory runs out.

use informant_plugin_sdk::prelude::*;

struct Guest;

impl Plugin for Guest {
    fn describe(_: Describe) -> Result<Manifest> {
        let mut kept = Vec::new();
        loop {
            kept.push(std::hint::black_box(vec![1_u8; 1 << 20]));
        }
    }

    fn init(_: Init) -> Result<Self> {
        Ok(Self)
    }
}

impl EventHandler<Raw> for Guest {}

export!(Guest: events);
