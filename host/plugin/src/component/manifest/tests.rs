mod fuzz;
mod reconciler;

use super::metric::METRICS_MAX;
use super::*;

const HANDLER: Roles = Roles::of(&[Role::EventHandler]);
const INDEXER: Roles = Roles::of(&[Role::IndexFuncs]);

fn parse(json: &str, roles: Roles) -> Manifest {
    Manifest::parse(json.as_bytes(), roles).unwrap()
}

#[test]
fn the_most_specific_event_rule_wins() {
    let manifest = parse(
        r#"{"name": "n", "version": "1", "events": [
            {"apiVersion": "*", "kind": "*", "payload": "metadata"},
            {"apiVersion": "v1", "kind": "Pod", "payload": {"fields": ["/spec/nodeName"]}, "old": true, "changedOnly": true},
            {"apiVersion": "apps/v1", "kind": "*"}]}"#,
        HANDLER,
    );
    let rule = |api_version, kind| manifest.event_rule(api_version, kind).unwrap();
    assert!(matches!(rule("v1", "Pod").payload, Payload::Fields(_)));
    assert!(rule("v1", "Pod").old && rule("v1", "Pod").changed_only);
    assert!(matches!(rule("apps/v1", "Deployment").payload, Payload::Whole));
    assert!(matches!(rule("v1", "Node").payload, Payload::Metadata));
    assert!(!rule("v1", "Node").old && !rule("v1", "Node").changed_only);
}

#[test]
fn a_manifest_without_events_receives_everything() {
    let manifest = parse(r#"{"name": "n", "version": "1"}"#, HANDLER);
    assert!(matches!(
        manifest.event_rule("x/v1", "Y").unwrap().payload,
        Payload::Whole
    ));
    let manifest = parse(r#"{"name": "n", "version": "1", "events": []}"#, HANDLER);
    assert!(manifest.event_rule("x/v1", "Y").is_none());
}

#[test]
fn an_index_manifest_has_names_and_types() {
    let manifest = parse(
        r#"{"name": "n", "version": "1", "indexes": {"names": ["image"], "objects": [{"apiVersion": "v1", "kind": "Pod"}]}}"#,
        INDEXER,
    );
    assert_eq!(manifest.index_names(), ["image"]);
    assert!(manifest.index_rule("v1", "Pod").is_some());
    assert!(manifest.index_rule("v1", "Node").is_none());
}

/// Why each of these is no manifest of a component with those roles.
fn refusals(cases: &[(Roles, &str)]) -> String {
    let refusal = |(roles, json): &(Roles, &str)| Manifest::parse(json.as_bytes(), *roles).unwrap_err().to_string();
    cases.iter().map(refusal).collect::<Vec<_>>().join("\n")
}

#[test]
fn invalid_manifests_are_rejected_with_the_reason() {
    let said = refusals(&[
        (HANDLER, ""),
        (HANDLER, "[]"),
        (HANDLER, r#"{"name": "n"}"#),
        (HANDLER, r#"{"name": "", "version": "1"}"#),
        (HANDLER, r#"{"name": "n", "version": "1", "evnts": []}"#),
        (HANDLER, r#"{"name": "n", "version": "1", "events": [{"kind": "Pod"}]}"#),
        (
            HANDLER,
            r#"{"name": "n", "version": "1", "events": [{"apiVersion": "v1", "kind": "Pod", "payload": "all"}]}"#,
        ),
        (
            HANDLER,
            r#"{"name": "n", "version": "1", "events": [{"apiVersion": "v1", "kind": "Pod", "payload": {"fields": ["spec"]}}]}"#,
        ),
        (
            HANDLER,
            r#"{"name": "n", "version": "1", "events": [{"apiVersion": "v1", "kind": "Pod", "payload": {"fields": []}}]}"#,
        ),
        (
            HANDLER,
            r#"{"name": "n", "version": "1", "events": [{"apiVersion": "v1", "kind": "Pod"}, {"apiVersion": "v1", "kind": "Pod"}]}"#,
        ),
        (HANDLER, r#"{"name": "n", "version": "1", "needs": [{"http": {}}]}"#),
        (
            HANDLER,
            r#"{"name": "n", "version": "1", "needs": [{"kube": {"verbs": ["watch"], "resource": "v1/pods"}}]}"#,
        ),
        (
            HANDLER,
            r#"{"name": "n", "version": "1", "needs": [{"kube": {"verbs": ["get"], "resource": "pods"}}]}"#,
        ),
        (
            HANDLER,
            r#"{"name": "n", "version": "1", "needs": [{"kube": {"verbs": [], "resource": "v1/pods"}}]}"#,
        ),
    ]);
    insta::assert_snapshot!(said, @r#"
    is not valid: EOF while parsing a value at line 1 column 0
    is not valid: invalid type: sequence, expected an object
    is not valid: missing field `version`
    has an empty `name`
    is not valid: unknown field `evnts`, expected one of `name`, `version`, `roles`, `events`, `reconciler`, `timers`, `indexes`, `needs`, `writes`, `metrics`, `parallel`; did you mean `events`?
    is not valid: events[0]: missing field `apiVersion`
    is not valid: events[0].payload: unknown variant `all`, expected one of `none`, `whole`, `metadata`, `fields`
    is not valid: events[0].payload: `fields`: JSON pointer "spec" does not begin with "/"; write "/spec/nodeName", not "spec.nodeName"
    is not valid: events[0].payload: `fields` is empty; list at least one JSON pointer, or use "metadata"
    has two entries in `events` for v1 Pod
    is not valid: needs[0]: unknown variant `http`, expected `kube` or `events`
    is not valid: needs[0].kube.verbs[0]: unknown variant `watch`, expected one of `get`, `list`, `create`, `update`, `patch`, `delete`
    is not valid: needs[0].kube.resource: "pods" is not a resource: a version and a plural are required; write `v1/pods` or `apps/v1/deployments`
    has an entry for v1/pods in `needs`, in which `verbs` is empty; list at least one of get, list, create, update, patch, delete
    "#);
}

#[test]
fn invalid_indexes_are_rejected_with_a_reason() {
    let said = refusals(&[
        (
            HANDLER,
            r#"{"name": "n", "version": "1", "indexes": {"names": ["a"], "objects": []}}"#,
        ),
        (INDEXER, r#"{"name": "n", "version": "1"}"#),
        (
            INDEXER,
            r#"{"name": "n", "version": "1", "indexes": {"names": [], "objects": []}}"#,
        ),
        (
            INDEXER,
            r#"{"name": "n", "version": "1", "indexes": {"names": ["a", "a"], "objects": []}}"#,
        ),
        (
            INDEXER,
            r#"{"name": "n", "version": "1", "indexes": {"names": ["a"], "objects": []}}"#,
        ),
    ]);
    insta::assert_snapshot!(said, @r#"
    has `indexes`, but the component does not export index-funcs; export the role, or remove `indexes`
    has no `indexes`, but the component exports index-funcs; add `indexes`, or remove the role
    has an empty `indexes.names`; list at least one index
    lists the index "a" twice in `indexes.names`
    has an empty `indexes.objects`; add at least one apiVersion and kind
    "#);
}

#[test]
fn invalid_metrics_are_rejected_with_a_reason() {
    let labels = (0..11)
        .map(|number| format!(r#""l{number}""#))
        .collect::<Vec<_>>()
        .join(",");
    let many = vec![r#"{"name": "a", "type": "gauge", "help": "h"}"#; METRICS_MAX + 1].join(",");
    let said = [
        r#"{"name": "a", "type": "summary", "help": "h"}"#,
        r#"{"name": "a", "type": "gauge"}"#,
        r#"{"name": "a", "type": "gauge", "help": "h", "unit": "s"}"#,
        r#"{"name": "a-b", "type": "gauge", "help": "h"}"#,
        r#"{"name": "1a", "type": "gauge", "help": "h"}"#,
        r#"{"name": "a\nb 1", "type": "gauge", "help": "h"}"#,
        r#"{"name": "a_total", "type": "counter", "help": "h"}"#,
        r#"{"name": "a_bucket", "type": "gauge", "help": "h"}"#,
        r#"{"name": "a", "type": "gauge", "help": ""}"#,
        r#"{"name": "a", "type": "gauge", "help": "x\n# TYPE y gauge"}"#,
        r#"{"name": "a", "type": "gauge", "help": "h", "labels": ["plugin"]}"#,
        r#"{"name": "a", "type": "gauge", "help": "h", "labels": ["__x"]}"#,
        r#"{"name": "a", "type": "gauge", "help": "h", "labels": ["x", "x"]}"#,
        r#"{"name": "a", "type": "gauge", "help": "h", "labels": ["x y"]}"#,
        &format!(r#"{{"name": "a", "type": "gauge", "help": "h", "labels": [{labels}]}}"#),
        r#"{"name": "a", "type": "gauge", "help": "h", "buckets": [1]}"#,
        r#"{"name": "a", "type": "histogram", "help": "h", "buckets": [1, 1]}"#,
        r#"{"name": "a", "type": "histogram", "help": "h", "buckets": [1, null]}"#,
        r#"{"name": "a", "type": "gauge", "help": "h"}, {"name": "a", "type": "counter", "help": "h"}"#,
        &many,
    ]
    .map(|metrics| {
        let json = format!(r#"{{"name": "n", "version": "1", "metrics": [{metrics}]}}"#);
        refusals(&[(HANDLER, &json)])
    });
    insta::assert_snapshot!(said.join("\n"), @r#"
    is not valid: metrics[0].type: unknown variant `summary`, expected one of `counter`, `gauge`, `histogram`
    is not valid: metrics[0]: missing field `help`
    is not valid: metrics[0]: unknown field `unit`, expected one of `name`, `type`, `help`, `labels`, `buckets`
    has a metric "a-b" in `metrics`: its name must be of 1 to 200 letters, digits and underscores, and not start with a digit
    has a metric "1a" in `metrics`: its name must be of 1 to 200 letters, digits and underscores, and not start with a digit
    has a metric "a\nb 1" in `metrics`: its name must be of 1 to 200 letters, digits and underscores, and not start with a digit
    has a metric "a_total" in `metrics`: its name ends with _total, which is for samples; leave that out: Informant adds _total to counters
    has a metric "a_bucket" in `metrics`: its name ends with _bucket, which is for samples; leave that out: Informant adds _total to counters
    has a metric "a" in `metrics`: `help` must be one line of 1 to 1024 bytes
    has a metric "a" in `metrics`: `help` must be one line of 1 to 1024 bytes
    has a metric "a" in `metrics`: its label "plugin" is reserved; choose another name
    has a metric "a" in `metrics`: its label "__x" is reserved; choose another name
    has a metric "a" in `metrics`: it has the label "x" twice
    has a metric "a" in `metrics`: its label "x y" must be of 1 to 200 letters, digits and underscores, and not start with a digit
    has a metric "a" in `metrics`: it has more than 10 labels
    has a metric "a" in `metrics`: a gauge has no `buckets`; remove them
    has a metric "a" in `metrics`: `buckets` must be numbers, each larger than the one before
    is not valid: metrics[0].buckets[1]: invalid type: null, expected f64
    declares the metric "a" twice
    declares more than 100 metrics
    "#);
    let json = r#"{"name": "n", "version": "1", "metrics": [{"name": "a", "type": "gauge", "help": "h"}],
        "indexes": {"names": ["a"], "objects": [{"apiVersion": "v1", "kind": "Pod"}]}}"#;
    insta::assert_snapshot!(refusals(&[(INDEXER, json)]), @"has `metrics`, but only event-handler and sync-handler can set them; export one of these roles, or remove `metrics`");
}

#[test]
fn a_histogram_without_buckets_is_for_seconds() {
    let json = r#"{"name": "n", "version": "1", "metrics": [{"name": "a", "type": "histogram", "help": "h"}]}"#;
    let manifest = parse(json, HANDLER);
    assert_eq!(manifest.metrics[0].buckets.len(), 11);
    assert_eq!(manifest.metrics[0].series_per_row(), 14);
}

#[test]
fn a_manifest_that_is_too_large_is_rejected() {
    let error = Manifest::parse(&vec![b' '; MANIFEST_BYTES_MAX + 1], HANDLER).unwrap_err();
    insta::assert_snapshot!(error, @"is too large: 262145 bytes; at most 262144 are allowed");
}

#[test]
fn a_manifest_selects_the_active_roles() {
    let all = Roles::of(&[Role::EventHandler, Role::SyncHandler, Role::IndexFuncs]);
    let active_roles = |json: &str| parse(json, all).active_roles(all).to_string();
    assert_eq!(
        active_roles(r#"{"name": "n", "version": "1", "roles": ["sync-handler", "event-handler"]}"#),
        "event-handler, sync-handler"
    );
    let indexes = r#""indexes": {"names": ["x"], "objects": [{"apiVersion": "v1", "kind": "Pod"}]}"#;
    assert_eq!(
        active_roles(&format!(r#"{{"name": "n", "version": "1", {indexes}}}"#)),
        "event-handler, sync-handler, index-funcs"
    );
    let refused = |rest: &str| {
        let json = format!(r#"{{"name": "n", "version": "1", {rest}}}"#);
        Manifest::parse(json.as_bytes(), HANDLER).unwrap_err().to_string()
    };
    assert_eq!(
        [refused(r#""roles": []"#), refused(r#""roles": ["index-funcs"]"#)].join("\n"),
        "has an empty `roles`; list at least one role, or remove it to activate all\n\
         lists the role index-funcs, but the component does not export it; export the role, or remove it from `roles`"
    );
}

#[test]
fn a_manifest_that_activates_only_state_is_rejected() {
    let json = br#"{"name": "n", "version": "1", "roles": ["state"]}"#;
    let refused = |exported: &[Role]| {
        let exported = Roles::of(exported);
        Manifest::parse(json, exported).unwrap_err().to_string()
    };
    let both = refused(&[Role::EventHandler, Role::State]);
    assert_eq!(both, refused(&[Role::State]));
    insta::assert_snapshot!(both, @"lists only state in `roles`, which is never called by itself; list event-handler, reconciler, timer-handler, sync-handler or index-funcs, too");
}

#[test]
fn the_documented_manifest_is_valid() {
    let page = include_str!("../../../../../docs/reference/manifest.md");
    let (_, rest) = page.split_once("```json\n").unwrap();
    let (json, _) = rest.split_once("```").unwrap();
    let roles = Roles::of(&[Role::EventHandler, Role::IndexFuncs]);
    let manifest = parse(json, roles);
    assert_eq!(
        (manifest.events.len(), manifest.index_names()),
        (2, &["image".to_owned()][..])
    );
}
