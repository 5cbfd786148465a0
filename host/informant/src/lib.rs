//! The daemon and its command line.
//!
//! ```text
//! config.toml ─informant-config─▶ Config ─▶ daemon ─▶ informers (informant-informer)
//!                                             │          │ listeners
//!                                             │          ▼
//!                                             ├──────▶ plugins (informant-plugin-host)
//!                                             └─server─▶ /livez /readyz /metrics, admin: /api/v1
//! argv ─cli─▶ command: `run` starts the daemon; others ask its admin API, or work without a daemon
//! ```
//!
//! Owns the file of the configuration, the command line, the servers, the wiring between the crates, and the reload of
//! components. Informers and plugins have their own crates. No event passes through this crate. Requests of plugins do:
//! `kube_api` and `http_client` send them.
//!
//! Its modules, lowest layer first; none imports from a layer above its own. The daemon knows neither the admin API nor
//! the command line: `cli` passes [`admin::routes`] into [`DaemonOptions::routes`]. In `daemon`,
//! `plugin_supervisor` reloads plugins and `config_supervisor` compares sections:
//!
//! ```layers
//! sync vital_task
//! activities age config_file directories effect_log escape exit files
//! key_file kube_api memory_limit metrics phrase recorded runbooks status_line
//! cluster http_client logging rbac replicas script_runners server
//! guests
//! daemon
//! admin signals
//! cli
//! ```

mod activities;
mod admin;
mod age;
mod cli;
mod cluster;
pub mod config_file;
mod daemon;
mod directories;
mod effect_log;
mod escape;
mod exit;
mod files;
mod guests;
mod http_client;
mod key_file;
mod kube_api;
mod logging;
mod memory_limit;
mod metrics;
mod phrase;
mod rbac;
mod recorded;
mod replicas;
mod runbooks;
mod script_runners;
mod server;
mod signals;
mod status_line;
mod sync;
mod vital_task;

pub use activities::Activities;
pub use admin::{is_ready, routes};
pub use cli::{Cli, Exit};
pub use cluster::{ClusterAccess, ClusterFlags};
pub use daemon::{ConfigOverrides, Daemon, DaemonOptions, SETTLE, ShutdownReport};
pub use http_client::{HttpSender, SystemResolver};
pub use metrics::Metrics;

/// The plugin contract, as in `wit/`.
pub(crate) const CONTRACT: &str = "informant:plugin@0.3.0";

/// The long output of `--version`: the versions of the program, of the plugin contract and of the engine that runs
/// guests.
pub(crate) const LONG_VERSION: &str = concat!(
    env!("CARGO_PKG_VERSION"),
    "\ncontract: informant:plugin@0.3.0\nwasmtime: ",
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
