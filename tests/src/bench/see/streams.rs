//! What clients of the dashboard's stream cost: CPU of the daemon, and how much later events are.
//!
//! The handler logs each event, so clients that read a plugin's page get each of these lines.

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use anyhow::{Context, Result, ensure};
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::TcpStream;
use tokio::task::JoinSet;

use super::print;
use crate::bench::control::StallMonitor;
use crate::bench::cores::Cores;
use crate::bench::figure::median;
use crate::bench::rig::Rig;
use crate::bench::swap::handled;
use crate::bench::waits::Waits;
use crate::bench::{subject, targets, usage};
use crate::daemon::Daemon;
use crate::{guests, wait};

const CLIENTS: usize = 20;

/// The topics that each page reads, for the clients in turn.
const TOPICS: [&str; 4] = ["overview", "plugins", "sources", "plugins,logs:measured,why:measured"];

const PODS: u32 = 1_000;
const EVENTS_PER_SECOND: u32 = 1_000;

/// Seconds of each measurement.
const SECONDS: u32 = 10;

/// What one measurement has shown.
struct Measured {
    /// The share of one CPU that the daemon used.
    cpu: f64,
    p99_us: f64,
}

/// Measures `rounds` rounds, and prints them. Returns whether the medians meet the targets.
pub(super) async fn measure(cores: &Cores, rounds: u32) -> Result<bool> {
    println!("\nstreams: {CLIENTS} clients at {EVENTS_PER_SECOND} events/s, {SECONDS} s each");
    let mut rig = Rig::filled(cores, false, PODS).await?;
    let config = subject::swap_config(&guests::component("guest-measured")?);
    let kubeconfig = rig.cluster.kubeconfig();
    let daemon = Daemon::start_under(&cores.subject(), rig.cluster.folder(), &kubeconfig, &config).await?;
    daemon.wait_until_ready().await?;
    subject::wait_until_it_runs(&daemon).await?;
    let (mut cpu, mut lag) = (Vec::new(), Vec::new());
    for number in 1..=rounds {
        let without = measure_once(&mut rig, &daemon).await?;
        let clients = Clients::start(&daemon).await?;
        let with = measure_once(&mut rig, &daemon).await?;
        let bytes = clients.end()?;
        println!(
            "run {number}: CPU {:.1} % without clients, {:.1} % with; p99 of the lag {:.2} ms, {:.2} ms; each client \
             received {:.0} KB/s",
            100.0 * without.cpu,
            100.0 * with.cpu,
            without.p99_us / 1e3,
            with.p99_us / 1e3,
            bytes as f64 / 1e3 / CLIENTS as f64 / f64::from(SECONDS),
        );
        cpu.push(100.0 * (with.cpu - without.cpu));
        lag.push((with.p99_us - without.p99_us) / 1e3);
    }
    let of = |values| median(values).unwrap_or(f64::NAN);
    let (cpu, lag) = (of(cpu), of(lag));
    let is_cpu_met = print(
        "CPU of the clients",
        &format!("{cpu:.1} % of a core"),
        cpu,
        targets::STREAMS_CPU_PERCENT,
    );
    let is_lag_met = print(
        "added to the lag's p99",
        &format!("{lag:.2} ms"),
        lag,
        targets::STREAMS_LAG_MS,
    );
    Ok(is_cpu_met && is_lag_met)
}

async fn measure_once(rig: &mut Rig, daemon: &Daemon) -> Result<Measured> {
    let process = daemon.process().id().context("the daemon has ended")?;
    let control = StallMonitor::start(&rig.cores);
    let (from, begin, before) = (
        daemon.process().line_count(),
        std::time::Instant::now(),
        usage::threads(process)?,
    );
    rig.load.paced(EVENTS_PER_SECOND, SECONDS).await?;
    let used = usage::threads(process)?.saturating_sub(before);
    let cpu = used.as_secs_f64() / begin.elapsed().as_secs_f64();
    let events = handled(daemon, from, EVENTS_PER_SECOND * SECONDS).await?;
    let waits = Waits::of(&events, &control.end()?, f64::INFINITY);
    Ok(Measured {
        cpu,
        p99_us: waits.p99_us,
    })
}

/// Clients that read streams until they end.
struct Clients {
    readers: JoinSet<Result<()>>,
    bytes: Arc<AtomicU64>,
}

impl Clients {
    /// Returns when each has received something.
    async fn start(daemon: &Daemon) -> Result<Clients> {
        let (mut readers, bytes, open) = (JoinSet::new(), Arc::<AtomicU64>::default(), Arc::<AtomicU64>::default());
        for topics in TOPICS.iter().cycle().take(CLIENTS) {
            let address = daemon.address().to_owned();
            readers.spawn(read(address, topics, Arc::clone(&open), Arc::clone(&bytes)));
        }
        let deadline = std::time::Duration::from_secs(30);
        wait::until("the streams", deadline, async || match open.load(Ordering::Relaxed) {
            all if all == CLIENTS as u64 => Ok(()),
            some => Err(format!("{some} of {CLIENTS}")),
        })
        .await?;
        bytes.store(0, Ordering::Relaxed);
        Ok(Clients { readers, bytes })
    }

    /// The bytes that they have received. An error if a stream has ended meanwhile.
    fn end(mut self) -> Result<u64> {
        ensure!(self.readers.try_join_next().is_none(), "a stream has ended");
        Ok(self.bytes.load(Ordering::Relaxed))
    }
}

/// Plain HTTP: what a client of this process costs is hardly in the figures.
async fn read(address: String, topics: &str, open: Arc<AtomicU64>, bytes: Arc<AtomicU64>) -> Result<()> {
    let mut socket = TcpStream::connect(&address).await?;
    let request = format!("GET /api/v1/stream?topics={topics} HTTP/1.1\r\nHost: {address}\r\n\r\n");
    socket.write_all(request.as_bytes()).await?;
    let mut buffer = vec![0; 1 << 16];
    let mut count = socket.read(&mut buffer).await?;
    let is_answered = buffer[..count].starts_with(b"HTTP/1.1 200");
    ensure!(is_answered, "the stream: {}", String::from_utf8_lossy(&buffer[..count]));
    open.fetch_add(1, Ordering::Relaxed);
    while count > 0 {
        bytes.fetch_add(count as u64, Ordering::Relaxed);
        count = socket.read(&mut buffer).await?;
    }
    Ok(())
}
