//! What the last hour was like, in steps of 10 s: for the dashboard, which shows it at once.
//!
//! One task samples what plugins and caches count anyway. A value is a 32-bit number, and a series has at most
//! [`POINTS_MAX`] of them. Above [`SERIES_MAX`] series, further plugins have none of their own; the sums have them.

use std::collections::{BTreeMap, VecDeque};
use std::fmt;
use std::sync::{Arc, Mutex};
use std::time::Duration;

use informant_plugin_host::Plugin;
use jiff::Timestamp;

use crate::metrics::resident_bytes;
use crate::sync::lock;

/// Between two points: 10 s.
pub(crate) const STEP: Duration = Duration::from_secs(10);

/// Points of a series: 360, which is an hour. The oldest is dropped.
pub(crate) const POINTS_MAX: usize = 360;

/// Series in all: 2,000, which take at most 4 MiB. Further plugins have none; those that are gone make room.
pub(crate) const SERIES_MAX: usize = 2_000;

/// The names of the sums, in the order of their values.
pub(crate) const OF_PROCESS: [&str; 6] = ["events", "effects", "lag", "memory", "cache", "cpu"];

/// Those of a plugin.
pub(crate) const OF_PLUGIN: [&str; 6] = ["events", "failures", "effects", "lag", "cpu", "memory"];

/// The last hour. Clones share it.
#[derive(Clone, Default)]
pub(crate) struct History(Arc<Mutex<Hour>>);

#[derive(Default)]
struct Hour {
    /// When the last point was added.
    end: Option<Timestamp>,
    process: Series<{ OF_PROCESS.len() }>,
    plugins: BTreeMap<String, OfPlugin>,
}

#[derive(Default)]
struct OfPlugin {
    series: Series<{ OF_PLUGIN.len() }>,
    before: Option<Counted>,
    /// Whether there was room for one when it was seen first, or later.
    has_series: bool,
}

/// Points of several series, which have the same times. NaN: there is no value.
struct Series<const N: usize>(VecDeque<[f32; N]>);

/// What a plugin has counted at some moment.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
struct Counted {
    delivered: u64,
    failed: u64,
    effects: u64,
    cpu: Duration,
}

/// What a plugin shows at some moment.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
struct Sample {
    counted: Counted,
    lag: Duration,
    memory_bytes: usize,
}

/// Series as they are shown: of each name its values, oldest first.
#[derive(Debug, Clone, PartialEq)]
pub(crate) struct ShownSeries {
    /// The time of the last point.
    pub(crate) end: Option<Timestamp>,
    pub(crate) names: &'static [&'static str],
    /// None where there is no value.
    pub(crate) values: Vec<Vec<Option<f32>>>,
}

impl History {
    /// Adds a point now.
    pub(super) fn sample(&self, plugins: &[Plugin], cache_bytes: u64, now: Timestamp) {
        let samples = plugins
            .iter()
            .map(|plugin| (plugin.name().to_owned(), Sample::of(plugin)));
        let memory = resident_bytes().map_or(f32::NAN, |bytes| bytes as f32);
        lock(&self.0).add(samples.collect(), (memory, cache_bytes as f32), now);
    }

    /// The sums of the newest `max` points.
    pub(crate) fn of_process(&self, max: usize) -> ShownSeries {
        let hour = lock(&self.0);
        ShownSeries {
            end: hour.end,
            names: &OF_PROCESS,
            values: hour.process.newest(max),
        }
    }

    /// The series of a plugin. None: it has none.
    pub(crate) fn of_plugin(&self, name: &str) -> Option<ShownSeries> {
        let hour = lock(&self.0);
        let of = hour.plugins.get(name).filter(|of| of.has_series)?;
        Some(ShownSeries {
            end: hour.end,
            names: &OF_PLUGIN,
            values: of.series.newest(POINTS_MAX),
        })
    }
}

impl Hour {
    fn add(&mut self, samples: BTreeMap<String, Sample>, (memory, cache): (f32, f32), now: Timestamp) {
        self.plugins.retain(|name, _| samples.contains_key(name));
        let room = (SERIES_MAX - OF_PROCESS.len()) / OF_PLUGIN.len();
        let mut with_series = self.plugins.values().filter(|of| of.has_series).count();
        let (mut events, mut effects, mut cpu, mut lag) = (0.0, 0.0, 0.0, 0.0_f32);
        for (name, sample) in samples {
            let of = self.plugins.entry(name).or_default();
            let point = sample.point(of.before.replace(sample.counted));
            let [of_events, _, of_effects, of_lag, of_cpu, _] = point;
            events += number(of_events);
            effects += number(of_effects);
            cpu += number(of_cpu);
            lag = lag.max(of_lag);
            if !of.has_series && with_series < room {
                of.has_series = true;
                with_series += 1;
            }
            if of.has_series {
                of.series.push(point);
            }
        }
        self.process.push([events, effects, lag, memory, cache, cpu]);
        self.end = Some(now);
    }
}

/// A rate that is not known counts as none.
fn number(rate: f32) -> f32 {
    if rate.is_nan() { 0.0 } else { rate }
}

impl Sample {
    fn of(plugin: &Plugin) -> Sample {
        let (status, stats) = (plugin.status(), plugin.listener().control().stats());
        Sample {
            counted: Counted {
                delivered: stats.counters.delivered,
                failed: stats.counters.retried + stats.counters.dead_lettered,
                effects: status.cost.effects,
                cpu: status.cost.cpu,
            },
            lag: stats.oldest_pending.map_or(Duration::ZERO, |read| plugin.now() - read),
            memory_bytes: status.memory_bytes,
        }
    }

    /// The values for [`OF_PLUGIN`]. Rates are unknown in the first point, and after a restart of the counters.
    fn point(&self, before: Option<Counted>) -> [f32; OF_PLUGIN.len()] {
        let Sample {
            counted,
            lag,
            memory_bytes,
        } = self;
        let rate = |read: fn(&Counted) -> f64| {
            let difference = before.map(|before| read(counted) - read(&before));
            let known = difference.filter(|difference| *difference >= 0.0);
            known.map_or(f32::NAN, |difference| (difference / STEP.as_secs_f64()) as f32)
        };
        [
            rate(|counted| counted.delivered as f64),
            rate(|counted| counted.failed as f64),
            rate(|counted| counted.effects as f64),
            lag.as_secs_f32(),
            rate(|counted| counted.cpu.as_secs_f64()),
            *memory_bytes as f32,
        ]
    }
}

impl<const N: usize> Series<N> {
    fn push(&mut self, point: [f32; N]) {
        if self.0.len() >= POINTS_MAX {
            self.0.pop_front();
        }
        self.0.push_back(point);
    }

    /// The newest `max` points, by series.
    fn newest(&self, max: usize) -> Vec<Vec<Option<f32>>> {
        let skipped = self.0.len().saturating_sub(max);
        let points = || self.0.iter().skip(skipped);
        let of = |series: usize| points().map(move |point| Some(point[series]).filter(|value| !value.is_nan()));
        (0..N).map(|series| of(series).collect()).collect()
    }
}

impl<const N: usize> Default for Series<N> {
    fn default() -> Series<N> {
        Series(VecDeque::new())
    }
}

impl fmt::Debug for History {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("History").finish_non_exhaustive()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn sample(delivered: u64, lag_ms: u64) -> Sample {
        Sample {
            counted: Counted {
                delivered,
                ..Counted::default()
            },
            lag: Duration::from_millis(lag_ms),
            memory_bytes: 1_024,
        }
    }

    fn add(hour: &mut Hour, plugins: &[(&str, Sample)]) {
        let samples = plugins.iter().map(|(name, sample)| ((*name).to_owned(), *sample));
        hour.add(samples.collect(), (100.0, 50.0), Timestamp::UNIX_EPOCH);
    }

    #[test]
    fn rates_are_differences_of_counters() {
        let mut hour = Hour::default();
        add(&mut hour, &[("a", sample(5, 0)), ("b", sample(0, 10))]);
        add(&mut hour, &[("a", sample(25, 0)), ("b", sample(10, 20))]);
        // The plugin was replaced by another one of its name.
        add(&mut hour, &[("a", sample(1, 0))]);
        let values = hour.process.newest(10);
        assert_eq!(values[0], [Some(0.0), Some(3.0), Some(0.0)], "events of all");
        assert_eq!(values[2], [Some(0.01), Some(0.02), Some(0.0)], "the largest lag");
        assert_eq!(hour.plugins["a"].series.newest(10)[0], [None, Some(2.0), None]);
        assert!(!hour.plugins.contains_key("b"));
        assert_eq!(hour.process.newest(1)[3], [Some(100.0)]);
    }

    #[test]
    fn an_hour_and_a_number_of_series_are_kept() {
        let mut hour = Hour::default();
        let names: Vec<String> = (0..SERIES_MAX).map(|number| format!("plugin-{number:04}")).collect();
        let plugins: Vec<(&str, Sample)> = names.iter().map(|name| (name.as_str(), sample(0, 0))).collect();
        for _ in 0..POINTS_MAX + 2 {
            add(&mut hour, &plugins[..2]);
        }
        assert_eq!(hour.process.newest(usize::MAX)[0].len(), POINTS_MAX);
        add(&mut hour, &plugins);
        let with_series = hour.plugins.values().filter(|of| of.has_series).count();
        assert_eq!(with_series * OF_PLUGIN.len() + OF_PROCESS.len(), 1_998);
        let counted: Vec<(&str, Sample)> = names.iter().map(|name| (name.as_str(), sample(10, 0))).collect();
        add(&mut hour, &counted);
        assert_eq!(hour.process.newest(1)[0], [Some(SERIES_MAX as f32)], "events of all");
        add(&mut hour, &counted[1_000..]);
        assert!(hour.plugins["plugin-1000"].has_series, "those that are gone make room");
    }
}
