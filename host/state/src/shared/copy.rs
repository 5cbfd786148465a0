//! Copies rows between shared state and a database file, for `informant state copy`.

use std::io;
use std::path::Path;
use std::sync::Arc;

use redb::ReadableTable as _;

use super::journal::SharedJournal;
use crate::file::OpenError;
use crate::metrics::StateMetrics;
use crate::row::{Row, RowKey, RowKind};
use crate::schema::{self, RowError};
use crate::table_store::TableStore;
use crate::tables::damaged;

/// Why rows were not copied. Nothing was written.
#[derive(Debug, thiserror::Error)]
pub enum CopyError {
    /// The file cannot be opened.
    #[error(transparent)]
    Open(#[from] OpenError),
    /// The file can be neither read nor written.
    #[error("cannot copy shared state from or to the state database: {0}")]
    Database(#[from] Box<redb::Error>),
    /// The target has rows.
    #[error("the target has {rows} rows already: nothing was copied; replace them with --replace")]
    NotEmpty {
        /// How many.
        rows: usize,
    },
}

impl SharedJournal {
    /// All rows, as they are written or are to be.
    #[must_use]
    pub fn export(&self) -> Vec<Row> {
        self.table.rows()
    }

    /// Adds rows, which the next writes contain: step until it [is written](Self::is_written). With `replace`, all
    /// others are deleted. Returns how many were added.
    ///
    /// # Errors
    /// [`CopyError::NotEmpty`] if there are rows, without `replace`.
    pub fn import(&mut self, rows: Vec<Row>, replace: bool) -> Result<usize, CopyError> {
        let present = self.table.rows();
        if !present.is_empty() && !replace {
            return Err(CopyError::NotEmpty { rows: present.len() });
        }
        let copied = rows.len();
        let gone = present.into_iter().map(|row| (row.key, None));
        let added = rows.into_iter().map(|row| (row.key, Some(row.value)));
        self.table.change(gone.chain(added));
        Ok(copied)
    }
}

/// The rows in the file of a daemon that is stopped: the keys of all plugins, and what a copy of shared state has
/// besides.
///
/// # Errors
/// [`CopyError`] if it is in use, or cannot be read.
pub fn export_file(path: &Path) -> Result<Vec<Row>, CopyError> {
    if !path.exists() {
        let (path, source) = (path.to_owned(), io::ErrorKind::NotFound.into());
        return Err(OpenError::Io { path, source }.into());
    }
    let mut store = TableStore::open(path.to_owned(), None, StateMetrics::default())?;
    let rows = store.write(|tables| {
        let mut rows = Vec::new();
        for found in tables.plugin_keys.iter()? {
            let (key, value) = found?;
            let key = row_key(RowKind::Key, key.value()).map_err(damaged)?;
            let value = value.value().into();
            rows.push(Row { key, value });
        }
        for found in tables.shared_rows.iter()? {
            let (key, value) = found?;
            let key = shared_row_key(key.value()).map_err(damaged)?;
            let value = value.value().into();
            rows.push(Row { key, value });
        }
        rows.sort_by(|one, other| one.key.cmp(&other.key));
        Ok(rows)
    });
    Ok(rows.map_err(Box::new)?)
}

/// Writes rows to the file of a daemon that is stopped, in one transaction. With `replace`, all others are deleted.
/// Returns how many were written.
///
/// # Errors
/// [`CopyError`] if it is in use, cannot be written, or has rows and `replace` is not set.
pub fn import_file(path: &Path, rows: &[Row], replace: bool) -> Result<usize, CopyError> {
    let mut store = TableStore::open(path.to_owned(), None, StateMetrics::default())?;
    let written = store.write(|tables| {
        let present = tables.plugin_keys.iter()?.count() + tables.shared_rows.iter()?.count();
        if present > 0 && !replace {
            return Ok(Err(present));
        }
        tables.plugin_keys.retain(|_, _| false)?;
        tables.shared_rows.retain(|_, _| false)?;
        for Row { key, value } in rows {
            let row_key = schema::plugin_key(&key.plugin, &key.key);
            match key.kind {
                RowKind::Key => drop(tables.plugin_keys.insert(&row_key[..], &value[..])?),
                kind => {
                    let row_key = [&[kind as u8], &row_key[..]].concat();
                    tables.shared_rows.insert(&row_key[..], &value[..])?;
                }
            }
        }
        Ok(Ok(()))
    });
    match written.map_err(Box::new)? {
        Err(rows) => Err(CopyError::NotEmpty { rows }),
        Ok(()) => Ok(rows.len()),
    }
}

fn shared_row_key(bytes: &[u8]) -> Result<RowKey, RowError> {
    let (kind, bytes) = bytes.split_first().ok_or(RowError::Malformed)?;
    row_key(RowKind::of(*kind).ok_or(RowError::Malformed)?, bytes)
}

fn row_key(kind: RowKind, bytes: &[u8]) -> Result<RowKey, RowError> {
    let text = std::str::from_utf8(bytes).map_err(|_| RowError::Malformed)?;
    let (plugin, key) = text.split_once('\0').ok_or(RowError::Malformed)?;
    Ok(RowKey {
        plugin: Arc::from(plugin),
        kind,
        key: Arc::from(key),
    })
}
