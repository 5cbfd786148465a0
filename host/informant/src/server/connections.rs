//! [`Connections`]: the open connections of a server, and which of them can be closed for a new one.

use std::collections::BTreeMap;
use std::pin::Pin;
use std::sync::{Arc, Mutex, MutexGuard};
use std::task::{Context, Poll};
use std::time::Duration;

use axum::body::{Body, HttpBody};
use hyper::body::{Bytes, Frame, SizeHint};
use tokio::time::Instant;
use tokio_util::sync::CancellationToken;

use super::ConnectionLimits;
use crate::metrics::{ConnectionEnd, ListenerMetrics};
use crate::sync::lock;

/// How many connections a server has at most. One more closes the one that has waited longest for a request. If all are
/// being answered, it closes the one whose answer takes longest and longer than [`ANSWER_SPARED`], or
/// [`HEALTH_ANSWER_SPARED`] for the health server; otherwise the new one is closed.
pub(crate) const CONNECTIONS_MAX: usize = 256;

/// How long an answer may take although the server has [`CONNECTIONS_MAX`] connections: 60 s. Clients that read slowly,
/// but without a pause, would otherwise lock out probes.
pub(crate) const ANSWER_SPARED: Duration = Duration::from_secs(60);

/// [`ANSWER_SPARED`] of the health server: 5 s. Kubernetes restarts a pod whose liveness probe fails three times within
/// 30 s, and its other answers are short.
pub(crate) const HEALTH_ANSWER_SPARED: Duration = Duration::from_secs(5);

/// The share of the process's file descriptors that each server's connections may take: one of so many.
const DESCRIPTORS_SHARE: u64 = 4;

/// [`CONNECTIONS_MAX`], or fewer where the process may open few files: informers need descriptors, too.
pub(super) fn connections_max() -> usize {
    let descriptors = rustix::process::getrlimit(rustix::process::Resource::Nofile).current;
    let share = descriptors.map_or(u64::MAX, |descriptors| descriptors / DESCRIPTORS_SHARE);
    usize::try_from(share).map_or(CONNECTIONS_MAX, |share| share.clamp(1, CONNECTIONS_MAX))
}

/// The open connections of a server. Clones share them.
#[derive(Debug, Clone)]
pub(super) struct Connections {
    open: Arc<Mutex<OpenConnections>>,
    limits: ConnectionLimits,
    metrics: ListenerMetrics,
}

#[derive(Debug, Default)]
struct OpenConnections {
    by_id: BTreeMap<u64, OpenConnection>,
    last_id: u64,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum ConnectionState {
    /// For a whole request.
    Waiting,
    Answering,
}

#[derive(Debug)]
struct OpenConnection {
    state: ConnectionState,
    since: Instant,
    close: CancellationToken,
}

impl Connections {
    pub(super) fn new(limits: ConnectionLimits, metrics: ListenerMetrics) -> Self {
        Self {
            open: Arc::default(),
            limits,
            metrics,
        }
    }

    /// Registers a connection. `None` if the limit is reached and every open connection is being answered, none of them
    /// for long.
    pub(super) fn admit(&self) -> Option<ConnectionPermit> {
        if self.lock().by_id.len() >= self.limits.connections
            && !self.close_longest_waiting(Duration::ZERO)
            && !self.close_longest(ConnectionState::Answering, self.limits.answer_spared)
        {
            self.metrics.ended(ConnectionEnd::Refused);
            return None;
        }
        let close = CancellationToken::new();
        let mut open = self.lock();
        open.last_id += 1;
        let id = open.last_id;
        let connection = OpenConnection {
            state: ConnectionState::Waiting,
            since: Instant::now(),
            close: close.clone(),
        };
        open.by_id.insert(id, connection);
        self.metrics.set_open(open.by_id.len());
        Some(ConnectionPermit {
            connections: self.clone(),
            id,
            close,
        })
    }

    /// Closes the connection that has waited longest for a request, and at least so long. Returns whether there is one.
    pub(super) fn close_longest_waiting(&self, at_least: Duration) -> bool {
        self.close_longest(ConnectionState::Waiting, at_least)
    }

    fn close_longest(&self, state: ConnectionState, at_least: Duration) -> bool {
        let mut open = self.lock();
        let candidates = open.by_id.iter().filter(|(_, connection)| connection.state == state);
        let longest = candidates.map(|(id, connection)| (connection.since, *id)).min();
        let Some((_, id)) = longest.filter(|(since, _)| since.elapsed() >= at_least) else {
            return false;
        };
        if let Some(connection) = open.by_id.remove(&id) {
            connection.close.cancel();
        }
        self.metrics.set_open(open.by_id.len());
        self.metrics.ended(match state {
            ConnectionState::Waiting => ConnectionEnd::Replaced,
            ConnectionState::Answering => ConnectionEnd::LongAnswer,
        });
        true
    }

    fn lock(&self) -> MutexGuard<'_, OpenConnections> {
        lock(&self.open)
    }
}

/// An open connection; dropping it gives its place to another.
#[derive(Debug)]
pub(super) struct ConnectionPermit {
    connections: Connections,
    id: u64,
    close: CancellationToken,
}

impl ConnectionPermit {
    /// Returns when another connection takes the place of this one.
    pub(super) fn closed(&self) -> CancellationToken {
        self.close.clone()
    }

    pub(super) fn answering(&self) -> Answering {
        set(&self.connections, self.id, ConnectionState::Answering);
        Answering {
            connections: self.connections.clone(),
            id: self.id,
        }
    }
}

fn set(connections: &Connections, id: u64, state: ConnectionState) {
    if let Some(connection) = connections.lock().by_id.get_mut(&id) {
        (connection.state, connection.since) = (state, Instant::now());
    }
}

impl Drop for ConnectionPermit {
    fn drop(&mut self) {
        let mut open = self.connections.lock();
        open.by_id.remove(&self.id);
        self.connections.metrics.set_open(open.by_id.len());
    }
}

#[derive(Debug)]
pub(super) struct Answering {
    connections: Connections,
    id: u64,
}

impl Drop for Answering {
    fn drop(&mut self) {
        set(&self.connections, self.id, ConnectionState::Waiting);
    }
}

/// The body of an answer; the answer ends with it.
pub(super) struct AnswerBody {
    pub(super) body: Body,
    pub(super) _answering: Answering,
}

impl HttpBody for AnswerBody {
    type Data = Bytes;
    type Error = axum::Error;

    fn poll_frame(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
    ) -> Poll<Option<Result<Frame<Self::Data>, Self::Error>>> {
        Pin::new(&mut self.body).poll_frame(cx)
    }

    fn is_end_stream(&self) -> bool {
        self.body.is_end_stream()
    }

    fn size_hint(&self) -> SizeHint {
        self.body.size_hint()
    }
}
