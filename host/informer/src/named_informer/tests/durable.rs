//! Sources that are kept, and hand over to each other: nothing overtakes what waits to be kept.

use super::*;
use crate::testing::gate::{Gates, Refusal};

fn kept(gates: &Arc<Gates>, namespaces: &[&str]) -> InformerSpec {
    InformerSpec {
        durable: Some(Arc::clone(gates) as Arc<dyn crate::KeepsSources>),
        ..spec(namespaces)
    }
}

#[tokio::test(start_paused = true)]
async fn a_source_takes_over_once_all_that_the_one_before_showed_was_told_and_nothing_is_told_before_it_is_kept() {
    let server = filled();
    let gates = Arc::new(Gates::default());
    let world = World::start_as(&server, kept(&gates, &[]));
    settle().await;
    assert_eq!(world.take().len(), 4);
    put(&server, "a/one", 2);
    settle().await;
    world.informer.reconfigure(kept(&gates, &["a", "b"])).await.unwrap();
    pass(5).await;
    assert_eq!(world.namespaces(), [None], "the update is still to be kept");
    gates.open(0);
    assert_eq!(world.namespaces(), [None]);
    settle().await;
    assert_eq!(world.take(), ["update a/one (watch)"]);
    assert_eq!(world.namespaces(), [Some("a".to_owned()), Some("b".to_owned())]);
    put(&server, "b/one", 2);
    pass(5).await;
    assert_eq!(world.take(), [""; 0], "nor does it leave before its heirs are there");
    gates.open(2);
    settle().await;
    assert_eq!(world.take(), ["update b/one (watch)"]);
    gates.open(1);
    settle().await;
    gates.open(0);
    pass(5).await;
    assert_eq!(world.take(), ["delete c/one (reconfigured)"]);
}

#[tokio::test(start_paused = true)]
async fn an_informer_that_cannot_be_kept_does_not_start_and_says_why() {
    let server = filled();
    let spec = InformerSpec {
        durable: Some(Arc::new(Refusal)),
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
        Some("informer pods: it cannot be kept: the disk is on fire")
    );
}
