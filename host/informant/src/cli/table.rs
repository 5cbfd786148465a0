//! Small tables, as kubectl prints them: left aligned, three spaces between columns.

use std::io::{self, Write};

use tabwriter::TabWriter;

use crate::age;

/// What stands where there is nothing to say.
pub(super) const NOTHING: &str = "-";

/// Writes a table; nothing if it has no rows.
pub(super) fn write<const COLUMNS: usize>(
    out: &mut dyn Write,
    headings: [&str; COLUMNS],
    rows: impl IntoIterator<Item = [String; COLUMNS]>,
) -> io::Result<()> {
    let rows: Vec<_> = rows.into_iter().map(Vec::from).collect();
    write_columns(out, &headings, rows)
}

/// As [`write`], with as many columns as it takes: a row has a cell for each heading.
pub(super) fn write_columns(out: &mut dyn Write, headings: &[&str], rows: Vec<Vec<String>>) -> io::Result<()> {
    if rows.is_empty() {
        return Ok(());
    }
    let mut table = TabWriter::new(out).padding(3);
    writeln!(table, "{}", headings.join("\t"))?;
    for row in rows {
        // A tab or a newline in a cell would be a cell or a row of its own.
        let cells: Vec<_> = row.iter().map(|cell| cell.replace(['\t', '\n'], " ")).collect();
        writeln!(table, "{}", cells.join("\t"))?;
    }
    table.flush()
}

/// How long something lasts or lasted: to the millisecond below ten seconds, in kubectl's words above.
pub(super) fn duration(millis: u64) -> String {
    match millis {
        0..1_000 => format!("{millis}ms"),
        1_000..10_000 => format!("{}.{}s", millis / 1_000, millis % 1_000 / 100),
        _ => age::human(i64::try_from(millis / 1_000).unwrap_or(i64::MAX)),
    }
}

/// How long ago, in kubectl's words.
pub(super) fn ago(millis: u64) -> String {
    age::human(i64::try_from(millis / 1_000).unwrap_or(i64::MAX))
}

/// What there is, or a dash.
pub(super) fn or_nothing<T>(value: Option<T>, show: impl FnOnce(T) -> String) -> String {
    value.map_or_else(|| NOTHING.to_owned(), show)
}
