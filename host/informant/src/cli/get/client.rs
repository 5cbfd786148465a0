//! One question to an admin server, and its answer line by line.

use std::net::SocketAddr;
use std::time::Duration;

use anyhow::{Context, Result, bail};
use bytes::{Buf, Bytes};
use http::{Request, Response, StatusCode};
use http_body_util::{BodyExt, Empty, Limited};
use hyper::body::Incoming;
use hyper::client::conn::http1::{self, SendRequest};
use hyper_util::rt::TokioIo;
use tokio::net::TcpStream;

use crate::admin::{ApiError, FRESH_AS_OF, STATE};

/// How long a connection may take to come about.
const CONNECT_MAX: Duration = Duration::from_secs(5);

/// How long the answer may take to begin, and how long it may pause.
const SILENCE_MAX: Duration = Duration::from_secs(30);

/// How long an error may be.
const ERROR_BYTES_MAX: usize = 64 * 1024;

/// How long one object may be: as long as the longest line a watch may bring.
const LINE_BYTES_MAX: usize = 16 * 1024 * 1024;

/// A connection to an admin server.
pub(super) struct AdminClient {
    address: SocketAddr,
    sender: SendRequest<Empty<Bytes>>,
}

impl AdminClient {
    pub(super) async fn connect(address: SocketAddr) -> Result<Self> {
        let unreachable =
            || format!("no daemon answers at {address}; start `informant run`, or name its admin server with --admin");
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
        let request = Request::get(path(resource, questions))
            .header(http::header::HOST, self.address.to_string())
            .body(Empty::new())
            .context("the question makes no request")?;
        let answered = tokio::time::timeout(SILENCE_MAX, self.sender.send_request(request)).await;
        let response = answered
            .context("the daemon does not answer")?
            .context("the daemon's answer was cut off")?;
        if response.status() == StatusCode::OK {
            return Ok(Ok(Answer {
                response,
                buffer: Vec::new(),
                scanned: 0,
                ended: false,
            }));
        }
        let status = response.status();
        let body = Limited::new(response.into_body(), ERROR_BYTES_MAX).collect().await;
        let body = body
            .map_err(|error| anyhow::anyhow!("{error}"))
            .context("the daemon's answer was cut off")?
            .to_bytes();
        match serde_json::from_slice(&body) {
            Ok(error) => Ok(Err(error)),
            Err(_) => bail!("{} answers {status}: is it an informant daemon?", self.address),
        }
    }
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
fn escape(text: &str, also: &[u8], out: &mut String) {
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
    /// How the informer's sources fare.
    pub(super) fn states(&self) -> impl Iterator<Item = &str> {
        self.header(STATE).split(',').filter(|state| !state.is_empty())
    }

    /// Which version this is the state of.
    pub(super) fn fresh_as_of(&self) -> &str {
        self.header(FRESH_AS_OF)
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
