//! When a plugin is called without a change of an object.

use std::time::Duration;

use serde::Serialize;

/// A timer, for [`Manifest::timer`](crate::Manifest::timer): when [`TimerHandler`](crate::TimerHandler) is called.
///
/// The plugin's section in config.toml may set another schedule.
///
/// ```
/// # use informant_plugin_sdk::{Manifest, Timer};
/// # use std::time::Duration;
/// let manifest = Manifest::new()
///     .timer(Timer::cron("report", "0 8 * * 1-5").zone("Europe/Berlin"))
///     .timer(Timer::every("poll", Duration::from_secs(10)).at_start().jitter(Duration::from_secs(1)));
/// ```
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct Timer {
    pub(super) name: String,
    #[serde(flatten)]
    schedule: Schedule,
    #[serde(skip_serializing_if = "Option::is_none")]
    zone: Option<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    missed: Option<&'static str>,
    #[serde(skip_serializing_if = "Option::is_none")]
    jitter: Option<String>,
    #[serde(skip_serializing_if = "std::ops::Not::not")]
    at_start: bool,
}

#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
#[serde(rename_all = "lowercase")]
enum Schedule {
    Cron(String),
    Every(String),
}

impl Timer {
    /// Runs at the times that five fields of cron name: minute, hour, day of the month, month, day of the week. They
    /// are times in UTC, unless there is a [`zone`](Self::zone).
    pub fn cron(name: impl Into<String>, fields: impl Into<String>) -> Self {
        Self::of(name.into(), Schedule::Cron(fields.into()))
    }

    /// Runs each time that `period` is over: 100 ms to 366 days, rounded up to whole milliseconds.
    pub fn every(name: impl Into<String>, period: Duration) -> Self {
        Self::of(name.into(), Schedule::Every(text(period)))
    }

    /// The IANA time zone of [`cron`](Self::cron): `Europe/Berlin`.
    #[must_use]
    pub fn zone(mut self, zone: impl Into<String>) -> Self {
        self.zone = Some(zone.into());
        self
    }

    /// Leaves out runs that could not be made when they were due, for example because Informant was not running. By
    /// default, one run stands for all of them.
    #[must_use]
    pub fn skip_missed(mut self) -> Self {
        self.missed = Some("skip");
        self
    }

    /// Makes each run later than it is due, by a random time up to `most`.
    #[must_use]
    pub fn jitter(mut self, most: Duration) -> Self {
        self.jitter = (!most.is_zero()).then(|| text(most));
        self
    }

    /// Also runs when the plugin starts.
    #[must_use]
    pub fn at_start(mut self) -> Self {
        self.at_start = true;
        self
    }

    fn of(name: String, schedule: Schedule) -> Self {
        Self {
            name,
            schedule,
            zone: None,
            missed: None,
            jitter: None,
            at_start: false,
        }
    }

    /// Whether it has a zone that means nothing.
    pub(super) fn has_stray_zone(&self) -> bool {
        self.zone.is_some() && matches!(self.schedule, Schedule::Every(_))
    }
}

/// A duration as config.toml has it, `1h 30m`, rounded up to whole milliseconds.
pub(super) fn text(duration: Duration) -> String {
    let ms = duration.as_nanos().div_ceil(1_000_000);
    let units = [
        (ms / 3_600_000, "h"),
        (ms / 60_000 % 60, "m"),
        (ms / 1_000 % 60, "s"),
        (ms % 1_000, "ms"),
    ];
    let parts = units.iter().filter(|(count, _)| *count > 0);
    let parts: Vec<String> = parts.map(|(count, unit)| format!("{count}{unit}")).collect();
    match parts.is_empty() {
        true => "0s".to_owned(),
        false => parts.join(" "),
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn the_document_matches_the_contract() {
        let timers = [
            Timer::cron("nightly", "0 3 * * *"),
            Timer::cron("report", "0 8 * * 1-5").zone("Europe/Berlin").skip_missed(),
            Timer::every("poll", Duration::from_secs(10)).jitter(Duration::ZERO),
            Timer::every("sweep", Duration::from_secs(5_400))
                .at_start()
                .jitter(Duration::from_millis(1_500)),
        ];
        let expected = json!([
            { "name": "nightly", "cron": "0 3 * * *" },
            { "name": "report", "cron": "0 8 * * 1-5", "zone": "Europe/Berlin", "missed": "skip" },
            { "name": "poll", "every": "10s" },
            { "name": "sweep", "every": "1h 30m", "jitter": "1s 500ms", "atStart": true },
        ]);
        assert_eq!(serde_json::to_value(timers).expect("it is JSON"), expected);
    }

    #[test]
    fn durations_are_rounded_up_and_parse_again() {
        for (duration, expected) in [
            (Duration::ZERO, "0s"),
            (Duration::from_nanos(1), "1ms"),
            (Duration::from_millis(100), "100ms"),
            (Duration::from_secs(60), "1m"),
            (Duration::from_millis(366 * 86_400_000), "8784h"),
            (Duration::from_millis(3_723_004), "1h 2m 3s 4ms"),
        ] {
            let text = text(duration);
            assert_eq!(text, expected);
            let parsed = humantime::parse_duration(&text).expect("it is a duration");
            assert_eq!(parsed.as_millis(), duration.as_nanos().div_ceil(1_000_000));
        }
    }
}
