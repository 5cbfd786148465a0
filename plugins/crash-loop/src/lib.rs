//! Reports containers that crash-loop, or that were killed for want of memory.
//!
//! One line at level warn for each piece of news:
//!
//! ```text
//! web/checkout-7d9f: container app is crash-looping: 5 restarts, last exit code 1 (Error)
//! web/checkout-7d9f: container app was OOM-killed: exit code 137, seen once, 6 restarts
//! ```
//!
//! What was said of a pod is remembered by its uid and forgotten when the pod is deleted, so a resync or a replay says
//! nothing twice, and a new pod of the same name starts afresh. After each initial list a summary is logged at level
//! info.
//!
//! Config, all optional:
//!
//! ```toml
//! config = { min-restarts = 3 }   # a crash-looping container is reported from so many restarts on; default 1
//! ```

mod handler;
mod pod;
mod report;

use handler::CrashLoop;
use informant_plugin_sdk::export;

export!(CrashLoop: events, sync);

#[cfg(test)]
mod tests;
