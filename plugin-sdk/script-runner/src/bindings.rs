//! What wit-bindgen makes of the contract: every role, and what Informant offers.

#![allow(unsafe_code, unreachable_pub, missing_docs, reason = "generated")]

use crate::exports::Runner;

wit_bindgen::generate!({
    inline: "
        package informant:script-runner;

        world script-runner {
          include informant:plugin/role-lifecycle@0.1.0;
          include informant:plugin/role-event-handler@0.1.0;
          include informant:plugin/role-sync-handler@0.1.0;
          include informant:plugin/role-index-funcs@0.1.0;
        }
    ",
    path: "../../wit",
    generate_all,
});

export!(Runner with_types_in self);
