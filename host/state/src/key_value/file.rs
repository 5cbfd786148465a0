//! The keys of plugins in the database file.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use super::rows::Rows;
use super::table::{KeyBatch, KeyTable};
use crate::row::RowKind;
use crate::schema::{self, RowError};
use crate::table_store::TableStore;
use crate::tables::{Tables, damaged, with_prefix};

impl KeyTable {
    /// Reads the keys of a plugin, unless they are open.
    pub(crate) fn load(&self, store: &mut TableStore, plugin: &Arc<str>) -> Result<(), redb::Error> {
        let space = (Arc::clone(plugin), RowKind::Key);
        if self.has(&space) {
            return Ok(());
        }
        let rows = store.write(|tables| {
            let mut rows = Rows::default();
            let prefix = schema::plugin_prefix(plugin);
            for found in with_prefix(&tables.plugin_keys, &prefix)? {
                let (key, value) = found?;
                let key = std::str::from_utf8(&key.value()[prefix.len()..]);
                let key = key.map_err(|_| damaged(RowError::Malformed))?;
                rows.set(key, Some(value.value().into()));
            }
            Ok(rows)
        })?;
        self.insert(space, rows);
        Ok(())
    }
}

impl KeyBatch {
    /// Writes keys. No rows of another kind are in the table of a file.
    pub(crate) fn write(&self, tables: &mut Tables<'_>) -> Result<(), redb::Error> {
        for ((plugin, _), (key, value)) in &self.changes {
            let row_key = schema::plugin_key(plugin, key);
            match value {
                Some(value) => drop(tables.plugin_keys.insert(&row_key[..], &value[..])?),
                None => drop(tables.plugin_keys.remove(&row_key[..])?),
            }
        }
        Ok(())
    }
}

/// Deletes the keys of all plugins but these, and what only a copy of shared state has: it would be out of date.
pub(crate) fn keep_only(store: &mut TableStore, plugins: &BTreeSet<String>) {
    let mut gone: BTreeMap<String, usize> = BTreeMap::new();
    // On failure, the next start deletes them.
    let deleted = store.write(|tables| {
        let mut stays = |key: &[u8]| {
            let plugin = String::from_utf8_lossy(key.split(|byte| *byte == 0).next().unwrap_or_default());
            let stays = plugins.contains(&*plugin);
            if !stays {
                *gone.entry(plugin.into_owned()).or_default() += 1;
            }
            stays
        };
        tables.shared_rows.retain(|_, _| false)?;
        Ok(tables.plugin_keys.retain(|key, _| stays(key))?)
    });
    if deleted.is_ok() {
        for (plugin, keys) in gone {
            tracing::warn!(%plugin, keys, "plugin keys deleted, because config.toml has no such plugin");
        }
    }
}
