//! Which state is restored and deleted, and what waits for the disk.

mod replicas;

use std::path::Path;
use std::pin::pin;

use futures::FutureExt as _;
use informant_cache::Snapshot;
use informant_config::SourceFile;
use informant_informer::ReflectorOptions;
use informant_object::SourceId;
use informant_spec::GroupVersionResource;

use super::*;

const URL: &str = "https://127.0.0.1:6443";

fn config(text: &str) -> Config {
    Config::parse(&SourceFile::new("config.toml", text)).unwrap()
}

fn durable(informer: &str) -> String {
    format!("[informer.{informer}]\nresource = \"v1/pods\"\ndurable = \"metadata\"\n")
}

fn durable_state(path: &Path) -> DurableState {
    DurableState::new(path.to_owned(), None, StateMetrics::default())
}

fn spec(informer: &str, namespaces: &[&str]) -> InformerSpec {
    let source = SourceSpec::new(informer, GroupVersionResource::new("", "v1", "pods"), "Pod");
    InformerSpec {
        namespaces: namespaces.iter().map(|name| (*name).to_owned()).collect(),
        reflector: ReflectorOptions::default(),
        ..InformerSpec::of(source)
    }
}

/// Starts an informer as its supervisor does. Returns the restored high water mark of each source, and advances all of
/// them to version 42.
async fn start(
    durable_state: &DurableState,
    config: &Config,
    informer: &str,
    url: &str,
    namespaces: &[&str],
) -> Vec<Option<u64>> {
    let section = Arc::new(config.informers[informer].clone());
    let spec = spec(informer, namespaces);
    let persistence = durable_state.persistence(&section, url, &spec).await.unwrap().unwrap();
    let mut remembered = Vec::new();
    for source in spec.sources() {
        let durable_source = persistence.open(&source).unwrap().unwrap();
        remembered.push(durable_source.high_water);
        durable_source.journal.begin(SourceId(1), &Snapshot::default(), false);
        durable_source.journal.set_high_water(42);
        let (done, flushed) = tokio::sync::oneshot::channel();
        durable_source.journal.flush(Box::new(move || done.send(()).unwrap()));
        flushed.await.unwrap();
    }
    remembered
}

#[tokio::test(flavor = "multi_thread")]
async fn informers_no_longer_durable_at_start_are_forgotten() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("state.redb");
    let both = config(&(durable("a") + &durable("b")));
    let one = config(&durable("a"));
    let none = config("[informer.a]\nresource = \"v1/pods\"\n");
    for (config, informer, remembered) in [
        (&both, "a", None),
        (&both, "b", None),
        (&both, "b", Some(42)),
        (&one, "a", Some(42)),
        (&both, "b", None),
    ] {
        let process = durable_state(&path);
        process.open_if_needed(config).await.unwrap();
        assert_eq!(start(&process, config, informer, URL, &[]).await, [remembered]);
        process.close();
    }
    // A configuration without durable informers may belong to another instance with the same file name.
    durable_state(&path).open_if_needed(&none).await.unwrap();
    let process = durable_state(&path);
    process.open_if_needed(&both).await.unwrap();
    assert_eq!(start(&process, &both, "a", URL, &[]).await, [Some(42)]);
}

#[tokio::test(flavor = "multi_thread")]
async fn other_servers_and_removed_namespaces_are_forgotten_at_start() {
    let folder = tempfile::tempdir().unwrap();
    let process = durable_state(&folder.path().join("state.redb"));
    let config = config(&durable("a"));
    process.open_if_needed(&config).await.unwrap();
    let started = async |url, namespaces: &[&str]| start(&process, &config, "a", url, namespaces).await;
    assert_eq!(started(URL, &["x", "y"]).await, [None, None]);
    assert_eq!(started(URL, &["x"]).await, [Some(42)]);
    assert_eq!(
        started(URL, &["x", "y"]).await,
        [Some(42), None],
        "y started from scratch"
    );
    assert_eq!(started("https://elsewhere", &["x"]).await, [None]);
    assert_eq!(started(URL, &["x"]).await, [None], "so did the first server");
}

#[tokio::test(flavor = "multi_thread")]
async fn opening_the_file_blocks_nothing_else() {
    let folder = tempfile::tempdir().unwrap();
    let process = durable_state(&folder.path().join("state.redb"));
    let config = config(&durable("a"));
    process.apply(&config);
    let section = Arc::new(config.informers["a"].clone());
    let spec = spec("a", &[]);
    let mut opening = pin!(process.persistence(&section, URL, &spec));
    {
        // As if the disk did not answer.
        let _locked = process.0.opening.lock().unwrap();
        assert!(opening.as_mut().now_or_never().is_none());
        process.apply(&config);
        process.forget("a", "");
        assert!(opening.as_mut().now_or_never().is_none());
    }
    assert!(opening.await.unwrap().is_some());
}

#[tokio::test(flavor = "multi_thread")]
async fn informer_is_refused_after_close() {
    let folder = tempfile::tempdir().unwrap();
    let process = durable_state(&folder.path().join("state.redb"));
    let config = config(&durable("a"));
    process.open_if_needed(&config).await.unwrap();
    let section = Arc::new(config.informers["a"].clone());
    let spec = spec("a", &[]);
    let persistence = process.persistence(&section, URL, &spec).await.unwrap().unwrap();
    process.close();
    let refused = persistence.open(&spec.source).err().map(|error| error.to_string());
    assert_eq!(refused.as_deref(), Some("the state database is closed"));
}
