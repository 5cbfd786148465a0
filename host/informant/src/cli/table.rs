//! Tables like kubectl's: left aligned, three spaces between columns.

use std::io::{self, Write};

use tabwriter::TabWriter;

use crate::admin::SourceView;
pub(super) use crate::age::{ago, duration};
use crate::escape;

/// The spaces between columns.
const GAP: usize = 3;

/// The cell of an absent value.
pub(super) const DASH: &str = "-";

/// Writes a table; nothing if it has no rows.
pub(super) fn write<const COLUMNS: usize>(
    out: &mut dyn Write,
    headings: [&str; COLUMNS],
    rows: impl IntoIterator<Item = [String; COLUMNS]>,
) -> io::Result<()> {
    let rows: Vec<_> = rows.into_iter().map(Vec::from).collect();
    write_columns(out, &headings, rows)
}

/// Like [`write`], with any number of columns: a row has a cell for each heading.
pub(super) fn write_columns(out: &mut dyn Write, headings: &[&str], rows: Vec<Vec<String>>) -> io::Result<()> {
    if rows.is_empty() {
        return Ok(());
    }
    let mut table = TabWriter::new(out).padding(GAP);
    writeln!(table, "{}", headings.join("\t"))?;
    for row in rows {
        // A tab or newline would begin another cell or row.
        let cells: Vec<_> = row.iter().map(|cell| escape::line(cell)).collect();
        writeln!(table, "{}", cells.join("\t"))?;
    }
    table.flush()
}

/// The value, or a dash.
pub(super) fn or_dash<T>(value: Option<T>, show: impl FnOnce(T) -> String) -> String {
    value.map_or_else(|| DASH.to_owned(), show)
}

/// The sources of all replicas: each has a cache of its own, so they stay apart.
pub(super) fn of_replicas(parts: Vec<(Option<String>, Vec<SourceView>)>) -> Vec<SourceView> {
    let are_several = parts.len() > 1;
    let mut all: Vec<_> = parts
        .into_iter()
        .flat_map(|(replica, sources)| {
            sources.into_iter().map(move |source| SourceView {
                replica: replica.clone(),
                ..source
            })
        })
        .collect();
    if are_several {
        let order = |source: &SourceView| {
            let SourceView {
                informer,
                cluster,
                resource,
                namespace,
                ..
            } = source.clone();
            (informer, cluster, resource, namespace)
        };
        all.sort_by_cached_key(order);
    }
    all
}

/// The first columns of each table of sources, in `informant status` and `informant get sources`.
pub(super) struct SourceColumns {
    /// Only if clusters have names.
    with_cluster: bool,
    /// Only if several replicas may have sources.
    with_replica: bool,
}

impl SourceColumns {
    pub(super) fn of(sources: &[SourceView]) -> Self {
        Self {
            with_cluster: sources.iter().any(|source| !source.cluster.is_empty()),
            with_replica: sources.iter().any(|source| source.replica.is_some()),
        }
    }

    /// `version` is the heading for the version up to which a source is complete.
    pub(super) fn headings(&self, version: &'static str) -> Vec<&'static str> {
        let mut headings = vec!["INFORMER"];
        headings.extend(self.with_cluster.then_some("CLUSTER"));
        headings.extend(["RESOURCE", "NAMESPACE"]);
        headings.extend(self.with_replica.then_some("REPLICA"));
        headings.extend(["STATE", "OBJECTS", version, "SEEN", "BOOKMARK"]);
        headings
    }

    /// A cell for each of the [`headings`](Self::headings).
    pub(super) fn row(&self, source: &SourceView) -> Vec<String> {
        let age = |age_ms: Option<u64>| or_dash(age_ms, |age_ms| format!("{} ago", ago(age_ms)));
        let mut row = vec![source.informer.clone()];
        row.extend(self.with_cluster.then(|| source.cluster.clone()));
        row.extend([
            source.resource.clone(),
            source.namespace.clone().unwrap_or_else(|| "*".to_owned()),
        ]);
        row.extend(self.with_replica.then(|| or_dash(source.replica.clone(), |name| name)));
        row.extend([
            source.state.clone(),
            source.objects.to_string(),
            or_dash(source.resource_version.clone(), |version| version),
            age(source.last_event_age_ms),
            age(source.bookmark_age_ms),
        ]);
        row
    }
}

/// The rows that are kept to measure columns, as many as in one page of kubectl.
const CHUNK_ROWS: usize = 500;

/// A table of any length. Rows are aligned in chunks of [`CHUNK_ROWS`], so that a large response is printed while it
/// arrives; columns never get narrower from one chunk to the next.
pub(super) struct StreamedTable {
    headings: Vec<String>,
    rows: Vec<Vec<String>>,
    widths: Vec<usize>,
    headings_due: bool,
}

impl StreamedTable {
    /// A row has a cell for each of `headings`, whether or not these are printed.
    pub(super) fn new(headings: Vec<String>, with_headings: bool) -> Self {
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
            self.rows.push(self.headings.clone());
        }
        self.rows
            .push(row.iter().map(|cell| escape::line(cell).into_owned()).collect());
        if self.rows.len() >= CHUNK_ROWS {
            self.finish(out)
        } else {
            Ok(())
        }
    }

    #[cfg(test)]
    pub(super) fn rows_kept(&self) -> usize {
        self.rows.len()
    }

    /// Prints the rows that are kept.
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

    fn printed(mut table: StreamedTable, rows: Vec<Vec<String>>) -> String {
        let mut out = Vec::new();
        for row in rows {
            table.row(&mut out, row).unwrap();
        }
        table.finish(&mut out).unwrap();
        String::from_utf8(out).unwrap()
    }

    #[test]
    fn columns_fit_their_widest_cell() {
        let headings = || row(&["NAMESPACE", "NAME", "AGE"]);
        let rows = vec![row(&["default", "web-0", "5s"]), row(&["kube-system", "d", "3m20s"])];
        insta::assert_snapshot!(printed(StreamedTable::new(headings(), true), rows.clone()), @"
        NAMESPACE     NAME    AGE
        default       web-0   5s
        kube-system   d       3m20s
        ");
        insta::assert_snapshot!(printed(StreamedTable::new(headings(), false), rows), @"
        default       web-0   5s
        kube-system   d       3m20s
        ");
        assert_eq!(printed(StreamedTable::new(headings(), true), Vec::new()), "");
    }

    #[test]
    fn large_tables_are_printed_in_chunks() {
        let mut out = Vec::new();
        let mut table = StreamedTable::new(row(&["NAMESPACE", "NAME", "AGE"]), true);
        for _ in 0..CHUNK_ROWS {
            table.row(&mut out, row(&["ns", "name", "1s"])).unwrap();
        }
        assert!(out.iter().filter(|byte| **byte == b'\n').count() >= CHUNK_ROWS - 1);
        assert_eq!(table.rows_kept(), 1);
    }
}
