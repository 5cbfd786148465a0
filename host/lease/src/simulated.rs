//! For simulations: one replica as the daemon wires it, and an API server that has Leases.

mod process;
mod server;

pub use process::{Input, Process};
pub use server::{Name, Server};
