//! The shared informer as its users see it, on the embedded API server.

mod durable;
mod freshness;
mod handlers;
mod indexes;
mod lifecycle;
mod load;
mod random;
mod reconfigure;
mod registrations;
mod resource_changes;
