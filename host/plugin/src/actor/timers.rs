//! The timers of a plugin: when runs are due, and which have ended.
//!
//! ```text
//! event actor ──due──▶ listener (a tick) ──▶ worker of instance 0 ──▶ on-timer
//!      ▲                                                                 │
//!      └── next time ── Timers ◀──────────── ended ──────────────────────┘──▶ the plugin's keys
//! ```
//!
//! - The last run of each timer that has ended, accepted or given up, is recorded in the plugin's keys, where no guest
//!   sees it. After a restart, times since then were missed. Without a state database there is no record, and only the
//!   next time counts.
//! - A time comes once: none before the last one is due again, however the clock is set. A record from more than a
//!   day ahead was made with a wrong clock, and does not count.
//! - A wait is as long as the clock says when it begins. If the clock is set meanwhile,
//!   [`ClockWatch`](crate::runtime::clock_watch) ends it.

mod schedule;

use std::collections::BTreeMap;
use std::pin::pin;
use std::sync::{Arc, Weak};
use std::time::Duration;

use informant_cache::listener::Tick;
use informant_cache::seeded_bug::{SeededBug, seeded_bug};
use informant_cache::{LogThrottle, Moment};
use informant_spec::TimerSpec;
use jiff::Timestamp;

use self::schedule::{Run, Timer};
use crate::actor::{ActorKind, PluginContext};
use crate::component::manifest::Manifest;
use crate::engine::wait::{self, TooLate};
use crate::instance::config::PluginConfig;
use crate::status::{EndedRun, TimerStatus};
use crate::sync::lock;

/// Runs that were given up and are logged within [`GIVEN_UP_WARNING_PERIOD`]: 10. The next line says how many had none.
const GIVEN_UP_WARNINGS_MAX: usize = 10;

/// See [`GIVEN_UP_WARNINGS_MAX`]: 60 s.
const GIVEN_UP_WARNING_PERIOD: Duration = Duration::from_secs(60);

/// How long the records may take to be read before they are unknown: 10 s, the time in which a disk answers. With
/// replicas the wait continues while this one may act: its predecessor has made runs, and the API server may be slow.
const RECORDS_TIME_MAX: Duration = Duration::from_secs(10);

/// The timers of one plugin; none that are not in its manifest.
pub(crate) struct Timers {
    timers: Vec<Timer>,
    /// The last runs that have ended, by timer. None: they could not be read. They begin again with the next run.
    records: Option<Records>,
    /// Nothing is due between these two times: the last look at the schedules, and the next run.
    quiet: Option<(Timestamp, Timestamp)>,
    /// Its waits end when the clock is set.
    watched: Option<Arc<dyn Fn() + Send + Sync>>,
    /// Lines about runs that were given up.
    given_up: LogThrottle,
}

/// When the last run of each timer was due that has ended.
pub(crate) type Records = BTreeMap<String, Timestamp>;

/// The result of asking for a run.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum TimerTriggered {
    /// A run was added.
    Queued,
    /// One was pending or in flight: this one becomes part of it, or follows it.
    Waiting,
    /// There is no such timer.
    Unknown,
}

impl Default for Timers {
    fn default() -> Timers {
        Timers {
            timers: Vec::new(),
            records: None,
            quiet: None,
            watched: None,
            given_up: LogThrottle::new(GIVEN_UP_WARNINGS_MAX, GIVEN_UP_WARNING_PERIOD),
        }
    }
}

impl Timers {
    /// Has these timers from now on. What is known of those that stay is kept. What a new one may miss begins now.
    fn set(&mut self, specs: Vec<TimerSpec>, now: Timestamp, random: &mut dyn FnMut() -> u64) {
        let mut before = std::mem::take(&mut self.timers);
        for spec in specs {
            let known = before.iter().position(|timer| timer.spec.name == spec.name);
            let timer = match known.map(|at| before.swap_remove(at)) {
                Some(timer) => timer.with(spec, now, random),
                None => {
                    let known = self.records.as_mut();
                    let record = known.map(|records| *records.entry(spec.name.clone()).or_insert(now));
                    Timer::new(spec, record, now, random)
                }
            };
            self.timers.push(timer);
        }
        let timers = &self.timers;
        let is_known = |name: &str| timers.iter().any(|timer| timer.spec.name == name);
        self.records
            .iter_mut()
            .for_each(|records| records.retain(|name, _| is_known(name)));
        self.quiet = None;
    }

    /// The runs that are due.
    fn due(&mut self, now: Timestamp, is_ticking: impl Fn(&str) -> bool, random: &mut dyn FnMut() -> u64) -> Vec<Run> {
        if self.quiet.is_some_and(|(from, to)| (from..to).contains(&now)) {
            return Vec::new();
        }
        let timers = self.timers.iter_mut();
        let due = timers.filter_map(|timer| timer.due(now, &is_ticking, random)).collect();
        let next = self.timers.iter().filter_map(Timer::next).min();
        self.quiet = next.map(|next| (now, next));
        due
    }

    /// When the next run is due.
    fn next(&self) -> Option<Timestamp> {
        self.quiet.map(|(_, next)| next)
    }

    /// A run of a timer that is still there has ended. Returns whether the records have changed.
    fn ended(&mut self, tick: &Tick, accepted: bool, now: Timestamp) -> Option<bool> {
        let timer = self.timers.iter_mut().find(|timer| timer.spec.name == *tick.timer)?;
        timer.ended = Some(EndedRun {
            scheduled: Timestamp::from_millisecond(tick.scheduled_ms).unwrap_or(now),
            at: now,
            accepted,
        });
        let Some(due) = tick.due_ms.and_then(|due| Timestamp::from_millisecond(due).ok()) else {
            return Some(false);
        };
        let timers = self.timers.iter();
        let records = self
            .records
            .get_or_insert_with(|| timers.map(|timer| (timer.spec.name.clone(), timer.last)).collect());
        Some(records.insert(tick.timer.to_string(), due) != Some(due))
    }
}

impl PluginContext {
    /// The version with this manifest works from now on, with this section. Returns whether it has timers.
    pub(crate) async fn arrange_timers(self: &Arc<PluginContext>, manifest: &Manifest, config: &PluginConfig) -> bool {
        if manifest.timers.is_empty() && lock(&self.timers).is_none() {
            return false;
        }
        let is_first = lock(&self.timers).is_none();
        let records = match is_first {
            true => self.recorded_runs().await,
            false => None,
        };
        let (env, now) = (&self.runtime.env, self.runtime.wall.now());
        let mut guard = lock(&self.timers);
        let timers = guard.get_or_insert_default();
        if is_first {
            timers.records = records;
        }
        let before = timers.records.clone();
        timers.set(manifest.timers_of(&config.spec), now, &mut || env.random());
        if let Some(records) = timers.records.as_ref().filter(|_| timers.records != before) {
            self.capabilities.kv.record_runs(records);
        }
        if timers.watched.is_none() {
            let wake = self.waker_of_actor();
            self.runtime.clock_watch.watch(&self.runtime, &wake);
            timers.watched = Some(wake);
            let of = Arc::downgrade(self);
            let ended = move |tick: &Tick, accepted| {
                if let Some(context) = Weak::upgrade(&of) {
                    context.run_has_ended(tick, accepted);
                }
            };
            self.listener.consumer().set_tick_callback(Arc::new(ended));
        }
        !timers.timers.is_empty()
    }

    /// The plugin stands by: who acts next reads the records again.
    pub(crate) fn forget_timers(&self) {
        *lock(&self.timers) = None;
    }

    /// Adds the runs that are due. Returns when the next one is.
    pub(crate) fn run_timers(&self) -> Option<Moment> {
        let (consumer, env, now) = (self.listener.consumer(), &self.runtime.env, self.runtime.wall.now());
        let (due, next) = {
            let mut guard = lock(&self.timers);
            let timers = guard.as_mut()?;
            let due = timers.due(now, |timer| consumer.is_ticking(timer), &mut || env.random());
            (due, timers.next())
        };
        for Run { timer, tick, missed } in due {
            self.counters.timer_missed(&timer, missed);
            if let Some(tick) = tick {
                consumer.tick(tick, self.now());
            }
        }
        let wait = Duration::try_from(next?.duration_since(now)).unwrap_or_default();
        Some(self.now() + wait)
    }

    /// Asks for a run of a timer that is not due.
    pub(crate) fn trigger_timer(&self, timer: &str) -> TimerTriggered {
        let now = self.runtime.wall.now();
        let is_known = |timers: &Timers| timers.timers.iter().any(|known| known.spec.name == timer);
        if !lock(&self.timers).as_deref().is_some_and(is_known) {
            return TimerTriggered::Unknown;
        }
        let consumer = self.listener.consumer();
        let is_waiting = consumer.is_ticking(timer);
        let tick = Tick {
            timer: timer.into(),
            scheduled_ms: now.as_millisecond(),
            // The schedule is as it was.
            due_ms: None,
            missed: 0,
        };
        consumer.tick(tick, self.now());
        match is_waiting {
            true => TimerTriggered::Waiting,
            false => TimerTriggered::Queued,
        }
    }

    pub(crate) fn timer_status(&self) -> Vec<TimerStatus> {
        let guard = lock(&self.timers);
        let timers = guard.as_ref().map_or(&[][..], |timers| &timers.timers);
        timers.iter().map(Timer::status).collect()
    }

    fn run_has_ended(&self, tick: &Tick, accepted: bool) {
        let now = self.runtime.wall.now();
        let line = {
            let mut guard = lock(&self.timers);
            let Some(timers) = guard.as_deref_mut() else { return };
            let Some(has_changed) = timers.ended(tick, accepted, now) else {
                return;
            };
            // Under the lock: a later record is written later.
            let is_written = has_changed && !seeded_bug(SeededBug::TimerRunNotRecorded);
            if let Some(records) = timers.records.as_ref().filter(|_| is_written) {
                self.capabilities.kv.record_runs(records);
            }
            (!accepted).then(|| timers.given_up.line(self.now())).flatten()
        };
        if accepted {
            self.counters.timer_succeeded(&tick.timer, now.as_second());
        }
        if let Some(suppressed) = line {
            let (plugin, timer): (&str, &str) = (self.counters.plugin(), &tick.timer);
            let suppressed = (suppressed > 0).then_some(suppressed);
            tracing::warn!(
                plugin,
                timer,
                suppressed,
                "run of a timer given up; the next one follows its schedule"
            );
        }
    }

    /// None if the plugin stands by meanwhile; and with a line about it if they cannot be read.
    async fn recorded_runs(&self) -> Option<Records> {
        let read = self
            .ends_calls(ActorKind::Events)
            .run_until_cancelled_owned(self.read_runs())
            .await;
        let problem = match read? {
            Ok(records) => return Some(records),
            Err(problem) => problem,
        };
        let plugin: &str = self.counters.plugin();
        tracing::warn!(plugin, error = %problem, "plugin timers have no record; missed runs are unknown");
        None
    }

    async fn read_runs(&self) -> Result<Records, String> {
        let mut records = pin!(self.capabilities.kv.recorded_runs());
        loop {
            match wait::at_most(&*self.runtime.env, RECORDS_TIME_MAX, records.as_mut()).await {
                Ok(read) => return read.map_err(|error| error.message),
                Err(TooLate) if self.effects.has_replicas() && self.effects.may_act(None) => {}
                Err(TooLate) => return Err(format!("reading them took more than {RECORDS_TIME_MAX:?}")),
            }
        }
    }
}
