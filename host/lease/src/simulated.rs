//! For simulations: an API server that has Leases.

mod server;

pub use server::Server;
