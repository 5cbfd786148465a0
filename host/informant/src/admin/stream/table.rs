//! Rows whose changes several clients follow, each from where it is.

use std::collections::{BTreeMap, VecDeque};
use std::fmt::Write as _;
use std::sync::Arc;

/// Removed rows that are remembered: 1,000. A client that lacks older ones receives everything again.
const REMOVED_MAX: usize = 1_000;

/// Rows by key, each with the generation in which it changed.
#[derive(Debug, Default)]
pub(super) struct RowTable {
    generation: u64,
    rows: BTreeMap<String, (u64, Arc<str>)>,
    removed: VecDeque<(u64, String)>,
    /// Removals up to this generation are no longer remembered.
    forgotten: u64,
}

impl RowTable {
    /// The rows are these from now on, each a JSON document.
    pub(super) fn set(&mut self, rows: impl IntoIterator<Item = (String, String)>) {
        self.generation += 1;
        let generation = self.generation;
        let mut before = std::mem::take(&mut self.rows);
        for (key, text) in rows {
            let row = match before.remove(&key) {
                Some(row) if *row.1 == *text => row,
                _ => (generation, text.into()),
            };
            self.rows.insert(key, row);
        }
        self.removed.extend(before.into_keys().map(|key| (generation, key)));
        while self.removed.len() > REMOVED_MAX
            && let Some((generation, _)) = self.removed.pop_front()
        {
            self.forgotten = generation;
        }
    }

    /// What has changed after generation `since`; 0 for all. None if nothing has.
    pub(super) fn changes(&self, since: &mut u64) -> Option<String> {
        let is_all = *since == 0 || *since < self.forgotten || *since > self.generation;
        let after = if is_all { 0 } else { *since };
        let changed = self.rows.values().filter(|(generation, _)| *generation > after);
        let changed: Vec<&str> = changed.map(|(_, text)| &**text).collect();
        let removed = self
            .removed
            .iter()
            .filter(|(generation, key)| !is_all && *generation > after && !self.rows.contains_key(key));
        let removed: Vec<&str> = removed.map(|(_, key)| key.as_str()).collect();
        *since = self.generation;
        if !is_all && changed.is_empty() && removed.is_empty() {
            return None;
        }
        let mut text = format!("{{\"all\":{is_all},\"changed\":[{}],\"removed\":", changed.join(","));
        // Writing into a String does not fail.
        let _ = write!(text, "{}}}", serde_json::json!(removed));
        Some(text)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn set(table: &mut RowTable, rows: &[(&str, u32)]) {
        table.set(rows.iter().map(|(key, value)| ((*key).to_owned(), value.to_string())));
    }

    #[test]
    fn each_client_receives_what_it_has_not_had() {
        let (mut table, mut early, mut late) = (RowTable::default(), 0, 0);
        set(&mut table, &[("a", 1), ("b", 2)]);
        let all = r#"{"all":true,"changed":[1,2],"removed":[]}"#;
        assert_eq!(table.changes(&mut early).as_deref(), Some(all));
        set(&mut table, &[("a", 1), ("b", 3)]);
        set(&mut table, &[("b", 3), ("c", 4)]);
        let changes = r#"{"all":false,"changed":[3,4],"removed":["a"]}"#;
        assert_eq!(table.changes(&mut early).as_deref(), Some(changes));
        assert_eq!(table.changes(&mut early), None);
        let all = r#"{"all":true,"changed":[3,4],"removed":[]}"#;
        assert_eq!(table.changes(&mut late).as_deref(), Some(all));
    }

    #[test]
    fn a_row_that_comes_back_is_not_removed() {
        let (mut table, mut since) = (RowTable::default(), 0);
        set(&mut table, &[("a", 1)]);
        table.changes(&mut since);
        set(&mut table, &[]);
        set(&mut table, &[("a", 1)]);
        let changes = r#"{"all":false,"changed":[1],"removed":[]}"#;
        assert_eq!(table.changes(&mut since).as_deref(), Some(changes));
    }

    #[test]
    fn a_client_that_lacks_too_many_removals_receives_everything() {
        let (mut table, mut since) = (RowTable::default(), 0);
        let names: Vec<String> = (0..=REMOVED_MAX).map(|number| number.to_string()).collect();
        table.set(names.into_iter().map(|name| (name.clone(), name)));
        table.changes(&mut since);
        set(&mut table, &[("a", 1)]);
        let all = r#"{"all":true,"changed":[1],"removed":[]}"#;
        assert_eq!(table.changes(&mut since).as_deref(), Some(all));
    }
}
