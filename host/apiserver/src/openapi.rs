//! OpenAPI documents, as far as kubectl needs them to accept and explain manifests.
//!
//! kubectl validates on the server if the document declares `fieldValidation` for a kind's PATCH, and it computes
//! patches itself if PATCH does not accept strategic merges by schema. So the paths contain only the PATCH operations.
//! The schemas of custom resources are those of their definitions; those of built-in kinds have names and types of
//! fields, but no descriptions.
//!
//! Source: kubectl `pkg/cmd/apply/patcher.go` and `pkg/explain/v2`, cli-runtime
//! `pkg/resource/query_param_verifier_v3.go`.

use std::collections::BTreeMap;

use serde_json::{Map, Value, json};

use crate::kinds::{Kind, Registry, group_version};
use crate::protobuf;

fn root(group: &str, version: &str) -> String {
    if group.is_empty() {
        format!("api/{version}")
    } else {
        format!("apis/{group}/{version}")
    }
}

/// `/openapi/v3`
pub(crate) fn v3_root(registry: &Registry) -> Value {
    let mut paths = Map::new();
    for (group, versions) in registry.groups() {
        for version in versions {
            let root = root(group, version);
            paths.insert(
                root.clone(),
                json!({ "serverRelativeURL": format!("/openapi/v3/{root}") }),
            );
        }
    }
    json!({ "paths": paths })
}

/// `/openapi/v3/apis/GROUP/VERSION`
pub(crate) fn v3(registry: &Registry, group: &str, version: &str) -> Option<Value> {
    let kinds: Vec<&Kind> = registry.of_version(group, version).map(AsRef::as_ref).collect();
    if kinds.is_empty() {
        return None;
    }
    let paths: Map<String, Value> = kinds.iter().map(|kind| (path(kind), v3_path(kind))).collect();
    let mut schemas = BTreeMap::new();
    for kind in kinds {
        let described = described(kind, &mut schemas);
        schemas.insert(schema_name(kind), described);
    }
    Some(json!({
        "openapi": "3.0.0",
        "info": { "title": "Informant's embedded API server", "version": group_version(group, version) },
        "paths": paths,
        "components": { "schemas": schemas },
    }))
}

fn path(kind: &Kind) -> String {
    let namespace = if kind.namespaced { "namespaces/{namespace}/" } else { "" };
    format!(
        "/{}/{namespace}{}/{{name}}",
        root(&kind.group, &kind.version),
        kind.plural
    )
}

fn gvk(kind: &Kind) -> Value {
    json!({ "group": kind.group, "version": kind.version, "kind": kind.kind })
}

fn schema_name(kind: &Kind) -> String {
    let group = if kind.group.is_empty() { "core" } else { &kind.group };
    format!("io.k8s.api.{group}.{}.{}", kind.version, kind.kind)
}

fn v3_path(kind: &Kind) -> Value {
    let parameter = |name: &str, type_: &str| json!({ "name": name, "in": "query", "schema": { "type": type_, "uniqueItems": true } });
    json!({
        "patch": {
            "operationId": format!("patch{}", kind.kind),
            "x-kubernetes-action": "patch",
            "x-kubernetes-group-version-kind": gvk(kind),
            "parameters": [
                parameter("dryRun", "string"),
                parameter("fieldManager", "string"),
                parameter("fieldValidation", "string"),
                parameter("force", "boolean"),
            ],
            "requestBody": { "content": { "application/merge-patch+json": { "schema": { "type": "object" } } } },
            "responses": { "200": { "description": "OK" } },
        },
    })
}

/// A kind's schema; adds the schemas that it references to `schemas`.
fn described(kind: &Kind, schemas: &mut BTreeMap<String, Value>) -> Value {
    let mut described = schema(kind);
    if let Some(version) = &kind.custom_version {
        described = version.openapi.clone();
        described["x-kubernetes-group-version-kind"] = json!([gvk(kind)]);
        let mut properties = protobuf::type_meta();
        let metadata = protobuf::describe_metadata(schemas);
        properties.insert("metadata".to_owned(), protobuf::reference(&metadata));
        if let Some(declared) = described["properties"].as_object() {
            for (key, property) in declared {
                properties.entry(key.clone()).or_insert_with(|| property.clone());
            }
        }
        described["properties"] = Value::Object(properties);
    } else if let Some(properties) = protobuf::describe(&kind.api_version(), &kind.kind, schemas) {
        described["properties"] = Value::Object(properties);
    }
    described
}

fn schema(kind: &Kind) -> Value {
    json!({
        "type": "object",
        "x-kubernetes-group-version-kind": [gvk(kind)],
        "x-kubernetes-preserve-unknown-fields": true,
    })
}

/// `/openapi/v2`, for clients that read it as JSON. kubectl requests protocol buffers, gets JSON, and continues without
/// the document.
pub(crate) fn v2(registry: &Registry) -> Value {
    let definitions: Map<String, Value> = registry
        .sorted()
        .map(|kind| (schema_name(kind), schema(kind)))
        .collect();
    json!({
        "swagger": "2.0",
        "info": { "title": "Informant's embedded API server", "version": "v1" },
        "paths": {},
        "definitions": definitions,
    })
}
