//! What Informant costs, and what other programs cost that do the same: CPU per object at sync and at a relist, per watch event in
//! bursts and one by one, memory, and how long an event takes to its handler.
//!
//! ```text
//! embedded API server (a process) ──pods, updates──▶ subject (a process): cache, two indexes, one handler
//!            ▲                                          │ calls counted, lags: its own lines
//!       load │                                          │ CPU, memory: /proc
//!            └──────────────── this process ◀───────────┘
//! ```
//!
//! Only the subject is measured. What it costs before it has any objects is measured apart and taken off. All subjects of a round
//! see the same pods, one after the other.

#![expect(clippy::print_stdout, reason = "the benchmark's table is its result")]

mod figures;
mod load;
mod run;
mod subject;
mod usage;

use std::collections::BTreeMap;
use std::process::ExitCode;
use std::time::Duration;

use anyhow::Result;

use figures::Figures;
use subject::Program;
pub use subject::{Handler, Sync};

/// How large the measurement is, and of what.
#[derive(clap::Parser)]
pub struct Args {
    /// How many pods there are; with several numbers, one run after the other
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
    #[arg(long, value_enum, value_delimiter = ',', default_value = "default")]
    pub sync: Vec<Sync>,
    /// Which plugin is Informant's handler
    #[arg(long, value_enum, default_value = "fields")]
    pub handler: Handler,
    /// Another program to measure, as NAME=COMMAND; see the module `subject` for what it has to do
    #[arg(long = "program", value_name = "NAME=COMMAND")]
    pub programs: Vec<String>,
}

/// How long a sync or a stretch of updates may take.
const DONE_WITHIN: Duration = Duration::from_secs(300);

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

/// All figures, by size, then subject.
type Results = BTreeMap<(u32, String), Vec<Figures>>;

async fn measure(args: &Args) -> Result<()> {
    let mut programs = vec![Program::Informant(args.handler)];
    for text in &args.programs {
        programs.push(Program::parse(text)?);
    }
    let mut results = Results::new();
    for round in 1..=args.rounds {
        println!("round {round} of {}", args.rounds);
        let mut bases = BTreeMap::new();
        for objects in &args.objects {
            let (cluster, mut load) = run::filled(*objects).await?;
            for program in &programs {
                for sync in &args.sync {
                    let name = format!("{} ({sync})", program.name());
                    let base = match bases.get(&name) {
                        Some(base) => *base,
                        None => run::base(program, *sync).await?,
                    };
                    bases.insert(name.clone(), base);
                    let figures = run::run(args, program, *sync, base, &cluster, &mut load).await?;
                    println!("{name}: {figures}");
                    results.entry((*objects, name)).or_default().push(figures);
                }
            }
        }
    }
    print(&results);
    Ok(())
}

fn print(results: &Results) {
    println!("medians");
    let medians: BTreeMap<_, _> = results.iter().map(|(of, all)| (of, Figures::median(all))).collect();
    for ((_, name), figures) in &medians {
        println!("{name}: {figures}");
    }
    for ((objects, name), large) in &medians {
        let smaller = medians.iter().filter(|((other, of), _)| of == name && other < objects);
        if let Some((_, small)) = smaller.min_by_key(|((other, _), _)| *other) {
            let slope = Figures::sync_slope_us(small, large);
            println!(
                "{name}: sync {slope:.2} us an object between {:.0} and {objects} pods",
                small.objects
            );
        }
    }
    print_ratios(&medians);
}

/// How often Informant's cost goes into another program's, like with like: the same pods, fetched the same way.
fn print_ratios(medians: &BTreeMap<&(u32, String), Figures>) {
    for ((objects, name), other) in medians {
        let Some((program, sync)) = name.split_once(' ').filter(|(program, _)| *program != "informant") else {
            continue;
        };
        if let Some(own) = medians.get(&(*objects, format!("informant {sync}"))) {
            println!("{program} / informant {sync}, {objects} pods: {}", other.ratios_to(own));
        }
    }
}
