//! What clients can rely on, tested like a client: by HTTP requests to the service, without sockets, in paused time
//! (except for the listener's own tests).

#![expect(clippy::unwrap_used, reason = "tests fail by panicking")]

mod definitions;
mod deletes;
mod discovery;
mod faults;
mod identity;
mod listener;
mod lists;
mod patches;
mod property;
mod replicas;
mod snapshots;
mod tables;
mod watches;
mod writes;

mod support;
