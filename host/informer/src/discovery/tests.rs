use std::collections::BTreeMap;

use http::Response;
use informant_spec::{Exclude, ResourcePattern};

use super::*;
use crate::testing::{TestBody, answer, client, json_answer, refusal};

/// The responses of a small cluster with one custom resource and one broken extension server.
fn cluster(path: &str) -> Response<TestBody> {
    match path {
        "/api" => json_answer(r#"{"kind":"APIVersions","versions":["v1"]}"#),
        "/api/v1" => json_answer(
            r#"{"kind":"APIResourceList","groupVersion":"v1","resources":[
                {"name":"bindings","singularName":"binding","namespaced":true,"kind":"Binding","verbs":["create"]},
                {"name":"nodes","singularName":"node","namespaced":false,"kind":"Node","verbs":["list","watch"],"shortNames":["no"]},
                {"name":"pods","singularName":"pod","namespaced":true,"kind":"Pod","verbs":["list","watch"],"shortNames":["po"]},
                {"name":"pods/log","singularName":"","namespaced":true,"kind":"Pod","verbs":["get"]}]}"#,
        ),
        "/apis" => json_answer(
            r#"{"kind":"APIGroupList","groups":[
                {"name":"apps","versions":[{"version":"v1beta1"},{"version":"v1"}],"preferredVersion":{"version":"v1"}},
                {"name":"metrics.k8s.io","versions":[{"version":"v1beta1"}]},
                {"name":"shop.example.com","versions":[{"version":"v1alpha1"}]}]}"#,
        ),
        "/apis/apps/v1" => json_answer(
            r#"{"resources":[{"name":"deployments","singularName":"deployment","namespaced":true,"kind":"Deployment","verbs":["list","watch"],"shortNames":["deploy"]}]}"#,
        ),
        "/apis/apps/v1beta1" => json_answer(
            r#"{"resources":[{"name":"deployments","singularName":"deployment","namespaced":true,"kind":"Deployment","verbs":["list","watch"]}]}"#,
        ),
        "/apis/shop.example.com/v1alpha1" => json_answer(
            r#"{"resources":[{"name":"orders","singularName":"order","namespaced":true,"kind":"Order","verbs":["list","watch"]}]}"#,
        ),
        "/apis/metrics.k8s.io/v1beta1" => refusal(503, "ServiceUnavailable", "no endpoints"),
        other => refusal(404, "NotFound", other),
    }
}

async fn find(name: &str) -> Result<Discovered, DiscoveryError> {
    let client = client(|request| cluster(request.uri().path()));
    discover(&client, &ResourceName::parse(name).unwrap()).await
}

async fn check(names: &[&str], wanted: &str) {
    for name in names {
        let found = find(name).await.unwrap();
        assert_eq!(
            format!("{} {} {}", found.gvr, found.kind, found.namespaced),
            wanted,
            "{name}"
        );
    }
}

#[tokio::test(start_paused = true)]
async fn resources_resolve_by_path_plural_singular_short_name_and_kind() {
    check(&["v1/pods", "pods", "pod", "po", "Pod"], "v1/pods Pod true").await;
    check(&["v1/nodes", "no"], "v1/nodes Node false").await;
}

#[tokio::test(start_paused = true)]
async fn a_loose_name_resolves_to_the_preferred_version() {
    check(
        &["deployments", "deploy", "deployments.apps", "apps/v1/deployments"],
        "apps/v1/deployments Deployment true",
    )
    .await;
    check(
        &["deployments.v1beta1.apps", "apps/v1beta1/deployments"],
        "apps/v1beta1/deployments Deployment true",
    )
    .await;
}

#[tokio::test(start_paused = true)]
async fn a_custom_resource_resolves_although_another_group_is_broken() {
    check(
        &["Order", "orders.shop", "orders.shop.example.com"],
        "shop.example.com/v1alpha1/orders Order true",
    )
    .await;
}

#[tokio::test(start_paused = true)]
async fn an_unknown_resource_lists_suggestions_and_unavailable_groups() {
    insta::assert_snapshot!(find("v1/deployments").await.unwrap_err(), @"the API server serves no resource `v1/deployments`; did you mean one of `apps/v1/deployments`, `apps/v1beta1/deployments`? These API groups did not respond: metrics.k8s.io/v1beta1 (the API server responded with 503 ServiceUnavailable: no endpoints)");
    insta::assert_snapshot!(find("ordes").await.unwrap_err(), @"the API server serves no resource `ordes`; did you mean one of `shop.example.com/v1alpha1/orders`, `v1/nodes`? These API groups did not respond: metrics.k8s.io/v1beta1 (the API server responded with 503 ServiceUnavailable: no endpoints)");
    insta::assert_snapshot!(find("zzz").await.unwrap_err(), @"the API server serves no resource `zzz`; `kubectl api-resources` lists the served resources; these API groups did not respond: metrics.k8s.io/v1beta1 (the API server responded with 503 ServiceUnavailable: no endpoints)");
    assert!(find("zzz").await.unwrap_err().may_appear());
}

#[tokio::test(start_paused = true)]
async fn an_unwatchable_resource_is_refused() {
    insta::assert_snapshot!(find("v1/bindings").await.unwrap_err(), @"v1/bindings cannot be watched: it supports only create, but an informer needs `list` and `watch`");
}

#[tokio::test(start_paused = true)]
async fn an_html_response_is_reported_as_not_an_api_server() {
    let login =
        |_: &http::Request<kube::client::Body>| answer(200, "text/html", "<html><body>Please log in</body></html>");
    let error = discover(&client(login), &ResourceName::parse("pods").unwrap())
        .await
        .unwrap_err();
    insta::assert_snapshot!(error, @r#"discovery of `pods` failed: the response is not JSON but text/html that starts with "<html><body>Please log in</body></html>"; the address is not a Kubernetes API server, or a proxy answers instead of it"#);
}

#[tokio::test(start_paused = true)]
async fn an_html_page_with_a_json_content_type_is_detected() {
    let login = |_: &http::Request<kube::client::Body>| json_answer("<html><body>Please log in</body></html>");
    let error = discover(&client(login), &ResourceName::parse("v1/pods").unwrap())
        .await
        .unwrap_err();
    insta::assert_snapshot!(error, @r#"discovery of `v1/pods` failed: the response is not JSON but application/json that starts with "<html><body>Please log in</body></html>"; the address is not a Kubernetes API server, or a proxy answers instead of it"#);
}

#[tokio::test(start_paused = true)]
async fn a_refusal_keeps_the_api_servers_message() {
    let forbid =
        |_: &http::Request<kube::client::Body>| refusal(403, "Forbidden", "User \"x\" cannot get path \"/api/v1\"");
    let error = discover(&client(forbid), &ResourceName::parse("v1/pods").unwrap())
        .await
        .unwrap_err();
    insta::assert_snapshot!(error, @r#"discovery of `v1/pods` failed: the API server responded with 403 Forbidden: User "x" cannot get path "/api/v1""#);
}

async fn find_all(pattern: &str, exclude: Exclude) -> ServedResources {
    let client = client(|request| cluster(request.uri().path()));
    let environment = Arc::new(TokioEnvironment::current(0));
    discover_matching(
        &client,
        environment,
        &ResourcePattern::parse(pattern).unwrap(),
        &exclude,
    )
    .await
    .unwrap()
}

fn names(served: &ServedResources) -> Vec<String> {
    served.resources.keys().map(ToString::to_string).collect()
}

#[tokio::test(start_paused = true)]
async fn the_pattern_for_everything_lists_each_watchable_resource_once() {
    let served = find_all("*", Exclude::default()).await;
    assert_eq!(
        names(&served),
        [
            "v1/nodes",
            "v1/pods",
            "apps/v1/deployments",
            "shop.example.com/v1alpha1/orders"
        ]
    );
    assert_eq!(served.unread.keys().collect::<Vec<_>>(), ["metrics.k8s.io/v1beta1"]);
}

#[tokio::test(start_paused = true)]
async fn a_version_that_is_not_served_has_no_resources() {
    assert_eq!(
        names(&find_all("v1/*", Exclude::default()).await),
        ["v1/nodes", "v1/pods"]
    );
    assert_eq!(
        names(&find_all("apps/v1beta1/*", Exclude::default()).await),
        ["apps/v1beta1/deployments"]
    );
    assert_eq!(
        find_all("gone.example.com/v1/*", Exclude::default()).await,
        ServedResources::default()
    );
}

#[tokio::test(start_paused = true)]
async fn excluded_resources_are_left_out() {
    let exclude = Exclude {
        resources: vec![GroupVersionResource::new("", "v1", "nodes")],
        versions: vec![ResourcePattern::parse("apps/v1/*").unwrap()],
    };
    assert_eq!(
        names(&find_all("*", exclude).await),
        ["v1/pods", "shop.example.com/v1alpha1/orders"]
    );
}

#[tokio::test(start_paused = true)]
async fn unused_exclusions_are_reported_unless_their_group_is_unavailable() {
    let exclude = Exclude {
        resources: vec![
            GroupVersionResource::new("", "v1", "pod"),
            GroupVersionResource::new("", "v1", "nodes"),
            GroupVersionResource::new("metrics.k8s.io", "v1beta1", "pots"),
        ],
        versions: vec![ResourcePattern::parse("metrics.k8s.io/v1/*").unwrap()],
    };
    let idle = UnusedExclusion {
        candidates: vec!["v1/pods".to_owned()],
    };
    let wanted = BTreeMap::from([
        ("v1/pod".to_owned(), Exclusion::Unused(idle)),
        ("v1/nodes".to_owned(), Exclusion::Effective),
    ]);
    assert_eq!(find_all("*", exclude.clone()).await.exclusions, wanted);
    let of_core = find_all("v1/*", exclude.clone()).await.exclusions;
    assert_eq!(
        of_core.len(),
        4,
        "what is outside of the pattern leaves nothing out of it"
    );
    assert!(of_core.contains_key("metrics.k8s.io/v1/*"));
    assert_eq!(
        find_all("gone.example.com/v1/*", exclude).await,
        ServedResources::default()
    );
}

#[tokio::test(start_paused = true)]
async fn an_unavailable_group_keeps_its_known_resources() {
    let mut before = find_all("*", Exclude::default()).await;
    let metric = GroupVersionResource::new("metrics.k8s.io", "v1beta1", "pods");
    let known = Discovered {
        gvr: metric.clone(),
        kind: "PodMetrics".to_owned(),
        namespaced: true,
        other_names: Vec::new(),
    };
    before.resources.insert(metric.clone(), known);
    before.resources.insert(
        GroupVersionResource::new("gone.example.com", "v1", "things"),
        before.resources[&metric].clone(),
    );
    let now = find_all("*", Exclude::default()).await.after(&before);
    assert!(now.resources.contains_key(&metric));
    assert_eq!(now.resources.len(), 5, "removed resources are gone");
}

/// The same cluster, one version later, with aggregated discovery.
fn aggregated(
    version: &'static str,
    groups: &'static str,
) -> impl Fn(&http::Request<kube::client::Body>) -> Response<TestBody> {
    move |request| {
        let path = request.uri().path();
        let accept = request.headers()[http::header::ACCEPT].to_str().unwrap();
        let asks = accept.contains(&format!("g=apidiscovery.k8s.io;v={version};as=APIGroupDiscoveryList"));
        match path {
            "/api" | "/apis" if !asks => refusal(406, "NotAcceptable", accept),
            "/api" => json_answer(
                r#"{"kind":"APIGroupDiscoveryList","apiVersion":"apidiscovery.k8s.io/v2","metadata":{},"items":[
                    {"metadata":{"creationTimestamp":null},"versions":[{"version":"v1","freshness":"Current","resources":[
                        {"resource":"pods","responseKind":{"group":"","version":"","kind":"Pod"},"scope":"Namespaced","singularResource":"pod","verbs":["list","watch"],"shortNames":["po"],
                            "subresources":[{"subresource":"log","verbs":["get"]}]},
                        {"resource":"odd","responseKind":{"group":"","version":"","kind":""},"scope":"Namespaced","singularResource":"","verbs":null,"subresources":[{"subresource":"scale","verbs":["get"]}]},
                        {"resource":"odder","scope":"Namespaced","singularResource":"","verbs":[],"subresources":[{"subresource":"scale","verbs":["get"]}]}]}]}]}"#,
            ),
            "/apis" => json_answer(groups),
            other => refusal(404, "NotFound", other),
        }
    }
}

const GROUPS: &str = r#"{"kind":"APIGroupDiscoveryList","apiVersion":"apidiscovery.k8s.io/v2","metadata":{},"items":[
    {"metadata":{"name":"apps"},"versions":[
        {"version":"v1","freshness":"Current","resources":[
            {"resource":"deployments","responseKind":{"group":"apps","version":"v1","kind":"Deployment"},"scope":"Namespaced","singularResource":"deployment","verbs":["list","watch"],"shortNames":["deploy"]}]},
        {"version":"v1beta1","freshness":"Current","resources":[
            {"resource":"deployments","responseKind":{"group":"apps","version":"v1beta1","kind":"Deployment"},"scope":"Namespaced","singularResource":"deployment","verbs":["list","watch"]}]}]},
    {"metadata":{"name":"shop.example.com"},"versions":[
        {"version":"v2","freshness":"Stale","resources":[
            {"resource":"orders","responseKind":{"group":"shop.example.com","version":"v2","kind":"Order"},"scope":"Cluster","singularResource":"order","verbs":["list","watch"]}]},
        {"version":"v1","freshness":"Current","resources":[
            {"resource":"carts","responseKind":{"group":"shop.example.com","version":"v1","kind":"Cart"},"scope":"Cluster","singularResource":"cart","verbs":["list","watch"]}]}]}]}"#;

#[tokio::test(start_paused = true)]
async fn aggregated_discovery_needs_two_requests() {
    for version in ["v2", "v2beta1"] {
        let client = client(aggregated(version, GROUPS));
        for (name, wanted) in [
            ("po", "v1/pods Pod true"),
            ("deploy", "apps/v1/deployments Deployment true"),
            ("deployments.v1beta1.apps", "apps/v1beta1/deployments Deployment true"),
            ("Order", "shop.example.com/v2/orders Order false"),
        ] {
            let found = discover(&client, &ResourceName::parse(name).unwrap()).await.unwrap();
            assert_eq!(format!("{} {} {}", found.gvr, found.kind, found.namespaced), wanted);
        }
    }
    let client = client(aggregated("v2", GROUPS));
    let refused = discover(&client, &ResourceName::parse("odder").unwrap()).await;
    assert!(refused.is_err());
    // As kube-apiserver describes a resource that only has subresources.
    let refused = discover(&client, &ResourceName::parse("odd").unwrap()).await;
    insta::assert_snapshot!(refused.unwrap_err(), @"the API server serves no resource `odd`; `kubectl api-resources` lists the served resources; these API groups did not respond: shop.example.com/v2 (its API service does not respond)");
}

async fn all_of(groups: &'static str) -> Result<ServedResources, ApiError> {
    let environment = Arc::new(TokioEnvironment::current(0));
    let pattern = ResourcePattern::Everything;
    discover_matching(
        &client(aggregated("v2", groups)),
        environment,
        &pattern,
        &Exclude::default(),
    )
    .await
}

#[tokio::test(start_paused = true)]
async fn resources_of_an_unavailable_api_service_are_kept() {
    let served = all_of(GROUPS).await.unwrap();
    // Another version of the group may serve the same kinds: it is left alone meanwhile.
    assert_eq!(
        names(&served),
        ["v1/pods", "apps/v1/deployments", "shop.example.com/v2/orders"]
    );
    assert_eq!(
        served.unread.keys().collect::<Vec<_>>(),
        ["shop.example.com/v1", "shop.example.com/v2"]
    );
    // An API server that was restarted meanwhile has forgotten the old resources.
    let forgotten = r#"{"kind":"APIGroupDiscoveryList","items":[{"metadata":{"name":"shop.example.com"},"versions":[{"version":"v2","freshness":"Stale"}]}]}"#;
    let now = all_of(forgotten).await.unwrap().after(&served);
    assert_eq!(names(&now), ["v1/pods", "shop.example.com/v2/orders"]);
}

#[tokio::test(start_paused = true)]
async fn a_response_that_is_not_discovery_is_an_error() {
    for odd in [
        "{}",
        r#"{"kind":"Status"}"#,
        r#"{"kind":"APIGroupDiscoveryList","items":[{"versions":[{}]}]}"#,
    ] {
        let refused = all_of(odd).await;
        assert!(matches!(refused, Err(ApiError::Damaged(_))), "{odd}: {refused:?}");
    }
}
