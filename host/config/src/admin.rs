//! `[admin]`: the address of the admin server, and its TLS.

use std::collections::BTreeMap;
use std::net::{Ipv4Addr, SocketAddr};
use std::path::PathBuf;

use crate::cluster::ClusterSection;
use crate::listen;
use crate::problem::Problems;
use crate::source::Located;
use crate::table::Table;
use informant_spec::suggest::did_you_mean;

/// The default address of the admin server: loopback, where it needs no authentication.
pub const ADMIN_LISTEN_DEFAULT: SocketAddr = SocketAddr::new(std::net::IpAddr::V4(Ipv4Addr::LOCALHOST), 8089);

/// The default path of the admin socket. Its folder is created if the one above exists: in the image a volume that
/// every user may write to.
pub const ADMIN_SOCKET_DEFAULT: &str = "/run/informant/admin/admin.sock";

#[derive(Debug, Clone, PartialEq, Eq)]
pub struct AdminSection {
    /// Address and port; port 0 picks a free one, which is logged.
    pub listen: SocketAddr,
    /// The unix socket for this user, relative to the current folder. None: [`ADMIN_SOCKET_DEFAULT`], where possible.
    pub socket: Option<PathBuf>,
    /// The host names in requests that are accepted, besides `localhost` and every IP address.
    pub hosts: Vec<String>,
    /// Its certificate; with one, callers have to authenticate. Always set if others than this machine can connect.
    pub tls: Option<Located<AdminTls>>,
    /// The cluster whose API server authenticates and authorizes callers. Empty: the only one, or no TLS.
    pub cluster: String,
}

/// Where the certificate of the admin server comes from.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum AdminTls {
    /// Generated at the start and kept in memory.
    SelfSigned,
    /// Read from files, and again whenever they change. Both are resolved relative to the current folder.
    Files {
        /// The certificate and the intermediate ones, in PEM format.
        certificate: PathBuf,
        /// Its private key, in PEM format.
        key: PathBuf,
    },
}

pub(crate) fn read(root: &Table<'_>, clusters: &BTreeMap<String, Located<ClusterSection>>) -> AdminSection {
    let Some(table) = root.table("admin") else {
        return AdminSection {
            listen: ADMIN_LISTEN_DEFAULT,
            socket: None,
            hosts: Vec::new(),
            tls: None,
            cluster: String::new(),
        };
    };
    let listen = read_listen(&table);
    let tls = read_tls(&table);
    if let Some(exposed) = listen.as_ref().and_then(|listen| exposed(listen.value))
        && !table.has("tls")
    {
        table.refuse(table.value_position("listen"), exposed, EXPOSED_HELP);
    }
    let section = AdminSection {
        listen: listen.map_or(ADMIN_LISTEN_DEFAULT, |listen| listen.value),
        socket: read_socket(&table),
        hosts: read_hosts(&table),
        cluster: read_cluster(&table, clusters).unwrap_or_default(),
        tls,
    };
    table.finish(&[]);
    section
}

/// Reads `hosts`; reports what is not a host name, such as a URL or a name with a port.
fn read_hosts(table: &Table<'_>) -> Vec<String> {
    let hosts = table.strings("hosts").unwrap_or_default();
    let is_part_of_name = |byte: u8| byte.is_ascii_alphanumeric() || b"-._".contains(&byte);
    let is_name = |host: &str| !host.is_empty() && host.bytes().all(is_part_of_name);
    for host in hosts.iter().filter(|host| !is_name(&host.value)) {
        let message = format!("`hosts`: \"{}\" is not a host name", host.value);
        let help = "write the name only, without scheme and port: \"informant.example.com\"";
        table.refuse(host.position, message, help);
    }
    hosts.into_iter().map(|host| host.value).collect()
}

/// Reads `socket`; an empty text is refused.
fn read_socket(table: &Table<'_>) -> Option<PathBuf> {
    let socket = table.string("socket")?;
    if socket.value.is_empty() {
        let help = format!("write a path, or remove the key: the default is \"{ADMIN_SOCKET_DEFAULT}\"");
        table.refuse(socket.position, "`socket` is empty", help);
        return None;
    }
    Some(table.file(socket.value))
}

/// What `tls` may be.
const TLS_HELP: &str =
    "write tls = \"self-signed\", or tls = { cert-file = \"/tls/tls.crt\", key-file = \"/tls/tls.key\" }";

/// Reads `tls`; a table that lacks a file is reported, and so is any other text than `self-signed`.
fn read_tls(table: &Table<'_>) -> Option<Located<AdminTls>> {
    if !table.has("tls") {
        return None;
    }
    let position = table.value_position("tls");
    if table.is_table("tls") {
        let tls = table.table("tls")?;
        let file = |key| {
            let path = tls.required_string(key, TLS_HELP)?.value;
            Some(tls.file(path))
        };
        let (certificate, key) = (file("cert-file"), file("key-file"));
        tls.finish(&[]);
        let value = AdminTls::Files {
            certificate: certificate?,
            key: key?,
        };
        return Some(Located { value, position });
    }
    if table.is_string("tls") && table.string("tls").is_some_and(|text| text.value == "self-signed") {
        let value = AdminTls::SelfSigned;
        return Some(Located { value, position });
    }
    let message = "`tls` must be \"self-signed\" or a table with two files";
    table.refuse(position, message, TLS_HELP);
    None
}

/// The cluster that authenticates callers: `cluster`, or else the only one, or else that of the pod.
fn read_cluster(table: &Table<'_>, clusters: &BTreeMap<String, Located<ClusterSection>>) -> Option<String> {
    let names: Vec<&str> = clusters.keys().map(String::as_str).collect();
    if let Some(named) = table.string("cluster") {
        if named.value.is_empty() || !clusters.contains_key(&named.value) {
            let message = format!("`cluster`: no cluster named \"{}\"", named.value);
            let help = match &names[..] {
                [""] => "the configuration has one unnamed cluster: remove the key".to_owned(),
                names => did_you_mean(&named.value, names, "clusters"),
            };
            table.refuse(named.position, message, help);
        }
        return Some(named.value);
    }
    if !table.has("tls") {
        // Callers are not authenticated, so that a change of the clusters is none of this section.
        return None;
    }
    if let &[only] = &names[..] {
        return Some(only.to_owned());
    }
    let mut own = clusters.iter().filter(|(_, cluster)| cluster.value.in_cluster);
    match (own.next(), own.next()) {
        (Some((own, _)), None) => Some(own.clone()),
        _ => {
            let message = "with several clusters, `tls` needs to know which one authenticates callers";
            let help = format!("set cluster = \"NAME\" in [admin], one of {}", names.join(", "));
            table.refuse(table.value_position("tls"), message, help);
            None
        }
    }
}

/// The admin address in a file that may be invalid.
#[derive(Debug)]
pub struct AdminListen {
    /// `None` if the file does not set it or cannot be parsed.
    pub listen: Option<SocketAddr>,
    pub tls: bool,
    pub socket: Option<PathBuf>,
    /// The errors in the part that was read. A daemon refuses such a file and keeps running its previous configuration.
    pub errors: Problems,
}

/// Reads `listen`, whether `tls` is set, and `socket`.
pub(crate) fn listen_of(root: &Table<'_>) -> (Option<SocketAddr>, bool, Option<PathBuf>) {
    let Some(table) = root.table("admin") else {
        return (None, false, None);
    };
    let listen = read_listen(&table).map(|listen| listen.value);
    let read = (listen, table.has("tls"), read_socket(&table));
    // Known, but not read: errors in them do not concern a client.
    table.ignore(&["cluster", "hosts"]);
    table.finish(&[]);
    read
}

fn read_listen(table: &Table<'_>) -> Option<Located<SocketAddr>> {
    listen::read(table, "write \"127.0.0.1:8089\", \"[::1]:8089\" or \"0.0.0.0:8089\"")
}

/// What to do about an admin server that others can reach.
pub const EXPOSED_HELP: &str =
    "set `tls` in [admin], so that callers have to authenticate; or listen on loopback, and use `kubectl port-forward`";

/// The error about an admin address without TLS that is reachable from other machines.
pub fn exposed(listen: SocketAddr) -> Option<String> {
    let exposed = !listen.ip().to_canonical().is_loopback();
    exposed.then(|| format!("the admin server at {listen} is reachable from other machines, but has no TLS"))
}
