//! What the end-to-end tests, the demo and the simulation stand on.
//!
//! Owns processes (each one dies with its owner), clusters (a real kube-apiserver with etcd, or the embedded one), a
//! client that writes plain JSON objects, a running `informant`, and the recordings that test guests leave in its log.
//! Whatever is waited for is a condition with a deadline; nothing here sleeps for a fixed time except load generators,
//! which pace real time.

pub mod bench;
pub mod chaos;
pub mod client;
pub mod cluster;
pub mod conformance;
pub mod daemon;
pub mod demo;
pub mod guests;
pub mod objects;
pub mod process;
pub mod recording;
pub mod scripts;
pub mod simulation;
pub mod wait;
