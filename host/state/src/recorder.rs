//! The thread that writes: one transaction for all that has come meanwhile, of all sources.

use std::sync::mpsc::Sender;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

use redb::ReadableTable as _;

use crate::catch_up::damaged;
use crate::forgetting::Forgetting;
use crate::group::Group;
use crate::metrics::StateMetrics;
use crate::queue::{Bell, Inbox, SourceState};
use crate::row::SourceRow;
use crate::source::{Names, Recorded, SourceIdentity, SourceOptions};
use crate::store::{Store, Tables};

/// The least time between two transactions. What comes alone is written, flushed and handed on at once; what comes in a
/// stream waits so long for company.
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
    Forget(Forgetting),
    /// Forget an informer in a cluster once those of its sources that are there now are over.
    ForgetAtEnd(String, String),
    Stop,
}

/// What the recorder shares with the owner.
#[derive(Default)]
pub(crate) struct Shared {
    pub(crate) bell: Arc<Bell>,
    commands: Mutex<Commands>,
    pub(crate) names: Mutex<Names>,
}

#[derive(Default)]
struct Commands {
    waiting: Vec<Command>,
    /// Nobody obeys any more.
    over: bool,
}

impl Shared {
    /// Has the recorder obey. Once it is over the command is dropped, and with it what it is to be answered by.
    pub(crate) fn command(&self, command: Command) {
        let mut commands = self.commands();
        if !commands.over {
            commands.waiting.push(command);
            drop(commands);
            self.bell.ring();
        }
    }

    fn commands(&self) -> MutexGuard<'_, Commands> {
        self.commands.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

pub(crate) struct Recorder {
    store: Store,
    shared: Arc<Shared>,
    metrics: StateMetrics,
    sources: Vec<Recorded>,
    /// What could not be forgotten while the database failed.
    forgetting: Vec<Forgetting>,
    stopped: bool,
}

impl Recorder {
    pub(crate) fn new(store: Store, shared: Arc<Shared>, metrics: StateMetrics) -> Self {
        Self {
            store,
            shared,
            metrics,
            sources: Vec::new(),
            forgetting: Vec::new(),
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

    /// Whether something was handed on that is not kept.
    #[cfg(test)]
    pub(crate) fn is_behind(&self) -> bool {
        !self.store.is_well() || self.sources.iter().any(Recorded::must_catch_up)
    }

    #[cfg(test)]
    pub(crate) fn store(&mut self) -> &mut Store {
        &mut self.store
    }

    pub(crate) fn reopen(&mut self) {
        match self.store.reopen() {
            Ok(()) => {
                tracing::info!("the state database can be written again");
                self.forget();
                self.compare();
            }
            Err(error) => tracing::warn!("{error}"),
        }
    }

    /// Doubts the sources that the file does not have as they were kept: it may be another file than the one that
    /// failed, which was set aside or taken away.
    fn compare(&mut self) {
        let sources = &mut self.sources;
        // If it fails once more, it is compared once more.
        let _ = self.store.write(|tables| {
            for source in sources.iter_mut().filter(|source| source.is_known) {
                let found = tables.sources.get(&source.options.identity.row_key()[..])?;
                let found = found.map(|row| SourceRow::decode(row.value())).transpose();
                if found.map_err(damaged)?.is_none_or(|row| row.number != source.number) {
                    source.doubt();
                }
            }
            Ok(())
        });
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
        let is_behind = |source: &Recorded| source.has_seen_more() || self.store.is_well() && source.must_catch_up();
        if !groups.iter().any(Group::is_worth_keeping) && !self.sources.iter().any(is_behind) {
            return groups;
        }
        let names = self.shared.names.lock().unwrap_or_else(PoisonError::into_inner).clone();
        let sources = &mut self.sources;
        let kept = self.store.write(|tables| {
            for (source, group) in sources.iter_mut().zip(&mut groups) {
                if !source.is_forgotten {
                    source.keep(tables, group, &names)?;
                }
            }
            Ok(())
        });
        for (source, group) in self.sources.iter_mut().zip(&mut groups) {
            if kept.is_ok() && !source.is_forgotten {
                source.left.clear();
                source.unkept_gone.clear();
            } else {
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
        let is_over = |source: &mut Recorded| source.inbox.is_over();
        let over: Vec<Recorded> = self.sources.extract_if(.., is_over).collect();
        for source in over {
            source.let_replays_go();
            if source.forget_at_end && !source.is_forgotten {
                self.forgetting.push(Forgetting::Source(source.options.identity));
                self.forget();
            }
        }
    }

    fn obey(&mut self) {
        let commands = std::mem::take(&mut self.shared.commands().waiting);
        for command in commands {
            match command {
                Command::Open(options, reply) => {
                    let source = self.open(*options);
                    // Whoever asked may have gone.
                    let _ = reply.send(source);
                }
                Command::Forget(what) => {
                    let goes = |source: &&mut Recorded| what.covers(&source.options.identity.row_key());
                    self.sources.iter_mut().filter(goes).for_each(Recorded::be_forgotten);
                    if let Forgetting::InCluster(informer, cluster) = &what {
                        self.metrics.forget_informer(informer, cluster);
                    }
                    self.forgetting.push(what);
                    self.forget();
                }
                Command::ForgetAtEnd(informer, cluster) => {
                    let is_it = |known: &SourceIdentity| known.informer == informer && known.cluster == cluster;
                    let sources = self.sources.iter_mut();
                    sources
                        .filter(|source| is_it(&source.options.identity))
                        .for_each(|source| source.forget_at_end = true);
                }
                Command::Stop => {
                    self.stopped = true;
                    self.sources.iter().for_each(|source| source.inbox.end());
                }
            }
        }
    }

    fn open(&mut self, options: SourceOptions) -> SourceState {
        let row_key = options.identity.row_key();
        let numbers = self
            .metrics
            .source(&options.identity.informer, &options.identity.cluster);
        let numbers = Arc::new(numbers);
        // Where the database cannot be asked, it is asked again before the first row is written.
        let found = self.store.write(|tables| source_row(tables, &row_key, &options.form));
        let kept = found.unwrap_or_default();
        let inbox = Inbox::new(kept.high_water, Arc::clone(&self.shared.bell), Arc::clone(&numbers));
        let inbox = Arc::new(inbox);
        let state = SourceState::new(Arc::clone(&inbox));
        let mut opened = Recorded::new(options, inbox, numbers);
        opened.number = kept.number;
        // Of two with one name the newer one counts. What the older one still tells is told, but not kept.
        let is_same = |source: &&mut Recorded| source.options.identity == opened.options.identity;
        for older in self.sources.iter_mut().filter(is_same) {
            let (_, has_more) = older.inbox.waiting();
            opened.distrusted |= older.forget_at_end || has_more;
            older.be_forgotten();
        }
        self.sources.push(opened);
        state
    }

    /// Forgets what is to be forgotten. What cannot be forgotten now is forgotten before the database is written again.
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

/// However it ends, nobody waits for it any more.
impl Drop for Recorder {
    fn drop(&mut self) {
        if std::thread::panicking() {
            self.metrics.failing.set(1);
        }
        let waiting = {
            let mut commands = self.shared.commands();
            commands.over = true;
            std::mem::take(&mut commands.waiting)
        };
        drop(waiting);
        for source in &self.sources {
            source.inbox.end();
            let left = source.inbox.take();
            left.into_iter().for_each(|order| source.inbox.let_fall(order));
            source.let_replays_go();
        }
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
