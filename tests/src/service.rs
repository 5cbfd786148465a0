//! A local HTTP service that answers as a test says, and notes its requests.

use std::collections::VecDeque;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use anyhow::{Context, Result};
use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};
use tokio::net::{TcpListener, TcpStream};
use tokio::task::JoinHandle;
use tokio::time::Instant;

use crate::wait;

/// The longest request that it reads, in bytes.
const REQUEST_BYTES_MAX: usize = 1 << 20;

/// What the service answers.
#[derive(Clone, Copy, Debug)]
pub struct Answer {
    /// The status code.
    pub status: u16,
    /// The value of the header Retry-After, in seconds.
    pub retry_after: Option<u32>,
    /// The body.
    pub body: &'static str,
}

/// A request that it has received.
#[derive(Clone, Debug)]
pub struct Received {
    /// When it was complete.
    pub at: Instant,
    /// Request line and headers.
    pub head: String,
    /// The body, as text.
    pub body: String,
}

/// A running service. It ends when dropped.
pub struct Service {
    port: u16,
    state: Arc<State>,
    task: JoinHandle<()>,
}

struct State {
    usual: Answer,
    next: Mutex<VecDeque<Answer>>,
    received: Mutex<Vec<Received>>,
}

impl Service {
    /// Starts a service on a free port of 127.0.0.1 that gives the answers in `next`, and then the `usual` one.
    ///
    /// # Errors
    /// If there is no free port.
    pub async fn start(usual: Answer, next: &[Answer]) -> Result<Service> {
        let listener = TcpListener::bind("127.0.0.1:0").await.context("no free port")?;
        let port = listener.local_addr()?.port();
        let state = Arc::new(State {
            usual,
            next: Mutex::new(next.iter().copied().collect()),
            received: Mutex::default(),
        });
        let serving = Arc::clone(&state);
        let task = tokio::spawn(async move {
            while let Ok((stream, _)) = listener.accept().await {
                let state = Arc::clone(&serving);
                // A client that ends its connection early is the client's matter.
                tokio::spawn(async move { state.serve(stream).await.ok() });
            }
        });
        Ok(Service { port, state, task })
    }

    /// `http://127.0.0.1:PORT`.
    pub fn origin(&self) -> String {
        format!("http://127.0.0.1:{}", self.port)
    }

    /// The requests so far.
    pub fn received(&self) -> Vec<Received> {
        let received = self.state.received.lock();
        received.unwrap_or_else(PoisonError::into_inner).clone()
    }

    /// The requests, once there are at least `count`.
    ///
    /// # Errors
    /// After `deadline`.
    pub async fn wait_for(&self, count: usize, deadline: Duration) -> Result<Vec<Received>> {
        wait::until(&format!("{count} requests"), deadline, async || {
            let received = self.received();
            match received.len() >= count {
                true => Ok(received),
                false => Err(format!("{received:?}")),
            }
        })
        .await
    }
}

impl Drop for Service {
    fn drop(&mut self) {
        self.task.abort();
    }
}

impl State {
    /// Answers one request, and closes the connection.
    async fn serve(&self, mut stream: TcpStream) -> Result<()> {
        let mut bytes = Vec::new();
        let (head, body) = loop {
            let read = stream.read_buf(&mut bytes).await?;
            let text = String::from_utf8_lossy(&bytes);
            if let Some((head, body)) = text.split_once("\r\n\r\n")
                && body.len() >= length(head)
            {
                break (head.to_owned(), body.to_owned());
            }
            anyhow::ensure!(read > 0 && bytes.len() < REQUEST_BYTES_MAX, "an incomplete request");
        };
        let at = Instant::now();
        let received = self.received.lock();
        received
            .unwrap_or_else(PoisonError::into_inner)
            .push(Received { at, head, body });
        let next = self.next.lock().unwrap_or_else(PoisonError::into_inner).pop_front();
        let Answer {
            status,
            retry_after,
            body,
        } = next.unwrap_or(self.usual);
        let retry_after = retry_after.map_or_else(String::new, |seconds| format!("retry-after: {seconds}\r\n"));
        let length = body.len();
        let answer =
            format!("HTTP/1.1 {status} x\r\nconnection: close\r\n{retry_after}content-length: {length}\r\n\r\n{body}");
        stream.write_all(answer.as_bytes()).await?;
        Ok(stream.shutdown().await?)
    }
}

/// The length of the body that a head announces.
fn length(head: &str) -> usize {
    let mut lengths = head.lines().filter_map(|line| {
        let (name, value) = line.split_once(':')?;
        name.eq_ignore_ascii_case("content-length")
            .then(|| value.trim().parse().ok())?
    });
    lengths.next_back().unwrap_or_default()
}
