//! The macro that makes a component of a plugin.

/// Exports a plugin as a component with exactly the roles that are named.
///
/// | role | trait |
/// |---|---|
/// | `events` | [`EventHandler`](crate::EventHandler) |
/// | `sync` | [`SyncHandler`](crate::SyncHandler) |
/// | `index` | [`IndexFuncs`](crate::IndexFuncs) |
/// | `state` | [`Stateful`](crate::Stateful), beside one of the others |
///
/// ```
/// # use informant_plugin_sdk::prelude::*;
/// # struct CrashLoop;
/// # impl Plugin for CrashLoop {
/// #     fn init(_: Init) -> Result<Self> { Ok(CrashLoop) }
/// # }
/// # impl EventHandler for CrashLoop { type Object = Value; }
/// # impl SyncHandler for CrashLoop { fn on_synced(&mut self, _: SourceId) -> Result { Ok(()) } }
/// export!(CrashLoop: events, sync);
/// ```
///
/// A role whose trait the plugin does not implement does not compile, nor does one that there is not:
///
/// ```compile_fail
/// # use informant_plugin_sdk::prelude::*;
/// # struct CrashLoop;
/// # impl Plugin for CrashLoop {
/// #     fn init(_: Init) -> Result<Self> { Ok(CrashLoop) }
/// # }
/// # impl EventHandler for CrashLoop { type Object = Value; }
/// export!(CrashLoop: evnets);
/// ```
///
/// Called once in a plugin. Natively it exports nothing, so that the plugin's tests link anywhere, but checks the same.
#[macro_export]
macro_rules! export {
    ($plugin:ty: $($role:ident),+ $(,)?) => {
        impl $crate::__private::Named for $plugin {
            const NAME: &'static str = env!("CARGO_PKG_NAME");
            const VERSION: &'static str = env!("CARGO_PKG_VERSION");
        }
        #[cfg(target_arch = "wasm32")]
        const _: () = {
            type Exports = $crate::__private::Exports<$plugin>;
            $crate::__private::bindings::lifecycle::export!(Exports with_types_in $crate::__private::bindings::lifecycle);
            $($crate::__export_role!(Exports, $role);)+
        };
        $($crate::__plays_role!($plugin, $role);)+
    };
}

#[doc(hidden)]
#[macro_export]
macro_rules! __export_role {
    ($exports:ident, events) => {
        $crate::__private::bindings::events::export!($exports with_types_in $crate::__private::bindings::events);
    };
    ($exports:ident, sync) => {
        $crate::__private::bindings::sync::export!($exports with_types_in $crate::__private::bindings::sync);
    };
    ($exports:ident, index) => {
        $crate::__private::bindings::index::export!($exports with_types_in $crate::__private::bindings::index);
    };
    ($exports:ident, state) => {
        $crate::__private::bindings::state::export!($exports with_types_in $crate::__private::bindings::state);
    };
    // `__plays_role` has said what is wrong.
    ($exports:ident, $other:ident) => {};
}

#[doc(hidden)]
#[macro_export]
macro_rules! __plays_role {
    ($plugin:ty, events) => {
        const _: fn() = $crate::__private::plays_events::<$plugin>;
    };
    ($plugin:ty, sync) => {
        const _: fn() = $crate::__private::plays_sync::<$plugin>;
    };
    ($plugin:ty, index) => {
        const _: fn() = $crate::__private::plays_index::<$plugin>;
    };
    ($plugin:ty, state) => {
        const _: fn() = $crate::__private::plays_state::<$plugin>;
    };
    ($plugin:ty, $other:ident) => {
        compile_error!(concat!(
            "no role is called `",
            stringify!($other),
            "`; the roles are events, sync, index and state"
        ));
    };
}
