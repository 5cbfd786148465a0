//! `informant check --cluster NAME`.

use super::program::transcript;
use super::world::World;

#[tokio::test(flavor = "multi_thread")]
async fn one_cluster_is_checked_without_the_others() {
    let world = World::start().await;
    let config = "[cluster.east]\nkubeconfig = \"kubeconfig\"\n[cluster.west]\nkubeconfig = \"nowhere\"\n\
        [informer.pods]\nresource = \"v1/pods\"\n";
    world.configure(config);
    let all = transcript(&world, &["check", "--cluster"]).await;
    assert!(
        all.starts_with("exit 3\n") && all.contains("cannot check cluster west"),
        "{all}"
    );
    insta::assert_snapshot!(transcript(&world, &["check", "--cluster", "east"]).await, @"
    exit 0
    informer pods: v1/pods (Pod), all namespaces in cluster east, list and watch allowed
    config.toml is valid
    --
    ");
    let west = transcript(&world, &["check", "--cluster=west"]).await;
    assert!(
        west.starts_with("exit 3\n") && west.contains("cannot check cluster west"),
        "{west}"
    );
    assert!(!west.contains("cluster east"), "{west}");
    insta::assert_snapshot!(transcript(&world, &["check", "--cluster", "wset"]).await, @"
    exit 1
    --
    error: --cluster wset: no such cluster in the configuration; clusters: `east`, `west`
    ");
}
