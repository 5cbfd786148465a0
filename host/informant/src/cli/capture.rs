//! `informant plugin capture`: writes one call of a running plugin as a scenario, which `plugin test` replays.

use std::fs::File;
use std::io::Write;
use std::path::{Path, PathBuf};

use anyhow::{Context, Result, ensure};
use clap::Args;
use serde_json::Map;

use super::client::{AdminArgs, or_not_found};
use super::get::yaml_document;
use super::plugin::path;
use super::{Exit, output, test};
use crate::admin::{CaptureRequest, CapturedView};
use crate::config_file::CONFIG_BYTES_MAX;
use crate::recorded::SCENARIO_SUFFIX;

/// The members of a scenario, in the order in which they are read.
const MEMBERS: [&str; 7] = ["name", "time", "config", "objects", "kv", "http", "steps"];

/// `informant plugin capture`.
#[derive(Debug, Args)]
pub(super) struct CaptureArgs {
    /// Plugin name, as in the configuration
    name: String,
    /// The object to call the handler for; one with a dead letter gets that event
    #[arg(long, value_name = "NAMESPACE/NAME")]
    key: String,
    /// Its resource: v1/pods, pods, Pod; required if objects of several resources have the key
    #[arg(long, value_name = "RESOURCE")]
    resource: Option<String>,
    /// Its cluster, named as in [cluster.NAME]; required if objects of several clusters have the key
    #[arg(long, value_name = "NAME")]
    cluster: Option<String>,
    /// File to write, which does not exist yet and whose name ends in .scenario.yaml [default: stdout]
    #[arg(long, value_name = "FILE")]
    out: Option<PathBuf>,
    #[command(flatten)]
    admin: AdminArgs,
}

pub(super) fn run(args: &CaptureArgs) -> Result<Exit> {
    if let Some(out) = &args.out {
        check_name(out)?;
    }
    let request = CaptureRequest {
        key: args.key.clone(),
        resource: args.resource.clone(),
        cluster: args.cluster.clone(),
    };
    args.admin.with_clients(async |mut clients| {
        let path = path(&args.name, "capture");
        let answers = clients.ask(async |client| or_not_found(client.post::<CapturedView>(&path, &request).await));
        let answers = answers.await?;
        if !answers.has_found() {
            answers.warn_of_action();
        }
        let found = answers.found()?.into_iter().next();
        let captured = found.context("no replica has captured the call")?.answer;
        let text = text_of(&args.name, &captured)?;
        ensure!(
            text.len() <= CONFIG_BYTES_MAX,
            "the scenario would have {} bytes, and `informant plugin test` reads {CONFIG_BYTES_MAX}: capture an object for \
             which the plugin reads less",
            text.len()
        );
        let checked = args
            .out
            .clone()
            .unwrap_or_else(|| format!("capture{SCENARIO_SUFFIX}").into());
        test::check(&checked, &text).context("the capture is no scenario that can be read")?;
        match &args.out {
            None => output::to_stdout(|out| out.write_all(text.as_bytes()))?,
            Some(out) => {
                write_new(out, &text)?;
                output::note(&format!(
                    "wrote {0}: read it before you share it, then run `informant plugin test {0}`",
                    out.display()
                ));
            }
        }
        Ok(Exit::Done)
    })
}

/// # Errors
/// If the file would not be found by `plugin test`, or exists.
fn check_name(out: &Path) -> Result<()> {
    let name = out.file_name().unwrap_or_default().to_string_lossy();
    let better = format!("{}{SCENARIO_SUFFIX}", name.trim_end_matches(".yaml"));
    ensure!(
        name.ends_with(SCENARIO_SUFFIX),
        "--out {}: the name of a scenario ends in {SCENARIO_SUFFIX}, as {} does",
        out.display(),
        out.with_file_name(better).display()
    );
    ensure!(
        !out.exists(),
        "{} exists: remove it, or name another file",
        out.display()
    );
    Ok(())
}

fn write_new(out: &Path, text: &str) -> Result<()> {
    let mut options = File::options();
    options.write(true).create_new(true);
    // What is in it is for its reader, until somebody has read it.
    #[cfg(unix)]
    std::os::unix::fs::OpenOptionsExt::mode(&mut options, 0o600);
    let written = options.open(out).and_then(|mut file| file.write_all(text.as_bytes()));
    written.with_context(|| format!("cannot write {}", out.display()))
}

/// The file of a captured call.
fn text_of(plugin: &str, captured: &CapturedView) -> Result<String> {
    let CapturedView {
        digest,
        contract,
        redacted,
        inexact,
        ..
    } = captured;
    let listed = |what: &[String]| match what.is_empty() {
        true => "nothing".to_owned(),
        false => what.join("; "),
    };
    let head = [
        format!(
            "A call of plugin {plugin}, written by `informant plugin capture`. Run it with `informant plugin test`."
        ),
        format!("Component or script: sha256 {digest}, called by {contract}"),
        "Read this file before you share it. Only what looks like a credential was redacted, and unusual headers:"
            .to_owned(),
        format!("  {}", listed(redacted)),
        format!("Not replayed as it was: {}", listed(inexact)),
    ];
    let mut text = Vec::new();
    for line in head {
        writeln!(text, "# {}", crate::escape::line(&line))?;
    }
    for name in MEMBERS {
        if let Some(value) = captured.scenario.get(name) {
            let member = Map::from_iter([(name.to_owned(), value.clone())]);
            yaml_document(&mut text, &member.into())?;
        }
    }
    String::from_utf8(text).context("the capture is not UTF-8")
}

#[cfg(test)]
mod tests;
