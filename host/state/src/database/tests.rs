use std::time::Instant;

use informant_spec::StoredContent;

use super::*;

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
        handlers: BTreeSet::new(),
        has_replicas: false,
    }
}

/// A database whose thread starts when received to, and until then blocks like a disk that hangs.
fn hanging(path: PathBuf, open_wait: Duration) -> (StateDatabase, mpsc::Sender<()>) {
    let metrics = StateMetrics::default();
    let store = TableStore::open(path, None, metrics.clone()).unwrap();
    let shared = Arc::new(Shared::default());
    let recorder = Recorder::new(store, Arc::clone(&shared), metrics.clone());
    let (answers, disk) = mpsc::channel();
    let thread = std::thread::spawn(move || {
        // The sender may have panicked.
        let _ = disk.recv();
        run(recorder);
    });
    let state = StateDatabase(Arc::new(Inner {
        shared,
        thread: Mutex::new(Some(thread)),
        metrics,
        open_wait,
    }));
    (state, answers)
}

#[test]
fn slow_opening_of_a_source_is_reported_and_completes() {
    let folder = tempfile::tempdir().unwrap();
    let (state, answers) = hanging(folder.path().join("state.redb"), Duration::ZERO);
    let asking = state.clone();
    let asked = std::thread::spawn(move || asking.source(options()).map(drop));
    let deadline = Instant::now() + Duration::from_secs(60);
    while state.0.metrics.open_waits.get() == 0 {
        assert!(Instant::now() < deadline, "the wait is not reported");
        std::thread::yield_now();
    }
    assert!(!asked.is_finished());
    answers.send(()).unwrap();
    assert_eq!(asked.join().unwrap(), Ok(()));
    assert_eq!(state.0.metrics.open_waits.get(), 1);
}

#[test]
fn fast_opening_of_a_source_is_not_reported() {
    let folder = tempfile::tempdir().unwrap();
    let (state, answers) = hanging(folder.path().join("state.redb"), Duration::from_secs(600));
    answers.send(()).unwrap();
    assert_eq!(state.source(options()).map(drop), Ok(()));
    assert_eq!(state.0.metrics.open_waits.get(), 0);
}
