//! An embedded API server, a directory with a configuration, and daemons that use them.

use std::net::SocketAddr;
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

use informant::config_file;
use informant::{ClusterAccess, ClusterFlags};
use informant::{Daemon, DaemonOptions};
use informant_apiserver::{ApiServer, Options};
use informant_plugin_host::Compiler;
use rcgen::{CertificateParams, KeyPair};
use serde_json::{Value, json};
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::{TcpListener, TcpStream};
use tokio::runtime::Runtime;
use tokio_rustls::rustls::pki_types::CertificateDer;
use tokio_util::sync::CancellationToken;

/// How long anything may take, including compilation on a busy machine.
const DEADLINE: Duration = Duration::from_secs(60);

pub(crate) struct World {
    pub(crate) server: ApiServer,
    pub(crate) address: SocketAddr,
    folder: tempfile::TempDir,
    stop: CancellationToken,
}

impl World {
    /// A cluster on a free port.
    pub(crate) async fn start() -> Self {
        let (world, listener) = Self::prepare().await;
        world.serve(listener);
        world
    }

    /// A cluster that does not listen yet.
    pub(crate) async fn unreachable() -> Self {
        Self::prepare().await.0
    }

    async fn prepare() -> (Self, TcpListener) {
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let address = listener.local_addr().unwrap();
        let world = Self {
            server: ApiServer::new(Options::default()),
            address,
            folder: tempfile::tempdir().unwrap(),
            stop: CancellationToken::new(),
        };
        std::fs::write(world.kubeconfig(), kubeconfig(address)).unwrap();
        (world, listener)
    }

    /// A connection of another test may have the port for a moment.
    pub(crate) async fn begin_to_serve(&self) {
        let listener = until("the port", async || {
            let bound = TcpListener::bind(self.address).await;
            bound.map_err(|error| error.to_string())
        });
        self.serve(listener.await);
    }

    /// The API server ends.
    pub(crate) fn stop_serving(&self) {
        self.stop.cancel();
    }

    fn serve(&self, listener: TcpListener) {
        let (server, stopped) = (self.server.clone(), self.stop.clone().cancelled_owned());
        tokio::spawn(async move { server.serve(listener, stopped).await });
    }

    pub(crate) fn path(&self, file: &str) -> PathBuf {
        self.folder.path().join(file)
    }

    pub(crate) fn kubeconfig(&self) -> PathBuf {
        self.path("kubeconfig")
    }

    /// Copies a built guest into the directory under another name, renaming it into place.
    pub(crate) fn install(&self, guest: &str, name: &str) {
        self.write(name, &std::fs::read(component(guest)).unwrap());
    }

    /// Replaces a file atomically.
    pub(crate) fn write(&self, name: &str, bytes: &[u8]) {
        let aside = self.path("aside");
        std::fs::write(&aside, bytes).unwrap();
        std::fs::rename(aside, self.path(name)).unwrap();
    }

    /// Writes config.toml; `[admin]` is added.
    pub(crate) fn configure(&self, text: &str) -> PathBuf {
        self.write(
            "config.toml",
            format!("[admin]\nlisten = \"127.0.0.1:0\"\n{text}").as_bytes(),
        );
        self.path("config.toml")
    }

    /// Writes a certificate that is valid until that year as `tls.crt` and `tls.key`; returns it.
    pub(crate) fn issue_certificate(&self, until: i32) -> CertificateDer<'static> {
        let key = KeyPair::generate().unwrap();
        let mut about = CertificateParams::new(vec!["localhost".to_owned()]).unwrap();
        about.not_before = rcgen::date_time_ymd(2000, 1, 1);
        about.not_after = rcgen::date_time_ymd(until, 1, 1);
        let signed = about.self_signed(&key).unwrap();
        self.write("tls.key", key.serialize_pem().as_bytes());
        self.write("tls.crt", signed.pem().as_bytes());
        signed.der().clone()
    }

    /// A daemon with this configuration, in this process.
    pub(crate) async fn daemon(&self, text: &str) -> Running {
        self.configure(text);
        self.daemon_on_file().await
    }

    /// A daemon with the present config.toml, in this process.
    pub(crate) async fn daemon_on_file(&self) -> Running {
        let config = config_file::load(&self.path("config.toml")).unwrap_or_else(|problems| panic!("{problems}"));
        let flags = ClusterFlags {
            kubeconfig: Some(self.kubeconfig()),
            context: None,
        };
        let guests = tokio::runtime::Builder::new_multi_thread()
            .worker_threads(2)
            .enable_all()
            .build()
            .unwrap();
        let daemon = Daemon::start(DaemonOptions {
            compiler: Compiler::InProcess,
            access: ClusterAccess::new(&config, flags).await.unwrap(),
            config,
            admin_listen: None,
            health_listen: Some(SocketAddr::from(([127, 0, 0, 1], 0))),
            guests: guests.handle().clone(),
            cache_dir: artifacts(),
            routes: informant::routes,
            is_ready: informant::is_ready,
            activities: informant::Activities::default(),
            overrides: informant::ConfigOverrides::default(),
            observer: None,
        })
        .await
        .unwrap();
        Running {
            daemon: Some(daemon),
            guests: Some(guests),
        }
    }

    pub(crate) fn create_pod(&self, name: &str, image: &str) {
        self.server.create("v1/pods", "default", pod(name, image)).unwrap();
    }
}

impl Drop for World {
    fn drop(&mut self) {
        self.stop.cancel();
    }
}

/// A daemon that runs in this process.
pub(crate) struct Running {
    daemon: Option<Daemon>,
    guests: Option<Runtime>,
}

impl Running {
    pub(crate) fn address(&self) -> SocketAddr {
        self.daemon.as_ref().unwrap().admin_address()
    }

    pub(crate) fn health_address(&self) -> SocketAddr {
        self.daemon.as_ref().unwrap().health_address()
    }

    /// As on SIGHUP.
    pub(crate) fn reload(&self) {
        self.daemon.as_ref().unwrap().reload();
    }

    pub(crate) async fn get(&self, path: &str) -> (u16, String) {
        http_get(self.address(), path).await
    }

    pub(crate) async fn json(&self, path: &str) -> Value {
        let (status, body) = self.get(path).await;
        assert_eq!(status, 200, "{path}: {body}");
        serde_json::from_str(&body).unwrap()
    }

    /// The names of the objects that the admin API returns.
    pub(crate) async fn names(&self, path: &str) -> Vec<String> {
        let (status, body) = self.get(path).await;
        assert_eq!(status, 200, "{path}: {body}");
        let name = |line: &str| {
            let object: Value = serde_json::from_str(line).unwrap();
            object["metadata"]["name"].as_str().unwrap().to_owned()
        };
        body.lines().map(name).collect()
    }

    /// A metric, summed over the series whose labels contain all of `labels`.
    pub(crate) async fn metric(&self, name: &str, labels: &[&str]) -> f64 {
        let (_, text) = http_get(self.health_address(), "/metrics").await;
        let series = text.lines().filter_map(|line| line.rsplit_once(' '));
        let wanted = series.filter(|(series, _)| {
            let (found, with) = series.split_once('{').unwrap_or((series, ""));
            found == name && labels.iter().all(|label| with.contains(label))
        });
        wanted.map(|(_, value)| value.parse::<f64>().unwrap()).sum()
    }

    pub(crate) async fn wait_until_ready(&self) {
        until("readyz to be green", async || {
            let (status, text) = http_get(self.health_address(), "/readyz?verbose").await;
            if status == 200 { Ok(()) } else { Err(text) }
        })
        .await;
    }

    /// Waits until a metric has this value.
    pub(crate) async fn wait_for_metric(&self, name: &str, labels: &[&str], wanted: f64) {
        let what = format!("{name} {labels:?} to be {wanted}");
        let reached = until(&what, async || {
            let value = self.metric(name, labels).await;
            if value == wanted {
                Ok(())
            } else {
                Err(value.to_string())
            }
        });
        reached.await;
    }

    /// Waits until this many events of a kind have succeeded.
    pub(crate) async fn wait_for_events(&self, plugin: &str, event: &str, wanted: f64) {
        let labels = [
            format!("plugin=\"{plugin}\""),
            format!("event=\"{event}\""),
            "result=\"ok\"".to_owned(),
        ];
        let labels: Vec<_> = labels.iter().map(String::as_str).collect();
        self.wait_for_metric("informant_handler_events_total", &labels, wanted)
            .await;
    }

    pub(crate) async fn stop(mut self) -> informant::ShutdownReport {
        self.daemon.take().unwrap().stop(Duration::from_secs(10)).await
    }
}

impl Drop for Running {
    fn drop(&mut self) {
        if let Some(guests) = self.guests.take() {
            guests.shutdown_background();
        }
    }
}

/// Polls a condition until it holds.
pub(crate) async fn until<T>(what: &str, mut condition: impl AsyncFnMut() -> Result<T, String>) -> T {
    let begin = Instant::now();
    loop {
        match condition().await {
            Ok(value) => return value,
            Err(refusal) if begin.elapsed() > DEADLINE => panic!("waited for {what}; at the end: {refusal}"),
            Err(_) => tokio::time::sleep(Duration::from_millis(10)).await,
        }
    }
}

/// One GET on its own connection.
pub(crate) async fn http_get(address: SocketAddr, path: &str) -> (u16, String) {
    let accept = "application/openmetrics-text,application/json";
    exchange(
        address,
        &format!("GET {path} HTTP/1.0\r\nhost: localhost\r\naccept: {accept}\r\n\r\n"),
    )
    .await
}

/// HTTP/1.0, so that the body is neither chunked nor followed by another response.
pub(crate) async fn exchange(address: SocketAddr, request: &str) -> (u16, String) {
    let mut answer = Vec::new();
    let exchanged = async {
        let mut socket = TcpStream::connect(address).await.unwrap();
        socket.write_all(request.as_bytes()).await.unwrap();
        socket.read_to_end(&mut answer).await.unwrap();
    };
    let in_time = tokio::time::timeout(DEADLINE, exchanged).await.is_ok();
    assert!(in_time, "{address} does not answer: {request}");
    let answer = String::from_utf8(answer).unwrap();
    let (head, body) = answer.split_once("\r\n\r\n").unwrap();
    (head.split(' ').nth(1).unwrap().parse().unwrap(), body.to_owned())
}

/// A built guest: from `INFORMANT_GUESTS_DIR`, or from cargo's target directory.
pub(crate) fn component(guest: &str) -> PathBuf {
    built(&guest.replace('-', "_"), "cargo xtask guests")
}

/// The runner of Python scripts.
pub(crate) fn python_runner() -> PathBuf {
    built("informant-runner-python", "cargo xtask python-runner")
}

fn built(name: &str, command: &str) -> PathBuf {
    let folder = std::env::var_os("INFORMANT_GUESTS_DIR").map_or_else(
        || {
            let workspace = Path::new(env!("CARGO_MANIFEST_DIR")).join("../..");
            let target = std::env::var_os("CARGO_TARGET_DIR").map_or(workspace.join("target"), PathBuf::from);
            target.join("wasm32-wasip2/plugin")
        },
        PathBuf::from,
    );
    let path = folder.join(format!("{name}.wasm"));
    assert!(
        path.is_file(),
        "{} does not exist; run `{command}` first",
        path.display()
    );
    path
}

/// Compiled guests, shared by all tests, so that each is compiled once.
pub(crate) fn artifacts() -> PathBuf {
    Path::new(env!("CARGO_TARGET_TMPDIR")).join("artifacts")
}

pub(crate) fn pod(name: &str, image: &str) -> Value {
    json!({
        "apiVersion": "v1",
        "kind": "Pod",
        "metadata": { "name": name, "namespace": "default", "labels": { "app": name.split('-').next() } },
        "spec": { "nodeName": "node-1", "containers": [{ "name": "main", "image": image }] },
    })
}

fn kubeconfig(address: SocketAddr) -> String {
    json!({
        "apiVersion": "v1",
        "kind": "Config",
        "current-context": "test",
        "clusters": [{ "name": "test", "cluster": { "server": format!("http://{address}") } }],
        "contexts": [{ "name": "test", "context": { "cluster": "test", "user": "test" } }],
        "users": [{ "name": "test", "user": {} }],
    })
    .to_string()
}

/// One POST of a JSON document on its own connection.
pub(crate) async fn http_post(address: SocketAddr, path: &str, body: &str) -> (u16, String) {
    let length = body.len();
    let head = format!(
        "POST {path} HTTP/1.0\r\nhost: localhost\r\ncontent-type: application/json\r\n\
         content-length: {length}\r\n\r\n{body}"
    );
    exchange(address, &head).await
}
