//! The benchmark: what Informant and comparable programs cost. It measures CPU per object at sync and at a relist, CPU
//! per watch event in bursts and one by one, memory, the latency from a write to the handler, and the latency while the
//! plugin is swapped.
//!
//! ```text
//! embedded API server (a process) ──pods, updates──▶ subject (a process): cache, two indexes, one handler
//!            ▲                                          │ its own lines: calls, lags
//!       load │                                          │ /proc: CPU, memory
//!            └──────────────── this process ◀───────────┘
//!        pinned to their CPUs                         pinned to its own
//! ```
//!
//! Only the subject is measured. The API server's CPU is shown next to it, to show which of the two limited the rate.
//! The cost of a subject without objects is measured separately and subtracted. All subjects of a round run on the same
//! pods, one after the other; an `informant` of an earlier commit runs at the same time as this one, so that nothing
//! that the machine does meanwhile looks like a difference.

#![expect(clippy::print_stdout, reason = "the benchmark's table is its result")]

mod admin;
mod attack;
mod budget;
mod chart;
mod control;
mod cores;
mod figure;
mod ha;
mod handlers;
mod load;
mod results;
mod rig;
mod run;
mod see;
mod subject;
mod swap;
mod table;
mod targets;
mod usage;
mod waits;
mod websites;
mod writes;

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use std::process::ExitCode;
use std::time::{Duration, SystemTime, UNIX_EPOCH};

use anyhow::{Context, Result};

use cores::Cores;
use results::{Column, Results};
use rig::Rig;
pub use see::Seen;
use subject::Program;
pub use subject::{Handler, Sync};
use usage::Usage;

/// Measure Informant and comparable programs, and print the results as Markdown tables
///
/// Each round starts an API server with its pods and runs one subject after the other on it (with `--against`, this
/// build and the base at the same time): sync, updates in bursts, updates one by one, a relist, updates at 1,000 a
/// second. With at least two CPUs, the API server and the load do not run on the subject's CPUs.
#[derive(clap::Parser)]
// `cargo xtask bench --against` passes defaults of its own.
#[command(args_override_self = true)]
pub struct Args {
    /// Number of pods; with several numbers, one run for each, and the slope between them
    #[arg(long, value_delimiter = ',', default_value = "20000")]
    pub objects: Vec<u32>,
    /// Number of updates in bursts, rounded up to whole bursts
    #[arg(long, default_value_t = 30_000)]
    pub events: u32,
    /// Number of updates one by one, as fast as the API server accepts them; 0 skips them
    #[arg(long, default_value_t = 20_000)]
    pub singles: u32,
    /// Seconds for which the lag is measured, at 1,000 updates a second; 0 skips it
    #[arg(long, default_value_t = 10)]
    pub lag_seconds: u32,
    /// Number of rounds
    #[arg(long, default_value_t = 3)]
    pub rounds: u32,
    /// How the objects are fetched at first
    #[arg(long, value_enum, value_delimiter = ',', default_value = "list,watch-list")]
    pub sync: Vec<Sync>,
    /// The plugin that is Informant's handler
    #[arg(long, value_enum, default_value = "fields")]
    pub handler: Handler,
    /// Also measure sync and events in bursts over TLS, with the first number of pods
    #[arg(long)]
    pub tls: bool,
    /// Number of swaps of the handler's plugin, one a second at 1,000 events a second; 0 skips them
    #[arg(long, default_value_t = 40)]
    pub swaps: u32,
    /// Also measure this `informant`, which was built from an earlier commit, at the same time, and fail if CPU per
    /// object or per event grew by more than 3 % (the median of the rounds' ratios)
    #[arg(long, value_name = "PROGRAM")]
    pub against: Option<PathBuf>,
    /// Measure only deferred writes: this number of pods that each need a label, in each round
    #[arg(long, value_name = "PODS")]
    pub writes: Option<u32>,
    /// Measure only the writes of `plugins/website`: this number of Websites, in each round, and a restart
    #[arg(long, value_name = "WEBSITES")]
    pub websites: Option<u32>,
    /// Measure Kopf with the Websites or handlers, too: the folder of its Python packages
    #[arg(long, value_name = "FOLDER")]
    pub kopf: Option<PathBuf>,
    /// Measure only ten handlers, with this number of pods, by Informant and by `--program client-go=…`, `kube-rs=…`,
    /// `shell-operator=…` and `--kopf`
    #[arg(long, value_name = "PODS")]
    pub handlers: Option<u32>,
    /// With `--handlers`: one handler, too, and each of them with the settings that make it cheapest
    #[arg(long, requires = "handlers")]
    pub tuned: bool,
    /// Measure only the admin port, with this number of pods: what it costs events while it is busy, and how long an
    /// authorized `get` takes
    #[arg(long, value_name = "PODS")]
    pub admin: Option<u32>,
    /// Measure only the budget of the caches, with this number of pods
    #[arg(long, value_name = "PODS")]
    pub budget: Option<u32>,
    /// Measure only what a tenant with large objects costs the others, for so long
    #[arg(long, value_name = "SECONDS")]
    pub attack: Option<u32>,
    /// Measure only replicas on a real kube-apiserver, with this number of pods
    #[arg(long, value_name = "PODS")]
    pub ha: Option<u32>,
    /// Measure only replicas that divide the objects, on a real kube-apiserver, with this number of pods
    #[arg(long, value_name = "PODS")]
    pub shards: Option<u32>,
    /// Print the model of 1,000 replicas and 10 million objects, without measuring
    #[arg(long)]
    pub model: bool,
    /// How often the replica that acts is killed, at each speed
    #[arg(long, value_name = "KILLS", default_value_t = 100)]
    pub kills: u32,
    /// How often a replica that has a part of the objects is killed, at each speed and with each hash
    #[arg(long, value_name = "KILLS", default_value_t = 3)]
    pub shard_kills: u32,
    /// Measure only what it costs to see what happens: answers of `why`, the dashboard, clients of its stream
    #[arg(long)]
    pub see: bool,
    /// Of that, measure only this
    #[arg(long, value_enum, requires = "see")]
    pub only: Option<Seen>,
    /// The budget of the caches
    #[arg(long, value_name = "BYTES", default_value = "2GiB")]
    pub max_bytes: String,
    /// Also write the tables to this file, and a chart of the ratios to one with the extension `svg`
    #[arg(long, value_name = "FILE")]
    pub report: Option<PathBuf>,
    /// Another program to measure, as NAME=COMMAND; the module `subject` describes its protocol
    #[arg(long = "program", value_name = "NAME=COMMAND")]
    pub programs: Vec<String>,
}

/// The deadline of a sync or of a phase of updates.
const DONE_WITHIN: Duration = Duration::from_secs(300);

/// Number of pods while plugins are swapped. A plugin that continues after a swap does not receive them again.
const SWAP_OBJECTS: u32 = 1_000;

/// Runs the benchmark and prints its results.
pub async fn run(args: &Args) -> ExitCode {
    match measure(args).await {
        Ok(true) => ExitCode::SUCCESS,
        Ok(false) => ExitCode::FAILURE,
        Err(error) => {
            println!("the benchmark failed: {error:#}");
            ExitCode::FAILURE
        }
    }
}

/// Whether Informant costs no more than the base allows.
async fn measure(args: &Args) -> Result<bool> {
    if args.model {
        ha::model::print();
        return Ok(true);
    }
    let cores = Cores::assign()?;
    println!("{cores}");
    if let Some(objects) = args.writes {
        return writes::measure(&cores, objects, args.rounds).await;
    }
    if let Some(count) = args.websites {
        return websites::measure(&cores, count, args.rounds, args.kopf.as_deref()).await;
    }
    if let Some(objects) = args.handlers {
        return handlers::measure(&cores, objects, args).await;
    }
    if let Some(objects) = args.budget {
        return budget::measure(&cores, objects, &args.max_bytes, args.rounds).await;
    }
    if let Some(seconds) = args.attack {
        return attack::measure(&cores, seconds).await;
    }
    if let Some(objects) = args.ha {
        return ha::measure(&cores, objects, args.kills).await;
    }
    if let Some(objects) = args.shards {
        return ha::shards::measure(&cores, objects, args.shard_kills).await;
    }
    if let Some(objects) = args.admin {
        return admin::measure(&cores, objects, args.rounds).await;
    }
    if args.see {
        return see::measure(&cores, args.only, args.rounds).await;
    }
    // Those of a group run at the same time.
    let mut groups = vec![vec![Program::Informant(args.handler)]];
    groups[0].extend(args.against.clone().map(|binary| Program::Base {
        handler: args.handler,
        binary,
    }));
    for text in &args.programs {
        groups.push(vec![Program::parse(text)?]);
    }
    let mut results = Results::default();
    for round in 1..=args.rounds {
        println!("round {round} of {}", args.rounds);
        measure_round(args, &cores, &groups, &mut results).await?;
        // The first program on new pods may have an advantage.
        groups.reverse();
        groups.iter_mut().for_each(|group| group.reverse());
    }
    let tables = table::all(&results, &head(args, &cores, &results));
    println!("\n{tables}");
    if let Some(path) = &args.report {
        write(path, &tables)?;
        if let Some(chart) = chart::of_tables(&tables) {
            write(&path.with_extension("svg"), &chart)?;
        }
    }
    let grown = results.grown();
    for (column, figure, ratio) in &grown {
        println!("{}: {} is {ratio:.3} times the base's", column.head(), figure.label());
    }
    Ok(grown.is_empty())
}

async fn measure_round(args: &Args, cores: &Cores, groups: &[Vec<Program>], results: &mut Results) -> Result<()> {
    let mut baselines = Baselines::default();
    for (place, objects) in args.objects.iter().enumerate() {
        let mut plain = Rig::filled(cores, false, *objects).await?;
        let mut tls = match args.tls && place == 0 {
            true => Some(Rig::filled(cores, true, *objects).await?),
            false => None,
        };
        for programs in groups {
            for sync in &args.sync {
                let baseline = baselines.of(programs, *sync, cores, false).await?;
                let mut figures = run::run(args, programs, *sync, &baseline, &mut plain).await?;
                if let Some(rig) = &mut tls {
                    let baseline = baselines.of(programs, *sync, cores, true).await?;
                    let more = run::run_tls(args, programs, *sync, &baseline, rig).await?;
                    figures
                        .iter_mut()
                        .zip(more)
                        .for_each(|(figures, more)| figures.take(more));
                }
                for (program, figures) in programs.iter().zip(figures) {
                    let column = Column {
                        objects: *objects,
                        program: program.name().to_owned(),
                        sync: *sync,
                    };
                    println!("{}, {objects} pods: {}", column.head(), figures.line());
                    results.note(column, figures);
                }
            }
        }
    }
    if args.swaps > 0 {
        let swaps = swap::measure(cores, SWAP_OBJECTS, args.swaps).await?;
        println!("{}", swap::section(std::slice::from_ref(&swaps)));
        results.swaps.push(swaps);
    }
    Ok(())
}

/// The baselines of each group of programs: their cost without objects, measured once a round.
#[derive(Default)]
struct Baselines(BTreeMap<(String, &'static str, bool), Vec<Usage>>);

impl Baselines {
    async fn of(&mut self, programs: &[Program], sync: Sync, cores: &Cores, tls: bool) -> Result<Vec<Usage>> {
        let first = programs.first().map(Program::name).unwrap_or_default();
        let key = (first.to_owned(), sync.label(), tls);
        if let Some(baselines) = self.0.get(&key) {
            return Ok(baselines.clone());
        }
        let baselines = run::baselines(programs, sync, cores, tls).await?;
        self.0.insert(key, baselines.clone());
        Ok(baselines)
    }
}

/// Describes what the tables show.
fn head(args: &Args, cores: &Cores, results: &Results) -> String {
    let order = match args.against {
        Some(_) => {
            "Informant and the base run at the same time and share their CPU, whose use is that of both; other programs run on their own"
        }
        None => "The subjects of a round run one after the other",
    };
    format!(
        "Medians of {} round(s). {order}, on the same pods; {} updates in bursts, {} one by one. {cores}. \
         CPU is that of the process and its children, minus its cost with an empty cluster; memory is resident memory. \
         Informant and kube-rs use the same allocator (mimalloc, without transparent huge pages), client-go uses Go's.",
        results.rounds(),
        figure::thousands(f64::from(args.events)),
        figure::thousands(f64::from(args.singles)),
    )
}

fn write(path: &Path, text: &str) -> Result<()> {
    std::fs::write(path, text).with_context(|| format!("writing {}", path.display()))
}

/// Microseconds since 1970.
fn since_1970_us() -> u64 {
    let since = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default();
    u64::try_from(since.as_micros()).unwrap_or(u64::MAX)
}
