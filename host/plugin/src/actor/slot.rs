//! The slot that holds an instance, or is empty after a loss.
//!
//! Both actors handle losses in the same way: a lost instance is rebuilt with back-off, and after too many losses of an
//! actor's instances their slots stay empty (quarantine) until the plugin is resumed or reloaded. The actor decides
//! what a loss means for its pending events.

use std::sync::Arc;
use std::time::Duration;

use informant_cache::{LogThrottle, Moment};
use informant_spec::OnFailure;

use crate::actor::restart::{InitFailures, LossSubject, NewLoss, RestartDecision};
use crate::actor::{ActorKind, InstanceId, PluginContext};
use crate::capability::InitEffects;
use crate::engine::trap::{TrapKind, TrapReport};
use crate::error::LoadProblem;
use crate::instance::Instance;
use crate::instance::config::PluginConfig;
use crate::instance::context::StartCause;
use crate::instance::version::LoadedVersion;
use crate::status::PluginState;

/// Lost instances of one slot that are logged within [`LOSS_WARNING_PERIOD`]: 10. An index function or a handler may
/// trap on every object; the metric counts all.
pub(crate) const LOSS_WARNINGS_MAX: usize = 10;

/// See [`LOSS_WARNINGS_MAX`]: 60 s.
pub(crate) const LOSS_WARNING_PERIOD: Duration = Duration::from_secs(60);

pub(crate) struct InstanceSlot {
    pub(crate) context: Arc<PluginContext>,
    pub(crate) version: LoadedVersion,
    /// The configuration of the instance, including later updates.
    pub(crate) config: Arc<PluginConfig>,
    pub(crate) instance: Option<Instance>,
    /// Grows with each version or section that is swapped in.
    pub(crate) activation: u64,
    pub(crate) id: InstanceId,
    /// The instance's state while there is no failure.
    steady_state: PluginState,
    memory_bytes: usize,
    /// Failures of `init` that ask to be tried again: they do not lead to quarantine.
    init_failures: InitFailures,
    /// Why the next instance is created.
    because: StartCause,
    loss_warnings: LogThrottle,
    /// What follows the last loss. None: the slot is not empty, or needs no instance.
    decision: Option<RestartDecision>,
    /// When that was decided.
    decided: Moment,
}

/// The first instance of a slot.
pub(crate) enum FirstInstance {
    Made(Box<Instance>),
    /// The component has no role for this actor, or another replica acts.
    NotNeeded,
    /// Its `init` asks to be tried again.
    Later(LoadProblem),
}

impl InstanceSlot {
    pub(crate) fn new(
        context: Arc<PluginContext>,
        version: LoadedVersion,
        first: FirstInstance,
        id: InstanceId,
    ) -> InstanceSlot {
        let (instance, problem) = match first {
            FirstInstance::Made(instance) => (Some(*instance), None),
            FirstInstance::NotNeeded => (None, None),
            FirstInstance::Later(problem) => (None, Some(problem)),
        };
        if id.actor == ActorKind::Events {
            context.activate(&version.manifest);
        }
        let mut slot = InstanceSlot {
            config: context.config(),
            context,
            version,
            instance,
            activation: 0,
            id,
            steady_state: PluginState::Loaded,
            memory_bytes: 0,
            init_failures: InitFailures::default(),
            because: StartCause::Start,
            loss_warnings: LogThrottle::new(LOSS_WARNINGS_MAX, LOSS_WARNING_PERIOD),
            decision: None,
            decided: Moment::ZERO,
        };
        slot.update_memory();
        if let Some(problem) = problem {
            slot.record_rebuild_failure(&problem);
        }
        slot
    }

    /// Sets the instance's state while there is no failure.
    pub(crate) fn set_steady_state(&mut self, state: PluginState) {
        if self.steady_state == state {
            return;
        }
        self.steady_state = state;
        if self.decision.is_none() {
            self.context.set_state(self.id, state, None);
        }
    }

    /// Reports the instance's memory, and what it was denied.
    pub(crate) fn update_memory(&mut self) {
        if let Some(denied) = self.instance.as_mut().and_then(Instance::take_denied) {
            self.context.memory_denied(self.id.actor, &denied);
        }
        let bytes = self.instance.as_ref().map_or(0, Instance::memory_bytes);
        if bytes != self.memory_bytes {
            self.memory_bytes = bytes;
            self.context.set_memory(self.id, bytes);
        }
    }

    /// The plugin has fewer instances from now on.
    pub(crate) fn remove(mut self) {
        self.instance = None;
        self.context.forget_instance(self.id);
    }

    /// Another instance of the plugin was quarantined, and this one with it.
    pub(crate) fn join_quarantine(&mut self) {
        if !self.is_quarantined() {
            self.instance = None;
            self.update_memory();
            self.decision = Some(RestartDecision::Quarantine);
            self.context.set_state(self.id, PluginState::Quarantined, None);
        }
    }

    /// Another replica acts: drops the instance. A quarantine ends.
    pub(crate) fn stand_by(&mut self, activation: u64) {
        self.instance = None;
        self.activation = activation;
        self.reset();
        self.update_memory();
    }

    /// The plugin acts: an instance is created as at its start.
    pub(crate) fn start_over(&mut self) {
        self.reset();
        self.because = StartCause::Start;
    }

    pub(crate) fn end(&mut self) {
        self.instance = None;
        self.update_memory();
        self.context.set_state(self.id, PluginState::Stopped, None);
    }

    /// Whether an instance is missing: the running version has a role for this actor.
    pub(crate) fn is_empty(&self) -> bool {
        self.instance.is_none() && self.id.actor.is_needed(self.version.component.roles)
    }

    /// Whether it stays empty until the plugin is resumed or reloaded.
    pub(crate) fn is_quarantined(&self) -> bool {
        self.decision == Some(RestartDecision::Quarantine)
    }

    /// Activates another version, whatever state the slot is in.
    pub(crate) fn activate(
        &mut self,
        config: Arc<PluginConfig>,
        version: LoadedVersion,
        instance: Option<Instance>,
        activation: u64,
    ) {
        if self.id.actor == ActorKind::Events {
            self.context.activate(&version.manifest);
            self.context.effects.configure(&config.spec);
        }
        self.config = config;
        self.version = version;
        self.instance = instance;
        self.activation = activation;
        self.reset();
        self.update_memory();
    }

    /// Drops the instance for an operator; the next one is created at once. A quarantine ends.
    pub(crate) fn restart(&mut self) {
        if self.id.actor.is_needed(self.version.component.roles) {
            self.instance = None;
            self.reset();
            self.update_memory();
        }
    }

    /// Ends a quarantine or a back-off; a missing instance is rebuilt at once.
    pub(crate) fn reset(&mut self) {
        self.context.status().losses[self.id.actor as usize].reset();
        if self.context.outcomes.streak().reset() {
            self.context.counters.failing(false);
        }
        self.context.overruns.reset();
        self.init_failures = InitFailures::default();
        self.because = StartCause::Resume;
        self.decision = None;
        self.context.set_state(self.id, self.steady_state, None);
    }

    /// Drops the instance, which trapped or timed out in a call about `about`, and decides what follows.
    pub(crate) fn record_loss(&mut self, report: &TrapReport, about: LossSubject) {
        if report.kind == TrapKind::Aborted {
            return self.drop_aborted(report);
        }
        self.drop_lost(report);
        let decision = self.decide(report.kind, about);
        self.apply_decision(decision, &report.to_string());
    }

    /// Drops the instance, whose call was cut off because the plugin is being stopped or stands by.
    fn drop_aborted(&mut self, report: &TrapReport) {
        self.instance = None;
        self.update_memory();
        let plugin: &str = self.context.counters.plugin();
        tracing::debug!(plugin, role = self.id.actor.as_str(), error = %report, "plugin stopped or stood by during a call");
    }

    /// Drops the instance, which trapped or timed out, and counts that.
    pub(crate) fn drop_lost(&mut self, report: &TrapReport) {
        self.update_memory();
        self.instance = None;
        self.because = StartCause::Rebuild;
        self.update_memory();
        if let Some(suppressed) = self.loss_warnings.line(self.context.now()) {
            warn_of_loss(self.context.counters.plugin(), report, suppressed);
        }
        self.count_loss(report.kind, report.kind.as_str(), &report.to_string());
    }

    fn count_loss(&mut self, kind: TrapKind, reason: &'static str, error: &str) {
        self.context.count_loss(reason, error);
        if kind == TrapKind::Timeout {
            self.context.overruns.record_overrun(self.context.now());
        }
    }

    fn decide(&mut self, kind: TrapKind, about: LossSubject) -> RestartDecision {
        match self.config.spec.on_failure {
            OnFailure::Quarantine => RestartDecision::Quarantine,
            OnFailure::Retry | OnFailure::Skip => {
                let now = self.context.now();
                let in_a_row = match self.id.actor {
                    ActorKind::Events => self.context.outcomes.streak().crashes(),
                    ActorKind::Index => 0,
                };
                let mut status = self.context.status();
                let loss = NewLoss {
                    kind,
                    about,
                    in_a_row,
                    on_probation: status.reloads > 0 && self.context.probation.is_running(now),
                };
                status.losses[self.id.actor as usize].record(loss, now)
            }
        }
    }

    /// Leaves the slot empty until the plugin is resumed or reloaded.
    pub(crate) fn quarantine(&mut self, because: &str) {
        self.instance = None;
        self.update_memory();
        self.apply_decision(RestartDecision::Quarantine, because);
    }

    fn apply_decision(&mut self, decision: RestartDecision, because: &str) {
        self.decision = Some(decision);
        self.decided = self.context.now();
        let state = match decision {
            RestartDecision::Quarantine => PluginState::Quarantined,
            // An instance that is back at once is not reported.
            RestartDecision::RebuildAfter(Duration::ZERO) => return,
            RestartDecision::RebuildAfter(_) => PluginState::Restarting,
        };
        if state == PluginState::Quarantined {
            self.context.probation.fail(because);
            let plugin: &str = self.context.counters.plugin();
            let role = self.id.actor.as_str();
            tracing::error!(
                plugin,
                role,
                reason = because,
                code = "plugin-quarantined",
                "plugin quarantined; it is not called until it is resumed or reloaded"
            );
        }
        self.context.set_state(self.id, state, Some(because.to_owned()));
    }

    /// When the last loss was decided upon.
    pub(crate) fn decided(&self) -> Moment {
        self.decided
    }

    /// When the empty slot may be refilled: after the back-off of the last loss. None in quarantine.
    pub(crate) fn rebuild_at(&self) -> Option<Moment> {
        match self.decision {
            Some(RestartDecision::Quarantine) => None,
            Some(RestartDecision::RebuildAfter(wait)) => Some(self.decided + wait),
            // At once, whatever time it is.
            None => Some(Moment::ZERO),
        }
    }

    /// Refills the empty slot. Returns whether it has an instance now; otherwise it is to be tried again.
    pub(crate) async fn rebuild(&mut self) -> bool {
        let context = Arc::clone(&self.context);
        let (ends, runtime) = (context.ends_calls(self.id.actor), &context.runtime);
        let mut changes = InitEffects::new(context.effects.is_dry_run());
        let made = context.instance(&self.config, &self.version, self.id, self.because, None, &mut changes);
        let made = async {
            match self.because {
                // All plugins act at once.
                StartCause::Start => runtime.load_turns.run(&*runtime.env, made).await,
                StartCause::Swap | StartCause::Rebuild | StartCause::Resume => made.await,
            }
        };
        let Some(made) = ends.run_until_cancelled(made).await else {
            return false;
        };
        match made {
            Ok(instance) => {
                changes.commit();
                self.instance = Some(instance);
                self.init_failures = InitFailures::default();
                self.update_memory();
                if self.decision.take() != Some(RestartDecision::RebuildAfter(Duration::ZERO)) {
                    self.context.set_state(self.id, self.steady_state, None);
                }
                return true;
            }
            Err(problem) if ends.is_cancelled() => {
                let plugin: &str = self.context.counters.plugin();
                tracing::debug!(plugin, role = self.id.actor.as_str(), error = %problem, "plugin stopped or stood by while its instance was rebuilt");
            }
            Err(problem) => self.record_rebuild_failure(&problem),
        }
        false
    }

    /// `init` failed or trapped, or the pool has no free slot.
    fn record_rebuild_failure(&mut self, problem: &LoadProblem) {
        if let LoadProblem::InitRetryable { .. } = problem {
            let wait = self.init_failures.wait(problem);
            self.context.log_init_failure(self.id.actor, problem, wait);
            self.context.count_loss("init", &problem.to_string());
            return self.apply_decision(RestartDecision::RebuildAfter(wait), &problem.to_string());
        }
        let plugin: &str = self.context.counters.plugin();
        tracing::warn!(plugin, role = self.id.actor.as_str(), error = %problem, "plugin instance not rebuilt");
        let kind = match problem {
            LoadProblem::Trapped(report) => report.kind,
            _ => TrapKind::Trap,
        };
        self.count_loss(kind, "init", &problem.to_string());
        let decision = self.decide(kind, LossSubject::Plugin);
        self.apply_decision(decision, &problem.to_string());
    }
}

fn warn_of_loss(plugin: &str, report: &TrapReport, suppressed: u64) {
    let (export, object) = (report.export, report.object.as_deref());
    tracing::warn!(
        plugin,
        export,
        object,
        error = report.cause,
        last_lines = (!report.last_lines.is_empty()).then(|| report.last_lines.join("\n")),
        frames = (!report.frames.is_empty()).then(|| report.frames.join(" < ")),
        suppressed = (suppressed > 0).then_some(suppressed),
        "plugin instance lost"
    );
}
