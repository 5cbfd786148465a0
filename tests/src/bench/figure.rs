//! The benchmark's figures: their labels, units and medians.

use std::collections::BTreeMap;

/// What is measured.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(super) enum Figure {
    /// CPU of the whole sync in microseconds, minus that of the process start: for the slope between two sizes.
    SyncCpu,
    /// The same per object.
    Sync,
    Relist,
    Burst,
    /// Events in bursts per second of CPU.
    BurstRate,
    Single,
    TlsSync,
    TlsBurst,
    PerObject,
    PerObjectUpdated,
    Steady,
    Peak,
    /// Peak memory divided by steady memory.
    PeakRatio,
    Base,
    LagP50,
    LagP99,
    /// The share of one CPU that the subject used.
    SubjectBusy(Phase),
    /// The share of its CPU that the API server used, including the load if it runs there too.
    ServerBusy(Phase),
}

/// A phase of the measurement.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(super) enum Phase {
    Sync,
    Bursts,
    Singles,
    Relist,
    Lag,
    TlsSync,
    TlsBursts,
}

/// The unit of a figure.
#[derive(Clone, Copy)]
enum Unit {
    Micros,
    Millis,
    Bytes,
    Megabytes,
    Times,
    PerSecond,
    Share,
}

impl Phase {
    pub(super) const ALL: [Phase; 7] = [
        Phase::Sync,
        Phase::Bursts,
        Phase::Singles,
        Phase::Relist,
        Phase::Lag,
        Phase::TlsSync,
        Phase::TlsBursts,
    ];

    pub(super) const fn label(self) -> &'static str {
        match self {
            Phase::Sync => "sync",
            Phase::Bursts => "events in bursts",
            Phase::Singles => "events one by one",
            Phase::Relist => "relist",
            Phase::Lag => "lag at 1,000 events a second",
            Phase::TlsSync => "sync over TLS",
            Phase::TlsBursts => "events in bursts over TLS",
        }
    }
}

impl Figure {
    /// The rows of the table, in order.
    pub(super) const ROWS: [Figure; 15] = [
        Figure::Sync,
        Figure::Relist,
        Figure::Burst,
        Figure::BurstRate,
        Figure::Single,
        Figure::TlsSync,
        Figure::TlsBurst,
        Figure::PerObject,
        Figure::PerObjectUpdated,
        Figure::Steady,
        Figure::Peak,
        Figure::PeakRatio,
        Figure::Base,
        Figure::LagP50,
        Figure::LagP99,
    ];

    /// The figures that are compared with Informant's.
    pub(super) const COMPARED: [Figure; 10] = [
        Figure::Sync,
        Figure::Relist,
        Figure::Burst,
        Figure::Single,
        Figure::TlsSync,
        Figure::TlsBurst,
        Figure::PerObject,
        Figure::Steady,
        Figure::Peak,
        Figure::LagP99,
    ];

    pub(super) fn label(self) -> String {
        let label = match self {
            Figure::SyncCpu => "sync, CPU",
            Figure::Sync => "sync, CPU per object",
            Figure::Relist => "relist after 410, nothing changed, CPU per object",
            Figure::Burst => "watch event in bursts, CPU",
            Figure::BurstRate => "events per second of CPU, in bursts",
            Figure::Single => "watch event one by one, CPU",
            Figure::TlsSync => "sync over TLS, CPU an object",
            Figure::TlsBurst => "watch event in bursts over TLS, CPU",
            Figure::PerObject => "memory per object",
            Figure::PerObjectUpdated => "memory per object after the updates",
            Figure::Steady => "steady memory",
            Figure::Peak => "peak memory, including updates and relist",
            Figure::PeakRatio => "peak / steady",
            Figure::Base => "empty process",
            Figure::LagP50 => "lag at 1,000 events a second, written to handled, p50",
            Figure::LagP99 => "lag at 1,000 events a second, written to handled, p99",
            Figure::SubjectBusy(phase) => return format!("{}, CPU used by the subject", phase.label()),
            Figure::ServerBusy(phase) => return format!("{}, CPU used by the API server", phase.label()),
        };
        label.to_owned()
    }

    const fn unit(self) -> Unit {
        match self {
            Figure::SyncCpu
            | Figure::Sync
            | Figure::Relist
            | Figure::Burst
            | Figure::Single
            | Figure::TlsSync
            | Figure::TlsBurst => Unit::Micros,
            Figure::BurstRate => Unit::PerSecond,
            Figure::PerObject | Figure::PerObjectUpdated => Unit::Bytes,
            Figure::Steady | Figure::Peak | Figure::Base => Unit::Megabytes,
            Figure::PeakRatio => Unit::Times,
            Figure::LagP50 | Figure::LagP99 => Unit::Millis,
            Figure::SubjectBusy(_) | Figure::ServerBusy(_) => Unit::Share,
        }
    }

    /// The value with its unit.
    pub(super) fn write(self, value: f64) -> String {
        match self.unit() {
            Unit::Micros if value >= 99.5 => format!("{value:.0} us"),
            Unit::Micros => format!("{value:.1} us"),
            Unit::Millis => format!("{:.2} ms", value / 1e3),
            Unit::Bytes => format!("{:.1} KB", value / 1e3),
            Unit::Megabytes => format!("{} MB", thousands(value / 1e6)),
            Unit::Times => format!("{value:.2}"),
            Unit::PerSecond => thousands(value),
            Unit::Share => format!("{:.0} %", 100.0 * value),
        }
    }
}

/// A whole number with a comma between groups of three digits.
pub(super) fn thousands(value: f64) -> String {
    let digits = format!("{value:.0}");
    let mut text = String::new();
    for (place, digit) in digits.chars().enumerate() {
        if place > 0 && (digits.len() - place).is_multiple_of(3) {
            text.push(',');
        }
        text.push(digit);
    }
    text
}

/// The figures of one run of one subject. Figures that were not measured are absent.
#[derive(Clone, Debug, Default)]
pub(super) struct Figures(BTreeMap<Figure, f64>);

impl Figures {
    pub(super) fn set(&mut self, figure: Figure, value: f64) {
        if value.is_finite() {
            self.0.insert(figure, value);
        }
    }

    pub(super) fn get(&self, figure: Figure) -> Option<f64> {
        self.0.get(&figure).copied()
    }

    /// Adds the figures of `others`.
    pub(super) fn take(&mut self, others: Figures) {
        self.0.extend(others.0);
    }

    /// All figures, in the order of the table.
    pub(super) fn line(&self) -> String {
        let rows = Figure::ROWS.into_iter();
        let rows = rows.chain(
            Phase::ALL
                .into_iter()
                .flat_map(|phase| [Figure::SubjectBusy(phase), Figure::ServerBusy(phase)]),
        );
        let texts = rows.filter_map(|figure| Some(format!("{}: {}", figure.label(), figure.write(self.get(figure)?))));
        texts.collect::<Vec<_>>().join("; ")
    }
}

/// The middle value; the upper one for an even number of values.
pub(super) fn median(mut values: Vec<f64>) -> Option<f64> {
    values.sort_by(f64::total_cmp);
    values.get(values.len() / 2).copied()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn figures_are_written_with_their_units() {
        assert_eq!(Figure::Sync.write(6.04), "6.0 us");
        assert_eq!(Figure::Sync.write(314.4), "314 us");
        assert_eq!(Figure::LagP99.write(690.0), "0.69 ms");
        assert_eq!(Figure::PerObject.write(3_640.0), "3.6 KB");
        assert_eq!(Figure::Steady.write(4_775_000_000.0), "4,775 MB");
        assert_eq!(Figure::BurstRate.write(73_000.0), "73,000");
        assert_eq!(Figure::ServerBusy(Phase::Sync).write(0.984), "98 %");
    }

    #[test]
    fn the_median_is_the_one_in_the_middle() {
        assert_eq!(median(vec![5.0, 1.0, 2.0]), Some(2.0));
        assert_eq!(median(Vec::new()), None);
    }

    #[test]
    fn unmeasured_figures_are_absent() {
        let mut figures = Figures::default();
        figures.set(Figure::LagP99, f64::NAN);
        figures.set(Figure::Sync, 6.0);
        assert_eq!(figures.get(Figure::LagP99), None);
        assert_eq!(figures.line(), "sync, CPU per object: 6.0 us");
    }
}
