//! What `kv` needs from outside: the keys of each plugin, and their persistence.

use std::pin::Pin;
use std::sync::Arc;

use informant_object::{Key, SourceId};

/// Opens the keys of plugins. Implemented by the program, with its state database.
pub trait KeyValue: Send + Sync + 'static {
    /// Opens the keys of a plugin, which may wait for the disk. The error says why they cannot be read.
    fn open(&self, plugin: &str) -> KvOpening;

    /// Why no plugin may use keys, if so.
    fn denied(&self) -> Option<&'static str> {
        None
    }
}

/// Keys that are being opened.
pub type KvOpening = Pin<Box<dyn Future<Output = Result<Arc<dyn KvSpace>, String>> + Send>>;

/// The keys of one plugin. No call waits for the disk.
pub trait KvSpace: Send + Sync + 'static {
    fn get(&self, key: &str) -> Option<Arc<[u8]>>;

    /// The first `max` keys that start with `prefix` and sort after `cursor`.
    fn keys(&self, prefix: &str, cursor: &str, max: usize) -> Vec<String>;

    fn usage(&self) -> KvUsage;

    /// How many bytes the keys of all plugins together may grow by.
    fn room(&self) -> usize {
        usize::MAX
    }

    /// Why changes cannot be persisted at present, if so.
    fn failure(&self) -> Option<String>;

    /// Applies the changes of a successful call at once, and persists them in the order of these calls. The end of the
    /// event, if there is one, is persisted in the same transaction.
    fn commit(&self, changes: Vec<KvChange>, handled: Option<KvHandled>);

    /// Applies the changes of a successful call at once, and persists them when the returned function is called, with
    /// the end of the event: that comes after writes to the cluster. If it is dropped instead, the event does not end,
    /// and the changes are taken back. As it is, for keys that are stored nowhere.
    fn hold(&self, changes: Vec<KvChange>) -> KvHeld {
        self.commit(changes, None);
        Box::new(|handled| (handled.report)())
    }
}

/// Persists what is held with the end of its event.
pub type KvHeld = Box<dyn FnOnce(KvHandled) + Send>;

/// A key, and its new value; none: it is deleted.
pub type KvChange = (String, Option<Arc<[u8]>>);

/// What the keys of a plugin take.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct KvUsage {
    /// How many there are.
    pub keys: usize,
    /// Bytes of keys and values, without the 64 bytes that a key costs besides.
    pub bytes: usize,
}

/// An event that ends with the changes of its call.
pub struct KvHandled {
    /// The source of its object.
    pub source: SourceId,
    /// None: the event is that the source is synced.
    pub key: Option<Key>,
    /// Reports the event's outcome to its listener. Called at most once, on any thread, before the transaction reads
    /// what listeners have acknowledged. If it is dropped instead, the event does not end: another replica receives it.
    pub report: Box<dyn FnOnce() + Send>,
}

impl std::fmt::Debug for KvHandled {
    fn fmt(&self, out: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        let Self { source, key, .. } = self;
        out.debug_struct("KvHandled")
            .field("source", source)
            .field("key", key)
            .finish_non_exhaustive()
    }
}

/// No keys, and what is set is forgotten at once. For checks, which keep nothing.
#[derive(Clone, Copy, Debug)]
pub struct NoKeys;

impl KeyValue for NoKeys {
    fn open(&self, _plugin: &str) -> KvOpening {
        Box::pin(async { Ok(Arc::new(NoKeys) as Arc<dyn KvSpace>) })
    }
}

impl KvSpace for NoKeys {
    fn get(&self, _key: &str) -> Option<Arc<[u8]>> {
        None
    }

    fn keys(&self, _prefix: &str, _cursor: &str, _max: usize) -> Vec<String> {
        Vec::new()
    }

    fn usage(&self) -> KvUsage {
        KvUsage::default()
    }

    fn failure(&self) -> Option<String> {
        None
    }

    fn commit(&self, _changes: Vec<KvChange>, handled: Option<KvHandled>) {
        if let Some(handled) = handled {
            (handled.report)();
        }
    }
}
