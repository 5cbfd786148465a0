//! The daemon and its command line.
//!
//! ```text
//! config.toml ─config─▶ Config ─▶ daemon: informers (informant-informer) ─listeners─▶ plugins (informant-plugin-host)
//! argv ──────────cli──▶ command             └── admin: /livez /readyz /metrics /api/v1
//! ```
//! Owns configuration, the command line, the admin server, the wiring between the crates, and the reload of components.
//! Informers and plugins have their own crates; nothing here is on the path of an event.

pub mod admin;
mod age;
pub mod cli;
pub mod cluster;
pub mod config;
pub mod daemon;
mod directories;
mod guests;
pub mod kube_api;
pub mod logging;
mod metrics;
pub mod rbac;
mod script_runner;
mod signals;
mod version;

pub use metrics::{DaemonMetrics, Metrics};
