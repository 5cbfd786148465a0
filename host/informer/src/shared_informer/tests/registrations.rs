//! What a registration shows about its handler, and waiting for several.

use std::sync::Arc;
use std::time::Duration;

use informant_cache::HandlerError;
use informant_cache::listener::{ListenerOptions, RetryOptions};

use crate::Registration;
use crate::testing::{CallOutcome, RecordingHandler, Rig, api_server, pass, put, settle};

fn two_attempts() -> ListenerOptions {
    let retry = RetryOptions {
        attempts: 2,
        ..RetryOptions::default()
    };
    ListenerOptions {
        retry,
        ..ListenerOptions::default()
    }
}

fn handler(rig: &Rig, options: ListenerOptions, fail: CallOutcome) -> Registration {
    let handler = RecordingHandler {
        lines: Arc::default(),
        fail: Some(fail),
    };
    rig.informer
        .add_handler(Box::new(handler), options)
        .expect("the informer runs")
}

/// A handler that fails on objects called "bad".
fn failing(rig: &Rig, fail: fn() -> Result<(), HandlerError>) -> Registration {
    let fail = move |line: &str| match line.starts_with("add bad ") {
        true => fail(),
        false => Ok(()),
    };
    handler(rig, two_attempts(), Box::new(fail))
}

/// client-go: TestEventPanics; there the registration is never synced (#129024).
#[tokio::test(start_paused = true)]
async fn a_panicking_handler_syncs_and_reports_its_panics() {
    let server = api_server();
    put(&server, "bad", 1);
    put(&server, "good", 1);
    let rig = Rig::start(&server);
    let registration = failing(&rig, || panic!("the test handler failed"));
    settle().await;
    let status = registration.status();
    assert!(status.synced && !status.ended);
    assert_eq!((status.panics, status.failing, status.dead_letters), (1, 1, 0));
    pass(30).await;
    let status = registration.status();
    assert_eq!(
        (status.panics, status.failing, status.dead_letters, status.pending),
        (2, 0, 1, 0)
    );
    assert!(
        registration.listener().ledger().dead_letters()[0]
            .error
            .contains("the test handler failed")
    );
    // Informer and handler continue.
    put(&server, "another", 1);
    settle().await;
    assert_eq!(rig.informer.snapshot().len(), 3);
    assert_eq!(
        registration.listener().control().stats().counters.ok,
        3,
        "good, synced, another"
    );
}

#[tokio::test(start_paused = true)]
async fn a_permanently_failing_handler_syncs_and_reports_its_failure() {
    let server = api_server();
    put(&server, "bad", 1);
    let rig = Rig::start(&server);
    let registration = failing(&rig, || Err(HandlerError::Permanent("no".to_owned())));
    settle().await;
    let status = registration.status();
    assert_eq!((status.synced, status.dead_letters, status.panics), (true, 1, 0));
}

/// A panic while the handler is dropped ends its task early.
#[tokio::test(start_paused = true)]
async fn a_handler_whose_task_died_counts_as_ended() {
    struct Bomb;
    impl Drop for Bomb {
        fn drop(&mut self) {
            panic!("on its way out");
        }
    }
    let server = api_server();
    let rig = Rig::start(&server);
    let bomb = Bomb;
    let fail = move |_: &str| {
        let _ = &bomb;
        Ok(())
    };
    let mut registration = handler(&rig, ListenerOptions::default(), Box::new(fail));
    settle().await;
    rig.informer.remove_handler(&registration);
    registration.ended().await;
    assert!(registration.has_ended());
    let report = rig.informer.stop(Duration::from_secs(1)).await;
    assert!(report.is_clean(), "{report:?}");
}

#[tokio::test(start_paused = true)]
async fn handlers_can_be_added_and_removed_at_any_time() {
    let server = api_server();
    (0..20).for_each(|number| put(&server, &format!("pod-{number}"), 0));
    let rig = Rig::start(&server);
    let kept = rig.record();
    let mut registrations = Vec::new();
    for round in 1..=50 {
        put(&server, &format!("pod-{}", round % 20), round);
        registrations.push(rig.record().registration);
        if round % 3 == 0 {
            rig.informer
                .remove_handler(&registrations.swap_remove(round as usize % registrations.len()));
        }
        tokio::task::yield_now().await;
    }
    settle().await;
    assert!(registrations.iter().all(Registration::has_synced));
    registrations
        .iter()
        .for_each(|registration| rig.informer.remove_handler(registration));
    for mut registration in registrations {
        registration.ended().await;
    }
    put(&server, "pod-0", 99);
    settle().await;
    assert!(kept.take().last().unwrap().ends_with("->99"));
    assert!(rig.informer.stop(Duration::from_secs(1)).await.is_clean());
}
