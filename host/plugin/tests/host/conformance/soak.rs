//! Many calls with payloads of changing sizes: an allocator that leaks or traps shows only there.

use std::time::{Duration, Instant};

use informant_plugin_host::PluginStatus;
use rand::rngs::StdRng;
use rand::{RngExt as _, SeedableRng as _};
use serde_json::json;

use super::{Run, every_language, rest, table};
use crate::kube::Cluster;

/// How long each language is called after its warm-up: 2 s, and 60 s with `INFORMANT_TESTS_FULL`.
const SOAK: Duration = Duration::from_secs(2);
const SOAK_FULL: Duration = Duration::from_secs(60);

/// Calls of the warm-up, in which the memory reaches its size.
const WARM_UP_CALLS: usize = 300;

/// Calls after it, at least.
const CALLS_MIN: usize = 400;

/// Bytes by which the memory of an instance may grow after the warm-up: 4 MiB, because a collector may need more for a
/// while. An instance that never frees its payloads takes twice that in the shortest run.
const GROWTH_BYTES_MAX: usize = 4 << 20;

/// Sizes around which allocators change what they do. Each payload has up to 100 bytes more.
const SIZES: [usize; 8] = [0, 16, 300, 4_000, 8_150, 16_300, 32_700, 65_500];

/// What the calls do besides reading their object: all allocate results of the host, too.
const ACTIONS: [&str; 5] = ["", "read", "remember", "measure", "patch"];

/// Writes pods, each of which is handled before the next one is written.
async fn call(run: &mut Run, random: &mut StdRng, number: usize) {
    let size = SIZES[random.random_range(0..SIZES.len())] + random.random_range(0..100);
    let text = ["x", "é", "\\n"][number % 3].repeat(size / 2);
    let action = ACTIONS[number % ACTIONS.len()];
    let name = format!("pod-{}", number % 7);
    // The text is a label of the metric, whose values are short.
    let text = if action == "measure" { "short" } else { text.as_str() };
    run.pods("").apply_with(&name, &rest(action, text));
    run.idle().await;
}

fn check(status: &PluginStatus, what: &str) {
    let lost = (status.restarts, status.dead_letters);
    assert_eq!(lost, (0, 0), "{what}: {:?}", status.last_error);
}

#[tokio::test(start_paused = true)]
async fn memory_stays_bounded_in_every_language() {
    let is_full = std::env::var_os("INFORMANT_TESTS_FULL").is_some();
    let time = if is_full { SOAK_FULL } else { SOAK };
    every_language(table::SOAK, async |guest| {
        let what = guest.display().to_string();
        let granted = json!([{ "verbs": ["patch"], "resource": "v1/pods" }]);
        let mut run = Run::new(
            guest,
            r#"{ "old": "yes" }"#,
            &[""],
            Cluster::answering(Some(0)),
            granted,
        )
        .await;
        let mut random = StdRng::seed_from_u64(1);
        for number in 0..WARM_UP_CALLS {
            call(&mut run, &mut random, number).await;
        }
        let warm = run.plugin.status();
        check(&warm, &what);
        let (end, mut calls) = (Instant::now() + time, 0);
        while calls < CALLS_MIN || Instant::now() < end {
            call(&mut run, &mut random, calls).await;
            calls += 1;
        }
        let after = run.plugin.status();
        check(&after, &what);
        let bound = warm.memory_bytes + GROWTH_BYTES_MAX;
        let grew = format!(
            "{calls} calls, from {} to {} bytes",
            warm.memory_bytes, after.memory_bytes
        );
        assert!(after.memory_bytes <= bound, "{what}: {grew}");
    })
    .await;
}
