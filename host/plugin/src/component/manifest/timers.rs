//! The times at which a plugin is called although nothing has changed.

use std::collections::BTreeSet;
use std::time::Duration;

use informant_spec::{DURATION_FORM, Missed, PluginSpec, Schedule, TimerSpec, parse_duration};
use serde::Deserialize;
use serde::de::{self, Deserializer};

use super::{Manifest, validate_name};
use crate::component::roles::{Role, Roles};
use crate::error::LoadProblem;
use crate::json_error::all_members;

/// Timers of one plugin: 100.
const TIMERS_MAX: usize = 100;

/// An entry of the member `timers`.
#[derive(Deserialize)]
#[serde(deny_unknown_fields, rename_all = "camelCase")]
pub(crate) struct TimerRule {
    name: String,
    #[serde(default)]
    cron: Option<String>,
    #[serde(default)]
    zone: Option<String>,
    #[serde(default)]
    every: Option<String>,
    #[serde(default)]
    missed: MissedRule,
    #[serde(default)]
    jitter: Option<String>,
    #[serde(default)]
    at_start: bool,
}

#[derive(Default, Deserialize)]
#[serde(rename_all = "lowercase")]
enum MissedRule {
    #[default]
    Once,
    Skip,
}

impl TimerRule {
    /// The timer that this rule describes. The error is to be read after "the manifest".
    fn timer(self) -> Result<TimerSpec, String> {
        let name = self.name;
        let duration = |member: &str, text: Option<String>| match text {
            None => Ok(None),
            Some(text) => match parse_duration(&text) {
                Some(duration) => Ok(Some(duration)),
                None => Err(format!(
                    "the timer {name:?} has `{member}` {text:?}: write {DURATION_FORM}"
                )),
            },
        };
        let (every, jitter) = (duration("every", self.every)?, duration("jitter", self.jitter)?);
        let schedule = Schedule::new(self.cron.as_deref(), self.zone.as_deref(), every)
            .map_err(|problem| format!("the timer {name:?} {problem}"))?;
        Ok(TimerSpec {
            name,
            schedule,
            missed: match self.missed {
                MissedRule::Once => Missed::Once,
                MissedRule::Skip => Missed::Skip,
            },
            jitter: jitter.unwrap_or(Duration::ZERO),
            at_start: self.at_start,
        })
    }
}

/// Reads the member `timers`.
pub(super) fn timers<'de, D: Deserializer<'de>>(deserializer: D) -> Result<Vec<TimerSpec>, D::Error> {
    let rules: Vec<TimerRule> = all_members(deserializer)?;
    let timers = rules.into_iter().map(|rule| rule.timer().map_err(de::Error::custom));
    timers.collect()
}

impl Manifest {
    /// The timers, with the schedules that a section sets.
    pub(crate) fn timers_of(&self, spec: &PluginSpec) -> Vec<TimerSpec> {
        let mut timers = self.timers.clone();
        for timer in &mut timers {
            if let Some((_, schedule)) = spec.timers.iter().find(|(name, _)| *name == timer.name) {
                timer.schedule = schedule.clone();
            }
        }
        timers
    }

    /// Rejects a section that sets a schedule of a timer that is not there, or that lets several replicas have timers.
    /// Errors: [`LoadProblem::UnknownTimer`], [`LoadProblem::TimersDivided`].
    pub(super) fn check_timers(&self, spec: &PluginSpec) -> Result<(), LoadProblem> {
        if spec.is_divided && !self.timers.is_empty() {
            return Err(LoadProblem::TimersDivided {
                plugin: spec.name.clone(),
            });
        }
        let is_known = |name: &str| self.timers.iter().any(|timer| timer.name == name);
        match spec.timers.iter().find(|(name, _)| !is_known(name)) {
            None => Ok(()),
            Some((name, _)) => Err(LoadProblem::UnknownTimer {
                plugin: spec.name.clone(),
                timer: name.clone(),
                known: self.timers.iter().map(|timer| timer.name.clone()).collect(),
            }),
        }
    }

    /// Checks the role `timer-handler` and its member.
    pub(super) fn validate_timers(&self, exported: Roles) -> Result<(), String> {
        match (
            self.timers.is_empty(),
            self.active_roles(exported).has(Role::TimerHandler),
        ) {
            (false, false) => Err(
                "has `timers`, but the component does not export timer-handler; export the role, or remove `timers`"
                    .to_owned(),
            ),
            (true, true) => Err(
                "has no `timers`, but the component exports timer-handler; name the times in `timers`, or leave the \
                 role out of `roles`"
                    .to_owned(),
            ),
            _ if self.timers.len() > TIMERS_MAX => Err(format!(
                "has {} timers, and may have {TIMERS_MAX}; call several things from one timer",
                self.timers.len()
            )),
            _ => {
                let mut seen = BTreeSet::new();
                for timer in &self.timers {
                    validate_name("timers.name", &timer.name)?;
                    if !seen.insert(&timer.name) {
                        return Err(format!("has two timers with the name {:?}", timer.name));
                    }
                }
                Ok(())
            }
        }
    }
}
