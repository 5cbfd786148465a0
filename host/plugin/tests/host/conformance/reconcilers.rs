//! Reconcilers in every language: what leads to a call, and what one writes.

use std::path::Path;
use std::sync::Arc;
use std::time::Duration;

use informant_cache::SourceState;
use informant_plugin_host::{KubeAction, KubeCall};
use serde_json::{Value, json};

use super::{Run, every_reconciler, table};
use crate::kube::{Cluster, grants};
use crate::world::{Pods, World};

/// The plugin that reconciles pods, and owns config maps.
pub(super) struct Site {
    pub(super) run: Run,
    api: Arc<Cluster>,
    maps: Pods,
    /// How many lines were looked at, and how many pods written.
    seen: usize,
    written: usize,
}

impl Site {
    async fn new(guest: &Path) -> Site {
        let api = Cluster::answering(Some(0));
        let world = World::for_conformance(Arc::clone(&api) as _);
        Site::of(world, api, guest).await
    }

    pub(super) async fn of(world: World, api: Arc<Cluster>, guest: &Path) -> Site {
        let mut run = Run::unattached(world, guest, &[""], |spec| {
            spec.informers.push(("maps".into(), "maps".into()));
            spec.allow_events = true;
            spec.allow_kube = grants(json!([
                { "verbs": ["create", "update", "patch", "delete"], "resource": "v1/configmaps" },
                { "verbs": ["patch"], "resource": "v1/pods" },
                { "verbs": ["patch"], "resource": "v1/pods", "subresources": ["status"] },
            ]));
        })
        .await;
        let mut maps = run.world.objects_of("maps", "", "ConfigMap", "v1/configmaps");
        // Both at once: what is added later leads to every pod once.
        let listener = run.plugin.listener();
        run.pods("").attach(&listener);
        maps.attach(&listener);
        run.idle().await;
        Site {
            run,
            api,
            maps,
            seen: 0,
            written: 0,
        }
    }

    /// Writes a pod, which differs from before in any case, with these further members of metadata and of the object.
    fn write(&mut self, name: &str, (action, text): (&str, &str), metadata: &Value, more: &Value) {
        self.written += 1;
        let annotations = json!({ "do": action, "written": self.written.to_string() });
        let metadata = merged(metadata, &json!({ "annotations": annotations }));
        let more = merged(more, &json!({ "spec": { "text": text } }));
        self.run.pods("").apply_with(name, &rest_of(&metadata, &more));
    }

    pub(super) async fn put(&mut self, name: &str, action: &str, text: &str) -> Vec<String> {
        self.write(name, (action, text), &json!({}), &json!({}));
        self.new_lines().await
    }

    /// What the plugin has logged since the last time, when it is idle.
    pub(super) async fn new_lines(&mut self) -> Vec<String> {
        self.run.idle().await;
        let lines = self.run.lines();
        let new = lines[self.seen..].to_vec();
        self.seen = lines.len();
        new
    }

    /// The writes that were sent since the last time, and their documents.
    fn sent(&self) -> (Vec<String>, Vec<Value>) {
        let calls = self.api.take().into_iter();
        calls
            .filter(|call| !call.is_event())
            .map(|call| (super::writes::shown_with_verb(&call), document(&call)))
            .unzip()
    }

    /// The Kubernetes Events that were sent since the last time, at least `count`, without those of the timer `poll`.
    pub(super) async fn events(&self, count: usize) -> Vec<Value> {
        let mut events = Vec::new();
        let all = || {
            let calls = self.api.take().into_iter();
            let sent = calls.filter(KubeCall::is_event).map(|call| document(&call));
            events.extend(sent.filter(|event| event["note"].as_str().is_some_and(|note| !note.starts_with("poll"))));
            events.len() >= count
        };
        self.run.world.until("Events", all).await;
        events
    }
}

fn document(call: &KubeCall) -> Value {
    match &call.action {
        KubeAction::Create(document, _) | KubeAction::Update(document, _) | KubeAction::Patch(_, document, _) => {
            serde_json::from_slice(document).unwrap()
        }
        _ => Value::Null,
    }
}

fn merged(one: &Value, other: &Value) -> Value {
    let members = [one, other]
        .into_iter()
        .flat_map(|value| value.as_object().unwrap().clone());
    Value::Object(members.collect())
}

/// What follows the resource version of an object with these members: without the braces that end it.
fn rest_of(metadata: &Value, more: &Value) -> String {
    let (metadata, more) = (metadata.to_string(), more.to_string());
    let members = |text: &str| text[1..text.len() - 1].to_owned();
    format!(
        ",{}}},{}",
        members(&metadata),
        members(&more).strip_suffix('}').unwrap()
    )
}

const OWNER: &str =
    r#","ownerReferences":[{"apiVersion":"v1","kind":"Pod","name":"a","uid":"uid-a","controller":true}]"#;

#[tokio::test(start_paused = true)]
async fn every_language_reconciles_for_changes_that_count() {
    every_reconciler(table::RECONCILED, async |guest| {
        let mut site = Site::new(guest).await;
        let what = guest.display();
        let lines = site.put("a", "", "aä€😀").await;
        assert_eq!(lines, ["reconcile default/a watch 0 text=aä€😀"], "{what}");
        // No part of it that counts has changed.
        let same = rest_of(
            &json!({ "labels": { "a": "b" }, "annotations": { "do": "", "written": "1" } }),
            &json!({ "spec": { "text": "aä€😀" } }),
        );
        site.run.pods("").apply_with("a", &same);
        site.maps.apply("without-owner");
        assert_eq!(site.new_lines().await, Vec::<String>::new(), "{what}");
        site.maps.apply_with("of-a", OWNER);
        let lines = site.new_lines().await;
        assert_eq!(lines, ["reconcile default/a related 0 text=aä€😀"], "{what}");
        let lines = site.put("a", "retryable", "one").await;
        let attempts = ["0", "1"].map(|attempt| format!("reconcile default/a watch {attempt} text=one"));
        assert_eq!(lines, attempts, "{what}");
        let again = [
            "reconcile default/a watch 0 text=one",
            "reconcile default/a requeue-after 0 text=one",
        ];
        let mut lines = site.put("a", "requeue", "one").await;
        tokio::time::sleep(Duration::from_millis(200)).await;
        lines.extend(site.new_lines().await);
        assert_eq!(lines, again, "{what}");
        let source = site.run.world.catalog.source(site.maps.id).unwrap();
        source.set_state(SourceState::Stale);
        let lines = site.put("a", "", "two").await;
        assert_eq!(lines, ["reconcile default/a watch 0 text=two behind"], "{what}");
    })
    .await;
}

#[tokio::test(start_paused = true)]
async fn every_language_reconciles_what_is_gone_once() {
    every_reconciler(table::GONE, async |guest| {
        let mut site = Site::new(guest).await;
        for name in ["a", "b", "c"] {
            site.put(name, "", "one").await;
        }
        site.run.pods("").delete("a");
        site.run.pods("").forget("b");
        // What it owned changes nothing: there is one cause.
        site.maps.apply_with("of-a", OWNER);
        let mut lines = site.new_lines().await;
        lines.sort();
        let gone = ["a", "b"].map(|name| format!("reconcile default/{name} watch 0 gone"));
        assert_eq!(lines, gone, "{}", guest.display());
        assert_eq!(site.new_lines().await, Vec::<String>::new(), "{}", guest.display());
    })
    .await;
}

/// What the pod `a` makes a child have, besides its name and namespace: metadata, and other members.
fn child_parts(text: &str) -> (Value, Value) {
    let owner = json!({
        "apiVersion": "v1", "kind": "Pod", "name": "a", "uid": "uid-a", "controller": true, "blockOwnerDeletion": true,
    });
    let labels = json!({ "informant.dev/owner-uid": "uid-a", "informant.dev/plugin": "conformance" });
    let metadata = json!({ "labels": labels, "ownerReferences": [owner] });
    (metadata, json!({ "data": { "of": text } }))
}

/// The whole child.
fn child(name: &str, text: &str) -> Value {
    let (metadata, more) = child_parts(text);
    let metadata = merged(&json!({ "namespace": "default", "name": name }), &metadata);
    let document = json!({ "apiVersion": "v1", "kind": "ConfigMap", "metadata": metadata });
    merged(&document, &more)
}

#[tokio::test(start_paused = true)]
async fn every_language_sets_the_children_of_an_object() {
    every_reconciler(table::CHILDREN, async |guest| {
        let mut site = Site::new(guest).await;
        let what = guest.display();
        let lines = site.put("a", "children", "x,fields-y").await;
        assert_eq!(lines[1], "written=2 pruned=0 refused= skipped=false", "{what}");
        let (mut sent, mut documents) = site.sent();
        sent.sort();
        documents.sort_by_key(|document| document["metadata"]["name"].to_string());
        let made = ["create v1/configmaps default/", "patch v1/configmaps default/fields-y"];
        assert_eq!(sent, made, "{what}");
        let expected = ["fields-y", "x"].map(|name| child(name, "x,fields-y"));
        assert_eq!(documents, expected, "{what}");
        // The cache sees both.
        let (metadata, more) = child_parts("x,fields-y");
        for name in ["x", "fields-y"] {
            site.maps.apply_with(name, &rest_of(&metadata, &more));
        }
        let lines = site.new_lines().await;
        assert_eq!(lines[0], "reconcile default/a related 0 text=x,fields-y", "{what}");
        site.sent();
        let lines = site.put("a", "children", "x").await;
        assert_eq!(lines[1], "written=1 pruned=1 refused= skipped=false", "{what}");
        let left = [
            "update v1/configmaps default/x",
            "delete v1/configmaps default/fields-y",
        ];
        assert_eq!(site.sent().0, left, "{what}");
        // Somebody else's. Without a live source, nothing is deleted.
        site.maps.apply("theirs");
        let source = site.run.world.catalog.source(site.maps.id).unwrap();
        source.set_state(SourceState::Stale);
        let lines = site.put("a", "children", "theirs").await;
        let refused = "written=0 pruned=0 refused=ConfigMap default/theirs skipped=true";
        assert_eq!(lines[1], refused, "{what}");
        assert_eq!(site.sent().0, Vec::<String>::new(), "{what}");
        // No change leads to the next call, which comes nevertheless.
        tokio::time::sleep(Duration::from_secs(61)).await;
        let lines = site.new_lines().await;
        let again = "reconcile default/a requeue-after 0 text=theirs behind";
        assert!(lines.iter().any(|line| line == again), "{what}: {lines:?}");
    })
    .await;
}

#[tokio::test(start_paused = true)]
async fn every_language_writes_a_status_that_differs() {
    every_reconciler(table::STATUS, async |guest| {
        let mut site = Site::new(guest).await;
        let what = guest.display();
        site.maps.apply("theirs");
        site.put("a", "status", "theirs").await;
        let (sent, documents) = site.sent();
        assert_eq!(sent, ["patch v1/pods default/a/status"], "{what}");
        // A conflict if the pod has changed.
        assert_eq!(documents[0]["metadata"]["resourceVersion"], "2", "{what}");
        let mut status = documents[0]["status"].clone();
        for condition in status["conditions"].as_array_mut().unwrap() {
            let since = condition.as_object_mut().unwrap().remove("lastTransitionTime");
            assert!(
                since.is_some_and(|time| time.as_str().unwrap().ends_with('Z')),
                "{what}: {condition}"
            );
        }
        let expected = json!({ "text": "theirs", "conditions": [
            { "type": "ChildrenRefused", "status": "True", "reason": "OwnedByOthers",
                "message": "ConfigMap default/theirs" },
            { "type": "PruneSkipped", "status": "False", "reason": "NoneSkipped", "message": "" },
        ] });
        assert_eq!(status, expected, "{what}");
        let written = json!({ "status": documents[0]["status"] });
        site.write("a", ("status", "theirs"), &json!({}), &written);
        assert_eq!(site.new_lines().await.len(), 2, "{what}");
        assert_eq!(site.sent().0, Vec::<String>::new(), "{what}");
    })
    .await;
}

#[tokio::test(start_paused = true)]
async fn every_language_removes_its_finalizer_after_the_cleanup() {
    every_reconciler(table::FINALIZER, async |guest| {
        let mut site = Site::new(guest).await;
        let what = guest.display();
        let (theirs, both) = (json!(["theirs"]), json!(["theirs", "informant.dev/conformance"]));
        let deleted = "2026-11-22T00:00:00Z";
        for (metadata, lines, finalizers) in [
            (json!({ "finalizers": theirs }), &["finalize=false"][..], Some(&both)),
            (json!({ "finalizers": both }), &["finalize=true"], None),
            (
                json!({ "finalizers": both, "deletionTimestamp": deleted }),
                &["clean up", "finalize=false"],
                Some(&theirs),
            ),
            (
                json!({ "finalizers": theirs, "deletionTimestamp": deleted }),
                &["finalize=false"],
                None,
            ),
        ] {
            site.write("a", ("finalize", "one"), &metadata, &json!({}));
            assert_eq!(site.new_lines().await[1..], *lines, "{what}: {metadata}");
            let (sent, documents) = site.sent();
            let patches = finalizers.map(|_| "patch v1/pods default/a".to_owned());
            assert_eq!(sent, patches.into_iter().collect::<Vec<_>>(), "{what}: {metadata}");
            let set = documents.first().map(|document| &document["metadata"]["finalizers"]);
            assert_eq!(set, finalizers, "{what}: {metadata}");
        }
    })
    .await;
}
