//! Bodies that a hostile server sends to a plugin, from the program over real sockets.

use std::net::SocketAddr;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::{Duration, Instant};

use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};
use tokio::net::{TcpListener, TcpStream};

use super::http::{config, request};
use super::program::Program;
use super::world::{World, http_get};

const GIGABYTE: u64 = 1 << 30;

/// `limits.http-response` of the plugin.
const RESPONSE_BYTES: u64 = 1 << 20;

/// What the sockets of both sides hold besides what was read, at most.
const SOCKET_BYTES: u64 = 16 << 20;

/// A server that sends one part of a body after the other. Returns its address, and the bytes of bodies that it got
/// rid of.
async fn server() -> (SocketAddr, Arc<AtomicU64>) {
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let address = listener.local_addr().unwrap();
    let sent = Arc::<AtomicU64>::default();
    let counted = Arc::clone(&sent);
    tokio::spawn(async move {
        while let Ok((socket, _)) = listener.accept().await {
            let counted = Arc::clone(&counted);
            // It ends with an error when the client leaves.
            tokio::spawn(async move { answer(socket, &counted).await.ok() });
        }
    });
    (address, sent)
}

async fn answer(mut socket: TcpStream, sent: &AtomicU64) -> std::io::Result<()> {
    let mut head = Vec::new();
    while !head.ends_with(b"\r\n\r\n") {
        head.push(socket.read_u8().await?);
    }
    let head = String::from_utf8_lossy(&head).into_owned();
    let large = vec![b'x'; 64 << 10];
    let (length, part, parts, pause) = match head.split(' ').nth(1).unwrap() {
        "/gigabyte" => (Some(GIGABYTE), large, GIGABYTE >> 16, None),
        "/endless" => (None, chunk(&large), u64::MAX, None),
        "/chunks" => (None, chunk(b"x"), 10_000, None),
        "/slow" => (Some(GIGABYTE), b"x".to_vec(), GIGABYTE, Some(Duration::from_secs(1))),
        path => panic!("unknown path {path}"),
    };
    let framing = match length {
        Some(bytes) => format!("content-length: {bytes}"),
        None => "transfer-encoding: chunked".to_owned(),
    };
    let head = format!("HTTP/1.1 200 OK\r\n{framing}\r\n\r\n");
    socket.write_all(head.as_bytes()).await?;
    for _ in 0..parts {
        socket.write_all(&part).await?;
        sent.fetch_add(part.len() as u64, Ordering::Relaxed);
        if let Some(pause) = pause {
            tokio::time::sleep(pause).await;
        }
    }
    socket
        .write_all(if length.is_none() { b"0\r\n\r\n" } else { b"" })
        .await
}

fn chunk(bytes: &[u8]) -> Vec<u8> {
    [format!("{:x}\r\n", bytes.len()).as_bytes(), bytes, b"\r\n"].concat()
}

#[tokio::test(flavor = "multi_thread")]
async fn hostile_bodies_end_at_their_limits_and_keep_the_instance() {
    let world = World::start().await;
    world.install("guest-http", "http.wasm");
    let (address, sent) = server().await;
    let limits = "limits.http-response = \"1MiB\"\nlimits.call = \"10s\"";
    let allow = format!("allow.http = [\"http://{address}\"]\n{limits}");
    let program = Program::run(&world, &config(&allow)).await;
    program.wait_until_ready().await;
    for (name, path) in [("a", "gigabyte"), ("b", "endless")] {
        let answer = request(&world, &program, name, &format!("http://{address}/{path}")).await;
        assert_eq!(answer["error"], "TooLarge", "{path}");
        let bytes = sent.swap(0, Ordering::Relaxed);
        assert!(
            bytes < RESPONSE_BYTES + SOCKET_BYTES,
            "{path}: the server could send {bytes} bytes"
        );
    }
    let answer = request(&world, &program, "c", &format!("http://{address}/chunks")).await;
    assert_eq!((&answer["status"], &answer["bytes"]), (&200.into(), &10_000.into()));
    sent.store(0, Ordering::Relaxed);
    let began = Instant::now();
    let answer = request(&world, &program, "d", &format!("http://{address}/slow")).await;
    assert_eq!(answer["error"], "Timeout");
    // Nine tenths of the call, in which the server sends a byte a second.
    assert!(began.elapsed() >= Duration::from_secs(9), "{:?}", began.elapsed());
    assert!(sent.load(Ordering::Relaxed) >= 5);
    let (_, metrics) = http_get(program.address(), "/metrics").await;
    assert!(!metrics.contains("informant_plugin_restarts_total{"), "{metrics}");
}
