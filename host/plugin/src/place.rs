//! An actor's instance, or the lack of one.
//!
//! Both actors keep theirs in the same way: an instance that was lost is rebuilt with growing waits, and after too many
//! losses the place stays empty until somebody resumes it. What a lost instance costs the events that waited is the
//! actor's business.

use std::sync::Arc;
use std::time::Duration;

use crate::described::Described;
use crate::error::Problem;
use crate::instance::Instance;
use crate::orders::{Inbox, Order, Woken};
use crate::rebuild::{Losses, Remedy};
use crate::shared::{Actor, Shared};
use crate::spec::OnFailure;
use crate::status::PluginState;
use crate::terms::Terms;
use crate::{TrapKind, TrapReport};

/// Where one actor's instance lives.
pub(crate) struct Place {
    pub(crate) shared: Arc<Shared>,
    pub(crate) version: Described,
    /// What the instance was made under, or amended since.
    pub(crate) terms: Arc<Terms>,
    pub(crate) instance: Option<Instance>,
    actor: Actor,
    /// What the actor does while nothing is wrong.
    usual: PluginState,
    memory_bytes: usize,
    losses: Losses,
    /// What the last loss leads to. None: the place is not empty, or needs no instance.
    remedy: Option<Remedy>,
}

/// What came of an empty place.
pub(crate) enum Filled {
    /// There is an instance again.
    Rebuilt,
    /// Something else comes first.
    Order(Order),
    /// The actor is to end.
    End,
}

impl Place {
    pub(crate) fn new(shared: Arc<Shared>, version: Described, instance: Option<Instance>, actor: Actor) -> Place {
        let mut place = Place {
            terms: shared.terms(),
            shared,
            version,
            instance,
            actor,
            usual: PluginState::Loaded,
            memory_bytes: 0,
            losses: Losses::default(),
            remedy: None,
        };
        place.note_memory();
        place
    }

    /// What the actor does from now on while nothing is wrong.
    pub(crate) fn set_usual(&mut self, state: PluginState) {
        self.usual = state;
        if self.remedy.is_none() {
            self.shared.set_state(self.actor, state, None);
        }
    }

    /// Notes how much memory the instance has now.
    pub(crate) fn note_memory(&mut self) {
        let bytes = self.instance.as_ref().map_or(0, Instance::memory_bytes);
        if bytes != self.memory_bytes {
            self.memory_bytes = bytes;
            self.shared.set_memory(self.actor, bytes);
        }
    }

    /// The actor ends.
    pub(crate) fn end(&mut self) {
        self.instance = None;
        self.note_memory();
        self.shared.set_state(self.actor, PluginState::Stopped, None);
    }

    /// Whether an instance is missing: the version that runs gives this actor work.
    pub(crate) fn is_empty(&self) -> bool {
        self.instance.is_none() && self.actor.is_needed(self.version.component.roles)
    }

    /// Whether it waits for somebody to resume it.
    pub(crate) fn is_quarantined(&self) -> bool {
        self.remedy == Some(Remedy::Quarantine)
    }

    /// Another version takes the place, whatever state it is in.
    pub(crate) fn take_over(&mut self, terms: Arc<Terms>, version: Described, instance: Option<Instance>) {
        self.terms = terms;
        self.version = version;
        self.instance = instance;
        self.forgive();
        self.note_memory();
    }

    /// Ends a quarantine or a wait; what is missing is rebuilt at once.
    pub(crate) fn forgive(&mut self) {
        self.losses.forget();
        self.shared.conduct.forgive();
        self.remedy = None;
        self.shared.set_state(self.actor, self.usual, None);
    }

    /// The instance trapped or overran and is gone.
    pub(crate) fn lose(&mut self, report: &TrapReport) {
        self.instance = None;
        self.note_memory();
        let plugin: &str = self.shared.counters.plugin();
        let (export, object) = (report.export, report.object.as_deref());
        let (cause, frames, last_lines) = (&report.cause, report.frames.join(" < "), report.last_lines.join("\n"));
        tracing::warn!(
            plugin,
            export,
            object,
            cause,
            last_lines,
            frames,
            "a plugin lost its instance"
        );
        self.suffer(report.kind, report.kind.as_str(), &report.to_string());
    }

    fn suffer(&mut self, kind: TrapKind, reason: &'static str, error: &str) {
        self.shared.lost(reason, error);
        if kind == TrapKind::Timeout {
            self.shared.conduct.overran(self.shared.now());
        }
        let remedy = match self.terms.spec.on_failure {
            OnFailure::Quarantine => Remedy::Quarantine,
            OnFailure::Retry | OnFailure::Skip => self.losses.note(kind, self.shared.now()),
        };
        self.set_remedy(remedy, error);
    }

    /// Leaves the place empty until somebody resumes it.
    pub(crate) fn quarantine(&mut self, because: &str) {
        self.instance = None;
        self.note_memory();
        self.set_remedy(Remedy::Quarantine, because);
    }

    fn set_remedy(&mut self, remedy: Remedy, because: &str) {
        self.remedy = Some(remedy);
        let state = match remedy {
            Remedy::Quarantine => PluginState::Quarantined,
            // Nobody notices an instance that is back at once.
            Remedy::RebuildAfter(Duration::ZERO) => return,
            Remedy::RebuildAfter(_) => PluginState::Restarting,
        };
        if state == PluginState::Quarantined {
            self.shared.trial.fail(because);
            let plugin: &str = self.shared.counters.plugin();
            let role = self.actor.as_str();
            tracing::error!(
                plugin,
                role,
                because,
                "a plugin is in quarantine and not called until it is resumed or swapped"
            );
        }
        self.shared.set_state(self.actor, state, Some(because.to_owned()));
    }

    /// Fills the empty place: waits as long as the last loss asks for, then makes an instance; again until there is
    /// one.
    pub(crate) async fn fill(&mut self, inbox: &mut Inbox) -> Filled {
        loop {
            let until = match self.remedy {
                Some(Remedy::Quarantine) => None,
                Some(Remedy::RebuildAfter(wait)) => Some(self.shared.now() + wait),
                None => Some(self.shared.now()),
            };
            if until.is_none_or(|until| self.shared.now() < until) {
                match inbox.wait_for_order(until).await {
                    Woken::Order(order) => return Filled::Order(order),
                    Woken::End => return Filled::End,
                    Woken::Time | Woken::Work => {}
                }
            }
            match self.shared.instance(&self.terms, &self.version, self.actor).await {
                Ok(instance) => {
                    self.instance = Some(instance);
                    self.note_memory();
                    if self.remedy.take() != Some(Remedy::RebuildAfter(Duration::ZERO)) {
                        self.shared.set_state(self.actor, self.usual, None);
                    }
                    return Filled::Rebuilt;
                }
                Err(problem) if inbox.is_over() => {
                    tracing::debug!(%problem, "a plugin ends while its instance is rebuilt");
                    return Filled::End;
                }
                Err(problem) => self.fail_to_rebuild(&problem),
            }
        }
    }

    /// `init` failed or trapped, or there is no room for an instance.
    fn fail_to_rebuild(&mut self, problem: &Problem) {
        let plugin: &str = self.shared.counters.plugin();
        tracing::warn!(plugin, role = self.actor.as_str(), %problem, "a plugin's instance cannot be rebuilt");
        let kind = match problem {
            Problem::Trapped(report) => report.kind,
            _ => TrapKind::Trap,
        };
        self.suffer(kind, "init", &problem.to_string());
    }
}
