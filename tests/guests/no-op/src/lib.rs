//! The benchmark's empty handler: receives the bytes of each pod and does nothing. Its calls cost what a call costs.

use informant_plugin_sdk::prelude::*;

struct NoOp;

impl Plugin for NoOp {
    fn init(_: Init) -> Result<Self> {
        Ok(NoOp)
    }
}

impl EventHandler<Raw> for NoOp {}

export!(NoOp: events);
