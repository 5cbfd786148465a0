//! A connection to an admin server, and the requests on it, one after the other.

use std::time::Duration;

use anyhow::{Context, Result, anyhow, bail};
use bytes::Bytes;
use http::header::{AUTHORIZATION, CONTENT_TYPE, HOST, IF_NONE_MATCH, WARNING};
use http::{Method, Request, Response, StatusCode};
use http_body_util::{BodyExt as _, Full, Limited};
use hyper::body::Incoming;
use hyper::client::conn::http1::{self, SendRequest};
use hyper_util::rt::TokioIo;
use rustix::process::geteuid;
use serde::Serialize;
use serde::de::DeserializeOwned;
use tokio::io::{AsyncRead, AsyncWrite};
use tokio::net::{TcpStream, UnixStream};
use tokio::time::timeout;

use super::AdminArgs;
use super::identity::{Identity, Token};
use super::lines::ObjectLines;
use super::port_forward::Forward;
use super::target::{AdminServer, Target};
use super::{pod, refusal};
use crate::admin::{AdminError, AnswerPart, CAPTURE_WAIT_MAX};
use crate::cli::output;
use crate::escape;

/// How long connecting may take, and how long the TLS handshake.
const CONNECT_MAX: Duration = Duration::from_secs(5);

/// How long a response may take to begin, and how long it may pause.
pub(super) const SILENCE_MAX: Duration = Duration::from_secs(30);

// A capture is answered by then.
const _: () = assert!(CAPTURE_WAIT_MAX.as_secs() < SILENCE_MAX.as_secs());

/// The longest error response.
const ERROR_BYTES_MAX: usize = 64 * 1024;

/// The most of an unexpected response that is shown.
const ERROR_LINE_BYTES_MAX: usize = 300;

/// The longest response that is not a list of objects.
const ANSWER_BYTES_MAX: usize = 64 * 1024 * 1024;

/// The `Host` of requests that have none, through a port-forward or a socket: the admin server refuses names that it
/// does not know.
const LOCALHOST: &str = "localhost";

pub(in crate::cli) struct AdminClient {
    /// The `Host` header.
    host: String,
    /// The other side, for messages.
    peer: String,
    /// Sent with each request. None over plain HTTP.
    token: Option<Token>,
    sender: SendRequest<Full<Bytes>>,
    /// A warning of the daemon was shown.
    has_warned: bool,
    /// Which shards the last answer has, if it lacks some.
    part: Option<AnswerPart>,
}

impl AdminClient {
    pub(super) async fn connect(args: &AdminArgs, target: &Target) -> Result<Self> {
        match target {
            Target::Server(server @ AdminServer::Plain(address), _) => {
                args.refuse_without_tls(server)?;
                let socket = open(target, TcpStream::connect(*address)).await?;
                Self::over(socket, server.authority(), server.to_string(), None).await
            }
            Target::Server(server @ AdminServer::Secure { host, port }, _) => {
                let token = Identity::new(&args.identity).token().await?;
                let socket = open(target, TcpStream::connect((host.as_str(), *port))).await?;
                let secure = timeout(CONNECT_MAX, args.tls.with_server(host, socket)).await;
                let secure = secure.map_err(Into::into).flatten();
                let secure = secure.with_context(|| format!("cannot connect to {target}"))?;
                Self::over(secure, server.authority(), server.to_string(), Some(token)).await
            }
            Target::Socket(path) => {
                let socket = open(target, UnixStream::connect(path)).await?;
                let peer = socket.peer_cred().with_context(|| target.unreachable())?;
                if peer.uid() != geteuid().as_raw() {
                    bail!("{target} is served by another user, {}; pass --admin", peer.uid());
                }
                Self::over(socket, LOCALHOST.to_owned(), target.to_string(), None).await
            }
            Target::Pod { namespace, name } => Self::to_pod(args, namespace, name.as_deref()).await,
        }
    }

    async fn to_pod(args: &AdminArgs, namespace: &str, name: Option<&str>) -> Result<Self> {
        let identity = Identity::new(&args.identity);
        let token = identity.token().await?;
        let (forward, pod) = pod::forward(identity.user().await?, namespace, name).await?;
        let Forward { stream, failed } = forward;
        let secure = async {
            tokio::select! {
                biased;
                Ok(problem) = failed => bail!(problem),
                shaken = args.tls.with_pod(namespace, stream) => shaken,
            }
        };
        let secure = timeout(SILENCE_MAX, secure).await.map_err(Into::into).flatten();
        let secure = secure.with_context(|| format!("cannot connect to the admin server of {pod}"))?;
        Self::over(secure, LOCALHOST.to_owned(), pod, Some(token)).await
    }

    async fn over<S>(stream: S, host: String, peer: String, token: Option<Token>) -> Result<Self>
    where
        S: AsyncRead + AsyncWrite + Send + Unpin + 'static,
    {
        let shaken = http1::handshake(TokioIo::new(stream)).await;
        let (sender, connection) = shaken.with_context(|| format!("cannot connect to {peer}"))?;
        // A connection error shows in the response as well.
        tokio::spawn(async move { drop(connection.await) });
        Ok(Self {
            host,
            peer,
            token,
            sender,
            has_warned: false,
            part: None,
        })
    }

    /// The other side, for messages: `pod informant/informant-0`, or an address.
    pub(in crate::cli) fn peer(&self) -> &str {
        &self.peer
    }

    /// Which shards the last answer has; none if there are no others.
    pub(in crate::cli) fn part(&self) -> Option<&AnswerPart> {
        self.part.as_ref()
    }

    /// Says which shards the last answer has, for a command that asks one replica.
    pub(in crate::cli) fn note_part(&self) {
        let Some(AnswerPart { replica, held, shards }) = &self.part else {
            return;
        };
        let held: Vec<_> = held.iter().map(|shard| shard.to_string()).collect();
        let held = match held.is_empty() {
            true => "no shard".to_owned(),
            false => format!("shards {}", held.join(", ")),
        };
        output::note(&format!(
            "this is of {replica} only, which holds {held} of {shards}; `informant replicas` lists the others"
        ));
    }

    /// Requests objects. The daemon's own errors are [`AdminError`]s, here and in the other requests.
    pub(in crate::cli) async fn get(&mut self, resource: &str, query: &[(&str, String)]) -> Result<ObjectLines> {
        let response = self.request(Method::GET, &path(resource, query), Bytes::new()).await?;
        Ok(ObjectLines::new(response))
    }

    /// The same, and nothing if the daemon still has the state that it called `tag`.
    pub(in crate::cli) async fn get_changed(
        &mut self,
        resource: &str,
        query: &[(&str, String)],
        tag: Option<&str>,
    ) -> Result<Option<ObjectLines>> {
        let path = path(resource, query);
        let response = self.request_unless(Method::GET, &path, Bytes::new(), tag).await?;
        let has_changed = response.status() != StatusCode::NOT_MODIFIED;
        Ok(has_changed.then(|| ObjectLines::new(response)))
    }

    pub(in crate::cli) async fn read<T: DeserializeOwned>(&mut self, path: &str) -> Result<T> {
        let response = self.request(Method::GET, path, Bytes::new()).await?;
        self.document(response).await
    }

    /// Requests text that arrives line by line.
    pub(in crate::cli) async fn lines(&mut self, path: &str) -> Result<ObjectLines> {
        let response = self.request(Method::GET, path, Bytes::new()).await?;
        Ok(ObjectLines::new(response))
    }

    /// Shows no warnings of the daemon: they were shown already.
    pub(in crate::cli) fn mute_warnings(&mut self) {
        self.has_warned = true;
    }

    pub(in crate::cli) async fn post<T: DeserializeOwned>(&mut self, path: &str, body: &impl Serialize) -> Result<T> {
        let body = serde_json::to_vec(body).context("cannot encode the request as JSON")?;
        let response = self.request(Method::POST, path, body.into()).await?;
        self.document(response).await
    }

    async fn document<T: DeserializeOwned>(&self, response: Response<Incoming>) -> Result<T> {
        let body = read_body(response, ANSWER_BYTES_MAX).await?;
        let malformed = || format!("{} sent a response that this version does not understand", self.peer);
        serde_json::from_slice(&body).with_context(malformed)
    }

    /// Whether it can take another request.
    pub(in crate::cli) fn is_open(&self) -> bool {
        !self.sender.is_closed()
    }

    /// Sends a request for somebody else, who reads the response, whatever its status.
    pub(in crate::cli) async fn send(&mut self, method: Method, path: &str, body: Bytes) -> Result<Response<Incoming>> {
        self.exchange(method, path, body, None).await
    }

    async fn request(&mut self, method: Method, path: &str, body: Bytes) -> Result<Response<Incoming>> {
        self.request_unless(method, path, body, None).await
    }

    async fn request_unless(
        &mut self,
        method: Method,
        path: &str,
        body: Bytes,
        tag: Option<&str>,
    ) -> Result<Response<Incoming>> {
        let response = self.exchange(method, path, body, tag).await?;
        let status = response.status();
        if status == StatusCode::OK || (tag.is_some() && status == StatusCode::NOT_MODIFIED) {
            self.show_warning(&response);
            return Ok(response);
        }
        let body = read_body(response, ERROR_BYTES_MAX).await?;
        match serde_json::from_slice::<AdminError>(&body) {
            Ok(error) => Err(refusal::explain(error, self.token.as_ref()).into()),
            Err(_) => bail!("{}", self.unexpected(status, &body)),
        }
    }

    async fn exchange(
        &mut self,
        method: Method,
        path: &str,
        body: Bytes,
        tag: Option<&str>,
    ) -> Result<Response<Incoming>> {
        self.part = None;
        self.sender.ready().await.context("the daemon closed the connection")?;
        let mut request = Request::builder()
            .method(method)
            .uri(path)
            .header(HOST, &self.host)
            .header(CONTENT_TYPE, "application/json");
        if let Some(tag) = tag {
            request = request.header(IF_NONE_MATCH, tag);
        }
        if let Some(token) = &self.token {
            request = request.header(AUTHORIZATION, &token.header);
        }
        let request = request.body(Full::new(body)).context("cannot build the request")?;
        let answered = timeout(SILENCE_MAX, self.sender.send_request(request)).await;
        let response = answered
            .context("the daemon did not respond in time")?
            .map_err(|error| anyhow!("the daemon's response was cut off: {error}{}", self.tls_hint()))?;
        self.part = AnswerPart::of_headers(response.headers());
        Ok(response)
    }

    /// Prints what the daemon warns of, once.
    fn show_warning(&mut self, response: &Response<Incoming>) {
        let warning = response
            .headers()
            .get(WARNING)
            .and_then(|warning| warning.to_str().ok());
        let text = warning.and_then(|warning| warning.split('"').nth(1));
        if let Some(text) = text.filter(|_| !std::mem::replace(&mut self.has_warned, true)) {
            output::note(text);
        }
    }

    /// For an answer that is not one of the admin port: of another port, or of another program.
    fn unexpected(&self, status: StatusCode, body: &[u8]) -> String {
        let text = String::from_utf8_lossy(body);
        let line = text.lines().next().unwrap_or_default();
        let line = match line.is_empty() || line.starts_with('<') {
            true => "is it an Informant daemon of this version?",
            false => &escape::cut(line, ERROR_LINE_BYTES_MAX),
        };
        format!("{} responded with {status}: {line}{}", self.peer, self.tls_hint())
    }

    fn tls_hint(&self) -> String {
        match self.token {
            None if self.host != LOCALHOST => {
                format!("; if its admin server uses TLS, pass --admin https://{}", self.host)
            }
            // With TLS already, or on a socket.
            Some(_) | None => String::new(),
        }
    }
}

async fn open<S>(target: &Target, connecting: impl Future<Output = std::io::Result<S>>) -> Result<S> {
    let unreachable = || target.unreachable();
    timeout(CONNECT_MAX, connecting)
        .await
        .with_context(unreachable)?
        .with_context(unreachable)
}

async fn read_body(response: Response<Incoming>, bytes_max: usize) -> Result<Bytes> {
    let body = timeout(SILENCE_MAX, Limited::new(response.into_body(), bytes_max).collect()).await;
    let body = body
        .context("the daemon stopped responding")?
        .map_err(|error| anyhow!("{error}"))
        .context("the daemon's response was cut off")?;
    Ok(body.to_bytes())
}

fn path(resource: &str, query: &[(&str, String)]) -> String {
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
pub(in crate::cli) fn escape(text: &str, also: &[u8], out: &mut String) {
    use std::fmt::Write as _;
    for byte in text.bytes() {
        if byte.is_ascii_alphanumeric() || b"-._~".contains(&byte) || also.contains(&byte) {
            out.push(char::from(byte));
        } else {
            let _ = write!(out, "%{byte:02X}");
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn queries_are_percent_encoded() {
        assert_eq!(path("apps/v1/deployments", &[]), "/api/v1/get/apps/v1/deployments");
        assert_eq!(
            path(
                "pods",
                &[("index", "image".to_owned()), ("value", "a/b:1&c=ü".to_owned())]
            ),
            "/api/v1/get/pods?index=image&value=a%2Fb%3A1%26c%3D%C3%BC"
        );
    }
}
