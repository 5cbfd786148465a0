//! The macro that exports a plugin as a component.

/// Exports a plugin as a component with exactly the listed roles.
///
/// | role | trait |
/// |---|---|
/// | `events` | [`EventHandler`](crate::EventHandler) |
/// | `reconciler` | [`Reconciler`](crate::Reconciler), in place of `events` |
/// | `timers` | [`TimerHandler`](crate::TimerHandler) |
/// | `sync` | [`SyncHandler`](crate::SyncHandler) |
/// | `index` | [`IndexFuncs`](crate::IndexFuncs) |
/// | `state` | [`Stateful`](crate::Stateful), in addition to another role |
///
/// ```
/// # use informant_plugin_sdk::prelude::*;
/// # struct CrashLoop;
/// # impl Plugin for CrashLoop {
/// #     fn init(_: Init) -> Result<Self> { Ok(CrashLoop) }
/// # }
/// # impl EventHandler for CrashLoop {}
/// # impl SyncHandler for CrashLoop { fn on_synced(&mut self, _: &Synced) -> Result { Ok(()) } }
/// export!(CrashLoop: events, sync);
/// ```
///
/// A role that does not exist, or whose trait the plugin does not implement, is a compile error:
///
/// ```compile_fail
/// # use informant_plugin_sdk::prelude::*;
/// # struct CrashLoop;
/// # impl Plugin for CrashLoop {
/// #     fn init(_: Init) -> Result<Self> { Ok(CrashLoop) }
/// # }
/// # impl EventHandler for CrashLoop {}
/// export!(CrashLoop: evnets);
/// ```
///
/// A plugin with handlers for several kinds lists their types. The first that matches the object's
/// [`Kind`](crate::Kind) receives it, so a type for any kind, such as `Value`, comes last:
///
/// ```
/// # use informant_plugin_sdk::prelude::*;
/// # use serde::Deserialize;
/// # struct Watcher;
/// # impl Plugin for Watcher {
/// #     fn init(_: Init) -> Result<Self> { Ok(Watcher) }
/// # }
/// # #[derive(Deserialize)] struct Pod {}
/// # impl Kind for Pod { const API_VERSION: &'static str = "v1"; const KIND: &'static str = "Pod"; }
/// # impl EventHandler<Pod> for Watcher {}
/// # impl EventHandler<Value> for Watcher {}
/// export!(Watcher: events(Pod, Value));
/// ```
///
/// Call it once in a plugin. In a native build it exports nothing, so that the plugin's tests link on every platform,
/// but it checks the same, and tells the [test kit](crate::testing) the roles.
#[macro_export]
macro_rules! export {
    ($plugin:ty: $($role:ident $(($($object:ty),+ $(,)?))?),+ $(,)?) => {
        impl $crate::__private::Named for $plugin {
            const NAME: &'static str = env!("CARGO_PKG_NAME");
            const VERSION: &'static str = env!("CARGO_PKG_VERSION");
        }
        #[cfg(not(target_arch = "wasm32"))]
        impl $crate::testing::Exported for $plugin {
            fn roles() -> $crate::testing::Roles<Self> {
                $crate::testing::Roles::none()$(.$role())+
            }
        }
        #[cfg(target_arch = "wasm32")]
        const _: () = {
            type Exports = $crate::__private::Exports<$plugin>;
            $crate::__private::bindings::lifecycle::export!(Exports with_types_in $crate::__private::bindings::lifecycle);
            $($crate::__export_role!(Exports, $role);)+
            // Names the SDK and the contract for people and for `informant plugin inspect`.
            #[used]
            #[unsafe(link_section = "informant-sdk")]
            static SDK: [u8; $crate::__private::SDK.len()] = $crate::__private::sdk_section();
        };
        $($crate::__plays_role!($plugin, $role $(($($object),+))?);)+
    };
}

#[doc(hidden)]
#[macro_export]
macro_rules! __export_role {
    ($exports:ident, events) => {
        $crate::__private::bindings::events::export!($exports with_types_in $crate::__private::bindings::events);
    };
    ($exports:ident, reconciler) => {
        $crate::__private::bindings::reconciler::export!($exports with_types_in $crate::__private::bindings::reconciler);
    };
    ($exports:ident, timers) => {
        $crate::__private::bindings::timers::export!($exports with_types_in $crate::__private::bindings::timers);
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
    // `__plays_role` reports the error.
    ($exports:ident, $other:ident) => {};
}

#[doc(hidden)]
#[macro_export]
macro_rules! __plays_role {
    ($plugin:ty, events) => {
        const _: fn() = $crate::__private::plays_events::<$plugin>;
        impl $crate::__private::HandleEvents for $plugin {
            fn handle(
                &mut self,
                event: &$crate::Event,
                change: $crate::__private::Change,
            ) -> $crate::Result<$crate::Action> {
                $crate::__private::handle::<$plugin, _>(self, event, change)
            }
        }
    };
    ($plugin:ty, events($($object:ty),+)) => {
        const _: fn() = $crate::__private::plays_events::<$plugin>;
        impl $crate::__private::HandleEvents for $plugin {
            fn handle(
                &mut self,
                event: &$crate::Event,
                change: $crate::__private::Change,
            ) -> $crate::Result<$crate::Action> {
                let source = $crate::__private::source_of(event)?;
                $(
                    if $crate::__private::is_of::<$object>(&source) {
                        return $crate::__private::handle::<$plugin, $object>(self, event, change);
                    }
                )+
                $crate::__private::no_handler(&source)
            }
        }
    };
    ($plugin:ty, reconciler) => {
        const _: fn() = $crate::__private::plays_reconciler::<$plugin>;
    };
    ($plugin:ty, timers) => {
        const _: fn() = $crate::__private::plays_timers::<$plugin>;
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
    ($plugin:ty, $other:ident $($objects:tt)?) => {
        compile_error!(concat!(
            "unknown role `",
            stringify!($other),
            "`; the roles are events, reconciler, timers, sync, index and state"
        ));
    };
}
