//! Writes to a cluster, in every language: to the object of the event, deferred, and as far as they are granted.

use std::sync::Arc;

use informant_plugin_host::{KubeAddress, KubeCall};
use serde_json::json;

use super::Step::Put;
use super::{Run, every_language, rest, table};
use crate::kube::Cluster;

fn shown(address: &KubeAddress) -> String {
    let KubeAddress {
        cluster,
        resource,
        namespace,
        name,
        subresource,
    } = address;
    format!("{cluster}: {resource} {namespace}/{name}{subresource}")
}

/// A write goes to the event's object, in its cluster, or is refused. The informer is a pattern: it has several kinds.
#[tokio::test(start_paused = true)]
async fn every_language_writes_to_the_object_of_the_event() {
    let granted = json!([
        { "verbs": ["patch"], "resource": "v1/pods" },
        { "verbs": ["patch"], "resource": "v1/configmaps" },
    ]);
    every_language(table::WRITES, async |guest| {
        for (granted, outcome) in [(granted.clone(), "patched"), (json!([]), "denied")] {
            for clusters in [&[""][..], &["east", "west"]] {
                let api = Cluster::answering(Some(0));
                let mut run = Run::new(guest, "{}", clusters, Arc::clone(&api), granted.clone()).await;
                for cluster in clusters {
                    run.perform(&Put(cluster, "a", "patch", "one")).await;
                    assert_eq!(run.lines().last().unwrap(), outcome, "{}", guest.display());
                    let mut maps = run.world.objects_of("pods", cluster, "ConfigMap", "v1/configmaps");
                    maps.attach(&run.plugin.listener());
                    maps.apply_with("a", &rest("patch", "one"));
                    run.idle().await;
                    let sent: Vec<String> = api.take().into_iter().map(|call| shown(&call.address)).collect();
                    let expected = match outcome {
                        "patched" => ["v1/pods", "v1/configmaps"]
                            .map(|of| format!("{cluster}: {of} default/a"))
                            .to_vec(),
                        _ => Vec::new(),
                    };
                    assert_eq!(sent, expected, "{}", guest.display());
                }
            }
        }
    })
    .await;
}

/// What a pod wants, and the writes that follow: of the call that succeeds, in their order, and of no other call.
#[tokio::test(start_paused = true)]
async fn every_language_defers_writes_until_its_call_succeeds() {
    let granted = json!([
        { "verbs": ["create", "update"], "resource": "v1/configmaps" },
        { "verbs": ["patch", "delete"], "resource": "v1/pods" },
    ]);
    let in_order = [
        "create v1/configmaps default/",
        "update v1/configmaps default/a",
        "patch v1/pods default/a",
        "delete v1/pods default/a",
    ];
    every_language(table::DEFERRED, async |guest| {
        for (action, calls, sent) in [
            ("defer", 1, &in_order[..]),
            ("defer-retryable", 2, &in_order),
            ("defer-trap", 2, &in_order),
            ("defer-permanent", 1, &[]),
        ] {
            for cluster in ["", "west"] {
                let what = format!("{}: {action} in {cluster:?}", guest.display());
                let (api, granted) = (Cluster::answering(Some(0)), granted.clone());
                let mut run = Run::new(guest, "{}", &[cluster], Arc::clone(&api), granted).await;
                run.perform(&Put(cluster, "a", action, "one")).await;
                let deferred = "create=deferred update=deferred patch=deferred delete=deferred";
                let lines = run.lines();
                assert_eq!(
                    lines.iter().filter(|line| *line == deferred).count(),
                    calls,
                    "{what}: {lines:?}"
                );
                assert_eq!(writes(&api), of_cluster(cluster, sent), "{what}");
            }
        }
    })
    .await;
}

/// Each write is authorized when it is deferred. The granted ones are made.
#[tokio::test(start_paused = true)]
async fn no_language_defers_writes_that_are_not_granted() {
    let maps = json!([{ "verbs": ["create", "update"], "resource": "v1/configmaps" }]);
    every_language(table::DENIED, async |guest| {
        for (granted, outcomes, sent) in [
            (
                json!([]),
                "create=denied update=denied patch=denied delete=denied",
                &[][..],
            ),
            (
                maps.clone(),
                "create=deferred update=deferred patch=denied delete=denied",
                &["create v1/configmaps default/", "update v1/configmaps default/a"],
            ),
        ] {
            let api = Cluster::answering(Some(0));
            let mut run = Run::new(guest, "{}", &[""], Arc::clone(&api), granted).await;
            run.perform(&Put("", "a", "defer", "one")).await;
            assert_eq!(run.lines().last().unwrap(), outcomes, "{}", guest.display());
            assert_eq!(writes(&api), of_cluster("", sent), "{}", guest.display());
        }
    })
    .await;
}

/// What was sent, with the verbs.
fn writes(api: &Cluster) -> Vec<String> {
    let calls = api.take().into_iter();
    calls
        .map(|call| format!("{}: {}", call.address.cluster, shown_with_verb(&call)))
        .collect()
}

/// A write with its verb, without the cluster.
pub(super) fn shown_with_verb(call: &KubeCall) -> String {
    let KubeAddress {
        resource,
        namespace,
        name,
        subresource,
        ..
    } = &call.address;
    let subresource = match &**subresource {
        "" => String::new(),
        other => format!("/{other}"),
    };
    let verb = call.action.verb();
    format!("{} {resource} {namespace}/{name}{subresource}", verb.as_str())
}

fn of_cluster(cluster: &str, writes: &[&str]) -> Vec<String> {
    writes.iter().map(|write| format!("{cluster}: {write}")).collect()
}
