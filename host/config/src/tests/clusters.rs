//! One cluster, several clusters, and the limit of watches.

use super::*;

#[test]
fn informers_select_named_clusters() {
    let config = accepted(
        r#"
[cluster.east]
context = "east"
[cluster.west]
kubeconfig = "west.kubeconfig"
context = "admin"
[cluster.here]
in-cluster = true

[informer.pods]
resource = "v1/pods"
[informer.nodes]
resource = "v1/nodes"
clusters = ["west", "here"]
"#,
    );
    let of = |informer: &str| {
        config
            .clusters_of(&config.informers[informer])
            .collect::<Vec<_>>()
            .join(" ")
    };
    assert_eq!(of("pods"), "east here west");
    assert_eq!(of("nodes"), "here west");
    assert!(config.clusters["here"].value.in_cluster && config.has_named_clusters());
    let one = accepted("[informer.pods]\nresource = \"v1/pods\"\n");
    assert_eq!(one.clusters_of(&one.informers["pods"]).collect::<Vec<_>>(), [""]);
    assert!(!one.has_named_clusters());
}

#[test]
fn invalid_clusters_are_refused_with_their_positions() {
    insta::assert_snapshot!(refusal(
        r#"
[cluster]
context = "both forms"
[cluster.east]
[cluster.West]
context = "w"
[cluster.here]
in-cluster = true
kubeconfig = "other"
[informer.pods]
resource = "v1/pods"
clusters = ["esat", "east", "east", "north"]
[informer.nodes]
resource = "v1/nodes"
clusters = []
"#
    ), @r#"
    error: config.toml:3:1: `context` is set in [cluster] itself
      help: use a section with a name: [cluster.NAME]
    error: config.toml:4:10: [cluster.east] does not select a cluster
      help: add `context`, `kubeconfig`, or `in-cluster = true`
    error: config.toml:5:10: "West" is not a valid NAME for [cluster.NAME]
      help: 1 to 63 lowercase letters, digits and '-', with a letter or digit at both ends
    error: config.toml:9:14: `kubeconfig` and `in-cluster = true` are mutually exclusive
      help: `in-cluster` uses the service account of Informant's pod: remove one of them
    error: config.toml:12:13: [informer.pods] names a cluster that does not exist: "esat"
      help: did you mean `east`?
    error: config.toml:12:29: `clusters` names "east" twice
      help: remove one of them
    error: config.toml:12:37: [informer.pods] names a cluster that does not exist: "north"
      help: clusters: `West`, `east`, `here`
    error: config.toml:15:12: `clusters` is empty
      help: remove it to watch in all clusters
    "#);
    insta::assert_snapshot!(refusal("[informer.pods]\nresource = \"v1/pods\"\nclusters = [\"east\"]\n"), @r#"
    error: config.toml:3:13: [informer.pods] names a cluster that does not exist: "east"
      help: the only cluster has no name: remove `clusters`, or add [cluster.east]
    "#);
    insta::assert_snapshot!(warnings(
        "[cluster.east]\ncontext = \"a\"\n[cluster.west]\ncontext = \"a\"\n[informer.pods]\nresource = \"v1/pods\"\n\
         clusters = [\"east\"]\n[informer.other]\nresource = \"v1/pods\"\nclusters = [\"west\"]\n"
    ), @"
    warning: config.toml:3:10: [cluster.west] and [cluster.east] are the same cluster: every event would be delivered twice
      help: remove one of them
    ");
}

#[test]
fn too_many_watches_per_cluster_are_refused() {
    let informers = |count: usize| -> String {
        (0..count)
            .map(|n| format!("[informer.i{n}]\nresource = \"example.com/v1/r{n}\"\n"))
            .collect()
    };
    accepted(&informers(WATCHES_MAX));
    insta::assert_snapshot!(refusal(&informers(WATCHES_MAX + 1)), @"error: config.toml:513:11: 257 watches (one per informer, or one per namespace of an informer) exceed the limit of 256 per cluster");
}
