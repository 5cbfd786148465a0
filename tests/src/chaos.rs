//! A TCP proxy that simulates bad networks: [`ChaosProxy`].
//!
//! ```text
//! client ──▶ proxy ──▶ API server        requests pass, until the connection is reset or half open
//!        ◀──       ◀──                   answers pass, drip, are held, cut or never come
//! ```
//!
//! It handles connections, not their content: it works below TLS. A [`Mode`] per connection decides what happens, and
//! may change while the connection is open. The mode of a new connection may be drawn from a seed, so that a run can be
//! repeated.
//!
//! The toxics are those of toxiproxy (reset_peer, bandwidth, slicer, limit_data, timeout).

mod connection;
#[cfg(test)]
mod tests;

use std::net::SocketAddr;
use std::sync::atomic::Ordering;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use anyhow::{Context, Result};
use tokio::net::TcpListener;
use tokio::sync::watch;
use tokio::task::JoinHandle;

use connection::{Connection, Counters};

/// What happens to a connection. Byte counts are those of answers since the mode was set, including TLS's own.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Mode {
    /// Everything passes.
    Pass,
    /// Answers are slow.
    Slow {
        /// The throughput in bytes per second.
        bytes_per_second: u64,
    },
    /// Answers arrive in pieces of one byte up to this many; each length is random.
    Slice {
        /// The longest piece.
        bytes_max: usize,
    },
    /// This many bytes of the answers pass, then nothing more until the mode changes. Requests pass.
    HoldAfter {
        /// The number of bytes.
        bytes: u64,
    },
    /// This many bytes of the answers pass, then both sides are reset.
    CutAfter {
        /// The number of bytes.
        bytes: u64,
    },
    /// Nothing moves in either direction and neither side is notified: the connection looks open from both sides, as
    /// after a firewall has dropped its state.
    HalfOpen,
    /// Both sides are reset at once.
    Reset,
}

/// The mode in which new connections start.
#[derive(Clone, Debug)]
enum NewMode {
    Fixed(Mode),
    /// Drawn from these for each connection.
    Mixed(Vec<Mode>),
}

/// A proxy in front of one address. It and all its connections end when it is dropped.
pub struct ChaosProxy {
    address: SocketAddr,
    shared: Arc<Shared>,
    accepting: JoinHandle<()>,
}

struct Shared {
    target: SocketAddr,
    counters: Arc<Counters>,
    inner: Mutex<Inner>,
}

struct Inner {
    new_mode: NewMode,
    rng: Rng,
    /// One per connection that may still be open.
    modes: Vec<watch::Sender<Mode>>,
}

impl ChaosProxy {
    /// Listens on a free loopback port and forwards everything to `target`. `seed` determines what is drawn.
    ///
    /// # Errors
    /// If it cannot listen.
    pub async fn start(target: SocketAddr, seed: u64) -> Result<Self> {
        let listener = TcpListener::bind("127.0.0.1:0")
            .await
            .context("the proxy cannot listen")?;
        let address = listener.local_addr()?;
        let shared = Arc::new(Shared {
            target,
            counters: Arc::default(),
            inner: Mutex::new(Inner {
                new_mode: NewMode::Fixed(Mode::Pass),
                rng: Rng(seed),
                modes: Vec::new(),
            }),
        });
        let accepting = tokio::spawn(accept(listener, shared.clone()));
        Ok(Self {
            address,
            shared,
            accepting,
        })
    }

    /// The address on which it listens.
    pub fn address(&self) -> SocketAddr {
        self.address
    }

    /// Sets the mode of all connections, present and future.
    pub fn set(&self, mode: Mode) {
        self.set_new(mode);
        self.set_open(mode);
    }

    /// Sets the mode of the connections that are open now.
    pub fn set_open(&self, mode: Mode) {
        for connection in &self.shared.inner().modes {
            connection.send_replace(mode);
        }
    }

    /// Sets the mode in which new connections start.
    pub fn set_new(&self, mode: Mode) {
        self.shared.inner().new_mode = NewMode::Fixed(mode);
    }

    /// From now on, each new connection starts in one of `modes`, drawn for it.
    ///
    /// # Panics
    /// If `modes` is empty.
    pub fn draw_new(&self, modes: &[Mode]) {
        assert!(!modes.is_empty(), "no modes to draw from");
        self.shared.inner().new_mode = NewMode::Mixed(modes.to_vec());
    }

    /// The number of connections accepted so far.
    pub fn accepted(&self) -> usize {
        self.shared.counters.accepted.load(Ordering::Relaxed)
    }

    /// The number of open connections.
    pub fn open(&self) -> usize {
        self.shared.counters.open.load(Ordering::Relaxed)
    }

    /// The number of connections blocked by [`Mode::HoldAfter`].
    pub fn held(&self) -> usize {
        self.shared.counters.held.load(Ordering::Relaxed)
    }

    /// The number of connections that the proxy reset.
    pub fn resets(&self) -> usize {
        self.shared.counters.resets.load(Ordering::Relaxed)
    }
}

impl Drop for ChaosProxy {
    fn drop(&mut self) {
        self.accepting.abort();
        self.set_open(Mode::Reset);
    }
}

impl Shared {
    fn inner(&self) -> MutexGuard<'_, Inner> {
        self.inner.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// The mode of a new connection, and the generator for its pieces.
    fn begin(&self) -> (watch::Receiver<Mode>, Rng) {
        let mut inner = self.inner();
        let Inner { new_mode, rng, modes } = &mut *inner;
        let mode = match new_mode {
            NewMode::Fixed(mode) => *mode,
            NewMode::Mixed(drawn) => drawn[rng.below(drawn.len() as u64) as usize],
        };
        modes.retain(|connection| !connection.is_closed());
        let (sender, receiver) = watch::channel(mode);
        modes.push(sender);
        (receiver, Rng(rng.next()))
    }
}

async fn accept(listener: TcpListener, shared: Arc<Shared>) {
    while let Ok((client, _)) = listener.accept().await {
        let (mode, rng) = shared.begin();
        shared.counters.accepted.fetch_add(1, Ordering::Relaxed);
        let connection = Connection {
            client,
            target: shared.target,
            mode,
            rng,
            counters: shared.counters.clone(),
        };
        tokio::spawn(connection.run());
    }
}

/// SplitMix64: the same seed gives the same numbers.
pub struct Rng(u64);

impl Rng {
    /// One that begins with `seed`.
    pub fn new(seed: u64) -> Self {
        Self(seed)
    }

    fn next(&mut self) -> u64 {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mixed = (self.0 ^ (self.0 >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        let mixed = (mixed ^ (mixed >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        mixed ^ (mixed >> 31)
    }

    /// A number below `bound`.
    pub fn below(&mut self, bound: u64) -> u64 {
        self.next() % bound
    }
}
