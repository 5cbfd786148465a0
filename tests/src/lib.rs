//! Support for the end-to-end tests, the demo, the benchmark and the simulation.
//!
//! It provides processes (each ends with its owner), clusters (a real kube-apiserver with etcd, or the embedded one), a
//! client that writes plain JSON objects, a running `informant`, also as its manifests start it, a kubelet's part for
//! pods, the recordings that test guests leave in its log, and the pictures of the documentation.
//! Every wait is for a condition with a deadline; only load generators, which pace real time, sleep for a fixed time.

pub mod bench;
pub mod browser;
pub mod chaos;
pub mod client;
pub mod cluster;
pub mod conformance;
pub mod console;
pub mod daemon;
pub mod demo;
pub mod guests;
pub mod installation;
pub mod kubelet;
pub mod objects;
pub mod pictures;
pub mod process;
pub mod readme;
pub mod recording;
pub mod scripts;
pub mod service;
pub mod simulation;
pub mod terminal;
pub mod wait;
