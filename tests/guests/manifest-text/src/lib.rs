//! Test guest: its manifest is not a JSON document, and not even UTF-8.

// A native build has no host to export to.
#![cfg(target_arch = "wasm32")]
#![expect(unsafe_code, reason = "wit-bindgen exports by unsafe functions")]

mod bindings {
    wit_bindgen::generate!({
        inline: "
            package test:guest;
            world guest {
                include informant:plugin/role-lifecycle@0.3.0;
                include informant:plugin/role-event-handler@0.3.0;
            }
        ",
        path: "../../../wit",
        generate_all,
    });
}

use bindings::exports::informant::plugin as exports;
use bindings::informant::plugin::types::{Call, Failure, ObjectRef};

struct Guest;

impl exports::lifecycle::Guest for Guest {
    fn describe(_: Vec<u8>) -> Result<Vec<u8>, String> {
        Ok(b"name: guest-manifest-text \xff".to_vec())
    }

    fn init(_: Vec<u8>) -> Result<(), Failure> {
        Ok(())
    }
}

impl exports::event_handler::Guest for Guest {
    fn on_add(_: ObjectRef, _: Call, _: Vec<u8>) -> Result<Option<u32>, Failure> {
        Ok(None)
    }

    fn on_update(_: ObjectRef, _: Call, _: Option<Vec<u8>>, _: Vec<u8>) -> Result<Option<u32>, Failure> {
        Ok(None)
    }

    fn on_delete(_: ObjectRef, _: Call, _: Option<Vec<u8>>, _: bool) -> Result<Option<u32>, Failure> {
        Ok(None)
    }
}

bindings::export!(Guest with_types_in bindings);
