//! What a busy admin port costs events, and how long an authorized `get` takes.
//!
//! ```text
//! 240 connections, 500 requests/s ─┐
//! 12 clients that read slowly ─────┼─TLS─▶ the admin port of the subject, or a dummy on the same CPUs
//! 4 halves of a handshake ─────────┘
//! ```
//!
//! The dummy is an API server of its own with the same pods, which takes the same load. So what the load itself costs,
//! on the machine and in the client, is in both numbers.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::thread::JoinHandle;
use std::time::{Duration, Instant};

use anyhow::{Context, Result, anyhow, ensure};
use http::Request;
use http_body_util::BodyExt;
use kube::client::Body;
use tokio::io::AsyncWriteExt;
use tokio::net::TcpStream;
use tokio::time::MissedTickBehavior;

use super::control::StallMonitor;
use super::cores::Cores;
use super::figure::median;
use super::load::{self, Load};
use super::rig::Rig;
use super::swap::handled;
use super::usage;
use super::waits::Waits;
use super::{subject, targets};
use crate::cluster::{ADMIN_TOKEN, Cluster, EmbeddedOptions};
use crate::daemon::Daemon;
use crate::guests;

/// Events per second.
const EVENTS_PER_SECOND: u32 = 200;

/// Seconds of each measurement.
const SECONDS: u32 = 10;

/// Connections that send requests, read slowly, and do not complete their handshake: 256, as many as the port accepts.
const REQUESTING: usize = 240;
const SLOW: usize = 12;
const HALF_OPEN: usize = 4;

/// Requests per second, over all connections.
const REQUESTS_PER_SECOND: u32 = 500;

/// The pause of a slow client after each part of an answer.
const SLOW_PAUSE: Duration = Duration::from_millis(250);

/// Gets of one object, one after the other.
const GETS: u32 = 2_000;

/// A server under load: where it is, and what is requested.
#[derive(Clone)]
struct Goal {
    address: String,
    get: String,
    list: String,
}

/// What one round has shown.
struct Round {
    quiet: Waits,
    dummy: Waits,
    admin: Waits,
    /// Answered and refused requests at the admin port.
    answered: [u64; 2],
    get_us: [f64; 2],
    grown_bytes: f64,
}

/// Measures `rounds` rounds with `objects` pods each, and prints them. Returns whether the medians meet the targets.
pub(super) async fn measure(cores: &Cores, objects: u32, rounds: u32) -> Result<bool> {
    println!(
        "\nadmin port: {REQUESTING} connections with {REQUESTS_PER_SECOND} requests/s, {SLOW} slow readers, {HALF_OPEN} \
         unfinished handshakes; {EVENTS_PER_SECOND} events/s, {objects} pods"
    );
    let mut measured = Vec::new();
    for number in 1..=rounds {
        let round = measure_round(cores, objects).await?;
        let ms = |waits: Waits| waits.p99_us / 1e3;
        println!(
            "run {number}: p99 of the lag {:.2} ms without load, {:.2} ms while a dummy is busy, {:.2} ms while the admin \
             port is: ratio {:.2}; {} requests answered, {} refused; get of one object {:.2} ms, p99 {:.2} ms; memory \
             +{:.0} MiB",
            ms(round.quiet),
            ms(round.dummy),
            ms(round.admin),
            round.ratio(),
            round.answered[0],
            round.answered[1],
            round.get_us[0] / 1e3,
            round.get_us[1] / 1e3,
            round.grown_bytes / 1_048_576.0
        );
        measured.push(round);
    }
    let of = |pick: fn(&Round) -> f64| median(measured.iter().map(pick).collect()).unwrap_or(f64::NAN);
    let (ratio, get_us, grown) = (
        of(Round::ratio),
        of(|round| round.get_us[1]),
        of(|round| round.grown_bytes),
    );
    println!(
        "ratio of the lags {ratio:.2} (at most {}): {}; p99 of an authorized get {:.2} ms (below {} ms): {}; memory +{:.0} MiB \
         (at most {:.0}): {}",
        targets::ADMIN_LAG_RATIO,
        targets::word(ratio <= targets::ADMIN_LAG_RATIO),
        get_us / 1e3,
        targets::ADMIN_GET_US / 1e3,
        targets::word(get_us < targets::ADMIN_GET_US),
        grown / 1_048_576.0,
        targets::ADMIN_GROWTH_BYTES / 1_048_576.0,
        targets::word(grown <= targets::ADMIN_GROWTH_BYTES),
    );
    Ok(ratio <= targets::ADMIN_LAG_RATIO && get_us < targets::ADMIN_GET_US && grown <= targets::ADMIN_GROWTH_BYTES)
}

impl Round {
    fn ratio(&self) -> f64 {
        self.admin.p99_us / self.dummy.p99_us
    }
}

async fn measure_round(cores: &Cores, objects: u32) -> Result<Round> {
    let mut rig = Rig::filled(cores, false, objects).await?;
    let under = cores.subject();
    let options = EmbeddedOptions {
        under: under.clone(),
        tls: true,
    };
    let dummy = Cluster::embedded(&options).await?;
    load::create(&dummy.client().await?, objects).await?;
    let component = guests::component("guest-measured")?;
    let config = format!("tls = \"self-signed\"\n{}", subject::swap_config(&component));
    let kubeconfig = rig.cluster.kubeconfig();
    let daemon = Daemon::start_under(&under, rig.cluster.folder(), &kubeconfig, &config).await?;
    daemon.wait_until_ready().await?;
    subject::wait_until_it_runs(&daemon).await?;
    let (process, name) = (daemon.process().id().context("the subject has ended")?, load::name(0));
    let admin = Goal {
        address: daemon.address().to_owned(),
        get: format!("/api/v1/get/pods?namespace=default&name={name}"),
        list: "/api/v1/get/pods".to_owned(),
    };
    let dummy_goal = Goal {
        address: dummy.address().to_string(),
        get: format!("/api/v1/namespaces/default/pods/{name}"),
        list: "/api/v1/pods".to_owned(),
    };
    let get_us = gets(&admin).await?;
    let before = usage::of(process)?.resident_bytes;
    let (quiet, _) = lag(cores, &daemon, &mut rig.load, None).await?;
    let (of_dummy, _) = lag(cores, &daemon, &mut rig.load, Some(&dummy_goal)).await?;
    let (of_admin, answered) = lag(cores, &daemon, &mut rig.load, Some(&admin)).await?;
    Ok(Round {
        quiet,
        dummy: of_dummy,
        admin: of_admin,
        answered,
        get_us,
        grown_bytes: usage::of(process)?.resident_bytes - before,
    })
}

/// How long events wait while `goal` is under load; and how many requests were answered and refused.
async fn lag(cores: &Cores, daemon: &Daemon, load: &mut Load, goal: Option<&Goal>) -> Result<(Waits, [u64; 2])> {
    let pressure = goal.map(|goal| Pressure::start(goal.clone()));
    let control = StallMonitor::start(cores);
    let from = daemon.process().line_count();
    load.paced(EVENTS_PER_SECOND, SECONDS).await?;
    let events = handled(daemon, from, EVENTS_PER_SECOND * SECONDS).await?;
    let stalls = control.end()?;
    let answered = pressure.map_or(Ok([0, 0]), Pressure::end)?;
    ensure!(goal.is_none() || answered[0] > 0, "no request was answered");
    Ok((Waits::of(&events, &stalls, f64::INFINITY), answered))
}

/// A load on a server, from a thread of its own.
struct Pressure {
    ended: Arc<AtomicBool>,
    thread: JoinHandle<Result<[u64; 2]>>,
}

/// What the clients of a load share.
struct Clients {
    goal: Goal,
    ended: Arc<AtomicBool>,
    answered: AtomicU64,
    refused: AtomicU64,
}

impl Pressure {
    fn start(goal: Goal) -> Self {
        let ended = Arc::new(AtomicBool::new(false));
        let clients = Arc::new(Clients {
            goal,
            ended: Arc::clone(&ended),
            answered: AtomicU64::new(0),
            refused: AtomicU64::new(0),
        });
        let thread = std::thread::spawn(move || {
            let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build()?;
            runtime.block_on(press(&clients))?;
            Ok([&clients.answered, &clients.refused].map(|count| count.load(Ordering::Relaxed)))
        });
        Self { ended, thread }
    }

    fn end(self) -> Result<[u64; 2]> {
        self.ended.store(true, Ordering::Relaxed);
        self.thread.join().map_err(|_| anyhow!("the load panicked"))?
    }
}

async fn press(clients: &Arc<Clients>) -> Result<()> {
    for _ in 0..HALF_OPEN {
        tokio::spawn(half_open(Arc::clone(clients)));
    }
    for _ in 0..SLOW {
        tokio::spawn(read_slowly(Arc::clone(clients), client(&clients.goal)?));
    }
    let connections = (0..REQUESTING)
        .map(|_| client(&clients.goal))
        .collect::<Result<Vec<_>>>()?;
    let mut ticks = tokio::time::interval(Duration::from_secs(1) / REQUESTS_PER_SECOND);
    ticks.set_missed_tick_behavior(MissedTickBehavior::Skip);
    for connection in connections.iter().cycle() {
        if clients.ended.load(Ordering::Relaxed) {
            break;
        }
        ticks.tick().await;
        let (clients, connection) = (Arc::clone(clients), connection.clone());
        tokio::spawn(async move {
            let good = get(&connection, &clients.goal).await.is_ok();
            let count = if good { &clients.answered } else { &clients.refused };
            count.fetch_add(1, Ordering::Relaxed);
        });
    }
    Ok(())
}

/// A client with a connection of its own.
fn client(goal: &Goal) -> Result<kube::Client> {
    let mut config = kube::Config::new(format!("https://{}", goal.address).parse()?);
    config.accept_invalid_certs = true;
    config.default_retry = false;
    Ok(kube::Client::try_from(config)?)
}

fn request(path: &str) -> Result<Request<Body>> {
    let request = Request::get(path).header("authorization", format!("Bearer {ADMIN_TOKEN}"));
    Ok(request.body(Body::empty())?)
}

/// Reads one object.
async fn get(client: &kube::Client, goal: &Goal) -> Result<()> {
    let answer = client.send(request(&goal.get)?).await?;
    let status = answer.status();
    let body = answer.into_body().collect().await?;
    ensure!(
        status.is_success(),
        "{status}: {}",
        String::from_utf8_lossy(&body.to_bytes())
    );
    Ok(())
}

/// Reads lists, each part of them after a pause.
async fn read_slowly(clients: Arc<Clients>, client: kube::Client) -> Result<()> {
    while !clients.ended.load(Ordering::Relaxed) {
        let mut body = client.send(request(&clients.goal.list)?).await?.into_body();
        while let Some(part) = body.frame().await {
            part?;
            tokio::time::sleep(SLOW_PAUSE).await;
        }
    }
    Ok(())
}

/// Begins handshakes without completing them.
async fn half_open(clients: Arc<Clients>) -> Result<()> {
    while !clients.ended.load(Ordering::Relaxed) {
        let mut socket = TcpStream::connect(&clients.goal.address).await?;
        socket.write_all(&[0x16, 0x03, 0x01]).await?;
        // Until the server closes the connection.
        socket.readable().await?;
    }
    Ok(())
}

/// The median and the 99th percentile of authorized gets of one object over one connection.
async fn gets(goal: &Goal) -> Result<[f64; 2]> {
    let client = client(goal)?;
    get(&client, goal).await?;
    let mut took = Vec::new();
    for _ in 0..GETS {
        let begin = Instant::now();
        get(&client, goal).await?;
        took.push(begin.elapsed().as_secs_f64() * 1e6);
    }
    took.sort_by(f64::total_cmp);
    Ok([50, 99].map(|percent| took[(took.len() - 1) * percent / 100]))
}
