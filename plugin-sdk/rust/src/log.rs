//! Writes lines to Informant's log, labeled with the plugin's name.
//!
//! Use [`trace!`](crate::trace!), [`debug!`](crate::debug!), [`info!`](crate::info!), [`warn!`](crate::warn!) and
//! [`error!`](crate::error!), which format like `println!`. Fields come first: `info!(restarts = 3, node = name; "{pod}
//! restarted")`. Their values are anything that serde serializes. Output on stdout and stderr also goes to the log,
//! without a level. With the feature `log`, so do the macros of the `log` crate, from [`Plugin::init`] on.
//!
//! [`Plugin::init`]: crate::Plugin::init

use std::any::Any;
use std::panic::PanicHookInfo;
use std::sync::Once;

use serde::Serialize;

use crate::host;

pub use crate::bindings::imports::informant::plugin::log::Level;

/// Logs a line with fields: names and values. Usually called through the macros.
pub fn log(level: Level, message: &str, fields: &[(String, String)]) {
    host::log(level, message, fields);
}

/// A field of a line: a value that serde can serialize, as JSON.
#[doc(hidden)]
pub fn field(name: &str, value: &impl Serialize) -> (String, String) {
    let value = serde_json::to_string(value).unwrap_or_else(|error| format!("cannot be written as JSON: {error}"));
    (name.to_owned(), value)
}

#[doc(hidden)]
#[macro_export]
macro_rules! __log {
    ($level:ident, $($name:ident = $value:expr),+ ; $($argument:tt)+) => {
        $crate::log::log(
            $crate::log::Level::$level,
            &format!($($argument)+),
            &[$($crate::log::field(stringify!($name), &$value)),+],
        )
    };
    ($level:ident, $($argument:tt)+) => {
        $crate::log::log($crate::log::Level::$level, &format!($($argument)+), &[])
    };
}

/// Logs a line at level trace.
#[macro_export]
macro_rules! trace {
    ($($argument:tt)+) => { $crate::__log!(Trace, $($argument)+) };
}

/// Logs a line at level debug.
#[macro_export]
macro_rules! debug {
    ($($argument:tt)+) => { $crate::__log!(Debug, $($argument)+) };
}

/// Logs a line at level info.
#[macro_export]
macro_rules! info {
    ($($argument:tt)+) => { $crate::__log!(Info, $($argument)+) };
}

/// Logs a line at level warn.
#[macro_export]
macro_rules! warn {
    ($($argument:tt)+) => { $crate::__log!(Warn, $($argument)+) };
}

/// Logs a line at level error.
#[macro_export]
macro_rules! error {
    ($($argument:tt)+) => { $crate::__log!(Error, $($argument)+) };
}

/// Logs the message and location of a panic, which ends the instance, and installs the logger of the feature `log`.
pub(crate) fn report_panics() {
    static ONCE: Once = Once::new();
    // A native test keeps the hook of the test harness.
    if cfg!(not(target_arch = "wasm32")) {
        return;
    }
    ONCE.call_once(|| {
        std::panic::set_hook(Box::new(|panic| host::log(Level::Error, &describe_panic(panic), &[])));
        #[cfg(feature = "log")]
        facade::install();
    });
}

fn describe_panic(panic: &PanicHookInfo<'_>) -> String {
    let message = panic_message(panic.payload());
    match panic.location() {
        Some(location) => format!("panicked at {location}: {message}"),
        None => format!("panicked: {message}"),
    }
}

fn panic_message(payload: &dyn Any) -> &str {
    match (payload.downcast_ref::<&str>(), payload.downcast_ref::<String>()) {
        (Some(message), _) => message,
        (None, Some(message)) => message,
        (None, None) => "the payload is not text",
    }
}

#[cfg(feature = "log")]
mod facade {
    use super::{Level, host};

    struct Facade;

    impl ::log::Log for Facade {
        fn enabled(&self, _: &::log::Metadata<'_>) -> bool {
            true
        }

        fn log(&self, record: &::log::Record<'_>) {
            let level = match record.level() {
                ::log::Level::Error => Level::Error,
                ::log::Level::Warn => Level::Warn,
                ::log::Level::Info => Level::Info,
                ::log::Level::Debug => Level::Debug,
                ::log::Level::Trace => Level::Trace,
            };
            host::log(level, &record.args().to_string(), &[]);
        }

        fn flush(&self) {}
    }

    pub(super) fn install() {
        // Fails only if the plugin has installed its own logger, which is allowed.
        if ::log::set_logger(&Facade).is_ok() {
            ::log::set_max_level(::log::LevelFilter::Trace);
        }
    }
}
