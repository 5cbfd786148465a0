//! Lists of a source that leave out the namespaces of other shards.

use std::time::Duration;

use informant_apiserver::{Answer, ApiServer, Filter};
use informant_cache::{Division, Moment, ShardBy, ShardFilter, ShardHash};
use informant_object::KeyRef;
use serde_json::json;

use crate::testing::{Rig, RigOptions, api_server, by_watch_list, settle};
use crate::{ReflectorOptions, SourceSpec};

const FOUR: Division = Division {
    shards: 4,
    hash: ShardHash::Mixed,
};

fn reading(shards: &[u8]) -> SourceSpec {
    SourceSpec {
        shards: Some(ShardFilter {
            division: FOUR,
            by: ShardBy::Namespace,
            shards: shards.iter().copied().collect(),
        }),
        ..crate::testing::pods()
    }
}

/// A namespace of each shard, each with a pod `web`.
fn namespaces(server: &ApiServer) -> [String; 4] {
    let found = [0, 1, 2, 3].map(|shard| {
        let mut names = (0..).map(|number| format!("team-{number}"));
        names.find(|name| FOUR.shard_of(name) == shard).unwrap()
    });
    for namespace in &found {
        let object = json!({"metadata": {"name": namespace}});
        server.put("v1/namespaces", "", object).unwrap();
        let pod = json!({"metadata": {"name": "web"}, "spec": {"containers": [{"name": "c", "image": "i"}]}});
        server.put("v1/pods", namespace, pod).unwrap();
    }
    found
}

async fn move_to(rig: &Rig, shards: &[u8]) {
    let options = ReflectorOptions {
        watch_list: true,
        ..ReflectorOptions::default()
    };
    rig.informer.reconfigure(reading(shards), options).await.unwrap();
    rig.informer.reconfigured().await.unwrap();
    settle().await;
}

fn started(server: &ApiServer) -> Rig {
    let spec = reading(&[0]);
    Rig::start_with(
        server,
        RigOptions {
            spec,
            ..by_watch_list()
        },
    )
}

/// The namespaces of the objects that are stored.
fn stored(rig: &Rig) -> Vec<String> {
    let snapshot = rig.informer.snapshot();
    snapshot
        .iter()
        .map(|object| object.key().namespace.to_owned())
        .collect()
}

#[tokio::test(start_paused = true)]
async fn list_after_a_move_asks_only_for_gained_and_own() {
    let server = api_server();
    let [zero, one, two, three] = namespaces(&server);
    let rig = started(&server);
    settle().await;
    let lists = rig.requests("list").len();
    move_to(&rig, &[0, 1]).await;
    // The first asks whether the request works at all.
    let list = rig.requests("list").split_off(lists).pop().unwrap();
    for (namespace, is_excluded) in [(&zero, false), (&one, false), (&two, true), (&three, true)] {
        let term = format!("metadata.namespace%21%3D{namespace}");
        assert_eq!(list.contains(&term), is_excluded, "{list}");
    }
    let mut both = vec![zero.clone(), one.clone()];
    both.sort();
    assert_eq!(stored(&rig), both);
    let left_out = r#"reflector_other_shard_objects_total{informer="pods",cluster="",request="list"}"#;
    assert_eq!(rig.metric(left_out), 3.0, "only by the first list");
    // A shard that is lost is excluded, too, and its namespace was never left out.
    move_to(&rig, &[1]).await;
    let list = rig.requests("list").pop().unwrap();
    assert!(
        list.contains(&format!("%3D{zero}")) && !list.contains(&format!("%3D{one}")),
        "{list}"
    );
    assert_eq!(stored(&rig), [one]);
}

#[tokio::test(start_paused = true)]
async fn watch_after_such_a_list_has_others_deletes() {
    let server = api_server();
    let [_, _, two, _] = namespaces(&server);
    let rig = started(&server);
    settle().await;
    let kept = rig.catalog.kept_deletes();
    kept.keep(Some(Duration::from_secs(600)), Moment::ZERO);
    move_to(&rig, &[0, 1]).await;
    server.delete("v1/pods", &two, "web").unwrap();
    settle().await;
    let kept = kept.of(rig.informer.source());
    assert_eq!(kept.len(), 1);
    assert_eq!(kept[0].key.as_ref(), KeyRef::new(&two, "web"));
}

#[tokio::test(start_paused = true)]
async fn api_server_that_refuses_the_selector_sends_all() {
    let server = api_server();
    let [zero, one, ..] = namespaces(&server);
    let rig = started(&server);
    settle().await;
    let answer = Answer::Raw {
        code: 431,
        content_type: "text/plain".to_owned(),
        body: "the address is too long".to_owned(),
    };
    let lists = Filter::any().verb("list").resource("pods");
    // The first asks whether the request works at all.
    server.faults().delay(lists.clone(), 1, Duration::from_secs(1));
    let options = ReflectorOptions::default();
    rig.informer.reconfigure(reading(&[0, 1]), options).await.unwrap();
    tokio::time::sleep(Duration::from_millis(500)).await;
    server.faults().answer(lists, 1, answer);
    rig.informer.reconfigured().await.unwrap();
    settle().await;
    let mut both = vec![zero, one];
    both.sort();
    assert_eq!(stored(&rig), both);
}
