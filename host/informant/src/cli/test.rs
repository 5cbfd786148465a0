//! `informant plugin test`: runs scenarios against a plugin, in this process.
//!
//! ```text
//! FILE.scenario.yaml ──read──▶ Scenario ──build, inspect──▶ Prepared ──validate──▶ run ──▶ Outcome ──▶ report, JUnit
//!                                                                        │ paused clock         └─▶ `--update`
//!                                                 embedded API server, informers, plugin host ◀─ steps
//! ```
//!
//! The informers, the plugin host and its capabilities are those of `informant run`
//! ([`InProcess`](crate::daemon::InProcess)). Only the ends are the scenario's: the API server, the answers to HTTP
//! requests, the keys, and the clock. docs/reference/scenarios.md describes the files.

mod answers;
mod check;
mod flow;
mod junit;
mod keys;
mod matching;
mod prepare;
mod recorder;
mod replies;
mod run;
mod scenario;
mod series;
mod update;
mod validate;
mod world;
mod yaml;

use std::fs;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Instant;

use anyhow::{Context, Result, ensure};
use clap::Args;
use informant_config::{Problems, SourceFile};

use self::junit::Case;
use self::prepare::{Builder, Prepared, Target, shown};
use self::run::Outcome;
use self::scenario::Scenario;
use super::{Exit, count, output};
use crate::recorded::SCENARIO_SUFFIX as SUFFIX;

/// The folder of a plugin that may have its scenarios.
const FOLDER: &str = "scenarios";

/// `informant plugin test`.
#[derive(Debug, Args)]
pub(super) struct TestArgs {
    /// Scenario file, folder of a plugin with its scenarios, or, with --scenario, a component or script [default: the
    /// current folder; with --scenario, what the file says]
    path: Option<PathBuf>,
    /// Scenario file to run. May be repeated [default: the files PATH/*.scenario.yaml and
    /// PATH/scenarios/*.scenario.yaml]
    #[arg(long, value_name = "FILE")]
    scenario: Vec<PathBuf>,
    /// Write what happened into the expectations that do not match
    #[arg(long)]
    update: bool,
    /// Also write the results as JUnit XML
    #[arg(long, value_name = "FILE")]
    junit: Option<PathBuf>,
    /// Test the component that is there, without a build
    #[arg(long)]
    no_build: bool,
}

/// What became of one file.
enum Verdict {
    Passed,
    Updated(usize),
    Failed(String),
    /// The scenario is wrong, or its plugin cannot be tested.
    Broken(anyhow::Error),
}

pub(super) fn run(args: &TestArgs) -> Result<Exit> {
    let (files, target) = find(args)?;
    let mut builder = Builder::new(!args.no_build);
    let mut cases = Vec::new();
    let (mut failed, mut is_invalid) = (0, false);
    for file in &files {
        let began = Instant::now();
        let (name, verdict) = examine(file, &target, args.update, &mut builder);
        let took = began.elapsed();
        show(file, &name, &verdict)?;
        failed += usize::from(matches!(verdict, Verdict::Failed(_) | Verdict::Broken(_)));
        is_invalid |= matches!(&verdict, Verdict::Broken(error) if error.is::<Problems>());
        cases.push(Case::new(file, name, &verdict, took));
    }
    if let Some(path) = &args.junit {
        let written = fs::write(path, junit::document(&cases));
        written.with_context(|| format!("cannot write {}", path.display()))?;
    }
    let passed = files.len() - failed;
    output::to_stdout(|out| output::line(out, &format!("{passed} passed, {failed} failed")))?;
    Ok(match (failed, is_invalid) {
        (0, _) => Exit::Done,
        (_, true) => Exit::Config,
        (_, false) => Exit::Failed,
    })
}

/// Checks that a text is a scenario.
///
/// # Errors
/// All problems, with their positions.
pub(super) fn check(file: &Path, text: &str) -> Result<(), Problems> {
    Scenario::parse(SourceFile::new(file, text)).map(drop)
}

/// The only document of a file.
#[cfg(test)]
pub(super) fn parsed(file: &SourceFile) -> serde_json::Value {
    yaml::documents(file).unwrap()[0].to_json()
}

/// The scenario files, and the plugin that they are for.
fn find(args: &TestArgs) -> Result<(Vec<PathBuf>, Target)> {
    if args.path.is_none() && !args.scenario.is_empty() {
        return Ok((args.scenario.clone(), Target { path: None }));
    }
    let path = args.path.as_deref().unwrap_or(Path::new("."));
    ensure!(
        path.exists(),
        "{} does not exist; name a scenario file, or the folder of a plugin",
        path.display()
    );
    if !args.scenario.is_empty() {
        let target = Target {
            path: Some(path.to_owned()),
        };
        return Ok((args.scenario.clone(), target));
    }
    if path.is_file() {
        let name = path.file_name().unwrap_or_default().to_string_lossy().into_owned();
        ensure!(
            name.ends_with(SUFFIX),
            "{0} is not a scenario, whose name ends in {SUFFIX}: name the scenario too, as in `informant plugin test {0} \
             --scenario NAME{SUFFIX}`",
            path.display()
        );
        return Ok((vec![path.to_owned()], Target { path: None }));
    }
    let mut files = scenarios_in(path)?;
    files.extend(scenarios_in(&path.join(FOLDER))?);
    ensure!(
        !files.is_empty(),
        "{0} has no scenario: write one as {0}/NAME{SUFFIX}, or name it with --scenario (docs/reference/scenarios.md)",
        path.display()
    );
    let target = Target {
        path: Some(path.to_owned()),
    };
    Ok((files, target))
}

/// The scenario files in a folder that may not exist, sorted.
fn scenarios_in(folder: &Path) -> Result<Vec<PathBuf>> {
    let entries = match fs::read_dir(folder) {
        Ok(entries) => entries,
        Err(error) if error.kind() == std::io::ErrorKind::NotFound => return Ok(Vec::new()),
        Err(error) => return Err(error).with_context(|| format!("cannot read {}", folder.display())),
    };
    let mut files = Vec::new();
    for entry in entries {
        let path = entry
            .with_context(|| format!("cannot read {}", folder.display()))?
            .path();
        let is_scenario = path
            .file_name()
            .is_some_and(|name| name.to_string_lossy().ends_with(SUFFIX));
        // Not `./NAME`, which is harder to read and to copy.
        files.extend(is_scenario.then(|| path.strip_prefix(".").map(Path::to_owned).unwrap_or(path)));
    }
    files.sort();
    Ok(files)
}

/// The name of a scenario, and what became of it.
fn examine(file: &Path, target: &Target, updates: bool, builder: &mut Builder) -> (String, Verdict) {
    let of_file = shown(file);
    let scenario = match Scenario::read(file) {
        Ok(scenario) => scenario,
        Err(problems) => return (of_file, Verdict::Broken(problems.into())),
    };
    let name = scenario.name.clone();
    let verdict = test(scenario, target, updates, builder).unwrap_or_else(Verdict::Broken);
    (name, verdict)
}

fn test(scenario: Scenario, target: &Target, updates: bool, builder: &mut Builder) -> Result<Verdict> {
    let prepared = Arc::new(Prepared::new(scenario, target, builder)?);
    validate::validate(&prepared)?;
    let outcome = run::run(&prepared)?;
    if outcome.failures.is_empty() {
        return Ok(Verdict::Passed);
    }
    let file = &prepared.scenario.file;
    if updates && !outcome.edits.is_empty() && outcome.failures.iter().all(|failure| failure.is_updated) {
        let edits = outcome.edits.len();
        let text = update::apply(file.text(), outcome.edits.clone());
        if let Err(problems) = Scenario::parse(SourceFile::new(file.path(), text.as_str())) {
            let report = report(file.path(), &outcome);
            return Ok(Verdict::Failed(format!(
                "{report}\nnot updated, because the file would be no scenario then; correct it by hand:\n{problems}"
            )));
        }
        let written = fs::write(file.path(), text);
        written.with_context(|| format!("cannot write {}", file.path().display()))?;
        return Ok(Verdict::Updated(edits));
    }
    Ok(Verdict::Failed(report(file.path(), &outcome)))
}

/// The failures of a scenario, for people.
fn report(file: &Path, outcome: &Outcome) -> String {
    let mut lines = Vec::new();
    for failure in &outcome.failures {
        lines.push(format!("{}:{}: {}", shown(file), failure.position, failure.title));
        lines.extend(failure.lines.iter().map(|line| format!("  {line}")));
    }
    if !outcome.notes.is_empty() {
        lines.push("Informant's log:".to_owned());
        lines.extend(outcome.notes.iter().map(|note| format!("  {note}")));
    }
    lines.join("\n")
}

fn show(file: &Path, name: &str, verdict: &Verdict) -> Result<()> {
    let (word, rest) = match verdict {
        Verdict::Passed => ("ok", String::new()),
        Verdict::Updated(edits) => ("updated", format!(" ({})", count(*edits, "expectation"))),
        Verdict::Failed(_) => ("FAILED", String::new()),
        Verdict::Broken(_) => ("INVALID", String::new()),
    };
    let of_file = shown(file);
    let title = if name == of_file {
        name.to_owned()
    } else {
        format!("{of_file}: {name}")
    };
    output::to_stdout(|out| {
        output::line(out, &format!("{word:7} {title}{rest}"))?;
        match verdict {
            Verdict::Failed(report) => report
                .lines()
                .try_for_each(|line| output::line(out, &format!("  {line}"))),
            _ => Ok(()),
        }
    })?;
    if let Verdict::Broken(error) = verdict {
        output::error(error);
    }
    Ok(())
}
