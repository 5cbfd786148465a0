//! The database connection, and its failures.

use std::panic::{AssertUnwindSafe, catch_unwind};
use std::path::PathBuf;
use std::time::Instant;

use redb::Database;

use crate::file::{self, OpenError, OpenedDatabase};
use crate::metrics::StateMetrics;
use crate::tables::{Tables, tables};

type Opener = Box<dyn Fn() -> Result<OpenedDatabase, OpenError> + Send>;

pub(crate) struct TableStore {
    path: PathBuf,
    opener: Opener,
    database: Option<Database>,
    metrics: StateMetrics,
}

impl TableStore {
    /// Opens the file, or creates it. If an `owner` is given, one of another owner is refused.
    pub(crate) fn open(path: PathBuf, owner: Option<String>, metrics: StateMetrics) -> Result<Self, OpenError> {
        let file = path.clone();
        Self::open_by(Box::new(move || file::open(&file, owner.as_deref())), path, metrics)
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

    pub(crate) fn commits(&self) -> u64 {
        self.metrics.commits.get()
    }

    pub(crate) fn is_open(&self) -> bool {
        self.database.is_some()
    }

    /// Opens the file again, if it is closed.
    pub(crate) fn reopen(&mut self) -> Result<(), OpenError> {
        if self.database.is_some() {
            return Ok(());
        }
        let opened = (self.opener)()?;
        if let Some((aside, reason)) = opened.set_aside {
            let (path, aside) = (self.path.display(), aside.display());
            tracing::warn!(%path, moved_to = %aside, error = %reason, "state database set aside; starting with an empty one, deletes while Informant was down are not reported");
            self.metrics.set_aside.inc();
        }
        self.database = Some(opened.database);
        self.metrics.set_failure(None);
        Ok(())
    }

    /// Runs `write` in a transaction and flushes it to the disk. After an error the database is closed until
    /// [`reopen`](Self::reopen).
    pub(crate) fn write<T>(
        &mut self,
        write: impl FnOnce(&mut Tables<'_>) -> Result<T, redb::Error>,
    ) -> Result<T, redb::Error> {
        let Some(database) = &self.database else {
            return Err(redb::Error::PreviousIo);
        };
        let began = Instant::now();
        self.metrics.set_writing(Some(began));
        // A damaged page that was not found at start may cause a panic in the reader.
        let written = catch_unwind(AssertUnwindSafe(|| {
            let transaction = database.begin_write()?;
            let value = write(&mut tables(&transaction)?)?;
            transaction.commit()?;
            Ok(value)
        }));
        let written = written.unwrap_or_else(|_| Err(redb::Error::Corrupted("the file is damaged".to_owned())));
        self.metrics.set_writing(None);
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
        self.metrics
            .set_failure(Some(format!("cannot write {}: {error}", self.path.display())));
        let path = self.path.display();
        tracing::error!(%path, %error, code = "state-failing", "state database write failed; events are delivered without being persisted, and deletes until the next restart may not be reported after it");
        if file::is_corruption(error)
            && let Ok(aside) = file::set_aside(&self.path)
        {
            tracing::warn!(%path, moved_to = %aside.display(), "damaged state database moved");
            self.metrics.set_aside.inc();
        }
    }
}

#[cfg(test)]
impl TableStore {
    /// Fails as if the disk were full.
    pub(crate) fn fail_disk_full(&mut self) {
        self.fail(&redb::Error::Io(std::io::ErrorKind::StorageFull.into()));
    }
}
