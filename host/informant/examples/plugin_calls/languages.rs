//! The table of the languages: what an event costs in each, and the memory of an instance.
//!
//! The time is that of the whole event, from the listener to the guest's answer in the listener: the object-ref and the
//! payload, the limits of a call, the guest, its result, and the queue around it.

use std::borrow::Cow;
use std::io::Write as _;
use std::path::{Path, PathBuf};

use anyhow::{Context, Result};
use informant_spec::PluginSpec;
use tabwriter::TabWriter;

use crate::Args;
use crate::handler::{Bench, Handler, LARGE, SMALL, updates};
use crate::setup::built;

/// Events pushed at once: a burst, as a busy watch delivers it.
pub(crate) const BURST_EVENTS: usize = 50;

/// Further instances whose private memory is measured, and the calls of each before.
const FURTHER: usize = 8;
const FURTHER_CALLS: usize = 1_000;

/// What figures of memory are counted in.
const MB: f64 = 1e6;

const READS_TWO_FIELDS: &str = r#"
from informant import on

@on.update("v1", "Pod")
def handle(pod, event):
    return pod.labels.get("no") or pod.status.get("no")
"#;

const READS_NOTHING: &str = r#"
from informant import on

@on.update("v1", "Pod")
def handle(pod, event):
    pass
"#;

/// A handler, and the most that it may take.
#[derive(Default)]
struct Row {
    language: &'static str,
    /// What it does, and what it receives if that is not a pod of 300 bytes.
    does: &'static str,
    file: File,
    is_large: bool,
    us_max: Option<f64>,
    memory_max: Option<f64>,
    /// Private memory of a further instance.
    further_max: Option<f64>,
    /// What the time is spent on.
    spent_on: &'static str,
}

/// The file of a handler.
pub(crate) enum File {
    /// What `cargo xtask guests` has built.
    Built(&'static str),
    /// A script: its name and its text.
    Script(&'static str, Cow<'static, str>),
    /// One that the caller names.
    Own(PathBuf),
}

impl Default for File {
    fn default() -> File {
        File::Built("")
    }
}

/// What was measured of a handler. Memory in [`MB`].
struct Figures {
    us: f64,
    memory: f64,
    further: Option<f64>,
}

/// Measures each language, and prints the table. Returns what is missed.
pub(crate) async fn measure(args: &Args, folder: &Path) -> Result<Vec<String>> {
    let rows = match &args.handler {
        Some(handler) => rows_of(handler),
        None => rows(),
    };
    let mut table = TabWriter::new(Vec::new()).padding(2);
    writeln!(
        table,
        "LANGUAGE\tHANDLER\tCPU PER CALL, us\tLINEAR MEMORY, MB\tFURTHER INSTANCE, MB"
    )?;
    let mut missed = Vec::new();
    for row in &rows {
        let name = format!("{}, {}", row.language, row.does);
        let file = match row.file.path(folder) {
            Ok(file) => file,
            Err(error) => {
                writeln!(table, "{}\t{}\tnot measured", row.language, row.does)?;
                missed.push(format!("{name}: not measured: {error:#}"));
                continue;
            }
        };
        let figures = measure_row(row, file, args, folder).await;
        let figures = figures.with_context(|| format!("cannot measure {name}"))?;
        let mut cell = |what: &str, value: Option<f64>, most: Option<f64>| match (value, most) {
            (None, _) => "-".to_owned(),
            (Some(value), None) => format!("{value:.2}"),
            (Some(value), Some(most)) if value <= most => format!("{value:.2} (at most {most})"),
            (Some(value), Some(most)) => {
                missed.push(format!("{name}: {what}: {value:.2}, at most {most}"));
                format!("{value:.2} (MISSED: at most {most})")
            }
        };
        let us = cell("us of CPU per call", Some(figures.us), row.us_max);
        let memory = cell("MB of linear memory", Some(figures.memory), row.memory_max);
        let further = cell("MB of a further instance", figures.further, row.further_max);
        writeln!(table, "{}\t{}\t{us}\t{memory}\t{further}", row.language, row.does)?;
    }
    let text = String::from_utf8(table.into_inner().ok().context("the table is incomplete")?)?;
    println!("\n{text}");
    print_what_time_is_spent_on(&rows);
    Ok(missed)
}

fn print_what_time_is_spent_on(rows: &[Row]) {
    for row in rows.iter().filter(|row| !row.spent_on.is_empty()) {
        println!("{}: {}", row.language, row.spent_on);
    }
}

/// Prints all runs of one handler.
async fn measure_row(row: &Row, file: PathBuf, args: &Args, folder: &Path) -> Result<Figures> {
    println!("\n{}, {}", row.language, row.does);
    let bench = Bench::new(folder)?;
    let handler = bench.start(PluginSpec::new("measured", &file)).await?;
    let pod = if row.is_large { LARGE } else { SMALL };
    let calls = if row.is_large { args.calls / 10 } else { args.calls };
    let changes = updates(pod, BURST_EVENTS, bench.env.now())?;
    // Warms up caches and the guest's memory.
    handler.call(&changes, calls / 100).await?;
    let mut us = f64::INFINITY;
    for number in 1..=args.runs {
        let run = handler.call(&changes, calls).await?;
        println!("run {number}: {run:6.2} us of CPU per event ({calls} events)");
        us = us.min(run);
    }
    let further = match row.further_max {
        Some(_) => Some(further_bytes(&bench, &file).await? / MB),
        None => None,
    };
    let memory = handler.memory_bytes() as f64 / MB;
    Ok(Figures { us, memory, further })
}

/// Private memory of a further instance of what runs already, with all that the host has for it.
async fn further_bytes(bench: &Bench, file: &Path) -> Result<f64> {
    let changes = updates(SMALL, BURST_EVENTS, bench.env.now())?;
    let start = async |number: usize| -> Result<Handler<'_>> {
        let handler = bench.start(PluginSpec::new(format!("further-{number}"), file)).await?;
        handler.call(&changes, FURTHER_CALLS).await?;
        Ok(handler)
    };
    let mut handlers = vec![start(0).await?];
    let before = private_bytes()?;
    for number in 1..=FURTHER {
        handlers.push(start(number).await?);
    }
    let after = private_bytes()?;
    Ok((after - before) / FURTHER as f64)
}

/// Memory that this process shares with no other, and has written to.
fn private_bytes() -> Result<f64> {
    const FILE: &str = "/proc/self/smaps_rollup";
    let text = std::fs::read_to_string(FILE).with_context(|| format!("cannot read {FILE}"))?;
    let line = text.lines().find_map(|line| line.strip_prefix("Private_Dirty:"));
    let kib = line.and_then(|line| line.trim().strip_suffix(" kB")?.parse::<f64>().ok());
    kib.map(|kib| kib * 1024.0)
        .with_context(|| format!("{FILE} has no line Private_Dirty in kB"))
}

impl File {
    /// The handler's file. A script is written to `folder`.
    pub(crate) fn path(&self, folder: &Path) -> Result<PathBuf> {
        match self {
            File::Built(file) => built(file),
            File::Own(file) => Ok(file.clone()),
            File::Script(name, text) => {
                if name.ends_with(".py") {
                    built("informant-runner-python.wasm")?;
                }
                let path = folder.join(name);
                std::fs::write(&path, &**text)?;
                Ok(path)
            }
        }
    }
}

/// A handler that somebody else has written.
fn rows_of(handler: &Path) -> Vec<Row> {
    let row = |does, is_large| Row {
        language: "your handler",
        does,
        file: File::Own(handler.to_owned()),
        is_large,
        ..Row::default()
    };
    vec![row("300 bytes", false), row("5 KiB", true)]
}

/// The languages, with what they must reach, and handlers for comparison.
fn rows() -> Vec<Row> {
    let components = components().into_iter();
    components
        .chain(scripts_in_javascript())
        .chain(scripts_in_python())
        .collect()
}

fn components() -> [Row; 4] {
    [
        Row {
            language: "Rust",
            does: "does nothing",
            file: File::Built("guest_no_op.wasm"),
            us_max: Some(1.0),
            memory_max: Some(1.2),
            spent_on: "the host: the text of the payload, the records of the call, the queue around it.",
            ..Row::default()
        },
        Row {
            language: "Rust",
            does: "five fields of 5 KiB",
            file: File::Built("guest_measured.wasm"),
            is_large: true,
            ..Row::default()
        },
        Row {
            language: "C",
            does: "does nothing",
            file: File::Built("guest_no_op_c.wasm"),
            us_max: Some(1.0),
            memory_max: Some(1.2),
            spent_on: "the host, as with Rust.",
            ..Row::default()
        },
        Row {
            language: "Go",
            does: "does nothing, own struct",
            file: File::Built("guest_no_op_go.wasm"),
            us_max: Some(25.0),
            memory_max: Some(10.0),
            spent_on: "encoding/json, which fills the struct by reflection. Without fields, a call costs as much as in C.",
            ..Row::default()
        },
    ]
}

fn scripts_in_javascript() -> [Row; 3] {
    [
        Row {
            language: "JavaScript",
            does: "does nothing",
            file: File::Script("no-op.js", Cow::Borrowed("export function onUpdate(pod, event) {}\n")),
            us_max: Some(7.0),
            memory_max: Some(1.5),
            further_max: Some(0.6),
            spent_on: "QuickJS, in about equal parts: the records of the call, the payload's parser, the event object.",
            ..Row::default()
        },
        Row {
            language: "JavaScript",
            does: "has no parameters",
            file: File::Script("blind.js", Cow::Borrowed("export function onUpdate() {}\n")),
            ..Row::default()
        },
        Row {
            language: "JavaScript",
            does: "does nothing, 5 KiB",
            file: File::Script("no-op.js", Cow::Borrowed("export function onUpdate(pod, event) {}\n")),
            is_large: true,
            ..Row::default()
        },
    ]
}

fn scripts_in_python() -> [Row; 2] {
    [
        Row {
            language: "Python",
            does: "reads two fields",
            file: File::Script("fields.py", Cow::Borrowed(READS_TWO_FIELDS)),
            us_max: Some(80.0),
            memory_max: Some(16.0),
            further_max: Some(6.0),
            spent_on: "CPython's interpreter: most of it parses and wraps the payload; the rest makes objects of the \
                       call's records, and dispatches.",
            ..Row::default()
        },
        Row {
            language: "Python",
            does: "does not read the object",
            file: File::Script("no-op.py", Cow::Borrowed(READS_NOTHING)),
            us_max: Some(12.0),
            memory_max: Some(16.0),
            ..Row::default()
        },
    ]
}
