//! What wit-bindgen makes of the contract: one module for what Informant offers, one for each role a plugin may export.
//!
//! A plugin's world is exactly its roles. So each role is generated from a world of its own, with the shared types
//! mapped to one place, and `export!` calls the export macro of the roles that are named and of no other. Each of these
//! macros adds its world's description to the component when it is called; the linker joins them.
//!
//! `wit/informant.wit` is a copy, because a published crate cannot reach outside its folder; a test holds it equal to
//! the repository's.

pub mod imports {
    wit_bindgen::generate!({
        world: "imports",
        path: "wit",
        generate_unused_types: true,
        additional_derives: [PartialEq, Eq],
        pub_export_macro: true,
    });
}

macro_rules! role {
    ($(#[$doc:meta])* $module:ident, $world:literal) => {
        $(#[$doc])*
        pub mod $module {
            wit_bindgen::generate!({
                world: $world,
                path: "wit",
                with: {
                    "informant:plugin/types@0.1.0": crate::bindings::imports::informant::plugin::types,
                    "informant:plugin/store@0.1.0": crate::bindings::imports::informant::plugin::store,
                    "informant:plugin/kube@0.1.0": crate::bindings::imports::informant::plugin::kube,
                    "informant:plugin/log@0.1.0": crate::bindings::imports::informant::plugin::log,
                },
                pub_export_macro: true,
            });
        }
    };
}

role!(lifecycle, "role-lifecycle");
role!(events, "role-event-handler");
role!(sync, "role-sync-handler");
role!(index, "role-index-funcs");
role!(state, "role-state");
