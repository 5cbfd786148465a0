//! A table as kubectl prints it: left aligned, three spaces between columns, in stretches.
//!
//! Rows are aligned within a stretch of [`STRETCH_ROWS`] rows, so that a large answer is printed while it arrives;
//! columns never get narrower from one stretch to the next.

use std::io::{self, Write};

/// How many rows are kept to find out how wide they are; as many as kubectl gets in one page.
const STRETCH_ROWS: usize = 500;

const GAP: usize = 3;

/// Rows of one table.
pub(super) struct Table {
    headings: Vec<&'static str>,
    rows: Vec<Vec<String>>,
    widths: Vec<usize>,
    headings_due: bool,
}

impl Table {
    /// A row has a cell for each of `headings`, whether these are printed or not.
    pub(super) fn new(headings: Vec<&'static str>, with_headings: bool) -> Self {
        Self {
            widths: vec![0; headings.len()],
            headings,
            rows: Vec::new(),
            headings_due: with_headings,
        }
    }

    pub(super) fn row(&mut self, out: &mut impl Write, row: Vec<String>) -> io::Result<()> {
        if self.headings_due {
            self.headings_due = false;
            let headings = self.headings.iter().map(|heading| (*heading).to_owned());
            self.rows.push(headings.collect());
        }
        self.rows.push(row);
        if self.rows.len() >= STRETCH_ROWS {
            self.finish(out)
        } else {
            Ok(())
        }
    }

    /// Rows that are not printed yet.
    #[cfg(test)]
    pub(super) fn kept(&self) -> usize {
        self.rows.len()
    }

    /// Prints what is kept.
    pub(super) fn finish(&mut self, out: &mut impl Write) -> io::Result<()> {
        for row in &self.rows {
            for (width, cell) in self.widths.iter_mut().zip(row.iter()) {
                *width = (*width).max(cell.chars().count());
            }
        }
        for row in self.rows.drain(..) {
            let Some((last, others)) = row.split_last() else {
                continue;
            };
            for (cell, width) in others.iter().zip(&self.widths) {
                write!(out, "{cell:width$}", width = width + GAP)?;
            }
            writeln!(out, "{last}")?;
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn row(cells: &[&str]) -> Vec<String> {
        cells.iter().map(|cell| (*cell).to_owned()).collect()
    }

    fn printed(mut table: Table, rows: Vec<Vec<String>>) -> String {
        let mut out = Vec::new();
        for row in rows {
            table.row(&mut out, row).unwrap();
        }
        table.finish(&mut out).unwrap();
        String::from_utf8(out).unwrap()
    }

    #[test]
    fn columns_are_as_wide_as_their_widest_cell() {
        let headings = || vec!["NAMESPACE", "NAME", "AGE"];
        let rows = vec![row(&["default", "web-0", "5s"]), row(&["kube-system", "d", "3m20s"])];
        insta::assert_snapshot!(printed(Table::new(headings(), true), rows.clone()), @"
        NAMESPACE     NAME    AGE
        default       web-0   5s
        kube-system   d       3m20s
        ");
        insta::assert_snapshot!(printed(Table::new(headings(), false), rows), @"
        default       web-0   5s
        kube-system   d       3m20s
        ");
        assert_eq!(printed(Table::new(headings(), true), Vec::new()), "");
    }

    #[test]
    fn a_large_table_is_printed_while_it_arrives() {
        let mut out = Vec::new();
        let mut table = Table::new(vec!["NAMESPACE", "NAME", "AGE"], true);
        for _ in 0..STRETCH_ROWS {
            table.row(&mut out, row(&["ns", "name", "1s"])).unwrap();
        }
        assert!(out.iter().filter(|byte| **byte == b'\n').count() >= STRETCH_ROWS - 1);
        assert_eq!(table.kept(), 1);
    }
}
