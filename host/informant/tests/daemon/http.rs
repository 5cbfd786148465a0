//! HTTP requests of plugins, from the program to a server.

use std::net::SocketAddr;
use std::sync::{Arc, Mutex};

use serde_json::{Value, json};
use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};
use tokio::net::TcpListener;

use super::program::{Program, transcript};
use super::world::{World, http_get, until};

/// A server that answers `ok` and notes the heads of requests.
async fn server() -> (SocketAddr, Arc<Mutex<Vec<String>>>) {
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let address = listener.local_addr().unwrap();
    let seen: Arc<Mutex<Vec<String>>> = Arc::default();
    let noted = Arc::clone(&seen);
    tokio::spawn(async move {
        while let Ok((mut socket, _)) = listener.accept().await {
            let mut head = Vec::new();
            while !head.ends_with(b"\r\n\r\n") {
                let Ok(byte) = socket.read_u8().await else { break };
                head.push(byte);
            }
            noted.lock().unwrap().push(String::from_utf8_lossy(&head).into_owned());
            // The client may be gone.
            let _ = socket
                .write_all(b"HTTP/1.1 200 OK\r\ncontent-length: 2\r\n\r\nok")
                .await;
        }
    });
    (address, seen)
}

pub(crate) fn config(allow: &str) -> String {
    format!(
        "[informer.pods]\nresource = \"v1/pods\"\n\
         [plugin.caller]\ncomponent = \"http.wasm\"\ninformers = [\"pods\"]\nrequired = true\n{allow}\n"
    )
}

/// Creates a pod for which the plugin requests `url`. Returns what it logs.
pub(crate) async fn request(world: &World, program: &Program, name: &str, url: &str) -> Value {
    world.create_pod(name, "nginx");
    let spec = json!({ "spec": { "url": url, "headers": { "Authorization": "Bearer guest" } } });
    world.server.patch("v1/pods", "default", name, spec).unwrap();
    until(&format!("the request for {name}"), async || {
        let calls = program.lines().into_iter().filter_map(|line| {
            let call: Value = serde_json::from_str(line["fields"]["message"].as_str()?).ok()?;
            (call["guest"] == "http" && call["name"] == name && call["error"] != "Invalid").then_some(call)
        });
        let calls: Vec<Value> = calls.collect();
        calls.first().cloned().ok_or_else(|| format!("{calls:?}"))
    })
    .await
}

#[tokio::test(flavor = "multi_thread")]
async fn granted_requests_are_sent_with_headers_from_files() {
    let world = World::start().await;
    world.install("guest-http", "http.wasm");
    let (address, seen) = server().await;
    world.write("token", b"Bearer file\n");
    let url = format!("http://{address}/hooks/");
    let allow = format!("allow.http = [{{ url = \"{url}\", header-files = {{ Authorization = \"token\" }} }}]");
    let program = Program::run(&world, &config(&allow)).await;
    program.wait_until_ready().await;
    let granted = request(&world, &program, "a", &format!("{url}1")).await;
    assert_eq!((&granted["status"], &granted["text"]), (&json!(200), &json!("ok")));
    assert!(seen.lock().unwrap()[0].contains("authorization: Bearer file\r\n"));
    for (name, other) in [
        ("b", format!("http://{address}/other")),
        ("c", "http://localhost/".to_owned()),
    ] {
        assert_eq!(
            request(&world, &program, name, &other).await["error"],
            "Denied",
            "{other}"
        );
    }
    assert_eq!(seen.lock().unwrap().len(), 1);
    let (_, metrics) = http_get(program.address(), "/metrics").await;
    let counted =
        format!("informant_plugin_http_requests_total{{plugin=\"caller\",host=\"{address}\",result=\"2xx\"}} 1");
    assert!(metrics.contains(&counted), "{metrics}");
}

#[tokio::test(flavor = "multi_thread")]
async fn no_log_level_shows_the_path_of_a_request() {
    let world = World::start().await;
    world.install("guest-http", "http.wasm");
    let (address, seen) = server().await;
    world.write("token", b"Bearer from-file\n");
    let allow =
        format!("allow.http = [{{ url = \"http://{address}\", header-files = {{ Authorization = \"token\" }} }}]");
    let program = Program::run_in(&world, &config(&allow), &[("INFORMANT_LOG", "trace")]).await;
    program.wait_until_ready().await;
    let answered = request(&world, &program, "a", &format!("http://{address}/hooks/s3cret?q=pa55")).await;
    assert_eq!(answered["status"], 200);
    assert!(seen.lock().unwrap()[0].starts_with("GET /hooks/s3cret?q=pa55 "));
    for line in program.lines() {
        let line = line.to_string();
        assert!(
            !["s3cret", "pa55", "from-file"]
                .iter()
                .any(|secret| line.contains(secret)),
            "{line}"
        );
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn check_warns_of_grants_that_a_plugin_cannot_use() {
    let world = World::start().await;
    world.install("guest-no-op", "http.wasm");
    world.configure(&format!(
        "[state]\n{}",
        config("allow.http = [\"https://example.com\"]")
    ));
    let checked = transcript(&world, &["check", "--offline"]).await;
    assert!(
        checked.contains("does not import wasi:http/outgoing-handler"),
        "{checked}"
    );
    assert!(checked.contains("config.toml is valid"), "{checked}");
    world.install("guest-http", "http.wasm");
    let checked = transcript(&world, &["check", "--offline"]).await;
    assert!(!checked.contains("wasi:http"), "{checked}");
}
