//! Where the daemon is: an address, a URL, or a pod that a port-forward leads to.

use std::fmt;
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr, SocketAddr};
use std::os::unix::fs::{FileTypeExt as _, MetadataExt as _};
use std::path::{Path, PathBuf};

use anyhow::{Result, bail};
use http::Uri;
use http::uri::Scheme;
use informant_config::{ADMIN_LISTEN_DEFAULT, ADMIN_SOCKET_DEFAULT, AdminListen, Config};
use rustix::process::geteuid;

use super::AdminArgs;
use crate::cli::{CONFIG_DEFAULT, output};
use crate::config_file;

/// The port of an https URL without one.
const HTTPS_PORT: u16 = 443;

/// Where Informant runs, unless a flag says otherwise.
pub(in crate::cli) const NAMESPACE_DEFAULT: &str = "informant";

/// An admin server, as a flag or a configuration names it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) enum AdminServer {
    /// Plain HTTP, without authentication.
    Plain(SocketAddr),
    /// HTTPS, with the caller's token. The host of an IPv6 address has no brackets.
    Secure { host: String, port: u16 },
}

impl AdminServer {
    pub(super) fn parse(text: &str) -> Result<Self, String> {
        const FORMS: &str = "write ADDRESS:PORT for plain HTTP, or https://HOST:PORT";
        if let Ok(address) = text.parse() {
            return Ok(Self::Plain(address));
        }
        let url: Uri = text.parse().map_err(|_| FORMS.to_owned())?;
        if url.scheme() != Some(&Scheme::HTTPS) {
            return Err(FORMS.to_owned());
        }
        let is_bare = matches!(url.path_and_query().map(|path| path.as_str()), None | Some("/"));
        let host = url.host().unwrap_or_default().trim_matches(['[', ']']);
        let has_user = url
            .authority()
            .is_some_and(|authority| authority.as_str().contains('@'));
        if !is_bare || host.is_empty() || has_user {
            return Err(format!("{FORMS}, without a user and without a path"));
        }
        Ok(Self::Secure {
            host: host.to_owned(),
            port: url.port_u16().unwrap_or(HTTPS_PORT),
        })
    }

    fn port(&self) -> u16 {
        match self {
            Self::Plain(address) => address.port(),
            Self::Secure { port, .. } => *port,
        }
    }

    pub(super) fn authority(&self) -> String {
        match self {
            Self::Plain(address) => address.to_string(),
            Self::Secure { host, port } if host.contains(':') => format!("[{host}]:{port}"),
            Self::Secure { host, port } => format!("{host}:{port}"),
        }
    }
}

impl fmt::Display for AdminServer {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        let scheme = if matches!(self, Self::Secure { .. }) {
            "https://"
        } else {
            ""
        };
        write!(out, "{scheme}{}", self.authority())
    }
}

/// Where a command finds the daemon.
#[derive(Debug, PartialEq, Eq)]
pub(super) enum Target {
    Server(AdminServer, Origin),
    /// The admin socket of a daemon of this user.
    Socket(PathBuf),
    /// A pod of this namespace: the one of this name, or else the only one.
    Pod {
        namespace: String,
        name: Option<String>,
    },
}

/// Where the address of an admin server was configured.
#[derive(Debug, PartialEq, Eq)]
pub(super) enum Origin {
    Flag,
    /// The Lease of another replica.
    Lease,
    File(PathBuf),
    Default,
}

impl Target {
    /// From `--admin`, the admin socket of the configuration or the default one if it is there, an explicit `--config`,
    /// the flags of a port-forward, the configuration in the working directory, or the default, in this order. As a
    /// kubectl plugin, the flags of a port-forward are always set.
    pub(super) fn of(args: &AdminArgs) -> Result<Self> {
        let (server, origin) = match (&args.admin, &args.config, args.pod.namespace()) {
            (Some(AdminServer::Plain(address)), _, _) => (AdminServer::Plain(reachable(*address)), Origin::Flag),
            (Some(server), _, _) => (server.clone(), Origin::Flag),
            (None, None, Some(namespace)) => {
                return Ok(Self::Pod {
                    namespace: namespace.to_owned(),
                    name: args.pod.pod.clone(),
                });
            }
            (None, config, _) => {
                let configured = by_config(config.as_deref())?;
                // Flags of TLS and of a token mean the server.
                let wants_server = args.identity.flag().or(args.tls.flag()).is_some();
                if !wants_server && is_own_socket(&configured.socket) {
                    return Ok(Self::Socket(configured.socket));
                }
                (configured.server, configured.origin)
            }
        };
        if server.port() == 0 {
            let target = Self::Server(server, origin);
            bail!("{target} has no port to connect to: pass the port from the daemon's log with --admin");
        }
        Ok(Self::Server(server, origin))
    }

    /// The error message if nothing responds.
    pub(super) fn unreachable(&self) -> String {
        let hint = match self {
            Self::Server(_, Origin::File(_)) => "; a running daemon keeps the address it started with",
            Self::Server(_, Origin::Flag | Origin::Default) => "",
            Self::Server(_, Origin::Lease) => return format!("no daemon responds at {self}"),
            Self::Socket(_) => return format!("no daemon responds at {self}; start `informant run`"),
            Self::Pod { .. } => return format!("no daemon responds in {self}"),
        };
        format!("no daemon responds at {self}{hint}; start `informant run`, or pass its admin address with --admin")
    }
}

impl fmt::Display for Target {
    /// `127.0.0.1:8089 (--admin)`
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Server(server, Origin::Flag) => write!(out, "{server} (--admin)"),
            Self::Server(server, Origin::Lease) => write!(out, "{server} (the address in its Lease)"),
            Self::Server(server, Origin::File(path)) => write!(out, "{server} ([admin] listen in {})", path.display()),
            Self::Server(server, Origin::Default) => write!(out, "{server} (the default)"),
            Self::Socket(path) => write!(out, "the admin socket {}", path.display()),
            Self::Pod { namespace, name: None } => write!(out, "a pod in namespace {namespace}"),
            Self::Pod {
                namespace,
                name: Some(name),
            } => write!(out, "pod {namespace}/{name}"),
        }
    }
}

/// What a configuration, or its absence, says about the daemon.
#[derive(Debug)]
struct Configured {
    server: AdminServer,
    origin: Origin,
    socket: PathBuf,
}

/// Reads only `[admin]` of the configuration. Errors in the rest become warnings: the daemon refuses such a file
/// and keeps running its previous configuration, so that it can still be queried. A missing file is an error only
/// if it was named explicitly.
fn by_config(named: Option<&Path>) -> Result<Configured> {
    let path = named.unwrap_or(Path::new(CONFIG_DEFAULT));
    let default = |socket: Option<PathBuf>| Configured {
        server: AdminServer::Plain(ADMIN_LISTEN_DEFAULT),
        origin: Origin::Default,
        socket: socket.unwrap_or_else(|| ADMIN_SOCKET_DEFAULT.into()),
    };
    if named.is_none() && !path.exists() {
        return Ok(default(None));
    }
    let (listen, tls, socket, errors) = match config_file::read(path) {
        Ok(file) => {
            let AdminListen {
                listen,
                tls,
                socket,
                errors,
            } = Config::admin_listen_of(&file);
            (listen, tls, socket, errors)
        }
        Err(error) => match config_file::unreadable(path, &error) {
            problems if named.is_some() => return Err(problems.into()),
            problems => (None, false, None, problems),
        },
    };
    for error in errors.0 {
        output::note(&error.warning().to_string());
    }
    let origin = match (listen, tls) {
        (None, false) => return Ok(default(socket)),
        (None, true) | (Some(_), _) => Origin::File(path.to_owned()),
    };
    let address = reachable(listen.unwrap_or(ADMIN_LISTEN_DEFAULT));
    let server = match tls {
        false => AdminServer::Plain(address),
        true => AdminServer::Secure {
            host: address.ip().to_string(),
            port: address.port(),
        },
    };
    Ok(Configured {
        server,
        origin,
        ..default(socket)
    })
}

/// Whether a process of this user listens there, or did.
fn is_own_socket(path: &Path) -> bool {
    let found = std::fs::symlink_metadata(path);
    found.is_ok_and(|found| found.file_type().is_socket() && found.uid() == geteuid().as_raw())
}

/// A server that listens on all addresses is reached on loopback.
fn reachable(listen: SocketAddr) -> SocketAddr {
    let ip = match listen.ip() {
        IpAddr::V4(ip) if ip.is_unspecified() => IpAddr::V4(Ipv4Addr::LOCALHOST),
        IpAddr::V6(ip) if ip.is_unspecified() => IpAddr::V6(Ipv6Addr::LOCALHOST),
        ip => ip,
    };
    SocketAddr::new(ip, listen.port())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn admin_takes_an_address_or_an_https_url() {
        let secure = |host: &str, port| {
            let host = host.to_owned();
            Ok(AdminServer::Secure { host, port })
        };
        let parse = AdminServer::parse;
        assert_eq!(
            parse("[::1]:8089"),
            Ok(AdminServer::Plain("[::1]:8089".parse().unwrap()))
        );
        assert_eq!(
            parse("https://informant.example.com:8089"),
            secure("informant.example.com", 8089)
        );
        assert_eq!(parse("https://10.0.0.1/"), secure("10.0.0.1", 443));
        assert_eq!(parse("https://[::1]:8089"), secure("::1", 8089));
        assert_eq!(parse("https://[::1]:8089").unwrap().to_string(), "https://[::1]:8089");
        for text in [
            "localhost:8089",
            "http://127.0.0.1:8089",
            "https://a:b@host:8089",
            "https://host:8089/api",
            "https://host:8089?x",
            "https://",
            "https://:8089",
            "",
        ] {
            let error = parse(text).unwrap_err();
            assert!(
                error.starts_with("write ADDRESS:PORT for plain HTTP, or https://HOST:PORT"),
                "{text}: {error}"
            );
        }
    }

    #[test]
    fn configuration_tells_whether_the_server_uses_tls() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("config.toml");
        let target = |text: &str| {
            std::fs::write(&path, text).unwrap();
            by_config(Some(&path)).unwrap().server.to_string()
        };
        assert_eq!(target("[admin]\nlisten = \"127.0.0.1:1\"\n"), "127.0.0.1:1");
        let secure = "tls = \"self-signed\"\n";
        assert_eq!(
            target(&format!("[admin]\nlisten = \"[::]:1\"\n{secure}")),
            "https://[::1]:1"
        );
        assert_eq!(target(&format!("[admin]\n{secure}")), "https://127.0.0.1:8089");
        assert_eq!(target("# nothing\n"), "127.0.0.1:8089");
    }
}
