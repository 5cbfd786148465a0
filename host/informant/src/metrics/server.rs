//! Metrics of the HTTP servers.

use prometheus_client::encoding::EncodeLabelSet;
use prometheus_client::metrics::counter::Counter;
use prometheus_client::metrics::family::Family;
use prometheus_client::metrics::gauge::Gauge;
use prometheus_client::registry::Registry;

#[derive(Clone, Debug, Default)]
pub(crate) struct ServerMetrics {
    open: Family<ServerOnly, Gauge>,
    closed: Family<ServerReason, Counter>,
    accept_errors: Family<ServerOnly, Counter>,
}

#[derive(Clone, Debug)]
pub(crate) struct ListenerMetrics {
    server: &'static str,
    open: Gauge,
    accept_errors: Counter,
    all: ServerMetrics,
}

/// Why a server closed a connection.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum ConnectionEnd {
    /// No whole request arrived in time.
    NoRequest,
    /// TLS was required, and the client did not complete its handshake.
    Handshake,
    /// The client stopped reading.
    SlowReader,
    /// At the limit: it had waited longest for a request.
    Replaced,
    /// At the limit: all were being answered, and its answer took longest.
    LongAnswer,
    /// At the limit: all others were being answered.
    Refused,
}

#[derive(Clone, Debug, PartialEq, Eq, Hash, EncodeLabelSet)]
struct ServerOnly {
    server: &'static str,
}

#[derive(Clone, Debug, PartialEq, Eq, Hash, EncodeLabelSet)]
struct ServerReason {
    server: &'static str,
    reason: &'static str,
}

impl ConnectionEnd {
    const ALL: [Self; 6] = [
        Self::NoRequest,
        Self::Handshake,
        Self::SlowReader,
        Self::Replaced,
        Self::LongAnswer,
        Self::Refused,
    ];

    const fn as_str(self) -> &'static str {
        match self {
            Self::NoRequest => "no-request",
            Self::Handshake => "handshake",
            Self::SlowReader => "slow-reader",
            Self::Replaced => "replaced",
            Self::LongAnswer => "long-answer",
            Self::Refused => "refused",
        }
    }
}

impl ServerMetrics {
    pub(crate) fn register(registry: &mut Registry) -> Self {
        let metrics = Self::default();
        registry.register(
            "http_connections",
            "Open connections of the health and the admin server",
            metrics.open.clone(),
        );
        registry.register(
            "http_connections_closed",
            "Connections that a server closed, by reason",
            metrics.closed.clone(),
        );
        registry.register(
            "http_accept_errors",
            "Failures to accept a connection, such as too many open files",
            metrics.accept_errors.clone(),
        );
        metrics
    }

    /// The metrics of one server. Its series exist from now on, so that a rate sees the first increment.
    pub(crate) fn of(&self, server: &'static str) -> ListenerMetrics {
        let listener = ListenerMetrics {
            server,
            open: self.open.get_or_create_owned(&ServerOnly { server }),
            accept_errors: self.accept_errors.get_or_create_owned(&ServerOnly { server }),
            all: self.clone(),
        };
        for end in ConnectionEnd::ALL {
            drop(listener.closed(end));
        }
        listener
    }
}

impl ListenerMetrics {
    pub(crate) fn server(&self) -> &'static str {
        self.server
    }

    pub(crate) fn set_open(&self, connections: usize) {
        self.open.set(i64::try_from(connections).unwrap_or(i64::MAX));
    }

    pub(crate) fn ended(&self, end: ConnectionEnd) {
        self.closed(end).inc();
    }

    pub(crate) fn accept_failed(&self) {
        self.accept_errors.inc();
    }

    fn closed(&self, end: ConnectionEnd) -> Counter {
        self.all.closed.get_or_create_owned(&ServerReason {
            server: self.server,
            reason: end.as_str(),
        })
    }
}
