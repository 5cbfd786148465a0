//! Discovery of groups, versions and resources, in the classic form and in the aggregated one that kubectl prefers.
//!
//! Source: KEP-3352 (aggregated discovery), `k8s.io/api/apidiscovery/v2`.

use http::Response;
use serde_json::{Value, json};

use crate::body::{self, Body};
use crate::kinds::{Kind, Registry, group_version};
use crate::representation::accepts;
use crate::scale;

/// The Kubernetes version that this server follows.
const GIT_VERSION: &str = "v1.36.3+informant";

const AGGREGATED: &str = "application/json;g=apidiscovery.k8s.io;v=v2;as=APIGroupDiscoveryList";

const SUBRESOURCE_VERBS: &[&str] = &["get", "patch", "update"];

/// `/version`
pub(crate) fn version() -> Value {
    json!({
        "major": "1",
        "minor": "36",
        "gitVersion": GIT_VERSION,
        "gitCommit": "",
        "gitTreeState": "clean",
        "buildDate": "1970-01-01T00:00:00Z",
        "goVersion": "",
        "compiler": "rustc",
        "platform": format!("{}/{}", std::env::consts::OS, std::env::consts::ARCH),
    })
}

/// `/api` or `/apis`.
pub(crate) fn groups(registry: &Registry, core: bool, accept: &str) -> Response<Body> {
    if accepts(accept, "APIGroupDiscoveryList", "apidiscovery.k8s.io", "v2") {
        let list = json!({
            "kind": "APIGroupDiscoveryList",
            "apiVersion": "apidiscovery.k8s.io/v2",
            "metadata": {},
            "items": aggregated(registry, core),
        });
        return body::with_type(200, AGGREGATED, Body::whole(list.to_string()));
    }
    let document = if core {
        json!({ "kind": "APIVersions", "versions": ["v1"], "serverAddressByClientCIDRs": [] })
    } else {
        let groups = registry.groups().into_iter().filter(|(name, _)| !name.is_empty());
        let groups: Vec<Value> = groups.map(|(name, versions)| group_document(name, &versions)).collect();
        json!({ "kind": "APIGroupList", "apiVersion": "v1", "groups": groups })
    };
    body::json(200, &document)
}

/// `/apis/GROUP`
pub(crate) fn group(registry: &Registry, group: &str) -> Option<Value> {
    let versions = registry.groups().remove(group)?;
    let mut document = group_document(group, &versions);
    document["kind"] = json!("APIGroup");
    document["apiVersion"] = json!("v1");
    Some(document)
}

fn group_document(name: &str, versions: &[&str]) -> Value {
    let version = |version: &str| json!({ "groupVersion": group_version(name, version), "version": version });
    json!({
        "name": name,
        "versions": versions.iter().map(|it| version(it)).collect::<Vec<_>>(),
        "preferredVersion": version(versions.first().copied().unwrap_or_default()),
    })
}

/// `/api/v1`, `/apis/GROUP/VERSION`
pub(crate) fn resources(registry: &Registry, group: &str, version: &str) -> Option<Value> {
    let mut resources = Vec::new();
    for kind in registry.of_version(group, version) {
        let mut resource = json!({
            "name": kind.plural,
            "singularName": kind.singular,
            "namespaced": kind.namespaced,
            "kind": kind.kind,
            "verbs": kind.verbs(),
        });
        add_names(&mut resource, kind);
        resources.push(resource);
        if kind.has_status {
            resources.push(json!({
                "name": format!("{}/status", kind.plural),
                "singularName": "",
                "namespaced": kind.namespaced,
                "kind": kind.kind,
                "verbs": SUBRESOURCE_VERBS,
            }));
        }
        if kind.has_scale {
            resources.push(json!({
                "name": format!("{}/scale", kind.plural),
                "singularName": "",
                "namespaced": kind.namespaced,
                "group": scale::GROUP,
                "version": scale::VERSION,
                "kind": scale::KIND,
                "verbs": SUBRESOURCE_VERBS,
            }));
        }
    }
    (!resources.is_empty()).then(|| {
        json!({
            "kind": "APIResourceList",
            "apiVersion": "v1",
            "groupVersion": group_version(group, version),
            "resources": resources,
        })
    })
}

/// Adds what only some resources have.
fn add_names(resource: &mut Value, kind: &Kind) {
    if !kind.short_names.is_empty() {
        resource["shortNames"] = json!(kind.short_names);
    }
    if !kind.categories.is_empty() {
        resource["categories"] = json!(kind.categories);
    }
}

fn aggregated(registry: &Registry, core: bool) -> Vec<Value> {
    let groups = registry
        .groups()
        .into_iter()
        .filter(|(name, _)| name.is_empty() == core);
    let version_document = |group: &str, version: &str| {
        let kinds = registry.of_version(group, version);
        json!({
            "version": version,
            "freshness": "Current",
            "resources": kinds.map(|kind| aggregated_resource(kind)).collect::<Vec<_>>(),
        })
    };
    groups
        .map(|(name, versions)| {
            json!({
                "metadata": if name.is_empty() { json!({ "creationTimestamp": null }) } else { json!({ "name": name, "creationTimestamp": null }) },
                "versions": versions.iter().map(|version| version_document(name, version)).collect::<Vec<_>>(),
            })
        })
        .collect()
}

fn aggregated_resource(kind: &Kind) -> Value {
    let response_kind = json!({ "group": kind.group, "version": kind.version, "kind": kind.kind });
    let mut resource = json!({
        "resource": kind.plural,
        "responseKind": response_kind,
        "scope": if kind.namespaced { "Namespaced" } else { "Cluster" },
        "singularResource": kind.singular,
        "verbs": kind.verbs(),
    });
    add_names(&mut resource, kind);
    let subresource = |name: &str, response_kind: &Value| json!({ "subresource": name, "responseKind": response_kind, "verbs": SUBRESOURCE_VERBS });
    let mut subresources = Vec::new();
    if kind.has_status {
        subresources.push(subresource("status", &response_kind));
    }
    if kind.has_scale {
        let scale = json!({ "group": scale::GROUP, "version": scale::VERSION, "kind": scale::KIND });
        subresources.push(subresource("scale", &scale));
    }
    if !subresources.is_empty() {
        resource["subresources"] = json!(subresources);
    }
    resource
}
