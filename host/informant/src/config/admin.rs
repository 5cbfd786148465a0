//! `[admin]`: where the admin server listens.

use std::net::{Ipv4Addr, SocketAddr};

use super::problem::Problems;
use super::table::{Keys, Table};

/// Where the admin server listens unless config.toml or `--admin-listen` says otherwise: loopback, because it shows
/// what is in the cache and asks nobody who they are.
pub const ADMIN_LISTEN_DEFAULT: SocketAddr = SocketAddr::new(std::net::IpAddr::V4(Ipv4Addr::LOCALHOST), 8089);

const KEYS: Keys = Keys {
    known: &["listen"],
    planned: &[],
};

/// The admin server.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct AdminSection {
    /// Address and port; port 0 takes a free one, which the log names.
    pub listen: SocketAddr,
}

pub(super) fn read(root: &Table<'_>) -> AdminSection {
    let Some(table) = root.has("admin").then(|| root.table("admin")).flatten() else {
        return AdminSection {
            listen: ADMIN_LISTEN_DEFAULT,
        };
    };
    table.only(&KEYS);
    AdminSection {
        listen: read_listen(&table).unwrap_or(ADMIN_LISTEN_DEFAULT),
    }
}

/// What a file says of where the admin server of a daemon with it listens.
#[derive(Debug)]
pub(crate) struct AdminListen {
    /// None: the file does not say it, or cannot be read that far.
    pub(crate) listen: Option<SocketAddr>,
    /// What is wrong with the file as far as it was read: errors for which a daemon refuses it, and goes on with what
    /// it had before.
    pub(crate) errors: Problems,
}

/// `listen` alone, whatever else there is.
pub(super) fn listen_of(root: &Table<'_>) -> Option<SocketAddr> {
    let table = root.has("admin").then(|| root.table("admin")).flatten()?;
    table.only(&KEYS);
    read_listen(&table)
}

fn read_listen(table: &Table<'_>) -> Option<SocketAddr> {
    let text = table.string("listen")?;
    let Ok(listen) = text.value.parse::<SocketAddr>() else {
        let problem = table.error(
            text.place,
            format!("`listen` = \"{}\" is not an address and a port", text.value),
        );
        let help = "write \"127.0.0.1:8089\", \"[::1]:8089\" or \"0.0.0.0:8089\"";
        table.reporter().report(problem.help(help));
        return None;
    };
    if !listen.ip().is_loopback() {
        let problem = table.error(
            text.place,
            format!("the admin server at {listen} can be reached from outside"),
        );
        let help = "it asks nobody who they are and shows every cached object: keep strangers out by a NetworkPolicy";
        table.reporter().report(problem.help(help).warning());
    }
    Some(listen)
}
