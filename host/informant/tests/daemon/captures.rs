//! `informant plugin capture`: a call of a running plugin becomes a scenario that `plugin test` runs.

use std::fmt::Write as _;
use std::net::SocketAddr;

use informant_apiserver::Filter;
use serde_json::{Value, json};
use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};
use tokio::net::TcpListener;

use super::program::{Program, transcript};
use super::world::{World, until};

/// Reads everything that a plugin can read, and fails for pods that are to fail.
const SCRIPT: &str = r#"
import { Permanent, config, fetch, kube, kv, log, store } from "informant";

export const manifest = {
  name: "caller",
  events: [{ apiVersion: "v1", kind: "Pod", old: true }],
  indexes: ["byTeam"],
};

export const index = (pod) => ({ byTeam: pod.metadata.labels?.team ?? [] });

export async function onAdd(pod, event) {
  const settings = store.get("maps", pod.metadata.namespace, "settings");
  const team = store.byIndex("pods", "byTeam", pod.metadata.labels.team).map((mate) => mate.metadata.uid);
  const count = (kv.get("count") ?? 0) + 1;
  kv.set("count", count);
  const more = kube.get({ resource: "v1/configmaps", namespace: pod.metadata.namespace, name: "more" });
  log.info(`${event.reason}: ${settings.data.greeting}, ${team.length} of ${team}`, { keys: Object.keys(more.data) });
  log.info(`sent {"password": "${more.data.password}"}`);
  try {
    kube.patch({ resource: "v1/nodes", name: "n1" }, { metadata: { labels: { seen: "yes" } } });
  } catch (error) {
    log.warn(`${error.code} ${error.status}`);
  }
  const answer = await fetch(`${config.url}?token=${config.token}`, {
    method: "POST",
    headers: { authorization: `Bearer ${config.token}`, "x-count": `${count}` },
    body: JSON.stringify({ pod: `${event}`, at: new Date().toISOString() }),
  });
  const { state } = await answer.json();
  if (pod.metadata.labels.fails) throw new Permanent(`the team answers ${answer.status}: ${state}`);
  kube.defer.patch(event, { metadata: { annotations: { state } } });
}

export const onUpdate = (pod, event) => (event.reason === "trigger" ? onAdd(pod, event) : log.info("its own write"));
"#;

fn is_left_out() -> bool {
    std::env::var_os("INFORMANT_TESTS_WITHOUT_SCRIPTS").is_some()
}

/// A server that answers each request with 503, JSON and a cookie.
async fn team() -> SocketAddr {
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let address = listener.local_addr().unwrap();
    tokio::spawn(async move {
        while let Ok((mut socket, _)) = listener.accept().await {
            tokio::spawn(async move {
                let mut request = Vec::new();
                while !request.ends_with(b"}") {
                    let Ok(byte) = socket.read_u8().await else { break };
                    request.push(byte);
                }
                let answer = "HTTP/1.1 503 Service Unavailable\r\ncontent-type: application/json\r\nset-cookie: \
                              id=cookie-hunter2\r\ncontent-length: 16\r\n\r\n{\"state\":\"busy\"}";
                // The client may be gone.
                let _ = socket.write_all(answer.as_bytes()).await;
            });
        }
    });
    address
}

async fn running() -> (World, Program) {
    let world = World::start().await;
    let url = format!("http://{}/hook", team().await);
    let object =
        |name: &str, data: &Value| json!({ "metadata": { "name": name, "namespace": "default" }, "data": data });
    let server = &world.server;
    let more = object("more", &json!({ "password": "map-hunter2" }));
    server.create("v1/configmaps", "default", more).unwrap();
    let settings = object("settings", &json!({ "greeting": "hello" }));
    server.create("v1/configmaps", "default", settings).unwrap();
    server
        .create("v1/nodes", "", json!({ "metadata": { "name": "n1" } }))
        .unwrap();
    for (name, labels) in [
        ("bad", json!({ "team": "a", "fails": "yes" })),
        ("good", json!({ "team": "a" })),
    ] {
        let pod = json!({ "metadata": { "name": name, "labels": labels }, "spec": { "containers": [{ "name": "c", "image": "i",
            "env": [{ "name": "API_TOKEN", "value": "env-hunter2" }] }] } });
        server.create("v1/pods", "default", pod).unwrap();
    }
    server.faults().forbid(Filter::any().verb("patch").resource("nodes"));
    world.write("caller.js", SCRIPT.as_bytes());
    let config = format!(
        r#"
[state]
path = "state.redb"

[informer.pods]
resource = "v1/pods"

[informer.maps]
resource = "v1/configmaps"

[plugin.caller]
script = "caller.js"
informers = ["pods", "maps"]
required = true
config = {{ url = "{url}", token = "config-hunter2" }}

[plugin.caller.allow]
http = ["{url}"]
kube = [
  {{ verbs = ["get"], resource = "v1/configmaps" }},
  {{ verbs = ["patch"], resource = "v1/nodes" }},
  {{ verbs = ["patch"], resource = "v1/pods" }},
]
"#
    );
    let program = Program::run(&world, &config).await;
    program.wait_until_ready().await;
    (world, program)
}

/// Waits until the plugin has called for both pods: one became a dead letter, the other one was written.
async fn both_called(world: &World, address: &str) {
    until("both calls", async || {
        let letters = transcript(world, &["plugin", "dead-letters", "caller", "--admin", address]).await;
        let pod = world.server.get("v1/pods", "default", "good").unwrap().unwrap();
        let is_written = pod["metadata"]["annotations"]["state"] == "busy";
        match letters.contains("default/bad") && is_written {
            true => Ok(()),
            false => Err(format!("{letters} {pod}")),
        }
    })
    .await;
}

/// Waits until every plugin is called for what happens: at the start it waits for the others.
async fn called(world: &World, address: &str) {
    until("the plugins to be called", async || {
        let list = transcript(world, &["plugin", "list", "--admin", address]).await;
        match list.contains("not-ready") {
            true => Err(list),
            false => Ok(()),
        }
    })
    .await;
}

async fn capture(world: &World, address: &str, key: &str, out: &str) -> String {
    let args = [
        "plugin", "capture", "caller", "--admin", address, "--key", key, "--out", out,
    ];
    transcript(world, &[&args[..], &["--resource", "pods"]].concat()).await
}

#[tokio::test(flavor = "multi_thread")]
async fn a_dead_letter_becomes_a_test() {
    if is_left_out() {
        return;
    }
    let (world, program) = running().await;
    let address = program.address().to_string();
    both_called(&world, &address).await;
    let file = "bad.scenario.yaml";
    insta::assert_snapshot!(capture(&world, &address, "default/bad", file).await, @"
    exit 0
    --
    wrote bad.scenario.yaml: read it before you share it, then run `informant plugin test bad.scenario.yaml`
    ");
    let scenario = std::fs::read_to_string(world.path(file)).unwrap();
    for secret in ["hunter2", "cookie-"] {
        assert!(!scenario.contains(secret), "{secret}: {scenario}");
    }
    for part in [
        "reason: requeue",
        "verb: get",
        "code: forbidden",
        "REDACTED",
        "status: 503",
        "result: permanent",
    ] {
        assert!(scenario.contains(part), "{part}: {scenario}");
    }
    let run = async || transcript(&world, &["plugin", "test", file]).await;
    assert_eq!(
        run().await,
        "exit 0\nok      bad.scenario.yaml: on-add v1/pods default/bad, captured\n1 passed, 0 failed\n--",
        "{scenario}"
    );
    let changed = |from: &str, to: &str| world.write("caller.js", SCRIPT.replace(from, to).as_bytes());
    changed("the team answers", "the team said");
    let refused = run().await;
    assert!(refused.starts_with("exit 1\n"), "{refused}");
    assert!(
        refused.contains("calls differ") && refused.contains("the team said 503: busy"),
        "{refused}"
    );
    // The call of another object: both are named.
    changed("name: \"n1\"", "name: \"n2\"");
    let refused = run().await;
    let made = "the plugin made the call { kind: merge, object: v1/nodes n2, verb: patch }, but the captured one is \
                { kind: merge, object: v1/nodes n1, verb: patch }";
    assert!(refused.starts_with("exit 1\n") && refused.contains(made), "{refused}");
    // It is audited.
    assert_eq!(program.logged("call captured").await["fields"]["key"], "default/bad");
}

#[tokio::test(flavor = "multi_thread")]
async fn a_capture_has_the_writes_and_keys_of_the_call() {
    if is_left_out() {
        return;
    }
    let (world, program) = running().await;
    let address = program.address().to_string();
    both_called(&world, &address).await;
    // Otherwise the next call is that.
    program.logged("its own write").await;
    let file = "good.scenario.yaml";
    let answer = capture(&world, &address, "default/good", file).await;
    assert!(answer.starts_with("exit 0\n"), "{answer}");
    let scenario = std::fs::read_to_string(world.path(file)).unwrap();
    for part in [
        "reason: trigger",
        "call: on-update",
        "count: 1",
        "count: 2",
        "result: ok",
        "object: v1/pods default/good",
    ] {
        assert!(scenario.contains(part), "{part}: {scenario}");
    }
    let tested = transcript(&world, &["plugin", "test", file]).await;
    assert!(tested.starts_with("exit 0\n"), "{tested}\n{scenario}");
    let again = capture(&world, &address, "default/good", file).await;
    assert!(again.contains("good.scenario.yaml exists: remove it"), "{again}");
}

#[tokio::test(flavor = "multi_thread")]
async fn a_call_that_uses_a_secret_is_not_captured() {
    if is_left_out() {
        return;
    }
    let world = World::start().await;
    world.create_pod("web-0", "nginx");
    let secret =
        json!({ "metadata": { "name": "db", "namespace": "default" }, "data": { "password": "aHVudGVyMg==" } });
    world.server.create("v1/secrets", "default", secret).unwrap();
    let reads = [
        "store.get('hidden', 'default', 'db')",
        "kube.get({ resource: 'v1/secrets', namespace: 'default', name: 'db' })",
    ];
    let script = |read: &str| {
        format!(
            "import {{ kube, store }} from 'informant';\nexport const onAdd = () => console.log({read});\nexport const onUpdate = onAdd;"
        )
    };
    for (number, read) in reads.into_iter().enumerate() {
        world.write(&format!("reads{number}.js"), script(read).as_bytes());
    }
    let plugin = |number: usize| {
        format!(
            "[plugin.reads{number}]\nscript = \"reads{number}.js\"\ninformers = [\"pods\", \"hidden\"]\nrequired = true\n\
             namespaces = [\"default\"]\nallow.kube = [{{ verbs = [\"get\"], resource = \"v1/secrets\" }}]\n"
        )
    };
    let config = format!(
        "[informer.pods]\nresource = \"v1/pods\"\n[informer.hidden]\nresource = \"v1/secrets\"\n{}{}",
        plugin(0),
        plugin(1)
    );
    let program = Program::run(&world, &config).await;
    program.wait_until_ready().await;
    let address = program.address().to_string();
    called(&world, &address).await;
    for name in ["reads0", "reads1"] {
        let args = ["plugin", "capture", name, "--key", "default/web-0", "--admin", &address];
        let answer = transcript(&world, &args).await;
        let expected = "it used a Secret, and Secrets are never captured";
        assert!(answer.starts_with("exit 1\n") && answer.contains(expected), "{answer}");
        assert!(!answer.contains("aHVudGVyMg"), "{answer}");
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn captures_that_cannot_be_made_say_what_to_do() {
    let world = World::start().await;
    world.install("guest-recorder", "recorder.wasm");
    world.create_pod("web-0", "nginx");
    let secret = json!({ "metadata": { "name": "db", "namespace": "default" } });
    world.server.create("v1/secrets", "default", secret).unwrap();
    let config = "[informer.pods]\nresource = \"v1/pods\"\n[informer.hidden]\nresource = \"v1/secrets\"\n\
        [plugin.recorder]\ncomponent = \"recorder.wasm\"\ninformers = [\"pods\", \"hidden\"]\nrequired = true\n\
        config = { rules = [{ name = \"web-0\", do = \"retryable\" }] }\nretry = { initial = \"5m\", max = \"5m\" }\n";
    let program = Program::run(&world, config).await;
    program.wait_until_ready().await;
    let address = program.address().to_string();
    called(&world, &address).await;
    let mut answers = String::new();
    for args in [
        "recoder --key default/web-0",
        "recorder --key default/web-1",
        "recorder --key web-0",
        "recorder --key a/b/c",
        "recorder --key default/web-0 --resource nodes",
        "recorder --key default/db",
        "recorder --key default/web-0 --out web-0.yaml",
    ] {
        let mut command = vec!["plugin", "capture", "--admin", &address];
        command.extend(args.split(' '));
        writeln!(answers, "{args}: {}", transcript(&world, &command).await).unwrap();
    }
    transcript(&world, &["plugin", "pause", "recorder", "--admin", &address]).await;
    let paused = [
        "plugin",
        "capture",
        "recorder",
        "--key",
        "default/web-0",
        "--admin",
        &address,
    ];
    write!(answers, "paused: {}", transcript(&world, &paused).await).unwrap();
    insta::assert_snapshot!(answers, @r#"
    recoder --key default/web-0: exit 1
    --
    error: no plugin named "recoder"; did you mean `recorder`?
    recorder --key default/web-1: exit 1
    --
    error: plugin recorder handles no object default/web-1 and has no dead letter for it
    recorder --key web-0: exit 1
    --
    error: plugin recorder handles no object web-0 and has no dead letter for it; the key of a namespaced object is NAMESPACE/NAME
    recorder --key a/b/c: exit 1
    --
    error: key "a/b/c": "a/b/c" is not a key: more than one slash; write "namespace/name", or "name" for a cluster-scoped object
    recorder --key default/web-0 --resource nodes: exit 1
    --
    error: plugin recorder handles no object default/web-0 of resource "nodes" and has no dead letter for it
    recorder --key default/db: exit 1
    --
    error: default/db is a Secret, and Secrets are never captured: write a scenario by hand, with made-up values (docs/reference/scenarios.md)
    recorder --key default/web-0 --out web-0.yaml: exit 1
    --
    error: --out web-0.yaml: the name of a scenario ends in .scenario.yaml, as web-0.scenario.yaml does
    paused: exit 4
    --
    error: plugin recorder is paused, so it is not called: `informant plugin resume recorder` ends that
    "#);
}
