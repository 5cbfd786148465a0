//! Questions to the admin server of a running daemon, and their answers.

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
use crate::admin::{ApiError, Freshness, INDEX_FAILURES, SOURCES};
use crate::config::{ADMIN_LISTEN_DEFAULT, AdminListen, Config};

/// How long a connection may take to come about.
const CONNECT_MAX: Duration = Duration::from_secs(5);

/// How long the answer may take to begin, and how long it may pause.
const SILENCE_MAX: Duration = Duration::from_secs(30);

/// How long an error may be.
const ERROR_BYTES_MAX: usize = 64 * 1024;

/// How long an answer may be that is no list of objects.
const ANSWER_BYTES_MAX: usize = 64 * 1024 * 1024;

/// How long one object may be: as long as the longest line a watch may bring.
const LINE_BYTES_MAX: usize = 16 * 1024 * 1024;

/// Where the daemon is.
#[derive(Debug, Args)]
pub(super) struct AdminArgs {
    /// The admin server of the daemon [default: [admin] in the configuration, 127.0.0.1:8089]
    #[arg(long, value_name = "ADDRESS:PORT")]
    admin: Option<SocketAddr>,
    /// The configuration [default: config.toml]
    // No default to clap: a file that was named has to be there.
    #[arg(short, long, value_name = "FILE")]
    config: Option<PathBuf>,
}

/// Where the admin server is looked for, and who says so.
#[derive(Debug, PartialEq, Eq)]
struct Target {
    address: SocketAddr,
    said_by: SaidBy,
}

/// Who says where the admin server is.
#[derive(Debug, PartialEq, Eq)]
enum SaidBy {
    Flag,
    File(PathBuf),
    Default,
}

impl AdminArgs {
    /// Connects to the daemon and asks it.
    pub(super) fn ask(&self, question: impl AsyncFnOnce(&mut AdminClient) -> Result<Exit>) -> Result<Exit> {
        let target = self.target()?;
        let runtime = tokio::runtime::Builder::new_current_thread()
            .enable_all()
            .build()
            .context("no runtime can be made")?;
        runtime.block_on(async { question(&mut AdminClient::connect(&target).await?).await })
    }

    /// The flag, the configuration, the default.
    fn target(&self) -> Result<Target> {
        let target = match self.admin {
            Some(address) => Target {
                address,
                said_by: SaidBy::Flag,
            },
            None => self.target_by_config()?,
        };
        if target.address.port() == 0 {
            bail!("{target} is no address to ask at: name the port with --admin, the daemon's log says which it took");
        }
        Ok(Target {
            address: reachable(target.address),
            ..target
        })
    }

    /// The configuration is read only as far as `[admin]`, and what is wrong with it does not keep anybody from asking:
    /// a daemon refuses such a file and goes on with what it had before. A configuration that was not named and is not
    /// there is none.
    fn target_by_config(&self) -> Result<Target> {
        let path = self.config.as_deref().unwrap_or(Path::new(CONFIG_DEFAULT));
        let nothing = || Target {
            address: ADMIN_LISTEN_DEFAULT,
            said_by: SaidBy::Default,
        };
        if self.config.is_none() && !path.exists() {
            return Ok(nothing());
        }
        let (listen, errors) = match Config::admin_listen_of(path) {
            Ok(AdminListen { listen, errors }) => (listen, errors),
            Err(problems) if self.config.is_some() => return Err(problems.into()),
            Err(problems) => (None, problems),
        };
        let target = listen.map_or_else(nothing, |address| Target {
            address,
            said_by: SaidBy::File(path.to_owned()),
        });
        for error in errors.0 {
            output::note(&error.warning().to_string());
        }
        Ok(target)
    }
}

impl fmt::Display for Target {
    /// `127.0.0.1:8089 (--admin)`
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(out, "{} ", self.address)?;
        match &self.said_by {
            SaidBy::Flag => out.write_str("(--admin)"),
            SaidBy::File(path) => write!(out, "([admin] listen in {})", path.display()),
            SaidBy::Default => out.write_str("(the default)"),
        }
    }
}

impl Target {
    /// What to say when nobody answers there.
    fn unreachable(&self) -> String {
        let but = match &self.said_by {
            SaidBy::File(_) => "; a daemon stays where it listened when it started",
            SaidBy::Flag | SaidBy::Default => "",
        };
        format!("no daemon answers at {self}{but}; start `informant run`, or name its admin server with --admin")
    }
}

/// Who listens everywhere is reached on loopback.
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
    async fn connect(target: &Target) -> Result<Self> {
        let address = target.address;
        let unreachable = || target.unreachable();
        let socket = tokio::time::timeout(CONNECT_MAX, TcpStream::connect(address))
            .await
            .with_context(unreachable)?
            .with_context(unreachable)?;
        let (sender, connection) = http1::handshake(TokioIo::new(socket)).await.with_context(unreachable)?;
        // What goes wrong with the connection shows in the answer.
        tokio::spawn(async move { drop(connection.await) });
        Ok(Self { address, sender })
    }

    /// Asks for objects; the inner result is what the daemon says.
    pub(super) async fn get(&mut self, resource: &str, questions: &[(&str, &str)]) -> Result<Result<Answer, ApiError>> {
        let answered = self
            .request(Method::GET, &path(resource, questions), Bytes::new())
            .await?;
        Ok(answered.map(|response| Answer {
            response,
            buffer: Vec::new(),
            scanned: 0,
            ended: false,
        }))
    }

    /// Asks for a document.
    pub(super) async fn read<T: DeserializeOwned>(&mut self, path: &str) -> Result<Result<T, ApiError>> {
        let answered = self.request(Method::GET, path, Bytes::new()).await?;
        self.document(answered).await
    }

    /// Asks for something to be done.
    pub(super) async fn post<T: DeserializeOwned>(
        &mut self,
        path: &str,
        body: &impl Serialize,
    ) -> Result<Result<T, ApiError>> {
        let body = serde_json::to_vec(body).context("the question makes no JSON")?;
        let answered = self.request(Method::POST, path, body.into()).await?;
        self.document(answered).await
    }

    async fn document<T: DeserializeOwned>(
        &self,
        answered: Result<Response<Incoming>, ApiError>,
    ) -> Result<Result<T, ApiError>> {
        let response = match answered {
            Ok(response) => response,
            Err(error) => return Ok(Err(error)),
        };
        let body = whole(response, ANSWER_BYTES_MAX).await?;
        let document = serde_json::from_slice(&body);
        let unknown = || format!("{} answers what this version does not understand", self.address);
        Ok(Ok(document.with_context(unknown)?))
    }

    async fn request(
        &mut self,
        method: Method,
        path: &str,
        body: Bytes,
    ) -> Result<Result<Response<Incoming>, ApiError>> {
        self.sender.ready().await.context("the daemon closed the connection")?;
        let request = Request::builder()
            .method(method)
            .uri(path)
            .header(http::header::HOST, self.address.to_string())
            .header(http::header::CONTENT_TYPE, "application/json")
            .body(Full::new(body))
            .context("the question makes no request")?;
        let answered = tokio::time::timeout(SILENCE_MAX, self.sender.send_request(request)).await;
        let response = answered
            .context("the daemon does not answer")?
            .context("the daemon's answer was cut off")?;
        if response.status() == StatusCode::OK {
            return Ok(Ok(response));
        }
        let status = response.status();
        match serde_json::from_slice(&whole(response, ERROR_BYTES_MAX).await?) {
            Ok(error) => Ok(Err(error)),
            Err(_) => bail!(
                "{} answers {status}: is it an informant daemon of this version?",
                self.address
            ),
        }
    }
}

async fn whole(response: Response<Incoming>, bytes_max: usize) -> Result<Bytes> {
    let body = tokio::time::timeout(SILENCE_MAX, Limited::new(response.into_body(), bytes_max).collect()).await;
    let body = body
        .context("the daemon stopped answering")?
        .map_err(|error| anyhow::anyhow!("{error}"))
        .context("the daemon's answer was cut off")?;
    Ok(body.to_bytes())
}

fn path(resource: &str, questions: &[(&str, &str)]) -> String {
    let mut path = String::from("/api/v1/get/");
    escape(resource, b"/", &mut path);
    for (number, (key, value)) in questions.iter().enumerate() {
        path.push(if number == 0 { '?' } else { '&' });
        path.push_str(key);
        path.push('=');
        escape(value, b"", &mut path);
    }
    path
}

/// Percent-encodes what is not plain; bytes of `also` stay too.
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

/// Objects, one a line, as they arrive.
pub(super) struct Answer {
    response: Response<Incoming>,
    buffer: Vec<u8>,
    /// No newline is before this.
    scanned: usize,
    ended: bool,
}

impl Answer {
    /// Which states of which sources this is.
    pub(super) fn freshness(&self) -> Result<Vec<Freshness>> {
        serde_json::from_str(self.header(SOURCES)).context("the daemon does not say what its answer is the state of")
    }

    /// How many objects the index that was asked lacks because its function failed on them.
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

    /// The next line without its end; none after the last.
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
                bail!("the daemon's answer has a line of more than {LINE_BYTES_MAX} bytes");
            }
            if self.ended {
                if self.buffer.is_empty() {
                    return Ok(None);
                }
                bail!("the daemon's answer was cut off");
            }
            self.read().await?;
        }
    }

    async fn read(&mut self) -> Result<()> {
        let frame = tokio::time::timeout(SILENCE_MAX, self.response.body_mut().frame()).await;
        match frame.context("the daemon stopped answering")? {
            None => self.ended = true,
            Some(frame) => {
                let frame = frame.context("the daemon's answer was cut off")?;
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
    fn questions_are_escaped() {
        assert_eq!(path("apps/v1/deployments", &[]), "/api/v1/get/apps/v1/deployments");
        assert_eq!(
            path("pods", &[("index", "image"), ("value", "a/b:1&c=ü")]),
            "/api/v1/get/pods?index=image&value=a%2Fb%3A1%26c%3D%C3%BC"
        );
    }
}
