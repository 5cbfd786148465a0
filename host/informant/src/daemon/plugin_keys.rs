//! What plugins remember, in the state database or in shared state: the plugin host's `KeyValue`.

use std::sync::Arc;

use informant_config::{Config, KeyStore};
use informant_plugin_host::{KeyValue, KvChange, KvHandled, KvHeld, KvOpening, KvSpace, KvUsage};
use informant_state::{EventEnd, KeySpace};

use super::durable_state::DurableState;
use super::shared_state::SharedState;

/// Why no plugin may use keys.
const DENIED_IN_FILES: &str = "kv is denied: with [ha], what a plugin remembers must be the same in all replicas, and \
                               the state database is a file of each; set store = \"kubernetes\" in [state], or remove \
                               [ha]";

/// The keys of all plugins.
pub(super) enum PluginKeys {
    /// The database is opened when the first plugin uses them.
    File(DurableState),
    /// They are read when this process begins to act.
    Shared(SharedState),
    /// There would be others in each replica.
    Denied,
}

/// The keys of one plugin.
struct Keys {
    space: KeySpace,
    /// None: they are in a file.
    shared: Option<SharedState>,
}

impl PluginKeys {
    /// The keys as the configuration says; none if it says nothing of them.
    pub(super) fn of(config: &Config, durables: &DurableState, shared: Option<&SharedState>) -> Option<PluginKeys> {
        match config.key_store() {
            KeyStore::Nowhere => None,
            KeyStore::File => Some(PluginKeys::File(durables.clone())),
            KeyStore::Secrets => Some(shared.cloned().map_or(PluginKeys::Denied, PluginKeys::Shared)),
            KeyStore::FileOfEachReplica => Some(PluginKeys::Denied),
        }
    }
}

async fn in_file(durables: DurableState, plugin: String) -> Result<KeySpace, String> {
    let state = durables.state().await.map_err(|error| error.to_string())?;
    // Waits for the disk.
    let opened = tokio::task::spawn_blocking(move || state.keys(&plugin)).await;
    let keys = opened.map_err(|error| error.to_string())?;
    keys.map_err(|error| error.to_string())
}

impl KeyValue for PluginKeys {
    fn open(&self, plugin: &str) -> KvOpening {
        let plugin = plugin.to_owned();
        match self {
            PluginKeys::File(durables) => {
                let durables = durables.clone();
                Box::pin(async move {
                    let space = in_file(durables, plugin).await?;
                    Ok(Arc::new(Keys { space, shared: None }) as Arc<dyn KvSpace>)
                })
            }
            PluginKeys::Shared(shared) => {
                let shared = shared.clone();
                Box::pin(async move {
                    let space = shared.keys(&plugin).await?;
                    let shared = Some(shared);
                    Ok(Arc::new(Keys { space, shared }) as Arc<dyn KvSpace>)
                })
            }
            PluginKeys::Denied => Box::pin(async { Err(DENIED_IN_FILES.to_owned()) }),
        }
    }

    fn denied(&self) -> Option<&'static str> {
        matches!(self, PluginKeys::Denied).then_some(DENIED_IN_FILES)
    }
}

impl KvSpace for Keys {
    fn get(&self, key: &str) -> Option<Arc<[u8]>> {
        self.space.get(key)
    }

    fn keys(&self, prefix: &str, cursor: &str, max: usize) -> Vec<String> {
        self.space.keys(prefix, cursor, max)
    }

    fn usage(&self) -> KvUsage {
        let (keys, bytes) = self.space.usage();
        KvUsage { keys, bytes }
    }

    fn room(&self) -> usize {
        self.space.room()
    }

    fn failure(&self) -> Option<String> {
        self.space.is_failing().then(|| match &self.shared {
            None => "the state database cannot be written, so that keys cannot be changed; the log says why, for \
                     example a full disk"
                .to_owned(),
            Some(shared) => {
                let why = shared.failure();
                format!("shared state cannot be written, so that keys cannot be changed: {why}")
            }
        })
    }

    fn commit(&self, changes: Vec<KvChange>, handled: Option<KvHandled>) {
        self.space.commit(changes, handled.map(event_end));
    }

    fn hold(&self, changes: Vec<KvChange>) -> KvHeld {
        let held = self.space.hold(changes);
        Box::new(move |handled| held.end(event_end(handled)))
    }
}

fn event_end(KvHandled { source, key, report }: KvHandled) -> EventEnd {
    EventEnd { source, key, report }
}
