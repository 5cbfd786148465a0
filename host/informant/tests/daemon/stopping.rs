//! Whatever hangs, signals work and the process ends within its deadline; configuration changes apply meanwhile.

use std::net::SocketAddr;
use std::path::PathBuf;
use std::process::Stdio;
use std::time::{Duration, Instant};

use informant_apiserver::{Action, Filter, Rule};
use serde_json::json;
use tokio::process::{Child, Command};

use super::program::{Program, informant};
use super::world::{World, http_get, http_post, until};

/// The deadline of an orderly stop, and its margin on a busy machine.
const STOP_MAX: Duration = Duration::from_secs(10);
const MARGIN: Duration = Duration::from_secs(10);

/// The exit code of a stop that hung.
const HUNG: Option<i32> = Some(6);

const PODS: &str = "[informer.pods]\nresource = \"v1/pods\"\n";
const MAPS: &str = "[informer.maps]\nresource = \"v1/configmaps\"\n";

/// Blocks each flush to the disk while the file `HANG_FILE` exists.
const BLOCKING_FLUSH: &str = r#"
#define _GNU_SOURCE
#include <stdlib.h>
#include <sys/syscall.h>
#include <unistd.h>
static void hang(void) {
    const char *file = getenv("HANG_FILE");
    while (file && access(file, F_OK) == 0) usleep(10000);
}
int fsync(int fd) { hang(); return syscall(SYS_fsync, fd); }
int fdatasync(int fd) { hang(); return syscall(SYS_fdatasync, fd); }
int msync(void *address, size_t length, int flags) { hang(); return syscall(SYS_msync, address, length, flags); }
"#;

/// Builds it as a library to preload. cargo links with the same compiler.
async fn blocking_flush(world: &World) -> PathBuf {
    let (source, library) = (world.path("flush.c"), world.path("flush.so"));
    std::fs::write(&source, BLOCKING_FLUSH).unwrap();
    let mut compile = Command::new("cc");
    compile.args(["-shared", "-fPIC", "-o"]).arg(&library).arg(&source);
    assert!(compile.status().await.unwrap().success());
    library
}

/// Ends the program with SIGTERM; returns its exit code.
async fn terminate(program: &mut Program, within: Duration) -> Option<i32> {
    let began = Instant::now();
    program.signal("-TERM").await;
    let code = tokio::time::timeout(within + MARGIN, program.exit_code()).await;
    code.unwrap_or_else(|_| panic!("it still runs after {:?}", began.elapsed()))
}

/// Adds an informer to the running configuration, and waits until it is applied.
async fn add_maps(world: &World, program: &Program, config: &str) {
    world.configure(&format!("{config}{MAPS}"));
    let line = program.logged("section applied").await;
    assert_eq!(line["fields"]["section"], "informer.maps", "{line}");
}

async fn wait_for_metric(address: SocketAddr, series: &str) {
    until(series, async || {
        let (_, text) = http_get(address, "/metrics").await;
        if text.contains(series) { Ok(()) } else { Err(text) }
    })
    .await;
}

#[tokio::test(flavor = "multi_thread")]
async fn hung_disk_delays_neither_edits_nor_the_end() {
    let world = World::start().await;
    let library = blocking_flush(&world).await;
    world.install("guest-recorder", "recorder.wasm");
    let config = "[state]\npath = \"state.redb\"\n[informer.pods]\nresource = \"v1/pods\"\ndurable = \"metadata\"\n\
        [plugin.recorder]\ncomponent = \"recorder.wasm\"\ninformers = [\"pods\"]\nrequired = true\n";
    let hang = world.path("hang");
    let variables = [
        ("LD_PRELOAD", library.to_str().unwrap()),
        ("HANG_FILE", hang.to_str().unwrap()),
    ];
    let mut program = Program::run_in(&world, config, &variables).await;
    program.wait_until_ready().await;
    std::fs::write(&hang, "").unwrap();
    // A change is stored before it is delivered.
    world.create_pod("web-0", "nginx");
    wait_for_metric(
        program.address(),
        "informant_state_queued{informer=\"pods\",cluster=\"\"} 1",
    )
    .await;

    add_maps(&world, &program, config).await;
    until("the new informer to answer", async || {
        match http_get(program.address(), "/api/v1/get/maps").await {
            (200, _) => Ok(()),
            other => Err(format!("{other:?}")),
        }
    })
    .await;

    assert_eq!(terminate(&mut program, STOP_MAX + Duration::from_secs(1)).await, HUNG);
    let line = program.logged("ended because the stop hangs").await;
    let hung = line["fields"]["hung"].as_str().unwrap();
    assert!(hung.contains("state database: write and fsync ("), "{line}");
}

#[tokio::test(flavor = "multi_thread")]
async fn hung_login_delays_neither_liveness_edits_nor_the_end() {
    let world = World::unreachable().await;
    let started = world.path("started");
    let script = format!("echo $$ > {}; sleep 1000; echo", started.display());
    let kubeconfig = json!({
        "apiVersion": "v1", "kind": "Config", "current-context": "test",
        "clusters": [{ "name": "test", "cluster": { "server": "http://127.0.0.1:1" } }],
        "contexts": [{ "name": "test", "context": { "cluster": "test", "user": "test" } }],
        "users": [{ "name": "test", "user": { "exec": {
            "apiVersion": "client.authentication.k8s.io/v1", "command": "sh", "args": ["-c", script],
        } } }],
    });
    world.write("kubeconfig", kubeconfig.to_string().as_bytes());
    let mut program = Program::run(&world, PODS).await;
    let login = until("the login to run", async || {
        let text = std::fs::read_to_string(&started).map_err(|error| error.to_string())?;
        text.trim().parse::<u32>().map_err(|error| error.to_string())
    })
    .await;
    assert_eq!(http_get(program.address(), "/livez").await.0, 200);
    add_maps(&world, &program, PODS).await;
    assert_eq!(terminate(&mut program, Duration::from_secs(5)).await, Some(0));
    until("the login program to be killed", async || {
        let stat = std::fs::read_to_string(format!("/proc/{login}/stat"));
        match stat {
            Ok(stat) if !stat.contains(") Z ") => Err(stat),
            _ => Ok(()),
        }
    })
    .await;
}

#[tokio::test(flavor = "multi_thread")]
async fn stopped_api_server_delays_neither_edits_nor_the_end() {
    let world = World::unreachable().await;
    let server = Server::start(&world, "stopped.kubeconfig").await;
    world.install("guest-recorder", "recorder.wasm");
    let config = format!("{PODS}[plugin.recorder]\ncomponent = \"recorder.wasm\"\ninformers = [\"pods\"]\n");
    let mut program = Program::run_in(&world, &config, &[("KUBECONFIG", &server.kubeconfig)]).await;
    program.wait_until_ready().await;
    server.signal("-STOP").await;
    add_maps(&world, &program, &config).await;
    assert_eq!(http_get(program.address(), "/livez").await.0, 200);
    assert_eq!(terminate(&mut program, STOP_MAX).await, Some(0));
}

/// `informant apiserver`.
struct Server {
    child: Child,
    address: SocketAddr,
    kubeconfig: String,
}

impl Server {
    async fn start(world: &World, kubeconfig: &str) -> Self {
        let args = ["apiserver", "--listen=127.0.0.1:0", "--kubeconfig-out", kubeconfig];
        let child = informant(world, &args).stderr(Stdio::null()).spawn().unwrap();
        let config = until("the kubeconfig", async || {
            kube::config::Kubeconfig::read_from(world.path(kubeconfig)).map_err(|error| error.to_string())
        })
        .await;
        let url = config.clusters[0].cluster.as_ref().unwrap().server.clone().unwrap();
        Self {
            child,
            address: url.strip_prefix("http://").unwrap().parse().unwrap(),
            kubeconfig: world.path(kubeconfig).to_str().unwrap().to_owned(),
        }
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
}

#[tokio::test(flavor = "multi_thread")]
async fn guest_in_host_call_does_not_hold_the_end() {
    let world = World::start().await;
    world.install("guest-kube", "kube.wasm");
    let config = format!(
        "{PODS}[plugin.caller]\ncomponent = \"kube.wasm\"\ninformers = [\"pods\"]\n\
         allow.kube = [{{ verbs = [\"get\"], resource = \"v1/configmaps\" }}]\n\
         config = {{ calls = [{{ verb = \"get\", resource = \"v1/configmaps\", namespace = \"default\", \
         name = \"x\" }}] }}\n"
    );
    let mut program = Program::run(&world, &config).await;
    program.wait_until_ready().await;
    world.server.faults().rule(Rule {
        filter: Filter::any().verb("get").resource("configmaps"),
        action: Action::DelayMs(3_600_000),
        times: None,
    });
    world.create_pod("web-0", "nginx");
    until("the call", async || {
        let (_, text) = http_get(program.address(), "/api/v1/plugins").await;
        if text.contains("\"inFlight\":1") {
            Ok(())
        } else {
            Err(text)
        }
    })
    .await;
    add_maps(&world, &program, &config).await;
    assert_eq!(terminate(&mut program, STOP_MAX).await, Some(0));
    let line = program.logged("stopped").await;
    assert_eq!(line["fields"]["undelivered"], 1, "{line}");
}

#[tokio::test(flavor = "multi_thread")]
async fn keys_in_back_off_do_not_hold_the_end() {
    let world = World::start().await;
    world.install("guest-recorder", "recorder.wasm");
    world.create_pod("web-0", "nginx");
    let minutes = "config = { rules = [{ attempts = 1, do = { retry-after-ms = 600_000 } }] }\n";
    let config = format!("{PODS}[plugin.recorder]\ncomponent = \"recorder.wasm\"\ninformers = [\"pods\"]\n{minutes}");
    let mut program = Program::run(&world, &config).await;
    wait_for_metric(program.address(), "result=\"retryable\"} 1").await;
    let began = Instant::now();
    assert_eq!(terminate(&mut program, STOP_MAX).await, Some(0));
    assert!(began.elapsed() < STOP_MAX, "{:?}", began.elapsed());
    let line = program.logged("failing keys not retried").await;
    assert_eq!(line["fields"]["keys"], "default/web-0", "{line}");
    assert_eq!(line["fields"]["plugin"], "recorder", "{line}");
    let line = program.logged("stopped").await;
    assert_eq!(
        (&line["fields"]["retrying"], &line["fields"]["undelivered"]),
        (&json!(1), &json!(1)),
        "{line}"
    );
}

#[tokio::test(flavor = "multi_thread")]
async fn requeues_do_not_hold_the_end() {
    let world = World::start().await;
    world.install("guest-recorder", "recorder.wasm");
    world.create_pod("web-0", "nginx");
    let minutes = "config = { rules = [{ do = { requeue-after-ms = 600_000 } }] }\n";
    let config = format!("{PODS}[plugin.recorder]\ncomponent = \"recorder.wasm\"\ninformers = [\"pods\"]\n{minutes}");
    let mut program = Program::run(&world, &config).await;
    wait_for_metric(program.address(), "informant_listener_requeues{plugin=\"recorder\"} 1").await;
    let began = Instant::now();
    assert_eq!(terminate(&mut program, STOP_MAX).await, Some(0));
    assert!(began.elapsed() < STOP_MAX, "{:?}", began.elapsed());
    let line = program.logged("stopped").await;
    assert_eq!(line["fields"]["undelivered"], 0, "{line}");
}

/// Waits until a process handles SIGTERM (15).
async fn wait_until_terminate_is_handled(process: u32) {
    until("the signal handlers", async || {
        let status = std::fs::read_to_string(format!("/proc/{process}/status")).map_err(|error| error.to_string())?;
        let mask = status.lines().find_map(|line| line.strip_prefix("SigCgt:"));
        let mask = u64::from_str_radix(mask.unwrap_or_default().trim(), 16).map_err(|error| error.to_string())?;
        if mask & (1 << 14) != 0 { Ok(()) } else { Err(status) }
    })
    .await;
}

#[tokio::test(flavor = "multi_thread")]
async fn signal_ends_a_start_that_hangs() {
    let world = World::unreachable().await;
    world.configure(PODS);
    let pipe = &world.kubeconfig();
    std::fs::remove_file(pipe).unwrap();
    assert!(Command::new("mkfifo").arg(pipe).status().await.unwrap().success());
    let mut program = informant(&world, &["run"]).stderr(Stdio::null()).spawn().unwrap();
    let id = program.id().unwrap();
    wait_until_terminate_is_handled(id).await;
    let kill = Command::new("kill").args(["-TERM", &id.to_string()]).status().await;
    assert!(kill.unwrap().success());
    let status = tokio::time::timeout(MARGIN, program.wait())
        .await
        .expect("it ends")
        .unwrap();
    assert_eq!(status.code(), Some(0));
}

#[tokio::test(flavor = "multi_thread")]
async fn hangup_reloads_credentials_and_user_signals_do_nothing() {
    let world = World::start().await;
    let other = Server::start(&world, "other.kubeconfig").await;
    let mut program = Program::run(&world, PODS).await;
    program.wait_until_ready().await;
    for signal in ["-USR1", "-USR2"] {
        program.signal(signal).await;
    }
    let pod = json!({ "metadata": { "name": "other", "namespace": "default" }, "spec": { "containers": [] } });
    let (code, text) = http_post(other.address, "/api/v1/namespaces/default/pods", &pod.to_string()).await;
    assert_eq!(code, 201, "{text}");
    world.write("kubeconfig", &std::fs::read(&other.kubeconfig).unwrap());
    program.signal("-HUP").await;
    program.logged("reloading configuration").await;
    until("the objects of the other cluster", async || {
        let (_, text) = http_get(program.address(), "/api/v1/get/pods").await;
        if text.contains("\"other\"") { Ok(()) } else { Err(text) }
    })
    .await;
    assert_eq!(terminate(&mut program, STOP_MAX).await, Some(0));
}
