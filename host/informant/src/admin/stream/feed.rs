//! The rows of plugins and sources, computed at most every 2 s however many clients there are.

use std::collections::BTreeMap;
use std::sync::{Mutex, MutexGuard};
use std::time::Duration;

use informant_cache::Moment;
use serde_json::json;

use super::rows::{PluginRow, Rates, plugin_rows, source_rows_with_rates};
use super::table::RowTable;
use crate::admin::AdminState;
use crate::sync::lock;

/// For how long rows count as new: 1.5 s, so that they are computed at every second tick of a client.
const FRESH: Duration = Duration::from_millis(1_500);

/// The rows that all clients share.
#[derive(Debug, Default)]
pub(in crate::admin) struct Feed {
    plugins: Mutex<Rows>,
    sources: Mutex<Rows>,
}

#[derive(Debug, Default)]
struct Rows {
    table: RowTable,
    /// When they were computed.
    at: Option<Moment>,
    /// What they had counted then.
    rates: BTreeMap<String, Rates>,
}

impl Feed {
    /// What has changed in the plugins, see [`RowTable::changes`].
    pub(super) fn plugins(&self, state: &AdminState, since: &mut u64) -> Option<String> {
        let mut rows = lock(&self.plugins);
        if let Some(elapsed) = rows.outdated(state) {
            let plugins: Vec<PluginRow> = plugin_rows(state, &mut rows.rates, elapsed);
            rows.table.set(
                plugins
                    .into_iter()
                    .map(|row| (row.name.clone(), json!(row).to_string())),
            );
        }
        rows.table.changes(since)
    }

    /// What has changed in the sources.
    pub(super) fn sources(&self, state: &AdminState, since: &mut u64) -> Option<String> {
        let mut rows: MutexGuard<'_, Rows> = lock(&self.sources);
        if let Some(elapsed) = rows.outdated(state) {
            let sources = source_rows_with_rates(state, &mut rows.rates, elapsed);
            rows.table
                .set(sources.into_iter().map(|row| (row.key.clone(), json!(row).to_string())));
        }
        rows.table.changes(since)
    }
}

impl Rows {
    /// How long ago they were computed, if that is long ago. Then they count as computed now.
    fn outdated(&mut self, state: &AdminState) -> Option<Duration> {
        let now = state.environment.now();
        let elapsed = self.at.map_or(Duration::MAX, |at| now - at);
        (elapsed >= FRESH).then(|| {
            self.at = Some(now);
            elapsed
        })
    }
}
