//! The code that makes one thread wake another, under [loom](https://docs.rs/loom).
//!
//! Each module includes a file of the host with loom's atomics and locks in place of the standard library's. The files
//! are free of tokio, which does not run under loom, and use nothing but their `sync`.

#[cfg(test)]
mod commands;
#[cfg(test)]
mod listener;
#[cfg(test)]
mod ticker;
