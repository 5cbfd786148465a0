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

#[tokio::test(flavor = "multi_thread")]
async fn a_kubeconfig_that_acts_as_another_serves_no_identity() {
    let world = World::start().await;
    let kubeconfig = std::fs::read_to_string(world.kubeconfig()).unwrap();
    let acts_as = kubeconfig.replace(r#""user":{}"#, r#""user":{"as-groups":["admins"]}"#);
    assert_ne!(acts_as, kubeconfig);
    world.write("kubeconfig", acts_as.as_bytes());
    world.install("guest-kube", "plugin.wasm");
    let config = "[cluster]\nkubeconfig = \"kubeconfig\"\n[informer.pods]\nresource = \"v1/pods\"\n\
        [plugin.label]\ncomponent = \"plugin.wasm\"\ninformers = [\"pods\"]\nas = \"system:serviceaccount:shop:labeler\"\n\
        allow.kube = [{ verbs = [\"patch\"], resource = \"v1/pods\" }]\n";
    world.configure(config);
    insta::assert_snapshot!(transcript(&world, &["check", "--cluster"]).await, @r"
    exit 3
    plugin label: guest-kube 0.1.0, event-handler, index-funcs, SIZE sha256 DIGEST
    informer pods: v1/pods (Pod), all namespaces, list and watch allowed
    --
    error: config.toml:7:9: [plugin.label] cannot act as system:serviceaccount:shop:labeler on the cluster: the kubeconfig acts as another user itself
      help: remove `as`, `as-groups`, `as-uid` and `as-user-extra` from the user in the kubeconfig, or `as` from the section
    config.toml is valid, but cannot run as it is in this cluster
    ");
}
