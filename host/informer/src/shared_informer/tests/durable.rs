//! A source that is kept from one process to the next: what its loop does with the journal.

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
async fn handlers_are_told_when_the_journal_hands_on_and_readers_see_it_before() {
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
    assert_eq!(recorder.take(), [""; 0], "it is not kept yet");
    journal.open();
    settle().await;
    assert_eq!(recorder.take().len(), 1);
    assert_eq!(
        journal.seen(),
        rig.informer.snapshot().version().and_then(|version| version.number())
    );
}

#[tokio::test(start_paused = true)]
async fn what_is_on_its_way_at_a_stop_is_kept_and_told() {
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
async fn a_replica_that_lags_does_not_take_a_source_back_behind_what_an_earlier_process_had_seen() {
    let server = api_server();
    put(&server, "a", 1);
    let replica = server.replica();
    replica.freeze();
    put(&server, "b", 1);
    let journal = Arc::new(ManualJournal::default());
    let earlier = start(&server, &journal, None);
    settle().await;
    let high_water = journal.seen();
    let truth = earlier.stored();
    drop(earlier);
    // The next process asks the replica first, whose list is older than what is remembered.
    let (lagging, current) = (replica.service(), server.service());
    let asked = std::sync::atomic::AtomicUsize::new(0);
    let service = tower::service_fn(move |request: http::Request<kube::client::Body>| {
        let first = asked.fetch_add(1, std::sync::atomic::Ordering::Relaxed) == 0;
        tower::ServiceExt::oneshot(if first { lagging.clone() } else { current.clone() }, request)
    });
    let journal = Arc::new(ManualJournal::default());
    let options = RigOptions {
        informer: kept(&journal, high_water),
        client: Some(kube::Client::new(service, "default")),
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
