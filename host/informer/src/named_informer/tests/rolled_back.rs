//! A cluster that is rolled back while namespaces change.

use super::*;
use crate::testing::Replaceable;

#[tokio::test(start_paused = true)]
async fn new_sources_hold_nothing_of_a_lost_history() {
    let servers = Replaceable::new();
    for server in [&servers.old, &servers.new] {
        put_namespaces(server);
    }
    put(&servers.old, "a/kept", 1);
    put(&servers.old, "a/lost", 1);
    let in_b = Filter::any().namespace("b");
    servers.old.faults().forbid(in_b);
    let catalog = Catalog::new();
    let environment = Arc::new(TokioEnvironment::current(3));
    let metrics = InformerMetrics::default();
    let informer = NamedInformer::start(spec(&[]), servers.client(), environment, catalog.clone(), &metrics).unwrap();
    settle().await;
    informer.reconfigure(spec(&["a", "b"])).await.unwrap();
    settle().await;
    // The source of `a` has its first list, and sees nothing of `c`: its version stays below the restored one.
    for revision in 1..=30 {
        put(&servers.old, "c/one", revision);
    }
    put(&servers.new, "a/kept", 1);
    for revision in 1..=15 {
        put(&servers.new, "c/one", revision);
    }
    settle().await;
    servers.old.faults().restart(Duration::from_secs(20), false);
    pass(2).await;
    servers.replace();
    pass(60).await;
    put(&servers.new, "a/later", 1);
    put(&servers.new, "b/later", 1);
    pass(60).await;
    let sources = catalog.sources_of("pods");
    assert_eq!(sources.len(), 2);
    assert_eq!(found_in(&catalog), ["a/kept", "a/later", "b/later"]);
}

/// An event reaches only the outgoing source, after the new one had caught up, and the cluster is rolled back at once.
#[tokio::test(start_paused = true)]
async fn what_a_rollback_lost_during_a_handoff_is_deleted() {
    let servers = Replaceable::of(cluster(), cluster());
    for server in [&servers.old, &servers.new] {
        put_namespaces(server);
    }
    put(&servers.old, "a/lost", 1);
    put(&servers.old, "b/lost", 1);
    let world = World::start_with(servers.client(), spec(&[]), &InformerMetrics::default());
    settle().await;
    world.change(&["a", "b"]).await;
    let held = world.informer.0.reconfigure_lock.lock().await;
    settle().await;
    for namespace in ["a", "b"] {
        servers.old.faults().freeze_watches(&Filter::any().namespace(namespace));
    }
    put(&servers.old, "a/last", 1);
    settle().await;
    world.take();
    drop(held);
    settle().await;
    servers.old.faults().restart(Duration::from_secs(20), false);
    pass(2).await;
    servers.replace();
    pass(60).await;
    let expected = ["a/last", "a/lost", "b/lost"].map(|key| format!("delete {key} (reconfigured)"));
    assert_eq!(sorted(world.take()), expected);
    assert!(world.found().is_empty());
}
