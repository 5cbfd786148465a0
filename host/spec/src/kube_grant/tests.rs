use super::*;
use crate::resource::GroupVersionResource;
use crate::resource_pattern::{Exclude, ResourcePattern};

fn grant(json: &str) -> KubeGrant {
    let grant: KubeGrant = serde_json::from_str(json).unwrap();
    grant.validate().unwrap();
    grant
}

fn pods() -> KubeResource {
    KubeResource::parse("v1/pods").unwrap()
}

fn patch<'a>(resource: &'a KubeResource, namespace: &'a str, name: &'a str) -> ResourceAttributes<'a> {
    ResourceAttributes {
        verb: KubeVerb::Patch,
        resource,
        namespace,
        name,
        subresource: "",
    }
}

#[test]
fn a_grant_allows_only_what_it_lists() {
    let grant = grant(
        r#"{"verbs": ["get", "patch"], "resource": "v1/pods", "namespaces": ["web", "db"], "names": ["a", "b"]}"#,
    );
    let resource = pods();
    let call = patch(&resource, "web", "a");
    assert!(grant.allows(&call));
    let (of_group, of_version) = (
        KubeResource::parse("apps/v1/pods").unwrap(),
        KubeResource::parse("v2/pods").unwrap(),
    );
    for other in [
        ResourceAttributes {
            verb: KubeVerb::Delete,
            ..call
        },
        ResourceAttributes {
            resource: &of_group,
            ..call
        },
        ResourceAttributes {
            resource: &of_version,
            ..call
        },
        ResourceAttributes {
            namespace: "prod",
            ..call
        },
        ResourceAttributes { namespace: "", ..call },
        ResourceAttributes { name: "c", ..call },
        ResourceAttributes { name: "", ..call },
        ResourceAttributes {
            subresource: "status",
            ..call
        },
    ] {
        assert!(!grant.allows(&other), "{other:?}");
    }
}

#[test]
fn a_grant_without_names_allows_all_names_but_no_subresource() {
    let whole = grant(r#"{"verbs": ["patch"], "resource": "v1/pods"}"#);
    let status = grant(r#"{"verbs": ["patch"], "resource": "v1/pods", "subresources": ["status"]}"#);
    let resource = pods();
    let call = patch(&resource, "anywhere", "any");
    assert!(whole.allows(&call) && whole.allows(&ResourceAttributes { namespace: "", ..call }));
    let of_status = ResourceAttributes {
        subresource: "status",
        ..call
    };
    assert!(!whole.allows(&of_status) && status.allows(&of_status) && !status.allows(&call));
}

#[test]
fn invalid_grants_are_rejected_with_a_reason() {
    let mut text = String::new();
    for json in [
        r#"{"verbs": [], "resource": "v1/pods"}"#,
        r#"{"verbs": ["list"], "resource": "v1/pods", "names": ["a"]}"#,
        r#"{"verbs": ["get"], "resource": "v1/pods", "names": []}"#,
        r#"{"verbs": ["get"], "resource": "v1/pods", "namespaces": []}"#,
        r#"{"verbs": ["get"], "resource": "v1/pods", "namespaces": ["*"]}"#,
        r#"{"verbs": ["get"], "resource": "v1/pods", "names": ["../secrets/a"]}"#,
    ] {
        text += &serde_json::from_str::<KubeGrant>(json).unwrap().validate().unwrap_err();
        text.push('\n');
    }
    insta::assert_snapshot!(text, @r#"
    `verbs` is empty; list at least one of get, list, create, update, patch, delete
    `names` cannot limit `list`, which returns all objects; grant `list` in a separate entry, or use `get`
    `names` is empty; list at least one, or remove it to allow all
    `namespaces` is empty; list at least one, or remove it to allow all
    `namespaces` has "*", which is not a valid name; there are no wildcards
    `names` has "../secrets/a", which is not a valid name; there are no wildcards
    "#);
}

#[test]
fn names_of_roles_may_hold_what_other_names_may_not() {
    let roles = KubeResource::parse("rbac.authorization.k8s.io/v1/clusterroles").unwrap();
    for name in ["a?b", "a#b", "a\\b", "a b", "a\tb", "a*", "\u{1b}"] {
        assert!(is_name(&roles, name) && !is_name(&pods(), name), "{name:?}");
    }
    for name in ["", ".", "..", "a/b", "a%2fb"] {
        assert!(!is_name(&roles, name) && !is_name(&pods(), name), "{name}");
    }
}

#[test]
fn resources_are_parsed_strictly() {
    for good in [
        "v1/pods",
        "apps/v1/deployments",
        "shop.example.com/v1alpha1/orders",
        "autoscaling/v2beta2/x",
    ] {
        assert_eq!(KubeResource::parse(good).unwrap().to_string(), good);
    }
    let mut text = String::new();
    for bad in [
        "pods",
        "v1/*",
        "v1/pods/status",
        "v1/Pods",
        "a/b/c",
        "v1/../pods",
        "",
        "v1/",
        "apps/v1/x/status",
    ] {
        text += &KubeResource::parse(bad).unwrap_err().to_string();
        text.push('\n');
    }
    insta::assert_snapshot!(text, @r#"
    "pods" is not a resource: a version and a plural are required; write `v1/pods` or `apps/v1/deployments`
    "v1/*" is not a resource: there are no wildcards; write `v1/pods` or `apps/v1/deployments`
    "v1/pods/status" is not a resource: a subresource goes into its own field (`subresources` of a grant, `subresource` of a call); write `v1/pods` or `apps/v1/deployments`
    "v1/Pods" is not a resource: its last part is not a lowercase plural; write `v1/pods` or `apps/v1/deployments`
    "a/b/c" is not a resource: its version is invalid; write `v1/pods` or `apps/v1/deployments`
    "v1/../pods" is not a resource: a subresource goes into its own field (`subresources` of a grant, `subresource` of a call); write `v1/pods` or `apps/v1/deployments`
    "" is not a resource: a version and a plural are required; write `v1/pods` or `apps/v1/deployments`
    "v1/" is not a resource: its last part is not a lowercase plural; write `v1/pods` or `apps/v1/deployments`
    "apps/v1/x/status" is not a resource: a version and a plural are required; write `v1/pods` or `apps/v1/deployments`
    "#);
}

#[test]
fn a_requirement_can_be_met_by_several_grants() {
    let need = grant(r#"{"verbs": ["get", "patch"], "resource": "v1/pods", "namespaces": ["a", "b"]}"#);
    let in_a = grant(r#"{"verbs": ["get", "patch"], "resource": "v1/pods", "namespaces": ["a"]}"#);
    let get = grant(r#"{"verbs": ["get"], "resource": "v1/pods"}"#);
    let patch_in_b = grant(r#"{"verbs": ["patch"], "resource": "v1/pods", "namespaces": ["b"]}"#);
    let needs = [need.clone()];
    assert_eq!(unmet(&needs, &[in_a.clone(), get.clone(), patch_in_b], &[]), []);
    let missing = unmet(&needs, &[in_a, get], &[]);
    assert_eq!(
        missing,
        [KubeGrant {
            verbs: vec![KubeVerb::Patch],
            ..need
        }]
    );
}

#[test]
fn a_requirement_without_namespaces_is_met_by_any_namespace() {
    let need = [grant(r#"{"verbs": ["patch"], "resource": "v1/pods"}"#)];
    let in_one = grant(r#"{"verbs": ["patch"], "resource": "v1/pods", "namespaces": ["a"], "names": ["x"]}"#);
    let of_status = grant(r#"{"verbs": ["patch"], "resource": "v1/pods", "subresources": ["status"]}"#);
    assert_eq!(unmet(&need, &[in_one], &[]), []);
    assert_eq!(unmet(&need, &[of_status], &[]), need);
}

#[test]
fn the_suggested_line_keeps_existing_grants_and_joins_verbs() {
    let granted = [
        grant(r#"{"verbs": ["get"], "resource": "v1/pods", "namespaces": ["web"]}"#),
        grant(r#"{"verbs": ["list"], "resource": "v1/nodes"}"#),
    ];
    let resource = pods();
    let call = patch(&resource, "web", "a");
    insta::assert_snapshot!(
        allow_line(&granted, &[], &[call.suggested_grant()]),
        @r#"allow.kube = [{ verbs = ["get", "patch"], resource = "v1/pods", namespaces = ["web"] }, { verbs = ["list"], resource = "v1/nodes" }]"#
    );
    let status = ResourceAttributes {
        subresource: "status",
        namespace: "",
        ..call
    };
    insta::assert_snapshot!(
        allow_line(&[], &[], &[status.suggested_grant()]),
        @r#"allow.kube = [{ verbs = ["patch"], resource = "v1/pods", subresources = ["status"] }]"#
    );
}

fn of_informer(verbs: &[KubeVerb], exclude: &str) -> InformerGrant {
    InformerGrant {
        verbs: verbs.to_vec(),
        informer: "all".to_owned(),
        exclude: Exclude {
            resources: vec![GroupVersionResource::new("", "v1", "secrets")],
            versions: vec![ResourcePattern::parse(exclude).unwrap()],
        },
        subresources: Vec::new(),
    }
}

#[test]
fn an_informer_grant_is_of_its_verbs_without_exclusions() {
    let grant = of_informer(&[KubeVerb::Delete], "apps/v1/*");
    let allowed = |verb: KubeVerb, resource: &str, subresource: &str| {
        grant.allows_if_watched(&ResourceAttributes {
            verb,
            resource: &KubeResource::parse(resource).unwrap(),
            namespace: "web",
            name: "a",
            subresource,
        })
    };
    assert!(allowed(KubeVerb::Delete, "v1/pods", ""));
    assert!(allowed(KubeVerb::Delete, "batch/v1/jobs", ""));
    for (verb, resource, subresource) in [
        (KubeVerb::Get, "v1/pods", ""),
        (KubeVerb::Delete, "v1/pods", "status"),
        (KubeVerb::Delete, "v1/secrets", ""),
        (KubeVerb::Delete, "v2/secrets", ""),
        (KubeVerb::Delete, "apps/v1/deployments", ""),
        (KubeVerb::Delete, "apps/v1beta1/deployments", ""),
    ] {
        assert!(!allowed(verb, resource, subresource), "{verb} {resource} {subresource}");
    }
}

#[test]
fn an_informer_grant_of_subresources_is_not_of_the_object() {
    let grant = InformerGrant {
        subresources: vec!["status".to_owned()],
        ..of_informer(&[KubeVerb::Patch], "apps/v1/*")
    };
    let resource = pods();
    let call = patch(&resource, "web", "a");
    assert!(!grant.allows_if_watched(&call));
    let of_status = ResourceAttributes {
        subresource: "status",
        ..call
    };
    assert!(grant.allows_if_watched(&of_status));
    let wildcard = InformerGrant {
        subresources: vec!["*".to_owned()],
        ..grant.clone()
    };
    let no_verbs = InformerGrant { verbs: vec![], ..grant };
    insta::assert_snapshot!([wildcard, no_verbs].map(|grant| grant.validate().unwrap_err()).join("\n"), @r#"
    `subresources` has "*", which is not a valid name; there are no wildcards
    `verbs` is empty; list at least one of get, list, create, update, patch, delete
    "#);
}

#[test]
fn an_informer_grant_meets_needs_that_it_does_not_exclude() {
    let grants = [of_informer(&[KubeVerb::Patch, KubeVerb::Delete], "apps/v1/*")];
    let needs = [
        r#"{"verbs": ["get", "patch"], "resource": "v1/pods", "namespaces": ["a"]}"#,
        r#"{"verbs": ["delete"], "resource": "apps/v1/deployments"}"#,
        r#"{"verbs": ["patch"], "resource": "v1/pods", "subresources": ["status"]}"#,
    ];
    let missing = unmet(&needs.map(grant), &[], &grants);
    insta::assert_snapshot!(
        allow_line(&[], &grants, &missing),
        @r#"allow.kube = [{ verbs = ["patch", "delete"], informer = "all", exclude = ["v1/secrets", "apps/v1/*"] }, { verbs = ["get"], resource = "v1/pods", namespaces = ["a"] }, { verbs = ["delete"], resource = "apps/v1/deployments" }, { verbs = ["patch"], resource = "v1/pods", subresources = ["status"] }]"#
    );
}

#[test]
fn an_informer_grant_becomes_grants_of_resources() {
    let of = of_informer(&[KubeVerb::Delete], "apps/v1/*");
    let resource = |group: &str, plural: &str| GroupVersionResource::new(group, "v1", plural);
    let everywhere = of.of_resource(&resource("batch", "jobs"), &[]).unwrap();
    let in_web = of.of_resource(&resource("", "pods"), &["web".to_owned()]).unwrap();
    insta::assert_snapshot!(
        allow_line(&[everywhere, in_web], &[], &[]),
        @r#"allow.kube = [{ verbs = ["delete"], resource = "batch/v1/jobs" }, { verbs = ["delete"], resource = "v1/pods", namespaces = ["web"] }]"#
    );
    assert_eq!(of.of_resource(&resource("", "secrets"), &[]), None);
    assert_eq!(of.of_resource(&resource("apps", "deployments"), &[]), None);
}
