//! A hand-over while the disk that sources are kept on does not answer.

use prometheus_client::registry::Registry;

use super::*;
use crate::HAND_OVER_WAIT_SECONDS_MAX;
use crate::testing::gate::Gates;

fn kept(gates: &Arc<Gates>, namespaces: &[&str]) -> InformerSpec {
    InformerSpec {
        durable: Some(Arc::clone(gates) as Arc<dyn crate::KeepsSources>),
        ..spec(namespaces)
    }
}

/// How many waits were reported.
fn reported(registry: &Registry) -> String {
    let mut text = String::new();
    prometheus_client::encoding::text::encode(&mut text, registry).unwrap();
    let line = text.lines().find(|line| line.starts_with("hand_over_waits_total{"));
    line.and_then(|line| line.rsplit_once(' ')).unwrap().1.to_owned()
}

/// One that was told everything, and waits for the disk with an update as its namespaces change.
async fn waiting(gates: &Arc<Gates>, metrics: &InformerMetrics, server: &ApiServer) -> World {
    let world = World::start_counted(server, kept(gates, &[]), metrics);
    settle().await;
    assert_eq!(world.take().len(), 4);
    put(server, "a/one", 2);
    settle().await;
    world.informer.reconfigure(kept(gates, &["a", "b"])).await.unwrap();
    world
}

#[tokio::test(start_paused = true)]
async fn a_hand_over_that_waits_long_for_the_disk_is_reported_and_goes_on_with_nothing_lost_or_out_of_order() {
    let (server, gates) = (filled(), Arc::new(Gates::default()));
    let mut registry = Registry::default();
    let metrics = InformerMetrics::register(&mut registry);
    let world = waiting(&gates, &metrics, &server).await;
    pass(HAND_OVER_WAIT_SECONDS_MAX - 1).await;
    assert_eq!(reported(&registry), "0");
    pass(2).await;
    assert_eq!(reported(&registry), "1");
    put(&server, "b/one", 2);
    pass(60 * HAND_OVER_WAIT_SECONDS_MAX).await;
    assert_eq!((reported(&registry).as_str(), world.take()), ("1", Vec::new()));
    assert_eq!(world.namespaces(), [None], "readers go on with the old source");

    gates.open(0);
    settle().await;
    assert_eq!(world.take(), ["update a/one (watch)"]);
    assert_eq!(world.namespaces(), [Some("a".to_owned()), Some("b".to_owned())]);
    pass(HAND_OVER_WAIT_SECONDS_MAX + 1).await;
    assert_eq!(reported(&registry), "2", "those that take over wait for the disk too");
    for place in [1, 2, 0] {
        gates.open(place);
        pass(1).await;
    }
    assert_eq!(
        world.take(),
        ["update b/one (reconfigured)", "delete c/one (reconfigured)"]
    );
    assert_eq!(reported(&registry), "2");
}

#[tokio::test(start_paused = true)]
async fn a_hand_over_that_waits_for_the_disk_does_not_hold_up_a_stop() {
    let (server, gates) = (filled(), Arc::new(Gates::default()));
    let world = waiting(&gates, &InformerMetrics::default(), &server).await;
    pass(2 * HAND_OVER_WAIT_SECONDS_MAX).await;
    let stopped = tokio::time::timeout(Duration::from_secs(10), world.informer.stop(Duration::from_secs(5)));
    assert!(stopped.await.is_ok());
}
