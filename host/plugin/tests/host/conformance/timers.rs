//! Timers and Kubernetes Events, in every language.

use std::path::Path;
use std::sync::Arc;
use std::time::Duration;

use informant_plugin_host::TimerTriggered;
use informant_spec::PluginSpec;
use serde_json::{Value, json};

use super::reconcilers::Site;
use super::{every_reconciler, table};
use crate::kube::Cluster;
use crate::world::World;

/// 2026-03-28T23:00:00Z
const BEGIN: Duration = Duration::from_secs(1_774_738_800);

async fn start(guest: &Path) -> Site {
    let api = Cluster::answering(Some(0));
    let world = World::with_clock(Arc::clone(&api) as _, BEGIN);
    Site::of(world, api, guest).await
}

/// Runs the timer that fails at first, until it has succeeded. Returns the lines of both attempts.
async fn run_twice(site: &mut Site) -> Vec<String> {
    assert_eq!(site.run.plugin.trigger_timer("fails"), TimerTriggered::Queued);
    let is_retried = || site.run.lines().iter().any(|line| line.ends_with("attempt=1"));
    site.run.world.until("the second attempt", is_retried).await;
    let lines = site.new_lines().await;
    lines
        .into_iter()
        .filter(|line| line.starts_with("timer fails"))
        .collect()
}

#[tokio::test(start_paused = true)]
async fn every_language_runs_timers_and_retries_them() {
    every_reconciler(table::TIMERS, async |guest| {
        let mut site = start(guest).await;
        let what = guest.display();
        tokio::time::sleep(Duration::from_secs(12)).await;
        let lines = site.new_lines().await;
        assert_eq!(lines, ["timer poll 2026-03-28T23:00:10Z missed=0 attempt=0"], "{what}");
        site.run.plugin.pause().await;
        tokio::time::sleep(Duration::from_secs(30)).await;
        site.run.plugin.resume().await;
        let lines = site.new_lines().await;
        assert_eq!(lines, ["timer poll 2026-03-28T23:00:40Z missed=2 attempt=0"], "{what}");
        let lines = run_twice(&mut site).await;
        let [first, second] = &lines[..] else {
            panic!("{what}: {lines:?}");
        };
        let run = first.strip_suffix("0").unwrap();
        assert!(run.ends_with(" missed=0 attempt="), "{what}: {first}");
        assert_eq!(second.strip_suffix("1"), Some(run), "{what}");
    })
    .await;
}

#[tokio::test(start_paused = true)]
async fn every_language_records_events_of_calls_that_succeed() {
    every_reconciler(table::EVENTS, async |guest| {
        let mut site = start(guest).await;
        let what = guest.display();
        let lost = site.put("a", "event-permanent", "none").await;
        assert_eq!(lost, ["reconcile default/a watch 0 text=none"], "{what}");
        site.put("a", "event-retryable", "one").await;
        site.put("b", "event", "aä€😀").await;
        run_twice(&mut site).await;
        let mut events = site.events(3).await;
        events.sort_by_key(|event| event["note"].to_string());
        let shown = |event: &Value| {
            let about = &event["regarding"];
            json!([
                event["type"],
                event["reason"],
                event["note"],
                about["kind"],
                about["namespace"],
                about["uid"]
            ])
        };
        let expected = [
            json!(["Warning", "Seen", "aä€😀", "Pod", "default", "uid-b"]),
            json!([
                "Normal",
                "Ticked",
                "fails has run, attempt 1",
                "Pod",
                "web",
                "uid-web-a"
            ]),
            json!(["Warning", "Seen", "one", "Pod", "default", "uid-a"]),
        ];
        assert_eq!(events.iter().map(shown).collect::<Vec<_>>(), expected, "{what}");
        let spec = PluginSpec {
            allow_events: false,
            ..PluginSpec::new("denied", guest)
        };
        let refused = site.run.world.load(spec).await.err().map(|error| error.to_string());
        assert!(
            refused
                .as_ref()
                .is_some_and(|error| error.contains("allow.events = true")),
            "{what}: {refused:?}"
        );
    })
    .await;
}
