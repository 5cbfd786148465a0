//! Handlers that are not called for each event, or wait in their calls.

use std::path::Path;
use std::time::{Duration, Instant};

use anyhow::{Result, ensure};
use informant_spec::PluginSpec;

use crate::handler::{Bench, SMALL, WAIT, update_of, updates};

/// Events of one key within [`INTERVAL`].
const INTERVAL_EVENTS: u64 = 1_000;

/// The shortest time between two calls of one key.
const INTERVAL: Duration = Duration::from_millis(500);

/// A handler whose second call must have the last state.
const LAST_STATE_SECOND: &str = r#"
let calls = 0;
export function onUpdate(pod) {
  calls += 1;
  if (calls === 2 && pod.metadata.resourceVersion !== "1000") throw new Error("not the last state");
}
"#;

/// Numbers of instances, and how many times the rate of one instance they have to reach.
const INSTANCES: [(u32, f64); 2] = [(4, 3.6), (16, 13.0)];

/// Pods for each instance of the handler that waits: more than it handles in [`WARM_UP`] and [`WINDOW`].
const WAITING_PODS: usize = 200;

/// The time in which calls of that handler are not counted yet, and in which they are.
const WARM_UP: Duration = Duration::from_millis(200);
const WINDOW: Duration = Duration::from_secs(1);

/// Prints how many calls [`INTERVAL_EVENTS`] events of one key cause within its interval. Returns what is missed.
pub(crate) async fn count_calls_within_interval(folder: &Path) -> Result<Option<String>> {
    let script = folder.join("interval.js");
    std::fs::write(&script, LAST_STATE_SECOND)?;
    let mut spec = PluginSpec::new("measured", script);
    spec.min_interval = Some(INTERVAL);
    let bench = Bench::new(folder)?;
    let handler = bench.start(spec).await?;
    let before = handler.listener.control().stats().counters.ok;
    let began = Instant::now();
    for version in 1..=INTERVAL_EVENTS {
        handler.push(&[update_of(SMALL, 0, version, bench.env.now())?]);
        tokio::task::yield_now().await;
    }
    let pushed = began.elapsed();
    handler.wait_until_idle().await;
    let calls = handler.listener.control().stats().counters.ok - before;
    println!("\n{INTERVAL_EVENTS} events of one key in {pushed:.0?}, min-interval {INTERVAL:?}: {calls} calls");
    // A machine that is this slow measures nothing.
    let is_met = calls == 2 || pushed >= INTERVAL;
    Ok((!is_met).then(|| format!("{calls} calls within min-interval, 2 expected")))
}

/// Measures a handler that waits in each call, with one instance and with several. Returns what was missed.
pub(crate) async fn measure_instances(folder: &Path) -> Result<Vec<String>> {
    let script = folder.join("waits.js");
    let text = "import { kube } from \"informant\";\nexport const manifest = { parallel: true };\n\
                export function onUpdate(pod) {\n  \
                kube.get({ resource: \"v1/pods\", namespace: \"a\", name: pod.metadata.name });\n}\n";
    std::fs::write(&script, text)?;
    println!("\nscript, waits {WAIT:?} in each call");
    let one = calls_per_second(&script, 1, folder).await?;
    println!("  1 instance:  {one:6.0} calls/s");
    let mut missed = Vec::new();
    for (instances, times_min) in INSTANCES {
        let rate = calls_per_second(&script, instances, folder).await?;
        let times = rate / one;
        println!(" {instances:2} instances: {rate:6.0} calls/s, {times:.1} times");
        match times >= times_min {
            true => println!("ok: at least {times_min} times"),
            false => missed.push(format!("{instances} instances: {times:.1} times, at least {times_min}")),
        }
    }
    Ok(missed)
}

async fn calls_per_second(script: &Path, instances: u32, folder: &Path) -> Result<f64> {
    let mut spec = PluginSpec::new("waits", script);
    spec.allow_kube = serde_json::from_value(serde_json::json!([{ "verbs": ["get"], "resource": "v1/pods" }]))?;
    spec.limits.instances = instances;
    spec.limits.kube_calls = instances as usize;
    spec.limits.pending = 100_000;
    let bench = Bench::new(folder)?;
    let handler = bench.start(spec).await?;
    handler.push(&updates(SMALL, WAITING_PODS * instances as usize, bench.env.now())?);
    tokio::time::sleep(WARM_UP).await;
    let handled = || handler.listener.control().stats().counters.ok;
    let (began, before) = (Instant::now(), handled());
    tokio::time::sleep(WINDOW).await;
    let (took, calls) = (began.elapsed(), handled() - before);
    let failed = handler.listener.control().stats().counters.retried;
    ensure!(failed == 0, "{failed} calls have failed");
    Ok(calls as f64 / took.as_secs_f64())
}
