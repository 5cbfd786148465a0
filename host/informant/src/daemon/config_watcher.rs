//! Applies config.toml: validates a changed file as a whole, then applies its sections, each on its own.
//!
//! ```text
//! ConfigReader ──text──▶ validate ──▶ ConfigSupervisor: commands ──▶ results ──▶ registry, log, metric
//! ```
//!
//! The next text is read while sections of the last one are still being applied. A section whose supervisor has not
//! answered within [`SECTION_WAIT_MAX`] shows as pending and continues; newer text for it replaces the older. Changes
//! that come while another one is being applied count as one with it. A file that is invalid, empty or missing changes
//! nothing that runs.

use std::collections::BTreeMap;
use std::path::PathBuf;
use std::pin::Pin;
use std::sync::Arc;
use std::time::Duration;

use futures::StreamExt;
use futures::stream::FuturesUnordered;
use informant_cache::{Environment, Moment};
use informant_config::{
    AdminSection, Config, FilePosition, HaSection, HealthSection, HttpSection, Problems, ScriptRunnersSection,
    SourceFile, StateSection, WorkDivision,
};

use super::cache_budget;
use super::config_reader::{CheckedText, ConfigTexts};
use super::config_supervisor::ConfigSupervisor;
use super::configuration::{ReloadResult, Section};
use super::or_never;
use super::overrides::ConfigOverrides;
use super::section_command::{COMPILES, Pending, Progress, SectionChange, SectionResult};
use super::status_registry::StatusRegistry;
use crate::config_file;
use crate::metrics::Metrics;

/// How long a section may take until it shows as pending: 30 s. It continues in the background.
pub(crate) const SECTION_WAIT_MAX: Duration = Duration::from_secs(30);

/// Why `[admin]`, `[ha]`, `[health]`, `[http]`, `[script-runners]` and `[state]` are pending.
const RESTART: &str = "takes effect after a restart";

/// Why a configuration that divides the work otherwise is refused.
const DIVIDED: &str =
    "set the same `shard-by` and `run-once` as before, or end all replicas but one and restart that with it";

pub(super) struct ConfigWatcher {
    path: PathBuf,
    overrides: ConfigOverrides,
    /// The sections that the process was started with.
    admin: AdminSection,
    ha: Option<HaSection>,
    health: HealthSection,
    http: HttpSection,
    script_runners: ScriptRunnersSection,
    state: StateSection,
    /// How the work is divided, which does not change while the process runs.
    division: WorkDivision,
    registry: StatusRegistry,
    supervisor: ConfigSupervisor,
    texts: ConfigTexts,
    metrics: Metrics,
    environment: Arc<dyn Environment>,
    outstanding: OutstandingSections,
    change: Option<ConfigChange>,
}

/// A change of the configuration whose result is not known yet.
#[derive(Default)]
struct ConfigChange {
    restart_changed: bool,
    /// How many sections were added, changed, removed, and not applied (yet).
    added: usize,
    changed: usize,
    removed: usize,
    refused: usize,
    pending: usize,
}

/// Sections whose supervisors have not answered yet.
#[derive(Default)]
struct OutstandingSections {
    answers: FuturesUnordered<Pin<Box<dyn Future<Output = SectionAnswer> + Send>>>,
    /// The last command of each.
    commands: BTreeMap<Section, OutstandingCommand>,
    last_number: u64,
}

struct OutstandingCommand {
    number: u64,
    sent: Moment,
    progress: Arc<Progress>,
    /// Whether it belongs to a change of the file, not to the start.
    counts: bool,
    /// Whether it shows as pending.
    overdue: bool,
}

struct SectionAnswer {
    number: u64,
    section: Section,
    change: SectionChange,
    counts: bool,
    /// None: replaced by a newer command.
    result: Option<SectionResult>,
}

impl ConfigWatcher {
    /// Starts everything that `config` names.
    pub(super) fn new(
        config: &Config,
        overrides: ConfigOverrides,
        registry: StatusRegistry,
        supervisor: ConfigSupervisor,
        texts: ConfigTexts,
        metrics: Metrics,
        environment: Arc<dyn Environment>,
    ) -> Self {
        let mut watcher = Self {
            path: config.path.clone(),
            overrides,
            admin: config.admin.clone(),
            ha: config.ha.clone(),
            health: config.health.clone(),
            http: config.http.clone(),
            script_runners: config.script_runners.clone(),
            state: config.state.clone(),
            division: config.work_division(),
            registry,
            supervisor,
            texts,
            metrics,
            environment,
            outstanding: OutstandingSections::default(),
            change: None,
        };
        let started = watcher.supervisor.apply(config);
        watcher.expect(started, false);
        watcher
    }

    /// Does not end.
    pub(super) async fn run(mut self) {
        let released = self.supervisor.released();
        loop {
            let overdue = self.outstanding.overdue_at().map(|at| at - self.environment.now());
            let overdue = or_never(overdue.map(|wait| self.environment.sleep(wait)));
            tokio::select! {
                biased;
                Some(answer) = self.outstanding.answers.next() => self.answered(answer),
                checked = self.texts.next() => self.handle(checked),
                () = released.notified() => {}
                () = overdue => self.show_overdue(),
            }
            self.remove_unused();
            self.apply_deferred();
            self.conclude();
        }
    }

    fn handle(&mut self, checked: CheckedText) {
        if let Some(text) = checked.text {
            self.handle_change(text);
        }
        self.texts.handled(checked.check);
    }

    fn handle_change(&mut self, text: Result<SourceFile, Problems>) {
        self.registry.configuration().read = self.environment.now();
        match text.and_then(|file| Config::parse_for(&file, self.ha.as_ref())) {
            Ok(mut config) => {
                self.overrides.apply(&mut config);
                match self.division.changed(&config.work_division()) {
                    None => self.apply(&config),
                    Some(section) => {
                        let error = format!("{section} is divided otherwise among the replicas: {DIVIDED}");
                        self.refuse(&error, error.clone());
                    }
                }
            }
            Err(problems) => self.refuse(&problems.one_line(), problems.to_string()),
        }
    }

    fn refuse(&self, error: &str, shown: String) {
        let config = self.path.display();
        tracing::error!(%config, error, code = "config-not-applied", "configuration refused; keeping the previous configuration");
        let mut configuration = self.registry.configuration();
        configuration.refused = Some(shown.into());
        configuration.result = Some(ReloadResult::Refused);
        drop(configuration);
        self.metrics.daemon.config_changed(ReloadResult::Refused.as_str());
    }

    fn apply(&mut self, config: &Config) {
        for warning in &config.warnings {
            config_file::log_warning(warning);
        }
        let budget = self.registry.catalog().budget();
        budget.set_max_bytes(cache_budget::max_bytes(&config.cache));
        let restart_changed = self.set_restart_pending(config);
        {
            let mut configuration = self.registry.configuration();
            configuration.refused = None;
            configuration.digest = config.hash.to_string().into();
        }
        self.change.get_or_insert_default().restart_changed |= restart_changed;
        self.division = config.work_division();
        let pending = self.supervisor.apply(config);
        self.expect(pending, true);
    }

    /// Marks the sections that need a restart. Returns whether the pending sections changed.
    fn set_restart_pending(&self, config: &Config) -> bool {
        let mut configuration = self.registry.configuration();
        let before = configuration.waiting.clone();
        for (section, differs) in [
            (Section::Admin, config.admin != self.admin),
            (Section::Ha, !is_same_group(config.ha.as_ref(), self.ha.as_ref())),
            (Section::Health, config.health != self.health),
            (Section::Http, config.http != self.http),
            (Section::ScriptRunners, config.script_runners != self.script_runners),
            (Section::State, config.state != self.state),
        ] {
            configuration.set_pending(section, differs.then(|| RESTART.into()));
        }
        before != configuration.waiting
    }

    fn expect(&mut self, pending: Vec<Pending>, counts: bool) {
        let now = self.environment.now();
        for pending in pending {
            self.outstanding.add(pending, now, counts);
        }
    }

    fn answered(&mut self, answer: SectionAnswer) {
        let SectionAnswer {
            number,
            section,
            change,
            counts,
            result,
        } = answer;
        if change == SectionChange::Removed {
            self.supervisor.ended(&section);
        }
        let last = self.outstanding.commands.get(&section);
        let was_overdue = last.is_some_and(|last| last.number == number && last.overdue);
        if last.is_some_and(|last| last.number == number) {
            self.outstanding.commands.remove(&section);
        }
        if !counts && !was_overdue {
            return;
        }
        if matches!(result, Some(Ok(()))) {
            tracing::info!(%section, change = change.as_str(), "section applied");
        }
        // One that was overdue has been counted as pending.
        if let Some(counted) = self.change.as_mut().filter(|_| counts && !was_overdue) {
            counted.add(change, result.as_ref());
        }
    }

    fn show_overdue(&mut self) {
        let now = self.environment.now();
        let mut configuration = self.registry.configuration();
        // An answer is given while the configuration is locked.
        for (section, command) in self.outstanding.take_overdue(now) {
            let waited_seconds = SECTION_WAIT_MAX.as_secs();
            let step = command.progress.step();
            match step {
                COMPILES => tracing::info!(%section, waited_seconds, "component still being compiled and initialized"),
                step => tracing::warn!(
                    %section,
                    waited_seconds,
                    reason = step,
                    code = "config-not-applied",
                    "section still pending; continuing in the background"
                ),
            }
            let reason = format!("not applied within {waited_seconds} s: it {step}; Informant continues");
            configuration.set_pending(section.clone(), Some(reason.into()));
            if let Some(change) = self.change.as_mut().filter(|_| command.counts) {
                change.pending += 1;
            }
        }
    }

    /// Removes informers that the configuration no longer names, unless a plugin uses them.
    fn remove_unused(&mut self) {
        let outstanding = &self.outstanding;
        let removed = self
            .supervisor
            .remove_unused(|plugin| outstanding.commands.contains_key(&Section::Plugin(plugin.to_owned())));
        self.expect(removed, self.change.is_some());
    }

    fn apply_deferred(&mut self) {
        let pending = self.supervisor.apply_deferred();
        if !pending.is_empty() {
            self.change.get_or_insert_default();
            self.expect(pending, true);
        }
    }

    /// Shows the result of the change once each of its sections has answered or is overdue.
    fn conclude(&mut self) {
        if self.outstanding.are_awaited() {
            return;
        }
        let Some(change) = self.change.take() else { return };
        let waiting = self.registry.configuration().waiting.clone();
        let result = match (waiting.is_empty(), change.is_empty()) {
            (false, _) => ReloadResult::Partial,
            (true, true) => ReloadResult::Unchanged,
            (true, false) => ReloadResult::Ok,
        };
        let config = self.path.display();
        let ConfigChange {
            added,
            changed,
            removed,
            refused,
            ..
        } = change;
        if result == ReloadResult::Partial {
            let pending: Vec<_> = waiting.keys().map(ToString::to_string).collect();
            let pending = pending.join(", ");
            let reasons = waiting.iter().map(|(section, why)| format!("[{section}]: {why}"));
            let reasons = reasons.collect::<Vec<_>>().join("; ");
            tracing::warn!(
                %config, added, changed, removed, refused, pending, reasons,
                code = "config-not-applied",
                "configuration partially applied"
            );
        } else {
            tracing::info!(%config, result = result.as_str(), added, changed, removed, "configuration applied");
        }
        let mut configuration = self.registry.configuration();
        // A newer text may have been refused meanwhile.
        if configuration.refused.is_none() {
            configuration.result = Some(result);
        }
        drop(configuration);
        self.metrics.daemon.config_changed(result.as_str());
    }
}

impl OutstandingSections {
    fn add(&mut self, pending: Pending, sent: Moment, counts: bool) {
        self.last_number += 1;
        let number = self.last_number;
        let (section, change) = (pending.section.clone(), pending.change);
        let command = OutstandingCommand {
            number,
            sent,
            progress: Arc::clone(&pending.progress),
            counts,
            overdue: false,
        };
        self.commands.insert(section.clone(), command);
        self.answers.push(Box::pin(async move {
            SectionAnswer {
                number,
                section,
                change,
                counts,
                result: pending.result().await,
            }
        }));
    }

    /// Whether a section of the present change may still answer in time.
    fn are_awaited(&self) -> bool {
        self.commands.values().any(|command| command.counts && !command.overdue)
    }

    /// Marks sections as overdue that have not answered in time. Returns those that were not overdue before.
    fn take_overdue(&mut self, now: Moment) -> impl Iterator<Item = (&Section, &OutstandingCommand)> {
        let late = self.commands.iter_mut().filter(move |(_, command)| {
            // An answer may be on its way.
            !command.overdue && now >= command.sent + SECTION_WAIT_MAX && !command.progress.is_answered()
        });
        late.map(|(section, command)| {
            command.overdue = true;
            (section, &*command)
        })
    }

    fn overdue_at(&self) -> Option<Moment> {
        let in_time = self.commands.values().filter(|command| !command.overdue);
        in_time.map(|command| command.sent + SECTION_WAIT_MAX).min()
    }
}

impl ConfigChange {
    fn add(&mut self, change: SectionChange, result: Option<&SectionResult>) {
        match (result, change) {
            // Its successor is counted.
            (None, _) => {}
            (Some(Err(_)), _) => self.refused += 1,
            (Some(Ok(())), SectionChange::Added) => self.added += 1,
            (Some(Ok(())), SectionChange::Changed) => self.changed += 1,
            (Some(Ok(())), SectionChange::Removed) => self.removed += 1,
        }
    }

    fn is_empty(&self) -> bool {
        self.added + self.changed + self.removed + self.refused + self.pending == 0 && !self.restart_changed
    }
}

/// Whether both sections mean the same, wherever they are in the file.
fn is_same_group(one: Option<&HaSection>, other: Option<&HaSection>) -> bool {
    let settings = |section: &HaSection| HaSection {
        position: FilePosition { line: 1, column: 1 },
        ..section.clone()
    };
    one.map(settings) == other.map(settings)
}

#[cfg(test)]
mod tests {
    use informant_config::TextHash;

    use super::super::section_command::Reply;
    use super::*;

    fn sent(outstanding: &mut OutstandingSections, section: Section, at: Moment) -> Reply {
        let (reply, pending) = Pending::new(section, SectionChange::Changed);
        outstanding.add(pending, at, true);
        reply
    }

    fn overdue(outstanding: &mut OutstandingSections, now: Moment) -> Vec<String> {
        let late = outstanding.take_overdue(now);
        late.map(|(section, command)| format!("{section}: it {}", command.progress.step()))
            .collect()
    }

    #[tokio::test]
    async fn section_without_answer_is_overdue_once() {
        let start = Moment::default();
        let plugin = |name: &str| Section::Plugin(name.into());
        let mut outstanding = OutstandingSections::default();
        let replaced = sent(&mut outstanding, plugin("slow"), start);
        drop(replaced);
        let later = start + Duration::from_secs(10);
        let slow = sent(&mut outstanding, plugin("slow"), later);
        let quick = sent(&mut outstanding, plugin("quick"), start);
        slow.set_step("waits for its file to be read");
        let mut configuration = super::super::Configuration::new("config.toml".into(), &TextHash::of(""), start);
        quick.send(Ok(()));

        assert!(
            overdue(&mut outstanding, start + SECTION_WAIT_MAX).is_empty(),
            "newer text has its own time"
        );
        assert!(outstanding.are_awaited());
        let at = later + SECTION_WAIT_MAX;
        assert_eq!(
            overdue(&mut outstanding, at),
            ["plugin.slow: it waits for its file to be read"]
        );
        assert!(overdue(&mut outstanding, at).is_empty());
        // The answer of the quick one is still to be received.
        assert!(outstanding.are_awaited());
        for _ in 0..2 {
            let answer = outstanding.answers.next().await.unwrap();
            if answer.section == plugin("quick") {
                outstanding.commands.remove(&answer.section);
            }
        }
        assert!(!outstanding.are_awaited(), "an overdue section is waited for");
        configuration.set_pending(plugin("slow"), Some("it is invalid".into()));
        slow.send(Err("it is invalid".into()));
        let answer = outstanding.answers.next().await.unwrap();
        assert_eq!(answer.result, Some(Err("it is invalid".into())));
        assert_eq!(configuration.state(), "partial");
    }
}
