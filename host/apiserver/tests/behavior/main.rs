//! What clients may rely on, asked as clients ask: by HTTP requests to the service, without sockets, in paused time
//! (but for the listener's own tests).

#![expect(clippy::unwrap_used, reason = "a test says what is wrong by failing")]

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
