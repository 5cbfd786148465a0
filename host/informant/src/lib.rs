//! The daemon and its command line.
//!
//! ```text
//! config.toml ─informant-config─▶ Config ─▶ daemon: informers (informant-informer) ─listeners─▶ plugins (informant-plugin-host)
//! argv ──────────cli──▶ command             └── server: /livez /readyz /metrics, admin: /api/v1
//! ```
//! Owns the file of the configuration, the command line, the servers, the wiring between the crates, and the reload of components.
//! Informers and plugins have their own crates; nothing here is on the path of an event.

mod activities;
pub mod admin;
mod age;
pub mod cli;
pub mod cluster;
pub mod config_file;
pub mod daemon;
mod directories;
mod escape;
mod files;
mod guests;
pub mod http_client;
mod key_file;
pub mod kube_api;
pub mod logging;
mod metrics;
pub mod rbac;
mod runbooks;
mod server;
mod signals;

pub use activities::Activities;
pub use metrics::{DaemonMetrics, Metrics};

/// The plugin contract, as in `wit/`.
pub(crate) const CONTRACT: &str = "informant:plugin@0.2.0";

/// The long output of `--version`: the versions of the program, of the plugin contract and of the engine that runs
/// guests.
pub(crate) const LONG_VERSION: &str = concat!(
    env!("CARGO_PKG_VERSION"),
    "\ncontract: informant:plugin@0.2.0\nwasmtime: ",
    env!("INFORMANT_WASMTIME_VERSION"),
);

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn contract_matches_the_plugin_host() {
        assert_eq!(
            CONTRACT,
            format!("informant:plugin@{}", informant_plugin_host::CONTRACT)
        );
        assert!(LONG_VERSION.contains(CONTRACT));
    }
}
