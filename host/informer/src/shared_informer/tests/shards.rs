//! Sources of which several processes read different shards.

use std::time::Duration;

use informant_apiserver::{ApiServer, Filter, Options};
use informant_cache::{Division, Moment, ShardBy, ShardFilter, ShardHash, ShardSet};
use informant_object::KeyRef;
use serde_json::json;

use crate::testing::{Rig, RigOptions, api_server, by_watch_list, delete, pass, pods, put, settle};
use crate::{ReflectorOptions, SourceSpec};

const TWO: Division = Division {
    shards: 2,
    hash: ShardHash::Mixed,
};

fn reading(shards: &[u8]) -> SourceSpec {
    SourceSpec {
        shards: Some(ShardFilter {
            division: TWO,
            by: ShardBy::NamespaceAndName,
            shards: shards.iter().copied().collect::<ShardSet>(),
        }),
        ..pods()
    }
}

/// Names of pods of one shard.
fn names(shard: u8) -> impl Iterator<Item = String> {
    let filter = reading(&[shard]).shards.unwrap();
    let names = (0..).map(|number| format!("web-{number}"));
    names.filter(move |name| filter.includes(KeyRef::new("default", name)))
}

async fn reconfigure(rig: &Rig, spec: SourceSpec) {
    let options = ReflectorOptions::default();
    rig.informer.reconfigure(spec, options).await.unwrap();
    // The watch before may still send deletes.
    tokio::time::sleep(Duration::from_secs(1)).await;
    settle().await;
}

#[tokio::test(start_paused = true)]
async fn only_objects_of_read_shards_are_stored_and_delivered() {
    let server = api_server();
    let (mine, other) = (names(0).next().unwrap(), names(1).next().unwrap());
    put(&server, &mine, 1);
    put(&server, &other, 1);
    for options in [by_watch_list(), RigOptions::default()] {
        let spec = reading(&[0]);
        let rig = Rig::start_with(&server, RigOptions { spec, ..options });
        let recorder = rig.record();
        settle().await;
        assert_eq!(recorder.take()[0], format!("add {mine} (initial)"));
        put(&server, &other, 2);
        put(&server, &mine, 2);
        settle().await;
        assert_eq!(recorder.take(), [format!("update {mine} 1->2")]);
        put(&server, &other, 3);
        // After each of these it pauses.
        pass(1).await;
        // What is left out counts as seen: a watch does not go back to before it.
        let newest = server.get("v1/pods", "default", &other).unwrap().unwrap();
        let seen = rig.informer.snapshot().version().unwrap().clone();
        assert_eq!(newest["metadata"]["resourceVersion"], seen.as_str());
        delete(&server, &other);
        settle().await;
        assert_eq!(recorder.take(), [""; 0]);
        assert_eq!(rig.names(), std::slice::from_ref(&mine));
        assert_eq!(rig.informer.snapshot().shards(), reading(&[0]).shards.as_ref());
        for (request, left_out) in [("list", 1.0), ("watch", 3.0)] {
            let series =
                format!(r#"reflector_other_shard_objects_total{{informer="pods",cluster="",request="{request}"}}"#);
            assert_eq!(rig.metric(&series), left_out, "{request}");
        }
        put(&server, &mine, 1);
        put(&server, &other, 1);
        settle().await;
    }
}

#[tokio::test(start_paused = true)]
async fn objects_of_a_lost_shard_are_forgotten_without_calls() {
    let server = api_server();
    let (mine, other) = (names(0).next().unwrap(), names(1).next().unwrap());
    put(&server, &mine, 1);
    put(&server, &other, 1);
    let spec = reading(&[0, 1]);
    let rig = Rig::start_with(
        &server,
        RigOptions {
            spec,
            ..by_watch_list()
        },
    );
    let recorder = rig.record();
    settle().await;
    recorder.take();

    reconfigure(&rig, reading(&[0])).await;
    assert_eq!(recorder.take(), [""; 0]);
    assert_eq!(rig.names(), std::slice::from_ref(&mine));
    // It is deleted while another process reads it.
    delete(&server, &other);
    let next = names(1).nth(1).unwrap();
    put(&server, &next, 1);
    settle().await;

    reconfigure(&rig, reading(&[0, 1])).await;
    assert_eq!(recorder.take(), [format!("add {next} (takeover)")]);
    delete(&server, &next);
    delete(&server, &mine);
    settle().await;
    assert_eq!(recorder.take(), [format!("delete {next}"), format!("delete {mine}")]);
}

#[tokio::test(start_paused = true)]
async fn delete_missed_while_a_shard_was_lost_counts_as_relisted() {
    let server = api_server();
    let mine = names(0).next().unwrap();
    put(&server, &mine, 1);
    let spec = reading(&[0]);
    let rig = Rig::start_with(
        &server,
        RigOptions {
            spec,
            ..RigOptions::default()
        },
    );
    let recorder = rig.record();
    settle().await;
    recorder.take();
    let (all, lists) = (Filter::any(), Filter::any().verb("list"));
    server.faults().freeze_watches(&all);
    server.faults().forbid(lists.clone());
    reconfigure(&rig, reading(&[])).await;
    delete(&server, &mine);
    // It returns before the list without it has come.
    reconfigure(&rig, reading(&[0])).await;
    server.faults().allow(&lists);
    pass(60).await;
    rig.informer.reconfigured().await.unwrap();
    // Not as one that is no longer selected: its last state was not seen.
    assert_eq!(recorder.take(), [format!("delete {mine} unknown (relist)")]);
}

#[tokio::test(start_paused = true)]
async fn shard_that_returns_while_a_list_waits_is_not_forgotten() {
    let server = api_server();
    let mine = names(0).next().unwrap();
    put(&server, &mine, 1);
    let rig = Rig::start_with(
        &server,
        RigOptions {
            spec: reading(&[0]),
            ..RigOptions::default()
        },
    );
    let recorder = rig.record();
    settle().await;
    recorder.take();
    for shards in [&[][..], &[0]] {
        let options = ReflectorOptions::default();
        rig.informer.reconfigure(reading(shards), options).await.unwrap();
        tokio::time::sleep(Duration::from_millis(200)).await;
    }
    put(&server, &mine, 2);
    rig.informer.reconfigured().await.unwrap();
    settle().await;
    assert_eq!(recorder.take(), [format!("update {mine} 1->2")]);
    assert_eq!(rig.informer.snapshot().shards(), reading(&[0]).shards.as_ref());
}

#[tokio::test(start_paused = true)]
async fn deletes_that_the_watch_before_sends_late_are_kept() {
    for is_late in [false, true] {
        let server = api_server();
        let other = names(1).next().unwrap();
        put(&server, &other, 1);
        let rig = Rig::start_with(
            &server,
            RigOptions {
                spec: reading(&[0]),
                ..RigOptions::default()
            },
        );
        rig.record();
        settle().await;
        let kept = rig.catalog.kept_deletes();
        kept.keep(Some(Duration::from_secs(600)), Moment::ZERO);
        let watches = Filter::any();
        server.faults().freeze_watches(&watches);
        delete(&server, &other);
        let options = ReflectorOptions::default();
        rig.informer.reconfigure(reading(&[0, 1]), options).await.unwrap();
        let wait = if is_late { 1_000 } else { 200 };
        tokio::time::sleep(Duration::from_millis(wait)).await;
        server.faults().thaw_watches(&watches);
        rig.informer.reconfigured().await.unwrap();
        pass(1).await;
        // Later, its watch has ended.
        assert_eq!(kept.of(rig.informer.source()).len(), usize::from(!is_late));
    }
}

#[tokio::test(start_paused = true)]
async fn delete_of_other_shards_after_a_waiting_list_is_kept() {
    for sharded_list_and_watch in [false, true] {
        let server = ApiServer::new(Options {
            sharded_list_and_watch,
            ..Options::default()
        });
        let reading = |shards: &[u8]| SourceSpec {
            shards: Some(ShardFilter {
                division: Division {
                    shards: 2,
                    hash: ShardHash::Raw,
                },
                by: ShardBy::Namespace,
                shards: shards.iter().copied().collect(),
            }),
            ..pods()
        };
        let is_first = reading(&[0]).shards.unwrap().includes(KeyRef::new("default", ""));
        let other = if is_first { 1 } else { 0 };
        put(&server, "web", 1);
        let rig = Rig::start_with(
            &server,
            RigOptions {
                spec: reading(&[]),
                ..RigOptions::default()
            },
        );
        settle().await;
        let kept = rig.catalog.kept_deletes();
        kept.keep(Some(Duration::from_secs(600)), Moment::ZERO);
        let options = ReflectorOptions::default();
        rig.informer.reconfigure(reading(&[other]), options).await.unwrap();
        tokio::time::sleep(Duration::from_millis(200)).await;
        delete(&server, "web");
        rig.informer.reconfigured().await.unwrap();
        pass(1).await;
        let kept = kept.of(rig.informer.source());
        assert!(!kept.is_empty(), "{sharded_list_and_watch}");
        assert!(kept.iter().all(|kept| kept.key.name() == "web"));
    }
}

#[tokio::test(start_paused = true)]
async fn unread_delete_while_a_list_waits_is_no_rollback() {
    let server = api_server();
    let (small, large) = (names(0).next().unwrap(), names(0).nth(1).unwrap());
    put(&server, &small, 1);
    put(&server, &large, 1);
    let mut options = RigOptions {
        spec: reading(&[0]),
        ..RigOptions::default()
    };
    options.informer.reflector.watch_line_bytes_max = 5_000;
    let reflector = options.informer.reflector;
    let rig = Rig::start_with(&server, options);
    let recorder = rig.record();
    settle().await;
    recorder.take();
    let watches = Filter::any();
    server.faults().freeze_watches(&watches);
    rig.informer.reconfigure(reading(&[0, 1]), reflector).await.unwrap();
    tokio::time::sleep(Duration::from_millis(200)).await;
    let mut object = server.get("v1/pods", "default", &large).unwrap().unwrap();
    object["metadata"]["annotations"] = json!({"padding": "x".repeat(10_000)});
    server.put("v1/pods", "default", object).unwrap();
    delete(&server, &large);
    server.faults().thaw_watches(&watches);
    rig.informer.reconfigured().await.unwrap();
    pass(1).await;
    let calls = recorder.take();
    assert_eq!(calls.len(), 1, "{calls:?}");
    assert!(calls[0].starts_with(&format!("delete {large}")), "{calls:?}");
}

#[tokio::test(start_paused = true)]
async fn undivided_handlers_receive_nothing_when_the_division_changes() {
    let server = api_server();
    let all: Vec<String> = (0..6).map(|number| format!("web-{number}")).collect();
    all.iter().for_each(|name| put(&server, name, 1));
    let rig = Rig::start_with(
        &server,
        RigOptions {
            spec: reading(&[0, 1]),
            ..RigOptions::default()
        },
    );
    let recorder = rig.record();
    settle().await;
    recorder.take();
    let mut spec = reading(&[0, 1]);
    let filter = spec.shards.as_mut().unwrap();
    filter.division.shards = 3;
    let filter = *filter;
    reconfigure(&rig, spec).await;
    let read = all
        .iter()
        .filter(|name| filter.includes(KeyRef::new("default", name.as_str())));
    assert_eq!(rig.names(), read.cloned().collect::<Vec<_>>());
    assert_eq!(recorder.take(), [""; 0]);
}

#[tokio::test(start_paused = true)]
async fn api_server_sends_only_raw_shards_if_it_can() {
    for is_supported in [false, true] {
        let server = ApiServer::new(Options {
            sharded_list_and_watch: is_supported,
            ..Options::default()
        });
        let division = Division {
            shards: 2,
            hash: ShardHash::Raw,
        };
        // `default` is in the second shard, `kube-node-lease` in the first.
        let shards = [division.shard_of("default")].into_iter().collect();
        assert_ne!(division.shard_of("default"), division.shard_of("kube-node-lease"));
        let by = ShardBy::Namespace;
        let spec = SourceSpec {
            shards: Some(ShardFilter { division, by, shards }),
            ..pods()
        };
        let elsewhere = || {
            let pod = json!({"metadata": {"name": "dns"}, "spec": {"containers": [{"name": "c", "image": "i"}]}});
            server.put("v1/pods", "kube-node-lease", pod).unwrap();
        };
        elsewhere();
        put(&server, "web", 1);
        let rig = Rig::start_with(
            &server,
            RigOptions {
                spec,
                ..by_watch_list()
            },
        );
        settle().await;
        server.delete("v1/pods", "kube-node-lease", "dns").unwrap();
        elsewhere();
        put(&server, "web", 2);
        settle().await;
        assert_eq!(rig.names(), ["web"]);
        let left_out = |request| {
            let series =
                format!(r#"reflector_other_shard_objects_total{{informer="pods",cluster="",request="{request}"}}"#);
            rig.metric(&series)
        };
        let wanted = if is_supported { [0.0, 0.0] } else { [1.0, 2.0] };
        assert_eq!(["list", "watch"].map(left_out), wanted);
    }
}

#[tokio::test(start_paused = true)]
async fn source_without_shards_reads_only_a_version() {
    let server = api_server();
    let pods: Vec<String> = names(0).take(3).collect();
    pods.iter().for_each(|name| put(&server, name, 1));
    let spec = reading(&[]);
    let rig = Rig::start_with(
        &server,
        RigOptions {
            spec,
            ..by_watch_list()
        },
    );
    let recorder = rig.record();
    settle().await;
    let series = r#"reflector_other_shard_objects_total{informer="pods",cluster="",request="list"}"#;
    assert_eq!((rig.names().len(), rig.metric(series)), (0, 1.0));
    recorder.take();
    reconfigure(&rig, reading(&[0])).await;
    let added: Vec<String> = pods.iter().map(|name| format!("add {name} (takeover)")).collect();
    assert_eq!(recorder.take(), added);
}
