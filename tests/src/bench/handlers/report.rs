//! The tables: figures of each subject, and their ratios to Informant's.

use std::collections::BTreeMap;
use std::fmt::Write;

use super::setup::Reads;
use super::{ONE, TEN};
use crate::bench::cores::Cores;
use crate::bench::figure::{median, thousands};
use crate::bench::table::Table;
use crate::bench::targets;

const INFORMANT: &str = "Informant";

/// The rate at which CPU is compared.
const RATE: f64 = 1_000.0;

/// What is measured of a subject.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(super) enum Figure {
    /// CPU per event at a steady rate, of all handlers together, in microseconds.
    Cpu,
    /// Bytes.
    Memory,
    /// Events per second with which it keeps up.
    Rate,
    LagP99,
    /// CPU per event in bursts, in microseconds.
    Burst,
    /// Requests from the start on.
    Requests,
    /// Bytes received from the API server per event.
    Received,
    /// Seconds from the start of the process.
    FirstCall,
    AllCalls,
}

/// One column of a table: a subject with a number of handlers.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
struct Subject {
    handlers: u32,
    reads: Reads,
    /// Its place among the subjects.
    place: usize,
    name: String,
}

/// The figures of all rounds.
#[derive(Default)]
pub(super) struct Report {
    names: Vec<String>,
    figures: BTreeMap<Subject, BTreeMap<Figure, Vec<f64>>>,
}

impl Figure {
    const ALL: [Figure; 9] = [
        Figure::Cpu,
        Figure::Burst,
        Figure::Memory,
        Figure::Rate,
        Figure::LagP99,
        Figure::FirstCall,
        Figure::AllCalls,
        Figure::Requests,
        Figure::Received,
    ];
    const COMPARED: [Figure; 6] = [
        Figure::Cpu,
        Figure::Burst,
        Figure::Memory,
        Figure::LagP99,
        Figure::AllCalls,
        Figure::Received,
    ];

    const fn label(self) -> &'static str {
        match self {
            Figure::Cpu => "CPU per event, at a steady rate",
            Figure::Burst => "CPU per event, in bursts",
            Figure::Memory => "memory",
            Figure::Rate => "keeps up with, events/s",
            Figure::LagP99 => "lag at that rate, p99",
            Figure::FirstCall => "restart, until the first call",
            Figure::AllCalls => "restart, until all calls for all pods",
            Figure::Requests => "API requests",
            Figure::Received => "received per event",
        }
    }

    fn write(self, value: f64) -> String {
        match self {
            Figure::Cpu | Figure::Burst if value >= 99.5 => format!("{} us", thousands(value)),
            Figure::Cpu | Figure::Burst => format!("{value:.1} us"),
            Figure::Memory => format!("{} MB", thousands(value / 1e6)),
            Figure::Rate | Figure::Requests => thousands(value),
            Figure::LagP99 => format!("{:.2} ms", value / 1e3),
            Figure::Received => format!("{:.1} KB", value / 1e3),
            Figure::FirstCall | Figure::AllCalls => format!("{value:.2} s"),
        }
    }
}

impl Report {
    pub(super) fn note(
        &mut self,
        name: &str,
        reads: Reads,
        handlers: u32,
        figures: impl IntoIterator<Item = (Figure, Option<f64>)>,
    ) {
        let place = self.names.iter().position(|known| known == name).unwrap_or_else(|| {
            self.names.push(name.to_owned());
            self.names.len() - 1
        });
        let subject = Subject {
            handlers,
            reads,
            place,
            name: name.to_owned(),
        };
        let noted = self.figures.entry(subject).or_default();
        for (figure, value) in figures {
            noted.entry(figure).or_default().extend(value);
        }
    }

    /// What was noted of a subject, in one line.
    pub(super) fn line(&self, name: &str, handlers: u32) -> String {
        let found = self.columns(handlers).find(|subject| subject.name == name);
        let figures = Figure::ALL.into_iter().filter_map(|figure| {
            let value = self.median(found?, figure)?;
            Some(format!("{}: {}", figure.label(), figure.write(value)))
        });
        let figures: Vec<String> = figures.collect();
        format!("{name}, {handlers} handler(s): {}", figures.join("; "))
    }

    fn columns(&self, handlers: u32) -> impl Iterator<Item = &Subject> + Clone {
        self.figures.keys().filter(move |subject| subject.handlers == handlers)
    }

    fn median(&self, subject: &Subject, figure: Figure) -> Option<f64> {
        median(self.figures.get(subject)?.get(&figure)?.clone())
    }

    /// Informant with as many handlers that read the same.
    fn informant(&self, peer: &Subject) -> Option<&Subject> {
        let is_own = |subject: &&Subject| subject.reads == peer.reads && subject.name.starts_with(INFORMANT);
        self.columns(peer.handlers).find(is_own)
    }

    /// The peer's figure divided by Informant's.
    fn ratio(&self, peer: &Subject, figure: Figure) -> Option<f64> {
        Some(self.median(peer, figure)? / self.median(self.informant(peer)?, figure)?)
    }

    /// All tables, in Markdown.
    pub(super) fn tables(&self, objects: u32, cores: &Cores) -> String {
        let mut text = format!(
            "{} pods. {cores}. CPU is that of all processes of a subject and of those that they started, and is per event that \
             all handlers handled. In parentheses: the share of a core at {} events/s, \"~\" where that rate is not reached. \
             Memory is the proportional set size (what processes share counts once), read at the steady rate.\n",
            thousands(f64::from(objects)),
            thousands(RATE)
        );
        for handlers in [ONE, TEN] {
            if self.columns(handlers).next().is_none() {
                continue;
            }
            let title = if handlers == ONE { "One handler" } else { "Ten handlers" };
            let _ = writeln!(text, "\n## {title}\n\n{}", self.figures_of(handlers));
            let _ = writeln!(
                text,
                "The peer's figure divided by that of Informant whose handlers read the same:\n\n{}",
                self.ratios_of(handlers)
            );
        }
        text
    }

    fn figures_of(&self, handlers: u32) -> String {
        let rows = self.columns(handlers);
        let mut table = Table::new(Figure::ALL.into_iter().map(|figure| figure.label().to_owned()));
        for subject in rows {
            let cells = Figure::ALL.into_iter().map(|figure| {
                let value = self.median(subject, figure)?;
                Some(match figure {
                    Figure::Cpu => format!("{} ({})", figure.write(value), self.share(subject, value)),
                    _ => figure.write(value),
                })
            });
            table.row(&subject.name, cells);
        }
        table.text
    }

    /// The share of a core at [`RATE`].
    fn share(&self, subject: &Subject, cpu_us: f64) -> String {
        let reached = self.median(subject, Figure::Rate).is_some_and(|rate| rate >= RATE);
        let about = if reached { "" } else { "~" };
        format!("{about}{} %", thousands(cpu_us * RATE / 1e6 * 100.0))
    }

    fn ratios_of(&self, handlers: u32) -> String {
        let mut table = Table::new(Figure::COMPARED.into_iter().map(|figure| figure.label().to_owned()));
        let peers = self
            .columns(handlers)
            .filter(|subject| !subject.name.starts_with(INFORMANT));
        for peer in peers {
            let cells = Figure::COMPARED.into_iter().map(|figure| {
                let ratio = self.ratio(peer, figure)?;
                Some(if ratio < 10.0 {
                    format!("{ratio:.2}")
                } else {
                    thousands(ratio)
                })
            });
            table.row(&peer.name, cells);
        }
        table.text
    }

    /// What ten handlers need, divided by what ten controllers with client-go need: a line for each bound, and whether
    /// it is met. The burst has no bound.
    pub(super) fn bounds(&self) -> Vec<(String, bool)> {
        let Some(peer) = self.columns(TEN).find(|subject| subject.name == "client-go") else {
            return Vec::new();
        };
        let all = [
            ("memory", Figure::Memory, Some(targets::TEN_MEMORY_BY_CLIENT_GO)),
            ("CPU", Figure::Cpu, Some(targets::TEN_CPU_BY_CLIENT_GO)),
            ("CPU in bursts", Figure::Burst, None),
        ];
        let lines = all.into_iter().filter_map(|(what, figure, most)| {
            let share = 1.0 / self.ratio(peer, figure)?;
            let is_met = most.is_none_or(|most| share <= most);
            let bound = most.map_or_else(String::new, |most| {
                format!(" (at most 1/{:.0}: {})", 1.0 / most, targets::word(is_met))
            });
            let line = format!(
                "ten handlers: 1/{:.1} of the {what} of ten controllers with client-go{bound}",
                1.0 / share
            );
            Some((line, is_met))
        });
        lines.collect()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn report() -> Report {
        let mut report = Report::default();
        let mut note = |name, reads, handlers, cpu, memory, rate| {
            let figures = [
                (Figure::Cpu, Some(cpu)),
                (Figure::Burst, Some(cpu / 2.0)),
                (Figure::Memory, Some(memory)),
                (Figure::Rate, Some(rate)),
                (Figure::LagP99, None),
            ];
            report.note(name, reads, handlers, figures);
        };
        note("Informant", Reads::Fields, 10, 100.0, 5e7, 1_000.0);
        note("client-go", Reads::Fields, 10, 2_900.0, 6e8, 300.0);
        note("Informant, metadata only", Reads::Metadata, 10, 50.0, 2e7, 1_000.0);
        note("client-go, metadata only", Reads::Metadata, 10, 600.0, 3e8, 1_000.0);
        report
    }

    #[test]
    fn peers_are_compared_with_handlers_that_read_the_same() {
        let cores = Cores::Shared {
            because: "there is only one CPU",
        };
        let text = report().tables(5_000, &cores);
        let (_, tables) = text.split_once("## ").expect("a title");
        insta::assert_snapshot!(tables, @r"
        Ten handlers

        | | CPU per event, at a steady rate | CPU per event, in bursts | memory | keeps up with, events/s | lag at that rate, p99 | restart, until the first call | restart, until all calls for all pods | API requests | received per event |
        |---|---|---|---|---|---|---|---|---|---|
        | Informant | 100 us (10 %) | 50.0 us | 50 MB | 1,000 | – | – | – | – | – |
        | client-go | 2,900 us (~290 %) | 1,450 us | 600 MB | 300 | – | – | – | – | – |
        | Informant, metadata only | 50.0 us (5 %) | 25.0 us | 20 MB | 1,000 | – | – | – | – | – |
        | client-go, metadata only | 600 us (60 %) | 300 us | 300 MB | 1,000 | – | – | – | – | – |

        The peer's figure divided by that of Informant whose handlers read the same:

        | | CPU per event, at a steady rate | CPU per event, in bursts | memory | lag at that rate, p99 | restart, until all calls for all pods | received per event |
        |---|---|---|---|---|---|---|
        | client-go | 29 | 29 | 12 | – | – | – |
        | client-go, metadata only | 12 | 12 | 15 | – | – | – |
        ");
    }

    #[test]
    fn missed_bound_is_reported() {
        let lines = report().bounds();
        let text: Vec<&str> = lines.iter().map(|(line, _)| line.as_str()).collect();
        insta::assert_snapshot!(text.join("\n"), @r"
        ten handlers: 1/12.0 of the memory of ten controllers with client-go (at most 1/10: met)
        ten handlers: 1/29.0 of the CPU of ten controllers with client-go (at most 1/30: **not met**)
        ten handlers: 1/29.0 of the CPU in bursts of ten controllers with client-go
        ");
        assert_eq!(
            lines.iter().map(|(_, met)| *met).collect::<Vec<_>>(),
            [true, false, true]
        );
    }
}
