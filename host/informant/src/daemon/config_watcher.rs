//! Watches config.toml: validates a changed file as a whole, then applies its sections one by one.
//!
//! ```text
//! tick ──▶ read stable ──▶ validate ──▶ ConfigSupervisor: commands ──▶ results ──▶ registry, log, metric
//!   └────▶ supervisors check their components (after the commands, so that section and component change together)
//! ```
//!
//! One change is applied at a time. Changes that happen meanwhile are read once afterwards, so that a hundred edits a
//! second cost no more than the last one. A file that is invalid, empty or missing changes nothing that runs.

use std::collections::BTreeSet;
use std::io;
use std::path::PathBuf;
use std::sync::Arc;

use futures::StreamExt;
use futures::stream::FuturesUnordered;
use informant_cache::Environment;
use tokio::sync::Notify;
use tokio_util::sync::CancellationToken;

use super::config_supervisor::{ConfigSupervisor, Pending, SectionChange};
use super::configuration::{ReloadResult, Section};
use super::file_content::{Read, StableRead, read_stable};
use super::file_watch::{FileWatch, SETTLE, Ticks};
use super::status_registry::StatusRegistry;
use crate::config::{AdminSection, Config, HealthSection, Problems, ReadError, SourceFile, StateSection, TextHash};
use crate::metrics::Metrics;

/// Why `[admin]`, `[health]` and `[state]` are pending.
const RESTART: &str = "takes effect after a restart";

/// Applies the configuration whenever the file changes.
pub(super) struct ConfigWatcher {
    path: PathBuf,
    /// The sections that the process was started with.
    admin: AdminSection,
    health: HealthSection,
    state: StateSection,
    registry: StatusRegistry,
    supervisor: ConfigSupervisor,
    watch: FileWatch,
    metrics: Metrics,
    environment: Arc<dyn Environment>,
    /// Notified when somebody asks for a reload.
    reload: Arc<Notify>,
    /// The hash of the text that was validated last.
    validated_hash: TextHash,
    /// The log says that the file cannot be read or is empty.
    reported_unreadable: bool,
    /// The log says that the file keeps changing.
    reported_unstable: bool,
    /// The file may have changed while the last change was applied.
    read_again: bool,
}

/// How many sections a configuration change added, changed, removed, or could not apply.
#[derive(Default)]
struct Tally {
    added: usize,
    changed: usize,
    removed: usize,
    refused: usize,
}

impl ConfigWatcher {
    /// Starts everything that `config` names.
    pub(super) fn new(
        config: &Config,
        registry: StatusRegistry,
        supervisor: ConfigSupervisor,
        watch: FileWatch,
        metrics: Metrics,
        environment: Arc<dyn Environment>,
        reload: Arc<Notify>,
    ) -> Self {
        let mut watcher = Self {
            path: config.path.clone(),
            admin: config.admin.clone(),
            health: config.health.clone(),
            state: config.state.clone(),
            registry,
            supervisor,
            watch,
            metrics,
            environment,
            reload,
            validated_hash: config.hash,
            reported_unreadable: false,
            reported_unstable: false,
            read_again: false,
        };
        // The registry shows the results; nothing waits for them here.
        drop(watcher.supervisor.apply(config));
        watcher.watch_files();
        watcher
    }

    /// Runs until `stop`.
    pub(super) async fn run(mut self, stop: CancellationToken) {
        tokio::select! {
            biased;
            () = stop.cancelled() => {}
            () = self.watch() => {}
        }
    }

    async fn watch(&mut self) {
        let mut ticks = self.watch.ticks();
        let released = self.supervisor.released();
        let reload = Arc::clone(&self.reload);
        loop {
            if !std::mem::take(&mut self.read_again) {
                tokio::select! {
                    biased;
                    ticked = ticks.changed() => if ticked.is_err() {
                        // The file watch has ended: the daemon is stopping.
                        return std::future::pending().await;
                    },
                    () = reload.notified() => {}
                    () = released.notified() => {
                        let removed = self.supervisor.remove_unused();
                        self.results(removed, &mut ticks).await;
                        continue;
                    }
                }
            }
            if let Some(text) = self.changed_text().await {
                self.handle_change(text, &mut ticks).await;
            }
            self.supervisor.check_files();
        }
    }

    /// The text of the file, or why it cannot be read as text, if it is new and not being written.
    async fn changed_text(&mut self) -> Option<Result<SourceFile, Problems>> {
        let config = self.path.display();
        let (now, read) = match read_stable(&*self.environment, self.validated_hash, || {
            read_blocking(self.path.clone())
        })
        .await
        {
            StableRead::Text(now, read) => (now, read),
            StableRead::Unstable => {
                // Each change ticks, including the last one.
                if !std::mem::replace(&mut self.reported_unstable, true) {
                    tracing::warn!(%config, settle_ms = SETTLE.as_millis() as u64, "configuration keeps changing; waiting until it is stable");
                }
                return None;
            }
        };
        self.reported_unstable = false;
        let error = match &read {
            Err(ReadError::Io(error)) => Some(error.to_string()),
            // An empty file is more likely a mistake than a request to stop everything.
            Ok(file) if file.text().trim().is_empty() => {
                Some("the file is empty; to stop all informers and plugins, leave [admin] in it".into())
            }
            _ => None,
        };
        if let Some(error) = error {
            if !std::mem::replace(&mut self.reported_unreadable, true) {
                tracing::warn!(%config, error, "configuration unreadable; keeping the previous configuration");
            }
            return None;
        }
        if std::mem::take(&mut self.reported_unreadable) {
            tracing::info!(%config, "configuration readable again");
        }
        let changed = std::mem::replace(&mut self.validated_hash, now) != now;
        changed.then(|| read.map_err(|error| Problems::of_unreadable(&self.path, &error)))
    }

    async fn handle_change(&mut self, text: Result<SourceFile, Problems>, ticks: &mut Ticks) {
        self.registry.configuration().read = self.environment.now();
        let result = match text.and_then(|file| Config::parse(&file)) {
            Ok(config) => self.apply(&config, ticks).await,
            Err(problems) => {
                let config = self.path.display();
                tracing::error!(%config, error = problems.one_line(), "configuration refused; keeping the previous configuration");
                self.registry.configuration().refused = Some(problems.to_string().into());
                ReloadResult::Refused
            }
        };
        self.registry.configuration().result = Some(result);
        self.metrics.daemon.config_changed(result);
    }

    async fn apply(&mut self, config: &Config, ticks: &mut Ticks) -> ReloadResult {
        for warning in &config.warnings {
            warning.log();
        }
        let restart_changed = self.set_restart_pending(config);
        let pending = self.supervisor.apply(config);
        self.watch_files();
        self.supervisor.check_files();
        let mut tally = self.results(pending, ticks).await;
        let removed = self.supervisor.remove_unused();
        tally.add(&self.results(removed, ticks).await);
        let waiting = {
            let mut configuration = self.registry.configuration();
            configuration.refused = None;
            configuration.waiting.clone()
        };
        let result = if tally.is_empty() && !restart_changed {
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
                let pending: Vec<_> = waiting.keys().map(ToString::to_string).collect();
                let pending = pending.join(", ");
                let reasons = waiting.iter().map(|(section, why)| format!("[{section}]: {why}"));
                let reasons = reasons.collect::<Vec<_>>().join("; ");
                tracing::warn!(%config, added, changed, removed, refused, pending, reasons, "configuration partially applied");
            }
            _ => {
                tracing::info!(%config, result = result.as_str(), added, changed, removed, "configuration applied")
            }
        }
        result
    }

    /// Marks the sections that need a restart. Returns whether the pending sections changed.
    fn set_restart_pending(&self, config: &Config) -> bool {
        let mut configuration = self.registry.configuration();
        let before = configuration.waiting.clone();
        for (section, differs) in [
            (Section::Admin, config.admin != self.admin),
            (Section::Health, config.health != self.health),
            (Section::State, config.state != self.state),
        ] {
            configuration.set_pending(section, differs.then(|| RESTART.into()));
        }
        before != configuration.waiting
    }

    /// Waits for the results of commands; supervisors check their files meanwhile.
    async fn results(&mut self, pending: Vec<Pending>, ticks: &mut Ticks) -> Tally {
        let mut results: FuturesUnordered<_> = pending.into_iter().map(Pending::result).collect();
        let mut tally = Tally::default();
        loop {
            tokio::select! {
                biased;
                result = results.next() => match result {
                    None => return tally,
                    Some((section, change, Ok(()))) => {
                        tracing::info!(%section, change = change.as_str(), "section applied");
                        tally.count(change);
                    }
                    Some((_, _, Err(_))) => tally.refused += 1,
                },
                Ok(()) = ticks.changed() => {
                    self.read_again = true;
                    self.supervisor.check_files();
                }
            }
        }
    }

    fn watch_files(&self) {
        let mut files: BTreeSet<PathBuf> = self.supervisor.files();
        files.insert(self.path.clone());
        self.watch.set_files(files);
    }
}

/// Reads a file on a blocking thread.
async fn read_blocking(path: PathBuf) -> Read {
    let read = tokio::task::spawn_blocking(move || SourceFile::read(&path)).await;
    // The task is lost only while the process stops.
    read.unwrap_or_else(|_| Err(ReadError::Io(io::ErrorKind::Interrupted.into())))
}

impl Tally {
    fn count(&mut self, change: SectionChange) {
        match change {
            SectionChange::Added => self.added += 1,
            SectionChange::Changed => self.changed += 1,
            SectionChange::Removed => self.removed += 1,
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
