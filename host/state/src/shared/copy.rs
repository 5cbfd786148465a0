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
    #[error("cannot copy plugin keys from or to the state database: {0}")]
    Database(#[from] Box<redb::Error>),
    /// The target has rows.
    #[error("the target has {rows} rows already: nothing was copied; replace them with --replace")]
    NotEmpty {
        /// How many.
        rows: usize,
    },
}

/// What was copied.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Copied {
    /// How many rows.
    pub rows: usize,
    /// Rows for which the target has no place: a file has the keys of plugins only.
    pub left_out: usize,
}

impl SharedJournal {
    /// All rows, as they are written or are to be.
    #[must_use]
    pub fn export(&self) -> Vec<Row> {
        self.table.rows()
    }

    /// Adds rows, which the next writes contain: step until it [is written](Self::is_written). With `replace`, all
    /// others are deleted.
    ///
    /// # Errors
    /// [`CopyError::NotEmpty`] if there are rows, without `replace`.
    pub fn import(&mut self, rows: Vec<Row>, replace: bool) -> Result<Copied, CopyError> {
        let present = self.table.rows();
        if !present.is_empty() && !replace {
            return Err(CopyError::NotEmpty { rows: present.len() });
        }
        let copied = Copied {
            rows: rows.len(),
            left_out: 0,
        };
        let gone = present.into_iter().map(|row| (row.key, None));
        let added = rows.into_iter().map(|row| (row.key, Some(row.value)));
        self.table.change(gone.chain(added));
        Ok(copied)
    }
}

/// The keys of all plugins in the file of a daemon that is stopped.
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
            let key = row_key(key.value()).map_err(damaged)?;
            let value = value.value().into();
            rows.push(Row { key, value });
        }
        Ok(rows)
    });
    Ok(rows.map_err(Box::new)?)
}

/// Writes the keys of plugins to the file of a daemon that is stopped, in one transaction. With `replace`, all others
/// are deleted.
///
/// # Errors
/// [`CopyError`] if it is in use, cannot be written, or has keys and `replace` is not set.
pub fn import_file(path: &Path, rows: &[Row], replace: bool) -> Result<Copied, CopyError> {
    let mut store = TableStore::open(path.to_owned(), None, StateMetrics::default())?;
    let keys = || rows.iter().filter(|row| row.key.kind == RowKind::Key);
    let written = store.write(|tables| {
        let present = tables.plugin_keys.iter()?.count();
        if present > 0 && !replace {
            return Ok(Err(present));
        }
        tables.plugin_keys.retain(|_, _| false)?;
        for Row { key, value } in keys() {
            let row_key = schema::plugin_key(&key.plugin, &key.key);
            tables.plugin_keys.insert(&row_key[..], &value[..])?;
        }
        Ok(Ok(()))
    });
    match written.map_err(Box::new)? {
        Err(rows) => Err(CopyError::NotEmpty { rows }),
        Ok(()) => Ok(Copied {
            rows: keys().count(),
            left_out: rows.len() - keys().count(),
        }),
    }
}

fn row_key(bytes: &[u8]) -> Result<RowKey, RowError> {
    let text = std::str::from_utf8(bytes).map_err(|_| RowError::Malformed)?;
    let (plugin, key) = text.split_once('\0').ok_or(RowError::Malformed)?;
    Ok(RowKey {
        plugin: Arc::from(plugin),
        kind: RowKind::Key,
        key: Arc::from(key),
    })
}
