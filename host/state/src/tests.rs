//! Drives the recorder step by step, with real stores and listeners: what a later process knows, whenever this one was
//! killed.

mod behavior;
mod crashes;
mod dead_letters;
mod disk;
mod endings;
mod formats;
mod keys;
mod present_format;
mod property;
mod requeues;
mod several;
mod takeovers;

use std::collections::BTreeSet;
use std::fs;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use informant_cache::listener::{
    ChangeKind, Delivery, DeliveryOutcome, ListenerOptions, NextDelivery, Notification, ObjectChange,
};
use informant_cache::{Journal, ListenerHandle, Moment, Reason, StoreWriter};
use informant_object::{Key, KeyRef, Object, ResourceVersion, Shape, SourceId};
use informant_spec::StoredContent;

use crate::StateMetrics;
use crate::cipher::Cipher;
use crate::command::{RecorderCommand, Shared};
use crate::handler_state::OnStart;
use crate::journal::SourceJournal;
use crate::recorder::Recorder;
use crate::source::{SourceIdentity, SourceOptions};
use crate::table_store::TableStore;

const SOURCE: SourceId = SourceId(7);
const HANDLER: &str = "greeter";

fn object(name: &str, uid: &str, version: u64) -> Object {
    let json = format!(
        r#"{{"apiVersion":"v1","kind":"Pod","metadata":{{"namespace":"default","name":"{name}","uid":"{uid}","resourceVersion":"{version}"}},"spec":{{"x":1}}}}"#
    );
    Object::parse(json.as_bytes(), &Shape::verbatim()).unwrap()
}

fn key(name: &str) -> KeyRef<'_> {
    KeyRef::new("default", name)
}

fn options() -> SourceOptions {
    SourceOptions {
        identity: SourceIdentity {
            informer: "pods".to_owned(),
            cluster: String::new(),
            server: "https://127.0.0.1:6443".to_owned(),
            resource: "v1/pods".to_owned(),
            namespace: None,
        },
        content: StoredContent::Metadata,
        form: "whole".to_owned(),
        request: String::new(),
        cipher: None,
        handlers: BTreeSet::from([HANDLER.to_owned()]),
        has_replicas: false,
    }
}

/// A process with one source, its store, and one handler.
struct Process {
    path: PathBuf,
    shared: Arc<Shared>,
    recorder: Recorder,
    metrics: StateMetrics,
    source: Option<SourceJournal>,
    store: StoreWriter,
    listener: ListenerHandle,
}

impl Process {
    /// Starts on the file as it is.
    fn start(path: &Path, options: SourceOptions) -> Self {
        let metrics = StateMetrics::default();
        let store = TableStore::open(path.to_owned(), None, metrics.clone()).unwrap();
        Self::start_on(path, store, metrics, options)
    }

    fn start_on(path: &Path, store: TableStore, metrics: StateMetrics, options: SourceOptions) -> Self {
        let shared = Arc::new(Shared::default());
        let mut process = Self {
            path: path.to_owned(),
            recorder: Recorder::new(store, Arc::clone(&shared), metrics.clone()),
            metrics,
            shared,
            source: None,
            store: StoreWriter::default(),
            listener: ListenerHandle::new(ListenerOptions::default()),
        };
        process.source = Some(process.open(options));
        process
    }

    fn open(&mut self, options: SourceOptions) -> SourceJournal {
        let (reply, answer) = std::sync::mpsc::channel();
        self.command(RecorderCommand::Open(Box::new(options), reply));
        self.recorder.run_once();
        answer.try_recv().unwrap()
    }

    fn command(&self, command: RecorderCommand) {
        self.shared.command(command);
    }

    fn journal(&self) -> &SourceJournal {
        self.source.as_ref().unwrap()
    }

    /// Publishes the first list.
    fn sync(&mut self, objects: impl IntoIterator<Item = Object>) {
        for object in objects {
            self.store.add(object);
        }
        let snapshot = self.store.publish();
        self.journal().begin(SOURCE, &snapshot, false);
    }

    fn name(&self, on_start: OnStart) {
        self.shared
            .names
            .lock()
            .unwrap()
            .push((self.listener.clone(), HANDLER.to_owned(), on_start));
    }

    fn attach(&self, on_start: OnStart) {
        self.name(on_start);
        self.journal().attach(&self.listener, None, Moment::ZERO);
    }

    fn write(&mut self, object: Object) {
        let version = object.version().to_version();
        let kind = match self.store.add(object.clone()) {
            Some(old) => ChangeKind::Update { old, new: object },
            None => ChangeKind::Add(object),
        };
        self.push(kind, version);
    }

    fn delete(&mut self, name: &str, version: u64) {
        let kind = ChangeKind::Delete {
            last: self.store.delete(key(name)),
            key: Key::new("default", name),
            final_state_unknown: false,
        };
        self.push(kind, ResourceVersion::new(&version.to_string()));
    }

    fn push(&mut self, kind: ChangeKind, version: ResourceVersion) {
        let change = ObjectChange {
            kind,
            reason: Reason::Watch,
            received: Moment::ZERO,
        };
        self.journal().set_high_water(version.number().unwrap());
        self.store.set_version(version, 0);
        let snapshot = self.store.publish();
        self.journal().push(&snapshot, &[change], Moment::ZERO);
    }

    /// Takes one delivery, if there is one.
    fn take(&self) -> Option<Delivery> {
        loop {
            match self.listener.consumer().next(Moment::ZERO) {
                NextDelivery::Deliver(delivery) => return Some(delivery),
                // A cursor yielded the lock.
                NextDelivery::WaitUntil(Moment::ZERO) => {}
                _ => return None,
            }
        }
    }

    fn done(&self, delivery: &Delivery, outcome: DeliveryOutcome) {
        self.listener.consumer().done(delivery.token, outcome, Moment::ZERO);
    }

    /// Handles all deliveries.
    fn handle_all(&self) -> String {
        let mut received = Vec::new();
        while let Some(delivery) = self.take() {
            received.push(shown(&delivery));
            self.done(&delivery, DeliveryOutcome::Ok);
        }
        received.join(", ")
    }

    /// Runs the recorder until nothing is pending and everything handled is known.
    fn settle(&mut self) -> String {
        self.recorder.run_once();
        let received = self.handle_all();
        self.recorder.run_once();
        self.recorder.run_once();
        received
    }

    /// Copies the file as a crash would leave it now.
    fn crash(&self, to: &Path) {
        fs::copy(&self.path, to).unwrap();
    }
}

fn shown(delivery: &Delivery) -> String {
    let name = delivery.key().map_or("", |key| key.name);
    match &delivery.notification {
        Notification::Add(object) => format!("add {name}@{}", object.version()),
        Notification::Update { new, .. } => format!("update {name}@{}", new.version()),
        Notification::Delete {
            last,
            final_state_unknown,
            ..
        } => {
            let version = last.as_ref().map_or(String::new(), |last| last.version().to_string());
            format!("delete {name}@{version}{}", if *final_state_unknown { "?" } else { "" })
        }
        Notification::Synced | Notification::Tick(_) => "synced".to_owned(),
    }
}

/// What the next process delivers to the handler. It finds the file `path` and lists `objects`.
fn next_process(path: &Path, objects: &[(&str, &str, u64)], on_start: OnStart) -> String {
    next_process_with(path, objects, on_start, options())
}

fn next_process_with(path: &Path, objects: &[(&str, &str, u64)], on_start: OnStart, options: SourceOptions) -> String {
    let mut process = Process::start(path, options);
    process.sync(objects.iter().map(|(name, uid, version)| object(name, uid, *version)));
    process.attach(on_start);
    process.settle()
}

/// A directory with a file that a process has filled with `a`, `b` and `c`, all acknowledged.
fn kept(options: SourceOptions) -> (tempfile::TempDir, PathBuf) {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("state.redb");
    let mut process = Process::start(&path, options);
    process.sync([object("a", "u1", 1), object("b", "u2", 2), object("c", "u3", 3)]);
    process.attach(OnStart::Continue);
    assert_eq!(process.settle(), "add a@1, add b@2, add c@3, synced");
    (folder, path)
}

fn sealed() -> SourceOptions {
    SourceOptions {
        cipher: Some(Cipher::of([1; 32])),
        ..options()
    }
}
