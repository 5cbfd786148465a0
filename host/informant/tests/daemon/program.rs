//! The program: signals, exit codes and output.

mod check;
mod get;
mod inspect;

use std::net::SocketAddr;
use std::process::{Output, Stdio};
use std::sync::{Arc, Mutex};
use std::time::Duration;

use serde_json::Value;
use tokio::io::{AsyncBufReadExt, BufReader};
use tokio::process::{Child, Command};

use super::world::{World, artifacts, http_get, until};

const PODS: &str = "[informer.pods]\nresource = \"v1/pods\"\nindex = { node = \"/spec/nodeName\" }\n";

/// `informant` in the world's folder, with the world's cluster.
pub(crate) fn informant(world: &World, args: &[&str]) -> Command {
    let mut command = Command::new(env!("CARGO_BIN_EXE_informant"));
    command.args(args).current_dir(world.path(".")).kill_on_drop(true);
    command
        .env("KUBECONFIG", world.kubeconfig())
        .env("XDG_CACHE_HOME", artifacts())
        .env_remove("INFORMANT_LOG");
    command
}

async fn output(world: &World, args: &[&str]) -> Output {
    informant(world, args).output().await.unwrap()
}

/// Addresses for the program itself, but not for its threads. How many MiB that are is up to the build.
#[tokio::test(flavor = "multi_thread")]
async fn a_start_without_memory_for_threads_is_an_error() {
    let world = World::unreachable().await;
    world.configure(PODS);
    for mebibytes in (60..400).step_by(5) {
        let limited = format!(
            "ulimit -v {}; exec \"$0\" run --admin-listen=127.0.0.1:0 --health-listen=127.0.0.1:0",
            mebibytes << 10
        );
        let mut shell = Command::new("/bin/sh");
        shell
            .args(["-c", &limited, env!("CARGO_BIN_EXE_informant")])
            .current_dir(world.path("."))
            .env("KUBECONFIG", world.kubeconfig())
            .kill_on_drop(true);
        let Ok(ended) = tokio::time::timeout(Duration::from_secs(5), shell.output()).await else {
            // It has enough, and runs.
            return;
        };
        let error = String::from_utf8(ended.unwrap().stderr).unwrap();
        assert!(!error.contains("panicked"), "{mebibytes} MiB: {error}");
    }
}

/// Exit code, stdout and stderr, as one text.
pub(crate) async fn transcript(world: &World, args: &[&str]) -> String {
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

/// Masks what differs between runs or builds.
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
    let line = |line: &str| match line.split_once("fresh as of ") {
        // Versions and ages differ between runs.
        Some((before, _)) => format!("{before}fresh as of …"),
        None => line.split(' ').map(word).collect::<Vec<_>>().join(" "),
    };
    text.lines().map(line).collect::<Vec<_>>().join("\n")
}

/// `informant run` and its log.
pub(crate) struct Program {
    child: Child,
    log: Arc<Mutex<Vec<String>>>,
    address: SocketAddr,
}

impl Program {
    pub(crate) async fn run(world: &World, config: &str) -> Self {
        Self::run_in(world, config, &[]).await
    }

    /// With more environment variables.
    pub(crate) async fn run_in(world: &World, config: &str, variables: &[(&str, &str)]) -> Self {
        world.configure(config);
        let mut command = informant(world, &["run", "--health-listen=127.0.0.1:0", "--log-format=json"]);
        command.envs(variables.iter().copied());
        Self::start(command).await
    }

    /// Starts a command that runs `informant run` with a JSON log.
    pub(crate) async fn start(mut command: Command) -> Self {
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
        let line = program.logged("admin server listening").await;
        program.address = line["fields"]["address"].as_str().unwrap().parse().unwrap();
        program
    }

    /// Where its admin server listens.
    pub(crate) fn address(&self) -> SocketAddr {
        self.address
    }

    /// Waits for a log line with this message.
    pub(crate) async fn logged(&self, message: &str) -> Value {
        until(&format!("the log line {message:?}"), async || {
            let lines = self.lines();
            let has = |line: &&Value| {
                line["fields"]["message"]
                    .as_str()
                    .is_some_and(|text| text.contains(message))
            };
            lines
                .iter()
                .find(has)
                .cloned()
                .ok_or_else(|| self.log.lock().unwrap().join("\n"))
        })
        .await
    }

    /// The log so far.
    pub(crate) fn lines(&self) -> Vec<Value> {
        let log = self.log.lock().unwrap();
        log.iter().filter_map(|line| serde_json::from_str(line).ok()).collect()
    }

    pub(crate) fn id(&self) -> u32 {
        self.child.id().unwrap()
    }

    pub(crate) async fn wait_until_ready(&self) {
        until("readyz to be green", async || {
            let (status, text) = http_get(self.address, "/readyz?verbose").await;
            if status == 200 { Ok(()) } else { Err(text) }
        })
        .await;
    }

    pub(crate) async fn signal(&self, signal: &str) {
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

    pub(crate) async fn exit_code(&mut self) -> Option<i32> {
        self.child.wait().await.unwrap().code()
    }
}

fn recorder(rules: &str) -> String {
    format!(
        "{PODS}[plugin.recorder]\ncomponent = \"recorder.wasm\"\ninformers = [\"pods\"]\nrequired = true\nconfig = {{ rules = [{rules}] }}\n"
    )
}

#[tokio::test(flavor = "multi_thread")]
async fn first_signal_stops_cleanly() {
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
async fn second_signal_exits_immediately() {
    let world = World::start().await;
    world.create_pod("web-0", "nginx");
    world.install("guest-recorder", "recorder.wasm");
    for (signal, code) in [("-TERM", 143), ("-INT", 130)] {
        // A clean stop waits for calls in progress.
        let limits = "limits = { cpu = \"60s\", call = \"2m\" }\n";
        let config = recorder("{ do = \"loop\" }").replace("required = true\n", limits);
        let mut program = Program::run(&world, &config).await;
        program.wait_until_ready().await;
        until("a call", async || {
            let (_, text) = http_get(program.address, "/api/v1/plugins").await;
            if text.contains("\"inFlight\":1") {
                Ok(())
            } else {
                Err(text)
            }
        })
        .await;
        program.signal("-TERM").await;
        program.logged("a second signal ends the process immediately").await;
        until("the informer to be gone", async || {
            let (status, text) = http_get(program.address, "/api/v1/get/pods").await;
            let gone = "informer pods was stopped: Informant is shutting down";
            if status == 503 && text.contains(gone) {
                Ok(())
            } else {
                Err(text)
            }
        })
        .await;
        program.signal(signal).await;
        assert_eq!(program.exit_code().await, Some(code));
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn guest_log_lines_carry_the_plugin_name() {
    let world = World::start().await;
    world.create_pod("web-0", "nginx");
    world.install("guest-recorder", "recorder.wasm");
    let program = Program::run(&world, &recorder("")).await;
    let line = program.logged("\"event\":\"add\"").await;
    assert_eq!(line["fields"]["plugin"], "recorder");
}

#[tokio::test(flavor = "multi_thread")]
async fn explain_prints_a_runbook_and_suggests_codes() {
    let world = World::unreachable().await;
    let page = transcript(&world, &["explain", "dead-letters"]).await;
    // Without styles: this is no terminal.
    assert!(page.starts_with("exit 0\ndead-letters\n\n"), "{page}");
    assert!(page.contains("\nDECIDE\n\n- ") && !page.contains('\u{1b}'), "{page}");
    insta::assert_snapshot!(transcript(&world, &["explain", "plugin-quarantene"]).await, @"
    exit 1
    --
    error: there is no code `plugin-quarantene`; did you mean `plugin-quarantined`?
    ");
    let codes = transcript(&world, &["explain"]).await;
    let row = codes.lines().find(|line| line.starts_with("watch-not-live "));
    insta::assert_snapshot!(row.unwrap_or(&codes), @"watch-not-live          A source does not receive changes");
}

#[tokio::test(flavor = "multi_thread")]
async fn invalid_configuration_is_not_run() {
    let world = World::unreachable().await;
    world.configure("[informer.pods]\nresuorce = \"v1/pods\"\n");
    insta::assert_snapshot!(transcript(&world, &["run"]).await, @r#"
    exit 3
    --
    error: config.toml:3:11: [informer.pods] lacks `resource`
      help: set what to watch: resource = "v1/pods"
    error: config.toml:4:1: unknown key `resuorce` in [informer.pods]
      help: did you mean `resource`?
    "#);
}

#[tokio::test(flavor = "multi_thread")]
async fn address_in_use_is_reported() {
    let world = World::start().await;
    world.configure(PODS);
    let address = world.address.to_string();
    let args = [
        "run",
        "--health-listen=127.0.0.1:0",
        "--log-level=off",
        "--admin-listen",
        &address,
    ];
    insta::assert_snapshot!(transcript(&world, &args).await, @"
    exit 1
    --
    error: the admin server cannot listen on ADDRESS; change `listen` in [admin], or use --admin-listen: Address already in use (os error 98)
    ");
}

#[tokio::test(flavor = "multi_thread")]
async fn apiserver_writes_a_working_kubeconfig() {
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
    insta::assert_snapshot!(transcript(&world, &["check", "--cluster", "--kubeconfig", "written"]).await, @"
    exit 0
    informer pods: v1/pods (Pod), all namespaces, list and watch allowed
    config.toml is valid
    --
    ");
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
