//! One connection through the proxy.

use std::net::SocketAddr;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Duration;

use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::TcpStream;
use tokio::net::tcp::{ReadHalf, WriteHalf};
use tokio::sync::watch;

use super::{Mode, Rng};

/// How many bytes are read at once.
const READ_BYTES: usize = 16 * 1024;

/// How often a slow connection forwards data.
const SLOW_STEPS_PER_SECOND: u64 = 50;

#[derive(Default)]
pub(super) struct Counters {
    pub(super) accepted: AtomicUsize,
    pub(super) open: AtomicUsize,
    pub(super) held: AtomicUsize,
    pub(super) resets: AtomicUsize,
}

pub(super) struct Connection {
    pub(super) client: TcpStream,
    pub(super) target: SocketAddr,
    pub(super) mode: watch::Receiver<Mode>,
    pub(super) rng: Rng,
    pub(super) counters: Arc<Counters>,
}

/// Why a connection ended.
#[derive(PartialEq, Eq)]
enum End {
    /// One side closed it; everything sent before has arrived.
    Closed,
    Reset,
}

impl Connection {
    pub(super) async fn run(self) {
        let Self {
            mut client,
            target,
            mode,
            rng,
            counters,
        } = self;
        let _open = Counted::new(&counters.open);
        let Ok(mut server) = TcpStream::connect(target).await else {
            // The target does not listen: the client is refused as if it had connected directly.
            let _ = client.set_zero_linger();
            return;
        };
        // Slices must be sent as they are written.
        let _ = client.set_nodelay(true);
        let end = {
            let (client_reads, client_writes) = client.split();
            let (server_reads, server_writes) = server.split();
            let answers = Answers {
                from: server_reads,
                to: client_writes,
                mode: mode.clone(),
                rng,
                counters: &counters,
            };
            tokio::select! {
                biased;
                end = answers.pump() => end,
                end = pump_requests(client_reads, server_writes, mode) => end,
            }
        };
        if end == End::Reset {
            counters.resets.fetch_add(1, Ordering::Relaxed);
            let _ = client.set_zero_linger();
            let _ = server.set_zero_linger();
        } else {
            let _ = client.shutdown().await;
        }
    }
}

/// Forwards requests, or blocks them.
async fn pump_requests(mut from: ReadHalf<'_>, mut to: WriteHalf<'_>, mut mode: watch::Receiver<Mode>) -> End {
    let mut buffer = vec![0; READ_BYTES];
    loop {
        let current = *mode.borrow_and_update();
        let read = tokio::select! {
            biased;
            changed = mode.changed() => match changed {
                Ok(()) => continue,
                Err(_) => return End::Reset,
            },
            read = from.read(&mut buffer), if current != Mode::HalfOpen => read,
        };
        match read {
            Ok(0) => return End::Closed,
            Ok(length) => {
                if to.write_all(&buffer[..length]).await.is_err() {
                    return End::Reset;
                }
            }
            Err(_) => return End::Reset,
        }
    }
}

/// Forwards the answers.
struct Answers<'a> {
    from: ReadHalf<'a>,
    to: WriteHalf<'a>,
    mode: watch::Receiver<Mode>,
    rng: Rng,
    counters: &'a Counters,
}

impl Answers<'_> {
    async fn pump(mut self) -> End {
        let mut buffer = vec![0; READ_BYTES];
        // Read but not yet written: `buffer[begin..end]`.
        let (mut begin, mut end) = (0, 0);
        let mut mode = *self.mode.borrow_and_update();
        let mut passed = 0_u64;
        loop {
            if self.mode.has_changed().unwrap_or(true) {
                mode = *self.mode.borrow_and_update();
                passed = 0;
            }
            match mode {
                Mode::Reset => return End::Reset,
                Mode::CutAfter { bytes } if passed >= bytes => return End::Reset,
                Mode::HoldAfter { bytes } if passed >= bytes => {
                    let _held = Counted::new(&self.counters.held);
                    if self.mode.changed().await.is_err() {
                        return End::Reset;
                    }
                    self.mode.mark_changed();
                    continue;
                }
                Mode::HalfOpen => {
                    if self.mode.changed().await.is_err() {
                        return End::Reset;
                    }
                    self.mode.mark_changed();
                    continue;
                }
                _ => {}
            }
            if begin == end {
                let read = tokio::select! {
                    biased;
                    changed = self.mode.changed() => match changed {
                        Ok(()) => {
                            self.mode.mark_changed();
                            continue;
                        }
                        Err(_) => return End::Reset,
                    },
                    read = self.from.read(&mut buffer) => read,
                };
                match read {
                    Ok(0) => return End::Closed,
                    Ok(length) => (begin, end) = (0, length),
                    Err(_) => return End::Reset,
                }
            }
            let piece = self.piece(mode, passed, end - begin);
            if self.to.write_all(&buffer[begin..begin + piece]).await.is_err() {
                return End::Reset;
            }
            begin += piece;
            passed += piece as u64;
            if let Mode::Slow { bytes_per_second } = mode {
                let pause = Duration::from_secs_f64(piece as f64 / bytes_per_second.max(1) as f64);
                tokio::select! {
                    biased;
                    _ = self.mode.changed() => self.mode.mark_changed(),
                    () = tokio::time::sleep(pause) => {}
                }
            }
        }
    }

    /// How many of `waiting` bytes may be sent at once.
    fn piece(&mut self, mode: Mode, passed: u64, waiting: usize) -> usize {
        let allowed = match mode {
            Mode::Slow { bytes_per_second } => (bytes_per_second / SLOW_STEPS_PER_SECOND).max(1),
            Mode::Slice { bytes_max } => 1 + self.rng.below(bytes_max.max(1) as u64),
            Mode::HoldAfter { bytes } | Mode::CutAfter { bytes } => bytes - passed,
            _ => u64::MAX,
        };
        waiting.min(usize::try_from(allowed).unwrap_or(usize::MAX))
    }
}

/// Increments a counter for as long as it lives.
struct Counted<'a>(&'a AtomicUsize);

impl<'a> Counted<'a> {
    fn new(counter: &'a AtomicUsize) -> Self {
        counter.fetch_add(1, Ordering::Relaxed);
        Self(counter)
    }
}

impl Drop for Counted<'_> {
    fn drop(&mut self) {
        self.0.fetch_sub(1, Ordering::Relaxed);
    }
}
