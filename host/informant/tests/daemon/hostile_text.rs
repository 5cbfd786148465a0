//! Text from plugins, objects, API servers, files and arguments reaches no terminal and no plain log as it is.

use std::fs::File;
use std::path::Path;

use informant_apiserver::{Answer, Filter};
use serde_json::json;
use tokio::process::Child;

use super::program::informant;
use super::world::{World, http_get, until};

/// Moves the cursor, changes colors, reorders what is read, and begins a line of its own.
const HOSTILE: &str =
    "x\u{1b}[31m\u{7}\r\u{7f}\u{85}\u{9b}2J\u{61c}\u{200e}\u{2028}\u{2029}\u{202e}\u{2066}\u{feff}\nforged";

/// The longest output of a command that was called with a huge argument.
const OUTPUT_BYTES_MAX: usize = 64_000;

/// Panics if `text` contains more than readable lines, or a line that was forged.
fn assert_harmless(what: &str, text: &str) {
    let hostile = |letter: char| HOSTILE.contains(letter) && !letter.is_ascii_graphic() && letter != '\n';
    assert!(!text.contains(hostile), "{what} prints a hostile character: {text:?}");
    assert!(
        !text.lines().any(|line| line.starts_with("forged")),
        "{what} prints a forged line: {text}"
    );
}

/// Runs `informant ARGS`; returns its output, which is harmless and bounded.
async fn harmless(world: &World, args: &[&str]) -> String {
    let output = informant(world, args).output().await.unwrap();
    let text = String::from_utf8([output.stdout, output.stderr].concat()).unwrap();
    let what: String = args.join(" ").chars().take(80).collect();
    assert_harmless(&what, &text);
    assert!(text.len() < OUTPUT_BYTES_MAX, "{what}: {} bytes", text.len());
    text
}

/// `informant run` with a plain log in a file.
async fn run(world: &World, log: &Path) -> (Child, String) {
    let mut command = informant(world, &["run", "--health-listen=127.0.0.1:0"]);
    let child = command.stderr(File::create(log).unwrap()).spawn().unwrap();
    let address = until("the admin server", async || {
        let text = std::fs::read_to_string(log).unwrap();
        let line = text.lines().find(|line| line.contains("admin server listening"));
        let word = line.and_then(|line| line.split_whitespace().find_map(|word| word.strip_prefix("address=")));
        word.map(str::to_owned).ok_or(text)
    })
    .await;
    (child, address)
}

/// A cluster, objects and plugins that say hostile things wherever they can.
async fn hostile_world() -> World {
    let world = World::start().await;
    let pod = json!({
        "apiVersion": "v1", "kind": "Pod",
        "metadata": {"name": "web", "annotations": {"note": HOSTILE}},
        "spec": {"nodeName": HOSTILE, "containers": [{"name": HOSTILE, "image": HOSTILE}]},
        "status": {"phase": HOSTILE, "podIP": HOSTILE},
    });
    world.server.create("v1/pods", "default", pod).unwrap();
    // An API server whose versions are opaque indeed.
    let nodes = json!({
        "kind": "NodeList", "apiVersion": "v1", "metadata": {"resourceVersion": HOSTILE},
        "items": [{"metadata": {"name": HOSTILE, "resourceVersion": "7", "labels": {"app": HOSTILE}}}],
    });
    let list = Answer::Raw {
        code: 200,
        content_type: "application/json".to_owned(),
        body: nodes.to_string(),
    };
    world
        .server
        .faults()
        .answer(Filter::any().resource("nodes").verb("list"), u32::MAX, list);
    let refused = json!({
        "kind": "Status", "apiVersion": "v1", "status": "Failure", "code": 403, "reason": "Forbidden",
        "message": HOSTILE,
    });
    let refusal = Answer::Raw {
        code: 403,
        content_type: "application/json".to_owned(),
        body: refused.to_string(),
    };
    world
        .server
        .faults()
        .answer(Filter::any().resource("configmaps"), u32::MAX, refusal);
    let text = serde_json::to_string(HOSTILE).unwrap();
    let says = format!("console.log({text}); console.error({text});");
    world.write(
        "fails.js",
        format!("import {{ Permanent }} from 'informant';\nexport function onAdd() {{ {says} throw new Permanent({text}); }}").as_bytes(),
    );
    world.write("broken.js", format!("{says} throw new Error({text});").as_bytes());
    world
}

const CONFIG: &str = "[informer.pods]\nresource = \"v1/pods\"\nindex = { node = \"/spec/nodeName\" }\n\
    [informer.nodes]\nresource = \"v1/nodes\"\nwatch-list = false\n\
    [informer.maps]\nresource = \"v1/configmaps\"\nrequired = false\n\
    [plugin.fails]\nscript = \"fails.js\"\ninformers = [\"pods\"]\n\
    [plugin.broken]\nscript = \"broken.js\"\ninformers = [\"pods\"]\n";

#[tokio::test(flavor = "multi_thread")]
async fn hostile_text_is_escaped_in_every_output() {
    let world = hostile_world().await;
    world.configure(CONFIG);
    let log = world.path("log");
    let (mut daemon, address) = run(&world, &log).await;
    let socket = address.parse().unwrap();
    let admin = ["--admin", &address];
    let of_daemon = async |args: &[&str]| harmless(&world, &[args, &admin].concat()).await;

    // Everything hostile has arrived.
    until("all problems to show", async || {
        let shown = of_daemon(&["status"]).await;
        let said = [
            "pods",
            "nodes is degraded",
            "Forbidden",
            "fails dead-lettered add",
            "broken is refused",
        ];
        let missing: Vec<_> = said.iter().filter(|what| !shown.contains(**what)).collect();
        if missing.is_empty() && shown.matches("\\u{1b}[31m").count() >= 3 {
            Ok(())
        } else {
            Err(format!("{missing:?}: {shown}"))
        }
    })
    .await;
    let (_, ready) = http_get(socket, "/readyz?verbose").await;
    assert_harmless("/readyz?verbose", &ready);
    let errors = ["dead-lettered", "broken is refused"];
    assert!(!errors.iter().any(|error| ready.contains(error)), "{ready}");

    let escaped = "x\\u{1b}[31m";
    for args in [
        &["plugin", "list"][..],
        &["get", "sources"],
        &["get", "sources", "-o", "wide"],
        &["get", "maps"],
        &["get", "pods", "-o", "wide"],
        &["get", "nodes"],
        &["get", "nodes", "-o", "name"],
        &["get", HOSTILE],
        &["get", "pods", HOSTILE],
        &["get", "pods", "-n", HOSTILE],
        &["get", "pods", "-l", HOSTILE],
        &["get", "pods", "--cluster", HOSTILE],
        &["get", "sources", HOSTILE],
        &["plugin", "requeue", HOSTILE, "--all"],
        &["plugin", "dead-letters", HOSTILE],
        &["plugin", "resume", HOSTILE],
    ] {
        let shown = of_daemon(args).await;
        assert!(shown.contains(escaped), "{args:?}: {shown}");
    }
    // Programs read what was there.
    for (format, object) in [
        ("json", of_daemon(&["get", "pods", "web", "-o", "json"]).await),
        ("yaml", of_daemon(&["get", "pods", "web", "-o", "yaml"]).await),
    ] {
        let object: serde_json::Value =
            serde_saphyr::from_str(&object).unwrap_or_else(|error| panic!("{error}: {object}"));
        assert_eq!(object["metadata"]["annotations"]["note"], HOSTILE, "{format}");
    }
    of_daemon(&["get", "pods", "-o", "name"]).await;
    of_daemon(&["status", "-o", "json"]).await;
    of_daemon(&["plugin", "list", "-o", "json"]).await;

    daemon.kill().await.unwrap();
    let log = std::fs::read_to_string(log).unwrap();
    assert_harmless("the log", &log);
    assert!(log.contains("x\\u{1b}[31m\\u{7}\\r"), "{log}");
}

#[tokio::test(flavor = "multi_thread")]
async fn hostile_and_huge_arguments_are_escaped_and_cut() {
    let world = World::start().await;
    let (config, script) = (format!("{HOSTILE}.toml"), format!("{HOSTILE}.js"));
    world.write(&config, b"[informer.pods]\nresource = \"v1/pods\"\n");
    world.write(&script, b"throw new Error(\"broken\");");
    let huge = format!("a{}", "\u{202e}".repeat(40_000));
    for args in [
        &["rbac", "-c", &config][..],
        &["check", "-c", &config],
        &["check", "-c", &config, "--context", HOSTILE],
        &["check", "-c", &config, "--cluster", HOSTILE],
        &["check", "-c", HOSTILE],
        &["run", "-c", HOSTILE],
        &["run", "-c", &config, "--admin-listen", HOSTILE],
        &["run", "--log-level", HOSTILE],
        &["plugin", "inspect", &script],
        &["plugin", "inspect", HOSTILE],
        &[HOSTILE],
        &["get", "pods", "--index", HOSTILE],
        &[&huge],
        &["get", "pods", "-l", &huge],
        &["check", "-c", &huge],
        &["plugin", "inspect", &huge],
        &["run", "--admin-listen", &huge],
    ] {
        let shown = harmless(&world, args).await;
        assert!(shown.contains("\\u{202e}"), "{args:?}: {shown}");
    }
}
