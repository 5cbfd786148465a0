//! `informant check`: validates a configuration before it runs anywhere.
//!
//! It has three steps, each with a complete report: the file; the components, which are compiled and described as at
//! start; the cluster, if it can be reached: whether it serves the resources and permits listing and watching them.

mod admin;
mod built_in;
mod cluster;
mod components;
mod grants;
mod http;
mod namespaces;
mod selections;
mod sharding;
mod whole_objects;

use anyhow::{Result, bail};
use clap::Args;
use clap::builder::NonEmptyStringValueParser;

use super::{ClusterArgs, ConfigFlag, Exit, output};
use crate::config_file;
use crate::guests::{Guests, compile_memory_bytes};
use crate::key_file;
use crate::status_line::{self, StatusLine};
use cluster::ClusterReport;
use informant_config::{Config, KeyStore, Problem, Problems, Severity};
use informant_spec::suggest::known_values;

/// `informant check`.
#[derive(Debug, Args)]
pub(super) struct CheckArgs {
    #[command(flatten)]
    config: ConfigFlag,
    /// Fail instead of warn if a cluster cannot be reached; names, separated by commas, limit the check to those
    /// clusters
    #[arg(
        long,
        value_name = "NAME",
        num_args = 0..=1,
        value_delimiter = ',',
        value_parser = NonEmptyStringValueParser::new(),
        conflicts_with = "offline"
    )]
    cluster: Option<Vec<String>>,
    /// Do not contact the cluster
    #[arg(long)]
    offline: bool,
    /// Fail on warnings, and on components without `sha256`: for pipelines
    #[arg(long)]
    strict: bool,
    #[command(flatten)]
    cluster_args: ClusterArgs,
}

/// The results of one step.
#[derive(Debug, Default)]
pub(super) struct Findings {
    /// Errors and warnings.
    pub(super) problems: Vec<Problem>,
    /// Passed checks, one line each.
    pub(super) passed: Vec<String>,
}

impl Findings {
    fn add(&mut self, other: Self) {
        self.problems.extend(other.problems);
        self.passed.extend(other.passed);
    }
}

pub(super) fn run(args: &CheckArgs) -> Result<Exit> {
    let config = config_file::load(&args.config.config)?;
    let line = StatusLine::begin();
    let clusters = select_clusters(&config, args.cluster.as_deref().unwrap_or_default())?;
    let mut findings = Findings {
        problems: config.warnings.clone(),
        passed: Vec::new(),
    };
    findings.problems.extend(key_files(&config, args.offline));
    findings.problems.extend(http::check(&config, args.offline));
    findings.problems.extend(sharding::notes(&config));
    findings.problems.extend(admin::certificate(&config, args.offline));
    if args.strict {
        findings.problems.extend(components::unpinned(&config));
    }
    let has_keys = config.key_store() != KeyStore::Nowhere;
    let guests = Guests::with_keys(has_keys, &config.script_runners)?;
    guests
        .host()
        .set_compile_memory(compile_memory_bytes(&config.all_plugins));
    let (inspections, found) = guests.block_on(components::inspect(&config, guests.host()));
    findings.add(found);
    findings.problems.extend(whole_objects::warnings(&config, &inspections));
    if args.offline {
        let known = built_in::resources(&config);
        findings
            .problems
            .extend(components::unmatched_informers(&config, &inspections, &known));
    }
    if args.strict {
        fail_on_warnings(&mut findings.problems);
    }
    let is_file_valid = findings
        .problems
        .iter()
        .all(|problem| problem.severity != Severity::Error);
    if !args.offline {
        let (flags, required) = (args.cluster_args.flags(), args.cluster.is_some());
        let report = guests.block_on(cluster::check(&config, &clusters, &flags, required));
        let ClusterReport {
            discovered,
            findings: found,
            ..
        } = report;
        findings
            .problems
            .extend(components::unmatched_informers(&config, &inspections, &discovered));
        findings.add(found);
    }
    if args.strict {
        fail_on_warnings(&mut findings.problems);
    }
    drop(line);
    report(&config, findings, is_file_valid)
}

/// Shows which check runs: `(number + 1)` of `total`.
fn show_progress(what: &str, number: usize, total: usize) {
    status_line::show(&progress(what, number, total));
}

fn progress(what: &str, number: usize, total: usize) -> String {
    format!("checking {what} ({} of {total})", number + 1)
}

/// Warnings become errors, marked `(--strict)`. Notes stay: they describe what may well be meant.
fn fail_on_warnings(problems: &mut [Problem]) {
    let warnings = problems
        .iter_mut()
        .filter(|problem| problem.severity == Severity::Warning);
    for problem in warnings {
        problem.severity = Severity::Error;
        problem.message.push_str(" (--strict)");
    }
}

/// The clusters to check: the named ones, or else all.
fn select_clusters<'c>(config: &'c Config, named: &[String]) -> Result<Vec<&'c str>> {
    let known: Vec<&str> = config.clusters.keys().map(String::as_str).collect();
    if let Some(unknown) = named.iter().find(|name| !known.contains(&name.as_str())) {
        if !config.has_named_clusters() {
            bail!("--cluster {unknown}: the configuration has one unnamed cluster: use `--cluster` without a name");
        }
        bail!(
            "--cluster {unknown}: no such cluster in the configuration; {}",
            known_values(&known, "clusters")
        );
    }
    let is_meant = |name: &&str| named.is_empty() || named.iter().any(|named| named == name);
    Ok(known.into_iter().filter(is_meant).collect())
}

/// Reports unusable key files of durable informers. With `offline`, a missing one is a note only: it may exist where
/// Informant runs.
fn key_files(config: &Config, offline: bool) -> Vec<Problem> {
    let informers = config.informers.values();
    let key_files =
        informers.filter_map(|section| Some((section.position, section.durable.as_ref()?.key_file.as_ref()?)));
    let problems = key_files.filter_map(|(position, path)| {
        let error = key_file::read(path).err()?;
        let problem = config.problem(position, format!("`durable-key-file`: {error}"));
        let may_exist_elsewhere = offline && matches!(path.try_exists(), Ok(false));
        Some(if may_exist_elsewhere { problem.note() } else { problem })
    });
    problems.collect()
}

/// `is_file_valid`: there were no errors before the cluster was asked.
fn report(config: &Config, findings: Findings, is_file_valid: bool) -> Result<Exit> {
    let Findings { problems, passed } = findings;
    let mut problems = Problems(problems);
    problems.sort();
    output::problems(&problems);
    output::to_stdout(|out| passed.iter().try_for_each(|line| output::line(out, line)))?;
    if problems.has_errors() {
        let verdict = match is_file_valid {
            true => "is valid, but cannot run as it is in this cluster",
            false => "is invalid",
        };
        output::note(&format!("{} {verdict}", config.path.display()));
        return Ok(Exit::Config);
    }
    output::to_stdout(|out| output::line(out, &format!("{} is valid", config.path.display())))?;
    Ok(Exit::Done)
}

#[cfg(test)]
mod tests;
