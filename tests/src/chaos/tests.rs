//! Each mode does what it promises, and nothing else.

use std::io::ErrorKind;
use std::time::Duration;

use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::TcpStream;

use super::*;
use crate::wait;

const WITHIN: Duration = Duration::from_secs(30);

/// The number of bytes in the answer to each requested byte.
const ANSWER_BYTES: usize = 10_000;

/// A server that answers each byte with many, behind a proxy.
async fn proxy() -> ChaosProxy {
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let target = listener.local_addr().unwrap();
    tokio::spawn(async move {
        while let Ok((mut stream, _)) = listener.accept().await {
            tokio::spawn(async move {
                while stream.read_u8().await.is_ok() {
                    stream.write_all(&[7; ANSWER_BYTES]).await.unwrap();
                }
            });
        }
    });
    ChaosProxy::start(target, 1).await.unwrap()
}

async fn ask(proxy: &ChaosProxy) -> TcpStream {
    let mut stream = TcpStream::connect(proxy.address()).await.unwrap();
    stream.write_u8(1).await.unwrap();
    stream
}

/// Reads until that many bytes have arrived, or the end: the number of bytes, and what ended it.
async fn read(stream: &mut TcpStream, bytes: usize) -> (usize, Option<ErrorKind>) {
    let mut buffer = vec![0; bytes];
    let mut length = 0;
    while length < bytes {
        match stream.read(&mut buffer[length..]).await {
            Ok(0) => return (length, Some(ErrorKind::UnexpectedEof)),
            Ok(more) => length += more,
            Err(error) => return (length, Some(error.kind())),
        }
    }
    (length, None)
}

async fn until(what: &str, condition: impl Fn() -> bool) {
    wait::until(what, WITHIN, async || condition().then_some(()).ok_or(String::new()))
        .await
        .unwrap();
}

#[tokio::test]
async fn everything_passes_by_default() {
    let proxy = proxy().await;
    let mut stream = ask(&proxy).await;
    assert_eq!(read(&mut stream, ANSWER_BYTES).await, (ANSWER_BYTES, None));
    assert_eq!((proxy.accepted(), proxy.open(), proxy.resets()), (1, 1, 0));
    drop(stream);
    until("the connection to be closed", || proxy.open() == 0).await;
}

#[tokio::test]
async fn sliced_and_slow_answers_arrive_completely() {
    let proxy = proxy().await;
    for mode in [
        Mode::Slice { bytes_max: 9 },
        Mode::Slow {
            bytes_per_second: 100_000,
        },
    ] {
        proxy.set(mode);
        let begin = std::time::Instant::now();
        let mut stream = ask(&proxy).await;
        assert_eq!(read(&mut stream, ANSWER_BYTES).await, (ANSWER_BYTES, None), "{mode:?}");
        if let Mode::Slow { .. } = mode {
            assert!(begin.elapsed() > Duration::from_millis(80), "{:?}", begin.elapsed());
        }
    }
}

#[tokio::test]
async fn a_cut_resets_after_exactly_so_many_bytes() {
    let proxy = proxy().await;
    proxy.set_new(Mode::CutAfter { bytes: 4_321 });
    let mut stream = ask(&proxy).await;
    let (length, end) = read(&mut stream, ANSWER_BYTES).await;
    // A reset may overtake data that was sent before it, but there is never more.
    assert!(length <= 4_321, "{length}");
    assert_eq!(end, Some(ErrorKind::ConnectionReset));
    assert_eq!(proxy.resets(), 1);
}

#[tokio::test]
async fn held_answer_continues_when_the_mode_changes() {
    let proxy = proxy().await;
    proxy.set_new(Mode::HoldAfter { bytes: 3_000 });
    let mut stream = ask(&proxy).await;
    assert_eq!(read(&mut stream, 3_000).await, (3_000, None));
    until("the answer to be held", || proxy.held() == 1).await;
    proxy.set_open(Mode::Pass);
    assert_eq!(read(&mut stream, 7_000).await, (7_000, None));
    until("the answer to continue", || proxy.held() == 0).await;
}

#[tokio::test]
async fn half_open_connection_is_silent_and_others_are_not() {
    let proxy = proxy().await;
    let mut silent = ask(&proxy).await;
    assert_eq!(read(&mut silent, ANSWER_BYTES).await, (ANSWER_BYTES, None));
    proxy.set_open(Mode::HalfOpen);
    silent.write_u8(1).await.unwrap();
    let mut other = ask(&proxy).await;
    assert_eq!(read(&mut other, ANSWER_BYTES).await, (ANSWER_BYTES, None));
    let mut byte = [0; 1];
    assert_eq!(
        silent.try_read(&mut byte).map_err(|error| error.kind()),
        Err(ErrorKind::WouldBlock)
    );
    proxy.set_open(Mode::Pass);
    assert_eq!(read(&mut silent, ANSWER_BYTES).await, (ANSWER_BYTES, None));
}

#[tokio::test]
async fn reset_ends_open_and_new_connections() {
    let proxy = proxy().await;
    let mut stream = ask(&proxy).await;
    assert_eq!(read(&mut stream, ANSWER_BYTES).await, (ANSWER_BYTES, None));
    proxy.set(Mode::Reset);
    assert_eq!(read(&mut stream, 1).await, (0, Some(ErrorKind::ConnectionReset)));
    let mut next = TcpStream::connect(proxy.address()).await.unwrap();
    assert_eq!(read(&mut next, 1).await, (0, Some(ErrorKind::ConnectionReset)));
    until("both to be reset", || proxy.resets() == 2).await;
}

#[tokio::test]
async fn same_seed_draws_the_same_modes() {
    let draw = |seed| {
        let mut rng = Rng(seed);
        (0..8).map(|_| rng.below(100)).collect::<Vec<_>>()
    };
    assert_eq!(draw(3), draw(3));
    assert_ne!(draw(3), draw(4));
}
