//! The plugin host with real guests: what it refuses, what it contains, and that no event is lost.

#![expect(clippy::unwrap_used, reason = "what a test can not do without")]

mod containment;
mod delivery;
mod indexes;
mod kube;
mod reconfigure;
mod refusals;
mod scripts;
mod swaps;
mod world;
