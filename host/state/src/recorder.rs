//! The thread that writes: one transaction for all that has come meanwhile, of all sources.

use std::collections::BTreeSet;
use std::sync::mpsc::Sender;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::{Duration, Instant};

use redb::ReadableTable as _;

use crate::catch_up::damaged;
use crate::group::Group;
use crate::metrics::StateMetrics;
use crate::queue::{Bell, Inbox, SourceState};
use crate::row::SourceRow;
use crate::source::{Names, Recorded, SourceIdentity, SourceOptions};
use crate::store::{Store, Tables};

/// The least time between two transactions. What comes alone is written, flushed and handed on at once; what comes in a stream waits so long for company.
pub const COMMIT_INTERVAL: Duration = Duration::from_millis(50);

/// How often listeners are asked what they have acknowledged, while anything is open.
pub const ACKNOWLEDGED_INTERVAL: Duration = Duration::from_millis(200);

/// How often a database that failed is tried again.
pub const REOPEN_INTERVAL: Duration = Duration::from_secs(5);

/// How long nothing is looked at while nothing is open.
const IDLE: Duration = Duration::from_secs(1);

/// What the owner of the state wants.
pub(crate) enum Command {
    Open(Box<SourceOptions>, Sender<SourceState>),
    /// Forget an informer in a cluster.
    Forget(String, String),
    /// Forget all but these informers.
    KeepOnly(BTreeSet<String>),
    Stop,
}

/// What the recorder shares with the owner.
#[derive(Default)]
pub(crate) struct Shared {
    pub(crate) bell: Arc<Bell>,
    pub(crate) commands: Mutex<Vec<Command>>,
    pub(crate) names: Mutex<Names>,
}

pub(crate) struct Recorder {
    store: Store,
    shared: Arc<Shared>,
    metrics: StateMetrics,
    sources: Vec<Recorded>,
    stopped: bool,
}

impl Recorder {
    pub(crate) fn new(store: Store, shared: Arc<Shared>, metrics: StateMetrics) -> Self {
        Self {
            store,
            shared,
            metrics,
            sources: Vec::new(),
            stopped: false,
        }
    }

    /// Runs until it is stopped, with all that waits written.
    pub(crate) fn run(mut self) {
        let mut committed: Option<Instant> = None;
        let mut failed: Option<Instant> = None;
        while !self.stopped {
            self.shared.bell.wait(self.pause());
            if let Some(left) = committed.and_then(|at| COMMIT_INTERVAL.checked_sub(at.elapsed())) {
                std::thread::sleep(left);
            }
            if !self.store.is_well() {
                let at = *failed.get_or_insert_with(Instant::now);
                if at.elapsed() >= REOPEN_INTERVAL {
                    failed = None;
                    self.reopen();
                }
            }
            if self.turn() {
                committed = Some(Instant::now());
            }
        }
    }

    fn pause(&self) -> Duration {
        if self.sources.iter().any(Recorded::awaits_acknowledgements) {
            ACKNOWLEDGED_INTERVAL
        } else {
            IDLE
        }
    }

    #[cfg(test)]
    pub(crate) fn store(&mut self) -> &mut Store {
        &mut self.store
    }

    pub(crate) fn reopen(&mut self) {
        match self.store.reopen() {
            Ok(()) => tracing::info!("the state database can be written again"),
            Err(error) => tracing::warn!("{error}"),
        }
    }

    /// Writes all that waits and hands it on. Whether there was anything.
    pub(crate) fn turn(&mut self) -> bool {
        let groups = self.commit();
        let any = groups.iter().any(Group::is_worth_keeping);
        self.hand_on(groups);
        any
    }

    /// The first half of a turn: what waits is on the disk afterwards, and nobody was told.
    pub(crate) fn commit(&mut self) -> Vec<Group> {
        self.obey();
        let mut groups: Vec<Group> = self.sources.iter_mut().map(Recorded::gather).collect();
        let higher = |source: &Recorded| source.is_known && source.inbox.high_water() != source.high_water_kept;
        let is_behind = |source: &Recorded| higher(source) || self.store.is_well() && source.must_catch_up();
        if !groups.iter().any(Group::is_worth_keeping) && !self.sources.iter().any(is_behind) {
            return groups;
        }
        let names = self.shared.names.lock().unwrap_or_else(PoisonError::into_inner).clone();
        let sources = &mut self.sources;
        let kept = self.store.write(|tables| {
            for (source, group) in sources.iter_mut().zip(&mut groups) {
                source.keep(tables, group, &names)?;
            }
            Ok(())
        });
        if kept.is_err() {
            for (source, group) in self.sources.iter_mut().zip(&groups) {
                source.was_not_kept(group, &names);
            }
        }
        groups
    }

    /// The second half: listeners are told.
    pub(crate) fn hand_on(&mut self, groups: Vec<Group>) {
        for (source, group) in self.sources.iter_mut().zip(groups) {
            source.hand_on(group);
        }
        self.sources.retain(|source| !source.inbox.is_over());
    }

    fn obey(&mut self) {
        let commands = std::mem::take(&mut *self.shared.commands.lock().unwrap_or_else(PoisonError::into_inner));
        for command in commands {
            match command {
                Command::Open(options, reply) => {
                    let source = self.open(*options);
                    // Whoever asked may have gone.
                    let _ = reply.send(source);
                }
                Command::Forget(informer, cluster) => {
                    let is_it = |known: &SourceIdentity| known.informer == informer && known.cluster == cluster;
                    self.sources.retain(|source| !is_it(&source.options.identity));
                    self.forget(|known| known.starts_with(&SourceIdentity::cluster_prefix(&informer, &cluster)));
                    self.metrics.forget_informer(&informer, &cluster);
                }
                Command::KeepOnly(informers) => {
                    let prefixes: Vec<_> = informers
                        .iter()
                        .map(|name| SourceIdentity::informer_prefix(name))
                        .collect();
                    self.forget(|known| !prefixes.iter().any(|prefix| known.starts_with(prefix)));
                }
                Command::Stop => self.stopped = true,
            }
        }
    }

    fn open(&mut self, options: SourceOptions) -> SourceState {
        let row_key = options.identity.row_key();
        // Of two with one name the newer one counts.
        self.sources
            .retain(|source| source.options.identity != options.identity);
        let found = self.store.write(|tables| source_row(tables, &row_key, &options.form));
        // Where the database cannot be asked, it is asked again before the first row is written.
        let kept = found.unwrap_or_default();
        let numbers = self
            .metrics
            .source(&options.identity.informer, &options.identity.cluster);
        let inbox = Inbox::new(kept.high_water, Arc::clone(&self.shared.bell), numbers.clone());
        let inbox = Arc::new(inbox);
        let state = SourceState::new(Arc::clone(&inbox));
        self.sources
            .push(Recorded::new(kept.number, options, inbox, numbers, kept.high_water));
        state
    }

    /// Forgets the sources whose row keys are so. What cannot be forgotten now is forgotten at the next start.
    fn forget(&mut self, goes: impl Fn(&[u8]) -> bool) {
        let _ = self.store.write(|tables| {
            let mut gone = Vec::new();
            for found in tables.sources.iter()? {
                let (key, value) = found?;
                if goes(key.value()) {
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
    }
}

/// What is kept of a source; a new number if nothing is.
pub(crate) fn source_row(tables: &mut Tables<'_>, row_key: &[u8], form: &str) -> Result<SourceRow, redb::Error> {
    if let Some(found) = tables.sources.get(row_key)? {
        return SourceRow::decode(found.value()).map_err(damaged);
    }
    let mut highest = 0;
    for found in tables.sources.iter()? {
        let row = SourceRow::decode(found?.1.value()).map_err(damaged)?;
        highest = highest.max(row.number);
    }
    let row = SourceRow {
        number: highest + 1,
        high_water: None,
        form: form.to_owned(),
    };
    tables.sources.insert(row_key, &row.encode()[..])?;
    tables.clear(row.number)?;
    Ok(row)
}
