use super::*;

fn resource(name: &str, verbs: &[&str]) -> ApiResource {
    let ResourceName::Exact(gvr) = ResourceName::parse(name).unwrap() else {
        panic!("{name} has no version");
    };
    ApiResource {
        group: gvr.group.to_string(),
        version: gvr.version.to_string(),
        singular: gvr.plural.trim_end_matches('s').to_owned(),
        kind: gvr.plural.trim_end_matches('s').to_owned(),
        plural: gvr.plural.to_string(),
        namespaced: true,
        verbs: verbs.iter().map(ToString::to_string).collect(),
        short_names: Vec::new(),
    }
}

/// In the order of preference.
fn served() -> Vec<ApiResource> {
    let read = ["get", "list"];
    let watch = ["get", "list", "watch"];
    vec![
        resource("v1/pods", &watch),
        resource("v1/secrets", &watch),
        resource("v1/bindings", &["create"]),
        resource("apps/v1/deployments", &watch),
        resource("apps/v1beta1/deployments", &watch),
        resource("metrics.k8s.io/v1beta1/pods", &read),
        resource("shop.example.com/v2/orders", &watch),
        resource("shop.example.com/v1/orders", &watch),
        resource("shop.example.com/v1/carts", &watch),
    ]
}

fn exclude(entries: &[&str]) -> Exclude {
    let mut exclude = Exclude::default();
    for entry in entries {
        match ResourcePattern::parse(entry) {
            Ok(pattern) => exclude.versions.push(pattern),
            Err(_) => exclude.resources.push(resource(entry, &[]).gvr()),
        }
    }
    exclude
}

/// The unused ones of `entries`, a line each.
fn idle(entries: &[&str], unread_groups: &[&str]) -> String {
    let unread_groups = unread_groups.iter().map(ToString::to_string).collect();
    let checked = check_exclusions(&exclude(entries), &served(), &unread_groups);
    let idle = checked.iter().filter_map(|(entry, exclusion)| match exclusion {
        Exclusion::Effective => None,
        Exclusion::Unused(idle) => Some(format!("`{entry}` {idle}")),
    });
    idle.collect::<Vec<_>>().join("\n")
}

#[test]
fn an_entry_excluding_an_unwatchable_resource_is_effective() {
    let entries = [
        "v1/secrets",
        "apps/v1/*",
        "v1/bindings",
        "metrics.k8s.io/v1beta1/*",
        "shop.example.com/v1/*",
        "*",
    ];
    assert_eq!(idle(&entries, &[]), "");
}

#[test]
fn an_unused_entry_suggests_similar_watched_resources() {
    insta::assert_snapshot!(idle(&["v1/secret", "apps/v1/pods", "app/v1/*", "shop.example.com/v3/*", "zzz/v1/*", "v1/zzz"], &[]), @"
    `app/v1/*` matches no served resource; did you mean `apps/v1/*`?
    `apps/v1/pods` matches no served resource; did you mean `v1/pods`?
    `shop.example.com/v3/*` matches no served resource; did you mean one of `shop.example.com/v2/*`, `shop.example.com/v1/*`?
    `v1/secret` matches no served resource; did you mean `v1/secrets`?
    `v1/zzz` matches no served resource; `kubectl api-resources` lists the served resources
    `zzz/v1/*` matches no served resource; `kubectl api-resources` lists the served resources
    ");
    // An entry that is already excluded is not a suggestion.
    insta::assert_snapshot!(idle(&["v1/secret", "v1/secrets"], &[]), @"`v1/secret` matches no served resource; `kubectl api-resources` lists the served resources");
}

#[test]
fn excluding_an_unwatched_version_alone_has_no_effect() {
    insta::assert_snapshot!(idle(&["apps/v1beta1/deployments", "apps/v1beta1/*"], &[]), @"
    `apps/v1beta1/*` matches no served resource; did you mean `apps/v1/*`?
    `apps/v1beta1/deployments` matches no served resource; did you mean `apps/v1/deployments`?
    ");
    assert_eq!(idle(&["apps/v1beta1/*", "apps/v1/*"], &[]), "");
    // Carts are only served in this version.
    assert_eq!(idle(&["shop.example.com/v1/*"], &[]), "");
}

#[test]
fn entries_of_an_unavailable_group_are_not_checked() {
    let entries = ["shop.example.com/v9/*", "shop.example.com/v1/things", "v1/secret"];
    let checked = check_exclusions(
        &exclude(&entries),
        &served(),
        &BTreeSet::from(["shop.example.com".to_owned()]),
    );
    assert_eq!(checked.keys().collect::<Vec<_>>(), ["v1/secret"]);
}

#[test]
fn without_served_resources_no_entry_is_checked() {
    assert!(check_exclusions(&exclude(&["v1/secret"]), &[], &BTreeSet::new()).is_empty());
}
