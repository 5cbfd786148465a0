//! Several clusters in one process, independent of each other.

use std::path::Path;
use std::process::Output;
use std::time::{Duration, Instant};

use serde_json::{Value, json};
use tokio::process::Command;

use super::program::transcript;
use super::world::{Running, World, until};

const PODS: &str = "[informer.pods]\nresource = \"v1/pods\"\nindex = { node = \"/spec/nodeName\" }\n";
const RECORDER: &str =
    "[plugin.recorder]\ncomponent = \"recorder.wasm\"\ninformers = [\"pods\"]\non-reload = \"continue\"\n";

/// `[cluster.NAME]` by a kubeconfig.
fn cluster(name: &str, kubeconfig: &Path) -> String {
    format!("[cluster.{name}]\nkubeconfig = {kubeconfig:?}\n")
}

/// The lines of readiness.
async fn checks(daemon: &Running) -> Vec<String> {
    let (_, text) = daemon.get("/readyz?verbose").await;
    text.lines().map(str::to_owned).collect()
}

async fn wait_for_check(daemon: &Running, beginning: &str, with: &str) {
    until(&format!("{beginning} … {with}"), async || {
        let checks = checks(daemon).await;
        let found = checks
            .iter()
            .any(|line| line.starts_with(beginning) && line.contains(with));
        if found { Ok(()) } else { Err(checks.join("\n")) }
    })
    .await;
}

/// Waits until a source that is not live gives this reason.
async fn wait_for_reason(daemon: &Running, reason: &str) {
    until(reason, async || {
        let (_, sources) = daemon.get("/api/v1/sources").await;
        if sources.contains(reason) { Ok(()) } else { Err(sources) }
    })
    .await;
}

/// `informant get ARGS` of this daemon.
async fn get(daemon: &Running, args: &[&str]) -> Output {
    let mut command = Command::new(env!("CARGO_BIN_EXE_informant"));
    command
        .arg("get")
        .args(args)
        .args(["--admin", &daemon.address().to_string()]);
    command.output().await.unwrap()
}

/// Its stdout; it must succeed.
async fn got(daemon: &Running, args: &[&str]) -> String {
    let output = get(daemon, args).await;
    assert!(
        output.status.success(),
        "{args:?}: {}",
        String::from_utf8_lossy(&output.stderr)
    );
    String::from_utf8(output.stdout).unwrap()
}

/// A kubeconfig whose login runs a program that hangs for as long as `file` is there, and then fails.
fn with_hanging_login(file: &Path) -> String {
    let script = format!("while [ -e {} ]; do sleep 0.05; done; exit 1", file.display());
    json!({
        "apiVersion": "v1", "kind": "Config", "current-context": "test",
        "clusters": [{ "name": "test", "cluster": { "server": "http://127.0.0.1:1" } }],
        "contexts": [{ "name": "test", "context": { "cluster": "test", "user": "test" } }],
        "users": [{ "name": "test", "user": { "exec": {
            "apiVersion": "client.authentication.k8s.io/v1", "command": "sh", "args": ["-c", script], "interactiveMode": "Never",
        } } }],
    })
    .to_string()
}

#[tokio::test(flavor = "multi_thread")]
async fn failing_cluster_does_not_block_the_others() {
    let (east, west) = (World::start().await, World::unreachable().await);
    east.create_pod("web-0", "nginx");
    west.create_pod("web-1", "nginx");
    east.install("guest-recorder", "recorder.wasm");
    // The process ends only when all its threads do, including that of the login: with the directory, at the end of the
    // test.
    let hangs = east.path("hangs.kubeconfig");
    east.write("hangs.kubeconfig", with_hanging_login(&hangs).as_bytes());
    east.write("broken.kubeconfig", b"{{{");
    let clusters = [
        cluster("east", &east.kubeconfig()),
        cluster("west", &west.kubeconfig()),
        cluster("broken", Path::new("broken.kubeconfig")),
        cluster("hangs", Path::new("hangs.kubeconfig")),
    ]
    .concat();

    let daemon = east.daemon(&format!("{clusters}{PODS}{RECORDER}")).await;
    daemon.wait_for_events("recorder", "add", 1.0).await;
    wait_for_check(&daemon, "[+]informer/pods/east ok", "Live, 1 objects").await;
    for (cluster, reason) in [
        ("west", "cannot be reached"),
        ("broken", "broken.kubeconfig"),
        ("hangs", "still pending"),
    ] {
        wait_for_check(&daemon, &format!("[-]informer/pods/{cluster} failed"), "discovering").await;
        wait_for_reason(&daemon, reason).await;
    }
    assert_eq!(daemon.names("/api/v1/get/pods?cluster=east").await, ["web-0"]);

    // A query over all clusters names those that cannot answer, or refuses.
    let partial = get(&daemon, &["pods", "-o", "name"]).await;
    let said = String::from_utf8(partial.stderr).unwrap();
    assert!(partial.status.success() && partial.stdout == b"pod/web-0\n", "{said}");
    for missing in ["broken", "hangs", "west"] {
        let warning = format!("not in this answer: v1/pods, cluster {missing} (Discovering: ");
        assert!(said.contains(&warning), "{missing}: {said}");
    }
    for args in [&["pods", "--require-all"][..], &["pods", "--cluster", "west"]] {
        let refused = get(&daemon, args).await;
        let said = String::from_utf8(refused.stderr).unwrap();
        assert_eq!(refused.status.code(), Some(5), "{said}");
        assert!(said.contains("not synced: v1/pods, cluster "), "{said}");
    }

    // It does not block configuration changes.
    let maps = "[informer.maps]\nresource = \"v1/configmaps\"\nclusters = [\"east\"]\n";
    east.configure(&format!("{clusters}{PODS}{RECORDER}{maps}"));
    daemon
        .wait_for_metric("informant_config_reloads_total", &["result=\"ok\""], 1.0)
        .await;
    wait_for_check(&daemon, "[+]informer/maps/east ok", "Live").await;

    // A cluster that comes back is picked up by itself.
    west.begin_to_serve().await;
    daemon.wait_for_events("recorder", "add", 2.0).await;
    assert_eq!(
        daemon.names("/api/v1/get/pods?cluster=east,west").await,
        ["web-0", "web-1"]
    );
    let metric = async |cluster: &str| {
        daemon
            .metric("informant_store_objects", &["informer=\"pods\"", cluster])
            .await
    };
    assert_eq!(
        (metric("cluster=\"east\"").await, metric("cluster=\"west\"").await),
        (1.0, 1.0)
    );

    let begin = Instant::now();
    assert_eq!(daemon.stop().await.undelivered, 0);
    assert!(begin.elapsed() < Duration::from_secs(8), "{:?}", begin.elapsed());
}

/// Waits until the cluster `west` and its gauges are removed.
async fn wait_until_west_is_removed(daemon: &Running) {
    until("the cluster to be gone", async || {
        let sources = daemon.json("/api/v1/sources").await;
        let gone = sources["items"].as_array().is_some_and(|items| items.len() == 1);
        if gone { Ok(()) } else { Err(sources.to_string()) }
    })
    .await;
    daemon.wait_until_ready().await;
    assert_eq!(daemon.json("/api/v1/configuration").await["state"], "applied");
    let (_, text) = daemon.get("/metrics").await;
    for gone in [
        "informant_store_objects",
        "informant_source_state",
        "informant_informer_discovering",
    ] {
        let of_west = format!("{gone}{{informer=\"pods\",cluster=\"west\"");
        assert!(!text.contains(&of_west), "its gauges are still there:\n{text}");
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn clusters_are_added_changed_and_removed_while_running() {
    let (east, west, other) = (World::start().await, World::start().await, World::start().await);
    east.create_pod("web-0", "nginx");
    west.create_pod("web-0", "nginx");
    other.create_pod("web-2", "nginx");
    east.install("guest-recorder", "recorder.wasm");
    let one = cluster("east", &east.kubeconfig());
    let both = format!("{one}{}", cluster("west", &west.kubeconfig()));
    let in_east = PODS.replace("index", "clusters = [\"east\"]\nindex");

    let daemon = east.daemon(&format!("{one}{PODS}{RECORDER}")).await;
    daemon.wait_for_events("recorder", "add", 1.0).await;
    wait_for_check(&daemon, "[+]informer/pods/east ok", "Live").await;
    let asked = east.server.requests().len();

    // Add a cluster.
    east.configure(&format!("{both}{PODS}{RECORDER}"));
    daemon.wait_for_events("recorder", "add", 2.0).await;
    daemon.wait_until_ready().await;
    assert_eq!(daemon.names("/api/v1/get/pods").await, ["web-0", "web-0"]);

    // Remove the informer from it: its handlers receive deletes.
    east.configure(&format!("{both}{in_east}{RECORDER}"));
    daemon.wait_for_events("recorder", "delete", 1.0).await;
    assert_eq!(daemon.names("/api/v1/get/pods").await, ["web-0"]);
    east.configure(&format!("{both}{PODS}{RECORDER}"));
    daemon.wait_for_events("recorder", "add", 3.0).await;

    // Let its section mean another cluster.
    east.configure(&format!(
        "{one}{}{PODS}{RECORDER}",
        cluster("west", &other.kubeconfig())
    ));
    daemon.wait_for_events("recorder", "add", 4.0).await;
    until("the other cluster's objects", async || {
        let (status, body) = daemon.get("/api/v1/get/pods?cluster=west").await;
        if status == 200 && body.contains("web-2") && !body.contains("web-0") {
            Ok(())
        } else {
            Err(body)
        }
    })
    .await;

    // And one whose login fails: the running client stays.
    east.configure(&format!(
        "{one}{}{PODS}{RECORDER}",
        cluster("west", Path::new("nowhere"))
    ));
    daemon
        .wait_for_metric("informant_config_reloads_total", &["result=\"partial\""], 1.0)
        .await;
    let configuration = daemon.json("/api/v1/configuration").await;
    assert_eq!(
        configuration["waiting"][0]["section"], "cluster.west",
        "{configuration}"
    );
    assert_eq!(daemon.names("/api/v1/get/pods?cluster=west").await, ["web-2"]);

    // Remove it: the fate of its objects is unknown, so handlers receive nothing.
    east.configure(&format!("{one}{PODS}{RECORDER}"));
    wait_until_west_is_removed(&daemon).await;
    let labels = ["plugin=\"recorder\"", "event=\"delete\""];
    assert_eq!(daemon.metric("informant_handler_events_total", &labels).await, 1.0);
    assert_eq!(
        east.server.requests().len(),
        asked,
        "the first cluster received no further request"
    );
}

#[tokio::test(flavor = "multi_thread")]
async fn readded_informer_waits_for_its_earlier_deletes() {
    let (east, west) = (World::start().await, World::start().await);
    west.create_pod("web-0", "nginx");
    east.install("guest-recorder", "recorder.wasm");
    let clusters = [cluster("east", &east.kubeconfig()), cluster("west", &west.kubeconfig())].concat();
    let in_east = PODS.replace("index", "clusters = [\"east\"]\nindex");
    let minutes = "{ event = \"delete\", attempts = 1, do = { retry-after-ms = 600_000 } }";
    let slow = format!("{RECORDER}config = {{ rules = [{minutes}] }}\n");
    let repaired = format!("{RECORDER}config = {{ label = \"repaired\" }}\n");

    let daemon = east.daemon(&format!("{clusters}{PODS}{slow}")).await;
    daemon.wait_for_events("recorder", "add", 1.0).await;
    east.configure(&format!("{clusters}{in_east}{slow}"));
    let failed = ["plugin=\"recorder\"", "event=\"delete\"", "result=\"retryable\""];
    daemon
        .wait_for_metric("informant_handler_events_total", &failed, 1.0)
        .await;

    east.configure(&format!("{clusters}{PODS}{slow}"));
    wait_for_check(&daemon, "[-]informer/pods/west failed", "discovering").await;
    wait_for_reason(&daemon, "waiting until handlers have received the deletes").await;
    // A new version retries failed events at once.
    east.configure(&format!("{clusters}{PODS}{repaired}"));
    daemon.wait_for_events("recorder", "add", 2.0).await;
    let delivered = ["plugin=\"recorder\"", "event=\"delete\"", "result=\"ok\""];
    assert_eq!(daemon.metric("informant_handler_events_total", &delivered).await, 1.0);
    daemon.wait_until_ready().await;
    assert_eq!(daemon.names("/api/v1/get/pods").await, ["web-0"]);
}

#[tokio::test(flavor = "multi_thread")]
async fn queries_cover_one_cluster_or_all() {
    let (east, west) = (World::start().await, World::start().await);
    for name in ["web-0", "web-1"] {
        east.create_pod(name, "nginx");
    }
    west.create_pod("web-0", "nginx");
    let clusters = [cluster("east", &east.kubeconfig()), cluster("west", &west.kubeconfig())].concat();
    let daemon = east.daemon(&format!("{clusters}{PODS}")).await;
    daemon.wait_until_ready().await;

    let table = got(&daemon, &["pods"]).await;
    let cells: Vec<Vec<&str>> = table
        .lines()
        .map(|line| line.split_whitespace().take(3).collect())
        .collect();
    assert_eq!(
        cells,
        [
            ["CLUSTER", "NAMESPACE", "NAME"],
            ["east", "default", "web-0"],
            ["east", "default", "web-1"],
            ["west", "default", "web-0"],
        ]
    );
    let names = async |args: &[&str]| got(&daemon, &[&["pods", "-o", "name"], args].concat()).await;
    insta::assert_snapshot!(names(&["--all-clusters", "--index", "node=node-1"]).await, @"
    east/pod/web-0
    east/pod/web-1
    west/pod/web-0
    ");
    insta::assert_snapshot!(names(&["--cluster", "west"]).await, @"pod/web-0");
    insta::assert_snapshot!(names(&["web-1"]).await, @"east/pod/web-1");
    insta::assert_snapshot!(got(&daemon, &["sources", "-o", "name"]).await, @"
    source/pods/east
    source/pods/west
    ");
    let list: Value = serde_json::from_str(&got(&daemon, &["pods", "web-0", "-o", "json"]).await).unwrap();
    let from = |at: usize| list["items"][at]["metadata"]["annotations"]["informant/cluster"].as_str();
    assert_eq!((from(0), from(1)), (Some("east"), Some("west")));

    let said = |output: Output| String::from_utf8(output.stderr).unwrap();
    let fresh = said(get(&daemon, &["pods"]).await);
    assert!(
        fresh.contains("fresh as of east ") && fresh.contains("; west "),
        "{fresh}"
    );
    insta::assert_snapshot!(said(get(&daemon, &["pods", "--cluster", "wset"]).await), @r#"error: informer pods has no cluster named "wset"; did you mean `west`?"#);
    insta::assert_snapshot!(said(get(&daemon, &["pods", "web-1", "--cluster", "west"]).await), @r#"error: informer pods has no object "web-1" in cluster west"#);

    west.create_pod("late", "nginx");
    let version = west.server.revision().to_string();
    insta::assert_snapshot!(names(&["late", "--cluster", "west", "--at-least", &version]).await, @"pod/late");
    insta::assert_snapshot!(said(get(&daemon, &["pods", "--at-least", "1"]).await), @"error: a version belongs to one cluster, but several were requested: select one with `cluster`");
}

/// Sends a signal to a process.
async fn signal(name: &str, process: u32) {
    let mut kill = Command::new("kill");
    let status = kill.args([&format!("-{name}"), &process.to_string()]).status().await;
    assert!(status.unwrap().success());
}

#[tokio::test(flavor = "multi_thread")]
async fn stopped_api_server_blocks_neither_edits_nor_the_end() {
    let west = World::start().await;
    west.create_pod("web", "nginx");
    let mut server = Command::new(env!("CARGO_BIN_EXE_informant"));
    let args = ["apiserver", "--listen=127.0.0.1:0", "--kubeconfig-out"];
    let server = server.args(args).arg(west.path("east")).kill_on_drop(true);
    let server = server.stderr(std::process::Stdio::null()).spawn().unwrap();
    until("the kubeconfig", async || {
        std::fs::read(west.path("east")).map_err(|error| error.to_string())
    })
    .await;
    let clusters = cluster("east", &west.path("east")) + &cluster("west", &west.kubeconfig());
    let east = "[informer.east]\nresource = \"v1/pods\"\nclusters = [\"east\"]\n";
    let daemon = west.daemon(&format!("{clusters}{east}")).await;
    daemon.wait_until_ready().await;

    signal("STOP", server.id().unwrap()).await;
    // One section that the stopped server holds up, and one that it must not.
    let changed = "[informer.east]\nresource = \"v1/nodes\"\nclusters = [\"east\"]\n";
    let added = "[informer.west]\nresource = \"v1/pods\"\nclusters = [\"west\"]\n";
    west.configure(&format!("{clusters}{changed}{added}"));
    until("the added informer", async || {
        let (status, body) = daemon.get("/api/v1/get/west").await;
        if status == 200 && body.contains("\"web\"") {
            Ok(())
        } else {
            Err(body)
        }
    })
    .await;
    let begun = Instant::now();
    daemon.stop().await;
    assert!(begun.elapsed() < Duration::from_secs(15), "{:?}", begun.elapsed());
    signal("CONT", server.id().unwrap()).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn failed_events_name_their_cluster() {
    let (east, west) = (World::start().await, World::start().await);
    east.install("guest-recorder", "recorder.wasm");
    for world in [&east, &west] {
        world.create_pod("dead", "nginx");
        world.create_pod("retry", "nginx");
    }
    let clusters = cluster("east", &east.kubeconfig()) + &cluster("west", &west.kubeconfig());
    let rules =
        "config = { rules = [{ name = \"dead\", do = \"permanent\" }, { name = \"retry\", do = \"retryable\" }] }\n";
    let daemon = east.daemon(&format!("{clusters}{PODS}{RECORDER}{rules}")).await;
    daemon
        .wait_for_metric("informant_dead_letters", &["plugin=\"recorder\""], 2.0)
        .await;
    let items = async |path: &str| {
        let list = daemon.json(path).await;
        let mut items: Vec<String> = list["items"].as_array().unwrap().iter().map(origin).collect();
        items.sort_unstable();
        items
    };
    let both = |name: &str| ["east", "west"].map(|cluster| format!("{cluster} pods v1/pods {name}"));
    assert_eq!(items("/api/v1/dead-letters").await, both("dead"));
    until("both to be under retry", async || {
        let found = items("/api/v1/retries").await;
        if found == both("retry") {
            Ok(())
        } else {
            Err(format!("{found:?}"))
        }
    })
    .await;

    let address = daemon.address().to_string();
    let list = transcript(&east, &["plugin", "list", "--admin", &address]).await;
    for cluster in ["east", "west"] {
        assert!(
            list.contains(&format!("add of v1/pods default/retry in cluster {cluster}: ")),
            "{list}"
        );
    }
    let requeue = async |args: &[&str]| {
        let mut all = vec!["plugin", "requeue", "recorder", "--admin", &address];
        all.extend(args);
        transcript(&east, &all).await
    };
    let one = "exit 0\nplugin/recorder requeued: 1\n--";
    assert_eq!(requeue(&["--cluster", "east"]).await, one);
    assert_eq!(requeue(&["--cluster", "west", "--key", "default/dead"]).await, one);
    let unknown = requeue(&["--cluster", "north"]).await;
    assert!(
        unknown.contains("receives no objects of cluster \"north\""),
        "{unknown}"
    );
    let hint = requeue(&["--key", "dead"]).await;
    assert!(hint.contains("is NAMESPACE/NAME"), "{hint}");
    daemon.stop().await;
}

/// `east pods v1/pods web-0`.
fn origin(item: &Value) -> String {
    let members = ["cluster", "informer", "resource", "name"].map(|member| item[member].as_str().unwrap_or("-"));
    members.join(" ")
}
