//! Requests over real sockets: what is connected to, what is sent, and what a broken other side leads to.

use std::io;
use std::net::{IpAddr, SocketAddr};
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Mutex};
use std::time::Duration;

use bytes::Bytes;
use http::{HeaderName, Method, Request};
use http_body_util::{BodyExt as _, Full};
use informant_informer::TokioEnvironment;
use informant_plugin_host::{HttpCall, HttpClient as _, HttpError, HttpErrorCode, HttpPermit};
use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};
use tokio::net::{TcpListener, TcpStream};

use super::connect::Resolving;
use super::*;

mod secure;

/// Answers lookups with one list of addresses after the other; the last one stays.
#[derive(Clone, Default)]
struct Names {
    answers: Arc<Mutex<Vec<Vec<IpAddr>>>>,
    lookups: Arc<AtomicUsize>,
}

impl Names {
    fn of(answers: &[&[&str]]) -> Names {
        let parse = |texts: &&[&str]| texts.iter().map(|text| text.parse().unwrap()).collect();
        Names {
            answers: Arc::new(Mutex::new(answers.iter().map(parse).collect())),
            lookups: Arc::default(),
        }
    }
}

impl Resolver for Names {
    fn resolve(&self, _name: &str, _permit: HttpPermit) -> Resolving {
        self.lookups.fetch_add(1, Ordering::Relaxed);
        let mut answers = self.answers.lock().unwrap();
        let found = match answers.len() {
            0 => Err(io::Error::other("no such name")),
            1 => Ok(answers[0].clone()),
            _ => Ok(answers.remove(0)),
        };
        Box::pin(async move { found })
    }
}

/// A server that sends these bytes to everybody, and notes the requests.
struct RawServer {
    address: SocketAddr,
    seen: Arc<Mutex<Vec<String>>>,
}

impl RawServer {
    /// `ends`: it closes the connection after the bytes.
    async fn start(answer: impl Into<Vec<u8>>, ends: bool) -> RawServer {
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let (address, answer) = (listener.local_addr().unwrap(), Arc::new(answer.into()));
        let seen: Arc<Mutex<Vec<String>>> = Arc::default();
        let noted = Arc::clone(&seen);
        tokio::spawn(async move {
            while let Ok((socket, _)) = listener.accept().await {
                tokio::spawn(talk(socket, Arc::clone(&answer), ends, Arc::clone(&noted)));
            }
        });
        RawServer { address, seen }
    }

    fn seen(&self) -> Vec<String> {
        self.seen.lock().unwrap().clone()
    }

    fn url(&self, path: &str) -> String {
        format!("http://{}{path}", self.address)
    }
}

async fn talk(mut socket: TcpStream, answer: Arc<Vec<u8>>, ends: bool, noted: Arc<Mutex<Vec<String>>>) {
    let mut head = Vec::new();
    // A handshake of TLS begins with 22, and gets the same answer.
    while !head.ends_with(b"\r\n\r\n") && head != [22] {
        match socket.read_u8().await {
            Ok(byte) => head.push(byte),
            Err(_) => return,
        }
    }
    noted
        .lock()
        .unwrap()
        .push(String::from_utf8_lossy(&head).replace("\r\n", "\n"));
    // The client may be gone.
    let _ = socket.write_all(&answer).await;
    if !ends {
        let _ = socket.read_to_end(&mut head).await;
    }
}

fn sender(section: HttpSection, names: Names) -> HttpSender {
    let environment = TokioEnvironment::new(tokio::runtime::Handle::current(), 0);
    HttpSender::new(&section, names, Arc::new(environment))
}

fn call(url: &str) -> HttpCall {
    let body = Full::new(Bytes::new()).map_err(|never: std::convert::Infallible| match never {});
    let request = Request::get(url).body(body.boxed_unsync()).unwrap();
    let host = request.uri().host().unwrap().trim_matches(['[', ']']).to_owned();
    HttpCall {
        plugin: Arc::from("p"),
        request,
        address: host.parse().ok(),
        header_files: Vec::new(),
        time_max: Duration::from_secs(60),
        permit: HttpPermit::unlimited(),
    }
}

/// The status and the body.
async fn get(sender: &HttpSender, call: HttpCall) -> Result<(u16, Bytes), HttpError> {
    let response = sender.send(call).await?;
    let status = response.status().as_u16();
    Ok((status, response.into_body().collect().await?.to_bytes()))
}

async fn code(sender: &HttpSender, call: HttpCall) -> HttpErrorCode {
    get(sender, call).await.unwrap_err().code
}

const OK: &str = "HTTP/1.1 200 OK\r\ncontent-length: 2\r\n\r\nok";

#[tokio::test]
async fn a_request_has_its_own_host_and_path() {
    let server = RawServer::start(OK, true).await;
    let sender = sender(HttpSection::default(), Names::default());
    let mut sent = call(&server.url("/a%20b?c=d"));
    sent.request
        .headers_mut()
        .insert("host", "evil.example.com".parse().unwrap());
    sent.request.headers_mut().insert("x-own", "1".parse().unwrap());
    let (status, body) = get(&sender, sent).await.unwrap();
    assert_eq!((status, &body[..]), (200, &b"ok"[..]));
    let wanted = format!("GET /a%20b?c=d HTTP/1.1\nhost: {}\nx-own: 1\n\n", server.address);
    assert_eq!(server.seen(), [wanted]);
}

#[tokio::test]
async fn names_of_forbidden_addresses_are_not_connected_to() {
    let server = RawServer::start(OK, true).await;
    for address in [
        "127.0.0.1",
        "::ffff:127.0.0.1",
        "169.254.169.254",
        "::1",
        "0.0.0.0",
        "fd00:ec2::254",
    ] {
        for answer in [&[address][..], &["192.0.2.1", address]] {
            let sender = sender(HttpSection::default(), Names::of(&[answer]));
            let url = format!("http://innocent.example.com:{}/", server.address.port());
            let error = get(&sender, call(&url)).await.unwrap_err();
            assert_eq!(error.code, HttpErrorCode::Address, "{answer:?}");
            assert!(error.message.contains(address), "{error}");
        }
    }
    assert!(server.seen().is_empty());
}

#[tokio::test]
async fn a_name_that_changes_is_looked_up_only_once() {
    let server = RawServer::start(OK, true).await;
    // Nothing is at the first address, which is for documentation; the second answer would lead to this machine.
    let names = Names::of(&[&["2001:db8::1"], &["127.0.0.1"]]);
    let lookups = Arc::clone(&names.lookups);
    let sender = sender(HttpSection::default(), names);
    let url = format!("http://rebinding.example.com:{}/", server.address.port());
    let failed = code(&sender, call(&url)).await;
    assert!(
        matches!(failed, HttpErrorCode::Connect | HttpErrorCode::ConnectTimeout),
        "{failed:?}"
    );
    assert_eq!(lookups.load(Ordering::Relaxed), 1);
    assert!(server.seen().is_empty());
}

#[tokio::test]
async fn names_without_addresses_and_closed_ports_are_errors() {
    let sender = sender(HttpSection::default(), Names::default());
    assert_eq!(
        code(&sender, call("http://nowhere.example.com/")).await,
        HttpErrorCode::Dns
    );
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let url = format!("http://{}/", listener.local_addr().unwrap());
    drop(listener);
    assert_eq!(code(&sender, call(&url)).await, HttpErrorCode::Connect);
}

#[tokio::test]
async fn a_redirect_is_an_answer_like_any_other() {
    let location = "HTTP/1.1 302 Found\r\nlocation: http://169.254.169.254/\r\ncontent-length: 0\r\n\r\n";
    let server = RawServer::start(location, true).await;
    let sender = sender(HttpSection::default(), Names::default());
    assert_eq!(get(&sender, call(&server.url("/"))).await.unwrap().0, 302);
    assert_eq!(server.seen().len(), 1);
}

#[tokio::test]
async fn broken_answers_are_errors() {
    for (answer, wanted) in [
        ("", HttpErrorCode::Interrupted),
        ("SSH-2.0-OpenSSH_9.7\r\n", HttpErrorCode::Protocol),
        (
            "HTTP/1.1 200 OK\r\ncontent-length: 9\r\n\r\nok",
            HttpErrorCode::Interrupted,
        ),
    ] {
        let server = RawServer::start(answer, true).await;
        let sender = sender(HttpSection::default(), Names::default());
        assert_eq!(code(&sender, call(&server.url("/"))).await, wanted, "{answer:?}");
    }
    let head = format!(
        "HTTP/1.1 200 OK\r\nx-large: {}\r\n\r\n",
        "x".repeat(2 * HTTP_HEAD_BYTES_MAX)
    );
    let server = RawServer::start(head, true).await;
    let sender = sender(HttpSection::default(), Names::default());
    assert_eq!(code(&sender, call(&server.url("/"))).await, HttpErrorCode::Protocol);
}

#[tokio::test]
async fn a_connection_is_closed_when_its_time_is_over() {
    let server = RawServer::start("HTTP/1.1 200 OK\r\ncontent-length: 9\r\n\r\no", false).await;
    let sender = sender(HttpSection::default(), Names::default());
    let mut slow = call(&server.url("/"));
    slow.time_max = Duration::from_millis(200);
    assert_eq!(code(&sender, slow).await, HttpErrorCode::Interrupted);
}

#[tokio::test]
async fn a_file_replaces_the_header_and_is_read_each_time() {
    let server = RawServer::start(OK, true).await;
    let sender = sender(HttpSection::default(), Names::default());
    let folder = tempfile::tempdir().unwrap();
    let file = folder.path().join("token");
    let authorized = || {
        let mut sent = call(&server.url("/"));
        sent.request
            .headers_mut()
            .insert("authorization", "Bearer guest".parse().unwrap());
        sent.header_files = vec![(HeaderName::from_static("authorization"), file.clone())];
        sent
    };
    for token in ["Bearer one\n", "Bearer two"] {
        std::fs::write(&file, token).unwrap();
        get(&sender, authorized()).await.unwrap();
        let seen = server.seen();
        assert!(
            seen.last()
                .unwrap()
                .contains(&format!("authorization: {}\n", token.trim())),
            "{seen:?}"
        );
    }
    assert!(!server.seen().concat().contains("guest"));
    for content in [
        String::new(),
        " \n".to_owned(),
        "a\nb".to_owned(),
        "x".repeat(HTTP_HEADER_FILE_BYTES_MAX + 1),
    ] {
        std::fs::write(&file, content).unwrap();
        assert_eq!(code(&sender, authorized()).await, HttpErrorCode::HeaderFile);
    }
    std::fs::remove_file(&file).unwrap();
    assert_eq!(code(&sender, authorized()).await, HttpErrorCode::HeaderFile);
    assert_eq!(server.seen().len(), 2);
}

#[tokio::test]
async fn a_dropped_request_closes_its_connection() {
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let url = format!("http://{}/", listener.local_addr().unwrap());
    let sender = sender(HttpSection::default(), Names::default());
    let mut sent = call(&url);
    *sent.request.method_mut() = Method::POST;
    let sent = tokio::spawn(sender.send(sent));
    let (mut socket, _) = listener.accept().await.unwrap();
    sent.abort();
    let mut rest = Vec::new();
    tokio::time::timeout(Duration::from_secs(60), socket.read_to_end(&mut rest))
        .await
        .unwrap()
        .unwrap();
}
