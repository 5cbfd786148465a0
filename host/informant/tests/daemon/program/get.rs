//! `informant get`, and the daemon it connects to.

use std::process::Stdio;
use std::time::Duration;

use serde_json::Value;
use tokio::io::{AsyncBufReadExt, BufReader};

use super::{PODS, Program, informant, output, transcript};
use crate::world::World;

/// A daemon that watches two pods, and the command line that queries it.
struct Daemon {
    world: World,
    address: String,
    _program: Program,
}

impl Daemon {
    async fn of_two_pods() -> Self {
        let world = World::start().await;
        for name in ["web-0", "a-longer-name-0"] {
            world.create_pod(name, "nginx");
        }
        let program = Program::run(&world, PODS).await;
        program.wait_until_ready().await;
        let address = program.address.to_string();
        Self {
            world,
            address,
            _program: program,
        }
    }

    async fn get(&self, args: &[&str]) -> String {
        let args: Vec<_> = [&["get"], args, &["--admin", &self.address]].concat();
        transcript(&self.world, &args).await
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn get_prints_objects_like_kubectl() {
    let daemon = Daemon::of_two_pods().await;
    insta::assert_snapshot!(daemon.get(&["pods"]).await, @"
    exit 0
    NAMESPACE   NAME              AGE
    default     a-longer-name-0   DAYS
    default     web-0             DAYS
    --
    fresh as of …
    ");
    insta::assert_snapshot!(daemon.get(&["pods", "-n", "default", "--no-headers"]).await, @"
    exit 0
    a-longer-name-0   DAYS
    web-0             DAYS
    --
    fresh as of …
    ");
    insta::assert_snapshot!(daemon.get(&["pods", "-n", "default", "-o", "wide"]).await, @"
    exit 0
    NAME              READY   STATUS    RESTARTS   AGE    IP       NODE     NOMINATED NODE   READINESS GATES
    a-longer-name-0   0/1     Pending   0          DAYS   <none>   node-1   <none>           <none>
    web-0             0/1     Pending   0          DAYS   <none>   node-1   <none>           <none>
    --
    fresh as of …
    ");
    insta::assert_snapshot!(daemon.get(&["pods", "-n", "kube-system"]).await, @"
    exit 0
    --
    No resources found in kube-system namespace.
    fresh as of …
    ");
    insta::assert_snapshot!(daemon.get(&["pods", "-n", "kube-system", "-o", "json"]).await, @r#"
    exit 0
    {
        "apiVersion": "v1",
        "items": [],
        "kind": "List",
        "metadata": {
            "resourceVersion": ""
        }
    }
    --
    "#);
    for (args, kind, count) in [(vec!["pods"], "List", Some(2)), (vec!["pods", "web-0"], "Pod", None)] {
        let args: Vec<_> = [&["get"], &args[..], &["-o", "json", "--admin", &daemon.address]].concat();
        let json: Value = serde_json::from_slice(&output(&daemon.world, &args).await.stdout).unwrap();
        assert_eq!(json["kind"], kind);
        assert_eq!(json["items"].as_array().map(Vec::len), count);
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn get_selects_by_labels_and_index_values() {
    let daemon = Daemon::of_two_pods().await;
    insta::assert_snapshot!(daemon.get(&["pods", "-A", "-l", "app=web", "-o", "name"]).await, @"
    exit 0
    pod/web-0
    --
    ");
    insta::assert_snapshot!(daemon.get(&["pods", "-l", "app in (a,db),!canary", "-o", "name"]).await, @"
    exit 0
    pod/a-longer-name-0
    --
    ");
    insta::assert_snapshot!(daemon.get(&["Pod", "--index", "node=node-1", "-o", "name"]).await, @"
    exit 0
    pod/a-longer-name-0
    pod/web-0
    --
    ");
    insta::assert_snapshot!(daemon.get(&["pods", "-l", "app in (a"]).await, @r#"
    exit 2
    --
    error: invalid value 'app in (a' for '--selector <SELECTOR>': label selector "app in (a", byte 9: found the end, expected "," or ")"

    For more information, try '--help'.
    "#);
}

#[tokio::test(flavor = "multi_thread")]
async fn get_reports_unknown_objects_informers_and_clusters() {
    let daemon = Daemon::of_two_pods().await;
    insta::assert_snapshot!(daemon.get(&["pods", "web-9"]).await, @r#"
    exit 1
    --
    error: informer pods has no object "web-9"
    "#);
    insta::assert_snapshot!(daemon.get(&["nodes"]).await, @r#"
    exit 1
    --
    error: no informer named "nodes" and none that watches it; informers: `pods`
    "#);
    insta::assert_snapshot!(daemon.get(&["pods", "--cluster", "east"]).await, @r#"
    exit 1
    --
    error: informer pods has one unnamed cluster: remove "east"
    "#);
}

#[tokio::test(flavor = "multi_thread")]
async fn get_waits_for_comparable_versions() {
    let daemon = Daemon::of_two_pods().await;
    insta::assert_snapshot!(daemon.get(&["pods", "--at-least", "abc"]).await, @r#"
    exit 1
    --
    error: unsupported: version "abc" is not an integer and cannot be compared
    "#);
    daemon.world.create_pod("own", "nginx");
    let version = daemon.world.server.revision().to_string();
    insta::assert_snapshot!(daemon.get(&["pods", "own", "--at-least", &version, "-o", "name"]).await, @"
    exit 0
    pod/own
    --
    ");
}

#[tokio::test(flavor = "multi_thread")]
async fn get_lists_sources_and_reports_unknown_ones() {
    let daemon = Daemon::of_two_pods().await;
    insta::assert_snapshot!(daemon.get(&["sources", "-o", "name"]).await, @"
    exit 0
    source/pods
    --
    ");
    insta::assert_snapshot!(daemon.get(&["sources", "podz"]).await, @r#"
    exit 1
    --
    error: no informer named "podz" and none that watches it; did you mean `pods`?
    "#);
    insta::assert_snapshot!(daemon.get(&["sources", "Pod", "--cluster", "east"]).await, @r#"
    exit 1
    --
    error: no source in cluster "east"; there is one cluster, and it has no name
    "#);
    insta::assert_snapshot!(daemon.get(&["sources", "Pod", "-n", "web"]).await, @"
    exit 0
    --
    No sources found for namespace web.
    ");
    insta::assert_snapshot!(daemon.get(&["sources", "--at-least", "1"]).await, @"
    exit 1
    --
    error: --at-least applies to objects only; to wait for a source, use GET /api/v1/sources/ID?at-least=VERSION
    ");
}

#[tokio::test(flavor = "multi_thread")]
async fn get_reports_an_unreachable_daemon() {
    let world = World::unreachable().await;
    // Nothing listens at the cluster's address.
    insta::assert_snapshot!(transcript(&world, &["get", "pods", "--admin", &world.address.to_string()]).await, @"
    exit 1
    --
    error: no daemon responds at ADDRESS (--admin); start `informant run`, or pass its admin address with --admin: Connection refused (os error 111)
    ");
    world.configure(PODS);
    insta::assert_snapshot!(transcript(&world, &["get", "pods"]).await, @"
    exit 1
    --
    error: 127.0.0.1:0 ([admin] listen in config.toml) has no port to connect to: pass the port from the daemon's log with --admin
    ");
    world.write(
        "config.toml",
        format!("[admin]\nlisten = \"{}\"\n", world.address).as_bytes(),
    );
    insta::assert_snapshot!(transcript(&world, &["status"]).await, @"
    exit 1
    --
    error: no daemon responds at ADDRESS ([admin] listen in config.toml); a running daemon keeps the address it started with; start `informant run`, or pass its admin address with --admin: Connection refused (os error 111)
    ");
    insta::assert_snapshot!(transcript(&world, &["status", "-c", "none.toml"]).await, @"
    exit 3
    --
    error: none.toml: failed to read: No such file or directory (os error 2)
      help: name the configuration with -c FILE; the default is config.toml in the current folder
    ");
    let elsewhere = world.address.to_string();
    insta::assert_snapshot!(transcript(&world, &["plugin", "list", "-c", "none.toml", "--admin", &elsewhere]).await, @"
    exit 1
    --
    error: no daemon responds at ADDRESS (--admin); start `informant run`, or pass its admin address with --admin: Connection refused (os error 111)
    ");
}

#[tokio::test(flavor = "multi_thread")]
async fn invalid_configuration_does_not_prevent_queries() {
    let world = World::start().await;
    world.create_pod("web-0", "nginx");
    let program = Program::run(&world, PODS).await;
    program.wait_until_ready().await;
    let asked = async |args: &[&str], config: &str| {
        world.write("config.toml", config.as_bytes());
        let text = transcript(&world, args).await;
        text.replace(&program.address.to_string(), "ADMIN")
    };
    let admin = format!("[admin]\nlisten = \"{}\"\n", program.address);
    let pods = &["get", "pods", "-o", "name"];
    insta::assert_snapshot!(asked(pods, &format!("{admin}[informer.pods\nresource = 3\n")).await, @"
    exit 0
    pod/web-0
    --
    warning: config.toml:3:15: unclosed table, expected `]`
    ");
    insta::assert_snapshot!(asked(pods, &format!("{admin}[informer.pods]\nresuorce = 3\n")).await, @"
    exit 0
    pod/web-0
    --
    ");
    // Nothing in the file can be read: the default address applies, where another daemon may listen.
    let (asked_for, named) = (&["status"], program.address.to_string());
    let text = asked(asked_for, "[admin\nlisten = 3\n").await;
    assert!(text.contains("warning: config.toml:1:7: "), "{text}");
    world.create_pod("web-1", "nginx");
    // What `-o name` prints is accepted, too.
    let text = asked(&["get", "pod/web-0", "-o", "name", "--admin", &named], "[admin\n").await;
    assert_eq!(text.trim_end(), "exit 0\npod/web-0\n--");
    insta::assert_snapshot!(asked(&["get", "v1/pods/web-0", "web-1", "--admin", &named], "[admin\n").await, @"
    exit 1
    --
    error: two names, web-0 and web-1: write v1/pods/web-0 v1/pods/web-1, or v1/pods web-0 web-1
    ");
}

#[tokio::test(flavor = "multi_thread")]
async fn get_takes_what_kubectl_takes() {
    let daemon = Daemon::of_two_pods().await;
    for name in ["po", "pod", "Pod", "v1/pods"] {
        let shown = daemon.get(&[name, "-o", "name"]).await;
        assert!(shown.contains("pod/a-longer-name-0\npod/web-0"), "{name}: {shown}");
    }
    insta::assert_snapshot!(daemon.get(&["pods", "web-0", "a-longer-name-0", "--no-headers", "-n", "default"]).await, @"
    exit 0
    web-0             DAYS
    a-longer-name-0   DAYS
    --
    fresh as of …
    ");
    insta::assert_snapshot!(daemon.get(&["po/web-0", "po/gone", "-o", "name"]).await, @r#"
    exit 1
    pod/web-0
    --
    error: informer pods has no object "gone"
    "#);
    insta::assert_snapshot!(daemon.get(&["pods", "--sort-by", ".metadata.name", "-o", "jsonpath={range .items[*]}{.metadata.name},{end}{\"\\n\"}"]).await, @"
    exit 0
    a-longer-name-0,web-0,
    --
    ");
    insta::assert_snapshot!(daemon.get(&["pods", "web-0", "-o", "jsonpath={.spec.nodeName}{\"\\n\"}"]).await, @"
    exit 0
    node-1
    --
    ");
    insta::assert_snapshot!(daemon.get(&["pods", "--field-selector", "metadata.name!=web-0", "-o", "name"]).await, @"
    exit 0
    pod/a-longer-name-0
    --
    ");
    insta::assert_snapshot!(daemon.get(&["pods", "web-0", "--show-labels", "-n", "default"]).await, @"
    exit 0
    NAME    AGE    LABELS
    web-0   DAYS   app=web
    --
    fresh as of …
    ");
    insta::assert_snapshot!(daemon.get(&["pods,po", "-n", "default", "--no-headers"]).await, @"
    exit 0
    pod/a-longer-name-0   DAYS
    pod/web-0             DAYS

    pod/a-longer-name-0   DAYS
    pod/web-0             DAYS
    --
    fresh as of …
    ");
    insta::assert_snapshot!(daemon.get(&["pods", "--show-kind"]).await, @"
    exit 2
    --
    error: unexpected argument '--show-kind' found

    Usage: informant get <RESOURCE> [NAME]...

    For more information, try '--help'.
    ");
}

#[tokio::test(flavor = "multi_thread")]
async fn get_takes_the_namespace_of_the_context() {
    let daemon = Daemon::of_two_pods().await;
    let context = |namespace: &str| {
        let kubeconfig = serde_json::json!({
            "apiVersion": "v1", "kind": "Config", "current-context": "mine",
            "contexts": [{ "name": "mine", "context": { "cluster": "c", "namespace": namespace } }],
        });
        daemon.world.write("mine", kubeconfig.to_string().as_bytes());
        daemon.world.path("mine").display().to_string()
    };
    let file = context("default");
    let of_context = daemon.get(&["pods", "web-0", "--kubeconfig", &file]).await;
    insta::assert_snapshot!(of_context, @"
    exit 0
    NAME    AGE
    web-0   DAYS
    --
    fresh as of …
    ");
    let file = context("elsewhere");
    insta::assert_snapshot!(daemon.get(&["pods", "--kubeconfig", &file]).await, @"
    exit 0
    --
    No resources found in elsewhere namespace.
    fresh as of …
    ");
    let all = daemon.get(&["pods", "-A", "-o", "name", "--kubeconfig", &file]).await;
    assert!(all.contains("pod/web-0"), "{all}");
}

#[tokio::test(flavor = "multi_thread")]
async fn get_shows_each_change_while_it_watches() {
    let daemon = Daemon::of_two_pods().await;
    let args = ["get", "pods", "-w", "-o", "name", "--admin", &daemon.address];
    let mut watch = informant(&daemon.world, &args).stdout(Stdio::piped()).spawn().unwrap();
    let mut lines = BufReader::new(watch.stdout.take().unwrap()).lines();
    let mut next = async || {
        let line = tokio::time::timeout(Duration::from_secs(30), lines.next_line()).await;
        line.expect("a line in time").unwrap().expect("a line")
    };
    assert_eq!([next().await, next().await], ["pod/a-longer-name-0", "pod/web-0"]);
    daemon.world.create_pod("later", "nginx");
    assert_eq!(next().await, "pod/later");
    daemon.world.server.delete("v1/pods", "default", "web-0").unwrap();
    assert_eq!(next().await, "pod/web-0");
}
