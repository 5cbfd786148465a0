//! Follows config.toml: a changed file is judged whole, then its sections are taken in one by one.
//!
//! ```text
//! tick ──▶ read at rest ──▶ judged ──▶ Fleet: orders ──▶ outcomes ──▶ board, log, metric
//!   └────▶ keepers look at their components (after the orders, so that a section and its component come together)
//! ```
//!
//! One change is taken in at a time; what the file becomes meanwhile is looked at afterwards, once, so that a hundred
//! edits a second cost no more than the last of them. A file that is refused, empty or gone changes nothing that runs.

use std::collections::BTreeSet;
use std::io;
use std::path::PathBuf;
use std::sync::Arc;

use futures::StreamExt;
use futures::stream::FuturesUnordered;
use informant_cache::Environment;
use tokio_util::sync::CancellationToken;

use super::at_rest::{AtRest, Read, read_at_rest};
use super::board::Board;
use super::configuration::{ReloadResult, Section};
use super::file_watch::{FileWatch, SETTLE, Ticks};
use super::fleet::{Change, Fleet, Pending};
use crate::config::{AdminSection, Config, Problems, ReadError, SourceFile, StateSection, TextHash};
use crate::metrics::Metrics;

/// Why `[admin]` and `[state]` wait.
const RESTART: &str = "is taken in when Informant is restarted";

/// Keeps the configuration and what runs together.
pub(super) struct ConfigKeeper {
    path: PathBuf,
    /// What the process was started with.
    admin: AdminSection,
    state: StateSection,
    board: Board,
    fleet: Fleet,
    watch: FileWatch,
    metrics: Metrics,
    environment: Arc<dyn Environment>,
    /// Of the text that was judged last.
    known: TextHash,
    /// It was said that the file cannot be read, or is empty.
    missed: bool,
    /// It was said that the file never rests.
    restless: bool,
    /// The file may have changed while the last change was taken in.
    look_again: bool,
}

/// What a change of the configuration did.
#[derive(Default)]
struct Tally {
    added: usize,
    changed: usize,
    removed: usize,
    refused: usize,
}

impl ConfigKeeper {
    /// Starts what `config` says.
    pub(super) fn new(
        config: &Config,
        board: Board,
        fleet: Fleet,
        watch: FileWatch,
        metrics: Metrics,
        environment: Arc<dyn Environment>,
    ) -> Self {
        let mut keeper = Self {
            path: config.path.clone(),
            admin: config.admin.clone(),
            state: config.state.clone(),
            board,
            fleet,
            watch,
            metrics,
            environment,
            known: config.hash,
            missed: false,
            restless: false,
            look_again: false,
        };
        // How that goes shows on the board; nobody waits for it.
        drop(keeper.fleet.take(config));
        keeper.follow_files();
        keeper
    }

    /// Runs until `stop`.
    pub(super) async fn run(mut self, stop: CancellationToken) {
        tokio::select! {
            biased;
            () = stop.cancelled() => {}
            () = self.keep() => {}
        }
    }

    async fn keep(&mut self) {
        let mut ticks = self.watch.ticks();
        let released = self.fleet.released();
        loop {
            if !std::mem::take(&mut self.look_again) {
                tokio::select! {
                    biased;
                    ticked = ticks.changed() => if ticked.is_err() {
                        // Nobody watches files any more: the daemon ends.
                        return std::future::pending().await;
                    },
                    () = released.notified() => {
                        let gone = self.fleet.let_go();
                        self.outcomes(gone, &mut ticks).await;
                        continue;
                    }
                }
            }
            if let Some(text) = self.changed_text().await {
                self.judge(text, &mut ticks).await;
            }
            self.fleet.look_at_files();
        }
    }

    /// The text of the file, or what keeps it from having one, if it was not judged yet and is not being written.
    async fn changed_text(&mut self) -> Option<Result<SourceFile, Problems>> {
        let config = self.path.display();
        let (now, read) = match read_at_rest(&*self.environment, self.known, || read_aside(self.path.clone())).await {
            AtRest::Text(now, read) => (now, read),
            AtRest::Never => {
                // Each of its changes ticks, the last one too.
                if !std::mem::replace(&mut self.restless, true) {
                    tracing::warn!(%config, "the configuration is another one each time it is read; it is taken in once it is left alone for {SETTLE:?}");
                }
                return None;
            }
        };
        self.restless = false;
        let trouble = match &read {
            Err(ReadError::Io(error)) => Some(format!("cannot be read: {error}")),
            // Nobody means to end everything by emptying a file.
            Ok(file) if file.text().trim().is_empty() => {
                Some("is empty; to end everything, leave [admin] in it".into())
            }
            _ => None,
        };
        if let Some(trouble) = trouble {
            if !std::mem::replace(&mut self.missed, true) {
                tracing::warn!(%config, "the configuration {trouble}; what runs goes on as it is");
            }
            return None;
        }
        if std::mem::take(&mut self.missed) {
            tracing::info!(%config, "the configuration is there again");
        }
        let changed = std::mem::replace(&mut self.known, now) != now;
        changed.then(|| read.map_err(|error| Problems::of_unreadable(&self.path, &error)))
    }

    async fn judge(&mut self, text: Result<SourceFile, Problems>, ticks: &mut Ticks) {
        self.board.configuration().read = self.environment.now();
        let result = match text.and_then(|file| Config::parse(&file)) {
            Ok(config) => self.take(&config, ticks).await,
            Err(problems) => {
                let config = self.path.display();
                tracing::error!(%config, "the configuration changed and is refused; what runs goes on as it was\n{problems}");
                self.board.configuration().refused = Some(problems.to_string().into());
                ReloadResult::Refused
            }
        };
        self.board.configuration().result = Some(result);
        self.metrics.daemon.config_changed(result);
    }

    async fn take(&mut self, config: &Config, ticks: &mut Ticks) -> ReloadResult {
        for warning in &config.warnings {
            tracing::warn!("{warning}");
        }
        let waits_for_restart = self.note_restart(config);
        let pending = self.fleet.take(config);
        self.follow_files();
        self.fleet.look_at_files();
        let mut tally = self.outcomes(pending, ticks).await;
        let gone = self.fleet.let_go();
        tally.add(&self.outcomes(gone, ticks).await);
        let waiting = {
            let mut configuration = self.board.configuration();
            configuration.refused = None;
            configuration.waiting.clone()
        };
        let result = if tally.is_empty() && !waits_for_restart {
            ReloadResult::Unchanged
        } else if waiting.is_empty() {
            ReloadResult::Ok
        } else {
            ReloadResult::Partial
        };
        let config = self.path.display();
        let Tally {
            added,
            changed,
            removed,
            refused,
        } = tally;
        match result {
            ReloadResult::Partial => {
                let waits: Vec<_> = waiting
                    .iter()
                    .map(|(section, why)| format!("[{section}]: {why}"))
                    .collect();
                let waits = waits.join("; ");
                tracing::warn!(%config, added, changed, removed, refused, waits, "the configuration was taken in, but for what waits");
            }
            _ => {
                tracing::info!(%config, result = result.as_str(), added, changed, removed, "the configuration was taken in")
            }
        }
        result
    }

    /// Notes which sections take a restart. Returns whether these are others than before.
    fn note_restart(&self, config: &Config) -> bool {
        let mut configuration = self.board.configuration();
        let before = configuration.waiting.clone();
        for (section, differs) in [
            (Section::Admin, config.admin != self.admin),
            (Section::State, config.state != self.state),
        ] {
            configuration.note(section, differs.then(|| RESTART.into()));
        }
        before != configuration.waiting
    }

    /// Waits for what comes of orders; keepers look at their files meanwhile.
    async fn outcomes(&mut self, pending: Vec<Pending>, ticks: &mut Ticks) -> Tally {
        let mut outcomes: FuturesUnordered<_> = pending.into_iter().map(Pending::outcome).collect();
        let mut tally = Tally::default();
        loop {
            tokio::select! {
                biased;
                outcome = outcomes.next() => match outcome {
                    None => return tally,
                    Some((section, change, Ok(()))) => {
                        tracing::info!(%section, "section {}", change.as_str());
                        tally.count(change);
                    }
                    Some((_, _, Err(_))) => tally.refused += 1,
                },
                Ok(()) = ticks.changed() => {
                    self.look_again = true;
                    self.fleet.look_at_files();
                }
            }
        }
    }

    fn follow_files(&self) {
        let mut files: BTreeSet<PathBuf> = self.fleet.files();
        files.insert(self.path.clone());
        self.watch.set_files(files);
    }
}

/// Reads a file away from the tasks of the runtime.
async fn read_aside(path: PathBuf) -> Read {
    let read = tokio::task::spawn_blocking(move || SourceFile::read(&path)).await;
    // The task is lost only while the process ends.
    read.unwrap_or_else(|_| Err(ReadError::Io(io::ErrorKind::Interrupted.into())))
}

impl Tally {
    fn count(&mut self, change: Change) {
        match change {
            Change::Added => self.added += 1,
            Change::Changed => self.changed += 1,
            Change::Removed => self.removed += 1,
        }
    }

    fn add(&mut self, other: &Self) {
        self.added += other.added;
        self.changed += other.changed;
        self.removed += other.removed;
        self.refused += other.refused;
    }

    fn is_empty(&self) -> bool {
        self.added + self.changed + self.removed + self.refused == 0
    }
}
