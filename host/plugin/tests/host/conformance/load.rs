//! Swaps while events flow: the state is handed over, and each event is handled once.

use std::collections::{BTreeMap, BTreeSet};

use informant_spec::PluginSpec;
use serde_json::json;

use super::{Run, every_language, rest, table};
use crate::kube::Cluster;
use crate::world::{Reload, World};

/// Swaps of each language.
const SWAPS: u64 = 5;

/// Events that are written before each swap has ended, at least.
const EVENTS_MIN: usize = 50;

/// Events that wait for the handler. Above that the test stops writing, so that none are merged.
const PENDING_MAX: usize = 200;

#[tokio::test(start_paused = true)]
async fn a_swap_under_load_loses_and_repeats_nothing() {
    every_language(table::LOAD, async |guest| {
        let world = World::for_conformance(Cluster::answering(Some(0)));
        let no_merging = |spec: &mut PluginSpec| {
            spec.config = json!({});
            spec.limits.pending = 100_000;
        };
        let mut run = Run::adjusted(world, guest, &[""], no_merging).await;
        let mut written = 0;
        for _ in 0..SWAPS {
            let (plugin, path) = (run.plugin.clone(), guest.to_owned());
            let swapping = tokio::spawn(async move { plugin.swap(&path).await.map(drop) });
            let mut before = 0;
            while before < EVENTS_MIN || !swapping.is_finished() {
                if run.plugin.listener().ledger().pending() < PENDING_MAX {
                    before += 1;
                    // Each pod is another one: no event can be merged with one that waits.
                    written += 1;
                    run.pods("").apply_with(&format!("pod-{written}"), &rest("", "one"));
                }
                tokio::task::yield_now().await;
            }
            swapping.await.unwrap().unwrap();
        }
        run.idle().await;
        let lines = run.lines();
        let words = |line: &String| line.splitn(4, ' ').map(str::to_owned).collect::<Vec<_>>();
        let handled: BTreeMap<usize, String> = lines
            .iter()
            .map(words)
            .map(|words| (words[0].parse().unwrap(), words[2].clone()))
            .collect();
        // Each count once, and each pod once.
        let counts: Vec<usize> = handled.keys().copied().collect();
        assert_eq!((lines.len(), counts), (written, (1..=written).collect()));
        let pods: BTreeSet<&String> = handled.values().collect();
        assert_eq!(pods.len(), written);
        let status = run.plugin.status();
        assert_eq!((status.reloads, status.restarts, status.dead_letters), (SWAPS, 0, 0));
    })
    .await;
}
