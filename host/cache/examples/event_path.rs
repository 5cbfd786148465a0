//! Measures the cost of an event without network, runtimes and WebAssembly: `cargo run --release -p informant-cache
//! --example event_path`.
//!
//! Prints microseconds per 5.4 KB pod on one thread for each stage: frames to objects, DeltaFIFO, store with one index,
//! listener, payload. Arguments: the number of pods, the number of events.

#![expect(clippy::print_stdout, reason = "it prints its results")]

use std::hint::black_box;
use std::time::Instant;

use bytes::Bytes;
use informant_cache::listener::{
    ChangeKind, DeliveryOutcome, LaneSet, ListenerOptions, NextBatch, Notification, ObjectChange,
};
use informant_cache::{
    Batch, Catalog, DeltaFifo, DeltaFifoOptions, ListenerHandle, Moment, PointerIndex, Reason, SourceInfo, StoreWriter,
};
use informant_object::frames::{Line, LineSplitter, ListObject, ListSplitter, WATCH_LINE_BYTES_MAX, WatchLine};
use informant_object::{Payload, Pointer, ResourceVersion, Shape, SourceId};

// As in the daemon.
#[global_allocator]
static ALLOCATOR: mimalloc::MiMalloc = mimalloc::MiMalloc;

const FRAME_BYTES: usize = 58_000;
const BATCH_DELTAS_MAX: usize = 256;

struct EventPath {
    source: SourceId,
    fifo: DeltaFifo,
    store: StoreWriter,
    listener: ListenerHandle,
    payload: Payload,
    batch: Batch,
    changes: Vec<ObjectChange>,
    document: Vec<u8>,
    took: [f64; STAGES.len()],
}

const STAGES: [&str; 6] = [
    "frames to objects",
    "fifo",
    "store",
    "publish",
    "listener",
    "payload and old objects freed",
];

fn main() {
    let mut args = std::env::args().skip(1).filter_map(|arg| arg.parse::<u64>().ok());
    let (pods, events) = (args.next().unwrap_or(20_000), args.next().unwrap_or(60_000));
    let mut path = EventPath::new();
    path.sync(pods);
    path.report("sync", pods);
    let rounds = events / 30;
    for round in 0..rounds {
        path.events(pods, round * 30);
    }
    path.report("events", rounds * 30);
}

impl EventPath {
    fn new() -> EventPath {
        let catalog = Catalog::new();
        let source = catalog.add_source(SourceInfo {
            informer: "pods".to_owned(),
            cluster: String::new(),
            api_version: "v1".to_owned(),
            kind: "Pod".to_owned(),
            resource: "v1/pods".to_owned(),
            namespace: None,
            namespaced: true,
            partial: false,
        });
        let mut store = StoreWriter::publishing_to(&catalog, source).expect("it was just added");
        let node = PointerIndex::new("node", pointer("/spec/nodeName"));
        store.add_indexers(vec![Box::new(node)]).expect("one name");
        let fields = [
            "/spec/nodeName",
            "/status/phase",
            "/status/containerStatuses/*/name",
            "/status/containerStatuses/*/ready",
            "/status/containerStatuses/*/restartCount",
        ];
        EventPath {
            source,
            fifo: DeltaFifo::new(DeltaFifoOptions::default()),
            store,
            listener: ListenerHandle::new(ListenerOptions::default()),
            payload: Payload::fields(&fields.map(pointer)),
            batch: Batch::new(),
            changes: Vec::new(),
            document: Vec::new(),
            took: [0.0; STAGES.len()],
        }
    }

    fn report(&mut self, what: &str, count: u64) {
        println!(
            "{what}: {:.3} us each, of which",
            self.took.iter().sum::<f64>() * 1e6 / count as f64
        );
        for (stage, took) in STAGES.iter().zip(std::mem::take(&mut self.took)) {
            println!("{:8.3}  {stage}", took * 1e6 / count as f64);
        }
        let resident = std::fs::read_to_string("/proc/self/status").unwrap_or_default();
        let resident = resident
            .lines()
            .find(|line| line.starts_with("VmRSS"))
            .unwrap_or_default();
        println!("{resident}");
    }

    /// Does one stage's work and notes how long it took.
    fn stage<T>(&mut self, stage: usize, work: impl FnOnce(&mut EventPath) -> T) -> T {
        let began = Instant::now();
        let result = work(self);
        self.took[stage] += began.elapsed().as_secs_f64();
        result
    }

    fn sync(&mut self, pods: u64) {
        let shape = Shape::of("v1", "Pod");
        let mut splitter = ListSplitter::new(WATCH_LINE_BYTES_MAX);
        let mut objects = Vec::new();
        splitter.push(Bytes::from_static(br#"{"kind":"PodList","items":["#));
        for first in (0..pods).step_by(10) {
            let frame: Bytes = (first..pods.min(first + 10))
                .flat_map(|number| item(number, pods))
                .collect();
            self.stage(0, |_| {
                splitter.push(frame);
                while let Ok(Some(ListObject::Object(object))) = splitter.next_object(&shape, |_| true) {
                    objects.push(object);
                }
            });
        }
        assert_eq!(objects.len() as u64, pods);
        let version = ResourceVersion::new(&pods.to_string());
        self.stage(1, |path| {
            path.fifo
                .replace(objects, &version, &path.store, Reason::Initial, Moment::ZERO)
        });
        while !self.fifo.is_empty() {
            self.write();
        }
        self.changes.clear();
        self.stage(3, |path| path.store.publish());
        self.listener
            .feed()
            .attach(self.source, self.store.published(), Moment::ZERO);
        self.handle();
    }

    fn events(&mut self, pods: u64, first: u64) {
        let shape = Shape::of("v1", "Pod");
        let mut splitter = LineSplitter::new(WATCH_LINE_BYTES_MAX);
        let stream: Vec<u8> = (first..first + 30).flat_map(|number| event(number, pods)).collect();
        self.stage(0, |path| {
            for frame in stream.chunks(FRAME_BYTES) {
                let mut lines = splitter.feed(frame);
                while let Some(line) = lines.next_line() {
                    let Line::Json(line) = line else { continue };
                    let object = WatchLine::parse(line).expect("a line").object(&shape).expect("a pod");
                    path.fifo.update(object, Moment::ZERO);
                }
            }
        });
        self.write();
        self.stage(3, |path| {
            path.store.publish();
            path.listener
                .feed()
                .push(path.source, path.store.published(), &path.changes);
            path.changes.clear();
            drop(path.store.take_garbage());
        });
        self.handle();
    }

    fn write(&mut self) {
        let mut batch = std::mem::take(&mut self.batch);
        self.stage(1, |path| path.fifo.pop_batch(BATCH_DELTAS_MAX, &mut batch));
        self.stage(2, |path| {
            for delta in batch.deltas() {
                let object = delta.object.object().expect("no tombstones").clone();
                let kind = match path.store.add(object.clone()) {
                    Some(old) => ChangeKind::Update { old, new: object },
                    None => ChangeKind::Add(object),
                };
                path.changes.push(ObjectChange {
                    kind,
                    reason: delta.reason,
                    received: delta.received,
                });
            }
        });
        self.stage(1, |path| path.fifo.batch_done(&mut batch));
        self.batch = batch;
    }

    fn handle(&mut self) {
        let mut deliveries = Vec::new();
        while let NextBatch::Delivered(_) = self.stage(4, |path| {
            path.listener
                .consumer()
                .next_batch(LaneSet::FIRST, Moment::ZERO, 64, &mut deliveries)
        }) {
            self.stage(5, |path| {
                for delivery in &deliveries {
                    if let Notification::Add(object) | Notification::Update { new: object, .. } = &delivery.notification
                    {
                        path.document.clear();
                        path.payload.write(object, &mut path.document);
                        black_box(&path.document);
                    }
                }
            });
            let tokens: Vec<_> = deliveries
                .iter()
                .map(|delivery| (delivery.token, DeliveryOutcome::Ok))
                .collect();
            self.stage(4, |path| path.listener.consumer().done_batch(tokens, Moment::ZERO));
            self.stage(5, |_| deliveries.clear());
        }
    }
}

fn pointer(text: &str) -> Pointer {
    Pointer::parse(text).expect("a pointer")
}

/// The pod of `number`, at `version`. No two states are equally long: what an update frees rarely fits the next one.
fn pod(number: u64, version: u64) -> String {
    let more = "x".repeat((version.wrapping_mul(0x9e37_79b9_7f4a_7c15) >> 55) as usize);
    include_str!("../../object/corpus/accepted/pod.json")
        .replacen(
            "checkout-7c9f8d6b54-x7k2p",
            &format!("checkout-7c9f8d6b54-{number:06}"),
            1,
        )
        .replacen("\"48213377\"", &format!("\"{version}\""), 1)
        .replacen(
            "\"tier\":\"backend\"",
            &format!("\"tier\":\"backend\",\"more\":\"{more}\""),
            1,
        )
}

fn item(number: u64, _: u64) -> Vec<u8> {
    let comma = if number > 0 { "," } else { "" };
    format!("{comma}{}", pod(number, number + 1)).into_bytes()
}

fn event(number: u64, pods: u64) -> Vec<u8> {
    let pod = pod(number % pods, pods + number + 1);
    format!("{{\"type\":\"MODIFIED\",\"object\":{pod}}}\n").into_bytes()
}
