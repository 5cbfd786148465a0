//! `informant check`: judges a configuration before it runs anywhere.
//!
//! In three steps, each reported whole: the file itself; the components, which are compiled and described as at start;
//! the cluster, if it can be reached: whether it serves the resources and lets us list and watch them.

mod cluster;
mod components;
mod excludes;
mod grants;

use anyhow::{Result, bail};
use clap::Args;
use clap::builder::NonEmptyStringValueParser;
use informant_state::Cipher;

use super::{ClusterArgs, ConfigFlag, Exit, output};
use crate::config::{Config, Problem, Problems, there_is};
use crate::guests::Guests;
use cluster::Asked;

/// `informant check`.
#[derive(Debug, Args)]
pub(super) struct CheckArgs {
    #[command(flatten)]
    config: ConfigFlag,
    /// A cluster that cannot be reached is an error, not a warning; with a name, as in [cluster.NAME], only that one is
    /// asked; several are separated by commas
    #[arg(
        long,
        value_name = "NAME",
        num_args = 0..=1,
        value_delimiter = ',',
        value_parser = NonEmptyStringValueParser::new(),
        conflicts_with = "offline"
    )]
    cluster: Option<Vec<String>>,
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
    let clusters = which(&config, args.cluster.as_deref().unwrap_or_default())?;
    let mut findings = Findings {
        problems: config.warnings.clone(),
        good: Vec::new(),
    };
    findings.problems.extend(key_files(&config));
    let guests = Guests::for_inspection()?;
    let (inspections, found) = guests.block_on(components::inspect(&config, guests.host()));
    findings.add(found);
    if !args.offline {
        let (flags, required) = (args.cluster_args.flags(), args.cluster.is_some());
        let asked = guests.block_on(cluster::ask(&config, &clusters, &flags, required));
        findings
            .problems
            .extend(components::told_nothing(&config, &inspections, &asked));
        let Asked { findings: found, .. } = asked;
        findings.add(found);
    }
    report(&config, findings)
}

/// The clusters that are asked: those that are named, or else all.
fn which<'c>(config: &'c Config, named: &[String]) -> Result<Vec<&'c str>> {
    let known: Vec<&str> = config.clusters.keys().map(String::as_str).collect();
    if let Some(unknown) = named.iter().find(|name| !known.contains(&name.as_str())) {
        if !config.has_named_clusters() {
            bail!(
                "--cluster {unknown}: the configuration has one cluster, which has no name: write `--cluster` without one"
            );
        }
        bail!(
            "--cluster {unknown}: the configuration has no such cluster; {}",
            there_is(&known, "clusters")
        );
    }
    let is_meant = |name: &&str| named.is_empty() || named.iter().any(|named| named == name);
    Ok(known.into_iter().filter(is_meant).collect())
}

/// Keys of durable informers that are none.
fn key_files(config: &Config) -> Vec<Problem> {
    let informers = config.informers.values();
    let key_files = informers.filter_map(|section| Some((section.place, section.durable.as_ref()?.key_file.as_ref()?)));
    let problems = key_files.filter_map(|(place, path)| {
        let error = Cipher::read(path).err()?;
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

#[cfg(test)]
mod tests;
