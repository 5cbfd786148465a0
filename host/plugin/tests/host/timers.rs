//! Timers: when runs are made, what is recorded of them, and Kubernetes Events.

use std::time::Duration;

use informant_plugin_host::{Plugin, TimerTriggered};
use informant_spec::{PluginSpec, Schedule};
use serde_json::json;

use crate::world::{World, guest, idle};
use crate::writes::Api;

/// 2026-03-28T23:00:00Z: the night before the clock goes forward in Berlin.
const BEGIN: Duration = Duration::from_secs(1_774_738_800);

pub(crate) fn world() -> World {
    World::with_clock(Api::new(), BEGIN)
}

pub(crate) fn spec(config: serde_json::Value) -> PluginSpec {
    PluginSpec {
        config,
        allow_events: true,
        ..PluginSpec::new("timers", guest("guest_timers"))
    }
}

pub(crate) async fn start(world: &World, spec: PluginSpec) -> Plugin {
    let plugin = world.load(spec).await.unwrap();
    plugin.start().await;
    plugin
}

pub(crate) async fn pass(world: &World, plugin: &Plugin, seconds: u64) {
    tokio::time::sleep(Duration::from_secs(seconds)).await;
    idle(world, plugin).await;
}

/// What the guest has logged since the last call, of runs whose line contains `what`.
pub(crate) fn ran(world: &World, seen: &mut usize, what: &str) -> Vec<String> {
    let lines = world.log.lines();
    let messages = lines
        .iter()
        .filter(|line| line.is_of_guest("timers"))
        .map(|line| line.message.clone());
    let all: Vec<String> = messages.collect();
    let new = all[*seen..]
        .iter()
        .filter(|line| line.contains(what))
        .cloned()
        .collect();
    *seen = all.len();
    new
}

#[tokio::test(start_paused = true)]
async fn runs_are_made_when_they_are_due() {
    let world = world();
    let plugin = start(&world, spec(json!({}))).await;
    let mut seen = 0;
    pass(&world, &plugin, 25).await;
    assert_eq!(
        ran(&world, &mut seen, ""),
        [
            "poll 2026-03-28T23:00:10Z missed=0 attempt=0",
            "poll 2026-03-28T23:00:20Z missed=0 attempt=0"
        ]
    );
    pass(&world, &plugin, 32 * 3_600).await;
    let reports = ran(&world, &mut seen, "report");
    assert_eq!(
        reports,
        [
            "report 2026-03-29T06:00:00Z missed=0 attempt=0",
            "report 2026-03-30T06:00:00Z missed=0 attempt=0"
        ]
    );
    let timers = plugin.status().timers;
    assert_eq!(timers[1].next.unwrap().to_string(), "2026-03-31T06:00:00Z");
    assert_eq!(timers[1].ended.unwrap().scheduled.to_string(), "2026-03-30T06:00:00Z");
}

#[tokio::test(start_paused = true)]
async fn what_a_stop_missed_is_made_up_for_once() {
    let world = world();
    let plugin = start(&world, spec(json!({}))).await;
    pass(&world, &plugin, 15).await;
    plugin.stop(Duration::from_secs(1)).await;
    drop(plugin);
    let mut seen = 0;
    ran(&world, &mut seen, "");
    tokio::time::sleep(Duration::from_secs(3 * 86_400)).await;
    let plugin = start(&world, spec(json!({}))).await;
    pass(&world, &plugin, 1).await;
    // The report had never run: what it missed since it was loaded counts.
    let made_up = ran(&world, &mut seen, "");
    assert_eq!(
        made_up,
        [
            "poll 2026-03-31T23:00:10Z missed=25919 attempt=0",
            "report 2026-03-31T06:00:00Z missed=2 attempt=0"
        ]
    );
}

#[tokio::test(start_paused = true)]
async fn a_failed_run_is_retried_until_the_next_is_due() {
    let world = world();
    let _plugin = start(&world, spec(json!({ "fail": "retry" }))).await;
    tokio::time::sleep(Duration::from_millis(12_500)).await;
    let mut seen = 0;
    let retried = ran(&world, &mut seen, "");
    assert_eq!(retried[0], "poll 2026-03-28T23:00:10Z missed=0 attempt=0");
    assert_eq!(retried[1], "poll 2026-03-28T23:00:10Z missed=0 attempt=1");
    tokio::time::sleep(Duration::from_secs(60)).await;
    let later = ran(&world, &mut seen, "");
    assert!(later.iter().any(|line| !line.contains("missed=0")), "{later:?}");
}

#[tokio::test(start_paused = true)]
async fn a_permanent_failure_ends_a_run_not_the_timer() {
    let world = world();
    let plugin = start(&world, spec(json!({ "fail": "permanent" }))).await;
    pass(&world, &plugin, 25).await;
    let mut seen = 0;
    assert_eq!(ran(&world, &mut seen, "attempt=0").len(), 2);
    let status = plugin.status();
    assert!(!status.timers[0].ended.unwrap().accepted);
    assert_eq!(status.dead_letters, 0);
}

#[tokio::test(start_paused = true)]
async fn a_run_that_traps_again_and_again_is_given_up() {
    let world = world();
    let spec = PluginSpec {
        timers: vec![(
            "poll".to_owned(),
            Schedule::new(None, None, Some(Duration::from_secs(86_400))).unwrap(),
        )],
        ..spec(json!({ "fail": "trap" }))
    };
    let plugin = start(&world, spec).await;
    tokio::time::sleep(Duration::from_secs(7 * 3_600 + 1_800)).await;
    let mut seen = 0;
    let attempts = ran(&world, &mut seen, "report").len();
    assert!((1..=5).contains(&attempts), "{attempts}");
    drop(plugin);
}

#[tokio::test(start_paused = true)]
async fn a_section_sets_schedules_and_an_operator_runs() {
    let world = world();
    let every = |seconds| Schedule::new(None, None, Some(Duration::from_secs(seconds))).unwrap();
    let slow = PluginSpec {
        timers: vec![("poll".to_owned(), every(3_600))],
        ..spec(json!({}))
    };
    let plugin = start(&world, slow.clone()).await;
    pass(&world, &plugin, 1_800).await;
    let mut seen = 0;
    assert!(ran(&world, &mut seen, "").is_empty());
    assert_eq!(plugin.trigger_timer("poll"), TimerTriggered::Queued);
    assert_eq!(plugin.trigger_timer("other"), TimerTriggered::Unknown);
    idle(&world, &plugin).await;
    assert_eq!(
        ran(&world, &mut seen, ""),
        ["poll 2026-03-28T23:30:00Z missed=0 attempt=0"]
    );
    let unknown = PluginSpec {
        timers: vec![("pull".to_owned(), every(60))],
        ..slow
    };
    let refused = world.load(unknown).await.err().unwrap().to_string();
    assert!(
        refused.contains("has no timer \"pull\"") && refused.contains("its manifest has poll, report"),
        "{refused}"
    );
}

#[tokio::test(start_paused = true)]
async fn a_paused_plugin_has_one_run_waiting() {
    let world = world();
    let plugin = start(&world, spec(json!({}))).await;
    plugin.pause().await;
    tokio::time::sleep(Duration::from_secs(35)).await;
    let mut seen = 0;
    assert!(ran(&world, &mut seen, "").is_empty());
    plugin.resume().await;
    idle(&world, &plugin).await;
    assert_eq!(
        ran(&world, &mut seen, ""),
        ["poll 2026-03-28T23:00:30Z missed=2 attempt=0"]
    );
}

#[tokio::test(start_paused = true)]
async fn an_event_is_sent_only_for_a_run_that_succeeded() {
    let api = Api::new();
    for (fail, expected) in [(json!(null), 1), (json!("permanent"), 0)] {
        let world = World::with_clock(api.clone(), BEGIN);
        let before = api.events().len();
        let plugin = start(&world, spec(json!({ "event": true, "fail": fail }))).await;
        pass(&world, &plugin, 12).await;
        let events = api.events().split_off(before);
        assert_eq!(events.len(), expected, "{events:?}");
        if let Some(event) = events.first() {
            assert_eq!(event["reportingController"], "informant.dev/timers");
            assert_eq!(
                event["regarding"],
                json!({ "apiVersion": "v1", "kind": "Pod", "namespace": "web", "name": "a", "uid": "uid-a" })
            );
            assert_eq!(
                (&event["type"], &event["reason"], &event["note"]),
                (&json!("Warning"), &json!("Ticked"), &json!("poll has run"))
            );
        }
    }
}

#[tokio::test(start_paused = true)]
async fn events_without_a_grant_are_denied() {
    let world = world();
    let denied = PluginSpec {
        allow_events: false,
        ..spec(json!({ "event": true }))
    };
    let plugin = start(&world, denied).await;
    pass(&world, &plugin, 12).await;
    let status = plugin.status();
    assert!(!status.timers[0].ended.unwrap().accepted, "{status:?}");
}
