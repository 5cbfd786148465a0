//! Listening sockets.

use std::io;
use std::net::{IpAddr, Ipv4Addr, SocketAddr, TcpListener};

use socket2::{Domain, Protocol, Socket, Type};

/// How many connections the kernel holds until they are accepted.
const BACKLOG_CONNECTIONS: i32 = 1_024;

/// Listens on an address. `[::]` includes IPv4, and is `0.0.0.0` where IPv6 is off, as in Go.
pub(crate) fn bind(address: SocketAddr) -> io::Result<TcpListener> {
    match listen(address) {
        Err(_) if is_all_of_ipv6(address) && !has_ipv6() => {
            listen(SocketAddr::new(IpAddr::V4(Ipv4Addr::UNSPECIFIED), address.port()))
        }
        bound => bound,
    }
}

fn is_all_of_ipv6(address: SocketAddr) -> bool {
    address.is_ipv6() && address.ip().is_unspecified()
}

/// Whether a socket can be bound to an IPv6 address: containers may have the family without any address.
fn has_ipv6() -> bool {
    listen(SocketAddr::new(IpAddr::V6(std::net::Ipv6Addr::UNSPECIFIED), 0)).is_ok()
}

fn listen(address: SocketAddr) -> io::Result<TcpListener> {
    let socket = Socket::new(Domain::for_address(address), Type::STREAM, Some(Protocol::TCP))?;
    if is_all_of_ipv6(address) {
        // The default depends on the system.
        socket.set_only_v6(false)?;
    }
    // A restarted daemon gets its port although connections of the one before are still closing.
    socket.set_reuse_address(true)?;
    socket.set_nonblocking(true)?;
    socket.bind(&address.into())?;
    socket.listen(BACKLOG_CONNECTIONS)?;
    Ok(socket.into())
}

#[cfg(test)]
mod tests {
    use std::net::{Ipv6Addr, TcpStream};

    use super::*;

    #[test]
    fn all_addresses_include_ipv4() {
        let any = SocketAddr::new(IpAddr::V6(Ipv6Addr::UNSPECIFIED), 0);
        let listener = bind(any).unwrap();
        let port = listener.local_addr().unwrap().port();
        TcpStream::connect((Ipv4Addr::LOCALHOST, port)).unwrap();
    }

    #[test]
    fn an_address_in_use_is_refused() {
        let first = bind(SocketAddr::new(IpAddr::V6(Ipv6Addr::UNSPECIFIED), 0)).unwrap();
        let error = bind(first.local_addr().unwrap()).unwrap_err();
        assert_eq!(error.kind(), io::ErrorKind::AddrInUse);
    }
}
