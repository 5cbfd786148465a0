//! The figures of all rounds, their medians and ratios.

use super::figure::{Figure, Figures, median};
use super::subject::Sync;
use super::swap::Swaps;
use super::targets;

/// Informant's name among the programs.
pub(super) const INFORMANT: &str = "Informant";

/// The name of an `informant` of an earlier commit.
pub(super) const BASE: &str = "base";

/// The subject of a run: a column of a table.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Column {
    pub(super) objects: u32,
    pub(super) program: String,
    pub(super) sync: Sync,
}

/// The results so far.
#[derive(Default)]
pub(super) struct Results {
    runs: Vec<(Column, Vec<Figures>)>,
    /// One per round.
    pub(super) swaps: Vec<Swaps>,
}

impl Column {
    /// The table heading.
    pub(super) fn head(&self) -> String {
        format!("{} {}", self.program, self.sync.label())
    }

    fn of_informant(&self) -> Column {
        Column {
            program: INFORMANT.to_owned(),
            ..self.clone()
        }
    }
}

impl Results {
    /// Adds a round's figures.
    pub(super) fn note(&mut self, column: Column, figures: Figures) {
        match self.runs.iter_mut().find(|(known, _)| *known == column) {
            Some((_, rounds)) => rounds.push(figures),
            None => self.runs.push((column, vec![figures])),
        }
    }

    /// The numbers of objects, in the order in which they were measured.
    pub(super) fn sizes(&self) -> Vec<u32> {
        let mut sizes: Vec<u32> = Vec::new();
        for (column, _) in &self.runs {
            if !sizes.contains(&column.objects) {
                sizes.push(column.objects);
            }
        }
        sizes
    }

    /// The columns for a number of objects.
    pub(super) fn columns(&self, objects: u32) -> Vec<&Column> {
        let columns = self.runs.iter().map(|(column, _)| column);
        columns.filter(|column| column.objects == objects).collect()
    }

    /// The number of rounds.
    pub(super) fn rounds(&self) -> usize {
        self.runs
            .iter()
            .map(|(_, rounds)| rounds.len())
            .max()
            .unwrap_or_default()
    }

    /// The median over the rounds.
    pub(super) fn median(&self, column: &Column, figure: Figure) -> Option<f64> {
        median(self.of(column).iter().filter_map(|round| round.get(figure)).collect())
    }

    /// The ratio of `peer`'s figure to Informant's with the same sync mode: the median of the rounds' ratios.
    pub(super) fn ratio(&self, peer: &Column, figure: Figure) -> Option<f64> {
        self.median_ratio(peer, &peer.of_informant(), figure)
    }

    /// Informant's figure divided by the base's, which ran at the same time with the same sync mode: the median of the
    /// rounds' ratios.
    pub(super) fn ratio_to_base(&self, base: &Column, figure: Figure) -> Option<f64> {
        self.median_ratio(&base.of_informant(), base, figure)
    }

    /// The figure of `of` divided by that of `by` in the same round: the median over the rounds.
    fn median_ratio(&self, of: &Column, by: &Column, figure: Figure) -> Option<f64> {
        let rounds = self.of(of).iter().zip(self.of(by));
        let ratios = rounds.filter_map(|(of, by)| Some(of.get(figure)? / by.get(figure)?));
        median(ratios.collect())
    }

    /// The figures that grew by more than their limit against the base. Empty without a base.
    pub(super) fn grown(&self) -> Vec<(&Column, Figure, f64)> {
        let bases = self.runs.iter().map(|(column, _)| column);
        let bases = bases.filter(|column| column.program == BASE);
        let limited = bases.flat_map(|base| {
            targets::AGAINST_BASE.into_iter().filter_map(move |(figure, max)| {
                let ratio = self.ratio_to_base(base, figure)?;
                (ratio > max).then_some((base, figure, ratio))
            })
        });
        limited.collect()
    }

    /// CPU per object between two sizes, in microseconds, which excludes the start-up cost. The median over the rounds.
    pub(super) fn slope(&self, large: &Column, small: u32) -> Option<f64> {
        median(self.slopes(large, small))
    }

    /// As [`ratio`](Self::ratio), for the slope.
    pub(super) fn slope_ratio(&self, peer: &Column, small: u32) -> Option<f64> {
        let own = self.slopes(&peer.of_informant(), small);
        let rounds = self.slopes(peer, small).into_iter().zip(own);
        median(rounds.map(|(peer, own)| peer / own).collect())
    }

    fn slopes(&self, large: &Column, small: u32) -> Vec<f64> {
        let objects = f64::from(large.objects) - f64::from(small);
        let smaller = Column {
            objects: small,
            ..large.clone()
        };
        let rounds = self.of(large).iter().zip(self.of(&smaller));
        let more = rounds.filter_map(|(large, small)| Some(large.get(Figure::SyncCpu)? - small.get(Figure::SyncCpu)?));
        more.map(|cpu_us| cpu_us / objects).collect()
    }

    fn of(&self, column: &Column) -> &[Figures] {
        let run = self.runs.iter().find(|(known, _)| known == column);
        run.map_or(&[], |(_, rounds)| rounds)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn column(program: &str, objects: u32) -> Column {
        Column {
            objects,
            program: program.to_owned(),
            sync: Sync::List,
        }
    }

    fn figures(all: &[(Figure, f64)]) -> Figures {
        let mut figures = Figures::default();
        for (figure, value) in all {
            figures.set(*figure, *value);
        }
        figures
    }

    #[test]
    fn a_ratio_is_taken_within_each_round() {
        let mut results = Results::default();
        // The second round's machine was slower for both.
        for (own, peer) in [(5.0, 50.0), (20.0, 200.0), (5.0, 55.0)] {
            results.note(column(INFORMANT, 10), figures(&[(Figure::Sync, own)]));
            results.note(column("peer", 10), figures(&[(Figure::Sync, peer)]));
        }
        assert_eq!(results.ratio(&column("peer", 10), Figure::Sync), Some(10.0));
        assert_eq!(results.median(&column("peer", 10), Figure::Sync), Some(55.0));
        assert_eq!(results.ratio(&column("peer", 10), Figure::Relist), None);
    }

    #[test]
    fn growth_against_the_base_is_within_each_round() {
        let mut results = Results::default();
        // The machine was slower in the second round.
        for (own, base) in [(5.0, 5.0), (15.6, 15.1), (5.5, 5.2)] {
            results.note(
                column(INFORMANT, 10),
                figures(&[(Figure::Sync, own), (Figure::Single, own)]),
            );
            results.note(
                column(BASE, 10),
                figures(&[(Figure::Sync, base), (Figure::Single, own)]),
            );
        }
        let grown = results.grown();
        let [(_, Figure::Sync, ratio)] = grown.as_slice() else {
            panic!("{grown:?}");
        };
        assert!((ratio - 15.6 / 15.1).abs() < 1e-9);
    }

    #[test]
    fn slope_excludes_the_start_up_cost() {
        let mut results = Results::default();
        for objects in [1_000, 3_000] {
            let cpu = 5_000.0 + 6.0 * f64::from(objects);
            results.note(column(INFORMANT, objects), figures(&[(Figure::SyncCpu, cpu)]));
            results.note(column("peer", objects), figures(&[(Figure::SyncCpu, 4.0 * cpu)]));
        }
        assert_eq!(results.sizes(), [1_000, 3_000]);
        assert_eq!(results.slope(&column(INFORMANT, 3_000), 1_000), Some(6.0));
        assert_eq!(results.slope_ratio(&column("peer", 3_000), 1_000), Some(4.0));
    }
}
