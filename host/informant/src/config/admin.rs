//! `[admin]`: the address of the admin server.

use std::net::{Ipv4Addr, SocketAddr};

use super::listen;
use super::problem::Problems;
use super::table::{Keys, Table};

/// The default address of the admin server: loopback, because it exposes the cache without authentication.
pub const ADMIN_LISTEN_DEFAULT: SocketAddr = SocketAddr::new(std::net::IpAddr::V4(Ipv4Addr::LOCALHOST), 8089);

const KEYS: Keys = Keys {
    known: &["hosts", "listen"],
    planned: &[],
};

/// The admin server.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct AdminSection {
    /// Address and port; port 0 picks a free one, which is logged.
    pub listen: SocketAddr,
    /// The host names in requests that are accepted, besides `localhost` and every IP address.
    pub hosts: Vec<String>,
}

pub(super) fn read(root: &Table<'_>) -> AdminSection {
    let Some(table) = root.has("admin").then(|| root.table("admin")).flatten() else {
        return AdminSection {
            listen: ADMIN_LISTEN_DEFAULT,
            hosts: Vec::new(),
        };
    };
    table.only(&KEYS);
    AdminSection {
        listen: read_listen(&table).unwrap_or(ADMIN_LISTEN_DEFAULT),
        hosts: read_hosts(&table),
    }
}

/// Reads `hosts`; reports what is not a host name, such as a URL or a name with a port.
fn read_hosts(table: &Table<'_>) -> Vec<String> {
    let hosts = table.strings("hosts").unwrap_or_default();
    let is_part_of_name = |byte: u8| byte.is_ascii_alphanumeric() || b"-._".contains(&byte);
    let is_name = |host: &str| !host.is_empty() && host.bytes().all(is_part_of_name);
    for host in hosts.iter().filter(|host| !is_name(&host.value)) {
        let problem = table.error(host.position, format!("`hosts`: \"{}\" is not a host name", host.value));
        let help = "write the name only, without scheme and port: \"informant.example.com\"";
        table.reporter().report(problem.help(help));
    }
    hosts.into_iter().map(|host| host.value).collect()
}

/// The admin address in a file that may be invalid.
#[derive(Debug)]
pub(crate) struct AdminListen {
    /// `None` if the file does not set it or cannot be parsed.
    pub(crate) listen: Option<SocketAddr>,
    /// The errors in the part that was read. A daemon refuses such a file and keeps running its previous configuration.
    pub(crate) errors: Problems,
}

/// Reads `listen` alone.
pub(super) fn listen_of(root: &Table<'_>) -> Option<SocketAddr> {
    let table = root.has("admin").then(|| root.table("admin")).flatten()?;
    table.only(&KEYS);
    read_listen(&table)
}

fn read_listen(table: &Table<'_>) -> Option<SocketAddr> {
    let help = "write \"127.0.0.1:8089\", \"[::1]:8089\" or \"0.0.0.0:8089\"";
    let listen = listen::read(table, help)?;
    if let Some(exposed) = exposed(listen.value) {
        let problem = table.error(listen.position, exposed);
        table.reporter().report(problem.help(EXPOSED_HELP).warning());
    }
    Some(listen.value)
}

/// What to do about an admin server that others can reach.
pub(crate) const EXPOSED_HELP: &str =
    "it has no authentication and exposes every cached object: restrict access with a NetworkPolicy";

/// The warning about an admin address that is reachable from other machines.
pub(crate) fn exposed(listen: SocketAddr) -> Option<String> {
    (!listen.ip().is_loopback()).then(|| format!("the admin server at {listen} is reachable from other machines"))
}
