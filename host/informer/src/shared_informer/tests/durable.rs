//! A durable source: how its loop uses the journal.

use std::sync::Arc;

use informant_apiserver::ApiServer;
use informant_cache::Journal;

use crate::DurableSource;
use crate::testing::manual_journal::ManualJournal;
use crate::testing::{Rig, RigOptions, api_server, by_list, pass, put, settle};
use crate::{InformerOptions, ReflectorOptions};

fn kept(journal: &Arc<ManualJournal>, high_water: Option<u64>) -> InformerOptions {
    InformerOptions {
        durable: Some(DurableSource::new(Arc::clone(journal) as Arc<dyn Journal>, high_water)),
        ..by_list(ReflectorOptions::default())
    }
}

fn start(server: &ApiServer, journal: &Arc<ManualJournal>, high_water: Option<u64>) -> Rig {
    let options = RigOptions {
        informer: kept(journal, high_water),
        ..RigOptions::default()
    };
    Rig::start_with(server, options)
}

#[tokio::test(start_paused = true)]
async fn durable_events_are_published_before_the_journal_delivers_them() {
    let server = api_server();
    put(&server, "a", 1);
    let journal = Arc::new(ManualJournal::default());
    let rig = start(&server, &journal, None);
    let recorder = rig.record();
    settle().await;
    assert_eq!(recorder.take().len(), 2, "the first list and its end");
    put(&server, "b", 1);
    settle().await;
    assert_eq!(rig.stored().len(), 2);
    assert_eq!(recorder.take(), [""; 0], "not persisted yet");
    journal.open();
    settle().await;
    assert_eq!(recorder.take().len(), 1);
    assert_eq!(
        journal.high_water(),
        rig.informer.snapshot().version().and_then(|version| version.number())
    );
}

#[tokio::test(start_paused = true)]
async fn a_stop_persists_and_delivers_events_in_flight() {
    let server = api_server();
    put(&server, "a", 1);
    let journal = Arc::new(ManualJournal::default());
    let rig = start(&server, &journal, None);
    let recorder = rig.record();
    settle().await;
    recorder.take();
    put(&server, "b", 1);
    settle().await;
    assert!(rig.informer.stop(std::time::Duration::from_secs(5)).await.is_clean());
    assert_eq!(recorder.take().len(), 1);
}

#[tokio::test(start_paused = true)]
async fn the_high_water_of_an_earlier_process_rejects_lagging_replicas() {
    let server = api_server();
    put(&server, "a", 1);
    let replica = server.replica();
    replica.freeze();
    put(&server, "b", 1);
    let journal = Arc::new(ManualJournal::default());
    let earlier = start(&server, &journal, None);
    settle().await;
    let high_water = journal.high_water();
    let truth = earlier.stored();
    drop(earlier);
    // The next process first reaches the replica, whose list is older than the stored version.
    let (lagging, current) = (replica.service(), server.service());
    let asked = std::sync::atomic::AtomicUsize::new(0);
    let service = tower::service_fn(move |request: http::Request<kube::client::Body>| {
        let first = asked.fetch_add(1, std::sync::atomic::Ordering::Relaxed) == 0;
        tower::ServiceExt::oneshot(if first { lagging.clone() } else { current.clone() }, request)
    });
    let journal = Arc::new(ManualJournal::default());
    let options = RigOptions {
        informer: kept(&journal, high_water),
        client: Some(kube::Client::new(service, "default").into()),
        ..RigOptions::default()
    };
    let rig = Rig::start_with(&server, options);
    let recorder = rig.record();
    pass(20).await;
    assert_eq!(rig.stored(), truth);
    assert_eq!(recorder.take().len(), 3, "both objects and the end of the list, once");
    assert_eq!(rig.informer.status().epoch, 0);
    assert!(!journal.was_restored());
}
