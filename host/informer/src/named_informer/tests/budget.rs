//! The budget of one informer.

use super::*;

const MAX_BYTES: usize = 100 * 1_024;

fn with_budget(max_bytes: Option<usize>) -> InformerSpec {
    InformerSpec {
        cache_bytes_max: max_bytes,
        ..spec(&["a", "b"])
    }
}

/// Writes pods of some 5 KiB.
fn put_large(server: &ApiServer, namespace: &str, pods: usize) {
    for number in 0..pods {
        let pod = json!({
            "apiVersion": "v1", "kind": "Pod",
            "metadata": {"namespace": namespace, "name": format!("pod-{number:03}")},
            "spec": {"text": "x".repeat(5_000)},
        });
        server.put("v1/pods", namespace, pod).unwrap();
    }
}

/// The number of heads in each of the informer's sources.
fn heads(world: &World) -> Vec<usize> {
    let sources = world.informer.sources();
    sources.iter().map(|source| source.snapshot().heads()).collect()
}

#[tokio::test(start_paused = true)]
async fn an_informers_own_budget_is_that_of_all_its_sources() {
    let server = cluster();
    put_large(&server, "a", 12);
    put_large(&server, "b", 4);
    let world = World::start_as(&server, with_budget(Some(MAX_BYTES)));
    settle().await;
    assert_eq!(heads(&world), [0, 0]);
    put_large(&server, "b", 8);
    settle().await;
    assert_eq!(heads(&world), [12, 0], "the largest source is shed");
    world.informer.reconfigure(with_budget(None)).await.unwrap();
    pass(80).await;
    assert_eq!(heads(&world), [0, 0], "without a budget it returns");
    world.informer.reconfigure(with_budget(Some(MAX_BYTES))).await.unwrap();
    settle().await;
    assert_eq!(heads(&world), [12, 0], "a new budget applies at once");
}
