//! Reports containers that crash-loop or were OOM-killed.
//!
//! Each report is one line at level warn:
//!
//! ```text
//! web/checkout-7d9f: container app is crash-looping: 5 restarts, last exit code 1 (Error)
//! web/checkout-7d9f: container app was OOM-killed: exit code 137, seen once, 6 restarts
//! ```
//!
//! The plugin remembers its reports by the uid of the pod until the pod is deleted. So a resync or a replay repeats
//! nothing, and a new pod with the same name is reported again. After each initial list or replay, the plugin logs a
//! summary at level info.
//!
//! Optional config:
//!
//! ```toml
//! config = { min-restarts = 3 }   # restarts from which a crash-looping container is reported; default 1
//! ```

mod handler;
mod pod;
mod report;

use handler::CrashLoop;
use informant_plugin_sdk::export;

export!(CrashLoop: events, sync);

#[cfg(test)]
mod tests;
