//! The shared informer through its public API, on the embedded API server.

mod durable;
mod freshness;
mod handlers;
mod indexes;
mod lifecycle;
mod load;
mod other_namespaces;
mod random;
mod reconfigure;
mod registrations;
mod resource_changes;
mod shards;
mod shed;
mod takeovers;
