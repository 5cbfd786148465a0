//! A table as kubectl prints it: left aligned, three spaces between columns, in stretches.
//!
//! Rows are aligned within a stretch of [`STRETCH_ROWS`] rows, so that a large answer is printed while it arrives; columns
//! never get narrower from one stretch to the next.

use std::io::{self, Write};

/// How many rows are kept to find out how wide they are; as many as kubectl gets in one page.
const STRETCH_ROWS: usize = 500;

const HEADINGS: [&str; 3] = ["NAMESPACE", "NAME", "AGE"];
const COLUMNS: usize = HEADINGS.len();
const GAP: usize = 3;

type Row = [String; COLUMNS];

/// Rows of one table.
pub(super) struct Table {
    /// The first column that is shown.
    from: usize,
    rows: Vec<Row>,
    widths: [usize; COLUMNS],
    headings_due: bool,
}

impl Table {
    pub(super) fn new(with_namespace: bool, with_headings: bool) -> Self {
        let from = usize::from(!with_namespace);
        Self {
            from,
            rows: Vec::new(),
            widths: [0; COLUMNS],
            headings_due: with_headings,
        }
    }

    pub(super) fn row(&mut self, out: &mut impl Write, row: Row) -> io::Result<()> {
        if self.headings_due {
            self.headings_due = false;
            self.rows.push(HEADINGS.map(str::to_owned));
        }
        self.rows.push(row);
        if self.rows.len() >= STRETCH_ROWS {
            self.finish(out)
        } else {
            Ok(())
        }
    }

    /// Prints what is kept.
    pub(super) fn finish(&mut self, out: &mut impl Write) -> io::Result<()> {
        for row in &self.rows {
            for (width, cell) in self.widths.iter_mut().zip(row) {
                *width = (*width).max(cell.chars().count());
            }
        }
        for row in self.rows.drain(..) {
            for (cell, width) in row.iter().zip(self.widths).take(COLUMNS - 1).skip(self.from) {
                write!(out, "{cell:width$}", width = width + GAP)?;
            }
            writeln!(out, "{}", row[COLUMNS - 1])?;
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn row(namespace: &str, name: &str, age: &str) -> Row {
        [namespace, name, age].map(str::to_owned)
    }

    fn printed(mut table: Table, rows: Vec<Row>) -> String {
        let mut out = Vec::new();
        for row in rows {
            table.row(&mut out, row).unwrap();
        }
        table.finish(&mut out).unwrap();
        String::from_utf8(out).unwrap()
    }

    #[test]
    fn columns_are_as_wide_as_their_widest_cell() {
        let rows = vec![row("default", "web-0", "5s"), row("kube-system", "d", "3m20s")];
        insta::assert_snapshot!(printed(Table::new(true, true), rows.clone()), @"
        NAMESPACE     NAME    AGE
        default       web-0   5s
        kube-system   d       3m20s
        ");
        insta::assert_snapshot!(printed(Table::new(false, true), rows.clone()), @"
        NAME    AGE
        web-0   5s
        d       3m20s
        ");
        insta::assert_snapshot!(printed(Table::new(false, false), rows), @"
        web-0   5s
        d       3m20s
        ");
        assert_eq!(printed(Table::new(true, true), Vec::new()), "");
    }

    #[test]
    fn a_large_table_is_printed_while_it_arrives() {
        let mut out = Vec::new();
        let mut table = Table::new(true, true);
        for _ in 0..STRETCH_ROWS {
            table.row(&mut out, row("ns", "name", "1s")).unwrap();
        }
        assert!(out.iter().filter(|byte| **byte == b'\n').count() >= STRETCH_ROWS - 1);
        assert_eq!(table.rows.len(), 1);
    }
}
