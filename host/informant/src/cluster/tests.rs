use std::sync::{Arc, Mutex};

use axum::Router;
use axum::extract::State;
use axum::http::{HeaderMap, StatusCode};
use tempfile::TempDir;
use tokio::net::TcpListener;

use super::*;
use crate::files::Turn;

/// An API server that accepts one token.
#[derive(Clone, Default)]
struct Server(Arc<Mutex<Tokens>>);

#[derive(Default)]
struct Tokens {
    accepted: String,
    refused: usize,
}

impl Server {
    async fn start(accepted: &str) -> (Self, String) {
        let server = Self::default();
        server.accept(accepted);
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let url = format!("http://{}", listener.local_addr().unwrap());
        let routes = Router::new().fallback(answer).with_state(server.clone());
        tokio::spawn(async move { axum::serve(listener, routes).await });
        (server, url)
    }

    fn accept(&self, token: &str) {
        self.0.lock().unwrap().accepted = format!("Bearer {token}");
    }

    fn refused(&self) -> usize {
        self.0.lock().unwrap().refused
    }
}

async fn answer(State(server): State<Server>, headers: HeaderMap) -> (StatusCode, String) {
    let mut tokens = server.0.lock().unwrap();
    let token = headers.get("authorization").and_then(|value| value.to_str().ok());
    if token == Some(&tokens.accepted) {
        return (StatusCode::OK, "{}".to_owned());
    }
    tokens.refused += 1;
    let status =
        json!({ "kind": "Status", "apiVersion": "v1", "status": "Failure", "reason": "Unauthorized", "code": 401 });
    (StatusCode::UNAUTHORIZED, status.to_string())
}

/// A cluster of a kubeconfig with this user.
fn section(folder: &TempDir, url: &str, user: &Value) -> ClusterSection {
    let path = folder.path().join("kubeconfig");
    let kubeconfig = json!({
        "apiVersion": "v1", "kind": "Config", "current-context": "test",
        "clusters": [{ "name": "test", "cluster": { "server": url } }],
        "contexts": [{ "name": "test", "context": { "cluster": "test", "user": "test" } }],
        "users": [{ "name": "test", "user": user }],
    });
    std::fs::write(&path, kubeconfig.to_string()).unwrap();
    ClusterSection {
        kubeconfig: Some(path),
        ..ClusterSection::default()
    }
}

async fn request(cluster: &Cluster) -> Result<String, String> {
    let request = http::Request::post("/api").body(b"{}".to_vec()).unwrap();
    let answer = cluster.client.request_text(request).await;
    answer.map_err(|error| error.to_string())
}

/// A login that counts its runs in a file, and prints the token in another.
fn exec(folder: &TempDir) -> Value {
    let path = folder.path().display();
    let script = format!(
        r#"echo run >> {path}/runs; echo '{{"kind":"ExecCredential","apiVersion":"client.authentication.k8s.io/v1"'; echo ',"status":{{"token":"'"$(cat {path}/token)"'"}}}}'"#
    );
    json!({ "exec": {
        "apiVersion": "client.authentication.k8s.io/v1", "command": "sh", "args": ["-c", script], "interactiveMode": "Never",
    } })
}

fn write(folder: &TempDir, file: &str, text: &str) {
    std::fs::write(folder.path().join(file), text).unwrap();
}

fn runs(folder: &TempDir) -> usize {
    let text = std::fs::read_to_string(folder.path().join("runs")).unwrap();
    text.lines().count()
}

#[tokio::test]
async fn token_file_with_trailing_newline_works() {
    let (server, url) = Server::start("first").await;
    let folder = tempfile::tempdir().unwrap();
    write(&folder, "token", "first\n");
    let cluster = Cluster::connect(&section(&folder, &url, &json!({ "tokenFile": "token" })))
        .await
        .unwrap();
    assert_eq!(request(&cluster).await.unwrap(), "{}");
    assert_eq!(server.refused(), 0);
}

#[tokio::test]
async fn renewed_token_file_is_used_after_the_first_401() {
    let (server, url) = Server::start("first").await;
    let folder = tempfile::tempdir().unwrap();
    write(&folder, "token", "first");
    let cluster = Cluster::connect(&section(&folder, &url, &json!({ "tokenFile": "token" })))
        .await
        .unwrap();
    assert_eq!(request(&cluster).await.unwrap(), "{}");
    server.accept("second");
    // Refused, and the same token again in the file: the answer of the API server is passed on.
    assert!(request(&cluster).await.unwrap_err().contains("Unauthorized"));
    assert_eq!(server.refused(), 1);
    write(&folder, "token", "second\n");
    assert_eq!(request(&cluster).await.unwrap(), "{}");
    assert_eq!(server.refused(), 2);
    // A file that is gone is no reason to stop using the token.
    std::fs::remove_file(folder.path().join("token")).unwrap();
    assert_eq!(request(&cluster).await.unwrap(), "{}");
}

#[tokio::test]
async fn token_file_without_a_token_is_refused() {
    let folder = tempfile::tempdir().unwrap();
    let pipe = folder.path().join("token");
    assert!(
        std::process::Command::new("mkfifo")
            .arg(&pipe)
            .status()
            .unwrap()
            .success()
    );
    let section = section(&folder, "http://127.0.0.1:1", &json!({ "tokenFile": "token" }));
    let error = Cluster::connect(&section).await.unwrap_err().to_string();
    assert!(error.contains("token: a named pipe, not a regular file"), "{error}");
    std::fs::remove_file(&pipe).unwrap();
    write(&folder, "token", " \n");
    let error = Cluster::connect(&section).await.unwrap_err().to_string();
    assert!(error.contains("token: empty"), "{error}");
    write(&folder, "token", "Bearer abc\n");
    let error = Cluster::connect(&section).await.unwrap_err().to_string();
    assert!(
        error.contains("it must contain the token alone, without `Bearer`"),
        "{error}"
    );
}

#[tokio::test(start_paused = true)]
async fn token_file_that_hangs_is_read_once_at_a_time() {
    let folder = tempfile::tempdir().unwrap();
    write(&folder, "token", "first");
    let section = section(&folder, "http://127.0.0.1:1", &json!({ "tokenFile": "token" }));
    let hanging = Turn::of(&folder.path().join("token")).hold().await;
    let error = Cluster::connect(&section).await.unwrap_err().to_string();
    assert!(error.contains("token: not read within 10 s"), "{error}");
    drop(hanging);
    Cluster::connect(&section).await.unwrap();
}

#[tokio::test(start_paused = true)]
async fn certificate_that_hangs_delays_no_other_client() {
    let url = "http://127.0.0.1:1";
    let (folder, other) = (tempfile::tempdir().unwrap(), tempfile::tempdir().unwrap());
    let user = |file: &str| json!({ "client-certificate": file, "client-key": "key" });
    let path = |file: &str| folder.path().join(file).display().to_string();
    let files = format!("{}\n{}", path("hangs"), path("key"));
    let hanging = Turn::of(Path::new(&files)).hold().await;
    let connect =
        async |section: &ClusterSection| tokio::time::timeout(Duration::from_secs(60), Cluster::connect(section)).await;
    let hung = section(&folder, url, &user("hangs"));
    assert!(connect(&hung).await.is_err(), "it is read a second time");
    // Another cluster section with the same address, and the same one after its kubeconfig was edited.
    let section_of_other = section(&other, url, &json!({ "token": "t" }));
    connect(&section_of_other).await.expect("it waits").unwrap();
    let edited = section(&folder, url, &user("good"));
    let error = connect(&edited).await.expect("it waits").unwrap_err();
    assert!(matches!(error, ClusterError::Client(_)), "{error}");
    drop(hanging);
}

#[tokio::test(start_paused = true)]
async fn certificate_authority_that_hangs_delays_no_other_path() {
    let folder = tempfile::tempdir().unwrap();
    let hanging = Turn::of(&folder.path().join("hangs")).hold().await;
    let connect = async |file: &str| {
        let section = section(&folder, "https://127.0.0.1:1", &json!({ "token": "t" }));
        let path = section.kubeconfig.as_ref().unwrap();
        let text = std::fs::read_to_string(path).unwrap();
        let authority = format!(r#""certificate-authority":"{file}","server""#);
        std::fs::write(path, text.replace(r#""server""#, &authority)).unwrap();
        tokio::time::timeout(Duration::from_secs(60), Cluster::connect(&section)).await
    };
    assert!(connect("hangs").await.is_err(), "it is read a second time");
    let error = connect("absent").await.expect("it waits").unwrap_err();
    assert!(matches!(error, ClusterError::Kubeconfig { .. }), "{error}");
    drop(hanging);
}

#[tokio::test]
async fn failed_login_is_marked_for_sources() {
    let (_, url) = Server::start("other").await;
    let folder = tempfile::tempdir().unwrap();
    write(
        &folder,
        "token",
        "first\",\"expirationTimestamp\":\"2020-01-01T00:00:00Z",
    );
    let cluster = Cluster::connect(&section(&folder, &url, &exec(&folder))).await.unwrap();
    std::fs::remove_file(folder.path().join("token")).unwrap();
    write(&folder, "token", "\",\"x\":\"");
    let request = http::Request::get("/readyz").body(kube::client::Body::empty()).unwrap();
    let error = cluster.client.send(request).await.unwrap_err();
    let kube::Error::Service(error) = error else {
        panic!("{error}")
    };
    assert!(error.is::<informant_informer::LoginFailed>(), "{error}");
    assert!(error.to_string().contains("login program `sh`"), "{error}");
}

#[tokio::test]
async fn kubeconfig_that_never_ends_is_refused() {
    let section = ClusterSection {
        kubeconfig: Some("/dev/zero".into()),
        ..ClusterSection::default()
    };
    let error = Cluster::connect(&section).await.unwrap_err().to_string();
    assert!(error.contains("a device, not a regular file"), "{error}");
}

#[tokio::test]
async fn login_program_runs_once_and_again_after_401() {
    let (server, url) = Server::start("first").await;
    let folder = tempfile::tempdir().unwrap();
    write(&folder, "token", "first");
    let cluster = Cluster::connect(&section(&folder, &url, &exec(&folder))).await.unwrap();
    assert_eq!(request(&cluster).await.unwrap(), "{}");
    assert_eq!(runs(&folder), 1);
    server.accept("second");
    write(&folder, "token", "second");
    // Not again at once: that would run it for each request while an account is locked.
    assert!(request(&cluster).await.is_err());
    assert_eq!(runs(&folder), 1);
    tokio::time::pause();
    tokio::time::advance(Duration::from_secs(11)).await;
    tokio::time::resume();
    let requests = futures::future::join_all((0..8).map(|_| request(&cluster))).await;
    assert!(requests.iter().all(Result::is_ok), "{requests:?}");
    assert_eq!(runs(&folder), 2);
}

#[tokio::test]
async fn expired_login_is_renewed_before_the_request() {
    let (server, url) = Server::start("second").await;
    let folder = tempfile::tempdir().unwrap();
    write(
        &folder,
        "token",
        "first\",\"expirationTimestamp\":\"2020-01-01T00:00:00Z",
    );
    let cluster = Cluster::connect(&section(&folder, &url, &exec(&folder))).await.unwrap();
    write(&folder, "token", "second");
    assert_eq!(request(&cluster).await.unwrap(), "{}");
    assert_eq!((runs(&folder), server.refused()), (2, 0));
}

#[tokio::test]
async fn sign_of_life_waits_for_no_login() {
    let (server, url) = Server::start("other").await;
    let folder = tempfile::tempdir().unwrap();
    write(
        &folder,
        "token",
        "first\",\"expirationTimestamp\":\"2020-01-01T00:00:00Z",
    );
    let cluster = Cluster::connect(&section(&folder, &url, &exec(&folder))).await.unwrap();
    let mut request = http::Request::get("/readyz").body(kube::client::Body::empty()).unwrap();
    request.extensions_mut().insert(informant_informer::WithoutLogin);
    let answer = cluster.client.send(request).await.unwrap();
    assert_eq!(answer.status(), StatusCode::UNAUTHORIZED);
    assert_eq!((runs(&folder), server.refused()), (1, 1));
}

#[tokio::test]
async fn reconnect_keeps_the_client_unless_the_kubeconfig_changed() {
    let (server, url) = Server::start("first").await;
    let folder = tempfile::tempdir().unwrap();
    write(&folder, "token", "first");
    let user = json!({ "tokenFile": "token" });
    let first = Arc::new(Cluster::connect(&section(&folder, &url, &user)).await.unwrap());
    server.accept("second");
    write(&folder, "token", "second");
    let same = Cluster::reconnect(&section(&folder, &url, &user), &first, None)
        .await
        .unwrap();
    assert!(Arc::ptr_eq(&first, &same));
    assert_eq!(request(&first).await.unwrap(), "{}");
    assert_eq!(server.refused(), 0, "the token was read again before the request");
    let other = section(&folder, &url, &json!({ "token": "second" }));
    let other = Cluster::reconnect(&other, &first, None).await.unwrap();
    assert!(!Arc::ptr_eq(&first, &other));
    assert_eq!(request(&other).await.unwrap(), "{}");
}
