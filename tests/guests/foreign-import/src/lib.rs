//! Test guest: imports an interface that Informant does not provide.

// A native build has no host to export to.
#![cfg(target_arch = "wasm32")]
#![expect(unsafe_code, reason = "wit-bindgen exports by unsafe functions")]

mod bindings {
    wit_bindgen::generate!({
        inline: "
            package acme:pager@1.0.0;
            interface pager {
                page: func(text: string);
            }
            world guest {
                import pager;
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
        bindings::acme::pager::pager::page("describe was called");
        Ok(br#"{"name":"guest-foreign-import","version":"0.1.0","needs":[]}"#.to_vec())
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
