//! The database while it is well, and while it is not.

use std::panic::{AssertUnwindSafe, catch_unwind};
use std::path::PathBuf;
use std::time::Instant;

use redb::{Database, Table, WriteTransaction};

use crate::file::{self, OpenError, Opened};
use crate::metrics::StateMetrics;
use crate::row;

type Rows<'t> = Table<'t, &'static [u8], &'static [u8]>;

/// The tables within a transaction.
pub(crate) struct Tables<'t> {
    pub(crate) sources: Rows<'t>,
    pub(crate) objects: Rows<'t>,
    pub(crate) handlers: Rows<'t>,
    pub(crate) open: Rows<'t>,
}

/// How the database is opened, each time anew.
type Opener = Box<dyn Fn() -> Result<Opened, OpenError> + Send>;

pub(crate) struct Store {
    path: PathBuf,
    opener: Opener,
    database: Option<Database>,
    metrics: StateMetrics,
}

impl Store {
    /// Opens the file, or makes it.
    pub(crate) fn open(path: PathBuf, metrics: StateMetrics) -> Result<Self, OpenError> {
        let file = path.clone();
        Self::open_by(Box::new(move || file::open(&file)), path, metrics)
    }

    /// Opens the database by other means. `path` is its name in messages.
    pub(crate) fn open_by(opener: Opener, path: PathBuf, metrics: StateMetrics) -> Result<Self, OpenError> {
        let mut store = Self {
            path,
            opener,
            database: None,
            metrics,
        };
        store.reopen()?;
        Ok(store)
    }

    pub(crate) fn is_well(&self) -> bool {
        self.database.is_some()
    }

    /// Opens the file again, if it is closed. Whether it is open.
    pub(crate) fn reopen(&mut self) -> Result<(), OpenError> {
        if self.database.is_some() {
            return Ok(());
        }
        let opened = (self.opener)()?;
        if let Some((aside, reason)) = opened.set_aside {
            let (path, aside) = (self.path.display(), aside.display());
            tracing::warn!(
                "{path} cannot be believed: {reason}; it is now {aside}, and durable informers begin anew: what vanished meanwhile is not told"
            );
            self.metrics.set_aside.inc();
        }
        self.database = Some(opened.database);
        self.metrics.failing.set(0);
        Ok(())
    }

    /// Has `write` fill a transaction, and flushes it to the disk. After an error the database is closed until
    /// [`reopen`](Self::reopen).
    pub(crate) fn write<T>(
        &mut self,
        write: impl FnOnce(&mut Tables<'_>) -> Result<T, redb::Error>,
    ) -> Result<T, redb::Error> {
        let Some(database) = &self.database else {
            return Err(redb::Error::PreviousIo);
        };
        let began = Instant::now();
        // A damaged page that nobody saw at the start shows as a panic of the reader in the worst case.
        let written = catch_unwind(AssertUnwindSafe(|| {
            let transaction = database.begin_write()?;
            let value = write(&mut tables(&transaction)?)?;
            transaction.commit()?;
            Ok(value)
        }));
        let written = written.unwrap_or_else(|_| Err(redb::Error::Corrupted("it is damaged".to_owned())));
        match &written {
            Ok(_) => {
                self.metrics.commits.inc();
                self.metrics.commit_seconds.inc_by(began.elapsed().as_secs_f64());
                if let Ok(about) = std::fs::metadata(&self.path) {
                    self.metrics
                        .file_bytes
                        .set(i64::try_from(about.len()).unwrap_or(i64::MAX));
                }
            }
            Err(error) => self.fail(error),
        }
        written
    }

    fn fail(&mut self, error: &redb::Error) {
        self.database = None;
        self.metrics.errors.inc();
        self.metrics.failing.set(1);
        let path = self.path.display();
        tracing::error!(
            "{path}: {error}; events go out although they cannot be kept: what is deleted from now until a restart may not be told after it"
        );
        if file::is_damage(error)
            && let Ok(aside) = file::set_aside(&self.path)
        {
            tracing::warn!("{path} is damaged and is now {}", aside.display());
            self.metrics.set_aside.inc();
        }
    }
}

#[cfg(test)]
impl Store {
    /// Fails as if the disk were full.
    pub(crate) fn break_off(&mut self) {
        self.fail(&redb::Error::Io(std::io::ErrorKind::StorageFull.into()));
    }
}

fn tables(transaction: &WriteTransaction) -> Result<Tables<'_>, redb::Error> {
    Ok(Tables {
        sources: transaction.open_table(row::SOURCES)?,
        objects: transaction.open_table(row::OBJECTS)?,
        handlers: transaction.open_table(row::HANDLERS)?,
        open: transaction.open_table(row::OPEN)?,
    })
}

impl Tables<'_> {
    /// Forgets all objects, handlers and open keys of a source.
    pub(crate) fn clear(&mut self, source: u32) -> Result<(), redb::Error> {
        let prefix = source.to_be_bytes();
        let end = row::after(&prefix);
        for rows in [&mut self.objects, &mut self.handlers, &mut self.open] {
            rows.retain_in::<&[u8], _>(&prefix[..]..&end[..], |_, _| false)?;
        }
        Ok(())
    }

    /// Forgets a handler.
    pub(crate) fn clear_handler(&mut self, source: u32, handler: &str) -> Result<(), redb::Error> {
        self.handlers.remove(&row::handler_key(source, handler)[..])?;
        let prefix = row::open_prefix(source, handler);
        let end = row::after(&prefix);
        self.open.retain_in::<&[u8], _>(&prefix[..]..&end[..], |_, _| false)?;
        Ok(())
    }
}
