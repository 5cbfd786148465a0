//! The table of the reconcilers: what a call costs in each language that receives five fields of a pod of 5 KiB, reads
//! a ConfigMap of 200 bytes from the cache, and writes nothing. A handler that does the same is measured, too.

use std::io::Write as _;
use std::path::Path;

use anyhow::{Context, Result};
use tabwriter::TabWriter;

use crate::handler::{Bench, LARGE, updates};
use crate::languages::{BURST_EVENTS, File};

/// Runs have so many times fewer calls than those of small pods: they take longer.
const CALLS_DIVISOR: usize = 10;

/// A language, with what it must reach.
struct Row {
    language: &'static str,
    reconciler: File,
    /// The handler that does the same.
    handler: Option<File>,
    /// The least that one core reconciles in a second.
    keys_min: Option<f64>,
    /// The most that a call costs, in those of the handler.
    times_max: Option<f64>,
}

/// Microseconds of CPU of one call.
struct Figures {
    reconciler: f64,
    handler: Option<f64>,
}

const JAVASCRIPT: &str = r#"
import { store } from "informant";

const fields = [
  "/spec/nodeName", "/status/phase", "/status/containerStatuses/*/name", "/status/containerStatuses/*/ready",
  "/status/containerStatuses/*/restartCount",
];
let restarts = 0;

function look(pod, event) {
  const settings = store.get("configmaps", event.namespace, "settings");
  if (!settings.data.mode || !pod.spec.nodeName || !pod.status.phase) throw new Error("a field is missing");
  for (const container of pod.status.containerStatuses) {
    if (container.ready && container.name) restarts += container.restartCount;
  }
}
"#;

const JAVASCRIPT_HANDLER: &str = r#"
export const manifest = { events: [{ apiVersion: "v1", kind: "Pod", payload: { fields } }] };
export const onUpdate = look;
"#;

const JAVASCRIPT_RECONCILER: &str = r#"
export const manifest = {
  reconciler: {
    for: { apiVersion: "v1", kind: "Pod", payload: { fields } },
    owns: [{ apiVersion: "v1", kind: "ConfigMap" }],
  },
};
export const reconcile = look;
"#;

const PYTHON: &str = r#"
from informant import on, reconcile, related, store

FIELDS = [
    "/spec/nodeName",
    "/status/phase",
    "/status/containerStatuses/*/name",
    "/status/containerStatuses/*/ready",
    "/status/containerStatuses/*/restartCount",
]
restarts = 0


def look(pod, event):
    global restarts
    settings = store.get("configmaps", event.namespace, "settings")
    if not settings.data.mode or not pod.spec.nodeName or not pod.status.phase:
        raise ValueError("a field is missing")
    for container in pod.status.containerStatuses:
        if container.ready and container.name:
            restarts += container.restartCount
"#;

const PYTHON_HANDLER: &str = r#"

@on.update("v1", "Pod", fields=FIELDS)
def handle(pod, event):
    look(pod, event)
"#;

const PYTHON_RECONCILER: &str = r#"

@reconcile("v1", "Pod", fields=FIELDS, owns=[related("v1", "ConfigMap")])
def handle(pod, request):
    look(pod, request)
"#;

/// Measures each language, and prints the table. Returns what is missed.
pub(crate) async fn measure(calls: usize, runs: usize, folder: &Path) -> Result<Vec<String>> {
    let mut table = TabWriter::new(Vec::new()).padding(2);
    writeln!(
        table,
        "LANGUAGE\tCPU PER CALL OF A HANDLER, us\tOF A RECONCILER, us\tTIMES\tKEYS/S ON ONE CORE"
    )?;
    let mut missed = Vec::new();
    for row in rows() {
        let language = row.language;
        let figures = match measure_row(&row, calls / CALLS_DIVISOR, runs, folder).await {
            Ok(figures) => figures,
            Err(error) => {
                writeln!(table, "{language}\tnot measured")?;
                missed.push(format!("reconciler, {language}: not measured: {error:#}"));
                continue;
            }
        };
        let keys = 1e6 / figures.reconciler;
        let times = figures.handler.map(|handler| figures.reconciler / handler);
        let mut bound = |what: &str, value: f64, is_met: bool, bound: String| {
            if !is_met {
                missed.push(format!("reconciler, {language}: {value:.2} {what}, {bound}"));
            }
            format!("({}{bound})", if is_met { "" } else { "MISSED: " })
        };
        let keys_bound = row
            .keys_min
            .map(|min| bound("keys/s", keys, keys >= min, format!("at least {min}")));
        let both = times.zip(row.times_max);
        let times_bound =
            both.map(|(times, max)| bound("times a handler", times, times <= max, format!("at most {max}")));
        let shown = |value: Option<f64>| value.map_or_else(|| "-".to_owned(), |value| format!("{value:.2}"));
        writeln!(
            table,
            "{language}\t{}\t{:.2}\t{} {}\t{keys:.0} {}",
            shown(figures.handler),
            figures.reconciler,
            shown(times),
            times_bound.unwrap_or_default(),
            keys_bound.unwrap_or_default(),
        )?;
    }
    let text = String::from_utf8(table.into_inner().ok().context("the table is incomplete")?)?;
    println!("\n{text}");
    Ok(missed)
}

/// Prints all runs of one language: the two handlers in turn. The best run of each counts.
async fn measure_row(row: &Row, calls: usize, runs: usize, folder: &Path) -> Result<Figures> {
    println!("\n{}, a reconciler and a handler that does the same", row.language);
    let bench = Bench::new(folder)?;
    let changes = updates(LARGE, BURST_EVENTS, bench.env.now())?;
    let mut started = Vec::new();
    for file in [Some(&row.reconciler), row.handler.as_ref()].into_iter().flatten() {
        let handler = bench.start(Bench::reads_both(&file.path(folder)?)).await?;
        handler.call(&changes, calls / 10).await?;
        started.push((handler, f64::INFINITY));
    }
    for number in 1..=runs {
        for (handler, best) in &mut started {
            *best = best.min(handler.call(&changes, calls).await?);
        }
        let so_far: Vec<String> = started.iter().map(|(_, best)| format!("{best:.2}")).collect();
        println!(
            "run {number}: best so far {} us of CPU per call ({calls} calls)",
            so_far.join(" and ")
        );
    }
    let mut figures = started.into_iter().map(|(_, best)| best);
    Ok(Figures {
        reconciler: figures.next().context("no reconciler")?,
        handler: figures.next(),
    })
}

fn rows() -> [Row; 4] {
    [
        Row {
            language: "Rust",
            reconciler: File::Built("guest_measured_reconciler.wasm"),
            handler: None,
            keys_min: Some(60_000.0),
            times_max: None,
        },
        Row {
            language: "JavaScript",
            reconciler: File::Script("reconciler.js", format!("{JAVASCRIPT}{JAVASCRIPT_RECONCILER}").into()),
            handler: Some(File::Script(
                "handler.js",
                format!("{JAVASCRIPT}{JAVASCRIPT_HANDLER}").into(),
            )),
            keys_min: Some(7_000.0),
            times_max: None,
        },
        Row {
            language: "Python",
            reconciler: File::Script("reconciler.py", format!("{PYTHON}{PYTHON_RECONCILER}").into()),
            handler: Some(File::Script("handler.py", format!("{PYTHON}{PYTHON_HANDLER}").into())),
            keys_min: None,
            times_max: Some(1.3),
        },
        Row {
            language: "Go",
            reconciler: File::Built("guest_measured_reconciler_go.wasm"),
            handler: Some(File::Built("guest_measured_go.wasm")),
            keys_min: None,
            times_max: Some(1.3),
        },
    ]
}
