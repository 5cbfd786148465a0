//! What plugins remember, in the state database: the plugin host's `KeyValue`.

use std::sync::Arc;

use informant_plugin_host::{KeyValue, KvChange, KvHandled, KvHeld, KvOpening, KvSpace, KvUsage};
use informant_state::{EventEnd, KeySpace};

use super::durable_state::DurableState;

/// The keys of all plugins. The database is opened when the first plugin uses them.
pub(super) struct PluginKeys(DurableState);

/// The keys of one plugin.
struct Keys(KeySpace);

impl PluginKeys {
    pub(super) fn new(durables: DurableState) -> PluginKeys {
        PluginKeys(durables)
    }
}

impl KeyValue for PluginKeys {
    fn open(&self, plugin: &str) -> KvOpening {
        let (durables, plugin) = (self.0.clone(), plugin.to_owned());
        Box::pin(async move {
            let state = durables.state().await.map_err(|error| error.to_string())?;
            // Waits for the disk.
            let opened = tokio::task::spawn_blocking(move || state.keys(&plugin)).await;
            let keys = opened.map_err(|error| error.to_string())?;
            let keys = keys.map_err(|error| error.to_string())?;
            Ok(Arc::new(Keys(keys)) as Arc<dyn KvSpace>)
        })
    }
}

impl KvSpace for Keys {
    fn get(&self, key: &str) -> Option<Arc<[u8]>> {
        self.0.get(key)
    }

    fn keys(&self, prefix: &str, cursor: &str, max: usize) -> Vec<String> {
        self.0.keys(prefix, cursor, max)
    }

    fn usage(&self) -> KvUsage {
        let (keys, bytes) = self.0.usage();
        KvUsage { keys, bytes }
    }

    fn failure(&self) -> Option<String> {
        self.0.is_failing().then(|| {
            "the state database cannot be written, so that keys cannot be changed; the log says why, for example a full \
             disk"
                .to_owned()
        })
    }

    fn commit(&self, changes: Vec<KvChange>, handled: Option<KvHandled>) {
        self.0.commit(changes, handled.map(event_end));
    }

    fn hold(&self, changes: Vec<KvChange>) -> KvHeld {
        let held = self.0.hold(changes);
        Box::new(move |handled| held.end(event_end(handled)))
    }
}

fn event_end(KvHandled { source, key, report }: KvHandled) -> EventEnd {
    EventEnd { source, key, report }
}
