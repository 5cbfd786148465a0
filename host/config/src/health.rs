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

pub(crate) fn read(root: &Table<'_>) -> HealthSection {
    let table = root.table("health");
    let listen = table.and_then(|table| {
        let help = "write \"[::]:8090\" for all addresses, or one such as \"127.0.0.1:8090\"";
        let listen = listen::read(&table, help);
        table.finish(&[]);
        listen
    });
    HealthSection {
        listen: listen.map_or(HEALTH_LISTEN_DEFAULT, |listen| listen.value),
    }
}
