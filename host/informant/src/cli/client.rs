//! A client of the admin server of a running daemon.

use std::fmt;
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr, SocketAddr};
use std::path::{Path, PathBuf};
use std::time::Duration;

use anyhow::{Context, Result, bail};
use bytes::{Buf, Bytes};
use clap::Args;
use http::{Method, Request, Response, StatusCode};
use http_body_util::{BodyExt, Full, Limited};
use hyper::body::Incoming;
use hyper::client::conn::http1::{self, SendRequest};
use hyper_util::rt::TokioIo;
use serde::Serialize;
use serde::de::DeserializeOwned;
use tokio::net::TcpStream;

use super::{CONFIG_DEFAULT, Exit, output};
use crate::admin::{
    ABSENT_FIELDS, AbsentFields, AdminError, Freshness, INDEX_FAILURES, MISSING_SOURCES, MissingSource, SOURCES,
};
use crate::config::{ADMIN_LISTEN_DEFAULT, AdminListen, Config};

/// How long connecting may take.
const CONNECT_MAX: Duration = Duration::from_secs(5);

/// How long a response may take to begin, and how long it may pause.
const SILENCE_MAX: Duration = Duration::from_secs(30);

/// The longest error response.
const ERROR_BYTES_MAX: usize = 64 * 1024;

/// The longest response that is not a list of objects.
const ANSWER_BYTES_MAX: usize = 64 * 1024 * 1024;

/// The longest object: as long as the longest line of a watch.
const LINE_BYTES_MAX: usize = 16 * 1024 * 1024;

/// Selects the daemon.
#[derive(Debug, Args)]
pub(super) struct AdminArgs {
    /// Address of the daemon's admin server [default: [admin] in the configuration, 127.0.0.1:8089]
    #[arg(long, value_name = "ADDRESS:PORT")]
    admin: Option<SocketAddr>,
    /// Configuration file [default: config.toml]
    // No default for clap: only a file that was named explicitly has to exist.
    #[arg(short, long, value_name = "FILE")]
    config: Option<PathBuf>,
}

/// The address of the admin server, and where it was configured.
#[derive(Debug, PartialEq, Eq)]
struct AdminTarget {
    address: SocketAddr,
    origin: TargetOrigin,
}

/// Where the address of the admin server was configured.
#[derive(Debug, PartialEq, Eq)]
enum TargetOrigin {
    Flag,
    File(PathBuf),
    Default,
}

impl AdminArgs {
    /// Connects to the daemon and runs `request`.
    pub(super) fn with_client(&self, request: impl AsyncFnOnce(&mut AdminClient) -> Result<Exit>) -> Result<Exit> {
        let target = self.target()?;
        let runtime = tokio::runtime::Builder::new_current_thread()
            .enable_all()
            .build()
            .context("cannot start the async runtime")?;
        runtime.block_on(async { request(&mut AdminClient::connect(&target).await?).await })
    }

    /// From the flag, the configuration or the default, in this order.
    fn target(&self) -> Result<AdminTarget> {
        let target = match self.admin {
            Some(address) => AdminTarget {
                address,
                origin: TargetOrigin::Flag,
            },
            None => self.target_by_config()?,
        };
        if target.address.port() == 0 {
            bail!("{target} has no port to connect to: pass the port from the daemon's log with --admin");
        }
        Ok(AdminTarget {
            address: reachable(target.address),
            ..target
        })
    }

    /// Reads only `[admin]` of the configuration. Errors in the rest become warnings: the daemon refuses such a file
    /// and keeps running its previous configuration, so that it can still be queried. A missing file is an error only
    /// if it was named explicitly.
    fn target_by_config(&self) -> Result<AdminTarget> {
        let path = self.config.as_deref().unwrap_or(Path::new(CONFIG_DEFAULT));
        let default = || AdminTarget {
            address: ADMIN_LISTEN_DEFAULT,
            origin: TargetOrigin::Default,
        };
        if self.config.is_none() && !path.exists() {
            return Ok(default());
        }
        let (listen, errors) = match Config::admin_listen_of(path) {
            Ok(AdminListen { listen, errors, .. }) => (listen, errors),
            Err(problems) if self.config.is_some() => return Err(problems.into()),
            Err(problems) => (None, problems),
        };
        let target = listen.map_or_else(default, |address| AdminTarget {
            address,
            origin: TargetOrigin::File(path.to_owned()),
        });
        for error in errors.0 {
            output::note(&error.warning().to_string());
        }
        Ok(target)
    }
}

impl fmt::Display for AdminTarget {
    /// `127.0.0.1:8089 (--admin)`
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(out, "{} ", self.address)?;
        match &self.origin {
            TargetOrigin::Flag => out.write_str("(--admin)"),
            TargetOrigin::File(path) => write!(out, "([admin] listen in {})", path.display()),
            TargetOrigin::Default => out.write_str("(the default)"),
        }
    }
}

impl AdminTarget {
    /// The error message if the address does not respond.
    fn unreachable(&self) -> String {
        let hint = match &self.origin {
            TargetOrigin::File(_) => "; a running daemon keeps the address it started with",
            TargetOrigin::Flag | TargetOrigin::Default => "",
        };
        format!("no daemon responds at {self}{hint}; start `informant run`, or pass its admin address with --admin")
    }
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

/// A connection to an admin server.
pub(super) struct AdminClient {
    address: SocketAddr,
    sender: SendRequest<Full<Bytes>>,
}

impl AdminClient {
    async fn connect(target: &AdminTarget) -> Result<Self> {
        let address = target.address;
        let unreachable = || target.unreachable();
        let socket = tokio::time::timeout(CONNECT_MAX, TcpStream::connect(address))
            .await
            .with_context(unreachable)?
            .with_context(unreachable)?;
        let (sender, connection) = http1::handshake(TokioIo::new(socket)).await.with_context(unreachable)?;
        // A connection error shows in the response as well.
        tokio::spawn(async move { drop(connection.await) });
        Ok(Self { address, sender })
    }

    /// Requests objects; the inner error is the daemon's.
    pub(super) async fn get(
        &mut self,
        resource: &str,
        query: &[(&str, &str)],
    ) -> Result<Result<ObjectLines, AdminError>> {
        let answered = self.request(Method::GET, &path(resource, query), Bytes::new()).await?;
        Ok(answered.map(|response| ObjectLines {
            response,
            buffer: Vec::new(),
            scanned: 0,
            ended: false,
        }))
    }

    /// Requests a document.
    pub(super) async fn read<T: DeserializeOwned>(&mut self, path: &str) -> Result<Result<T, AdminError>> {
        let answered = self.request(Method::GET, path, Bytes::new()).await?;
        self.document(answered).await
    }

    /// Posts a command.
    pub(super) async fn post<T: DeserializeOwned>(
        &mut self,
        path: &str,
        body: &impl Serialize,
    ) -> Result<Result<T, AdminError>> {
        let body = serde_json::to_vec(body).context("cannot encode the request as JSON")?;
        let answered = self.request(Method::POST, path, body.into()).await?;
        self.document(answered).await
    }

    async fn document<T: DeserializeOwned>(
        &self,
        answered: Result<Response<Incoming>, AdminError>,
    ) -> Result<Result<T, AdminError>> {
        let response = match answered {
            Ok(response) => response,
            Err(error) => return Ok(Err(error)),
        };
        let body = read_body(response, ANSWER_BYTES_MAX).await?;
        let document = serde_json::from_slice(&body);
        let malformed = || format!("{} sent a response that this version does not understand", self.address);
        Ok(Ok(document.with_context(malformed)?))
    }

    async fn request(
        &mut self,
        method: Method,
        path: &str,
        body: Bytes,
    ) -> Result<Result<Response<Incoming>, AdminError>> {
        self.sender.ready().await.context("the daemon closed the connection")?;
        let request = Request::builder()
            .method(method)
            .uri(path)
            .header(http::header::HOST, self.address.to_string())
            .header(http::header::CONTENT_TYPE, "application/json")
            .body(Full::new(body))
            .context("cannot build the request")?;
        let answered = tokio::time::timeout(SILENCE_MAX, self.sender.send_request(request)).await;
        let response = answered
            .context("the daemon did not respond in time")?
            .context("the daemon's response was cut off")?;
        if response.status() == StatusCode::OK {
            return Ok(Ok(response));
        }
        let status = response.status();
        match serde_json::from_slice(&read_body(response, ERROR_BYTES_MAX).await?) {
            Ok(error) => Ok(Err(error)),
            Err(_) => bail!(
                "{} responded with {status}: is it an Informant daemon of this version?",
                self.address
            ),
        }
    }
}

async fn read_body(response: Response<Incoming>, bytes_max: usize) -> Result<Bytes> {
    let body = tokio::time::timeout(SILENCE_MAX, Limited::new(response.into_body(), bytes_max).collect()).await;
    let body = body
        .context("the daemon stopped responding")?
        .map_err(|error| anyhow::anyhow!("{error}"))
        .context("the daemon's response was cut off")?;
    Ok(body.to_bytes())
}

fn path(resource: &str, query: &[(&str, &str)]) -> String {
    let mut path = String::from("/api/v1/get/");
    escape(resource, b"/", &mut path);
    for (number, (key, value)) in query.iter().enumerate() {
        path.push(if number == 0 { '?' } else { '&' });
        path.push_str(key);
        path.push('=');
        escape(value, b"", &mut path);
    }
    path
}

/// Percent-encodes all but unreserved characters and the bytes in `also`.
pub(super) fn escape(text: &str, also: &[u8], out: &mut String) {
    use std::fmt::Write as _;
    for byte in text.bytes() {
        if byte.is_ascii_alphanumeric() || b"-._~".contains(&byte) || also.contains(&byte) {
            out.push(char::from(byte));
        } else {
            let _ = write!(out, "%{byte:02X}");
        }
    }
}

/// Objects as they arrive, one per line.
pub(super) struct ObjectLines {
    response: Response<Incoming>,
    buffer: Vec<u8>,
    /// No newline before this offset.
    scanned: usize,
    ended: bool,
}

impl ObjectLines {
    /// The sources of the objects, and how fresh each is.
    pub(super) fn freshness(&self) -> Result<Vec<Freshness>> {
        serde_json::from_str(self.header(SOURCES))
            .context("the daemon's response has no valid `informant-sources` header")
    }

    /// The sources that are not in the answer.
    pub(super) fn missing_sources(&self) -> Result<Vec<MissingSource>> {
        self.json_header(MISSING_SOURCES)
    }

    /// What the informer removes from its objects.
    pub(super) fn absent_fields(&self) -> Result<AbsentFields> {
        self.json_header(ABSENT_FIELDS)
    }

    /// A header that is absent if there is nothing to say.
    fn json_header<T: DeserializeOwned + Default>(&self, name: &str) -> Result<T> {
        match self.header(name) {
            "" => Ok(T::default()),
            json => serde_json::from_str(json)
                .with_context(|| format!("the daemon's response has no valid `{name}` header")),
        }
    }

    /// How many objects the queried index lacks because its function failed on them.
    pub(super) fn index_failures(&self) -> u64 {
        self.header(INDEX_FAILURES).parse().unwrap_or_default()
    }

    fn header(&self, name: &str) -> &str {
        self.response
            .headers()
            .get(name)
            .and_then(|value| value.to_str().ok())
            .unwrap_or_default()
    }

    /// The next line without its newline; `None` after the last.
    pub(super) async fn next_line(&mut self) -> Result<Option<Vec<u8>>> {
        loop {
            if let Some(at) = self.buffer[self.scanned..].iter().position(|byte| *byte == b'\n') {
                let end = self.scanned + at;
                let mut line: Vec<u8> = self.buffer.drain(..=end).collect();
                line.pop();
                self.scanned = 0;
                return Ok(Some(line));
            }
            self.scanned = self.buffer.len();
            if self.scanned > LINE_BYTES_MAX {
                bail!("a line of the daemon's response is longer than {LINE_BYTES_MAX} bytes");
            }
            if self.ended {
                if self.buffer.is_empty() {
                    return Ok(None);
                }
                bail!("the daemon's response was cut off");
            }
            self.read().await?;
        }
    }

    async fn read(&mut self) -> Result<()> {
        let frame = tokio::time::timeout(SILENCE_MAX, self.response.body_mut().frame()).await;
        match frame.context("the daemon stopped responding")? {
            None => self.ended = true,
            Some(frame) => {
                let frame = frame.context("the daemon's response was cut off")?;
                if let Ok(data) = frame.into_data() {
                    self.buffer.extend_from_slice(data.chunk());
                }
            }
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn queries_are_percent_encoded() {
        assert_eq!(path("apps/v1/deployments", &[]), "/api/v1/get/apps/v1/deployments");
        assert_eq!(
            path("pods", &[("index", "image"), ("value", "a/b:1&c=ü")]),
            "/api/v1/get/pods?index=image&value=a%2Fb%3A1%26c%3D%C3%BC"
        );
    }
}
