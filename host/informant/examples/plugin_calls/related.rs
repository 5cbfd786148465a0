//! How long it takes until an object that leads to another one has that one reconciled, compared with a change of the
//! other one itself: from the listener's input to the end of the call, one change at a time.

use std::path::Path;
use std::time::{Duration, Instant};

use anyhow::{Context, Result};
use informant_cache::listener::{ChangeKind, ObjectChange};
use informant_cache::{Moment, Reason};
use informant_object::{Object, Shape};
use serde_json::{Value, json};

use crate::handler::{Bench, Handler, LARGE, update_of};
use crate::setup::built;

/// Pods in the cache. Each owns a ConfigMap.
const PODS: usize = 1_000;

/// Rounds; the median of their differences counts.
const ROUNDS: usize = 5;

/// By how much the 99th percentile may be longer, in milliseconds.
const LONGER_MAX_MS: f64 = 0.3;

/// Between two changes.
const CHANGE_INTERVAL: Duration = Duration::from_millis(1);

/// Prints the rounds. Returns what is missed.
pub(crate) async fn measure(folder: &Path) -> Result<Option<String>> {
    println!("\np99 from a change to the end of the call: of a pod, and of a ConfigMap that it owns");
    let bench = Bench::with_pods(folder, pods()?)?;
    let handler = bench
        .start(Bench::reads_both(&built("guest_measured_reconciler.wasm")?))
        .await?;
    handler.wait_until_idle().await;
    let mut differences = Vec::new();
    for round in 1..=ROUNDS {
        let [direct, related] = measure_round(&bench, &handler).await?;
        println!("round {round}: {direct:.3} ms direct, {related:.3} ms by the ConfigMap");
        differences.push(related - direct);
    }
    handler.ensure_none_failed()?;
    differences.sort_by(f64::total_cmp);
    let difference = *differences.get(ROUNDS / 2).context("no rounds")?;
    let text = format!("{difference:.3} ms longer by the ConfigMap, at most {LONGER_MAX_MS} (median)");
    if difference <= LONGER_MAX_MS {
        println!("ok: {text}");
        return Ok(None);
    }
    Ok(Some(text))
}

/// The 99th percentile of both in milliseconds. They alternate, so that what the machine does meanwhile affects both.
async fn measure_round(bench: &Bench, handler: &Handler<'_>) -> Result<[f64; 2]> {
    let mut times = [Vec::with_capacity(PODS), Vec::with_capacity(PODS)];
    for number in 0..PODS {
        let now = bench.env.now();
        let pod = [update_of(LARGE, number, 2, now)?];
        let configmap = [owned_configmap(number, now)?];
        for (is_related, times) in times.iter_mut().enumerate() {
            tokio::time::sleep(CHANGE_INTERVAL).await;
            let before = handler.calls();
            let began = Instant::now();
            match is_related {
                0 => handler.push(&pod),
                _ => handler.push_configmaps(&configmap),
            }
            while handler.calls() == before {
                tokio::task::yield_now().await;
            }
            times.push(began.elapsed().as_secs_f64() * 1e3);
            handler.wait_until_idle().await;
        }
    }
    let p99 = |mut times: Vec<f64>| {
        times.sort_by(f64::total_cmp);
        times.get(times.len() * 99 / 100).copied().context("no changes")
    };
    let [direct, related] = times;
    Ok([p99(direct)?, p99(related)?])
}

fn pods() -> Result<Vec<Object>> {
    let of = |number| match update_of(LARGE, number, 2, Moment::ZERO)?.kind {
        ChangeKind::Update { new, .. } => Ok(new),
        _ => anyhow::bail!("not an update"),
    };
    (0..PODS).map(of).collect()
}

/// The update of the ConfigMap that a pod owns.
fn owned_configmap(number: usize, received: Moment) -> Result<ObjectChange> {
    let pod: Value = serde_json::from_str(LARGE)?;
    let version = |version: u32| -> Result<Object> {
        let owner = json!({
            "apiVersion": "v1", "kind": "Pod", "name": format!("pod-{number}"), "uid": pod["metadata"]["uid"],
            "controller": true,
        });
        let configmap = json!({
            "apiVersion": "v1", "kind": "ConfigMap", "data": { "version": version.to_string() },
            "metadata": {
                "name": format!("of-{number}"), "namespace": pod["metadata"]["namespace"], "uid": format!("of-{number}"),
                "resourceVersion": version.to_string(), "ownerReferences": [owner],
            },
        });
        Ok(Object::parse(
            configmap.to_string().as_bytes(),
            &Shape::of("v1", "ConfigMap"),
        )?)
    };
    let (old, new) = (version(1)?, version(2)?);
    Ok(ObjectChange {
        kind: ChangeKind::Update { old, new },
        reason: Reason::Watch,
        received,
    })
}
