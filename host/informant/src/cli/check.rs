//! `informant check`: judges a configuration before it runs anywhere.
//!
//! In three steps, each reported whole: the file itself; the components, which are compiled and described as at start; the
//! cluster, if it can be reached: whether it serves the resources and lets us list and watch them.

mod cluster;
mod components;
mod excludes;
mod grants;

use anyhow::Result;
use clap::Args;
use informant_state::Sealer;

use super::{ClusterArgs, ConfigFlag, Exit, output};
use crate::config::{Config, Problem, Problems};
use crate::guests::Guests;
use cluster::Asked;

/// `informant check`.
#[derive(Debug, Args)]
pub(super) struct CheckArgs {
    #[command(flatten)]
    config: ConfigFlag,
    /// A cluster that cannot be reached is an error, not a warning
    #[arg(long, conflicts_with = "offline")]
    cluster: bool,
    /// Does not ask the cluster
    #[arg(long)]
    offline: bool,
    #[command(flatten)]
    cluster_args: ClusterArgs,
}

/// What a step has found.
#[derive(Debug, Default)]
pub(super) struct Findings {
    /// What is wrong, or worth a look.
    pub(super) problems: Vec<Problem>,
    /// What is good, a line each.
    pub(super) good: Vec<String>,
}

impl Findings {
    fn add(&mut self, other: Self) {
        self.problems.extend(other.problems);
        self.good.extend(other.good);
    }
}

pub(super) fn run(args: &CheckArgs) -> Result<Exit> {
    let config = Config::load(&args.config.config)?;
    let mut findings = Findings {
        problems: config.warnings.clone(),
        good: Vec::new(),
    };
    findings.problems.extend(key_files(&config));
    let guests = Guests::for_inspection()?;
    let (inspections, found) = guests.block_on(components::inspect(&config, guests.host()));
    findings.add(found);
    if !args.offline {
        let asked = guests.block_on(cluster::ask(&config, &args.cluster_args.flags(), args.cluster));
        findings
            .problems
            .extend(components::told_nothing(&config, &inspections, &asked));
        let Asked { findings: found, .. } = asked;
        findings.add(found);
    }
    report(&config, findings)
}

/// Keys of durable informers that are none.
fn key_files(config: &Config) -> Vec<Problem> {
    let informers = config.informers.values();
    let key_files = informers.filter_map(|section| Some((section.place, section.durable.as_ref()?.key_file.as_ref()?)));
    let problems = key_files.filter_map(|(place, path)| {
        let error = Sealer::read(path).err()?;
        Some(config.problem(place, format!("`durable-key-file`: {error}")))
    });
    problems.collect()
}

fn report(config: &Config, findings: Findings) -> Result<Exit> {
    let Findings { problems, good } = findings;
    let mut problems = Problems(problems);
    problems.sort();
    if !problems.0.is_empty() {
        output::note(&problems.to_string());
    }
    output::to_stdout(|out| good.iter().try_for_each(|line| writeln!(out, "{line}")))?;
    if problems.has_errors() {
        output::note(&format!("{} is refused", config.path.display()));
        return Ok(Exit::Config);
    }
    output::to_stdout(|out| writeln!(out, "{} is good", config.path.display()))?;
    Ok(Exit::Done)
}
