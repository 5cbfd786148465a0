//! The examples run on the embedded API server, and `docs/coming-from-client-go.md` shows them as they are.

#![expect(clippy::unwrap_used, reason = "tests fail by panicking")]

#[expect(dead_code, reason = "its main function needs a cluster")]
#[path = "../examples/controller.rs"]
mod controller;
#[expect(dead_code, reason = "its main function needs a cluster")]
#[path = "../examples/own_source.rs"]
mod own_source;
#[expect(dead_code, reason = "its main function needs a cluster")]
#[path = "../examples/restarts.rs"]
mod restarts;

use std::sync::{Arc, Mutex};
use std::time::{Duration, Instant};

use informant_apiserver::{ApiServer, Ending, Filter, Options};
use kube::Client;
use serde_json::json;

/// How long a condition may take before a test reports a hang.
const DEADLINE: Duration = Duration::from_secs(30);

fn server() -> (ApiServer, Client) {
    let server = ApiServer::new(Options::default());
    let client = Client::new(server.service(), "default");
    (server, client)
}

fn put(server: &ApiServer, name: &str, restarts: u32) {
    let pod = json!({
        "apiVersion": "v1", "kind": "Pod", "metadata": {"namespace": "default", "name": name},
        "status": {"containerStatuses": [{"name": "main", "restartCount": restarts}]},
    });
    server.put("v1/pods", "default", pod).unwrap();
}

#[derive(Clone, Default)]
struct Lines(Arc<Mutex<Vec<String>>>);

impl Lines {
    fn push(&self, line: String) {
        self.0.lock().unwrap().push(line);
    }

    /// Waits for `line`.
    async fn until(&self, line: &str) {
        let began = Instant::now();
        while !self.0.lock().unwrap().iter().any(|known| known == line) {
            assert!(
                began.elapsed() < DEADLINE,
                "no line {line:?} in {:?}",
                self.0.lock().unwrap()
            );
            tokio::time::sleep(Duration::from_millis(1)).await;
        }
    }

    fn take(&self) -> Vec<String> {
        std::mem::take(&mut *self.0.lock().unwrap())
    }
}

#[tokio::test]
async fn restarts_are_printed_and_nothing_else() {
    let (server, client) = server();
    put(&server, "a", 1);
    let lines = Lines::default();
    let printed = lines.clone();
    let informer = restarts::watch_restarts(client, move |line| printed.push(line))
        .await
        .unwrap();
    put(&server, "a", 1);
    put(&server, "b", 3);
    put(&server, "a", 2);
    lines.until("default/a restarted").await;
    assert_eq!(lines.take(), ["default/a restarted"]);
    assert!(informer.stop(DEADLINE).await.is_clean());
}

#[tokio::test]
async fn controller_reconciles_the_cache_and_retries() {
    let (server, client) = server();
    put(&server, "a", 0);
    let controller = controller::Controller::start(client).await.unwrap();
    let lines = Lines::default();
    let printed = lines.clone();
    let mut failures = 2;
    let worker = controller.spawn_worker(move |key, pod| {
        let state = if pod.is_some() { "exists" } else { "is gone" };
        printed.push(format!("{key} {state}"));
        match key.name() {
            "b" if failures > 0 => {
                failures -= 1;
                Err("not yet".to_owned())
            }
            _ => Ok(()),
        }
    });
    lines.until("default/a exists").await;
    put(&server, "b", 0);
    let began = Instant::now();
    while lines
        .0
        .lock()
        .unwrap()
        .iter()
        .filter(|line| *line == "default/b exists")
        .count()
        < 3
    {
        assert!(began.elapsed() < DEADLINE);
        tokio::time::sleep(Duration::from_millis(1)).await;
    }
    server.delete("v1/pods", "default", "a").unwrap();
    lines.until("default/a is gone").await;
    assert!(controller.stop().await.is_clean());
    worker.join().unwrap();
}

#[tokio::test]
async fn own_source_delivers_changes_also_of_an_outage() {
    let (server, client) = server();
    put(&server, "a", 0);
    put(&server, "b", 0);
    let lines = Lines::default();
    let printed = lines.clone();
    let informer = own_source::follow(client, move |line| printed.push(line)).unwrap();
    lines.until("add default/b").await;
    put(&server, "a", 1);
    lines.until("update default/a").await;
    server.delete("v1/pods", "default", "a").unwrap();
    lines.until("delete default/a").await;
    assert_eq!(informer.store().len(), 1);
    server.faults().drop_watches(&Filter::any(), Ending::Expired);
    server.delete("v1/pods", "default", "b").unwrap();
    put(&server, "c", 0);
    lines.until("delete default/b while the watch was down").await;
    lines.until("add default/c").await;
    informer.stop().await;
}

/// The text without whitespace and trailing commas, in which the page and the source differ.
fn normalized(text: &str) -> String {
    text.split_whitespace().collect::<String>().replace(",)", ")")
}

#[test]
fn page_shows_the_examples_as_they_are() {
    let page = include_str!("../../../docs/coming-from-client-go.md");
    let examples = [
        include_str!("../examples/controller.rs"),
        include_str!("../examples/own_source.rs"),
        include_str!("../examples/restarts.rs"),
    ]
    .map(normalized);
    let blocks = page.split("```rust\n").skip(1);
    let blocks: Vec<&str> = blocks.filter_map(|rest| Some(rest.split_once("```")?.0)).collect();
    for example in &examples {
        let shown = blocks.iter().any(|block| example.contains(&normalized(block)));
        assert!(shown, "the page does not show this example:\n{example}");
    }
    for block in blocks {
        let wanted = normalized(block);
        let is_shown = examples.iter().any(|example| example.contains(&wanted));
        assert!(is_shown, "this block of the page is in no example:\n{block}");
    }
}
