//! Timers: when a plugin is called although nothing has changed.

use std::fmt;
use std::time::Duration;

use croner::Cron;
use croner::parser::{CronParser, Seconds, Year};
use jiff::Timestamp;
use jiff::tz::{TimeZone, TimeZoneDatabase};
use thiserror::Error;

use crate::duration::show_duration;
use crate::suggest;

/// The shortest period of a timer: 100 ms, as that of a requeue.
pub const TIMER_EVERY_MIN: Duration = Duration::from_millis(100);

/// The longest period of a timer: a year.
pub const TIMER_EVERY_MAX: Duration = Duration::from_secs(31_557_600);

/// Missed runs of a cron schedule that are counted: 10,000, a week of minutes. More are this many.
const MISSED_COUNTED_MAX: u32 = 10_000;

/// When a schedule is first looked for times, to find one that has none: 2000-01-01.
const REFERENCE_SECOND: i64 = 946_684_800;

/// A timer of a plugin.
#[derive(Clone, Debug, PartialEq)]
pub struct TimerSpec {
    /// Its name, which the handler receives.
    pub name: String,
    pub schedule: Schedule,
    /// What happens to runs that could not be made when they were due.
    pub missed: Missed,
    /// Each run is made up to this time later than it is due, by chance.
    pub jitter: Duration,
    /// Whether it also runs when the plugin starts.
    pub at_start: bool,
}

/// What happens to runs that could not be made when they were due, because Informant was not running, or because the
/// run before had not ended.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Missed {
    /// One run stands for all of them.
    #[default]
    Once,
    /// They are left out.
    Skip,
}

/// The times of a timer.
#[derive(Clone, Debug, PartialEq)]
pub enum Schedule {
    /// Each time this period is over.
    Every(Duration),
    Cron(CronSchedule),
}

/// Five fields of cron (minute, hour, day of the month, month, day of the week) in a time zone. A fixed time that a
/// change of the clock leaves out or repeats is one time; `*` and steps continue in real time.
#[derive(Clone, Debug)]
pub struct CronSchedule {
    written: String,
    zone: String,
    cron: Box<Cron>,
    time_zone: TimeZone,
}

/// A time that is due.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Due {
    pub scheduled: Timestamp,
    /// How many there were before it.
    pub missed: u32,
}

/// Why a schedule is refused.
#[derive(Clone, Debug, Error, PartialEq, Eq)]
pub enum ScheduleError {
    #[error("has neither `cron` nor `every`: write cron = \"0 8 * * 1-5\" or every = \"10m\"")]
    Missing,
    #[error("has both `cron` and `every`: keep one of them")]
    Both,
    #[error("has a `zone`, which belongs to `cron`: remove it")]
    ZoneOfPeriod,
    #[error("has `every` {}, and it may be {} to {}", show_duration(*.0), show_duration(TIMER_EVERY_MIN), show_duration(TIMER_EVERY_MAX))]
    Period(Duration),
    #[error(
        "has `cron` {written:?}: {cause}; write five fields (minute, hour, day of the month, month, day of the week)"
    )]
    Cron { written: String, cause: String },
    #[error("has `cron` {0:?}, which never comes: there is no such date")]
    Never(String),
    #[error("has the `zone` {zone:?}, which does not exist{}", hint(.nearest.as_deref()))]
    Zone { zone: String, nearest: Option<String> },
}

fn hint(nearest: Option<&str>) -> String {
    match nearest {
        Some(nearest) => format!("; did you mean {nearest:?}?"),
        None => ": write a name of the IANA database, such as \"Europe/Berlin\"".to_owned(),
    }
}

impl Schedule {
    /// The schedule that is written with these members. `zone`: UTC, if it is absent.
    ///
    /// # Errors
    /// [`ScheduleError`], to be read after the name of the timer.
    pub fn new(cron: Option<&str>, zone: Option<&str>, every: Option<Duration>) -> Result<Schedule, ScheduleError> {
        match (cron, every) {
            (None, None) => Err(ScheduleError::Missing),
            (Some(_), Some(_)) => Err(ScheduleError::Both),
            (None, Some(_)) if zone.is_some() => Err(ScheduleError::ZoneOfPeriod),
            (None, Some(every)) if !(TIMER_EVERY_MIN..=TIMER_EVERY_MAX).contains(&every) => {
                Err(ScheduleError::Period(every))
            }
            (None, Some(every)) => Ok(Schedule::Every(every)),
            (Some(cron), None) => Ok(Schedule::Cron(CronSchedule::new(cron, zone.unwrap_or("UTC"))?)),
        }
    }

    /// The first time after `after`. None: there is none.
    #[must_use]
    pub fn next(&self, after: Timestamp) -> Option<Timestamp> {
        match self {
            Schedule::Every(every) => after.checked_add(*every).ok(),
            Schedule::Cron(cron) => cron.next(after),
        }
    }

    /// The last time after `after` that is not after `now`.
    #[must_use]
    pub fn due(&self, after: Timestamp, now: Timestamp) -> Option<Due> {
        match self {
            Schedule::Every(every) => {
                let passed = Duration::try_from(now.duration_since(after)).ok()?;
                let periods = u32::try_from(passed.as_nanos() / every.as_nanos()).unwrap_or(u32::MAX);
                let missed = periods.checked_sub(1)?;
                let scheduled = after.checked_add(every.checked_mul(periods)?).ok()?;
                Some(Due { scheduled, missed })
            }
            Schedule::Cron(cron) => cron.due(after, now),
        }
    }
}

impl fmt::Display for Schedule {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Schedule::Every(every) => write!(f, "every {}", show_duration(*every)),
            Schedule::Cron(cron) => write!(f, "{} {}", cron.written, cron.zone),
        }
    }
}

impl CronSchedule {
    fn new(written: &str, zone: &str) -> Result<CronSchedule, ScheduleError> {
        let zones = TimeZoneDatabase::bundled();
        let time_zone = zones.get(zone).map_err(|_| {
            let known: Vec<String> = zones.available().map(|name| name.to_string()).collect();
            let nearest = suggest::nearest(zone, known.iter().map(String::as_str)).map(str::to_owned);
            let zone = zone.to_owned();
            ScheduleError::Zone { zone, nearest }
        })?;
        let parser = CronParser::builder()
            .seconds(Seconds::Disallowed)
            .year(Year::Disallowed)
            .build();
        let cron = parser.parse(written).map_err(|problem| ScheduleError::Cron {
            written: written.to_owned(),
            cause: problem.to_string().trim_end_matches('.').to_owned(),
        })?;
        let schedule = CronSchedule {
            written: written.to_owned(),
            zone: zone.to_owned(),
            cron: Box::new(cron),
            time_zone,
        };
        let reference = Timestamp::from_second(REFERENCE_SECOND).unwrap_or(Timestamp::UNIX_EPOCH);
        match schedule.next(reference) {
            Some(_) => Ok(schedule),
            None => Err(ScheduleError::Never(written.to_owned())),
        }
    }

    fn next(&self, after: Timestamp) -> Option<Timestamp> {
        let after = after.to_zoned(self.time_zone.clone());
        let next = self.cron.find_next_occurrence(&after, false).ok()?;
        Some(next.timestamp())
    }

    fn due(&self, after: Timestamp, now: Timestamp) -> Option<Due> {
        let mut due = None::<Due>;
        while let Some(next) = self
            .next(due.map_or(after, |due| due.scheduled))
            .filter(|next| *next <= now)
        {
            let missed = due.map_or(0, |due| due.missed + 1);
            due = Some(Due {
                scheduled: next,
                missed,
            });
            if missed >= MISSED_COUNTED_MAX {
                let last = self
                    .cron
                    .find_previous_occurrence(&now.to_zoned(self.time_zone.clone()), true);
                let scheduled = last.map_or(next, |last| last.timestamp());
                return Some(Due { scheduled, missed });
            }
        }
        due
    }
}

impl PartialEq for CronSchedule {
    fn eq(&self, other: &CronSchedule) -> bool {
        (&self.written, &self.zone) == (&other.written, &other.zone)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn time(text: &str) -> Timestamp {
        text.parse().unwrap()
    }

    fn cron(written: &str, zone: &str) -> Schedule {
        Schedule::new(Some(written), Some(zone), None).unwrap()
    }

    /// The times of a schedule after `after`.
    fn times(schedule: &Schedule, after: &str, count: usize) -> Vec<String> {
        let mut after = time(after);
        let mut next = || {
            after = schedule.next(after).unwrap();
            after.to_string()
        };
        (0..count).map(|_| next()).collect()
    }

    #[test]
    fn a_cron_schedule_follows_the_clock_of_its_zone() {
        let workdays = cron("0 8 * * 1-5", "Europe/Berlin");
        // Friday, before the clock goes forward.
        let expected = ["2026-03-27T07:00:00Z", "2026-03-30T06:00:00Z", "2026-03-31T06:00:00Z"];
        assert_eq!(times(&workdays, "2026-03-26T12:00:00Z", 3), expected);
    }

    #[test]
    fn a_time_that_the_clock_repeats_is_one() {
        let nightly = cron("30 2 * * *", "Europe/Berlin");
        let forward = times(&nightly, "2026-03-28T12:00:00Z", 2);
        assert_eq!(forward[1], "2026-03-30T00:30:00Z", "{forward:?}");
        assert!(forward[0].starts_with("2026-03-29T01:"), "{forward:?}");
        let back = times(&nightly, "2026-10-24T12:00:00Z", 2);
        assert_eq!(back[1], "2026-10-26T01:30:00Z", "{back:?}");
        assert!(back[0].starts_with("2026-10-25T0"), "{back:?}");
    }

    #[test]
    fn the_last_time_is_due_and_counts_those_before() {
        let due = |schedule: &Schedule, after: &str, now: &str| {
            let due = schedule.due(time(after), time(now))?;
            Some((due.scheduled.to_string(), due.missed))
        };
        let hourly = cron("0 * * * *", "UTC");
        let at = |text: &str, missed| Some((text.to_owned(), missed));
        assert_eq!(due(&hourly, "2026-01-01T00:00:00Z", "2026-01-01T00:59:59Z"), None);
        assert_eq!(
            due(&hourly, "2026-01-01T00:00:00Z", "2026-01-01T01:00:00Z"),
            at("2026-01-01T01:00:00Z", 0)
        );
        assert_eq!(
            due(&hourly, "2026-01-01T00:00:00Z", "2026-01-01T03:30:00Z"),
            at("2026-01-01T03:00:00Z", 2)
        );
        assert_eq!(due(&hourly, "2026-01-01T00:00:00Z", "2025-12-31T23:00:00Z"), None);
        assert_eq!(
            due(&hourly, "2020-01-01T00:00:00Z", "2030-01-01T00:30:00Z"),
            at("2030-01-01T00:00:00Z", 10_000)
        );
        let every = Schedule::new(None, None, Some(Duration::from_secs(10))).unwrap();
        assert_eq!(due(&every, "2026-01-01T00:00:00Z", "2026-01-01T00:00:09Z"), None);
        assert_eq!(
            due(&every, "2026-01-01T00:00:00Z", "2026-01-01T00:00:35Z"),
            at("2026-01-01T00:00:30Z", 2)
        );
        assert_eq!(due(&every, "2026-01-01T00:00:00Z", "2025-01-01T00:00:00Z"), None);
    }

    #[test]
    fn schedules_that_cannot_be_kept_are_refused() {
        let refusal = |cron: Option<&str>, zone: Option<&str>, every: Option<u64>| {
            let every = every.map(Duration::from_millis);
            Schedule::new(cron, zone, every).unwrap_err().to_string()
        };
        insta::assert_snapshot!(refusal(None, None, None), @r#"has neither `cron` nor `every`: write cron = "0 8 * * 1-5" or every = "10m""#);
        insta::assert_snapshot!(refusal(Some("* * * * *"), None, Some(1_000)), @"has both `cron` and `every`: keep one of them");
        insta::assert_snapshot!(refusal(None, Some("UTC"), Some(1_000)), @"has a `zone`, which belongs to `cron`: remove it");
        insta::assert_snapshot!(refusal(None, None, Some(99)), @"has `every` 99ms, and it may be 100ms to 1year");
        insta::assert_snapshot!(refusal(Some("0 0 30 2 *"), None, None), @r#"has `cron` "0 0 30 2 *", which never comes: there is no such date"#);
        insta::assert_snapshot!(refusal(Some("61 * * * *"), None, None), @r#"has `cron` "61 * * * *": Component error: Number out of bounds; write five fields (minute, hour, day of the month, month, day of the week)"#);
        insta::assert_snapshot!(refusal(Some("* * * *"), None, None), @r#"has `cron` "* * * *": Invalid pattern: Pattern must have 5 fields when seconds are disallowed; write five fields (minute, hour, day of the month, month, day of the week)"#);
        insta::assert_snapshot!(refusal(Some("0 * * * * *"), None, None), @r#"has `cron` "0 * * * * *": Invalid pattern: Pattern must have 5 fields when seconds are disallowed; write five fields (minute, hour, day of the month, month, day of the week)"#);
        insta::assert_snapshot!(refusal(Some("* * * * *"), Some("Europe/Berlim"), None), @r#"has the `zone` "Europe/Berlim", which does not exist; did you mean "Europe/Berlin"?"#);
        insta::assert_snapshot!(refusal(Some("* * * * *"), Some("nowhere"), None), @r#"has the `zone` "nowhere", which does not exist: write a name of the IANA database, such as "Europe/Berlin""#);
    }
}
