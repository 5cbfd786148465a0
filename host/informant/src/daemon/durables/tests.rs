//! What is remembered and forgotten of whom, and who waits for the disk.

mod replicas;

use std::path::Path;
use std::pin::pin;

use futures::FutureExt as _;
use informant_cache::Snapshot;
use informant_informer::{GroupVersionResource, ReflectorOptions};
use informant_object::SourceId;

use super::*;
use crate::config::SourceFile;

const URL: &str = "https://127.0.0.1:6443";

fn config(text: &str) -> Config {
    Config::parse(&SourceFile::new("config.toml", text)).unwrap()
}

fn durable(informer: &str) -> String {
    format!("[informer.{informer}]\nresource = \"v1/pods\"\ndurable = \"metadata\"\n")
}

fn durables(path: &Path) -> Durables {
    Durables::new(path.to_owned(), StateMetrics::default())
}

fn spec(informer: &str, namespaces: &[&str]) -> InformerSpec {
    let source = SourceSpec::new(informer, GroupVersionResource::new("", "v1", "pods"), "Pod");
    InformerSpec {
        namespaces: namespaces.iter().map(|name| (*name).to_owned()).collect(),
        reflector: ReflectorOptions::default(),
        ..InformerSpec::of(source)
    }
}

/// Starts an informer as its keeper does. Returns the highest version that was remembered of each of its sources, and
/// has them see version 42.
async fn start(
    durables: &Durables,
    config: &Config,
    informer: &str,
    url: &str,
    namespaces: &[&str],
) -> Vec<Option<u64>> {
    let section = Arc::new(config.informers[informer].clone());
    let spec = spec(informer, namespaces);
    let keeper = durables.keeper(&section, url, &spec).await.unwrap().unwrap();
    let mut remembered = Vec::new();
    for source in spec.sources() {
        let kept = keeper.keep(&source).unwrap().unwrap();
        remembered.push(kept.high_water);
        kept.journal.begin(SourceId(1), &Snapshot::default(), false);
        kept.journal.seen(42);
        let (done, flushed) = tokio::sync::oneshot::channel();
        kept.journal.flush(Box::new(move || done.send(()).unwrap()));
        flushed.await.unwrap();
    }
    remembered
}

#[tokio::test(flavor = "multi_thread")]
async fn what_is_not_durable_any_more_at_the_start_is_forgotten_and_the_rest_is_remembered() {
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
        let process = durables(&path);
        process.begin(config).await.unwrap();
        assert_eq!(start(&process, config, informer, URL, &[]).await, [remembered]);
        process.close();
    }
    // A configuration without durable informers may be another one's, which happens to name the same file.
    durables(&path).begin(&none).await.unwrap();
    let process = durables(&path);
    process.begin(&both).await.unwrap();
    assert_eq!(start(&process, &both, "a", URL, &[]).await, [Some(42)]);
}

#[tokio::test(flavor = "multi_thread")]
async fn another_address_or_a_namespace_that_is_named_no_more_is_forgotten_when_the_informer_starts() {
    let folder = tempfile::tempdir().unwrap();
    let process = durables(&folder.path().join("state.redb"));
    let config = config(&durable("a"));
    process.begin(&config).await.unwrap();
    let started = async |url, namespaces: &[&str]| start(&process, &config, "a", url, namespaces).await;
    assert_eq!(started(URL, &["x", "y"]).await, [None, None]);
    assert_eq!(started(URL, &["x"]).await, [Some(42)]);
    assert_eq!(started(URL, &["x", "y"]).await, [Some(42), None], "y began anew");
    assert_eq!(started("https://elsewhere", &["x"]).await, [None]);
    assert_eq!(started(URL, &["x"]).await, [None], "so did the first address");
}

#[tokio::test(flavor = "multi_thread")]
async fn while_the_file_is_opened_nobody_else_waits() {
    let folder = tempfile::tempdir().unwrap();
    let process = durables(&folder.path().join("state.redb"));
    let config = config(&durable("a"));
    process.take(&config);
    let section = Arc::new(config.informers["a"].clone());
    let spec = spec("a", &[]);
    let mut keeping = pin!(process.keeper(&section, URL, &spec));
    {
        // As if the disk did not answer.
        let _opening = process.0.opening.lock().unwrap();
        assert!(keeping.as_mut().now_or_never().is_none());
        process.take(&config);
        process.forget("a", "");
        assert!(keeping.as_mut().now_or_never().is_none());
    }
    assert!(keeping.await.unwrap().is_some());
}

#[tokio::test(flavor = "multi_thread")]
async fn once_closed_an_informer_is_refused_and_says_why() {
    let folder = tempfile::tempdir().unwrap();
    let process = durables(&folder.path().join("state.redb"));
    let config = config(&durable("a"));
    process.begin(&config).await.unwrap();
    let section = Arc::new(config.informers["a"].clone());
    let spec = spec("a", &[]);
    let keeper = process.keeper(&section, URL, &spec).await.unwrap().unwrap();
    process.close();
    let refused = keeper.keep(&spec.source).err().map(|error| error.to_string());
    assert_eq!(refused.as_deref(), Some("the state database is closed"));
}
