//! A TCP proxy that treats connections as bad networks do: [`ChaosProxy`].
//!
//! ```text
//! client ──▶ proxy ──▶ API server        requests pass, until the connection is reset or half open
//!        ◀──       ◀──                   answers pass, drip, are held, cut or never come
//! ```
//!
//! Owns connections and nothing of what is said on them: it works below TLS. What happens is a [`Mode`] per connection,
//! which may be changed while the connection is open; which mode a new connection gets may be drawn from a seed, so
//! that a run's weather can be had again.
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

/// What happens to a connection. Bytes are those of answers, counted from the moment the mode was set, TLS's own
/// included.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Mode {
    /// Everything passes.
    Pass,
    /// Answers drip.
    Slow {
        /// How much comes through in a second.
        bytes_per_second: u64,
    },
    /// Answers come in pieces of one byte up to this many, drawn for each.
    Slice {
        /// The longest piece.
        bytes_max: usize,
    },
    /// So much of the answers passes, then nothing more until the mode is changed. Requests pass.
    HoldAfter {
        /// How much.
        bytes: u64,
    },
    /// So much of the answers passes, then both sides are reset.
    CutAfter {
        /// How much.
        bytes: u64,
    },
    /// Nothing moves in either direction and nobody is told: the connection looks open from both sides, as after a
    /// firewall has forgotten it.
    HalfOpen,
    /// Both sides are reset at once.
    Reset,
}

/// How new connections begin.
#[derive(Clone, Debug)]
enum Weather {
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
    weather: Weather,
    dice: Dice,
    /// Of each connection that may still be open.
    modes: Vec<watch::Sender<Mode>>,
}

impl ChaosProxy {
    /// Listens on a free port of loopback and passes everything on to `target`. `seed` decides what is drawn.
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
                weather: Weather::Fixed(Mode::Pass),
                dice: Dice(seed),
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

    /// Where it listens.
    pub fn address(&self) -> SocketAddr {
        self.address
    }

    /// Sets the mode of all connections, open and to come.
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

    /// Sets the mode in which connections begin from now on.
    pub fn set_new(&self, mode: Mode) {
        self.shared.inner().weather = Weather::Fixed(mode);
    }

    /// From now on each connection begins in one of `modes`, drawn for it.
    ///
    /// # Panics
    /// If there is none to draw from.
    pub fn draw_new(&self, modes: &[Mode]) {
        assert!(!modes.is_empty(), "no modes to draw from");
        self.shared.inner().weather = Weather::Mixed(modes.to_vec());
    }

    /// How many connections were accepted so far.
    pub fn accepted(&self) -> usize {
        self.shared.counters.accepted.load(Ordering::Relaxed)
    }

    /// How many connections are open.
    pub fn open(&self) -> usize {
        self.shared.counters.open.load(Ordering::Relaxed)
    }

    /// How many connections stand still at a [`Mode::HoldAfter`].
    pub fn held(&self) -> usize {
        self.shared.counters.held.load(Ordering::Relaxed)
    }

    /// How many connections were reset by the proxy.
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

    /// A new connection's mode, and what its pieces are drawn from.
    fn begin(&self) -> (watch::Receiver<Mode>, Dice) {
        let mut inner = self.inner();
        let Inner { weather, dice, modes } = &mut *inner;
        let mode = match weather {
            Weather::Fixed(mode) => *mode,
            Weather::Mixed(drawn) => drawn[dice.below(drawn.len() as u64) as usize],
        };
        modes.retain(|connection| !connection.is_closed());
        let (sender, receiver) = watch::channel(mode);
        modes.push(sender);
        (receiver, Dice(dice.next()))
    }
}

async fn accept(listener: TcpListener, shared: Arc<Shared>) {
    while let Ok((client, _)) = listener.accept().await {
        let (mode, dice) = shared.begin();
        shared.counters.accepted.fetch_add(1, Ordering::Relaxed);
        let connection = Connection {
            client,
            target: shared.target,
            mode,
            dice,
            counters: shared.counters.clone(),
        };
        tokio::spawn(connection.run());
    }
}

/// SplitMix64: the same seed, the same weather.
pub(crate) struct Dice(u64);

impl Dice {
    fn next(&mut self) -> u64 {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mixed = (self.0 ^ (self.0 >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        let mixed = (mixed ^ (mixed >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        mixed ^ (mixed >> 31)
    }

    fn below(&mut self, bound: u64) -> u64 {
        self.next() % bound
    }
}
