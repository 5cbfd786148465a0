//! Durable sources and handoffs between them: nothing overtakes events that are not persisted yet.

use prometheus_client::registry::Registry;

use super::*;
use crate::HANDOFF_WAIT_SECONDS_MAX;
use crate::testing::manual_journal::{FailingStorage, ManualJournals};

fn durable_spec(journals: &Arc<ManualJournals>, namespaces: &[&str]) -> InformerSpec {
    InformerSpec {
        durable: Some(Arc::clone(journals) as Arc<dyn crate::DurableSources>),
        ..spec(namespaces)
    }
}

#[tokio::test(start_paused = true)]
async fn a_durable_handoff_waits_until_the_old_source_is_flushed() {
    let server = filled();
    let journals = Arc::new(ManualJournals::default());
    let world = World::start_as(&server, durable_spec(&journals, &[]));
    settle().await;
    assert_eq!(world.take().len(), 4);
    put(&server, "a/one", 2);
    settle().await;
    world
        .informer
        .reconfigure(durable_spec(&journals, &["a", "b"]))
        .await
        .unwrap();
    pass(5).await;
    assert_eq!(world.namespaces(), [None], "the update is still to be kept");
    journals.open(0);
    assert_eq!(world.namespaces(), [None]);
    settle().await;
    assert_eq!(world.take(), ["update a/one (watch)"]);
    assert_eq!(world.namespaces(), [Some("a".to_owned()), Some("b".to_owned())]);
    put(&server, "b/one", 2);
    pass(5).await;
    assert_eq!(world.take(), [""; 0], "nor does it leave before its targets are there");
    journals.open(2);
    settle().await;
    assert_eq!(world.take(), ["update b/one (watch)"]);
    journals.open(1);
    settle().await;
    journals.open(0);
    pass(5).await;
    assert_eq!(world.take(), ["delete c/one (reconfigured)"]);
}

#[tokio::test(start_paused = true)]
async fn an_informer_without_working_durable_storage_does_not_start() {
    let server = filled();
    let spec = InformerSpec {
        durable: Some(Arc::new(FailingStorage)),
        ..spec(&[])
    };
    let started = NamedInformer::start(
        spec,
        Client::new(server.service(), "default"),
        Arc::new(TokioEnvironment::current(3)),
        Catalog::new(),
        &InformerMetrics::default(),
    );
    let error = started.err().map(|error| error.to_string());
    assert_eq!(
        error.as_deref(),
        Some("informer pods: cannot open its durable storage: the disk is on fire")
    );
}

/// How many long waits were reported.
fn reported(registry: &Registry) -> String {
    let mut text = String::new();
    prometheus_client::encoding::text::encode(&mut text, registry).unwrap();
    let line = text.lines().find(|line| line.starts_with("hand_over_waits_total{"));
    line.and_then(|line| line.rsplit_once(' ')).unwrap().1.to_owned()
}

/// A synced informer whose handoff, with an update in the journal, waits for the disk.
async fn waiting(journals: &Arc<ManualJournals>, metrics: &InformerMetrics, server: &ApiServer) -> World {
    let world = World::start_counted(server, durable_spec(journals, &[]), metrics);
    settle().await;
    assert_eq!(world.take().len(), 4);
    put(server, "a/one", 2);
    settle().await;
    world
        .informer
        .reconfigure(durable_spec(journals, &["a", "b"]))
        .await
        .unwrap();
    world
}

#[tokio::test(start_paused = true)]
async fn a_handoff_blocked_on_disk_is_reported_and_loses_nothing() {
    let (server, journals) = (filled(), Arc::new(ManualJournals::default()));
    let mut registry = Registry::default();
    let metrics = InformerMetrics::register(&mut registry);
    let world = waiting(&journals, &metrics, &server).await;
    pass(HANDOFF_WAIT_SECONDS_MAX - 1).await;
    assert_eq!(reported(&registry), "0");
    pass(2).await;
    assert_eq!(reported(&registry), "1");
    put(&server, "b/one", 2);
    pass(60 * HANDOFF_WAIT_SECONDS_MAX).await;
    assert_eq!((reported(&registry).as_str(), world.take()), ("1", Vec::new()));
    assert_eq!(world.namespaces(), [None], "lookups keep using the old source");

    journals.open(0);
    settle().await;
    assert_eq!(world.take(), ["update a/one (watch)"]);
    assert_eq!(world.namespaces(), [Some("a".to_owned()), Some("b".to_owned())]);
    pass(HANDOFF_WAIT_SECONDS_MAX + 1).await;
    assert_eq!(reported(&registry), "2", "those that take over wait for the disk too");
    for place in [1, 2, 0] {
        journals.open(place);
        pass(1).await;
    }
    assert_eq!(
        world.take(),
        ["update b/one (reconfigured)", "delete c/one (reconfigured)"]
    );
    assert_eq!(reported(&registry), "2");
}

#[tokio::test(start_paused = true)]
async fn a_handoff_blocked_on_disk_does_not_delay_a_stop() {
    let (server, journals) = (filled(), Arc::new(ManualJournals::default()));
    let world = waiting(&journals, &InformerMetrics::default(), &server).await;
    pass(2 * HANDOFF_WAIT_SECONDS_MAX).await;
    let stopped = tokio::time::timeout(Duration::from_secs(10), world.informer.stop(Duration::from_secs(5)));
    assert!(stopped.await.is_ok());
}
