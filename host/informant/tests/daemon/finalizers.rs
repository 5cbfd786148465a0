//! `informant plugin finalizers`: which objects have the finalizer of a plugin, and its removal.

use std::fmt::Write as _;

use serde_json::json;

use super::program::transcript;
use super::world::World;

const CONFIG: &str = "[informer.maps]\nresource = \"v1/configmaps\"\n[informer.all]\nresource = \"apps/v1/*\"\n\
    [plugin.site]\nscript = \"site.js\"\ninformers = [\"maps\"]\n[plugin.all]\nscript = \"site.js\"\ninformers = [\"all\"]\n";

/// Three objects with finalizers, one of which waits to be deleted.
async fn world() -> World {
    let world = World::start().await;
    world.configure(CONFIG);
    for (name, finalizers) in [
        ("a", json!(["informant.dev/site", "example.com/other"])),
        ("b", json!(["informant.dev/site"])),
        ("c", json!(["example.com/other"])),
    ] {
        let object = json!({ "metadata": { "name": name, "namespace": "default", "finalizers": finalizers } });
        world.server.create("v1/configmaps", "default", object).unwrap();
    }
    world.server.delete("v1/configmaps", "default", "b").unwrap();
    world
}

#[tokio::test(flavor = "multi_thread")]
async fn finalizers_of_a_plugin_are_listed_and_removed() {
    let world = world().await;
    insta::assert_snapshot!(transcript(&world, &["plugin", "finalizers", "site"]).await, @r"
    exit 0
    RESOURCE        OBJECT      STATE
    v1/configmaps   default/a   -
    v1/configmaps   default/b   waits to be deleted
    --
    plugin site cleans up after 2 objects before they can be deleted; if it is gone for good, add --remove
    ");
    let of = |name: &str| world.server.get("v1/configmaps", "default", name).unwrap();
    assert!(of("b").is_some(), "a list changes nothing");
    insta::assert_snapshot!(transcript(&world, &["plugin", "finalizers", "site", "--remove"]).await, @r"
    exit 0
    RESOURCE        OBJECT      STATE
    v1/configmaps   default/a   -
    v1/configmaps   default/b   waits to be deleted
    --
    warning: plugin site adds its finalizer again while it runs: remove its section
    removed informant.dev/site from 2 objects
    ");
    assert_eq!(of("a").unwrap()["metadata"]["finalizers"], json!(["example.com/other"]));
    assert!(of("b").is_none(), "nothing keeps it any more");
    assert_eq!(of("c").unwrap()["metadata"]["finalizers"], json!(["example.com/other"]));
    insta::assert_snapshot!(transcript(&world, &["plugin", "finalizers", "site"]).await, @r"
    exit 0
    --
    no object has informant.dev/site
    ");
}

#[tokio::test(flavor = "multi_thread")]
async fn finalizers_of_a_removed_plugin_need_the_resource() {
    let world = world().await;
    let mut answers = String::new();
    for args in [
        "gone",
        "gone --resource cm",
        "all",
        "site --resource v1/nothing",
        "site --cluster east",
        "site --resource a/b/c/d",
    ] {
        let args: Vec<&str> = ["plugin", "finalizers"].into_iter().chain(args.split(' ')).collect();
        writeln!(answers, "{}: {}", args[2..].join(" "), transcript(&world, &args).await).unwrap();
    }
    insta::assert_snapshot!(answers, @r"
    gone: exit 1
    --
    error: the configuration has no [plugin.gone]: name the resource of its objects with --resource
    gone --resource cm: exit 0
    --
    no object has informant.dev/gone
    all: exit 1
    --
    error: no informer of plugin all names one resource: name it with --resource
    site --resource v1/nothing: exit 1
    --
    error: the API server serves no resource `v1/nothing`; `kubectl api-resources` lists the served resources
    site --cluster east: exit 1
    --
    error: --cluster east: the configuration has one cluster, without a name
    site --resource a/b/c/d: exit 2
    --
    error: invalid value 'a/b/c/d' for '--resource <RESOURCE>': `a/b/c/d` is not a resource name: it has more than three parts; write `v1/pods`, `apps/v1/deployments`, or a name such as `pods`, `Pod` or `deployments.apps`

    For more information, try '--help'.
    ");
}
