//! The recorder thread: one transaction for everything that is pending, of all sources.

use std::sync::{Arc, PoisonError};
use std::time::{Duration, Instant};

use redb::ReadableTable as _;

use crate::batch::SourceBatch;
use crate::command::{RecorderCommand, Shared};
use crate::journal::{SourceJournal, SourceQueue};
use crate::key_value;
use crate::metrics::StateMetrics;
use crate::schema::SourceRow;
use crate::source::{PersistedSource, Purge, SourceIdentity, SourceOptions, source_row};
use crate::table_store::TableStore;
use crate::tables::damaged;

/// The minimum interval between two transactions. A single change is written, flushed and delivered at once; a stream
/// of changes is batched at this interval.
pub const COMMIT_INTERVAL: Duration = Duration::from_millis(50);

/// How often listeners are checked for acknowledgements while any key is open.
pub const ACKNOWLEDGED_INTERVAL: Duration = Duration::from_millis(200);

/// How often a failed database is reopened.
pub const REOPEN_INTERVAL: Duration = Duration::from_secs(5);

/// The pause between checks while no key is open.
const IDLE: Duration = Duration::from_secs(1);

pub(crate) struct Recorder {
    store: TableStore,
    shared: Arc<Shared>,
    metrics: StateMetrics,
    pub(crate) sources: Vec<PersistedSource>,
    /// What could not be deleted while the database failed.
    forgetting: Vec<Purge>,
    stopped: bool,
}

impl Recorder {
    pub(crate) fn new(store: TableStore, shared: Arc<Shared>, metrics: StateMetrics) -> Self {
        Self {
            store,
            shared,
            metrics,
            sources: Vec::new(),
            forgetting: Vec::new(),
            stopped: false,
        }
    }

    /// Runs until it is stopped; writes everything that is pending first.
    pub(crate) fn run(mut self) {
        let mut committed: Option<Instant> = None;
        let mut failed: Option<Instant> = None;
        while !self.stopped {
            self.shared.waker.wait(self.pause());
            if let Some(left) = committed.and_then(|at| COMMIT_INTERVAL.checked_sub(at.elapsed())) {
                std::thread::sleep(left);
            }
            if !self.store.is_open() {
                let at = *failed.get_or_insert_with(Instant::now);
                if at.elapsed() >= REOPEN_INTERVAL {
                    failed = None;
                    self.reopen();
                }
            }
            if self.run_once() {
                committed = Some(Instant::now());
            }
        }
    }

    /// The longest pause between two runs while nothing is pending.
    pub(crate) fn pause(&self) -> Duration {
        if self.sources.iter().any(PersistedSource::awaits_acknowledgements) {
            ACKNOWLEDGED_INTERVAL
        } else {
            IDLE
        }
    }

    /// Whether something was delivered that is not persisted.
    #[cfg(test)]
    pub(crate) fn is_behind(&self) -> bool {
        !self.store.is_open() || self.sources.iter().any(PersistedSource::needs_reconcile)
    }

    #[cfg(test)]
    pub(crate) fn store(&mut self) -> &mut TableStore {
        &mut self.store
    }

    pub(crate) fn reopen(&mut self) {
        match self.store.reopen() {
            Ok(()) => {
                tracing::info!("state database recovered");
                self.shared.keys.write_all();
                self.forget();
                self.compare();
            }
            Err(error) => tracing::warn!(%error, code = "state-failing", "cannot reopen the state database; retrying"),
        }
    }

    /// Invalidates sources whose rows differ from what was written: the file may have been replaced.
    fn compare(&mut self) {
        let sources = &mut self.sources;
        // On failure, the next run compares again.
        let _ = self.store.write(|tables| {
            for source in sources.iter_mut().filter(|source| source.is_verified) {
                let found = tables.sources.get(&source.options.identity.row_key()[..])?;
                let found = found.map(|row| SourceRow::decode(row.value())).transpose();
                if found.map_err(damaged)?.is_none_or(|row| row.number != source.number) {
                    source.invalidate();
                }
            }
            Ok(())
        });
    }

    /// Writes everything that is pending and delivers it. Returns whether there was anything.
    pub(crate) fn run_once(&mut self) -> bool {
        let commits = self.store.commits();
        let batches = self.commit();
        let any = batches.iter().any(SourceBatch::has_changes);
        self.deliver(batches);
        any || self.store.commits() != commits
    }

    /// The first half of [`run_once`](Self::run_once): pending changes are on the disk afterwards, and nothing is
    /// delivered yet.
    pub(crate) fn commit(&mut self) -> Vec<SourceBatch> {
        self.handle_commands();
        let mut keys = self.shared.keys.take();
        // Before acknowledgements are read: they are written together.
        let ended = keys.report_ends();
        let gather = |source: &mut PersistedSource| source.gather(&ended);
        let mut batches: Vec<SourceBatch> = self.sources.iter_mut().map(gather).collect();
        let is_behind =
            |source: &PersistedSource| source.high_water_advanced() || self.store.is_open() && source.needs_reconcile();
        let has_keys = !keys.is_empty() && self.store.is_open();
        if !has_keys && !batches.iter().any(SourceBatch::has_changes) && !self.sources.iter().any(is_behind) {
            self.shared.keys.failed(keys);
            return batches;
        }
        let names = self.shared.names.lock().unwrap_or_else(PoisonError::into_inner).clone();
        let sources = &mut self.sources;
        let kept = self.store.write(|tables| {
            keys.write(tables)?;
            for (source, batch) in sources.iter_mut().zip(&mut batches) {
                if !source.is_transient {
                    source.keep(tables, batch, &names)?;
                }
            }
            Ok(())
        });
        if kept.is_err() {
            self.shared.keys.failed(keys);
        }
        for (source, batch) in self.sources.iter_mut().zip(&mut batches) {
            if kept.is_ok() && !source.is_transient {
                source.left.clear();
                source.unpersisted_deletes.clear();
                source.report_open_keys();
            } else {
                source.persist_failed(batch, &names);
            }
        }
        batches
    }

    /// The second half: delivery to listeners. Batches belong to sources by position; since the commit only new sources
    /// have come.
    pub(crate) fn deliver(&mut self, batches: Vec<SourceBatch>) {
        for (source, batch) in self.sources.iter_mut().zip(batches) {
            source.deliver(batch);
        }
        let is_finished = |source: &mut PersistedSource| source.queue.is_finished();
        let over: Vec<PersistedSource> = self.sources.extract_if(.., is_finished).collect();
        for source in over {
            source.release_replays();
            if source.forget_at_end && !source.is_transient {
                self.forgetting.push(Purge::Source(source.options.identity));
                self.forget();
            }
        }
    }

    /// Handles commands. New sources come last, and none goes.
    pub(crate) fn handle_commands(&mut self) {
        for command in self.shared.take() {
            match command {
                RecorderCommand::Open(options, reply) => {
                    let source = self.open(*options);
                    // The receiver may be gone.
                    let _ = reply.send(source);
                }
                RecorderCommand::Forget(what) => {
                    let goes = |source: &&mut PersistedSource| what.covers(&source.options.identity.row_key());
                    self.sources
                        .iter_mut()
                        .filter(goes)
                        .for_each(PersistedSource::stop_persisting);
                    if let Purge::Informer(informer, cluster) = &what {
                        self.metrics.forget_informer(informer, cluster);
                    }
                    self.forgetting.push(what);
                    self.forget();
                }
                RecorderCommand::ForgetAtEnd(informer, cluster) => {
                    let is_it = |known: &SourceIdentity| known.informer == informer && known.cluster == cluster;
                    let sources = self.sources.iter_mut();
                    sources
                        .filter(|source| is_it(&source.options.identity))
                        .for_each(|source| source.forget_at_end = true);
                }
                RecorderCommand::OpenKeys(plugin, reply) => {
                    let opened = self.shared.keys.load(&mut self.store, &plugin);
                    // The receiver may be gone.
                    let _ = reply.send(opened.map_err(|error| error.to_string()));
                }
                RecorderCommand::KeepOnlyPlugins(plugins) => key_value::keep_only(&mut self.store, &plugins),
                RecorderCommand::Stop => {
                    self.stopped = true;
                    self.sources.iter().for_each(|source| source.queue.end());
                }
            }
        }
    }

    fn open(&mut self, options: SourceOptions) -> SourceJournal {
        let identity = &options.identity;
        let metrics = Arc::new(self.metrics.source(&identity.informer, &identity.cluster));
        // If the database cannot be read now, it is read again before the first row is written.
        let found = self.store.write(|tables| source_row(tables, &options));
        let kept = found.unwrap_or_default();
        let queue = SourceQueue::new(kept.high_water, Arc::clone(&self.shared.waker), Arc::clone(&metrics));
        let queue = Arc::new(queue);
        let state = SourceJournal(Arc::clone(&queue));
        let mut opened = PersistedSource::new(options, queue, metrics);
        opened.number = kept.number;
        // If two sources have the same identity, the newer one is persisted. The older one still delivers, unpersisted.
        let is_same = |source: &&mut PersistedSource| source.options.identity == opened.options.identity;
        for older in self.sources.iter_mut().filter(is_same) {
            let (_, has_more) = older.queue.waiting();
            opened.versions_incomparable |= older.forget_at_end || has_more;
            older.stop_persisting();
        }
        self.sources.push(opened);
        state
    }

    /// Deletes what is to be deleted. What cannot be deleted now is deleted before the database is written again.
    fn forget(&mut self) {
        let forgetting = &self.forgetting;
        let forgotten = self.store.write(|tables| {
            let mut gone = Vec::new();
            for found in tables.sources.iter()? {
                let (key, value) = found?;
                if forgetting.iter().any(|what| what.covers(key.value())) {
                    let row = SourceRow::decode(value.value()).map_err(damaged)?;
                    gone.push((key.value().to_vec(), row.number));
                }
            }
            for (key, number) in gone {
                tables.sources.remove(&key[..])?;
                tables.clear(number)?;
            }
            Ok(())
        });
        if forgotten.is_ok() {
            self.forgetting.clear();
        }
    }
}

/// Releases everybody who waits for the recorder, however it ends.
impl Drop for Recorder {
    fn drop(&mut self) {
        if std::thread::panicking() {
            self.metrics
                .set_failure(Some("its thread panicked, which is a bug in Informant".to_owned()));
        }
        self.shared.end();
        for source in &self.sources {
            source.queue.end();
            let left = source.queue.take();
            left.into_iter().for_each(|entry| source.queue.discard(entry));
            source.release_replays();
        }
    }
}
