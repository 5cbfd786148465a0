//! What the store answers in a native test.

use std::cell::RefCell;
use std::collections::BTreeMap;
use std::marker::PhantomData;

use serde_json::{Value, json};

use crate::bindings::imports::informant::plugin::types as contract;
use crate::event::SourceId;
use crate::host_error::{ErrorCode, HostError};
use crate::log::Level;
use crate::store::{self, SourceInfo};

/// Most bytes of objects in one page, as in Informant.
const PAGE_BYTES_MAX: usize = 1 << 20;

thread_local! {
    static STATE: RefCell<Option<State>> = const { RefCell::new(None) };
}

/// By source, namespace and name.
pub(super) type Key = (u32, String, String);

/// The values of an object in one index.
pub(super) type IndexFunc = Box<dyn Fn(&Value) -> Vec<String>>;

pub(super) struct State {
    /// In the order of their ids, which begin with 0.
    pub(super) sources: Vec<SourceInfo>,
    pub(super) objects: BTreeMap<Key, Value>,
    /// By informer and name.
    pub(super) indexes: BTreeMap<(String, String), IndexFunc>,
    /// Answered to every call instead of the truth.
    pub(super) refusal: Option<contract::HostError>,
    pub(super) page_bytes_max: usize,
    /// What the plugin has written to the cluster.
    pub(super) writes: Vec<super::cluster::Write>,
    /// Which objects it changed by that, each with its state before.
    pub(super) changed: Vec<(Key, Option<Value>)>,
    version: u64,
    log: Vec<String>,
}

/// What the store has, in the thread that made it, for as long as this lives. One at a time.
#[derive(Debug)]
pub struct Cache {
    // It is of its thread.
    not_send: PhantomData<*const ()>,
}

impl Cache {
    /// An empty cache.
    ///
    /// # Panics
    /// If the thread has one already.
    #[expect(clippy::new_without_default, reason = "it does something to the thread")]
    pub fn new() -> Self {
        let state = State {
            sources: Vec::new(),
            objects: BTreeMap::new(),
            indexes: BTreeMap::new(),
            refusal: None,
            page_bytes_max: PAGE_BYTES_MAX,
            writes: Vec::new(),
            changed: Vec::new(),
            version: 0,
            log: Vec::new(),
        };
        let before = STATE.replace(Some(state));
        assert!(
            before.is_none(),
            "a thread has one testing::Cache or Driver at a time: drop the other first"
        );
        Self { not_send: PhantomData }
    }

    /// Adds a source of an informer. The first of an apiVersion and kind is the one that [`put`](Self::put) uses.
    pub fn source(&self, informer: &str, api_version: &str, kind: &str) -> SourceId {
        with(|state| state.add_source(informer, api_version, kind))
    }

    /// Puts an object in place of what has its key, and says which source it went to: that of its apiVersion and kind,
    /// which is added if need be, with the kind in small letters and an s (`pods`) as the informer's name.
    ///
    /// A uid and a version are made up if the object has none; a version always differs from the one before.
    ///
    /// # Panics
    /// If the object lacks apiVersion, kind or a name.
    pub fn put(&self, object: Value) -> SourceId {
        with(|state| SourceId(state.put(object).0))
    }

    /// An object as it is now; none if it is not there.
    pub fn object(&self, source: SourceId, namespace: &str, name: &str) -> Option<Value> {
        self.get(&(source.0, namespace.to_owned(), name.to_owned()))
    }

    /// Takes an object out, and gives what it was.
    pub fn remove(&self, source: SourceId, namespace: &str, name: &str) -> Option<Value> {
        with(|state| state.objects.remove(&(source.0, namespace.to_owned(), name.to_owned())))
    }

    /// Gives an informer an index.
    pub fn index(&self, informer: &str, name: &str, values: impl Fn(&Value) -> Vec<String> + 'static) {
        with(|state| {
            state
                .indexes
                .insert((informer.to_owned(), name.to_owned()), Box::new(values))
        });
    }

    /// Answers every call to the store, and to the cluster as denied, with this error; with none, the truth again.
    pub fn refuse(&self, error: Option<HostError>) {
        let refusal = error.map(|error| contract::HostError {
            code: error.code,
            message: error.message,
        });
        with(|state| state.refusal = refusal);
    }

    /// What was logged since the last time, as `level: message`.
    pub fn take_log(&self) -> Vec<String> {
        with(|state| std::mem::take(&mut state.log))
    }

    /// The object at a key.
    pub(super) fn get(&self, key: &Key) -> Option<Value> {
        with(|state| state.objects.get(key).cloned())
    }

    /// As [`put`](Self::put); says the whole key.
    pub(super) fn put_key(&self, object: Value) -> Key {
        with(|state| state.put(object))
    }

    /// Where [`put`](Self::put) would put this object.
    pub(super) fn key_of(&self, object: &Value) -> Key {
        with(|state| state.key_of(object))
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
/// If the thread has no cache: a plugin's code has called Informant, and nobody is there to answer.
pub(super) fn with<T>(use_it: impl FnOnce(&mut State) -> T) -> T {
    STATE.with_borrow_mut(|state| {
        use_it(state.as_mut().expect(
            "the store was asked natively, outside of Informant: make a testing::Driver or a testing::Cache in this test first",
        ))
    })
}

/// Logs; without a cache, to stderr.
pub(super) fn log(level: Level, message: &str) {
    let line = format!("{level}: {message}");
    STATE.with_borrow_mut(|state| match state {
        Some(state) => state.log.push(line),
        #[expect(clippy::print_stderr, reason = "a test's output is all there is")]
        None => eprintln!("{line}"),
    });
}

impl State {
    /// The ids of an informer's sources.
    pub(super) fn sources_of(&self, informer: &str) -> Result<Vec<u32>, contract::HostError> {
        let sources: Vec<u32> = (0..)
            .zip(&self.sources)
            .filter(|(_, info)| info.informer == informer)
            .map(|(id, _)| id)
            .collect();
        if sources.is_empty() {
            let message = format!("no informer is called {informer:?} in this test");
            return Err(contract::HostError {
                code: ErrorCode::UnknownInformer,
                message,
            });
        }
        Ok(sources)
    }

    pub(super) fn version(&self) -> String {
        self.version.to_string()
    }

    fn add_source(&mut self, informer: &str, api_version: &str, kind: &str) -> SourceId {
        let id = u32::try_from(self.sources.len()).expect("a test has few sources");
        self.sources.push(SourceInfo {
            informer: informer.to_owned(),
            cluster: String::new(),
            api_version: api_version.to_owned(),
            kind: kind.to_owned(),
        });
        SourceId(id)
    }

    fn key_of(&mut self, object: &Value) -> Key {
        let text = |pointer: &str| object.pointer(pointer).and_then(Value::as_str);
        let need = |pointer: &str| text(pointer).unwrap_or_else(|| panic!("an object without {pointer}: {object}"));
        let (api_version, kind) = (need("/apiVersion"), need("/kind"));
        let place = self
            .sources
            .iter()
            .position(|info| info.api_version == api_version && info.kind == kind);
        let source = match place.and_then(|place| u32::try_from(place).ok()) {
            Some(known) => known,
            None => {
                self.add_source(&format!("{}s", kind.to_lowercase()), api_version, kind)
                    .0
            }
        };
        (
            source,
            text("/metadata/namespace").unwrap_or_default().to_owned(),
            need("/metadata/name").to_owned(),
        )
    }

    pub(super) fn put(&mut self, mut object: Value) -> Key {
        let key = self.key_of(&object);
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
