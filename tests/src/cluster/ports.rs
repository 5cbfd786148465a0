//! Ports for programs that cannot choose one themselves.

use std::net::TcpListener;

use anyhow::Result;

/// Loopback ports that were free a moment ago. All are held while they are chosen, so that they differ.
///
/// # Errors
/// If the system has no free ports.
pub(super) fn free<const N: usize>() -> Result<[u16; N]> {
    let mut listeners = Vec::with_capacity(N);
    let mut ports = [0; N];
    for port in &mut ports {
        let listener = TcpListener::bind("127.0.0.1:0")?;
        *port = listener.local_addr()?.port();
        listeners.push(listener);
    }
    Ok(ports)
}
