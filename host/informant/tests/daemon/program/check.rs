//! `informant check`.

use super::{PODS, transcript};
use crate::world::World;

#[tokio::test(flavor = "multi_thread")]
async fn check_judges_file_components_and_cluster() {
    let world = World::start().await;
    world.install("crash-loop", "crash-loop.wasm");
    world.install("image-index", "image-index.wasm");
    let good = format!(
        "{PODS}\
         [plugin.crash-loop]\ncomponent = \"crash-loop.wasm\"\ninformers = [\"pods\"]\n\
         [plugin.image-index]\ncomponent = \"image-index.wasm\"\ninformers = {{ main = \"pods\" }}\n"
    );
    world.configure(&good);
    insta::assert_snapshot!(transcript(&world, &["check"]).await, @"
    exit 0
    plugin crash-loop: crash-loop 0.1.0, event-handler, sync-handler, SIZE sha256 DIGEST
    plugin image-index: image-index 0.1.0, index-funcs, SIZE sha256 DIGEST
    informer pods: v1/pods (Pod), all namespaces, may list and watch
    config.toml is good
    --
    ");
    insta::assert_snapshot!(transcript(&world, &["check", "--offline", "-c", "config.toml"]).await, @"
    exit 0
    plugin crash-loop: crash-loop 0.1.0, event-handler, sync-handler, SIZE sha256 DIGEST
    plugin image-index: image-index 0.1.0, index-funcs, SIZE sha256 DIGEST
    config.toml is good
    --
    ");

    world.write("broken.wasm", b"not at all");
    world.configure(&format!(
        "{good}\
         [informer.widgets]\nresource = \"v1/pdos\"\n\
         [informer.nodes]\nresource = \"v1/nodes\"\nnamespaces = [\"default\"]\n\
         [plugin.broken]\ncomponent = \"broken.wasm\"\ninformers = [\"pods\"]\n\
         [plugin.pinned]\ncomponent = \"crash-loop.wasm\"\ninformers = [\"nodes\"]\nsha256 = \"{:064}\"\n\
         [plugin.second]\ncomponent = \"image-index.wasm\"\ninformers = [\"pods\"]\n",
        0
    ));
    insta::assert_snapshot!(transcript(&world, &["check"]).await, @r#"
    exit 3
    plugin crash-loop: crash-loop 0.1.0, event-handler, sync-handler, SIZE sha256 DIGEST
    plugin image-index: image-index 0.1.0, index-funcs, SIZE sha256 DIGEST
    plugin pinned: crash-loop 0.1.0, event-handler, sync-handler, SIZE sha256 DIGEST
    plugin second: image-index 0.1.0, index-funcs, SIZE sha256 DIGEST
    informer pods: v1/pods (Pod), all namespaces, may list and watch
    --
    error: config.toml:13:12: [informer.widgets] the API server serves no resource `v1/pdos`; did you mean `v1/pods`
    error: config.toml:14:11: [informer.nodes] names namespace "default", but v1/nodes is not in namespaces
      help: leave `namespaces` out
    error: config.toml:18:13: [plugin.broken] ./broken.wasm: not WebAssembly: it begins with the text "not at all"; give the .wasm file that the build makes (Rust: cargo build --target wasm32-wasip2 --release)
    error: config.toml:21:13: [plugin.pinned] pins sha256 0000000000000000000000000000000000000000000000000000000000000000, and its component has DIGEST
      help: change `sha256` if the new file is the right one
    warning: config.toml:22:14: [plugin.pinned] wants nothing of v1 Node, of which informer "nodes" tells it
      help: `informant plugin inspect` shows what it wants; leave the informer out, or take another
    error: config.toml:25:13: [plugin.second] brings the index "image", which [plugin.image-index] has already
      help: let one of them go: an informer has one index of a name
    error: config.toml:25:13: [plugin.second] brings the index "image-repository", which [plugin.image-index] has already
      help: let one of them go: an informer has one index of a name
    config.toml is refused
    "#);
}

#[tokio::test(flavor = "multi_thread")]
async fn check_names_what_may_not_be_watched() {
    let world = World::start().await;
    world.configure(PODS);
    world
        .server
        .faults()
        .forbid(informant_apiserver::Filter::any().resource("pods").verb("watch"));
    insta::assert_snapshot!(transcript(&world, &["check"]).await, @"
    exit 3
    --
    error: config.toml:4:12: [informer.pods] may not watch (forbidden by a fault rule) v1/pods in all namespaces
      help: grant `list` and `watch` on it to the identity that Informant runs as, or name one namespace
    config.toml is refused
    ");
}

#[tokio::test(flavor = "multi_thread")]
async fn check_shows_a_file_that_is_wrong_or_missing() {
    let world = World::start().await;
    world.configure("[informer.pods]\nresuorce = \"v1/pods\"\n");
    insta::assert_snapshot!(transcript(&world, &["check"]).await, @r#"
    exit 3
    --
    error: config.toml:3:11: [informer.pods] lacks `resource`
      help: name what is watched: resource = "v1/pods"
    error: config.toml:4:1: unknown key `resuorce` in [informer.pods]
      help: did you mean `resource`?
    "#);
    insta::assert_snapshot!(transcript(&world, &["check", "-c", "nowhere.toml"]).await, @"
    exit 3
    --
    error: nowhere.toml: failed to read: No such file or directory (os error 2)
      help: name the configuration with -c FILE; the default is config.toml in the current folder
    ");
}

#[tokio::test(flavor = "multi_thread")]
async fn check_says_when_the_cluster_cannot_be_reached() {
    let world = World::unreachable().await;
    world.configure(PODS);
    insta::assert_snapshot!(transcript(&world, &["check"]).await, @"
    exit 0
    config.toml is good
    --
    warning: config.toml: the cluster could not be asked: http://ADDRESS: the API server cannot be reached: ServiceError: client error (Connect): tcp connect error: Connection refused (os error 111); check its address and that it runs
      help: resources and rights are not judged; --offline says that this is meant
    ");
    insta::assert_snapshot!(transcript(&world, &["check", "--cluster"]).await, @"
    exit 3
    --
    error: config.toml: the cluster could not be asked: http://ADDRESS: the API server cannot be reached: ServiceError: client error (Connect): tcp connect error: Connection refused (os error 111); check its address and that it runs
    config.toml is refused
    ");
    insta::assert_snapshot!(transcript(&world, &["check", "--cluster", "--context", "other"]).await, @"
    exit 3
    --
    error: config.toml: the cluster could not be asked: the kubeconfig ($KUBECONFIG, ~/.kube/config): failed to load current context: other
    config.toml is refused
    ");
    insta::assert_snapshot!(transcript(&world, &["check", "--cluster", "--kubeconfig", "nowhere"]).await, @r#"
    exit 3
    --
    error: config.toml: the cluster could not be asked: kubeconfig nowhere: failed to read kubeconfig from '"nowhere"': No such file or directory (os error 2)
    config.toml is refused
    "#);
}
