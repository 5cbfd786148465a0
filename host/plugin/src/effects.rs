//! What a plugin in dry run would have done.
//!
//! `dry-run = true` in a plugin's section withholds what leaves Informant: writes are sent as `dryRun=All`, changes of
//! `kv` stay in an overlay, and HTTP requests other than GET and HEAD are not sent. Each of these is recorded here. An
//! [observer](crate::observed::PluginObserver) receives them at once, and those that are not withheld.
//!
//! Effects begin only while this process [acts](ActingGate) for the object whose event led to them, and while the
//! plugin does not stand by.

pub(crate) mod acting;
mod metrics;
pub(crate) mod share;

use std::collections::VecDeque;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Arc, Mutex, MutexGuard};
use std::time::Duration;

use informant_cache::Environment;
use informant_object::{KeyRef, SourceId};
use informant_spec::PluginSpec;

use self::acting::{ActingGate, ActsFor, NotActing};
use self::share::LimitShare;
use crate::observed::{Effect, EffectKind, KubernetesEvent, Observed};
use crate::sync::lock;
use crate::text::truncated_at;

pub(crate) use self::metrics::EffectSeries;

/// Effects of one plugin that are listed: 1,000. Above it the oldest is dropped, and counted.
pub(crate) const EFFECTS_MAX: usize = 1_000;

/// Bytes of each text of an effect: 1 KiB. The rest is cut.
pub(crate) const EFFECT_TEXT_BYTES_MAX: usize = 1 << 10;

/// The object whose event led to an effect or a call, and its source. None: there is none, or it is not known.
pub(crate) type About<'a> = Option<(SourceId, KeyRef<'a>)>;

/// The effects that one plugin had in dry run.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct EffectList {
    /// Whether the plugin is in dry run now.
    pub is_dry_run: bool,
    /// Effects that were dropped because there were more than `EFFECTS_MAX`.
    pub dropped: u64,
    /// The others, oldest first.
    pub effects: Vec<Effect>,
}

/// Whether a plugin may act and how often, whether it is in dry run, and what it would have done.
pub(crate) struct Effects {
    env: Arc<dyn Environment>,
    /// None: it is always open.
    gate: Option<Arc<dyn ActingGate>>,
    is_standby: AtomicBool,
    /// Whether its objects are divided among replicas.
    is_divided: AtomicBool,
    /// How much of the plugin's rates this process has.
    share: Mutex<LimitShare>,
    /// The number of the dry run; 0: there is none.
    run: AtomicU64,
    recorded: Mutex<Recorded>,
    series: Arc<EffectSeries>,
    observed: Observed,
}

#[derive(Default)]
struct Recorded {
    /// Dry runs so far.
    runs: u64,
    effects: VecDeque<Effect>,
    dropped: u64,
}

impl Effects {
    pub(crate) fn new(
        is_dry_run: bool,
        env: &Arc<dyn Environment>,
        series: Arc<EffectSeries>,
        observed: Observed,
        gate: Option<Arc<dyn ActingGate>>,
        is_divided: bool,
    ) -> Effects {
        let is_closed = |gate: &Arc<dyn ActingGate>| gate.remaining(acts_for(is_divided, None)).is_none();
        let effects = Effects {
            env: Arc::clone(env),
            is_standby: AtomicBool::new(gate.as_ref().is_some_and(is_closed)),
            is_divided: AtomicBool::new(is_divided),
            share: Mutex::new(LimitShare::WHOLE),
            gate,
            run: AtomicU64::new(0),
            recorded: Mutex::default(),
            series,
            observed,
        };
        effects.set_dry_run(is_dry_run);
        effects
    }

    /// Works with this section from now on.
    pub(crate) fn configure(&self, spec: &PluginSpec) {
        self.is_divided.store(spec.is_divided, Ordering::Release);
        self.set_dry_run(spec.is_dry_run);
    }

    /// Whether an effect of this kind may begin now, and how long it may take. Ask right before it begins.
    pub(crate) fn admit(&self, kind: EffectKind, about: About<'_>) -> Result<Duration, NotActing> {
        self.remaining(about).ok_or_else(|| {
            self.series.count_refused(kind.as_str());
            NotActing
        })
    }

    /// Whether what a call has changed may take effect.
    pub(crate) fn admit_call(&self, about: About<'_>) -> bool {
        let may_act = self.may_act(about);
        if !may_act {
            self.series.count_refused("call");
        }
        may_act
    }

    /// Whether another process may act.
    pub(crate) fn has_replicas(&self) -> bool {
        self.gate.is_some()
    }

    /// Whether the plugin may be called, and have effects.
    pub(crate) fn may_act(&self, about: About<'_>) -> bool {
        self.remaining(about).is_some()
    }

    fn remaining(&self, about: About<'_>) -> Option<Duration> {
        match &self.gate {
            _ if self.is_standby() => None,
            None => Some(Duration::MAX),
            Some(gate) => gate.remaining(acts_for(self.is_divided(), about)),
        }
    }

    /// Whether its objects are divided among replicas.
    pub(crate) fn is_divided(&self) -> bool {
        self.is_divided.load(Ordering::Acquire)
    }

    /// How much of the plugin's rates this process has.
    pub(crate) fn limit_share(&self) -> LimitShare {
        *lock(&self.share)
    }

    /// Returns whether that is a change: then the rates are to be set again.
    pub(crate) fn set_limit_share(&self, share: LimitShare) -> bool {
        std::mem::replace(&mut *lock(&self.share), share) != share
    }

    pub(crate) fn is_standby(&self) -> bool {
        self.is_standby.load(Ordering::Acquire)
    }

    pub(crate) fn set_standby(&self, is_standby: bool) {
        self.is_standby.store(is_standby, Ordering::Release);
    }

    /// Whether effects are withheld. Read it once for each of them, when it is due.
    pub(crate) fn is_dry_run(&self) -> bool {
        self.run() > 0
    }

    /// The number of the dry run; 0: there is none.
    pub(crate) fn run(&self) -> u64 {
        self.run.load(Ordering::Acquire)
    }

    /// Begins or ends the dry run. A new one starts with an empty list.
    pub(crate) fn set_dry_run(&self, is_dry_run: bool) {
        let mut recorded = self.lock();
        if self.is_dry_run() == is_dry_run {
            return;
        }
        if is_dry_run {
            *recorded = Recorded {
                runs: recorded.runs + 1,
                ..Recorded::default()
            };
        }
        self.run
            .store(if is_dry_run { recorded.runs } else { 0 }, Ordering::Release);
        self.series.show(is_dry_run);
    }

    /// Whether somebody wants to know of effects that are not withheld.
    pub(crate) fn is_observed(&self) -> bool {
        self.observed.is_there()
    }

    /// Whether somebody wants to know of changes of keys.
    pub(crate) fn shows_keys(&self) -> bool {
        self.observed.wants_calls()
    }

    /// Tells the observer of what was done now, if there is one.
    pub(crate) fn made(&self, effect: impl FnOnce() -> Effect) {
        if !self.is_observed() {
            return;
        }
        let effect = self.bounded(effect());
        if effect.is_noticeable() {
            self.series.count_made(effect.kind, effect.error.is_none());
        }
        self.observed.had_effect(&effect, false);
    }

    /// Effects that others may notice, since the plugin was loaded.
    pub(crate) fn made_so_far(&self) -> u64 {
        self.series.made_so_far()
    }

    /// Tells the observer of a Kubernetes Event, if there is one.
    pub(crate) fn recorded(&self, event: impl FnOnce() -> KubernetesEvent) {
        self.observed.recorded(event);
    }

    /// Records what was withheld, now.
    pub(crate) fn record(&self, effect: Effect) {
        self.series.count(effect.kind);
        let effect = self.bounded(effect);
        self.observed.had_effect(&effect, true);
        let mut recorded = self.lock();
        if recorded.effects.len() >= EFFECTS_MAX {
            recorded.effects.pop_front();
            recorded.dropped += 1;
            self.series.count_dropped();
        }
        recorded.effects.push_back(effect);
    }

    pub(crate) fn list(&self) -> EffectList {
        let recorded = self.lock();
        EffectList {
            is_dry_run: self.is_dry_run(),
            dropped: recorded.dropped,
            effects: recorded.effects.iter().cloned().collect(),
        }
    }

    /// The effect with the present time, its texts cut.
    fn bounded(&self, effect: Effect) -> Effect {
        let truncated = |text| truncated_at(text, EFFECT_TEXT_BYTES_MAX);
        Effect {
            at: self.env.now(),
            action: truncated(effect.action),
            cluster: truncated(effect.cluster),
            target: truncated(effect.target),
            detail: truncated(effect.detail),
            error: effect.error.map(truncated),
            ..effect
        }
    }

    fn lock(&self) -> MutexGuard<'_, Recorded> {
        // Changed by single assignments: whole after any panic.
        lock(&self.recorded)
    }
}

/// What the gate is asked for. A plugin that is not divided acts for all objects or for none.
fn acts_for(is_divided: bool, about: About<'_>) -> ActsFor<'_> {
    match about {
        _ if !is_divided => ActsFor::Whole,
        Some((source, key)) => ActsFor::Object(source, key),
        None => ActsFor::AnyShard,
    }
}

/// The beginning of a document.
pub(crate) fn beginning(document: &[u8]) -> String {
    // One more shows that it was cut.
    String::from_utf8_lossy(&document[..document.len().min(EFFECT_TEXT_BYTES_MAX + 1)]).into_owned()
}

/// The effects of a plugin that only tests have.
#[cfg(test)]
pub(crate) fn withheld(is_dry_run: bool) -> Effects {
    let env: Arc<dyn Environment> = Arc::new(crate::testing::TokioTime);
    Effects::new(is_dry_run, &env, Arc::default(), Observed::default(), None, false)
}

#[cfg(test)]
mod tests;
