//! Connects to the host of a URL: looks its name up once, checks every address, and connects to one of these.
//!
//! What was checked is what is connected to: a name that resolves to another address a moment later changes nothing.

use std::io;
use std::net::{IpAddr, SocketAddr, ToSocketAddrs as _};
use std::pin::Pin;

use http::{HeaderValue, Uri};
use informant_config::HttpSection;
use informant_plugin_host::{HttpError, HttpErrorCode, HttpPermit, forbidden_address};
use tokio::io::{AsyncRead, AsyncWrite};
use tokio::net::TcpStream;
use tokio::time::timeout;

use super::HTTP_CONNECT_MAX;
use super::proxy::Proxy;
use super::tls::Tls;

/// Addresses of one name that are tried: 8. Further ones are only checked.
const ADDRESSES_TRIED_MAX: usize = 8;

/// Looks names up.
pub trait Resolver: Send + Sync + 'static {
    /// All addresses of a name. Keeps `permit` until the lookup has ended, also if no request waits for it any more.
    fn resolve(&self, name: &str, permit: HttpPermit) -> Resolving;
}

pub(crate) type Resolving = Pin<Box<dyn Future<Output = io::Result<Vec<IpAddr>>> + Send>>;

/// The operating system's resolver.
#[derive(Clone, Copy, Debug)]
pub struct SystemResolver;

impl Resolver for SystemResolver {
    fn resolve(&self, name: &str, permit: HttpPermit) -> Resolving {
        let name = name.to_owned();
        // It may take longer than the request, and cannot be ended: the permit bounds the threads of one plugin.
        let look_up = move || {
            let found = (name.as_str(), 0).to_socket_addrs()?;
            let addresses = found.map(|address| address.ip()).collect();
            drop(permit);
            Ok(addresses)
        };
        Box::pin(async move { tokio::task::spawn_blocking(look_up).await.map_err(io::Error::other)? })
    }
}

/// A stream of bytes: TCP, TLS, or a tunnel.
pub(super) trait Stream: AsyncRead + AsyncWrite + Send + Unpin {}

impl<T: AsyncRead + AsyncWrite + Send + Unpin> Stream for T {}

/// Opens connections.
pub(super) struct Connector {
    resolver: Box<dyn Resolver>,
    proxy: Option<Proxy>,
    tls: Tls,
}

pub(super) struct Connection {
    pub(super) stream: Box<dyn Stream>,
    /// The host as in the URL, with its port unless that is the scheme's.
    pub(super) host_header: String,
    /// A proxy that takes whole URLs is on the other side, with its credentials if it needs some.
    pub(super) absolute_form_with: Option<Option<HeaderValue>>,
}

pub(super) struct Destination<'u> {
    /// In brackets if it is an IPv6 address.
    pub(super) host: &'u str,
    pub(super) port: u16,
    is_https: bool,
}

impl<'u> Destination<'u> {
    fn of(url: &'u Uri) -> Option<Destination<'u>> {
        let is_https = url.scheme_str()? == "https";
        let usual = if is_https { 443 } else { 80 };
        Some(Destination {
            host: url.host()?,
            port: url.port_u16().unwrap_or(usual),
            is_https,
        })
    }

    fn host_header(&self) -> String {
        let host = self.host.to_ascii_lowercase();
        match (self.port, self.is_https) {
            (443, true) | (80, false) => host,
            (port, _) => format!("{host}:{port}"),
        }
    }
}

impl Connector {
    pub(super) fn new(section: &HttpSection, resolver: Box<dyn Resolver>) -> Connector {
        Connector {
            resolver,
            proxy: Proxy::new(section),
            tls: Tls::new(section.ca_file.as_ref().map(|file| file.value.clone())),
        }
    }

    /// Connects to the host of `url`. `granted`: the address it has instead of a name, which is not checked.
    pub(super) async fn connect(
        &self,
        url: &Uri,
        granted: Option<IpAddr>,
        permit: &HttpPermit,
    ) -> Result<Connection, HttpError> {
        let destination =
            Destination::of(url).ok_or_else(|| HttpError::new(HttpErrorCode::Protocol, "the URL is not absolute"))?;
        let host_header = destination.host_header();
        let hop = self.proxy.as_ref().and_then(|proxy| proxy.hop(url));
        let (stream, absolute_form_with): (Box<dyn Stream>, _) = match (&hop, destination.is_https) {
            (None, _) => (Box::new(self.reach(&destination, granted, permit).await?), None),
            // The proxy looks the name up, so there is no address to check here.
            (Some(hop), false) => (
                Box::new(self.reach_proxy(hop.url(), permit).await?),
                Some(hop.authorization()),
            ),
            (Some(hop), true) => {
                let socket = self.reach_proxy(hop.url(), permit).await?;
                (Box::new(hop.tunnel(socket, &destination).await?), None)
            }
        };
        let stream = match destination.is_https {
            true => Box::new(self.tls.shake_hands(destination.host, stream).await?),
            false => stream,
        };
        Ok(Connection {
            stream,
            host_header,
            absolute_form_with,
        })
    }

    async fn reach(
        &self,
        destination: &Destination<'_>,
        granted: Option<IpAddr>,
        permit: &HttpPermit,
    ) -> Result<TcpStream, HttpError> {
        if let Some(address) = granted {
            return connect_to(&[address], destination.port).await;
        }
        let addresses = self.look_up(destination.host, permit).await?;
        for address in &addresses {
            if let Some(kind) = forbidden_address(*address) {
                let message = format!(
                    "the name resolves to {address}, {kind}, which plugins reach only if allow.http names the address"
                );
                return Err(HttpError::new(HttpErrorCode::Address, message));
            }
        }
        connect_to(&addresses, destination.port).await
    }

    async fn reach_proxy(&self, url: &Uri, permit: &HttpPermit) -> Result<TcpStream, HttpError> {
        let of_proxy = |error: HttpError| HttpError::new(error.code, format!("the proxy ([http] proxy): {error}"));
        let host = url.host().unwrap_or_default();
        let addresses = match host.trim_matches(['[', ']']).parse() {
            Ok(address) => vec![address],
            Err(_) => self.look_up(host, permit).await.map_err(of_proxy)?,
        };
        let port = url.port_u16().unwrap_or(80);
        connect_to(&addresses, port).await.map_err(of_proxy)
    }

    async fn look_up(&self, name: &str, permit: &HttpPermit) -> Result<Vec<IpAddr>, HttpError> {
        match self.resolver.resolve(name, permit.clone()).await {
            Ok(addresses) if !addresses.is_empty() => Ok(addresses),
            Ok(_) => Err(HttpError::new(HttpErrorCode::Dns, "the name has no address")),
            Err(error) => {
                let message = format!("the name cannot be looked up: {error}");
                Err(HttpError::new(HttpErrorCode::Dns, message))
            }
        }
    }
}

/// Connects to the first address that answers. Each has an equal part of the time, so that one that is silent does not
/// keep the others from being tried.
async fn connect_to(addresses: &[IpAddr], port: u16) -> Result<TcpStream, HttpError> {
    let mut failure = None;
    let tried = addresses.iter().take(ADDRESSES_TRIED_MAX);
    let each = HTTP_CONNECT_MAX.div_f64(tried.len().max(1) as f64);
    for address in tried {
        let why = match timeout(each, TcpStream::connect(SocketAddr::new(*address, port))).await {
            Ok(Ok(socket)) => {
                // Only a delay, if it fails.
                let _ = socket.set_nodelay(true);
                return Ok(socket);
            }
            Ok(Err(error)) => error.to_string(),
            Err(_late) => format!("no answer within {each:?}"),
        };
        failure = Some(format!("cannot connect to {address}, port {port}: {why}"));
    }
    Err(HttpError::new(HttpErrorCode::Connect, failure.unwrap_or_default()))
}
