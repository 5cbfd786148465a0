//! Calls to the cluster: only what is granted, only to the named object, and never for longer than the guest's call.

use std::sync::{Arc, Mutex};
use std::time::Duration;

use informant_cache::{SourceInfo, SourceState};
use informant_plugin_host::{KubeApi, KubeCall, KubeError, KubeFuture, Plugin};
use informant_spec::{Exclude, GroupVersionResource, InformerGrant, KubeGrant, KubeVerb, PluginSpec};
use serde_json::{Value, json};

use crate::world::{Reload, World, guest, idle, spec};

/// A cluster that records its calls, and answers after a while, or never.
#[derive(Default)]
pub(crate) struct Cluster {
    calls: Mutex<Vec<KubeCall>>,
    /// Milliseconds until each answer; none: it never answers.
    answers_after_ms: Option<u64>,
}

impl Cluster {
    pub(crate) fn answering(answers_after_ms: Option<u64>) -> Arc<Cluster> {
        Arc::new(Cluster {
            calls: Mutex::default(),
            answers_after_ms,
        })
    }

    pub(crate) fn take(&self) -> Vec<KubeCall> {
        std::mem::take(&mut self.calls.lock().unwrap())
    }
}

impl KubeApi for Cluster {
    fn call(&self, call: KubeCall) -> KubeFuture {
        let answer = match call.action.verb().as_str() {
            "list" => {
                json!({ "kind": "PodList", "apiVersion": "v1", "metadata": {}, "items": [{ "metadata": { "name": "a" } }] })
            }
            _ => json!({ "kind": "Pod", "apiVersion": "v1" }),
        };
        self.calls.lock().unwrap().push(call);
        let after = self.answers_after_ms;
        Box::pin(async move {
            match after {
                None => std::future::pending().await,
                Some(0) => {}
                Some(ms) => tokio::time::sleep(Duration::from_millis(ms)).await,
            }
            Ok(answer.to_string().into_bytes())
        })
    }
}

pub(crate) fn grants(grants: Value) -> Vec<KubeGrant> {
    serde_json::from_value(grants).unwrap()
}

/// A grant to delete all that the informer `all` watches, except Secrets.
fn delete_all() -> InformerGrant {
    InformerGrant {
        verbs: vec![KubeVerb::Delete],
        informer: "all".to_owned(),
        exclude: Exclude {
            resources: vec![GroupVersionResource::new("", "v1", "secrets")],
            versions: Vec::new(),
        },
        subresources: Vec::new(),
    }
}

/// Runs a plugin that makes `calls` for an event of a pod. Returns it and the answers.
async fn answers(
    world: &World,
    calls: Value,
    granted: Value,
    adjust: impl FnOnce(&mut PluginSpec),
) -> (Plugin, Vec<Value>) {
    let times = |call: &Value| usize::try_from(call["times"].as_u64().unwrap_or(1)).unwrap();
    let count = calls.as_array().unwrap().iter().map(times).sum();
    let plugin = world
        .run("guest_kube", json!({ "calls": calls }), |spec| {
            spec.allow_kube = grants(granted);
            adjust(spec);
        })
        .await;
    let mut pods = world.pods("pods");
    pods.attach(&plugin.listener());
    pods.apply("web-0");
    let answers = world.recorded(count, |line| line["event"] == "add").await;
    (plugin, answers)
}

fn message(answer: &Value) -> &str {
    answer["message"].as_str().unwrap_or_default()
}

/// One call of each verb, and one of a subresource.
fn each_verb() -> Value {
    let pod = json!({ "metadata": { "name": "web-0", "uid": "u" } });
    json!([
        { "verb": "get", "resource": "v1/pods", "namespace": "web", "name": "$name" },
        { "verb": "list", "resource": "v1/pods", "namespace": "web" },
        { "verb": "create", "resource": "v1/pods", "namespace": "web", "document": pod },
        { "verb": "update", "resource": "v1/pods", "namespace": "web", "name": "$name", "document": pod },
        { "verb": "merge", "resource": "v1/pods", "namespace": "web", "name": "$name", "document": {} },
        { "verb": "merge", "resource": "v1/pods", "namespace": "web", "name": "$name", "subresource": "status", "document": {} },
        { "verb": "delete", "resource": "v1/pods", "namespace": "web", "name": "$name" },
    ])
}

#[tokio::test]
async fn each_denied_verb_names_the_missing_grant() {
    let cluster = Cluster::answering(Some(0));
    let world = World::with_cluster(cluster.clone());
    let granted = json!([{ "verbs": ["get"], "resource": "v1/configmaps" }]);
    let (_plugin, answers) = answers(&world, each_verb(), granted, |_| {}).await;
    assert!(answers.iter().all(|answer| answer["code"] == "denied"), "{answers:?}");
    assert_eq!(cluster.take(), [], "nothing was sent");
    let text: Vec<&str> = answers.iter().map(message).collect();
    insta::assert_snapshot!(text.join("\n"), @r#"
    get v1/pods "web-0" in namespace "web" is not granted; in config.toml, set in [plugin.guest_kube]: allow.kube = [{ verbs = ["get"], resource = "v1/configmaps" }, { verbs = ["get"], resource = "v1/pods", namespaces = ["web"] }]
    list v1/pods in namespace "web" is not granted; in config.toml, set in [plugin.guest_kube]: allow.kube = [{ verbs = ["get"], resource = "v1/configmaps" }, { verbs = ["list"], resource = "v1/pods", namespaces = ["web"] }]
    create v1/pods "web-0" in namespace "web" is not granted; in config.toml, set in [plugin.guest_kube]: allow.kube = [{ verbs = ["get"], resource = "v1/configmaps" }, { verbs = ["create"], resource = "v1/pods", namespaces = ["web"] }]
    update v1/pods "web-0" in namespace "web" is not granted; in config.toml, set in [plugin.guest_kube]: allow.kube = [{ verbs = ["get"], resource = "v1/configmaps" }, { verbs = ["update"], resource = "v1/pods", namespaces = ["web"] }]
    patch v1/pods "web-0" in namespace "web" is not granted; in config.toml, set in [plugin.guest_kube]: allow.kube = [{ verbs = ["get"], resource = "v1/configmaps" }, { verbs = ["patch"], resource = "v1/pods", namespaces = ["web"] }]
    patch v1/pods/status "web-0" in namespace "web" is not granted; in config.toml, set in [plugin.guest_kube]: allow.kube = [{ verbs = ["get"], resource = "v1/configmaps" }, { verbs = ["patch"], resource = "v1/pods", namespaces = ["web"], subresources = ["status"] }]
    delete v1/pods "web-0" in namespace "web" is not granted; in config.toml, set in [plugin.guest_kube]: allow.kube = [{ verbs = ["get"], resource = "v1/configmaps" }, { verbs = ["delete"], resource = "v1/pods", namespaces = ["web"] }]
    "#);
}

#[tokio::test]
async fn each_verb_works_with_the_suggested_grant() {
    let cluster = Cluster::answering(Some(0));
    let world = World::with_cluster(cluster.clone());
    let granted = json!([
        { "verbs": ["get", "list", "create", "update", "patch", "delete"], "resource": "v1/pods", "namespaces": ["web"] },
        { "verbs": ["patch"], "resource": "v1/pods", "namespaces": ["web"], "subresources": ["status"] },
    ]);
    let (plugin, answers) = answers(&world, each_verb(), granted, |_| {}).await;
    assert!(answers.iter().all(|answer| answer["code"] == "ok"), "{answers:?}");
    assert_eq!(
        answers[1]["answer"],
        json!([{ "apiVersion": "v1", "kind": "Pod", "metadata": { "name": "a" } }])
    );
    let sent = cluster.take();
    assert_eq!(sent.len(), 7);
    assert!(
        sent.iter()
            .all(|call| &*call.plugin == "guest_kube" && call.address.namespace == "web")
    );
    let informant_plugin_host::KubeAction::Create(_, options) = &sent[2].action else {
        panic!("{:?}", sent[2]);
    };
    assert_eq!(options.field_manager, "informant-guest_kube");
    let counted = world.metrics("informant_plugin_kube_calls_total");
    assert!(
        counted.contains(r#"{plugin="guest_kube",verb="patch",result="ok"} 2"#),
        "{counted}"
    );
    plugin.stop(Duration::from_secs(5)).await;
    drop(plugin);
    world
        .until("its series end", || world.metrics("informant_plugin_kube").is_empty())
        .await;
}

/// One cluster with a name, as it is left when another one was removed.
struct Named(Arc<Cluster>);

impl KubeApi for Named {
    fn call(&self, call: KubeCall) -> KubeFuture {
        self.0.call(call)
    }

    fn cluster(&self, _: &str) -> Result<String, KubeError> {
        Ok("west".to_owned())
    }
}

#[tokio::test]
async fn calls_for_a_removed_cluster_go_to_no_other() {
    let cluster = Cluster::answering(Some(0));
    let world = World::with_cluster(Arc::new(Named(cluster.clone())));
    let merge = json!({ "verb": "merge", "resource": "v1/pods", "namespace": "web", "name": "a", "document": {} });
    let mut deferred = merge.clone();
    deferred["defers"] = json!(true);
    let granted = json!([{ "verbs": ["patch"], "resource": "v1/pods" }]);
    let plugin = world
        .run("guest_kube", json!({ "calls": [merge, deferred] }), |spec| {
            spec.allow_kube = grants(granted);
        })
        .await;
    let mut pods = world.pods("pods");
    pods.attach(&plugin.listener());
    plugin.pause().await;
    pods.apply("web-0");
    world.catalog.remove_source(pods.id);
    plugin.resume().await;
    let answers = world.recorded(2, |line| line["event"] == "add").await;
    assert!(
        answers.iter().all(|answer| answer["code"] == "unavailable"),
        "{answers:?}"
    );
    assert_eq!(cluster.take(), [], "nothing was sent");
}

#[tokio::test]
async fn calls_that_may_create_an_object_need_the_create_grant() {
    let cluster = Cluster::answering(Some(0));
    let world = World::with_cluster(cluster.clone());
    let call = |verb: &str, document: Value| json!({ "verb": verb, "resource": "v1/pods", "namespace": "web", "name": "a", "document": document });
    let bound = json!({ "metadata": { "uid": "u" } });
    let calls = json!([
        call("apply", json!({})),
        call("update", json!({})),
        call("apply", bound.clone()),
        call("update", bound)
    ]);
    let granted = json!([{ "verbs": ["patch", "update"], "resource": "v1/pods" }]);
    let (_plugin, answers) = answers(&world, calls, granted, |_| {}).await;
    let codes: Vec<&str> = answers.iter().map(|answer| answer["code"].as_str().unwrap()).collect();
    assert_eq!(codes, ["denied", "denied", "ok", "ok"]);
    assert!(
        message(&answers[0]).starts_with("create v1/pods \"a\""),
        "{}",
        message(&answers[0])
    );
}

#[tokio::test]
async fn a_grant_by_name_applies_to_created_objects() {
    let cluster = Cluster::answering(Some(0));
    let world = World::with_cluster(cluster.clone());
    let create =
        |document: Value| json!({ "verb": "create", "resource": "v1/pods", "namespace": "web", "document": document });
    let calls = json!([
        create(json!({ "metadata": { "name": "a" } })),
        create(json!({ "metadata": { "name": "b" } })),
        create(json!({ "metadata": { "generateName": "a" } })),
        create(json!("no object")),
    ]);
    let granted = json!([{ "verbs": ["create"], "resource": "v1/pods", "names": ["a"] }]);
    let (_plugin, answers) = answers(&world, calls, granted, |_| {}).await;
    let codes: Vec<&str> = answers.iter().map(|answer| answer["code"].as_str().unwrap()).collect();
    assert_eq!(codes, ["ok", "denied", "denied", "invalid"]);
}

#[tokio::test]
async fn create_takes_the_name_from_the_object() {
    let cluster = Cluster::answering(Some(0));
    let world = World::with_cluster(cluster.clone());
    let named = |verb: &str| json!({ "verb": verb, "resource": "v1/pods", "namespace": "web", "name": "a", "document": { "metadata": { "name": "a" } } });
    let granted = json!([{ "verbs": ["create"], "resource": "v1/pods" }]);
    let (_plugin, answers) = answers(&world, json!([named("create")]), granted, |_| {}).await;
    insta::assert_snapshot!(message(&answers[0]), @"create takes the address of a collection, such as { resource, namespace }: put the name into metadata.name of the object, and leave name empty");
    assert_eq!(cluster.take(), [], "nothing was sent");
}

#[tokio::test]
async fn an_ambiguous_address_is_rejected_before_grants_are_checked() {
    let cluster = Cluster::answering(Some(0));
    let world = World::with_cluster(cluster.clone());
    let get = |resource: &str, namespace: &str, name: &str, subresource: &str| json!({ "verb": "get", "resource": resource, "namespace": namespace, "name": name, "subresource": subresource });
    let calls = json!([
        get("pods", "web", "a", ""),
        get("v1/pods", "web", "../secrets/a", ""),
        get("v1/pods", "web/pods/b", "a", ""),
        get("v1/pods", "web", "a?x=1", ""),
        get("v1/pods", "web", "..", ""),
        get("v1/pods", "web", "", ""),
        get("rbac.authorization.k8s.io/v1/roles", "web", "a/b", ""),
        get("rbac.authorization.k8s.io/v1/roles", "web", "a%2fb", ""),
        get("rbac.authorization.k8s.io/v1/roles", "web", "..", ""),
        get("v1/namespaces", "", "kube-system", "secrets"),
        get("v1/namespaces", "web", "kube-system", ""),
        get("v1/watch", "", "pods", ""),
        { "verb": "update", "resource": "v1/pods", "namespace": "web", "name": "a", "document-bytes": 4 << 20 },
    ]);
    let (_plugin, answers) = answers(&world, calls, json!([]), |_| {}).await;
    let line = |answer: &Value| format!("{}: {}", answer["code"].as_str().unwrap(), message(answer));
    let text: Vec<String> = answers.iter().map(line).collect();
    insta::assert_snapshot!(text.join("\n"), @r#"
    invalid: "pods" is not a resource: a version and a plural are required; write `v1/pods` or `apps/v1/deployments`
    invalid: name: "../secrets/a" is not a valid name
    invalid: namespace: "web/pods/b" is not a valid name
    invalid: name: "a?x=1" is not a valid name
    invalid: name: ".." is not a valid name
    invalid: get needs the name of an object
    invalid: name: "a/b" is not a valid name
    invalid: name: "a%2fb" is not a valid name
    invalid: name: ".." is not a valid name
    invalid: a namespace has no subresource "secrets"
    invalid: a namespace is not in a namespace: leave `namespace` empty
    invalid: "v1/watch" is not a resource: its last part is not a lowercase plural; write `v1/pods` or `apps/v1/deployments`
    too-large: the document is too large: 4194306 bytes; at most 3145728 are allowed
    "#);
    assert_eq!(cluster.take(), []);
}

#[tokio::test]
async fn index_functions_and_describe_are_denied_the_cluster() {
    let cluster = Cluster::answering(Some(0));
    let world = World::with_cluster(cluster.clone());
    let calls = json!([{ "verb": "get", "resource": "v1/pods", "name": "a" }]);
    let granted = json!([{ "verbs": ["get"], "resource": "v1/pods" }]);
    let (plugin, _) = answers(&world, calls, granted, |_| {}).await;
    let described = world.recorded(1, |line| line["event"] == "describe").await;
    assert_eq!(described[0]["code"], "not-here", "{described:?}");
    assert!(
        message(&described[0]).starts_with("describe must depend"),
        "{described:?}"
    );
    assert_eq!(cluster.take().len(), 1, "the handler's own");
    drop(plugin);
}

#[tokio::test]
async fn a_cluster_that_never_answers_times_out_before_the_call() {
    let world = World::with_cluster(Cluster::answering(None));
    let calls = json!([{ "verb": "get", "resource": "v1/pods", "name": "a", "times": 2 }]);
    let granted = json!([{ "verbs": ["get"], "resource": "v1/pods" }]);
    let (plugin, answers) = answers(&world, calls, granted, |spec| {
        spec.limits.call = Duration::from_secs(10)
    })
    .await;
    assert_eq!(answers[0]["code"], "timeout", "{answers:?}");
    // There was no time left for the second.
    assert_eq!(answers[1]["code"], "timeout", "{answers:?}");
    assert!(
        message(&answers[0]).contains("may still have taken effect"),
        "{answers:?}"
    );
    assert_eq!(plugin.status().restarts, 0, "the instance lives");
}

#[tokio::test]
async fn waiting_for_the_cluster_is_not_charged_as_running() {
    let world = World::with_cluster(Cluster::answering(Some(5)));
    let calls = json!([{ "verb": "get", "resource": "v1/pods", "name": "a", "times": 100 }]);
    let granted = json!([{ "verbs": ["get"], "resource": "v1/pods" }]);
    let (plugin, answers) = answers(&world, calls, granted, |spec| {
        spec.limits.cpu = Duration::from_millis(100)
    })
    .await;
    assert_eq!(answers.len(), 100);
    assert_eq!(plugin.status().restarts, 0);
}

#[tokio::test]
async fn grants_change_while_the_instance_runs() {
    let cluster = Cluster::answering(Some(0));
    let world = World::with_cluster(cluster.clone());
    let calls = json!([{ "verb": "get", "resource": "v1/pods", "name": "a" }]);
    let plugin = world.run("guest_kube", json!({ "calls": calls }), |_| {}).await;
    let mut pods = world.pods("pods");
    pods.attach(&plugin.listener());
    let granted = json!([{ "verbs": ["get"], "resource": "v1/pods" }]);
    for (name, allow, code) in [
        ("a", json!([]), "denied"),
        ("b", granted, "ok"),
        ("c", json!([]), "denied"),
    ] {
        let spec = PluginSpec {
            allow_kube: grants(allow),
            ..plugin.spec()
        };
        assert!(plugin.reconfigure(spec).await.unwrap().is_none(), "no new instance");
        pods.apply(name);
        let answer = world
            .recorded(1, |line| line["event"] == "add" && line["object"] == name)
            .await;
        assert_eq!(answer[0]["code"], code, "{answer:?}");
    }
    assert_eq!(cluster.take().len(), 1);
}

#[tokio::test]
async fn an_ungranted_requirement_is_rejected_at_load_and_at_reload() {
    let world = World::new();
    let error = world.load(spec("image_mark", json!({}))).await.err().unwrap();
    let text = error.to_string();
    let (_, reason) = text.split_once(".wasm: ").unwrap();
    insta::assert_snapshot!(reason, @r#"requires access that is not granted; in config.toml, set in [plugin.image_mark]: allow.kube = [{ verbs = ["patch"], resource = "v1/pods" }]"#);

    let mut granted = spec("image_mark", json!({}));
    granted.allow_kube = grants(json!([{ "verbs": ["patch"], "resource": "v1/pods", "namespaces": ["web"] }]));
    assert!(world.load(granted).await.is_ok());

    let plugin = world.run("guest_recorder", json!({}), |_| {}).await;
    let digest = plugin.digest();
    assert!(plugin.swap(&guest("image_mark")).await.is_err());
    assert_eq!(plugin.digest(), digest, "the old version keeps running");
}

#[tokio::test]
async fn an_empty_cluster_is_that_of_the_object() {
    let cluster = Cluster::answering(Some(0));
    let world = World::with_cluster(cluster.clone());
    let calls = json!([
        { "verb": "get" },
        { "verb": "get", "resource": "v1/nodes", "name": "n1" },
        { "verb": "get", "resource": "v1/nodes", "name": "n1", "cluster": "west" },
    ]);
    let plugin = world
        .run("guest_kube", json!({ "calls": calls }), |spec| {
            spec.informers = vec![("pods".into(), "pods".into())];
            spec.allow_kube = grants(json!([
                { "verbs": ["get"], "resource": "v1/pods" },
                { "verbs": ["get"], "resource": "v1/nodes" },
            ]));
        })
        .await;
    let mut sent = Vec::new();
    for name in ["east", "west"] {
        let mut pods = world.pods_of("pods", name);
        pods.attach(&plugin.listener());
        pods.apply("a");
        idle(&world, &plugin).await;
        sent.extend(cluster.take().into_iter().map(|call| {
            let address = call.address;
            format!("{name}: {} in {}", address.resource, address.cluster)
        }));
    }
    insta::assert_snapshot!(sent.join("\n"), @"
    east: v1/pods in east
    east: v1/nodes in east
    east: v1/nodes in west
    west: v1/pods in west
    west: v1/nodes in west
    west: v1/nodes in west
    ");
}

#[tokio::test]
async fn informer_grant_covers_what_is_watched_where_it_is() {
    let cluster = Cluster::answering(Some(0));
    let world = World::with_cluster(cluster.clone());
    let source = |cluster: &str, resource: &str, namespace: Option<&str>| {
        world.catalog.add_source(SourceInfo {
            informer: "all".to_owned(),
            cluster: cluster.to_owned(),
            api_version: "v1".to_owned(),
            kind: "Any".to_owned(),
            resource: resource.to_owned(),
            namespace: namespace.map(str::to_owned),
            namespaced: true,
            partial: false,
        })
    };
    source("", "v1/configmaps", None);
    source("", "v1/secrets", None);
    source("", "apps/v1/deployments", Some("web"));
    source("west", "v1/services", None);
    let refused = source("", "v1/endpoints", None);
    world.catalog.source(refused).unwrap().set_state(SourceState::Forbidden);
    let delete = |resource: &str, namespace: &str, cluster: &str| json!({ "verb": "delete", "resource": resource, "namespace": namespace, "name": "a", "cluster": cluster });
    let calls = json!([
        delete("v1/configmaps", "web", ""),
        delete("apps/v1/deployments", "web", ""),
        delete("v1/services", "web", "west"),
        delete("v1/secrets", "web", ""),
        delete("v1/services", "web", ""),
        delete("apps/v1/deployments", "shop", ""),
        delete("apps/v1beta1/deployments", "web", ""),
        delete("v1/endpoints", "web", ""),
        { "verb": "get", "resource": "v1/configmaps", "namespace": "web", "name": "a" },
    ]);
    let (_plugin, answers) = answers(&world, calls, json!([]), |spec| {
        spec.allow_informers = vec![delete_all()];
    })
    .await;
    let text: Vec<String> = answers
        .iter()
        .map(|answer| [answer["code"].as_str().unwrap(), message(answer)].join(" "))
        .map(|answer| answer.trim_end().to_owned())
        .collect();
    insta::assert_snapshot!(text.join("\n"), @r#"
    ok
    ok
    ok
    denied delete v1/secrets "a" in namespace "web" is not granted; in config.toml, set in [plugin.guest_kube]: allow.kube = [{ verbs = ["delete"], informer = "all", exclude = ["v1/secrets"] }, { verbs = ["delete"], resource = "v1/secrets", namespaces = ["web"] }]
    denied delete v1/services "a" in namespace "web" is not granted; the informer "all" does not watch v1/services there; in config.toml, set in [plugin.guest_kube]: allow.kube = [{ verbs = ["delete"], informer = "all", exclude = ["v1/secrets"] }, { verbs = ["delete"], resource = "v1/services", namespaces = ["web"] }]
    denied delete apps/v1/deployments "a" in namespace "shop" is not granted; the informer "all" does not watch apps/v1/deployments there; in config.toml, set in [plugin.guest_kube]: allow.kube = [{ verbs = ["delete"], informer = "all", exclude = ["v1/secrets"] }, { verbs = ["delete"], resource = "apps/v1/deployments", namespaces = ["shop"] }]
    denied delete apps/v1beta1/deployments "a" in namespace "web" is not granted; the informer "all" does not watch apps/v1beta1/deployments there; in config.toml, set in [plugin.guest_kube]: allow.kube = [{ verbs = ["delete"], informer = "all", exclude = ["v1/secrets"] }, { verbs = ["delete"], resource = "apps/v1beta1/deployments", namespaces = ["web"] }]
    denied delete v1/endpoints "a" in namespace "web" is not granted; the informer "all" does not watch v1/endpoints there; in config.toml, set in [plugin.guest_kube]: allow.kube = [{ verbs = ["delete"], informer = "all", exclude = ["v1/secrets"] }, { verbs = ["delete"], resource = "v1/endpoints", namespaces = ["web"] }]
    denied get v1/configmaps "a" in namespace "web" is not granted; in config.toml, set in [plugin.guest_kube]: allow.kube = [{ verbs = ["delete"], informer = "all", exclude = ["v1/secrets"] }, { verbs = ["get"], resource = "v1/configmaps", namespaces = ["web"] }]
    "#);
    assert_eq!(cluster.take().len(), 3);
}

#[tokio::test]
async fn informer_grant_ends_with_the_watch() {
    let cluster = Cluster::answering(Some(0));
    let world = World::with_cluster(cluster.clone());
    let services = world.objects_of("all", "", "Service", "v1/services");
    let calls = json!([{ "verb": "delete", "resource": "v1/services", "namespace": "web", "name": "a" }]);
    let plugin = world
        .run("guest_kube", json!({ "calls": calls }), |spec| {
            spec.allow_informers = vec![delete_all()];
        })
        .await;
    let mut pods = world.pods("pods");
    pods.attach(&plugin.listener());
    for (name, code) in [("a", "ok"), ("b", "denied")] {
        pods.apply(name);
        let answer = world
            .recorded(1, |line| line["event"] == "add" && line["object"] == name)
            .await;
        assert_eq!(answer[0]["code"], code, "{answer:?}");
        drop(world.catalog.remove_source(services.id));
    }
    assert_eq!(cluster.take().len(), 1);
}

#[tokio::test]
async fn informer_grant_meets_the_requirements_of_a_manifest() {
    let world = World::new();
    let mut granted = spec("image_mark", json!({}));
    let with_verb = |verb| InformerGrant {
        verbs: vec![verb],
        ..delete_all()
    };
    granted.allow_informers = vec![with_verb(KubeVerb::Delete)];
    let error = world.load(granted.clone()).await.err().unwrap().to_string();
    let (_, line) = error.split_once("[plugin.image_mark]: ").unwrap();
    insta::assert_snapshot!(line, @r#"allow.kube = [{ verbs = ["delete"], informer = "all", exclude = ["v1/secrets"] }, { verbs = ["patch"], resource = "v1/pods" }]"#);
    granted.allow_informers = vec![with_verb(KubeVerb::Patch)];
    assert!(world.load(granted).await.is_ok());
}
