//! One timer: which of its times are due, and when the next one is. Pure.

use std::sync::Arc;
use std::time::Duration;

use informant_cache::listener::Tick;
use informant_spec::{Missed, Schedule, TimerSpec};
use jiff::Timestamp;

use crate::status::{EndedRun, TimerStatus};

/// How far ahead of the clock the last run may be: one day. What is farther ahead was a wrong clock.
pub(crate) const RECORD_AHEAD_MAX: Duration = Duration::from_secs(24 * 3_600);

pub(super) struct Timer {
    pub(super) spec: TimerSpec,
    name: Arc<str>,
    /// Times after this one count.
    pub(super) last: Timestamp,
    /// How much later than it is due the next run is made.
    delay: Duration,
    /// A run is made at once.
    is_starting: bool,
    /// The last run that has ended since the plugin was loaded.
    pub(super) ended: Option<EndedRun>,
}

/// A time of a timer that is due.
pub(super) struct Run {
    pub(super) timer: Arc<str>,
    /// None: it is left out.
    pub(super) tick: Option<Tick>,
    /// Times that were missed, those that the run stands for included.
    pub(super) missed: u32,
}

impl Timer {
    /// A timer whose last run that has ended was due at `record`, if it is known.
    pub(super) fn new(
        spec: TimerSpec,
        record: Option<Timestamp>,
        now: Timestamp,
        random: &mut dyn FnMut() -> u64,
    ) -> Timer {
        let record = record.unwrap_or(now);
        let last = match spec.missed {
            Missed::Once => record,
            // What was missed before is left out.
            Missed::Skip => spec.schedule.due(record, now).map_or(record, |due| due.scheduled),
        };
        Timer {
            is_starting: spec.at_start,
            delay: delay(&spec, random),
            last,
            ended: None,
            name: spec.name.as_str().into(),
            spec,
        }
    }

    /// The same timer with another version or section.
    pub(super) fn with(self, spec: TimerSpec, now: Timestamp, random: &mut dyn FnMut() -> u64) -> Timer {
        let last = match self.spec.schedule == spec.schedule {
            true => self.last,
            // Times of the new schedule that are over were never due.
            false => self.last.max(now),
        };
        Timer {
            delay: delay(&spec, random),
            last,
            spec,
            ..self
        }
    }

    /// The run that is due. `is_ticking`: whether one of a timer is pending or in flight.
    pub(super) fn due(
        &mut self,
        now: Timestamp,
        is_ticking: &impl Fn(&str) -> bool,
        random: &mut dyn FnMut() -> u64,
    ) -> Option<Run> {
        self.follow_clock(now);
        if std::mem::take(&mut self.is_starting) {
            let due = self.spec.schedule.due(self.last, now);
            self.last = due.map_or(self.last, |due| due.scheduled);
            let missed = due.map_or(0, |due| due.missed + 1);
            let mut run = self.run(Some(now), missed, missed);
            if let Some(tick) = &mut run.tick {
                tick.due_ms = Some(self.last.as_millisecond());
            }
            return Some(run);
        }
        let due = self.spec.schedule.due(self.last, now.checked_sub(self.delay).ok()?)?;
        self.last = due.scheduled;
        self.delay = delay(&self.spec, random);
        Some(match self.spec.missed {
            Missed::Skip if is_ticking(&self.name) => self.run(None, 0, due.missed + 1),
            Missed::Skip => self.run(Some(due.scheduled), 0, due.missed),
            Missed::Once => self.run(Some(due.scheduled), due.missed, due.missed),
        })
    }

    /// When the next run is made.
    pub(super) fn next(&self) -> Option<Timestamp> {
        match self.is_starting {
            true => Some(self.last),
            false => self.spec.schedule.next(self.last)?.checked_add(self.delay).ok(),
        }
    }

    pub(super) fn status(&self) -> TimerStatus {
        TimerStatus {
            name: self.spec.name.clone(),
            schedule: self.spec.schedule.to_string(),
            ended: self.ended,
            next: self.next(),
        }
    }

    /// Forgets a last time that a wrong clock has made. A period begins again if the clock was set back.
    fn follow_clock(&mut self, now: Timestamp) {
        let ahead_max = match self.spec.schedule {
            Schedule::Every(_) => Duration::ZERO,
            Schedule::Cron(_) => RECORD_AHEAD_MAX,
        };
        let ahead = Duration::try_from(self.last.duration_since(now)).unwrap_or_default();
        if ahead > ahead_max {
            self.last = now;
        }
    }

    /// A run that stands for `stands_for` earlier times, of `missed` that were missed.
    fn run(&self, scheduled: Option<Timestamp>, stands_for: u32, missed: u32) -> Run {
        let tick = |scheduled: Timestamp| Tick {
            timer: Arc::clone(&self.name),
            scheduled_ms: scheduled.as_millisecond(),
            due_ms: Some(scheduled.as_millisecond()),
            missed: stands_for,
        };
        Run {
            timer: Arc::clone(&self.name),
            tick: scheduled.map(tick),
            missed,
        }
    }
}

/// A delay below the jitter, by chance.
fn delay(spec: &TimerSpec, random: &mut dyn FnMut() -> u64) -> Duration {
    match u64::try_from(spec.jitter.as_nanos()).unwrap_or(u64::MAX) {
        0 => Duration::ZERO,
        nanos => Duration::from_nanos(random() % nanos),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn time(text: &str) -> Timestamp {
        format!("2026-03-{text}:00Z").parse().unwrap()
    }

    fn spec(cron: Option<&str>, every: Option<u64>) -> TimerSpec {
        TimerSpec {
            name: "t".to_owned(),
            schedule: Schedule::new(cron, None, every.map(Duration::from_secs)).unwrap(),
            missed: Missed::Once,
            jitter: Duration::ZERO,
            at_start: false,
        }
    }

    fn timer(spec: TimerSpec, record: Option<&str>, now: &str) -> Timer {
        Timer::new(spec, record.map(time), time(now), &mut || 0)
    }

    /// The run that is due, as `DAYTHOUR:MINUTE missed N`.
    fn due(timer: &mut Timer, now: &str) -> String {
        due_while(timer, now, false)
    }

    fn due_while(timer: &mut Timer, now: &str, is_ticking: bool) -> String {
        match timer
            .due(time(now), &|_| is_ticking, &mut || 0)
            .and_then(|run| run.tick)
        {
            None => "nothing".to_owned(),
            Some(tick) => {
                let scheduled = Timestamp::from_millisecond(tick.scheduled_ms).unwrap();
                format!("{} missed {}", &scheduled.to_string()[8..16], tick.missed)
            }
        }
    }

    #[test]
    fn what_was_missed_is_made_up_for_by_one_run() {
        let mut hourly = timer(spec(Some("0 * * * *"), None), Some("01T05:00"), "01T08:30");
        assert_eq!(due(&mut hourly, "01T08:30"), "01T08:00 missed 2");
        assert_eq!(due(&mut hourly, "01T08:59"), "nothing");
        assert_eq!(hourly.next(), Some(time("01T09:00")));
        assert_eq!(due(&mut hourly, "01T09:00"), "01T09:00 missed 0");
    }

    #[test]
    fn without_a_record_or_with_skip_the_next_time_counts() {
        let mut hourly = timer(spec(Some("0 * * * *"), None), None, "01T08:30");
        assert_eq!(due(&mut hourly, "01T08:30"), "nothing");
        assert_eq!(due(&mut hourly, "01T09:00"), "01T09:00 missed 0");
        let skips = TimerSpec {
            missed: Missed::Skip,
            ..spec(Some("0 * * * *"), None)
        };
        let mut skipping = timer(skips, Some("01T05:00"), "01T08:30");
        assert_eq!(due(&mut skipping, "01T08:30"), "nothing");
        assert_eq!(due_while(&mut skipping, "01T09:00", true), "nothing");
        assert_eq!(due(&mut skipping, "01T10:00"), "01T10:00 missed 0");
    }

    #[test]
    fn no_time_comes_twice_if_the_clock_is_set_back() {
        let mut daily = timer(spec(Some("0 8 * * *"), None), None, "01T07:00");
        assert_eq!(due(&mut daily, "01T08:00"), "01T08:00 missed 0");
        assert_eq!(due(&mut daily, "01T07:30"), "nothing");
        assert_eq!(due(&mut daily, "01T08:30"), "nothing");
        assert_eq!(due(&mut daily, "02T08:00"), "02T08:00 missed 0");
    }

    #[test]
    fn a_clock_that_was_far_ahead_stops_no_timer() {
        let mut daily = timer(spec(Some("0 8 * * *"), None), None, "01T07:00");
        assert_eq!(due(&mut daily, "20T09:00"), "20T08:00 missed 19");
        assert_eq!(due(&mut daily, "02T07:00"), "nothing");
        assert_eq!(due(&mut daily, "02T08:00"), "02T08:00 missed 0");
        let mut recorded = timer(spec(Some("0 8 * * *"), None), Some("20T08:00"), "01T07:00");
        assert_eq!(due(&mut recorded, "01T07:00"), "nothing");
        assert_eq!(due(&mut recorded, "01T08:00"), "01T08:00 missed 0");
    }

    #[test]
    fn a_period_begins_again_if_the_clock_is_set_back() {
        let mut every = timer(spec(None, Some(600)), None, "01T08:00");
        assert_eq!(due(&mut every, "01T08:10"), "01T08:10 missed 0");
        assert_eq!(due(&mut every, "01T07:00"), "nothing");
        assert_eq!(due(&mut every, "01T07:10"), "01T07:10 missed 0");
    }

    #[test]
    fn a_timer_can_run_at_the_start_too() {
        let starts = TimerSpec {
            at_start: true,
            ..spec(Some("0 * * * *"), None)
        };
        let mut hourly = timer(starts, Some("01T05:00"), "01T08:30");
        assert_eq!(due(&mut hourly, "01T08:30"), "01T08:30 missed 3");
        assert_eq!(due(&mut hourly, "01T09:00"), "01T09:00 missed 0");
    }

    #[test]
    fn jitter_delays_a_run_but_not_its_time() {
        let late = TimerSpec {
            jitter: Duration::from_secs(600),
            ..spec(Some("0 * * * *"), None)
        };
        let mut hourly = Timer::new(late, None, time("01T08:30"), &mut || 300_000_000_000);
        assert_eq!(hourly.next(), Some(time("01T09:05")));
        assert_eq!(due(&mut hourly, "01T09:04"), "nothing");
        assert_eq!(due(&mut hourly, "01T09:05"), "01T09:00 missed 0");
    }

    #[test]
    fn another_schedule_has_no_past() {
        let mut hourly = timer(spec(Some("0 * * * *"), None), None, "01T08:30");
        assert_eq!(due(&mut hourly, "01T09:00"), "01T09:00 missed 0");
        let mut minutely = hourly.with(spec(Some("* * * * *"), None), time("01T09:30"), &mut || 0);
        assert_eq!(due(&mut minutely, "01T09:30"), "nothing");
        assert_eq!(due(&mut minutely, "01T09:31"), "01T09:31 missed 0");
    }
}
