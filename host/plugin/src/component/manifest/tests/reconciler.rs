use informant_object::{Object, Shape};

use super::*;

const RECONCILER: Roles = Roles::of(&[Role::Reconciler]);

fn refusal(roles: Roles, members: &str) -> String {
    let json = format!(r#"{{"name": "n", "version": "1", {members}}}"#);
    Manifest::parse(json.as_bytes(), roles).unwrap_err().to_string()
}

#[test]
fn a_reconciler_names_what_leads_to_its_objects() {
    let manifest = parse(
        r#"{"name": "n", "version": "1", "reconciler": {
            "for": {"apiVersion": "example.com/v1", "kind": "Website", "payload": {"fields": ["/spec"]}, "when": ["generation"]},
            "owns": [{"apiVersion": "apps/v1", "kind": "Deployment"}, {"apiVersion": "v1", "kind": "Service", "by": "anyOwner"}],
            "watches": [{"apiVersion": "v1", "kind": "Secret", "by": {"label": "site"}},
                {"apiVersion": "v1", "kind": "LimitRange", "by": "namespace"}],
            "minInterval": "1m 30s"}}"#,
        RECONCILER,
    );
    assert_eq!(manifest.min_interval(), Some(std::time::Duration::from_secs(90)));
    let rule = manifest.event_rule("example.com/v1", "Website").unwrap();
    assert!(matches!(rule.payload, Payload::Fields(_)) && rule.when.is_some());
    assert!(manifest.event_rule("apps/v1", "Deployment").is_none());
    assert!(manifest.awaits_writes());
    let rules = manifest.reconciler.unwrap();
    let related: Vec<_> = rules
        .related()
        .map(|(rule, by)| (rule.kind.as_str(), by.clone()))
        .collect();
    let expected = [
        ("Deployment", By::Owner),
        ("Service", By::AnyOwner),
        ("Secret", By::Label("site".to_owned())),
        ("LimitRange", By::Namespace),
    ];
    assert_eq!(related, expected);
}

#[test]
fn contradictions_of_a_reconciler_are_rejected_with_the_reason() {
    let of_map = r#""for": {"apiVersion": "v1", "kind": "ConfigMap"}"#;
    let with = |rest: &str| refusal(RECONCILER, &format!(r#""reconciler": {{{of_map}, {rest}}}"#));
    let both = Roles::of(&[Role::Reconciler, Role::EventHandler]);
    let secret = r#""apiVersion": "v1", "kind": "Secret""#;
    let said = [
        refusal(both, &format!(r#""reconciler": {{{of_map}}}"#)),
        refusal(HANDLER, &format!(r#""reconciler": {{{of_map}}}"#)),
        refusal(RECONCILER, r#""writes": "done""#),
        refusal(RECONCILER, &format!(r#""events": [], "reconciler": {{{of_map}}}"#)),
        refusal(
            RECONCILER,
            r#""reconciler": {"for": {"apiVersion": "*", "kind": "ConfigMap"}}"#,
        ),
        refusal(RECONCILER, r#""reconciler": {}"#),
        with(r#""owns": [{"apiVersion": "v1", "kind": "ConfigMap"}]"#),
        with(&format!(
            r#""owns": [{{{secret}}}], "watches": [{{{secret}, "by": "owner"}}]"#
        )),
        with(&format!(r#""watches": [{{{secret}}}]"#)),
        with(&format!(r#""owns": [{{{secret}, "by": "namespace"}}]"#)),
        with(&format!(r#""watches": [{{{secret}, "by": {{"index": "secrets"}}}}]"#)),
        with(&format!(r#""watches": [{{{secret}, "by": {{"label": ""}}}}]"#)),
        with(&format!(r#""owns": [{{{secret}, "when": []}}]"#)),
        with(&format!(r#""owns": [{{{secret}, "when": ["generations"]}}]"#)),
        with(&format!(r#""owns": [{{{secret}, "whn": []}}]"#)),
        with(r#""minInterval": "soon""#),
        with(r#""minInterval": "1ms""#),
    ];
    insta::assert_snapshot!(said.join("\n"), @r#"
    has the roles reconciler and event-handler, of which a plugin may have one; list the one to call in `roles`, or export only that
    has `reconciler`, but the component does not export reconciler; export the role, or remove `reconciler`
    has no `reconciler`, but the component exports reconciler; name the objects in `reconciler.for`, or remove the role
    has `events` and `reconciler`; a reconciler receives no events: name the objects in `reconciler.for`, and what leads to them in `owns` and `watches`
    has no single type in `reconciler.for`: write one apiVersion and one kind, such as "apps/v1" and "Deployment"
    is not valid: reconciler: missing field `for`
    has v1 ConfigMap in `reconciler.for` and in `reconciler.owns`: an object leads to itself already; remove it from `owns`
    has two entries in `reconciler` for v1 Secret
    has no `by` in `reconciler.watches` for v1 Secret: write how it leads to what is reconciled: "owner", "anyOwner", "namespace", or an object with `label`, `annotation` or `index`
    has a `by` in `reconciler.owns` for v1 Secret that is no owner: write "owner" or "anyOwner", or move it to `watches`
    has the index "secrets" in `by` in `reconciler.watches` for v1 Secret, which is not in `indexes.names`: only an index of the plugin itself is complete before its first call
    has an empty name in `by` in `reconciler.watches` for v1 Secret
    is not valid: reconciler.owns[0].when: `when` is empty; list "generation", "labels" or JSON pointers, or leave it out for any change
    is not valid: reconciler.owns[0].when: `when`: "generations" is neither "generation" nor "labels" nor a JSON pointer such as "/spec"
    is not valid: reconciler.owns[0]: unknown field `whn`, expected one of `apiVersion`, `kind`, `when`, `by`; did you mean `when`?
    is not valid: reconciler.minInterval: `minInterval` is "soon": write a number and a unit: "500ms", "5s", "1m 30s", "2h"
    is not valid: reconciler.minInterval: `minInterval` is "1ms", but must be from 10ms to 1d
    "#);
}

#[test]
fn only_the_named_parts_of_an_object_count() {
    let when: When = serde_json::from_str(r#"["generation", "labels", "/status/ready"]"#).unwrap();
    let object = |members: &str| {
        let json = format!(r#"{{"metadata": {{"name": "a", "uid": "u", {members}}}}}"#);
        Object::parse(json.as_bytes(), &Shape::of("v1", "Pod")).unwrap()
    };
    let before = object(r#""generation": 1, "labels": {"a": "b"}"#);
    assert!(!when.differs(
        &before,
        &object(r#""generation": 1, "labels": {"a": "b"}, "annotations": {"c": "d"}"#)
    ));
    assert!(when.differs(&before, &object(r#""generation": 2, "labels": {"a": "b"}"#)));
    assert!(when.differs(&before, &object(r#""generation": 1, "labels": {"a": "c"}"#)));
    let deleted = object(r#""generation": 1, "labels": {"a": "b"}, "deletionTimestamp": "2026-01-01T00:00:00Z""#);
    assert!(when.differs(&before, &deleted));
}

#[test]
fn keys_that_hide_objects_are_refused_for_a_reconciler() {
    let json = r#"{"name": "n", "version": "1", "reconciler": {"for": {"apiVersion": "v1", "kind": "ConfigMap"}}}"#;
    let manifest = parse(json, RECONCILER);
    let mut spec = PluginSpec::new("site", "site.js");
    assert!(manifest.check_section(&spec).is_ok());
    spec.wait_for = WaitFor::Own;
    insta::assert_snapshot!(manifest.check_section(&spec).unwrap_err(), @r#"is a reconciler, for which wait-for = "own" would hide objects; in [plugin.site] of config.toml, remove wait-for: a reconciler is called when all that it may read is there, and after a start once for each object"#);
    spec.wait_for = WaitFor::All;
    spec.on_start = ReplayPolicy::Continue;
    assert!(manifest.check_section(&spec).is_err());
}
