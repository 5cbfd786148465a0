//! Deferred writes and what the cache shows: writes that change nothing, that repeat, and that are awaited.

use std::time::Duration;

use informant_cache::SourceState;
use informant_plugin_host::{KubeError, KubeErrorCode, Plugin};
use serde_json::{Value, json};

use crate::world::{Pods, Reload, World, idle};
use crate::writes::{Api, merge, run, until_sent};

/// A plugin that copies the label `want` of its pods to the label `is`.
async fn run_copier(world: &World, seen: bool) -> (Plugin, Pods) {
    let copy = json!({ "verb": "merge", "defers": true, "document": { "metadata": { "labels": { "is": "$want" } } } });
    let config = json!({ "calls": [copy], "on-updates": true, "seen": seen });
    run(world, config, |spec| {
        spec.informers = vec![("pods".into(), "pods".into())]
    })
    .await
}

fn labels(want: &str, is: &str) -> String {
    format!(r#","labels":{{"want":"{want}","is":"{is}"}}"#)
}

#[tokio::test]
async fn a_write_that_changes_nothing_is_not_sent() {
    let api = Api::new();
    let world = World::with_cluster(api.clone());
    let (plugin, mut pods) = run_copier(&world, false).await;
    pods.apply_with("web-0", &labels("a", "a"));
    idle(&world, &plugin).await;
    assert_eq!(api.patches(), Vec::<String>::new());
    let counted = world.metrics("informant_plugin_writes_total");
    assert!(counted.contains(r#"verb="patch",result="unchanged"} 1"#), "{counted}");
    // A cache that may be outdated proves nothing.
    world.catalog.source(pods.id).unwrap().set_state(SourceState::Stale);
    pods.apply_with("web-0", &labels("a", "a"));
    idle(&world, &plugin).await;
    assert_eq!(api.patches().len(), 1);
}

#[tokio::test]
async fn writing_back_an_unseen_change_is_not_left_out() {
    let api = Api::new();
    let world = World::with_cluster(api.clone());
    let (plugin, mut pods) = run_copier(&world, false).await;
    api.number_from(100);
    for want in ["b", "a"] {
        pods.apply_with("web-0", &labels(want, "a"));
        idle(&world, &plugin).await;
    }
    let wanted = |is: &str| json!({ "metadata": { "labels": { "is": is } } }).to_string();
    assert_eq!(api.patches(), [wanted("b"), wanted("a")]);
    // The cache reaches the last write.
    pods.version = 100;
    pods.apply_with("web-0", &labels("a", "a"));
    idle(&world, &plugin).await;
    assert_eq!(api.patches().len(), 2);
}

#[tokio::test]
async fn after_a_lost_reply_the_same_write_is_sent() {
    let api = Api::new();
    let world = World::with_cluster(api.clone());
    let (plugin, mut pods) = run_copier(&world, false).await;
    api.number_from(100);
    api.answer_next(KubeError::new(KubeErrorCode::Unavailable, "the connection was reset"));
    pods.apply_with("web-0", &labels("b", "a"));
    world
        .until("the failure", || {
            plugin.listener().control().stats().counters.retried > 0
        })
        .await;
    // Meanwhile the handler wants what the cache still has.
    pods.apply_with("web-0", &labels("a", "a"));
    idle(&world, &plugin).await;
    let last = api.patches().pop().unwrap();
    assert_eq!(last, json!({ "metadata": { "labels": { "is": "a" } } }).to_string());
}

#[tokio::test]
async fn a_key_that_writes_again_and_again_is_spaced() {
    let api = Api::new();
    let world = World::with_cluster(api.clone());
    let (plugin, mut pods) = run_copier(&world, false).await;
    api.number_from(100);
    for _ in 0..9 {
        pods.apply_with("web-0", &labels("b", "a"));
        idle(&world, &plugin).await;
    }
    assert_eq!(plugin.spaced_keys(3).0, 0);
    pods.apply_with("web-0", &labels("b", "a"));
    pods.apply_with("web-0", &labels("b", "a"));
    pods.apply_with("web-1", &labels("b", "a"));
    until_sent(&world, &api, 11).await;
    world
        .until("web-1 to be handled", || {
            plugin.listener().control().stats().in_flight == 1
        })
        .await;
    assert_eq!(api.sent().len(), 11, "the second call for web-0 waits");
    let (count, keys) = plugin.spaced_keys(3);
    assert_eq!((count, keys[0].key.to_string().as_str()), (1, "default/web-0"));
    assert_eq!(keys[0].target, "v1/pods default/web-0");
    assert!(world.log.text().contains("again and again"), "{}", world.log.text());
    // The stop ends the wait; the last call is made.
    let began = tokio::time::Instant::now();
    let stopped = plugin.stop(Duration::from_secs(20)).await;
    assert_eq!((stopped.undelivered, api.sent().len()), (0, 12));
    assert!(began.elapsed() < Duration::from_secs(15));
}

#[tokio::test]
async fn direct_writes_again_and_again_are_spaced_like_deferred_ones() {
    let api = Api::new();
    let world = World::with_cluster(api.clone());
    let write = json!({ "verb": "merge", "document": { "metadata": { "labels": { "is": "b" } } } });
    let config = json!({ "calls": [write], "on-updates": true });
    let informers = vec![("pods".into(), "pods".into())];
    let (plugin, mut pods) = run(&world, config, |spec| spec.informers = informers).await;
    api.number_from(100);
    for _ in 0..9 {
        pods.apply("web-0");
        idle(&world, &plugin).await;
    }
    assert_eq!(plugin.spaced_keys(3).0, 0);
    pods.apply("web-0");
    pods.apply("web-0");
    pods.apply("web-1");
    until_sent(&world, &api, 11).await;
    world
        .until("web-1 to be handled", || {
            plugin.listener().control().stats().in_flight == 1
        })
        .await;
    assert_eq!(api.sent().len(), 11, "the second call for web-0 waits");
    let (count, keys) = plugin.spaced_keys(3);
    assert_eq!((count, keys[0].target.as_str()), (1, "v1/pods default/web-0"));
    assert!(world.log.text().contains("again and again"), "{}", world.log.text());
    until_sent(&world, &api, 12).await;
    // An answer without a version shows no change.
    api.number_from(0);
    for _ in 0..20 {
        pods.apply("web-2");
        idle(&world, &plugin).await;
    }
    assert_eq!(plugin.spaced_keys(3).0, 1);
}

#[tokio::test]
async fn reload_and_resume_lift_the_spacing_of_keys() {
    let api = Api::new();
    let world = World::with_cluster(api.clone());
    // The first nine are not spaced; the wait of one second doubles seven times.
    let calls: Vec<Value> = (0..17).map(|_| merge("a")).collect();
    let (plugin, mut pods) = run(&world, json!({ "calls": calls, "on-updates": true }), |_| {}).await;
    api.number_from(100);
    let spaced = async || {
        let waits = || plugin.spaced_keys(3).1.into_iter().map(|key| key.wait.as_secs());
        world.until("a wait of 128 s", || waits().eq([128])).await;
    };
    pods.apply("web-0");
    spaced().await;
    for reloads in [true, false] {
        let sent = api.sent().len();
        pods.apply("web-0");
        match reloads {
            true => drop(plugin.swap(plugin.spec().content.path()).await.unwrap()),
            false => assert!(plugin.resume().await, "a key was spaced"),
        }
        until_sent(&world, &api, sent + 17).await;
        spaced().await;
    }
}

#[tokio::test]
async fn an_event_may_wait_until_the_cache_sees_its_writes() {
    let api = Api::new();
    let world = World::with_cluster(api.clone());
    let (plugin, mut pods) = run_copier(&world, true).await;
    api.number_from(5);
    pods.apply_with("web-0", &labels("b", "a"));
    until_sent(&world, &api, 1).await;
    tokio::time::sleep(Duration::from_millis(100)).await;
    assert_eq!(plugin.listener().control().stats().in_flight, 1);
    pods.version = 4;
    pods.apply_with("web-0", &labels("b", "b"));
    idle(&world, &plugin).await;
    assert_eq!(api.patches().len(), 1, "the second call finds nothing to do");
}

#[tokio::test]
async fn awaited_writes_need_an_informer_of_their_object() {
    let api = Api::new();
    let world = World::with_cluster(api.clone());
    let config = json!({ "calls": [merge("a")], "seen": true });
    let (plugin, mut pods) = run(&world, config, |spec| spec.informers = vec![]).await;
    pods.apply("web-0");
    idle(&world, &plugin).await;
    let answers = world.recorded(1, |line| line["event"] == "add").await;
    insta::assert_snapshot!(answers[0]["message"].as_str().unwrap(), @r#"the manifest has `writes: seen`, but no informer of the plugin reads v1/pods in namespace "web": add one to `informers` in config.toml, or remove `writes` from the manifest"#);
}
