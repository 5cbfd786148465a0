//! For any writes: a list at any version and a watch from there end at the newest list.

use std::collections::BTreeMap;

use informant_apiserver::{ApiServer, Options};
use proptest::collection::vec;
use proptest::prelude::*;
use serde_json::{Value, json};

use crate::support::{Client, pod};

#[derive(Debug, Clone)]
enum Write {
    Put {
        namespace: usize,
        name: usize,
        label: usize,
    },
    Delete {
        namespace: usize,
        name: usize,
    },
    Other,
}

const NAMESPACES: [&str; 2] = ["default", "kube-system"];
const NAMES: [&str; 4] = ["a", "b", "b-c", "d"];

fn write() -> impl Strategy<Value = Write> {
    prop_oneof![
        5 => (0..2usize, 0..4usize, 0..3usize).prop_map(|(namespace, name, label)| Write::Put { namespace, name, label }),
        3 => (0..2usize, 0..4usize).prop_map(|(namespace, name)| Write::Delete { namespace, name }),
        1 => Just(Write::Other),
    ]
}

fn perform(server: &ApiServer, write: &Write) {
    match *write {
        Write::Put { namespace, name, label } => {
            server
                .put(
                    "v1/pods",
                    NAMESPACES[namespace],
                    pod(NAMES[name], json!({ "l": label.to_string() })),
                )
                .unwrap();
        }
        Write::Delete { namespace, name } => {
            let _ = server.delete("v1/pods", NAMESPACES[namespace], NAMES[name]);
        }
        Write::Other => {
            server
                .put(
                    "v1/configmaps",
                    "default",
                    json!({ "metadata": { "name": "m" }, "data": { "at": server.revision().to_string() } }),
                )
                .unwrap();
        }
    }
}

type Objects = BTreeMap<String, Value>;

fn key(object: &Value) -> String {
    format!(
        "{}/{}",
        object["metadata"]["namespace"].as_str().unwrap(),
        object["metadata"]["name"].as_str().unwrap()
    )
}

async fn list(client: &Client, path: &str, query: &str) -> Objects {
    let list = client.get(&format!("{path}?{query}")).await.json();
    list["items"]
        .as_array()
        .unwrap()
        .iter()
        .map(|item| (key(item), item.clone()))
        .collect()
}

/// Plays a watch onto a state, checking each step.
async fn play(client: &Client, path: &str, query: &str, mut state: Objects) -> Objects {
    let mut last = 0;
    for event in client
        .watch(&format!("{path}?watch=true&timeoutSeconds=1&{query}"))
        .await
        .all()
        .await
    {
        let mut object = event["object"].clone();
        let version: u64 = object["metadata"]["resourceVersion"].as_str().unwrap().parse().unwrap();
        assert!(version > last, "versions grow: {last}, {version}");
        last = version;
        // List items have no type, watch events have one.
        object
            .as_object_mut()
            .unwrap()
            .retain(|key, _| key != "kind" && key != "apiVersion");
        let key = key(&object);
        match event["type"].as_str().unwrap() {
            "ADDED" => assert!(state.insert(key, object).is_none(), "added twice"),
            "MODIFIED" => assert!(state.insert(key, object).is_some(), "modified before added"),
            "DELETED" => assert!(state.remove(&key).is_some(), "deleted before added"),
            other => panic!("{other}"),
        }
    }
    state
}

async fn check(writes: &[Write]) {
    let server = ApiServer::new(Options::default());
    let first = server.revision();
    for write in writes {
        perform(&server, write);
    }
    let client = Client::of(&server);
    for path in ["/api/v1/pods", "/api/v1/namespaces/default/pods"] {
        for selector in ["", "labelSelector=l!=1", "fieldSelector=metadata.name!=a"] {
            let newest = list(&client, path, selector).await;
            for revision in first..=server.revision() {
                let at = format!("{selector}&resourceVersion={revision}");
                let then = list(&client, path, &format!("{at}&resourceVersionMatch=Exact")).await;
                assert_eq!(play(&client, path, &at, then).await, newest, "{path} {at}");
            }
        }
    }
}

/// Pages together are the list, whatever is written between them.
async fn check_pages(before: &[Write], between: &[Write], limit: usize) {
    let server = ApiServer::new(Options::default());
    for write in before {
        perform(&server, write);
    }
    let client = Client::of(&server);
    let whole = client.get("/api/v1/pods").await.json();
    let mut items = Vec::new();
    let mut query = format!("limit={limit}");
    let mut writes = between.iter();
    loop {
        let page = client.get(&format!("/api/v1/pods?{query}")).await.json();
        assert_eq!(
            page["metadata"]["resourceVersion"],
            whole["metadata"]["resourceVersion"]
        );
        let found = page["items"].as_array().unwrap();
        items.extend(found.iter().cloned());
        let left = whole["items"].as_array().unwrap().len() - items.len();
        let Some(next) = page["metadata"]["continue"].as_str() else {
            assert_eq!(left, 0);
            break;
        };
        assert_eq!(
            (found.len(), &page["metadata"]["remainingItemCount"]),
            (limit, &json!(left))
        );
        query = format!("limit={limit}&continue={next}");
        if let Some(write) = writes.next() {
            perform(&server, write);
        }
    }
    assert_eq!(json!(items), whole["items"]);
}

fn run(future: impl Future<Output = ()>) {
    let runtime = tokio::runtime::Builder::new_current_thread()
        .enable_time()
        .start_paused(true)
        .build()
        .unwrap();
    runtime.block_on(future);
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 48, ..ProptestConfig::default() })]

    #[test]
    fn list_and_watch_from_any_version_reach_the_newest_list(writes in vec(write(), 0..20)) {
        run(check(&writes));
    }

    #[test]
    fn pages_are_one_list(before in vec(write(), 0..20), between in vec(write(), 0..8), limit in 1..4usize) {
        run(check_pages(&before, &between, limit));
    }
}
