//! `informant dashboard`: a local way to the dashboard of a daemon, with the kubeconfig's credentials.
//!
//! ```text
//! browser ──▶ 127.0.0.1:PORT/SECRET/… ──Host, Origin, SECRET──▶ connection with the caller's token ──▶ admin server
//! ```
//!
//! A page of another origin can neither guess the secret nor read an answer. Other users of the machine cannot guess
//! it, either. Each request takes a connection that is idle, or opens one.

use std::io::Write as _;
use std::net::{Ipv4Addr, SocketAddr, TcpListener};
use std::pin::pin;
use std::sync::{Arc, Mutex};
use std::time::Duration;

use anyhow::{Context, Result};
use axum::Router;
use axum::body::Body;
use axum::extract::{Request, State};
use axum::response::{IntoResponse, Response};
use bytes::Bytes;
use clap::Args;
use futures::stream::{self, FuturesUnordered, StreamExt as _};
use http::header::{CONTENT_LENGTH, HOST, ORIGIN, TRANSFER_ENCODING};
use http::{HeaderMap, Method, StatusCode};
use http_body_util::{BodyExt as _, Limited};
use hyper::body::Incoming;
use tempfile::NamedTempFile;
use tokio::sync::{mpsc, oneshot};
use tokio::time::Instant;

use super::client::{AdminArgs, AdminClient};
use super::{Exit, output};
use crate::admin::BODY_BYTES_MAX;
use crate::metrics::Metrics;
use crate::server::{ConnectionLimits, HttpServer};
use crate::sync::lock;

/// Connections that wait for the next request: 4. Further ones are closed.
const IDLE_MAX: usize = 4;

/// How long a connection is used: 5 min. Tokens are valid for 10 min and longer.
const CONNECTION_TIME_MAX: Duration = Duration::from_secs(300);

/// Bytes of the secret in the path: 16, from the system's source of randomness.
const SECRET_BYTES: usize = 16;

/// `informant dashboard`.
#[derive(Debug, Args)]
pub(super) struct DashboardArgs {
    /// Listen on this port of 127.0.0.1 [default: a free one]
    #[arg(long, value_name = "PORT", default_value_t = 0, hide_default_value = true)]
    port: u16,
    /// Only print the address, and open no browser
    #[arg(long)]
    no_browser: bool,
    #[command(flatten)]
    admin: AdminArgs,
}

/// What requests are answered with.
#[derive(Clone)]
struct Proxy(Arc<ProxyParts>);

struct ProxyParts {
    /// Asks the main thread for a connection.
    connect: mpsc::Sender<Asked>,
    address: SocketAddr,
    /// `/SECRET`.
    prefix: String,
    idle: Mutex<Vec<Connected>>,
}

/// A connection, which has a token that expires.
struct Connected {
    client: AdminClient,
    since: Instant,
}

/// Where the connection goes that was asked for.
type Asked = oneshot::Sender<Result<AdminClient>>;

pub(super) fn run(args: DashboardArgs) -> Result<Exit> {
    let DashboardArgs {
        port,
        no_browser,
        admin,
    } = args;
    // A daemon that cannot be reached, or a caller without a token, is reported here and not in the browser.
    admin.with_clients(async |_| Ok(Exit::Done))?;
    let listener = TcpListener::bind((Ipv4Addr::LOCALHOST, port));
    let listener = listener.with_context(|| format!("cannot listen on 127.0.0.1:{port}"))?;
    listener.set_nonblocking(true).context("cannot listen")?;
    let address = listener.local_addr().context("cannot listen")?;
    let (connect, asked) = mpsc::channel(IDLE_MAX);
    let proxy = Proxy(Arc::new(ProxyParts {
        connect,
        address,
        prefix: format!("/{}", secret()?),
        idle: Mutex::default(),
    }));
    let url = format!("http://{address}{}/dashboard/", proxy.0.prefix);
    let routes = Router::new().fallback(answer).with_state(proxy);
    let limits = ConnectionLimits::default();
    let server = HttpServer::start("dashboard", listener, routes, limits, None, &Metrics::new().servers);
    let server = server.context("cannot start the local server")?;
    output::note(&format!("the dashboard is at {url} until Ctrl-C"));
    // Until the end: the browser reads it when it has started.
    let _page = match no_browser {
        true => None,
        false => open_in_browser(&url),
    };
    super::runtime()?.block_on(connect_until_ended(&admin, asked))?;
    server.stop();
    Ok(Exit::Done)
}

/// Opens a page that leads to the address. The arguments of programs can be read by each user of the machine, and a
/// file of this user cannot.
fn open_in_browser(url: &str) -> Option<NamedTempFile> {
    let page = tempfile::Builder::new().prefix("informant-").suffix(".html").tempfile();
    let opened = page.and_then(|mut page| {
        write!(
            page,
            "<!doctype html><meta http-equiv=\"refresh\" content=\"0;url={url}\">"
        )?;
        open::that_detached(page.path())?;
        Ok(page)
    });
    match opened {
        Ok(page) => Some(page),
        Err(error) => {
            output::note(&format!("no browser was opened ({error}): open the address yourself"));
            None
        }
    }
}

/// Opens connections for the server's thread, until Ctrl-C.
async fn connect_until_ended(admin: &AdminArgs, mut asked: mpsc::Receiver<Asked>) -> Result<()> {
    let mut ended = pin!(tokio::signal::ctrl_c());
    let mut opening = FuturesUnordered::new();
    loop {
        tokio::select! {
            biased;
            ended = &mut ended => return ended.context("cannot wait for Ctrl-C"),
            Some(asker) = asked.recv() => opening.push(async move {
                // The request may have ended.
                let _ = asker.send(admin.connect().await);
            }),
            Some(()) = opening.next(), if !opening.is_empty() => {}
        }
    }
}

/// A text that cannot be guessed.
fn secret() -> Result<String> {
    let mut bytes = [0; SECRET_BYTES];
    getrandom::fill(&mut bytes).context("the system gives no random numbers")?;
    Ok(bytes.iter().map(|byte| format!("{byte:02x}")).collect())
}

async fn answer(State(proxy): State<Proxy>, request: Request) -> Response {
    let parts = &proxy.0;
    if !parts.is_own(request.headers()) {
        return (
            StatusCode::FORBIDDEN,
            "this address is for the page that it serves itself\n",
        )
            .into_response();
    }
    let path = request.uri().path_and_query().map_or("/", |path| path.as_str());
    let Some(path) = path.strip_prefix(&parts.prefix).filter(|path| path.starts_with('/')) else {
        return (
            StatusCode::NOT_FOUND,
            "use the address that `informant dashboard` printed\n",
        )
            .into_response();
    };
    let path = path.to_owned();
    match proxy.forward(path, request).await {
        Ok(response) => response,
        Err(error) => (StatusCode::BAD_GATEWAY, format!("{error:#}\n")).into_response(),
    }
}

impl ProxyParts {
    /// Whether the request is for this address, and from its own page if it is from one.
    fn is_own(&self, headers: &HeaderMap) -> bool {
        let port = self.address.port();
        let own = [format!("127.0.0.1:{port}"), format!("localhost:{port}")];
        let host = headers.get(HOST).and_then(|host| host.to_str().ok());
        let origin = headers.get(ORIGIN).map(|origin| origin.to_str().unwrap_or_default());
        let is_origin = |origin: &str| own.iter().any(|own| origin == format!("http://{own}"));
        host.is_some_and(|host| own.iter().any(|own| own == host)) && origin.is_none_or(is_origin)
    }
}

impl Proxy {
    /// Sends the request with the caller's credentials.
    async fn forward(self, path: String, request: Request) -> Result<Response> {
        let (method, body) = (request.method().clone(), request.into_body());
        let body = Limited::new(body, BODY_BYTES_MAX).collect().await;
        let body = body
            .map_err(|error| anyhow::anyhow!("cannot read the request: {error}"))?
            .to_bytes();
        let (connected, response) = send(&self.0, &method, &path, &body).await?;
        let (mut head, incoming) = response.into_parts();
        // The token of this connection is no longer accepted.
        let connected = Some(connected).filter(|_| head.status != StatusCode::UNAUTHORIZED);
        // This connection frames the body itself.
        head.headers.remove(CONTENT_LENGTH);
        head.headers.remove(TRANSFER_ENCODING);
        // The connection is idle again once the body was read.
        let idle = self.0;
        let parts = stream::unfold((incoming, connected), move |(mut incoming, mut connected)| {
            let idle = Arc::clone(&idle);
            async move {
                loop {
                    match incoming.frame().await {
                        Some(Ok(frame)) => match frame.into_data() {
                            Ok(data) => return Some((Ok(data), (incoming, connected))),
                            Err(_trailers) => {}
                        },
                        Some(Err(error)) => return Some((Err(error), (incoming, None))),
                        None => {
                            if let Some(connected) = connected.take() {
                                idle.keep(connected);
                            }
                            return None;
                        }
                    }
                }
            }
        });
        Ok(Response::from_parts(head, Body::from_stream(parts.boxed())))
    }
}

/// Over a connection that is idle, or over a new one: also if the token of the idle one has expired, and for what
/// changes nothing if the server has closed it.
async fn send(
    parts: &ProxyParts,
    method: &Method,
    path: &str,
    body: &Bytes,
) -> Result<(Connected, http::Response<Incoming>)> {
    if let Some(mut idle) = parts.take() {
        match idle.client.send(method.clone(), path, body.clone()).await {
            Ok(response) if response.status() != StatusCode::UNAUTHORIZED => return Ok((idle, response)),
            Err(error) if *method != Method::GET => return Err(error),
            Ok(_) | Err(_) => {}
        }
    }
    let (asker, connected) = oneshot::channel();
    let is_ending = "informant dashboard is ending";
    parts.connect.send(asker).await.context(is_ending)?;
    let mut connected = Connected {
        client: connected.await.context(is_ending)??,
        since: Instant::now(),
    };
    let response = connected.client.send(method.clone(), path, body.clone()).await?;
    Ok((connected, response))
}

impl ProxyParts {
    fn take(&self) -> Option<Connected> {
        let mut idle = lock(&self.idle);
        idle.retain(|connected| connected.client.is_open() && connected.since.elapsed() < CONNECTION_TIME_MAX);
        idle.pop()
    }

    fn keep(&self, connected: Connected) {
        let mut idle = lock(&self.idle);
        if idle.len() < IDLE_MAX {
            idle.push(connected);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn is_own(headers: &[(&str, &str)]) -> bool {
        // Never connected to: only the address matters.
        let parts = ProxyParts {
            connect: mpsc::channel(1).0,
            address: "127.0.0.1:4000".parse().unwrap(),
            prefix: "/secret".to_owned(),
            idle: Mutex::default(),
        };
        let named = headers.iter().map(|(name, value)| {
            let name: http::HeaderName = name.parse().unwrap();
            (name, http::HeaderValue::from_str(value).unwrap())
        });
        parts.is_own(&named.collect())
    }

    #[test]
    fn only_the_own_page_is_answered() {
        assert!(is_own(&[("host", "127.0.0.1:4000")]));
        assert!(is_own(&[
            ("host", "localhost:4000"),
            ("origin", "http://localhost:4000")
        ]));
        for headers in [
            &[][..],
            &[("host", "evil.example.com:4000")],
            &[("host", "127.0.0.1:4001")],
            &[("host", "127.0.0.1:4000"), ("origin", "http://evil.example.com")],
            &[("host", "127.0.0.1:4000"), ("origin", "null")],
            &[("host", "127.0.0.1:4000"), ("origin", "https://127.0.0.1:4000")],
        ] {
            assert!(!is_own(headers), "{headers:?}");
        }
    }

    #[test]
    fn secrets_differ_and_are_long() {
        let (one, other) = (secret().unwrap(), secret().unwrap());
        assert!(one != other && one.len() == 2 * SECRET_BYTES);
    }
}
