//! The tables within a transaction.

use redb::{Range, ReadableTable as _, Table, WriteTransaction};

use crate::schema::{self, RowError};

type Rows<'t> = Table<'t, &'static [u8], &'static [u8]>;

/// The tables within a transaction.
pub(crate) struct Tables<'t> {
    pub(crate) sources: Rows<'t>,
    pub(crate) objects: Rows<'t>,
    pub(crate) handlers: Rows<'t>,
    pub(crate) open: Rows<'t>,
    pub(crate) ended: Rows<'t>,
    pub(crate) dead_letters: Rows<'t>,
    pub(crate) requeues: Rows<'t>,
    pub(crate) plugin_keys: Rows<'t>,
    pub(crate) shared_rows: Rows<'t>,
}

/// Opens the tables; those that the file lacks are created.
pub(crate) fn tables(transaction: &WriteTransaction) -> Result<Tables<'_>, redb::Error> {
    Ok(Tables {
        sources: transaction.open_table(schema::SOURCES)?,
        objects: transaction.open_table(schema::OBJECTS)?,
        handlers: transaction.open_table(schema::HANDLERS)?,
        open: transaction.open_table(schema::OPEN)?,
        ended: transaction.open_table(schema::ENDED)?,
        dead_letters: transaction.open_table(schema::DEAD_LETTERS)?,
        requeues: transaction.open_table(schema::REQUEUES)?,
        plugin_keys: transaction.open_table(schema::PLUGIN_KEYS)?,
        shared_rows: transaction.open_table(schema::SHARED_ROWS)?,
    })
}

impl Tables<'_> {
    /// Deletes all objects, handlers and open keys of a source.
    pub(crate) fn clear(&mut self, source: u32) -> Result<(), redb::Error> {
        let prefix = source.to_be_bytes();
        let tables = [
            &mut self.objects,
            &mut self.handlers,
            &mut self.open,
            &mut self.ended,
            &mut self.dead_letters,
            &mut self.requeues,
        ];
        for rows in tables {
            clear_prefix(rows, &prefix)?;
        }
        Ok(())
    }

    pub(crate) fn clear_handler(&mut self, source: u32, handler: &str) -> Result<(), redb::Error> {
        self.handlers.remove(&schema::handler_key(source, handler)[..])?;
        let prefix = schema::open_prefix(source, handler);
        let rows_by_key = [
            &mut self.open,
            &mut self.ended,
            &mut self.dead_letters,
            &mut self.requeues,
        ];
        for rows in rows_by_key {
            clear_prefix(rows, &prefix)?;
        }
        Ok(())
    }
}

/// The rows whose keys begin with `prefix`.
pub(crate) fn with_prefix<'r>(
    rows: &'r Rows<'_>,
    prefix: &[u8],
) -> Result<Range<'r, &'static [u8], &'static [u8]>, redb::Error> {
    Ok(rows.range::<&[u8]>(prefix..&schema::after(prefix)[..])?)
}

/// Deletes the rows whose keys begin with `prefix`.
pub(crate) fn clear_prefix(rows: &mut Rows<'_>, prefix: &[u8]) -> Result<(), redb::Error> {
    Ok(rows.retain_in::<&[u8], _>(prefix..&schema::after(prefix)[..], |_, _| false)?)
}

/// A row that cannot be read, as an error of the database.
pub(crate) fn damaged(error: RowError) -> redb::Error {
    redb::Error::Corrupted(error.to_string())
}
