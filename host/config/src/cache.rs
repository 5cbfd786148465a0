//! `[cache]`: how much memory the caches may take.

use crate::table::Table;

/// The smallest `max-bytes`: below it, even the objects of small clusters would lose their bodies.
const BUDGET_BYTES_MIN: usize = 1 << 20;

/// The largest `max-bytes`.
const BUDGET_BYTES_MAX: usize = 1 << 40;

#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct CacheSection {
    /// The budget of all caches together in bytes; `None`: the default, a part of what the container may use.
    pub max_bytes: Option<usize>,
}

pub(crate) fn read(root: &Table<'_>) -> CacheSection {
    let Some(table) = root.table("cache") else {
        return CacheSection::default();
    };
    let max_bytes = read_max_bytes(&table);
    table.finish(&[]);
    CacheSection { max_bytes }
}

/// `max-bytes` of `[cache]`, or of an informer.
pub(crate) fn read_max_bytes(table: &Table<'_>) -> Option<usize> {
    table.size_bytes("max-bytes", BUDGET_BYTES_MIN..=BUDGET_BYTES_MAX)
}
