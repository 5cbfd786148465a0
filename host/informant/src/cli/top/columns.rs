//! The columns of plugins and sources: for the screen, which shows those that fit, and for plain tables.

use std::cmp::Ordering;

use clap::ValueEnum;

use crate::admin::{PluginRow, SourceRow};
use crate::cli::in_cluster;
use crate::cli::plugin::bytes;
use crate::cli::table;

/// What plugins are sorted by: numbers from the largest down, names from A.
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
pub(super) enum SortBy {
    /// Events delivered per second.
    Calls,
    /// CPU time of calls, in cores.
    Cpu,
    /// How long the oldest pending event has waited.
    Lag,
    /// Memory of its instances.
    Memory,
    /// Effects per second.
    Effects,
    /// Pending events.
    Pending,
    /// Name.
    Name,
}

/// All of them, in the order of the columns.
pub(super) const SORTS: [SortBy; 7] = [
    SortBy::Name,
    SortBy::Calls,
    SortBy::Cpu,
    SortBy::Lag,
    SortBy::Memory,
    SortBy::Effects,
    SortBy::Pending,
];

/// A column of numbers or words after the name.
pub(super) struct Column<R> {
    pub(super) heading: &'static str,
    pub(super) cell: fn(&R) -> String,
    /// On the screen, with a mark for the sort.
    pub(super) width: u16,
    /// The ones with smaller numbers are shown first if not all fit.
    pub(super) rank: u8,
    /// The sort that it belongs to.
    pub(super) sort: Option<SortBy>,
}

pub(super) const OF_PLUGINS: [Column<PluginRow>; 7] = [
    column("STATE", |row| row.state.clone(), 11, 4, None),
    column(
        "CALLS/S",
        |row| loaded(row, |row| rate(row.per_second)),
        8,
        1,
        Some(SortBy::Calls),
    ),
    column(
        "CPU",
        |row| {
            loaded(row, |row| {
                row.cpu.map_or(table::DASH.to_owned(), |cpu| format!("{cpu:.3}"))
            })
        },
        7,
        2,
        Some(SortBy::Cpu),
    ),
    column(
        "LAG",
        |row| loaded(row, |row| table::duration(row.lag_ms)),
        7,
        3,
        Some(SortBy::Lag),
    ),
    column(
        "MEMORY",
        |row| loaded(row, |row| size(row.memory_bytes)),
        8,
        5,
        Some(SortBy::Memory),
    ),
    column(
        "EFFECTS/S",
        |row| loaded(row, |row| rate(row.effects_per_second)),
        10,
        6,
        Some(SortBy::Effects),
    ),
    column(
        "PENDING",
        |row| loaded(row, |row| row.pending.to_string()),
        8,
        7,
        Some(SortBy::Pending),
    ),
];

pub(super) const OF_SOURCES: [Column<SourceRow>; 4] = [
    column("STATE", |row| row.state.clone(), 11, 1, None),
    column("OBJECTS", |row| row.objects.to_string(), 8, 2, None),
    column("EVENTS/S", |row| rate(row.per_second), 8, 3, None),
    column("MEMORY", |row| size(row.bytes), 8, 4, None),
];

const fn column<R>(
    heading: &'static str,
    cell: fn(&R) -> String,
    width: u16,
    rank: u8,
    sort: Option<SortBy>,
) -> Column<R> {
    Column {
        heading,
        cell,
        width,
        rank,
        sort,
    }
}

impl SortBy {
    /// The key that chooses it.
    pub(super) fn key(self) -> char {
        match self {
            SortBy::Name => 'n',
            SortBy::Calls => 'c',
            SortBy::Cpu => 'u',
            SortBy::Lag => 'l',
            SortBy::Memory => 'm',
            SortBy::Effects => 'e',
            SortBy::Pending => 'p',
        }
    }

    /// The one so many columns further to the right.
    pub(super) fn further(self, columns: usize) -> SortBy {
        let at = SORTS.iter().position(|sort| *sort == self).unwrap_or_default();
        SORTS[(at + columns) % SORTS.len()]
    }

    pub(super) fn compare(self, one: &PluginRow, other: &PluginRow) -> Ordering {
        let by = |one: Option<f64>, other: Option<f64>| one.unwrap_or_default().total_cmp(&other.unwrap_or_default());
        let largest_first = match self {
            SortBy::Name => Ordering::Equal,
            SortBy::Calls => by(other.per_second, one.per_second),
            SortBy::Cpu => by(other.cpu, one.cpu),
            SortBy::Lag => other.lag_ms.cmp(&one.lag_ms),
            SortBy::Memory => other.memory_bytes.cmp(&one.memory_bytes),
            SortBy::Effects => by(other.effects_per_second, one.effects_per_second),
            SortBy::Pending => other.pending.cmp(&one.pending),
        };
        largest_first.then_with(|| one.name.cmp(&other.name))
    }
}

/// Nothing is known of a plugin that is not loaded.
fn loaded(row: &PluginRow, show: fn(&PluginRow) -> String) -> String {
    match row.sha256.is_empty() {
        true => table::DASH.to_owned(),
        false => show(row),
    }
}

/// The first column of a source: `pods v1/pods in shop`.
pub(super) fn source(row: &SourceRow) -> String {
    let within = row.namespace.as_ref().map(|namespace| format!(" in {namespace}"));
    let (informer, resource) = (&row.informer, &row.resource);
    let within = within.unwrap_or_default() + &in_cluster(&row.cluster);
    format!("{informer} {resource}{within}")
}

/// So many in a second: `0`, `<0.1`, `2.5`, `1204`; a dash if that is not known.
pub(super) fn rate(per_second: Option<f64>) -> String {
    let Some(per_second) = per_second else {
        return table::DASH.to_owned();
    };
    match per_second {
        0.0 => "0".to_owned(),
        ..0.1 => "<0.1".to_owned(),
        ..99.95 => format!("{per_second:.1}"),
        _ => format!("{per_second:.0}"),
    }
}

pub(super) fn size(count: usize) -> String {
    bytes(u64::try_from(count).unwrap_or(u64::MAX))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn rates_are_short() {
        let rates = [0.0, 0.001, 0.1, 2.54, 99.9, 99.96, 1_203.6].map(|value| rate(Some(value)));
        assert_eq!(rates, ["0", "<0.1", "0.1", "2.5", "99.9", "100", "1204"]);
    }

    #[test]
    fn each_sort_has_a_key_of_its_own() {
        let mut keys: Vec<char> = SORTS.map(SortBy::key).to_vec();
        keys.sort_unstable();
        keys.dedup();
        assert_eq!(keys.len(), SortBy::value_variants().len());
        assert_eq!(SortBy::Name.further(1), SortBy::Calls);
        assert_eq!(SortBy::Name.further(SORTS.len() - 1), SortBy::Pending);
    }
}
