//! What a registration shows about its handler, and waiting for several.

use std::sync::Arc;
use std::time::Duration;

use informant_apiserver::Filter;
use informant_cache::listener::{ListenerOptions, RetryPolicy};
use informant_cache::{EventHandlerFuncs, HandlerError};

use crate::testing::{Rig, api_server, pass, put, settle};
use crate::{Registration, TokioEnvironment, wait_for_handler_sync};

fn two_attempts() -> ListenerOptions {
    let retry = RetryPolicy {
        attempts: 2,
        ..RetryPolicy::default()
    };
    ListenerOptions {
        retry,
        ..ListenerOptions::default()
    }
}

/// A handler that fails on objects called "bad".
fn failing(rig: &Rig, fail: fn() -> Result<(), HandlerError>) -> Registration {
    let handler = EventHandlerFuncs::new().on_add(move |object, _| match object.name() {
        "bad" => fail(),
        _ => Ok(()),
    });
    rig.informer
        .add_handler(Box::new(handler), two_attempts())
        .expect("the informer runs")
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
    let handler = EventHandlerFuncs::new().on_synced(move |_| {
        let _ = &bomb;
        Ok(())
    });
    let mut registration = rig
        .informer
        .add_handler(Box::new(handler), ListenerOptions::default())
        .unwrap();
    settle().await;
    rig.informer.remove_handler(&registration);
    registration.ended().await;
    assert!(registration.has_ended());
    let report = rig.informer.stop(Duration::from_secs(1)).await;
    assert!(report.is_clean(), "{report:?}");
}

#[tokio::test(start_paused = true)]
async fn waiting_for_handlers_reports_unsynced_ones_with_reasons() {
    let (up, down) = (api_server(), api_server());
    put(&up, "a", 1);
    down.faults()
        .delay(Filter::any().verb("list"), 10, Duration::from_secs(3_600));
    let (rig, late) = (Rig::start(&up), Rig::start(&down));
    let synced = rig.record().registration;
    let waiting = late.record().registration;
    let removed = late.record().registration;
    late.informer.remove_handler(&removed);
    let environment = Arc::new(TokioEnvironment::current(1));
    wait_for_handler_sync(&*environment, [&synced], Duration::from_secs(5))
        .await
        .unwrap();
    let error = wait_for_handler_sync(&*environment, [&synced, &waiting, &removed], Duration::from_secs(5)).await;
    insta::assert_snapshot!(error.unwrap_err(), @"not synced in time: handler 1, of informer pods (v1/pods), is waiting for its first list; handler 2, of informer pods (v1/pods), was removed");
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
