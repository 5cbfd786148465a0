//! The two ports: what each answers, and how long it puts up with its clients.

use std::collections::{BTreeMap, VecDeque};
use std::io::{Read, Write};
use std::net::SocketAddr;
use std::path::{Path, PathBuf};
use std::sync::mpsc;
use std::time::Duration;

use informant_apiserver::{Answer, Filter};
use tokio::io::AsyncWriteExt;
use tokio::net::TcpStream;

use super::program::{Program, informant, transcript};
use super::world::{World, exchange, http_get, until};

const PODS: &str = "[informer.pods]\nresource = \"v1/pods\"\n";

#[tokio::test(flavor = "multi_thread")]
async fn health_port_answers_probes_and_metrics_only() {
    let world = World::start().await;
    let daemon = world.daemon(PODS).await;
    daemon.wait_until_ready().await;
    for path in ["/livez", "/healthz", "/readyz", "/readyz?verbose", "/metrics"] {
        let (status, text) = http_get(daemon.health_address(), path).await;
        assert_eq!(status, 200, "{path}: {text}");
    }
    for path in ["/api/v1/get/pods", "/api/v1/plugins", "/api/v1/configuration", "/"] {
        let (status, text) = http_get(daemon.health_address(), path).await;
        assert_eq!(status, 404, "{path}: {text}");
        assert!(text.contains("on the admin port"), "{text}");
    }
    let (status, _) = http_get(daemon.address(), "/readyz").await;
    assert_eq!(status, 200, "the admin port answers probes, too");
}

#[tokio::test(flavor = "multi_thread")]
async fn text_of_plugins_objects_and_api_servers_stays_off_probes() {
    const SECRET: &str = "s3cr3t";
    let world = World::start().await;
    world.create_pod("web-0", SECRET);
    let message = format!("admission webhook denied {SECRET}");
    let answer = Answer::forbidden(&message);
    let maps = Filter::any().resource("configmaps");
    world.server.faults().answer(maps, u32::MAX, answer);
    let quotes = "import { Permanent } from 'informant';\n\
        export function onAdd(pod) { throw new Permanent(`cannot parse ${JSON.stringify(pod.spec)}`); }";
    world.write("quotes.js", quotes.as_bytes());
    world.write("broken.js", format!("throw new Error('{SECRET}');").as_bytes());
    world.write("fails.js", quotes.as_bytes());
    let daemon = world
        .daemon(&format!(
            "{PODS}[informer.maps]\nresource = \"v1/configmaps\"\n\
            [plugin.quotes]\nscript = \"quotes.js\"\ninformers = [\"pods\"]\non-failure = \"quarantine\"\n\
            [plugin.broken]\nscript = \"broken.js\"\ninformers = [\"pods\"]\n\
            [plugin.fails]\nscript = \"fails.js\"\ninformers = [\"pods\"]\n\
            [informer.gone]\nresource = \"example.com/v1/widgets\"\n"
        ))
        .await;
    // The authorized API shows all of it.
    until("all errors to show", async || {
        let (_, plugins) = daemon.get("/api/v1/plugins").await;
        let (_, sources) = daemon.get("/api/v1/sources").await;
        let (_, letters) = daemon.get("/api/v1/dead-letters").await;
        let shown = [
            plugins.contains("\"quarantined\"") && plugins.contains("cannot parse"),
            plugins.contains("\"refused\"") && plugins.matches(SECRET).count() >= 2,
            sources.contains(&message) && sources.contains("serves no resource"),
            letters.contains(SECRET),
        ];
        match shown {
            [true, true, true, true] => Ok(()),
            _ => Err(format!("{shown:?} {plugins}\n{sources}\n{letters}")),
        }
    })
    .await;
    for address in [daemon.health_address(), daemon.address()] {
        for path in [
            "/readyz?verbose",
            "/readyz",
            "/livez?verbose",
            "/healthz?verbose",
            "/metrics",
            "/nothing",
        ] {
            let (_, text) = http_get(address, path).await;
            assert!(!text.contains(SECRET), "{path}: {text}");
        }
    }
    let (status, text) = http_get(daemon.health_address(), "/readyz?verbose").await;
    assert_eq!(status, 503);
    for check in [
        "[-]informer/maps failed: Forbidden, 0 objects",
        "[-]informer/gone failed: discovering the resource; `informant status` and the log show why",
        "[ ]plugin/quotes failing, not required: quarantined, ",
        "[ ]plugin/broken failing, not required: refused; `informant status` and the log show why",
        "[+]plugin/fails ok: ",
    ] {
        assert!(text.contains(check), "{check}: {text}");
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn health_address_in_use_is_reported() {
    let world = World::start().await;
    world.configure(PODS);
    let flag = format!("--health-listen={}", world.address);
    insta::assert_snapshot!(transcript(&world, &["run", "--log-level=off", &flag]).await, @"
    exit 1
    --
    error: the health server cannot listen on ADDRESS; change `listen` in [health], or use --health-listen: Address already in use (os error 98)
    ");
}

/// Sends a request line and headers to the admin port.
async fn admin(address: SocketAddr, line: &str, headers: &str) -> (u16, String) {
    exchange(address, &format!("{line} HTTP/1.0\r\n{headers}\r\n")).await
}

#[tokio::test(flavor = "multi_thread")]
async fn web_pages_cannot_use_the_admin_api() {
    let world = World::start().await;
    world.write(
        "config.toml",
        format!("[admin]\nlisten = \"127.0.0.1:0\"\nhosts = [\"informant.example.com\"]\n{PODS}").as_bytes(),
    );
    let daemon = world.daemon_on_file().await;
    daemon.wait_until_ready().await;
    let (get, post) = ("GET /api/v1/get/pods", "POST /api/v1/plugins/none/requeue");
    let json = "content-type: application/json\r\ncontent-length: 2\r\n";
    for (line, headers) in [
        (get, "host: evil.example.com\r\n".to_owned()),
        (get, String::new()),
        ("GET /metrics", "host: evil.example.com\r\n".to_owned()),
        (
            post,
            format!("host: localhost\r\norigin: http://evil.example.com\r\n{json}\r\n{{}}"),
        ),
        (post, format!("host: localhost\r\norigin: null\r\n{json}\r\n{{}}")),
    ] {
        let (status, text) = admin(daemon.address(), line, &headers).await;
        assert_eq!(status, 403, "{line} {headers}: {text}");
        assert!(text.contains(r#""code":"forbidden""#), "{text}");
    }
    for host in [
        "localhost",
        "127.0.0.1:8089",
        "10.0.0.7",
        "[::1]:8089",
        "Informant.example.com:8089",
    ] {
        let (status, text) = admin(daemon.address(), get, &format!("host: {host}\r\n")).await;
        assert_eq!(status, 200, "{host}: {text}");
    }
    assert_eq!(
        daemon
            .metric("informant_admin_rejected_total", &["reason=\"host\""])
            .await,
        3.0
    );
    assert_eq!(
        daemon
            .metric("informant_admin_rejected_total", &["reason=\"origin\""])
            .await,
        2.0
    );
}

#[tokio::test(flavor = "multi_thread")]
async fn metrics_are_text_unless_openmetrics_is_asked_for() {
    let world = World::start().await;
    let daemon = world.daemon(PODS).await;
    let scrape = async |accept: &str| {
        let mut socket = std::net::TcpStream::connect(daemon.health_address()).unwrap();
        let request = format!("GET /metrics HTTP/1.0\r\nhost: x\r\n{accept}\r\n");
        socket.write_all(request.as_bytes()).unwrap();
        let mut text = String::new();
        socket.read_to_string(&mut text).unwrap();
        text
    };
    let text = scrape("").await;
    assert!(text.contains("content-type: text/plain; version=0.0.4"), "{text}");
    assert!(text.contains("\n# TYPE informant_admin_busy_total counter\n"), "{text}");
    assert!(!text.contains("# EOF") && !text.contains("# UNIT"), "{text}");
    let openmetrics = scrape("accept: application/openmetrics-text; version=1.0.0\r\n").await;
    assert!(
        openmetrics.contains("content-type: application/openmetrics-text"),
        "{openmetrics}"
    );
    assert!(openmetrics.ends_with("# EOF\n"), "{openmetrics}");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 1)]
async fn probes_are_answered_while_the_informers_are_blocked() {
    let world = World::start().await;
    let daemon = world.daemon(PODS).await;
    daemon.wait_until_ready().await;
    // The only thread of the informers' runtime waits; this one does not run tasks.
    let (release, released) = mpsc::channel::<()>();
    let (began, blocked) = mpsc::channel();
    let block = tokio::spawn(async move {
        began.send(()).unwrap();
        let _ = released.recv();
    });
    blocked.recv().unwrap();
    for (address, path) in [
        (daemon.health_address(), "/livez"),
        (daemon.health_address(), "/metrics"),
        (daemon.address(), "/livez"),
        (daemon.address(), "/api/v1/get/pods"),
    ] {
        let mut socket = std::net::TcpStream::connect(address).unwrap();
        socket.set_read_timeout(Some(Duration::from_secs(30))).unwrap();
        write!(socket, "GET {path} HTTP/1.0\r\nhost: localhost\r\n\r\n").unwrap();
        let mut answer = String::new();
        socket.read_to_string(&mut answer).unwrap();
        assert!(answer.starts_with("HTTP/1.0 200"), "{path}: {answer}");
    }
    drop(release);
    block.await.unwrap();
}

/// The resident memory of a process.
fn resident_bytes(id: u32) -> u64 {
    let status = std::fs::read_to_string(format!("/proc/{id}/status")).unwrap();
    let line = status.lines().find_map(|line| line.strip_prefix("VmRSS:")).unwrap();
    let kib: u64 = line.split_whitespace().next().unwrap().parse().unwrap();
    kib * 1024
}

/// `informant run` that may open this many files at a time.
async fn program_with_descriptors(world: &World, descriptors: u32) -> (Program, SocketAddr) {
    world.configure(PODS);
    let args = ["run", "--health-listen=127.0.0.1:0", "--log-format=json"];
    let plain = informant(world, &args);
    let mut command = tokio::process::Command::new("prlimit");
    command.arg(format!("--nofile={descriptors}"));
    command
        .arg(plain.as_std().get_program())
        .args(args)
        .current_dir(world.path("."))
        .kill_on_drop(true);
    for (name, value) in plain.as_std().get_envs() {
        match value {
            Some(value) => command.env(name, value),
            None => command.env_remove(name),
        };
    }
    let program = Program::start(command).await;
    let line = program.logged("health server listening").await;
    let health = line["fields"]["address"].as_str().unwrap().parse().unwrap();
    (program, health)
}

#[tokio::test(flavor = "multi_thread")]
async fn half_written_requests_take_neither_descriptors_nor_memory() {
    let world = World::start().await;
    let (program, health) = program_with_descriptors(&world, 128).await;
    program.wait_until_ready().await;
    let before = resident_bytes(program.id());
    let head = format!("GET / HTTP/1.1\r\nhost: localhost\r\nx: {}", "x".repeat(16 * 1024));
    let mut open = VecDeque::new();
    for attempt in 0..3_000 {
        let mut socket = TcpStream::connect(program.address()).await.unwrap();
        // The daemon may have closed it already.
        let _ = socket.write_all(head.as_bytes()).await;
        open.push_back(socket);
        if open.len() > 300 {
            open.pop_front();
        }
        if attempt % 300 == 299 {
            assert_eq!(http_get(health, "/livez").await.0, 200);
        }
    }
    let grown = resident_bytes(program.id()).saturating_sub(before);
    assert!(grown < 64 << 20, "{grown} bytes");
    drop(open);
    until("an answer of the admin port", async || {
        let (status, text) = http_get(program.address(), "/api/v1/sources").await;
        if status == 200 { Ok(()) } else { Err(text) }
    })
    .await;
}

#[tokio::test(flavor = "multi_thread")]
async fn probes_are_answered_without_free_descriptors() {
    let world = World::start().await;
    let (program, health) = program_with_descriptors(&world, 1_024).await;
    program.wait_until_ready().await;
    // No descriptor below the limit is free, nor becomes free: none is of a file that is being read, or of a connection
    // that ends.
    let number = |entry: std::io::Result<std::fs::DirEntry>| {
        let entry = entry.unwrap();
        let number = entry.file_name().to_str()?.parse().ok()?;
        Some((number, std::fs::read_link(entry.path()).ok()?))
    };
    let listed = || {
        let open = std::fs::read_dir(format!("/proc/{}/fd", program.id())).unwrap();
        open.filter_map(number).collect::<BTreeMap<u32, PathBuf>>()
    };
    let open = until("the same descriptors for a while", async || {
        let before = listed();
        tokio::time::sleep(Duration::from_millis(500)).await;
        (listed() == before)
            .then_some(before)
            .ok_or_else(|| "they change".to_owned())
    })
    .await;
    // What a server keeps to accept a connection has to be below the limit, too: others take what is free below that.
    let kept = open.iter().filter(|(_, file)| file.as_path() == Path::new("/dev/null"));
    let last_kept = kept.map(|(number, _)| *number).max().unwrap();
    let mut idle = Vec::new();
    for number in (0..last_kept).filter(|number| !open.contains_key(number)) {
        idle.push(TcpStream::connect(health).await.unwrap());
        until("a connection with the lowest number", async || {
            listed()
                .contains_key(&number)
                .then_some(())
                .ok_or_else(|| number.to_string())
        })
        .await;
    }
    let open = listed();
    let limit = (0..).find(|number| !open.contains_key(number)).unwrap();
    let mut lower = tokio::process::Command::new("prlimit");
    lower.args([format!("--pid={}", program.id()), format!("--nofile={limit}:{limit}")]);
    assert!(lower.status().await.unwrap().success());
    for path in ["/livez", "/readyz", "/metrics", "/livez"] {
        assert_eq!(http_get(health, path).await.0, 200, "{path}");
    }
    program.logged("connections cannot be accepted").await;
    let (_, text) = http_get(health, "/metrics").await;
    let errors = text
        .lines()
        .find(|line| line.starts_with("informant_http_accept_errors_total{server=\"health\"}"));
    assert!(!errors.unwrap().ends_with(" 0"), "{errors:?}");
}

#[tokio::test(flavor = "multi_thread")]
async fn exposed_admin_address_without_tls_is_refused() {
    let world = World::start().await;
    world.configure(PODS);
    let flag = "--admin-listen=0.0.0.0:0";
    insta::assert_snapshot!(transcript(&world, &["run", "--log-level=off", flag]).await, @"
    exit 1
    --
    error: --admin-listen: the admin server at 0.0.0.0:0 is reachable from other machines, but has no TLS; set `tls` in [admin], so that callers have to authenticate; or listen on loopback, and use `kubectl port-forward`
    ");
}

#[tokio::test(flavor = "multi_thread")]
async fn cache_directory_of_everybody_is_refused() {
    use std::os::unix::fs::PermissionsExt as _;

    let world = World::start().await;
    world.configure(PODS);
    for mode in [0o777, 0o770] {
        std::fs::create_dir_all(world.path("shared")).unwrap();
        std::fs::set_permissions(world.path("shared"), std::fs::Permissions::from_mode(mode)).unwrap();
        let args = [
            "run",
            "--log-level=off",
            "--health-listen=127.0.0.1:0",
            "--cache-dir=shared",
        ];
        let refused = transcript(&world, &args).await;
        insta::allow_duplicates! {
            insta::assert_snapshot!(refused, @"
            exit 1
            --
            error: cannot create the WebAssembly engine: the directory for compiled plugins, shared: others may write into it, and its files are run as code: run chmod go-w on it
            ");
        }
    }
}
