//! The tables, in Markdown.

use std::fmt::Write;

use super::figure::{Figure, Phase, thousands};
use super::results::{BASE, Column, INFORMANT, Results};
use super::swap;
use super::targets;

/// Shown where nothing was measured.
const NOTHING: &str = "–";

/// In a phase with a fixed rate, a subject may be waiting for an API server that uses more than this share of its CPU.
const PACED_BUSY_MAX: f64 = 0.7;

/// All tables, under `head`, which describes them.
pub(super) fn all(results: &Results, head: &str) -> String {
    let mut text = format!("{head}\n");
    for objects in results.sizes() {
        let _ = writeln!(text, "\n## {} pods\n", thousands(f64::from(objects)));
        text += &figures(results, objects);
        text += &ratios(results, objects);
        text += &against_base(results, objects);
        text += &limits(results, objects);
    }
    text += &slopes(results);
    text += &swap::section(&results.swaps);
    text
}

/// One column per program and sync mode.
fn figures(results: &Results, objects: u32) -> String {
    let columns = results.columns(objects);
    let mut table = Table::new(columns.iter().map(|column| column.head()));
    for figure in Figure::ROWS {
        let cells = columns.iter().map(|column| {
            let value = results.median(column, figure)?;
            Some(match (figure, column.program.as_str()) {
                (Figure::PeakRatio, INFORMANT) => {
                    let met = targets::word(value <= targets::PEAK_RATIO_MAX);
                    format!("{} (at most {}: {met})", figure.write(value), targets::PEAK_RATIO_MAX)
                }
                _ => figure.write(value),
            })
        });
        table.row(&figure.label(), cells);
    }
    table.text
}

/// The peers' figures divided by Informant's.
fn ratios(results: &Results, objects: u32) -> String {
    let peers = peers(results, objects);
    if peers.is_empty() {
        return String::new();
    }
    let mut table = Table::new(peers.iter().map(|peer| peer.head()));
    for figure in Figure::COMPARED {
        let cells = peers.iter().map(|peer| {
            let ratio = results.ratio(peer, figure)?;
            Some(with_target(ratio, targets::of(figure, peer)))
        });
        table.row(&figure.label(), cells);
    }
    format!(
        "\nRatios: the peer's figure divided by Informant's with the same sync mode (the median of the rounds' ratios):\n\n{}",
        table.text
    )
}

/// Informant's figures divided by those of an earlier commit.
fn against_base(results: &Results, objects: u32) -> String {
    let columns = results.columns(objects).into_iter();
    let bases: Vec<&Column> = columns.filter(|column| column.program == BASE).collect();
    if bases.is_empty() {
        return String::new();
    }
    let mut table = Table::new(bases.iter().map(|base| base.sync.label().to_owned()));
    for figure in Figure::COMPARED {
        let max = targets::AGAINST_BASE
            .into_iter()
            .find(|(limited, _)| *limited == figure);
        let cells = bases.iter().map(|base| {
            let ratio = results.ratio_to_base(base, figure)?;
            Some(match max {
                Some((_, max)) => format!("{ratio:.3} (at most {max}: {})", targets::word(ratio <= max)),
                None => format!("{ratio:.3}"),
            })
        });
        table.row(&figure.label(), cells);
    }
    format!(
        "\nAgainst the base, which ran at the same time: Informant's figure divided by the base's (the median of the rounds' ratios):\n\n{}",
        table.text
    )
}

/// The CPU that the API server used, next to the subject's.
fn limits(results: &Results, objects: u32) -> String {
    let columns = results.columns(objects);
    let mut table = Table::new(columns.iter().map(|column| column.head()));
    for phase in Phase::ALL {
        let cells = columns.iter().map(|column| {
            let subject = results.median(column, Figure::SubjectBusy(phase))?;
            let server = results.median(column, Figure::ServerBusy(phase))?;
            let is_limit = match phase {
                Phase::Lag => server > PACED_BUSY_MAX,
                _ => server > subject,
            };
            let mark = if is_limit { " \\*" } else { "" };
            Some(format!("{:.0} / {:.0} %{mark}", 100.0 * subject, 100.0 * server))
        });
        table.row(phase.label(), cells);
    }
    format!(
        "\nThe share of a CPU that the subject used / that the API server used of its own, including the load if it runs there. \
         \\*: the API server used more, so it limited the rate, not the subject (at a steady rate: it used more than {:.0} %). \
         CPU figures are valid regardless.\n\n{}",
        100.0 * PACED_BUSY_MAX,
        table.text
    )
}

/// CPU per object between the smallest size and each other one.
fn slopes(results: &Results) -> String {
    let sizes = results.sizes();
    let Some(small) = sizes.iter().copied().min() else {
        return String::new();
    };
    let mut text = String::new();
    for large in sizes.into_iter().filter(|size| *size > small) {
        let columns = results.columns(large);
        let mut table = Table::new(columns.iter().map(|column| column.head()));
        let of = |column: &&&Column| results.slope(column, small);
        let cells = columns.iter().map(|column| Some(Figure::Sync.write(of(&column)?)));
        table.row("sync, CPU per object", cells);
        let ratios = columns.iter().map(|column| {
            let is_peer = ![INFORMANT, BASE].contains(&column.program.as_str());
            let ratio = results.slope_ratio(column, small).filter(|_| is_peer)?;
            Some(with_target(ratio, targets::of(Figure::Sync, column)))
        });
        table.row("ratio to Informant's", ratios);
        let (small, large) = (thousands(f64::from(small)), thousands(f64::from(large)));
        let _ = write!(
            text,
            "\n## The slope between {small} and {large} pods\n\nThe slope excludes the start-up cost.\n\n{}",
            table.text
        );
    }
    text
}

fn peers(results: &Results, objects: u32) -> Vec<&Column> {
    let mut columns = results.columns(objects);
    columns.retain(|column| ![INFORMANT, BASE].contains(&column.program.as_str()));
    columns
}

fn with_target(ratio: f64, minimum: Option<f64>) -> String {
    let digits = if ratio < 3.0 { 2 } else { 1 };
    match minimum {
        Some(minimum) => {
            let least = format!("{minimum:.2}");
            let least = least.trim_end_matches('0').trim_end_matches('.');
            format!(
                "{ratio:.digits$} (at least {least}: {})",
                targets::word(ratio >= minimum)
            )
        }
        None => format!("{ratio:.digits$}"),
    }
}

/// A table whose first column is labels. Rows without measurements are left out.
pub(super) struct Table {
    pub(super) text: String,
}

impl Table {
    pub(super) fn new(heads: impl Iterator<Item = String>) -> Table {
        let (mut head, mut line) = ("| |".to_owned(), "|---|".to_owned());
        for column in heads {
            let _ = write!(head, " {column} |");
            line.push_str("---|");
        }
        Table {
            text: format!("{head}\n{line}\n"),
        }
    }

    pub(super) fn row(&mut self, label: &str, cells: impl Iterator<Item = Option<String>>) {
        let cells: Vec<Option<String>> = cells.collect();
        if cells.iter().all(Option::is_none) {
            return;
        }
        let _ = write!(self.text, "| {label} |");
        for cell in cells {
            let _ = write!(self.text, " {} |", cell.as_deref().unwrap_or(NOTHING));
        }
        self.text.push('\n');
    }
}

#[cfg(test)]
mod tests {
    use super::super::figure::Figures;
    use super::super::subject::Sync;
    use super::*;

    /// The figures of a run that cost `times` as much as Informant's.
    fn figures(objects: u32, times: f64) -> Figures {
        let mut figures = Figures::default();
        let all = [
            (Figure::SyncCpu, 6.0 * f64::from(objects) * times),
            (Figure::Sync, 6.0 * times),
            (Figure::Burst, 4.0 * times),
            (Figure::Steady, 4e8 * times),
            (Figure::PeakRatio, 1.1 * times),
            (Figure::LagP99, 700.0),
            (Figure::SubjectBusy(Phase::Bursts), 0.95),
            (Figure::ServerBusy(Phase::Bursts), 0.2 * times),
        ];
        for (figure, value) in all {
            figures.set(figure, value);
        }
        figures
    }

    fn results(sizes: &[u32]) -> Results {
        results_of(sizes, &[(INFORMANT, 1.0), ("client-go", 7.0)])
    }

    fn results_of(sizes: &[u32], programs: &[(&str, f64)]) -> Results {
        let mut results = Results::default();
        for objects in sizes {
            for (program, times) in programs {
                let column = Column {
                    objects: *objects,
                    program: (*program).to_owned(),
                    sync: Sync::List,
                };
                results.note(column, figures(*objects, *times));
            }
        }
        results
    }

    #[test]
    fn table_has_a_column_per_subject_and_shows_targets() {
        insta::assert_snapshot!(all(&results(&[100_000]), "Medians."), @r"
        Medians.

        ## 100,000 pods

        | | Informant LIST | client-go LIST |
        |---|---|---|
        | sync, CPU per object | 6.0 us | 42.0 us |
        | watch event in bursts, CPU | 4.0 us | 28.0 us |
        | steady memory | 400 MB | 2,800 MB |
        | peak / steady | 1.10 (at most 1.4: met) | 7.70 |
        | lag at 1,000 events a second, written to handled, p99 | 0.70 ms | 0.70 ms |

        Ratios: the peer's figure divided by Informant's with the same sync mode (the median of the rounds' ratios):

        | | client-go LIST |
        |---|---|
        | sync, CPU per object | 7.0 (at least 8: **not met**) |
        | watch event in bursts, CPU | 7.0 (at least 25: **not met**) |
        | steady memory | 7.0 (at least 3.5: met) |
        | lag at 1,000 events a second, written to handled, p99 | 1.00 |

        The share of a CPU that the subject used / that the API server used of its own, including the load if it runs there. \*: the API server used more, so it limited the rate, not the subject (at a steady rate: it used more than 70 %). CPU figures are valid regardless.

        | | Informant LIST | client-go LIST |
        |---|---|---|
        | events in bursts | 95 / 20 % | 95 / 140 % \* |
        ");
    }

    #[test]
    fn growth_against_an_earlier_commit_is_shown() {
        let results = results_of(&[20_000], &[(INFORMANT, 1.0), (BASE, 0.9)]);
        insta::assert_snapshot!(against_base(&results, 20_000), @r"

        Against the base, which ran at the same time: Informant's figure divided by the base's (the median of the rounds' ratios):

        | | LIST |
        |---|---|
        | sync, CPU per object | 1.111 (at most 1.03: **not met**) |
        | watch event in bursts, CPU | 1.111 (at most 1.03: **not met**) |
        | steady memory | 1.111 |
        | lag at 1,000 events a second, written to handled, p99 | 1.000 |
        ");
    }

    #[test]
    fn slope_between_two_sizes_is_shown() {
        insta::assert_snapshot!(slopes(&results(&[20_000, 100_000])), @r"

        ## The slope between 20,000 and 100,000 pods

        The slope excludes the start-up cost.

        | | Informant LIST | client-go LIST |
        |---|---|---|
        | sync, CPU per object | 6.0 us | 42.0 us |
        | ratio to Informant's | – | 7.0 (at least 8: **not met**) |
        ");
    }
}
