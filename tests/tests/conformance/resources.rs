//! Resources: definitions that are created and deleted, selectors, and lookup by name.

use anyhow::{Result, ensure};
use informant_cache::SourceState;
use informant_informer::discover;
use informant_spec::{GroupVersionResource, ResourceName};
use informant_tests::client::Client;
use informant_tests::cluster::{Cluster, Kind, Login};
use informant_tests::conformance::recording_handler::CallKind;
use informant_tests::conformance::{ARRIVES_WITHIN, Setting, Testbed};
use informant_tests::wait;
use serde_json::{Value, json};

use crate::label;

pub(crate) const DEFINITIONS: &str = "/apis/apiextensions.k8s.io/v1/customresourcedefinitions";

/// Gadgets in a group of their own.
pub(crate) fn definition(group: &str) -> Value {
    let spec = json!({"type": "object", "properties": {"color": {"type": "string"}}});
    json!({
        "apiVersion": "apiextensions.k8s.io/v1", "kind": "CustomResourceDefinition",
        "metadata": {"name": format!("gadgets.{group}")},
        "spec": {
            "group": group, "scope": "Namespaced",
            "names": {"plural": "gadgets", "singular": "gadget", "kind": "Gadget"},
            "versions": [{
                "name": "v1", "served": true, "storage": true,
                "selectableFields": [{"jsonPath": ".spec.color"}],
                "schema": {"openAPIV3Schema": {"type": "object", "properties": {"spec": spec}}},
            }],
        },
    })
}

pub(crate) fn gadget(group: &str, name: &str, color: &str) -> Value {
    json!({
        "apiVersion": format!("{group}/v1"), "kind": "Gadget", "metadata": {"name": name}, "spec": {"color": color},
    })
}

fn gadgets(group: &str, testbed: &Testbed) -> Setting {
    let resource = GroupVersionResource::new(group, "v1", "gadgets");
    Setting::of(resource, "Gadget", Some(&testbed.namespace))
}

/// Creates an object of a definition that was just applied.
pub(crate) async fn create_when_served(direct: &Client, path: &str, object: &Value) -> Result<()> {
    wait::until("the custom resource to be served", ARRIVES_WITHIN, async || {
        direct.post(path, object).await.map_err(|error| format!("{error:#}"))
    })
    .await
    .map(drop)
}

pub(crate) async fn custom_resource_may_appear_disappear_and_return(cluster: &Cluster, name: &str) -> Result<()> {
    let testbed = Testbed::prepare(cluster, &label(name), 1).await?;
    let group = "comes-and-goes.example.com";
    let path = format!("/apis/{group}/v1/namespaces/{}/gadgets", testbed.namespace);
    let observed = testbed.observe(gadgets(group, &testbed)).await?;
    observed.until_state(SourceState::WaitingForResource).await?;

    testbed.direct.post(DEFINITIONS, &definition(group)).await?;
    create_when_served(&testbed.direct, &path, &gadget(group, "first", "red")).await?;
    observed.settle(&testbed.direct).await?;

    testbed.direct.delete(&format!("{DEFINITIONS}/gadgets.{group}")).await?;
    observed.until_state(SourceState::WaitingForResource).await?;
    ensure!(observed.status().synced, "{:?}", observed.status());

    testbed.direct.post(DEFINITIONS, &definition(group)).await?;
    create_when_served(&testbed.direct, &path, &gadget(group, "second", "red")).await?;
    observed.settle(&testbed.direct).await?;
    let calls = observed.handler.calls_of("first");
    ensure!(
        calls.len() == 2 && matches!(calls[1].kind, CallKind::Delete { .. }),
        "{calls:?}"
    );
    Ok(())
}

/// A selector, and its resource.
struct Case {
    resource: GroupVersionResource,
    kind: &'static str,
    namespaced: bool,
    selector: &'static str,
    /// The names of the selected objects.
    selected: &'static [&'static str],
}

fn case(
    resource: (&str, &str, &str),
    kind: &'static str,
    selector: &'static str,
    selected: &'static [&'static str],
) -> Case {
    let (group, version, plural) = resource;
    Case {
        resource: GroupVersionResource::new(group, version, plural),
        kind,
        namespaced: !matches!(plural, "nodes"),
        selector,
        selected,
    }
}

const SELECTABLE: &str = "selectable.example.com";

fn cases() -> [Case; 6] {
    [
        case(
            ("", "v1", "pods"),
            "Pod",
            "spec.nodeName=n1,status.phase!=Failed",
            &["on-n1"],
        ),
        case(("", "v1", "secrets"), "Secret", "type=example.com/a", &["of-type-a"]),
        case(
            ("", "v1", "events"),
            "Event",
            "involvedObject.name=x,reason=Started",
            &["started"],
        ),
        case(("", "v1", "configmaps"), "ConfigMap", "metadata.name!=b", &["a"]),
        case(("", "v1", "nodes"), "Node", "spec.unschedulable=true", &["cordoned"]),
        case((SELECTABLE, "v1", "gadgets"), "Gadget", "spec.color=red", &["red"]),
    ]
}

pub(crate) async fn field_selectors_match_for_each_kind(cluster: &Cluster, name: &str) -> Result<()> {
    let testbed = Testbed::prepare(cluster, &label(name), 1).await?;
    populate(&testbed).await?;
    let mut all = Vec::new();
    for case in cases() {
        let namespace = case.namespaced.then_some(testbed.namespace.as_str());
        let setting = Setting {
            field_selector: case.selector.to_owned(),
            ..Setting::of(case.resource.clone(), case.kind, namespace)
        };
        all.push((testbed.observe(setting).await?, case));
    }
    for (observed, case) in &all {
        observed.settle(&testbed.direct).await?;
        let view = observed.handler.view();
        let names: Vec<_> = view.keys().map(|key| key.as_ref().name).collect();
        ensure!(names == case.selected, "{} by {}: {names:?}", case.kind, case.selector);
    }
    // An object that leaves a selection is deleted for its watchers, and one that enters it is new; the state in which
    // it leaves is visible.
    let pods = format!("/api/v1/namespaces/{}/pods", testbed.namespace);
    let failed = json!({"status": {"phase": "Failed"}});
    testbed.direct.merge(&format!("{pods}/on-n1/status"), &failed).await?;
    let (observed, _) = &all[0];
    observed.settle(&testbed.direct).await?;
    let calls = observed.handler.calls_of("on-n1");
    let seen = CallKind::Delete {
        final_state_unknown: false,
    };
    ensure!(calls.len() == 2 && calls[1].kind == seen, "{calls:?}");
    Ok(())
}

async fn populate(testbed: &Testbed) -> Result<()> {
    let core = format!("/api/v1/namespaces/{}", testbed.namespace);
    let direct = &testbed.direct;
    for (name, node) in [("on-n1", "n1"), ("on-n2", "n2")] {
        let spec = json!({"nodeName": node, "containers": [{"name": "app", "image": "x"}]});
        let pod = json!({"apiVersion": "v1", "kind": "Pod", "metadata": {"name": name}, "spec": spec});
        direct.post(&format!("{core}/pods"), &pod).await?;
    }
    for (name, type_) in [("of-type-a", "example.com/a"), ("of-type-b", "example.com/b")] {
        let secret = json!({"apiVersion": "v1", "kind": "Secret", "metadata": {"name": name}, "type": type_});
        direct.post(&format!("{core}/secrets"), &secret).await?;
    }
    for (name, object, reason) in [
        ("started", "x", "Started"),
        ("killed", "x", "Killed"),
        ("other", "y", "Started"),
    ] {
        let about = json!({"kind": "Pod", "name": object, "namespace": testbed.namespace});
        let event = json!({
            "apiVersion": "v1", "kind": "Event", "metadata": {"name": name}, "involvedObject": about, "reason": reason,
        });
        direct.post(&format!("{core}/events"), &event).await?;
    }
    for name in ["a", "b"] {
        testbed.create(name, "1").await?;
    }
    for (name, unschedulable) in [("cordoned", true), ("schedulable", false)] {
        let spec = json!({"unschedulable": unschedulable});
        let node = json!({"apiVersion": "v1", "kind": "Node", "metadata": {"name": name}, "spec": spec});
        direct.post("/api/v1/nodes", &node).await?;
    }
    direct.post(DEFINITIONS, &definition(SELECTABLE)).await?;
    let path = format!("/apis/{SELECTABLE}/v1/namespaces/{}/gadgets", testbed.namespace);
    for color in ["red", "blue"] {
        create_when_served(direct, &path, &gadget(SELECTABLE, color, color)).await?;
    }
    Ok(())
}

pub(crate) async fn unsupported_field_selector_is_reported(cluster: &Cluster, name: &str) -> Result<()> {
    let testbed = Testbed::prepare(cluster, &label(name), 1).await?;
    let setting = Setting {
        field_selector: "data.value=1".to_owned(),
        ..Setting::config_maps(&testbed.namespace)
    };
    let observed = testbed.observe(setting).await?;
    let refused = observed
        .until("the refusal to be shown", |status| {
            status.last_error.as_ref().is_some_and(|(text, _)| text.contains("400"))
        })
        .await?;
    ensure!(refused.state == SourceState::Refused && !refused.synced, "{refused:?}");
    ensure!(
        observed.last_error().contains("data.value"),
        "{}",
        observed.last_error()
    );
    Ok(())
}

/// Makes the API server forward requests for `group` to the service `name` of the namespace, on `port`.
pub(crate) async fn add_api_service(testbed: &Testbed, group: &str, name: &str, port: u16) -> Result<()> {
    let service = json!({
        "apiVersion": "apiregistration.k8s.io/v1", "kind": "APIService", "metadata": {"name": format!("v1.{group}")},
        "spec": {
            "group": group, "version": "v1", "groupPriorityMinimum": 1_000, "versionPriority": 15,
            "insecureSkipTLSVerify": true, "service": {"name": name, "namespace": testbed.namespace, "port": port},
        },
    });
    let services = "/apis/apiregistration.k8s.io/v1/apiservices";
    testbed.direct.post(services, &service).await.map(drop)
}

pub(crate) async fn resources_are_found_by_any_of_their_names(cluster: &Cluster, name: &str) -> Result<()> {
    let testbed = Testbed::prepare(cluster, &label(name), 1).await?;
    let group = "found.example.com";
    testbed.direct.post(DEFINITIONS, &definition(group)).await?;
    let path = format!("/apis/{group}/v1/namespaces/{}/gadgets", testbed.namespace);
    create_when_served(&testbed.direct, &path, &gadget(group, "first", "red")).await?;
    let broken = cluster.kind() == Kind::Real;
    if broken {
        // An extension server without a backend.
        add_api_service(&testbed, "broken.example.com", "no-backend", 443).await?;
    }
    let client = testbed.client(&Login::admin()).await?;
    for (wanted, found) in [
        ("apps/v1/deployments", "apps/v1/deployments"),
        ("deploy", "apps/v1/deployments"),
        ("Pod", "v1/pods"),
        ("gadgets.found.example.com", "found.example.com/v1/gadgets"),
        ("found.example.com/v1/gadgets", "found.example.com/v1/gadgets"),
    ] {
        let name: ResourceName = wanted.parse()?;
        let discovered = wait::until(wanted, ARRIVES_WITHIN, async || {
            discover(&client, &name).await.map_err(|error| error.to_string())
        });
        ensure!(discovered.await?.gvr.to_string() == found, "{wanted}");
    }
    let unknown: ResourceName = "gadgetz.found.example.com".parse()?;
    // The API server itself takes a moment to notice that the extension server is unavailable.
    wait::until(
        "the refusal to name the unavailable group",
        ARRIVES_WITHIN,
        async || {
            let error = discover(&client, &unknown).await.err();
            let text = error.map(|error| error.to_string()).unwrap_or_default();
            let is_whole = text.contains("did you mean") && (!broken || text.contains("broken.example.com"));
            if is_whole { Ok(()) } else { Err(text) }
        },
    )
    .await
}
