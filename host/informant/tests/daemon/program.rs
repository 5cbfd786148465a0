//! The program itself: signals, exit codes and what people read.

use std::net::SocketAddr;
use std::process::{Output, Stdio};
use std::sync::{Arc, Mutex};

use serde_json::Value;
use tokio::io::{AsyncBufReadExt, BufReader};
use tokio::process::{Child, Command};

use super::world::{World, artefacts, component, http_get, until};

const PODS: &str = "[informer.pods]\nresource = \"v1/pods\"\nindex = { node = \"/spec/nodeName\" }\n";

/// `informant` in the world's folder, with the world's cluster.
fn informant(world: &World, args: &[&str]) -> Command {
    let mut command = Command::new(env!("CARGO_BIN_EXE_informant"));
    command.args(args).current_dir(world.path(".")).kill_on_drop(true);
    command
        .env("KUBECONFIG", world.kubeconfig())
        .env("XDG_CACHE_HOME", artefacts())
        .env_remove("INFORMANT_LOG");
    command
}

async fn output(world: &World, args: &[&str]) -> Output {
    informant(world, args).output().await.unwrap()
}

/// Exit code, stdout and stderr, as one text.
async fn transcript(world: &World, args: &[&str]) -> String {
    let output = output(world, args).await;
    let (out, err) = (
        String::from_utf8(output.stdout).unwrap(),
        String::from_utf8(output.stderr).unwrap(),
    );
    masked(
        world,
        &format!("exit {}\n{out}--\n{err}", output.status.code().unwrap()),
    )
}

/// Without what differs from run to run or from build to build.
fn masked(world: &World, text: &str) -> String {
    let text = text.replace(&world.address.to_string(), "ADDRESS");
    let digest = |word: &str| word.len() >= 12 && word.bytes().all(|byte| byte.is_ascii_hexdigit());
    let size = |word: &str| {
        word.trim_end_matches([',', 'B'])
            .bytes()
            .all(|byte| byte.is_ascii_digit())
            && word.contains('B')
    };
    let age = |word: &str| word.ends_with('d') && word[..word.len() - 1].bytes().all(|byte| byte.is_ascii_digit());
    let word = |word: &str| match word {
        word if digest(word) => "DIGEST".to_owned(),
        word if size(word) => "SIZE".to_owned(),
        word if word.len() > 1 && age(word) => "DAYS".to_owned(),
        word => word.to_owned(),
    };
    let line = |line: &str| line.split(' ').map(word).collect::<Vec<_>>().join(" ");
    text.lines().map(line).collect::<Vec<_>>().join("\n")
}

/// `informant run` and its log.
struct Program {
    child: Child,
    log: Arc<Mutex<Vec<String>>>,
    address: SocketAddr,
}

impl Program {
    async fn run(world: &World, config: &str) -> Self {
        world.configure(config);
        let mut command = informant(world, &["run", "--log-format=json"]);
        let mut child = command.stderr(Stdio::piped()).spawn().unwrap();
        let mut lines = BufReader::new(child.stderr.take().unwrap()).lines();
        let log = Arc::new(Mutex::new(Vec::new()));
        let written = Arc::clone(&log);
        tokio::spawn(async move {
            while let Ok(Some(line)) = lines.next_line().await {
                written.lock().unwrap().push(line);
            }
        });
        let mut program = Self {
            child,
            log,
            address: SocketAddr::from(([127, 0, 0, 1], 0)),
        };
        let line = program.logged("admin server listens").await;
        program.address = line["fields"]["address"].as_str().unwrap().parse().unwrap();
        program
    }

    /// Waits for a line of the log with this message.
    async fn logged(&self, message: &str) -> Value {
        until(&format!("the log line {message:?}"), async || {
            let log = self.log.lock().unwrap();
            let lines = log.iter().filter_map(|line| serde_json::from_str::<Value>(line).ok());
            let has = |line: &Value| {
                line["fields"]["message"]
                    .as_str()
                    .is_some_and(|text| text.contains(message))
            };
            lines.into_iter().find(has).ok_or_else(|| log.join("\n"))
        })
        .await
    }

    async fn wait_until_ready(&self) {
        until("readyz to be green", async || {
            let (status, text) = http_get(self.address, "/readyz?verbose").await;
            if status == 200 { Ok(()) } else { Err(text) }
        })
        .await;
    }

    async fn signal(&self, signal: &str) {
        let id = self.child.id().unwrap().to_string();
        assert!(
            Command::new("kill")
                .args([signal, &id])
                .status()
                .await
                .unwrap()
                .success()
        );
    }

    async fn exit_code(&mut self) -> Option<i32> {
        self.child.wait().await.unwrap().code()
    }
}

fn recorder(rules: &str) -> String {
    format!(
        "{PODS}[plugin.recorder]\ncomponent = \"recorder.wasm\"\ninformers = [\"pods\"]\nrequired = true\nconfig = {{ rules = [{rules}] }}\n"
    )
}

#[tokio::test(flavor = "multi_thread")]
async fn the_first_signal_ends_in_order() {
    let world = World::start().await;
    world.create_pod("web-0", "nginx");
    world.install("guest-recorder", "recorder.wasm");
    for signal in ["-TERM", "-INT"] {
        let mut program = Program::run(&world, &recorder("")).await;
        program.wait_until_ready().await;
        program.signal(signal).await;
        assert_eq!(program.exit_code().await, Some(0));
        let stopped = program.logged("stopped").await;
        assert_eq!(stopped["fields"]["undelivered"], 0, "{stopped}");
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn the_second_signal_ends_at_once() {
    let world = World::start().await;
    world.create_pod("web-0", "nginx");
    world.install("guest-recorder", "recorder.wasm");
    for (signal, code) in [("-TERM", 143), ("-INT", 130)] {
        // An event in back-off is what an orderly stop waits for.
        let mut program = Program::run(&world, &recorder("{ do = \"retryable\" }")).await;
        program.wait_until_ready().await;
        until("a failure", async || {
            let (_, text) = http_get(program.address, "/metrics").await;
            if text.contains("result=\"retryable\"} 1") {
                Ok(())
            } else {
                Err(text)
            }
        })
        .await;
        program.signal("-TERM").await;
        program.logged("a second signal ends at once").await;
        program.signal(signal).await;
        assert_eq!(program.exit_code().await, Some(code));
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_guests_lines_are_in_the_log_with_its_plugins_name() {
    let world = World::start().await;
    world.create_pod("web-0", "nginx");
    world.install("guest-recorder", "recorder.wasm");
    let program = Program::run(&world, &recorder("")).await;
    let line = program.logged("\"event\":\"add\"").await;
    assert_eq!(line["fields"]["plugin"], "recorder");
}

#[tokio::test(flavor = "multi_thread")]
async fn get_shows_objects_as_kubectl_does() {
    let world = World::start().await;
    for name in ["web-0", "a-longer-name-0"] {
        world.create_pod(name, "nginx");
    }
    let program = Program::run(&world, PODS).await;
    program.wait_until_ready().await;
    let address = program.address.to_string();
    let get = async |args: &[&str]| {
        let args: Vec<_> = [&["get"], args, &["--admin", &address]].concat();
        transcript(&world, &args).await
    };
    insta::assert_snapshot!(get(&["pods"]).await, @"");
    insta::assert_snapshot!(get(&["pods", "-n", "default", "--no-headers"]).await, @"");
    insta::assert_snapshot!(get(&["pods", "-A", "-l", "app=web", "-o", "name"]).await, @"");
    insta::assert_snapshot!(get(&["Pod", "--index", "node=node-1", "-o", "name"]).await, @"");
    insta::assert_snapshot!(get(&["pods", "-n", "kube-system"]).await, @"");
    insta::assert_snapshot!(get(&["pods", "-n", "kube-system", "-o", "json"]).await, @"");
    insta::assert_snapshot!(get(&["pods", "web-9"]).await, @"");
    insta::assert_snapshot!(get(&["nodes"]).await, @"");

    for (args, kind, count) in [(vec!["pods"], "List", Some(2)), (vec!["pods", "web-0"], "Pod", None)] {
        let args: Vec<_> = [&["get"], &args[..], &["-o", "json", "--admin", &address]].concat();
        let json: Value = serde_json::from_slice(&output(&world, &args).await.stdout).unwrap();
        assert_eq!(json["kind"], kind);
        assert_eq!(json["items"].as_array().map(Vec::len), count);
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn get_says_when_nobody_answers() {
    let world = World::unreachable().await;
    // Where the cluster would be, nobody listens.
    insta::assert_snapshot!(transcript(&world, &["get", "pods", "--admin", &world.address.to_string()]).await, @"");
    world.configure(PODS);
    insta::assert_snapshot!(transcript(&world, &["get", "pods"]).await, @"");
}

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
    insta::assert_snapshot!(transcript(&world, &["check"]).await, @"");
    insta::assert_snapshot!(transcript(&world, &["check", "--offline", "-c", "config.toml"]).await, @"");

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
    insta::assert_snapshot!(transcript(&world, &["check"]).await, @"");

    world.configure(PODS);
    world
        .server
        .faults()
        .forbid(informant_apiserver::Filter::any().resource("pods").verb("watch"));
    insta::assert_snapshot!(transcript(&world, &["check"]).await, @"");
    world.configure("[informer.pods]\nresuorce = \"v1/pods\"\n");
    insta::assert_snapshot!(transcript(&world, &["check"]).await, @"");
    insta::assert_snapshot!(transcript(&world, &["check", "-c", "nowhere.toml"]).await, @"");
}

#[tokio::test(flavor = "multi_thread")]
async fn check_says_when_the_cluster_cannot_be_reached() {
    let world = World::unreachable().await;
    world.configure(PODS);
    insta::assert_snapshot!(transcript(&world, &["check"]).await, @"");
    insta::assert_snapshot!(transcript(&world, &["check", "--cluster"]).await, @"");
    insta::assert_snapshot!(transcript(&world, &["check", "--cluster", "--context", "other"]).await, @"");
    insta::assert_snapshot!(transcript(&world, &["check", "--cluster", "--kubeconfig", "nowhere"]).await, @"");
}

#[tokio::test(flavor = "multi_thread")]
async fn a_configuration_that_is_refused_is_not_run() {
    let world = World::unreachable().await;
    world.configure("[informer.pods]\nresuorce = \"v1/pods\"\n");
    insta::assert_snapshot!(transcript(&world, &["run"]).await, @"");
}

#[tokio::test(flavor = "multi_thread")]
async fn an_address_in_use_is_said() {
    let world = World::start().await;
    world.configure(PODS);
    let address = world.address.to_string();
    insta::assert_snapshot!(transcript(&world, &["run", "--log-level=off", "--admin-listen", &address]).await, @"");
}

#[tokio::test(flavor = "multi_thread")]
async fn inspect_shows_what_a_component_is() {
    let world = World::unreachable().await;
    world.install("crash-loop", "crash-loop.wasm");
    world.install("image-index", "image-index.wasm");
    insta::assert_snapshot!(transcript(&world, &["plugin", "inspect", "crash-loop.wasm"]).await, @"");
    insta::assert_snapshot!(transcript(&world, &["plugin", "inspect", "image-index.wasm"]).await, @"");
    insta::assert_snapshot!(transcript(&world, &["plugin", "inspect", "kubeconfig"]).await, @"");
    let json = output(&world, &["plugin", "inspect", "-o", "json", "crash-loop.wasm"])
        .await
        .stdout;
    let json: Value = serde_json::from_slice(&json).unwrap();
    assert_eq!(json["contract"], "informant:plugin@0.1.0");
    assert!(component("crash-loop").metadata().unwrap().len() == json["sizeBytes"].as_u64().unwrap());
}

#[tokio::test(flavor = "multi_thread")]
async fn apiserver_writes_a_kubeconfig_that_reaches_it() {
    let world = World::unreachable().await;
    let mut command = informant(
        &world,
        &["apiserver", "--listen=127.0.0.1:0", "--kubeconfig-out=written"],
    );
    let mut server = command.stderr(Stdio::null()).spawn().unwrap();
    until("the kubeconfig", async || {
        std::fs::metadata(world.path("written")).map_err(|error| error.to_string())
    })
    .await;
    world.configure(PODS);
    insta::assert_snapshot!(transcript(&world, &["check", "--cluster", "--kubeconfig", "written"]).await, @"");
    let id = server.id().unwrap().to_string();
    assert!(
        Command::new("kill")
            .args(["-TERM", &id])
            .status()
            .await
            .unwrap()
            .success()
    );
    assert_eq!(server.wait().await.unwrap().code(), Some(0));
}
