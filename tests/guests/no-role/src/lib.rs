//! Test guest: has a lifecycle, but no role.

// A native build has no host to export to.
#![cfg(target_arch = "wasm32")]
#![expect(unsafe_code, reason = "wit-bindgen exports by unsafe functions")]

mod bindings {
    wit_bindgen::generate!({
        world: "role-lifecycle",
        path: "../../../wit",
    });
}

use bindings::exports::informant::plugin as exports;
use bindings::informant::plugin::types::Failure;

struct Guest;

impl exports::lifecycle::Guest for Guest {
    fn describe(_: Vec<u8>) -> Result<Vec<u8>, String> {
        Ok(br#"{"name":"guest-no-role","version":"0.1.0","needs":[]}"#.to_vec())
    }

    fn init(_: Vec<u8>) -> Result<(), Failure> {
        Ok(())
    }
}

bindings::export!(Guest with_types_in bindings);
