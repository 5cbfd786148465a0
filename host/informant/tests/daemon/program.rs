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
pub(crate) fn informant(world: &World, args: &[&str]) -> Command {
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
    let line = |line: &str| match line.split_once("fresh as of ") {
        // Versions and ages differ from run to run.
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
    pub(crate) async fn logged(&self, message: &str) -> Value {
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
        until("the informer to be gone", async || {
            let (status, text) = http_get(program.address, "/api/v1/get/pods").await;
            let gone = "informer pods is not there any more: Informant is stopping";
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
    insta::assert_snapshot!(get(&["pods"]).await, @"
    exit 0
    NAMESPACE   NAME              AGE
    default     a-longer-name-0   DAYS
    default     web-0             DAYS
    --
    fresh as of …
    ");
    insta::assert_snapshot!(get(&["pods", "-n", "default", "--no-headers"]).await, @"
    exit 0
    a-longer-name-0   DAYS
    web-0             DAYS
    --
    fresh as of …
    ");
    insta::assert_snapshot!(get(&["pods", "-A", "-l", "app=web", "-o", "name"]).await, @"
    exit 0
    pod/web-0
    --
    ");
    insta::assert_snapshot!(get(&["Pod", "--index", "node=node-1", "-o", "name"]).await, @"
    exit 0
    pod/a-longer-name-0
    pod/web-0
    --
    ");
    insta::assert_snapshot!(get(&["pods", "-n", "kube-system"]).await, @"
    exit 0
    --
    No resources found in kube-system namespace.
    fresh as of …
    ");
    insta::assert_snapshot!(get(&["pods", "-n", "kube-system", "-o", "json"]).await, @r#"
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
    insta::assert_snapshot!(get(&["pods", "-n", "default", "-o", "wide"]).await, @"
    exit 0
    NAME              READY   STATUS    RESTARTS   AGE    IP       NODE
    a-longer-name-0   0/1     Pending   0          DAYS   <none>   node-1
    web-0             0/1     Pending   0          DAYS   <none>   node-1
    --
    fresh as of …
    ");
    insta::assert_snapshot!(get(&["pods", "-l", "app in (a,db),!canary", "-o", "name"]).await, @"
    exit 0
    pod/a-longer-name-0
    --
    ");
    insta::assert_snapshot!(get(&["pods", "-l", "app in (a"]).await, @r#"
    exit 2
    --
    error: invalid value 'app in (a' for '--selector <SELECTOR>': label selector "app in (a", byte 9: found the end, expected "," or ")"

    For more information, try '--help'.
    "#);
    insta::assert_snapshot!(get(&["pods", "--cluster", "east"]).await, @r#"
    exit 1
    --
    error: informer pods is in one cluster, which has no name: leave "east" out
    "#);
    insta::assert_snapshot!(get(&["sources", "-o", "name"]).await, @"
    exit 0
    source/pods
    --
    ");
    insta::assert_snapshot!(get(&["pods", "web-9"]).await, @r#"
    exit 1
    --
    error: informer pods has no object "web-9"
    "#);
    insta::assert_snapshot!(get(&["nodes"]).await, @r#"
    exit 1
    --
    error: no informer is called or watches "nodes"; informers: `pods`
    "#);

    insta::assert_snapshot!(get(&["sources", "podz"]).await, @r#"
    exit 1
    --
    error: no informer is called or watches "podz"; did you mean `pods`?
    "#);
    insta::assert_snapshot!(get(&["sources", "Pod", "--cluster", "east"]).await, @r#"
    exit 1
    --
    error: no source is in a cluster called "east"; there is one cluster, which has no name
    "#);
    insta::assert_snapshot!(get(&["sources", "Pod", "-n", "web"]).await, @"
    exit 0
    --
    No sources found of web namespace alone.
    ");
    insta::assert_snapshot!(get(&["pods", "--at-least", "abc"]).await, @r#"
    exit 1
    --
    error: unsupported: version "abc" is no decimal number, and others do not compare
    "#);
    insta::assert_snapshot!(get(&["sources", "--at-least", "1"]).await, @"
    exit 1
    --
    error: --at-least is for objects; GET /api/v1/sources/ID?at-least=VERSION waits for one source
    ");

    for (args, kind, count) in [(vec!["pods"], "List", Some(2)), (vec!["pods", "web-0"], "Pod", None)] {
        let args: Vec<_> = [&["get"], &args[..], &["-o", "json", "--admin", &address]].concat();
        let json: Value = serde_json::from_slice(&output(&world, &args).await.stdout).unwrap();
        assert_eq!(json["kind"], kind);
        assert_eq!(json["items"].as_array().map(Vec::len), count);
    }
    world.create_pod("own", "nginx");
    let version = world.server.revision().to_string();
    insta::assert_snapshot!(get(&["pods", "own", "--at-least", &version, "-o", "name"]).await, @"
    exit 0
    pod/own
    --
    ");
}

#[tokio::test(flavor = "multi_thread")]
async fn get_says_when_nobody_answers() {
    let world = World::unreachable().await;
    // Where the cluster would be, nobody listens.
    insta::assert_snapshot!(transcript(&world, &["get", "pods", "--admin", &world.address.to_string()]).await, @"
    exit 1
    --
    error: no daemon answers at ADDRESS (--admin); start `informant run`, or name its admin server with --admin: Connection refused (os error 111)
    ");
    world.configure(PODS);
    insta::assert_snapshot!(transcript(&world, &["get", "pods"]).await, @"
    exit 1
    --
    error: 127.0.0.1:0 ([admin] listen in config.toml) is no address to ask at: name the port with --admin, the daemon's log says which it took
    ");
    world.write(
        "config.toml",
        format!("[admin]\nlisten = \"{}\"\n", world.address).as_bytes(),
    );
    insta::assert_snapshot!(transcript(&world, &["status"]).await, @"
    exit 1
    --
    error: no daemon answers at ADDRESS ([admin] listen in config.toml); a daemon stays where it listened when it started; start `informant run`, or name its admin server with --admin: Connection refused (os error 111)
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
    error: no daemon answers at ADDRESS (--admin); start `informant run`, or name its admin server with --admin: Connection refused (os error 111)
    ");
}

#[tokio::test(flavor = "multi_thread")]
async fn a_configuration_that_a_daemon_refuses_does_not_keep_anybody_from_asking_it() {
    let world = World::start().await;
    world.create_pod("web-0", "nginx");
    let program = Program::run(&world, PODS).await;
    program.wait_until_ready().await;
    let asked = async |args: &[&str], config: &str| {
        world.write("config.toml", config.as_bytes());
        let said = transcript(&world, args).await;
        said.replace(&program.address.to_string(), "ADMIN")
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
    // Nothing can be read of it: the default, where perhaps another daemon is.
    let (asked_for, named) = (&["status"], program.address.to_string());
    let said = asked(asked_for, "[admin\nlisten = 3\n").await;
    assert!(said.contains("warning: config.toml:1:7: "), "{said}");
    let said = asked(&["get", "pods", "-o", "name", "--admin", &named], "[admin\n").await;
    assert_eq!(said.trim_end(), "exit 0\npod/web-0\n--");
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

#[tokio::test(flavor = "multi_thread")]
async fn a_configuration_that_is_refused_is_not_run() {
    let world = World::unreachable().await;
    world.configure("[informer.pods]\nresuorce = \"v1/pods\"\n");
    insta::assert_snapshot!(transcript(&world, &["run"]).await, @r#"
    exit 3
    --
    error: config.toml:3:11: [informer.pods] lacks `resource`
      help: name what is watched: resource = "v1/pods"
    error: config.toml:4:1: unknown key `resuorce` in [informer.pods]
      help: did you mean `resource`?
    "#);
}

#[tokio::test(flavor = "multi_thread")]
async fn an_address_in_use_is_said() {
    let world = World::start().await;
    world.configure(PODS);
    let address = world.address.to_string();
    insta::assert_snapshot!(transcript(&world, &["run", "--log-level=off", "--admin-listen", &address]).await, @"
    exit 1
    --
    error: the admin server cannot listen on ADDRESS; change `listen` in [admin], or use --admin-listen: Address already in use (os error 98)
    ");
}

#[tokio::test(flavor = "multi_thread")]
async fn inspect_shows_what_a_component_is() {
    let world = World::unreachable().await;
    world.install("crash-loop", "crash-loop.wasm");
    world.install("image-index", "image-index.wasm");
    insta::assert_snapshot!(transcript(&world, &["plugin", "inspect", "crash-loop.wasm"]).await, @"
    exit 0
    plugin    crash-loop 0.1.0
    component crash-loop.wasm
    sha256    DIGEST
    size      SIZE
    contract  informant:plugin@0.1.0
    roles     event-handler, sync-handler
    events    v1 Pod: fields /status/initContainerStatuses/*/name /status/initContainerStatuses/*/restartCount /status/initContainerStatuses/*/state/waiting/reason /status/initContainerStatuses/*/state/running/startedAt /status/initContainerStatuses/*/state/terminated/reason /status/initContainerStatuses/*/state/terminated/exitCode /status/initContainerStatuses/*/lastState/terminated/reason /status/initContainerStatuses/*/lastState/terminated/exitCode /status/containerStatuses/*/name /status/containerStatuses/*/restartCount /status/containerStatuses/*/state/waiting/reason /status/containerStatuses/*/state/running/startedAt /status/containerStatuses/*/state/terminated/reason /status/containerStatuses/*/state/terminated/exitCode /status/containerStatuses/*/lastState/terminated/reason /status/containerStatuses/*/lastState/terminated/exitCode, only if it changed
    imports   informant:plugin/types@0.1.0
              informant:plugin/log@0.1.0
              wasi:io/poll@0.2.6
              wasi:io/error@0.2.6
              wasi:io/streams@0.2.6
              wasi:cli/environment@0.2.6
              wasi:cli/exit@0.2.6
              wasi:cli/stdin@0.2.6
              wasi:cli/stdout@0.2.6
              wasi:cli/stderr@0.2.6
              wasi:cli/terminal-input@0.2.6
              wasi:cli/terminal-output@0.2.6
              wasi:cli/terminal-stdin@0.2.6
              wasi:cli/terminal-stdout@0.2.6
              wasi:cli/terminal-stderr@0.2.6
    needs     no grants
    --
    ");
    insta::assert_snapshot!(transcript(&world, &["plugin", "inspect", "image-index.wasm"]).await, @"
    exit 0
    plugin    image-index 0.1.0
    component image-index.wasm
    sha256    DIGEST
    size      SIZE
    contract  informant:plugin@0.1.0
    roles     index-funcs
    indexes   image, image-repository of v1 Pod: fields /spec/containers/*/image /spec/initContainers/*/image /spec/ephemeralContainers/*/image
    imports   informant:plugin/types@0.1.0
              informant:plugin/log@0.1.0
              wasi:io/poll@0.2.6
              wasi:io/error@0.2.6
              wasi:io/streams@0.2.6
              wasi:cli/environment@0.2.6
              wasi:cli/exit@0.2.6
              wasi:cli/stdin@0.2.6
              wasi:cli/stdout@0.2.6
              wasi:cli/stderr@0.2.6
              wasi:cli/terminal-input@0.2.6
              wasi:cli/terminal-output@0.2.6
              wasi:cli/terminal-stdin@0.2.6
              wasi:cli/terminal-stdout@0.2.6
              wasi:cli/terminal-stderr@0.2.6
    needs     no grants
    --
    ");
    insta::assert_snapshot!(transcript(&world, &["plugin", "inspect", "kubeconfig"]).await, @r#"
    exit 1
    --
    error: kubeconfig: not WebAssembly: it begins with the text "{\"apiVersion\":\"v1\",\"clus"; give the .wasm file that the build makes (Rust: cargo build --target wasm32-wasip2 --release)
    "#);
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
    insta::assert_snapshot!(transcript(&world, &["check", "--cluster", "--kubeconfig", "written"]).await, @"
    exit 0
    informer pods: v1/pods (Pod), all namespaces, may list and watch
    config.toml is good
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
