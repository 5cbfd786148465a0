//! The content of the store in a native test.

use std::cell::RefCell;
use std::collections::BTreeMap;
use std::fmt;
use std::marker::PhantomData;

use serde_json::{Value, json};

use crate::bindings::imports::informant::plugin::store::{SourceInfo, SourceState};
use crate::bindings::imports::informant::plugin::types as contract;
use crate::event::SourceId;
use crate::host_error::{ErrorCode, HostError};
use crate::log::Level;
use crate::store;

use super::cluster::{joined, resource_of};

/// The maximum bytes of objects in a page, as in Informant.
const PAGE_BYTES_MAX: usize = 1 << 20;

thread_local! {
    static STATE: RefCell<Option<State>> = const { RefCell::new(None) };
}

/// By source, namespace and name.
pub(super) type Key = (u32, String, String);

/// The values of objects in an index, with `namespace/name`.
pub(super) type Indexed = Vec<(String, Vec<String>)>;

/// The values of an object in one index.
pub(super) type IndexFunc = Box<dyn Fn(&Value) -> Vec<String>>;

pub(super) struct State {
    /// By ID, starting with 0.
    pub(super) sources: Vec<SourceInfo>,
    pub(super) objects: BTreeMap<Key, Value>,
    /// By informer and name.
    pub(super) indexes: BTreeMap<(String, String), IndexFunc>,
    /// Returned by every call, if set.
    pub(super) refusal: Option<contract::HostError>,
    pub(super) page_bytes_max: usize,
    /// Why every call of `kube` is denied.
    pub(super) kube_refusal: Option<String>,
    /// The writes of the plugin to the cluster.
    pub(super) writes: Vec<super::cluster::Write>,
    /// All that were sent, with their results: entries of `writes` in a scenario.
    pub(super) sent: Vec<Value>,
    /// The writes that the present call has deferred.
    pub(super) deferred: Vec<super::deferred::DeferredWrite>,
    /// What belongs to the object that it is about.
    pub(super) owned: super::children::Owned,
    /// The objects that these writes changed, each with its previous state.
    pub(super) changed: Vec<(Key, Option<Value>)>,
    /// What the plugin remembers.
    pub(super) keys: super::keys::Keys,
    /// Its own metrics.
    pub(super) metrics: super::metrics::Metrics,
    /// The Events that it has recorded.
    pub(super) recorder: super::events::Recorder,
    /// Other services.
    pub(super) services: super::http::Services,
    version: u64,
    log: Vec<LogLine>,
}

/// A line that the plugin logged.
pub(super) struct LogLine {
    pub(super) level: Level,
    pub(super) message: String,
    pub(super) fields: Vec<(String, String)>,
}

impl fmt::Display for LogLine {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}: {}", self.level, self.message)?;
        self.fields
            .iter()
            .try_for_each(|(name, value)| write!(f, " {name}={value}"))
    }
}

/// The content of the store for the current thread, until it is dropped. A thread can have one at a time.
#[derive(Debug)]
pub struct Cache {
    // It belongs to its thread.
    not_send: PhantomData<*const ()>,
}

impl Cache {
    /// An empty cache.
    ///
    /// # Panics
    /// If the thread already has one.
    #[expect(clippy::new_without_default, reason = "it changes a thread-local")]
    pub fn new() -> Self {
        let state = State {
            sources: Vec::new(),
            objects: BTreeMap::new(),
            indexes: BTreeMap::new(),
            refusal: None,
            page_bytes_max: PAGE_BYTES_MAX,
            kube_refusal: None,
            writes: Vec::new(),
            sent: Vec::new(),
            deferred: Vec::new(),
            owned: super::children::Owned::default(),
            changed: Vec::new(),
            keys: super::keys::Keys::default(),
            metrics: super::metrics::Metrics::default(),
            recorder: super::events::Recorder::default(),
            services: super::http::Services::default(),
            version: 0,
            log: Vec::new(),
        };
        let before = STATE.replace(Some(state));
        assert!(
            before.is_none(),
            "a thread can have only one testing::Cache or testing::Driver at a time: drop the other one first"
        );
        Self { not_send: PhantomData }
    }

    /// Adds a source to an informer. [`put`](Self::put) uses the first source with the apiVersion and kind of the
    /// object.
    pub fn source(&self, informer: &str, api_version: &str, kind: &str) -> SourceId {
        self.source_in_cluster("", informer, api_version, kind)
    }

    /// As [`source`](Self::source), for a plugin that runs in several clusters.
    pub fn source_in_cluster(&self, cluster: &str, informer: &str, api_version: &str, kind: &str) -> SourceId {
        with(|state| state.add_source(cluster, informer, api_version, kind))
    }

    /// Adds or replaces an object, and returns its source: the one with its apiVersion and kind. If there is none, adds
    /// one to an informer that is named after the kind, in lowercase with an s (`pods`).
    ///
    /// Generates a uid and a resource version if the object has none. The version always differs from the previous one.
    ///
    /// # Panics
    /// If the object lacks apiVersion, kind or a name.
    pub fn put(&self, object: Value) -> SourceId {
        with(|state| SourceId(state.put(None, object).0))
    }

    /// As [`put`](Self::put), in this cluster.
    ///
    /// # Panics
    /// As [`put`](Self::put).
    pub fn put_in_cluster(&self, cluster: &str, object: Value) -> SourceId {
        with(|state| SourceId(state.put(Some(cluster), object).0))
    }

    /// The current state of an object, if it exists.
    pub fn object(&self, source: SourceId, namespace: &str, name: &str) -> Option<Value> {
        self.get(&(source.0, namespace.to_owned(), name.to_owned()))
    }

    /// Removes an object and returns it.
    pub fn remove(&self, source: SourceId, namespace: &str, name: &str) -> Option<Value> {
        with(|state| state.objects.remove(&(source.0, namespace.to_owned(), name.to_owned())))
    }

    /// Adds an index to an informer.
    pub fn index(&self, informer: &str, name: &str, values: impl Fn(&Value) -> Vec<String> + 'static) {
        with(|state| {
            state
                .indexes
                .insert((informer.to_owned(), name.to_owned()), Box::new(values))
        });
    }

    /// Makes every call to the store fail with this error, and every call to `kube` with `denied` and its message.
    /// `None` ends this.
    pub fn refuse(&self, error: Option<HostError>) {
        let refusal = error.map(|error| contract::HostError {
            code: error.code,
            message: error.message,
        });
        with(|state| state.refusal = refusal);
    }

    /// The lines logged since the last call, as `level: message name=value`.
    pub fn take_log(&self) -> Vec<String> {
        self.take_lines().iter().map(LogLine::to_string).collect()
    }

    pub(super) fn take_lines(&self) -> Vec<LogLine> {
        with(|state| std::mem::take(&mut state.log))
    }

    /// The object at a key.
    pub(super) fn get(&self, key: &Key) -> Option<Value> {
        with(|state| state.objects.get(key).cloned())
    }

    /// All objects.
    pub(super) fn objects(&self) -> Vec<(Key, Value)> {
        with(|state| state.objects.clone().into_iter().collect())
    }

    /// `v1/pods web/a`; only the resource for a key without a name.
    pub(super) fn shown(&self, key: &Key) -> String {
        let resource = with(|state| state.sources.get(key.0 as usize).map(|info| info.resource.clone()));
        let words = [resource.unwrap_or_default(), joined(&key.1, &key.2)];
        words.join(" ").trim_end().to_owned()
    }

    /// The objects of an informer as `namespace/name`, with their values in one of its indexes. `None` without such an
    /// informer, or without the index.
    pub(super) fn indexed(&self, informer: &str, index: &str) -> Option<Option<Indexed>> {
        with(|state| {
            let sources: Vec<u32> = state.sources_of(informer).ok()?.iter().map(|info| info.id).collect();
            let values = state.indexes.get(&(informer.to_owned(), index.to_owned()));
            let objects = state.objects.iter().filter(|(key, _)| sources.contains(&key.0));
            Some(values.map(|values| {
                objects
                    .map(|(key, object)| (joined(&key.1, &key.2), values(object)))
                    .collect()
            }))
        })
    }

    /// As [`put`](Self::put), but returns the whole key.
    pub(super) fn put_key(&self, cluster: Option<&str>, object: Value) -> Key {
        with(|state| state.put(cluster, object))
    }

    /// The key under which [`put`](Self::put) would store this object.
    pub(super) fn key_of(&self, cluster: Option<&str>, object: &Value) -> Key {
        with(|state| state.key_of(cluster, object))
    }

    #[cfg(test)]
    pub(crate) fn page_bytes_max(&self, bytes: usize) {
        with(|state| state.page_bytes_max = bytes);
    }
}

impl Drop for Cache {
    fn drop(&mut self) {
        STATE.set(None);
        store::forget_sources();
    }
}

/// # Panics
/// If the thread has no cache: the plugin's code called Informant in a native test without one.
pub(super) fn with<T>(f: impl FnOnce(&mut State) -> T) -> T {
    STATE.with_borrow_mut(|state| {
        f(state.as_mut().expect(
            "a native test called the store without a cache: create a testing::Driver or a testing::Cache first",
        ))
    })
}

/// Logs; without a cache, to stderr.
pub(super) fn log(level: Level, message: &str, fields: &[(String, String)]) {
    let line = LogLine {
        level,
        message: message.to_owned(),
        fields: fields.to_owned(),
    };
    STATE.with_borrow_mut(|state| match state {
        Some(state) => state.log.push(line),
        #[expect(clippy::print_stderr, reason = "there is no other log")]
        None => eprintln!("{line}"),
    });
}

impl State {
    /// The sources of an informer.
    pub(super) fn sources_of(&self, informer: &str) -> Result<Vec<&SourceInfo>, contract::HostError> {
        let sources: Vec<&SourceInfo> = self.sources.iter().filter(|info| info.informer == informer).collect();
        if sources.is_empty() {
            let message = format!("no informer named {informer:?} in this test");
            return Err(contract::HostError {
                code: ErrorCode::UnknownInformer,
                message,
            });
        }
        Ok(sources)
    }

    /// The cluster of a source.
    pub(super) fn cluster_of(&self, source: u32) -> &str {
        self.sources
            .get(source as usize)
            .map_or("", |info| info.cluster.as_str())
    }

    pub(super) fn version(&self) -> String {
        self.version.to_string()
    }

    fn add_source(&mut self, cluster: &str, informer: &str, api_version: &str, kind: &str) -> SourceId {
        let id = u32::try_from(self.sources.len()).expect("a test has few sources");
        self.sources.push(SourceInfo {
            id,
            state: SourceState::Live,
            informer: informer.to_owned(),
            cluster: cluster.to_owned(),
            api_version: api_version.to_owned(),
            kind: kind.to_owned(),
            resource: resource_of(api_version, kind),
            namespace: None,
            namespaced: true,
            partial: false,
        });
        SourceId(id)
    }

    /// `None` for any cluster.
    pub(super) fn key_of(&mut self, cluster: Option<&str>, object: &Value) -> Key {
        let text = |pointer: &str| object.pointer(pointer).and_then(Value::as_str);
        let need = |pointer: &str| text(pointer).unwrap_or_else(|| panic!("the object has no {pointer}: {object}"));
        let (api_version, kind) = (need("/apiVersion"), need("/kind"));
        let position = self.sources.iter().position(|info| {
            info.api_version == api_version
                && info.kind == kind
                && cluster.is_none_or(|cluster| info.cluster == cluster)
        });
        let source = match position.and_then(|position| u32::try_from(position).ok()) {
            Some(known) => known,
            None => {
                let informer = format!("{}s", kind.to_lowercase());
                self.add_source(cluster.unwrap_or_default(), &informer, api_version, kind)
                    .0
            }
        };
        (
            source,
            text("/metadata/namespace").unwrap_or_default().to_owned(),
            need("/metadata/name").to_owned(),
        )
    }

    pub(super) fn put(&mut self, cluster: Option<&str>, mut object: Value) -> Key {
        let key = self.key_of(cluster, &object);
        if let Some(info) = self.sources.get_mut(key.0 as usize) {
            info.namespaced = !key.1.is_empty();
        }
        self.version += 1;
        let before = self.objects.get(&key);
        let same = |field: &str| before.map(|before| before["metadata"][field].clone());
        let metadata = &mut object["metadata"];
        if metadata["uid"].is_null() {
            metadata["uid"] = same("uid").unwrap_or_else(|| json!(format!("uid-{}", self.version)));
        }
        if metadata["resourceVersion"].is_null()
            || Some(&metadata["resourceVersion"]) == same("resourceVersion").as_ref()
        {
            metadata["resourceVersion"] = json!(self.version.to_string());
        }
        self.objects.insert(key.clone(), object);
        key
    }
}
