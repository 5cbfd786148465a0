use super::*;

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
    assert_eq!(unmet(&needs, &[in_a.clone(), get.clone(), patch_in_b]), []);
    let missing = unmet(&needs, &[in_a, get]);
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
    assert_eq!(unmet(&need, &[in_one]), []);
    assert_eq!(unmet(&need, &[of_status]), need);
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
        allow_line(&granted, &[call.suggested_grant()]),
        @r#"allow.kube = [{ verbs = ["get", "patch"], resource = "v1/pods", namespaces = ["web"] }, { verbs = ["list"], resource = "v1/nodes" }]"#
    );
    let status = ResourceAttributes {
        subresource: "status",
        namespace: "",
        ..call
    };
    insta::assert_snapshot!(
        allow_line(&[], &[status.suggested_grant()]),
        @r#"allow.kube = [{ verbs = ["patch"], resource = "v1/pods", subresources = ["status"] }]"#
    );
}
