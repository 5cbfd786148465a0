//! `[health]`: the address of probes and metrics.

use std::net::{Ipv6Addr, SocketAddr};

use crate::listen;
use crate::table::Table;

/// The default address of probes and metrics: all addresses, IPv4 and IPv6, because the kubelet and Prometheus connect
/// from outside the pod.
pub const HEALTH_LISTEN_DEFAULT: SocketAddr = SocketAddr::new(std::net::IpAddr::V6(Ipv6Addr::UNSPECIFIED), 8090);

#[derive(Debug, Clone, PartialEq, Eq)]
pub struct HealthSection {
    /// Address and port; port 0 picks a free one, which is logged. `[::]` includes IPv4, and is `0.0.0.0` where IPv6 is
    /// off.
    pub listen: SocketAddr,
}

/// Reads `[health]`; reports an address that is also that of the `admin` server.
pub(crate) fn read(root: &Table<'_>, admin: SocketAddr) -> HealthSection {
    let table = root.table("health");
    let listen = table.and_then(|table| {
        let help = "write \"[::]:8090\" for all addresses, or one such as \"127.0.0.1:8090\"";
        let listen = listen::read(&table, help);
        table.finish(&[]);
        listen
    });
    let listen = listen.map_or(HEALTH_LISTEN_DEFAULT, |listen| listen.value);
    if overlap(listen, admin) {
        // The defaults differ, so one of the two is written.
        let sections = ["health", "admin"].into_iter();
        let written = sections
            .filter_map(|section| root.table(section))
            .find(|table| table.has("listen"));
        if let Some(table) = written {
            let message =
                format!("[health] would listen on {listen}, and [admin] on {admin}: they cannot share a port");
            table.refuse(table.value_position("listen"), message, "give one of them another port");
        }
    }
    HealthSection { listen }
}

/// Whether a system that binds one of them cannot bind the other one. Port 0 is a free one each time.
fn overlap(one: SocketAddr, other: SocketAddr) -> bool {
    let (first, second) = (one.ip().to_canonical(), other.ip().to_canonical());
    let share = first == second || first.is_unspecified() || second.is_unspecified();
    one.port() == other.port() && one.port() != 0 && share
}
