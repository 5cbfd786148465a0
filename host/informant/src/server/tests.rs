//! A server with small limits, on real sockets.

use std::net::{IpAddr, Ipv4Addr};
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Instant;

use axum::routing::get;
use bytes::Bytes;
use futures::stream;
use prometheus_client::registry::Registry;
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::TcpStream;

use super::connections::{ConnectionPermit, Connections};
use super::*;

/// How long anything may take on a busy machine.
const DEADLINE: Duration = Duration::from_secs(20);

struct TestServer {
    server: HttpServer,
    registry: Registry,
    /// Requests to `/slow` that have arrived.
    slow: Arc<AtomicUsize>,
}

impl TestServer {
    fn start(limits: ConnectionLimits) -> Self {
        Self::start_with(limits, None)
    }

    fn start_with(limits: ConnectionLimits, tls: Option<TlsAcceptor>) -> Self {
        let endless = || async {
            let chunks = stream::repeat_with(|| Ok::<_, std::convert::Infallible>(Bytes::from(vec![b'x'; 65_536])));
            axum::body::Body::from_stream(chunks)
        };
        let slow = Arc::new(AtomicUsize::new(0));
        let arrived = Arc::clone(&slow);
        let never = move || async move {
            arrived.fetch_add(1, Ordering::Relaxed);
            std::future::pending::<()>().await;
        };
        let routes = Router::new()
            .route("/", get(async || "ok"))
            .route("/slow", get(never))
            .route("/endless", get(endless));
        let mut registry = Registry::default();
        let metrics = ServerMetrics::register(&mut registry);
        let listener = bind(SocketAddr::new(IpAddr::V4(Ipv4Addr::LOCALHOST), 0)).unwrap();
        let server = HttpServer::start("test", listener, routes, limits, tls, &metrics).unwrap();
        Self { server, registry, slow }
    }

    async fn connect(&self, bytes: &str) -> TcpStream {
        let mut socket = TcpStream::connect(self.server.address()).await.unwrap();
        socket.write_all(bytes.as_bytes()).await.unwrap();
        socket
    }

    /// Waits until the metrics contain a line.
    async fn shows(&self, line: &str) {
        let began = Instant::now();
        loop {
            let mut text = String::new();
            prometheus_client::encoding::text::encode(&mut text, &self.registry).unwrap();
            if text.lines().any(|shown| shown == line) {
                return;
            }
            assert!(began.elapsed() < DEADLINE, "no {line} in {text}");
            tokio::time::sleep(Duration::from_millis(10)).await;
        }
    }
}

/// What the server sends until it closes the connection.
async fn rest(mut socket: TcpStream) -> String {
    let mut text = Vec::new();
    let read = tokio::time::timeout(DEADLINE, socket.read_to_end(&mut text));
    // A connection that is closed with unread bytes ends with a reset.
    let _ = read.await.expect("the server closes the connection");
    String::from_utf8_lossy(&text).into_owned()
}

const WHOLE: &str = "GET / HTTP/1.1\r\nhost: localhost\r\nconnection: close\r\n\r\n";

fn limits() -> ConnectionLimits {
    ConnectionLimits {
        connections: 4,
        request_wait: DEADLINE * 10,
        read_pause: DEADLINE * 10,
        answer_spared: DEADLINE * 10,
    }
}

#[tokio::test]
async fn half_written_request_is_closed_after_the_limit() {
    let server = TestServer::start(ConnectionLimits {
        request_wait: Duration::from_millis(200),
        ..limits()
    });
    for bytes in ["", "GET / HT", "GET / HTTP/1.1\r\nhost: localhost\r\n"] {
        assert_eq!(rest(server.connect(bytes).await).await, "");
    }
    let idle = "GET / HTTP/1.1\r\nhost: localhost\r\n\r\n";
    assert!(rest(server.connect(idle).await).await.ends_with("\r\n\r\nok"));
    server
        .shows("http_connections_closed_total{server=\"test\",reason=\"no-request\"} 4")
        .await;
    server.shows("http_connections{server=\"test\"} 0").await;
}

#[tokio::test]
async fn client_that_stops_reading_is_closed() {
    let server = TestServer::start(ConnectionLimits {
        read_pause: Duration::from_millis(200),
        ..limits()
    });
    let _socket = server.connect("GET /endless HTTP/1.1\r\nhost: localhost\r\n\r\n").await;
    server
        .shows("http_connections_closed_total{server=\"test\",reason=\"slow-reader\"} 1")
        .await;
    server.shows("http_connections{server=\"test\"} 0").await;
}

#[tokio::test]
async fn new_connection_replaces_the_one_that_waited_longest() {
    let server = TestServer::start(limits());
    let oldest = server.connect("GET / HT").await;
    server.shows("http_connections{server=\"test\"} 1").await;
    let mut waiting = Vec::new();
    for _ in 0..3 {
        waiting.push(server.connect("GET / HT").await);
    }
    server.shows("http_connections{server=\"test\"} 4").await;
    assert!(rest(server.connect(WHOLE).await).await.ends_with("ok"));
    assert_eq!(rest(oldest).await, "");
    server
        .shows("http_connections_closed_total{server=\"test\",reason=\"replaced\"} 1")
        .await;
}

#[tokio::test]
async fn connections_that_are_being_answered_are_not_replaced() {
    let server = TestServer::start(limits());
    let mut answered = Vec::new();
    for _ in 0..4 {
        answered.push(server.connect("GET /slow HTTP/1.1\r\nhost: localhost\r\n\r\n").await);
    }
    let began = Instant::now();
    while server.slow.load(Ordering::Relaxed) < 4 {
        assert!(began.elapsed() < DEADLINE, "the requests do not arrive");
        tokio::time::sleep(Duration::from_millis(10)).await;
    }
    assert_eq!(rest(server.connect("").await).await, "");
    server
        .shows("http_connections_closed_total{server=\"test\",reason=\"refused\"} 1")
        .await;
    drop(answered);
    server.shows("http_connections{server=\"test\"} 0").await;
    assert!(rest(server.connect(WHOLE).await).await.ends_with("ok"));
}

#[tokio::test]
async fn new_connection_replaces_the_longest_answer() {
    let server = TestServer::start(ConnectionLimits {
        answer_spared: Duration::from_millis(300),
        ..limits()
    });
    let mut answered = Vec::new();
    for _ in 0..4 {
        let mut slow = server.connect("GET /endless HTTP/1.1\r\nhost: localhost\r\n\r\n").await;
        slow.read_exact(&mut [0]).await.unwrap();
        answered.push(slow);
    }
    let began = Instant::now();
    while !rest(server.connect(WHOLE).await).await.ends_with("ok") {
        assert!(began.elapsed() < DEADLINE, "slow readers lock out a probe");
        tokio::time::sleep(Duration::from_millis(10)).await;
    }
    server
        .shows("http_connections_closed_total{server=\"test\",reason=\"long-answer\"} 1")
        .await;
}

#[tokio::test(start_paused = true)]
async fn slow_answers_of_health_server_fail_one_probe_at_most() {
    let metrics = ServerMetrics::register(&mut Registry::default()).of("health");
    let limits = ConnectionLimits {
        connections: 4,
        ..ConnectionLimits::of_health()
    };
    let connections = Connections::new(limits, metrics);
    let slow: Vec<_> = (0..4).map(|_| connections.admit().unwrap()).collect();
    let _answers: Vec<_> = slow.iter().map(ConnectionPermit::answering).collect();
    assert!(connections.admit().is_none());
    let probe_period = Duration::from_secs(10);
    tokio::time::sleep(probe_period).await;
    assert!(connections.admit().is_some());
}

#[tokio::test]
async fn long_head_is_refused() {
    let server = TestServer::start(limits());
    let head = format!("GET /{} HTTP/1.1\r\n", "x".repeat(2 * HEAD_BYTES_MAX));
    let answer = rest(server.connect(&head).await).await;
    assert!(answer.is_empty() || answer.starts_with("HTTP/1.1 4"), "{answer}");
    assert!(rest(server.connect(WHOLE).await).await.ends_with("ok"));
}

#[test]
fn server_answers_while_the_callers_runtime_is_blocked() {
    // The runtime of this test does not run at all.
    let server = TestServer::start(limits());
    let mut socket = std::net::TcpStream::connect(server.server.address()).unwrap();
    socket.set_read_timeout(Some(DEADLINE)).unwrap();
    std::io::Write::write_all(&mut socket, WHOLE.as_bytes()).unwrap();
    let mut answer = String::new();
    std::io::Read::read_to_string(&mut socket, &mut answer).unwrap();
    assert!(answer.ends_with("ok"), "{answer}");
}

fn with_tls(limits: ConnectionLimits) -> TestServer {
    let identity = ServerIdentity::default();
    identity.set(&Certificate::self_signed(vec!["localhost".to_owned()]).unwrap());
    TestServer::start_with(limits, Some(identity.acceptor().unwrap()))
}

#[tokio::test]
async fn handshake_that_takes_too_long_is_cut_off() {
    let limits = ConnectionLimits {
        request_wait: Duration::from_millis(50),
        ..ConnectionLimits::default()
    };
    let server = with_tls(limits);
    // Nothing, and the beginning of a handshake.
    for bytes in ["", "\x16\x03\x01"] {
        let mut socket = server.connect(bytes).await;
        let mut answer = Vec::new();
        let _ = socket.read_to_end(&mut answer).await;
        assert!(answer.is_empty(), "{answer:?}");
    }
    server
        .shows("http_connections_closed_total{server=\"test\",reason=\"no-request\"} 2")
        .await;
}

#[tokio::test]
async fn http_without_tls_is_told_what_the_port_requires() {
    let server = with_tls(ConnectionLimits::default());
    let mut socket = server.connect("GET / HTTP/1.1\r\nhost: localhost\r\n\r\n").await;
    let mut answer = String::new();
    socket.read_to_string(&mut answer).await.unwrap();
    assert!(
        answer.starts_with("HTTP/1.0 400") && answer.contains("use https://"),
        "{answer}"
    );
    server
        .shows("http_connections_closed_total{server=\"test\",reason=\"handshake\"} 1")
        .await;
}

#[tokio::test]
async fn only_processes_of_the_user_are_served_locally() {
    let folder = tempfile::tempdir().unwrap();
    let own = geteuid();
    let other = Uid::from_raw(own.as_raw() + 1);
    for (user, answered) in [(own, true), (other, false)] {
        let path = folder.path().join("admin.sock");
        let metrics = ServerMetrics::register(&mut Registry::default());
        let routes = Router::new().route("/", get(async || "served"));
        let socket = LocalSocket::bind(&path).unwrap();
        let server = LocalServer::start_for(user, "test", socket, routes, &metrics).unwrap();
        let mut client = tokio::net::UnixStream::connect(server.path()).await.unwrap();
        // The server may have closed the connection already.
        let _ = client
            .write_all(b"GET / HTTP/1.1\r\nhost: a\r\nconnection: close\r\n\r\n")
            .await;
        let mut text = Vec::new();
        let _ = tokio::time::timeout(DEADLINE, client.read_to_end(&mut text))
            .await
            .unwrap();
        let text = String::from_utf8(text).unwrap();
        assert_eq!(text.ends_with("served"), answered, "{text}");
        assert_eq!(text.is_empty(), !answered, "{text}");
    }
}
