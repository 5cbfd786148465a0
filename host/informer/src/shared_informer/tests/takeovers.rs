//! Two processes watch one API server, and one of them calls a handler.

use std::sync::Arc;
use std::time::Duration;

use informant_apiserver::{ApiServer, Ending, Filter};
use informant_cache::listener::{
    Beginning, Delivery, DeliveryOutcome, ListenerOptions, NextDelivery, Notification, Takeover,
};
use informant_cache::{Environment as _, ListenerHandle};

use crate::testing::manual_journal::ManualJournal;
use crate::testing::{Replaceable, Rig, RigOptions, api_server, delete, pass, put, settle};
use crate::{DurableSource, InformerOptions, TokioEnvironment};

/// A process with a handler.
struct Process {
    rig: Rig,
    listener: ListenerHandle,
    environment: TokioEnvironment,
}

impl Process {
    fn start(server: &ApiServer) -> Self {
        Self::start_with(server, RigOptions::default())
    }

    fn start_with(server: &ApiServer, options: RigOptions) -> Self {
        let environment = TokioEnvironment::current(1);
        let rig = Rig::start_with(server, options);
        let listener = ListenerHandle::new(ListenerOptions::default());
        Self {
            rig,
            listener,
            environment,
        }
    }

    /// A process that keeps the deletes of the last ten minutes.
    fn standby(server: &ApiServer) -> Self {
        let process = Self::start(server);
        process.keep_deletes();
        process
    }

    fn keep_deletes(&self) {
        let now = self.environment.now();
        self.rig
            .catalog
            .kept_deletes()
            .keep(Some(Duration::from_secs(600)), now);
    }

    fn begin(&self, beginning: Beginning) {
        let added = self.rig.informer.begin_listener(self.listener.clone(), beginning);
        added.expect("the informer runs");
    }

    fn take_over(&self, watermark: Option<u64>, all_objects: bool) {
        self.begin(Beginning::Takeover(Takeover { watermark, all_objects }, None));
    }

    fn watermark(&self) -> Option<u64> {
        self.listener.ledger().watermark(self.rig.informer.source())
    }

    /// Accepts what is pending.
    fn drain(&self) -> Vec<String> {
        let mut lines = Vec::new();
        while let NextDelivery::Deliver(delivery) = self.listener.consumer().next(self.environment.now()) {
            lines.push(line_of(&delivery));
            let now = self.environment.now();
            self.listener.consumer().done(delivery.token, DeliveryOutcome::Ok, now);
        }
        lines
    }
}

/// `add a (takeover)`.
fn line_of(delivery: &Delivery) -> String {
    let what = match &delivery.notification {
        Notification::Add(_) => "add",
        Notification::Update { .. } => "update",
        Notification::Delete {
            final_state_unknown: true,
            ..
        } => "delete unknown",
        Notification::Delete { .. } => "delete",
        Notification::Synced => return format!("synced ({})", delivery.reason),
        Notification::Tick(_) => "tick",
    };
    let name = delivery.key().map_or("", |key| key.name);
    format!("{what} {name} ({})", delivery.reason)
}

fn three_pods() -> ApiServer {
    let server = api_server();
    ["a", "b", "c"].into_iter().for_each(|name| put(&server, name, 1));
    server
}

#[tokio::test(start_paused = true)]
async fn a_takeover_delivers_kept_deletes_and_each_object_once() {
    let server = three_pods();
    let (holder, standby) = (Process::start(&server), Process::standby(&server));
    holder.begin(Beginning::Start);
    settle().await;
    assert_eq!(holder.drain().len(), 4);
    let watermark = holder.watermark();
    assert!(watermark.is_some());
    delete(&server, "a");
    put(&server, "b", 2);
    settle().await;
    standby.take_over(watermark, true);
    settle().await;
    assert_eq!(
        standby.drain(),
        [
            "delete a (takeover)",
            "add b (takeover)",
            "add c (takeover)",
            "synced (takeover)"
        ]
    );
    put(&server, "b", 3);
    settle().await;
    assert_eq!(standby.drain(), ["update b (watch)"]);
}

#[tokio::test(start_paused = true)]
async fn a_takeover_with_watermark_delivers_only_what_is_newer() {
    let server = three_pods();
    let (holder, standby) = (Process::start(&server), Process::standby(&server));
    holder.begin(Beginning::Start);
    settle().await;
    holder.drain();
    delete(&server, "a");
    settle().await;
    assert_eq!(holder.drain(), ["delete a (watch)"]);
    let watermark = holder.watermark();
    put(&server, "d", 1);
    delete(&server, "c");
    settle().await;
    assert_eq!(holder.watermark(), watermark, "both are pending");
    holder.rig.informer.hand_over(&holder.listener).await;
    settle().await;
    let counters = holder.listener.control().stats().counters;
    assert_eq!((counters.discarded, counters.handed_over), (0, 2));
    standby.take_over(watermark, false);
    settle().await;
    let expected = ["delete c (takeover)", "add d (takeover)", "synced (takeover)"];
    assert_eq!(standby.drain(), expected);
    // Back again, without a restart.
    let watermark = standby.watermark();
    holder.keep_deletes();
    delete(&server, "d");
    settle().await;
    holder.take_over(watermark, false);
    settle().await;
    assert_eq!(holder.drain(), ["delete d (takeover)", "synced (takeover)"]);
}

#[tokio::test(start_paused = true)]
async fn deletes_that_a_relist_finds_are_kept_as_unknown() {
    let server = three_pods();
    let standby = Process::standby(&server);
    settle().await;
    server.faults().drop_watches(&Filter::any(), Ending::Reset);
    delete(&server, "a");
    delete(&server, "b");
    put(&server, "b", 2);
    server.faults().compact();
    pass(60).await;
    assert_eq!(standby.rig.stored(), standby.rig.truth());
    let list = standby.rig.informer.snapshot().complete_through();
    let kept = standby.rig.catalog.kept_deletes().of(standby.rig.informer.source());
    assert!(kept.iter().all(|delete| delete.final_state_unknown), "{kept:?}");
    assert!(
        kept.iter()
            .all(|delete| delete.gone_by.is_some() && delete.gone_by <= list),
        "{kept:?}"
    );
    standby.take_over(None, false);
    settle().await;
    let expected = [
        "delete unknown a (takeover)",
        "delete unknown b (takeover)",
        "add b (takeover)",
        "add c (takeover)",
        "synced (takeover)",
    ];
    assert_eq!(standby.drain(), expected);
    assert_eq!(standby.watermark(), list);
}

#[tokio::test(start_paused = true)]
async fn a_takeover_before_the_first_list_begins_with_it() {
    let server = three_pods();
    let standby = Process::standby(&server);
    standby.take_over(None, true);
    settle().await;
    assert_eq!(standby.drain()[0], "add a (takeover)");
    standby.rig.informer.hand_over(&standby.listener).await;
    settle().await;
    assert!(!standby.listener.feed().is_attached(standby.rig.informer.source()));
}

#[tokio::test(start_paused = true)]
async fn a_rolled_back_source_ignores_the_watermark() {
    let replaceable = Replaceable::new();
    let options = RigOptions {
        client: Some(replaceable.client().into()),
        ..RigOptions::default()
    };
    let standby = Process::start_with(&replaceable.old, options);
    standby.keep_deletes();
    settle().await;
    replaceable.replace();
    replaceable.old.faults().drop_watches(&Filter::any(), Ending::Reset);
    pass(120).await;
    assert_eq!(standby.rig.names(), ["c"], "the cluster was restored");
    standby.take_over(Some(1_000_000), false);
    settle().await;
    let expected = [
        "delete unknown a (takeover)",
        "delete unknown b (takeover)",
        "delete unknown c (takeover)",
        "add c (takeover)",
        "synced (takeover)",
    ];
    assert_eq!(standby.drain(), expected);
}

#[tokio::test(start_paused = true)]
async fn a_stopped_source_keeps_no_deletes() {
    let server = three_pods();
    let standby = Process::standby(&server);
    settle().await;
    delete(&server, "a");
    settle().await;
    assert_eq!(standby.rig.catalog.kept_deletes().stats().deletes, 1);
    let _ = standby.rig.informer.stop(Duration::from_secs(1)).await;
    settle().await;
    assert_eq!(standby.rig.catalog.kept_deletes().stats().deletes, 0);
}

#[tokio::test(start_paused = true)]
async fn a_durable_source_begins_with_the_takeover_too() {
    let server = three_pods();
    let journal = Arc::new(ManualJournal::default());
    let options = RigOptions {
        informer: InformerOptions {
            durable: Some(DurableSource::new(journal.clone(), None)),
            ..RigOptions::default().informer
        },
        ..RigOptions::default()
    };
    let standby = Process::start_with(&server, options);
    standby.keep_deletes();
    settle().await;
    delete(&server, "a");
    settle().await;
    journal.open();
    standby.take_over(None, true);
    settle().await;
    assert_eq!(standby.drain()[..2], ["delete a (takeover)", "add b (takeover)"]);
    standby.rig.informer.hand_over(&standby.listener).await;
    settle().await;
    assert_eq!(standby.listener.control().stats().sources, 0);
}
