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
fn a_grant_allows_what_it_names_and_nothing_beside() {
    let grant = grant(
        r#"{"verbs": ["get", "patch"], "resource": "v1/pods", "namespaces": ["web", "db"], "names": ["a", "b"]}"#,
    );
    let resource = pods();
    let act = patch(&resource, "web", "a");
    assert!(grant.allows(&act));
    let (of_group, of_version) = (
        KubeResource::parse("apps/v1/pods").unwrap(),
        KubeResource::parse("v2/pods").unwrap(),
    );
    for other in [
        ResourceAttributes {
            verb: KubeVerb::Delete,
            ..act
        },
        ResourceAttributes {
            resource: &of_group,
            ..act
        },
        ResourceAttributes {
            resource: &of_version,
            ..act
        },
        ResourceAttributes {
            namespace: "prod",
            ..act
        },
        ResourceAttributes { namespace: "", ..act },
        ResourceAttributes { name: "c", ..act },
        ResourceAttributes { name: "", ..act },
        ResourceAttributes {
            subresource: "status",
            ..act
        },
    ] {
        assert!(!grant.allows(&other), "{other:?}");
    }
}

#[test]
fn what_a_grant_leaves_out_is_not_limited_but_subresources_are() {
    let whole = grant(r#"{"verbs": ["patch"], "resource": "v1/pods"}"#);
    let status = grant(r#"{"verbs": ["patch"], "resource": "v1/pods", "subresources": ["status"]}"#);
    let resource = pods();
    let act = patch(&resource, "anywhere", "any");
    assert!(whole.allows(&act) && whole.allows(&ResourceAttributes { namespace: "", ..act }));
    let of_status = ResourceAttributes {
        subresource: "status",
        ..act
    };
    assert!(!whole.allows(&of_status) && status.allows(&of_status) && !status.allows(&act));
}

#[test]
fn what_is_wrong_with_a_grant_is_said() {
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
    `verbs` is empty; name at least one of get, list, create, update, patch, delete
    `names` cannot limit `list`, which shows all of them; grant `list` apart, or use `get`
    `names` is empty; leave it out if it is not to be limited
    `namespaces` is empty; leave it out if it is not to be limited
    "*" cannot be the name of anything; there are no wildcards
    "../secrets/a" cannot be the name of anything; there are no wildcards
    "#);
}

#[test]
fn a_resource_is_named_exactly() {
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
    "pods" names no resource: it has to have a version and a plural; write `v1/pods` or `apps/v1/deployments`
    "v1/*" names no resource: there are no wildcards; write `v1/pods` or `apps/v1/deployments`
    "v1/pods/status" names no resource: a subresource has a place of its own (`subresources` of a grant, `subresource` of a call); write `v1/pods` or `apps/v1/deployments`
    "v1/Pods" names no resource: its last part is no plural in small letters; write `v1/pods` or `apps/v1/deployments`
    "a/b/c" names no resource: its version is none; write `v1/pods` or `apps/v1/deployments`
    "v1/../pods" names no resource: a subresource has a place of its own (`subresources` of a grant, `subresource` of a call); write `v1/pods` or `apps/v1/deployments`
    "" names no resource: it has to have a version and a plural; write `v1/pods` or `apps/v1/deployments`
    "v1/" names no resource: its last part is no plural in small letters; write `v1/pods` or `apps/v1/deployments`
    "apps/v1/x/status" names no resource: it has to have a version and a plural; write `v1/pods` or `apps/v1/deployments`
    "#);
}

#[test]
fn a_need_is_met_by_grants_together_and_what_is_missing_is_named() {
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
fn a_need_without_namespaces_leaves_them_to_whoever_grants_it() {
    let need = [grant(r#"{"verbs": ["patch"], "resource": "v1/pods"}"#)];
    let in_one = grant(r#"{"verbs": ["patch"], "resource": "v1/pods", "namespaces": ["a"], "names": ["x"]}"#);
    let of_status = grant(r#"{"verbs": ["patch"], "resource": "v1/pods", "subresources": ["status"]}"#);
    assert_eq!(unmet(&need, &[in_one]), []);
    assert_eq!(unmet(&need, &[of_status]), need);
}

#[test]
fn the_line_that_would_allow_it_keeps_what_is_granted_and_joins_verbs() {
    let granted = [
        grant(r#"{"verbs": ["get"], "resource": "v1/pods", "namespaces": ["web"]}"#),
        grant(r#"{"verbs": ["list"], "resource": "v1/nodes"}"#),
    ];
    let resource = pods();
    let act = patch(&resource, "web", "a");
    insta::assert_snapshot!(
        allow_line(&granted, &[act.grant()]),
        @r#"allow.kube = [{ verbs = ["get", "patch"], resource = "v1/pods", namespaces = ["web"] }, { verbs = ["list"], resource = "v1/nodes" }]"#
    );
    let status = ResourceAttributes {
        subresource: "status",
        namespace: "",
        ..act
    };
    insta::assert_snapshot!(
        allow_line(&[], &[status.grant()]),
        @r#"allow.kube = [{ verbs = ["patch"], resource = "v1/pods", subresources = ["status"] }]"#
    );
}
