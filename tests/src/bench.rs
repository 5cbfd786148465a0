//! What Informant costs, and what other programs cost that do the same: CPU per object at sync and at a relist, per
//! watch event in bursts and one by one, memory, how long an event takes to its handler, and how long it waits while
//! its plugin is swapped.
//!
//! ```text
//! embedded API server (a process) ──pods, updates──▶ subject (a process): cache, two indexes, one handler
//!            ▲                                          │ calls counted, lags: its own lines
//!       load │                                          │ CPU, memory: /proc
//!            └──────────────── this process ◀───────────┘
//!        these on their CPUs                          these on theirs
//! ```
//!
//! Only the subject is measured; what the API server used beside it is shown, to see who set the pace. What a subject
//! costs before it has any objects is measured apart and taken off. All subjects of a round see the same pods, one
//! after the other.

#![expect(clippy::print_stdout, reason = "the benchmark's table is its result")]

mod asked;
mod control;
mod cores;
mod figure;
mod load;
mod results;
mod rig;
mod run;
mod subject;
mod swap;
mod table;
mod usage;
mod waits;

use std::collections::BTreeMap;
use std::path::PathBuf;
use std::process::ExitCode;
use std::time::{Duration, SystemTime, UNIX_EPOCH};

use anyhow::{Context, Result};

use cores::Cores;
use results::{Column, Results};
use rig::Rig;
use subject::Program;
pub use subject::{Handler, Sync};
use usage::Usage;

/// Measures Informant, and other programs that do the same, and prints tables in Markdown.
///
/// Each round starts an API server with its pods, and on it one subject after the other: sync, updates in bursts,
/// updates one by one, a relist, updates at 1,000 a second. The API server and the load run on other CPUs than the
/// subject, if there are two.
#[derive(clap::Parser)]
pub struct Args {
    /// How many pods there are; with several numbers, one run after the other, and the slope between them
    #[arg(long, value_delimiter = ',', default_value = "20000")]
    pub objects: Vec<u32>,
    /// How many updates come in bursts, rounded up to whole bursts
    #[arg(long, default_value_t = 30_000)]
    pub events: u32,
    /// How many updates come one by one, as fast as the API server takes them; 0 leaves them out
    #[arg(long, default_value_t = 20_000)]
    pub singles: u32,
    /// For how long the lag is measured, at 1,000 updates a second; 0 leaves it out
    #[arg(long, default_value_t = 10)]
    pub lag_seconds: u32,
    /// How many times everything is measured
    #[arg(long, default_value_t = 3)]
    pub rounds: u32,
    /// How the objects are fetched at first
    #[arg(long, value_enum, value_delimiter = ',', default_value = "list,watch-list")]
    pub sync: Vec<Sync>,
    /// Which plugin is Informant's handler
    #[arg(long, value_enum, default_value = "fields")]
    pub handler: Handler,
    /// Measures sync and events in bursts over TLS too, with the first number of pods
    #[arg(long)]
    pub tls: bool,
    /// How often the handler's plugin is swapped, once a second while 1,000 events a second flow; 0 leaves it out
    #[arg(long, default_value_t = 40)]
    pub swaps: u32,
    /// Writes the tables to this file too
    #[arg(long, value_name = "FILE")]
    pub report: Option<PathBuf>,
    /// Another program to measure, as NAME=COMMAND; see the module `subject` for what it has to do
    #[arg(long = "program", value_name = "NAME=COMMAND")]
    pub programs: Vec<String>,
}

/// How long a sync or a stretch of updates may take.
const DONE_WITHIN: Duration = Duration::from_secs(300);

/// How many pods there are while plugins are swapped. What goes on where it stopped is not told of them again.
const SWAP_OBJECTS: u32 = 1_000;

/// Measures and prints.
pub async fn run(args: &Args) -> ExitCode {
    match measure(args).await {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            println!("the benchmark failed: {error:#}");
            ExitCode::FAILURE
        }
    }
}

async fn measure(args: &Args) -> Result<()> {
    let cores = Cores::share_out()?;
    println!("{cores}");
    let mut programs = vec![Program::Informant(args.handler)];
    for text in &args.programs {
        programs.push(Program::parse(text)?);
    }
    let mut results = Results::default();
    for round in 1..=args.rounds {
        println!("round {round} of {}", args.rounds);
        measure_round(args, &cores, &programs, &mut results).await?;
    }
    let tables = table::all(&results, &head(args, &cores, &results));
    println!("\n{tables}");
    if let Some(path) = &args.report {
        std::fs::write(path, tables).with_context(|| format!("writing {}", path.display()))?;
    }
    Ok(())
}

async fn measure_round(args: &Args, cores: &Cores, programs: &[Program], results: &mut Results) -> Result<()> {
    let mut bases = Bases::default();
    for (place, objects) in args.objects.iter().enumerate() {
        let mut plain = Rig::filled(cores, false, *objects).await?;
        let mut tls = match args.tls && place == 0 {
            true => Some(Rig::filled(cores, true, *objects).await?),
            false => None,
        };
        for program in programs {
            for sync in &args.sync {
                let column = Column {
                    objects: *objects,
                    program: program.name().to_owned(),
                    sync: *sync,
                };
                let base = bases.of(program, *sync, cores, false).await?;
                let mut figures = run::run(args, program, *sync, base, &mut plain).await?;
                if let Some(rig) = &mut tls {
                    let base = bases.of(program, *sync, cores, true).await?;
                    figures.take(run::run_tls(args, program, *sync, base, rig).await?);
                }
                println!("{}, {objects} pods: {}", column.head(), figures.line());
                results.note(column, figures);
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

/// What programs cost without objects, measured once a round.
#[derive(Default)]
struct Bases(BTreeMap<(String, &'static str, bool), Usage>);

impl Bases {
    async fn of(&mut self, program: &Program, sync: Sync, cores: &Cores, tls: bool) -> Result<Usage> {
        let key = (program.name().to_owned(), sync.label(), tls);
        if let Some(base) = self.0.get(&key) {
            return Ok(*base);
        }
        let base = run::base(program, sync, cores, tls).await?;
        self.0.insert(key, base);
        Ok(base)
    }
}

/// What the tables are of.
fn head(args: &Args, cores: &Cores, results: &Results) -> String {
    format!(
        "Medians of {} round(s), the subjects of a round one after the other on the same pods; {} updates in bursts, {} one by one. {cores}. \
         CPU is that of the process with its children, what it costs with an empty cluster taken off; memory is resident memory. \
         Informant and kube-rs use the same allocator (mimalloc, without transparent huge pages), client-go has Go's.",
        results.rounds(),
        figure::thousands(f64::from(args.events)),
        figure::thousands(f64::from(args.singles)),
    )
}

/// Microseconds since 1970.
fn since_1970_us() -> u64 {
    let since = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default();
    u64::try_from(since.as_micros()).unwrap_or(u64::MAX)
}
