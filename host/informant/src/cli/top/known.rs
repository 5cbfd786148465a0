//! What the daemon has sent so far.

use std::collections::BTreeMap;

use anyhow::{Context as _, Result};
use informant_cache::SourceState;
use serde::{Deserialize, Serialize};

use super::columns::SortBy;
use super::link::{Message, Update};
use crate::admin::{Overview, PluginRow, SourceRow};

/// All that is known; it stays when the connection is lost.
#[derive(Debug, Default)]
pub(super) struct Known {
    pub(super) overview: Option<Overview>,
    plugins: Option<BTreeMap<String, PluginRow>>,
    sources: Option<BTreeMap<String, SourceRow>>,
    /// Why there is no connection.
    pub(super) lost: Option<String>,
}

/// How rows have changed.
#[derive(Debug, Deserialize)]
struct Changes<T> {
    all: bool,
    changed: Vec<T>,
    removed: Vec<String>,
}

/// What `-o json` prints.
#[derive(Debug, Serialize)]
pub(super) struct Document<'a> {
    overview: Option<&'a Overview>,
    plugins: Vec<&'a PluginRow>,
    sources: Vec<&'a SourceRow>,
}

impl Known {
    /// Errors: a message that this version does not understand.
    pub(super) fn apply(&mut self, update: Update) -> Result<()> {
        match update {
            Update::Connected => self.lost = None,
            Update::Lost(why) => self.lost = Some(why),
            Update::Message(Message { topic, data }) => self
                .read(&topic, &data)
                .with_context(|| format!("the daemon sent {topic} that this version does not understand"))?,
        }
        Ok(())
    }

    fn read(&mut self, topic: &str, data: &[u8]) -> serde_json::Result<()> {
        match topic {
            "overview" => {
                let overview: Overview = serde_json::from_slice(data)?;
                // The hour is for charts.
                self.overview = Some(Overview {
                    series: serde_json::Value::Null,
                    ..overview
                });
            }
            "plugins" => change(&mut self.plugins, serde_json::from_slice(data)?, |row: &PluginRow| {
                &row.name
            }),
            "sources" => change(&mut self.sources, serde_json::from_slice(data)?, |row: &SourceRow| {
                &row.key
            }),
            _ => {}
        }
        Ok(())
    }

    /// Whether each topic has begun.
    pub(super) fn is_complete(&self) -> bool {
        self.overview.is_some() && self.plugins.is_some() && self.sources.is_some()
    }

    /// The plugins, sorted. Those that are equal are in the order of their names.
    pub(super) fn plugins(&self, (by, is_reversed): (SortBy, bool)) -> Vec<&PluginRow> {
        let mut rows: Vec<&PluginRow> = self.plugins.iter().flat_map(BTreeMap::values).collect();
        rows.sort_by(|one, other| {
            let order = by.compare(one, other);
            if is_reversed { order.reverse() } else { order }
        });
        rows
    }

    /// The sources: first those that are not live.
    pub(super) fn sources(&self) -> Vec<&SourceRow> {
        let mut rows: Vec<&SourceRow> = self.sources.iter().flat_map(BTreeMap::values).collect();
        rows.sort_by_key(|row| {
            let SourceRow {
                informer,
                cluster,
                resource,
                namespace,
                ..
            } = row;
            (is_live(row), informer, cluster, resource, namespace)
        });
        rows
    }

    pub(super) fn document(&self, order: (SortBy, bool)) -> Document<'_> {
        Document {
            overview: self.overview.as_ref(),
            plugins: self.plugins(order),
            sources: self.sources(),
        }
    }
}

pub(super) fn is_live(row: &SourceRow) -> bool {
    row.state == SourceState::Live.as_str()
}

fn change<T>(rows: &mut Option<BTreeMap<String, T>>, changes: Changes<T>, key: impl Fn(&T) -> &String) {
    let rows = rows.get_or_insert_default();
    if changes.all {
        rows.clear();
    }
    for name in &changes.removed {
        rows.remove(name);
    }
    rows.extend(changes.changed.into_iter().map(|row| (key(&row).clone(), row)));
}

#[cfg(test)]
mod tests {
    use super::*;

    fn read(known: &mut Known, topic: &str, data: &str) -> Result<()> {
        known.apply(Update::Message(Message {
            topic: topic.to_owned(),
            data: data.into(),
        }))
    }

    fn names(known: &Known, by: SortBy, is_reversed: bool) -> String {
        let rows = known.plugins((by, is_reversed));
        let names: Vec<&str> = rows.iter().map(|row| row.name.as_str()).collect();
        names.join(" ")
    }

    #[test]
    fn rows_are_replaced_changed_and_removed() {
        let mut known = Known::default();
        let all = r#"{"all":true,"changed":[{"name":"a"},{"name":"b"}],"removed":[]}"#;
        read(&mut known, "plugins", all).unwrap();
        let some = r#"{"all":false,"changed":[{"name":"c","pending":1}],"removed":["a"]}"#;
        read(&mut known, "plugins", some).unwrap();
        assert_eq!(names(&known, SortBy::Name, false), "b c");
        read(&mut known, "plugins", r#"{"all":true,"changed":[],"removed":[]}"#).unwrap();
        assert_eq!(names(&known, SortBy::Name, false), "");
        read(&mut known, "a topic of a later version", "?").unwrap();
        let error = read(&mut known, "sources", "[]").unwrap_err();
        assert_eq!(
            error.to_string(),
            "the daemon sent sources that this version does not understand"
        );
    }

    #[test]
    fn largest_come_first_and_equal_ones_by_name() {
        let mut known = Known::default();
        let rows = r#"{"all":true,"removed":[],"changed":[
            {"name":"a","perSecond":1.5,"cpu":0.2,"lagMs":0,"memoryBytes":5,"effectsPerSecond":0.1,"pending":4},
            {"name":"b","perSecond":9.5,"cpu":0.1,"lagMs":7,"memoryBytes":5,"effectsPerSecond":0.0,"pending":5},
            {"name":"c","perSecond":1.5,"cpu":0.3,"lagMs":3,"memoryBytes":6,"effectsPerSecond":0.0,"pending":6}]}"#;
        read(&mut known, "plugins", rows).unwrap();
        let of = |by| names(&known, by, false);
        assert_eq!(of(SortBy::Calls), "b a c");
        assert_eq!(of(SortBy::Cpu), "c a b");
        assert_eq!(of(SortBy::Lag), "b c a");
        assert_eq!(of(SortBy::Memory), "c a b");
        assert_eq!(of(SortBy::Effects), "a b c");
        assert_eq!(of(SortBy::Pending), "c b a");
        assert_eq!(of(SortBy::Name), "a b c");
        assert_eq!(names(&known, SortBy::Name, true), "c b a");
        assert_eq!(names(&known, SortBy::Calls, true), "c a b");
    }

    #[test]
    fn sources_that_are_not_live_come_first() {
        let mut known = Known::default();
        let rows = r#"{"all":true,"removed":[],"changed":[{"key":"1","informer":"a","state":"Live"},
            {"key":"2","informer":"z","state":"Forbidden"},{"key":"3","informer":"b","state":"Live"}]}"#;
        read(&mut known, "sources", rows).unwrap();
        let informers: Vec<&str> = known.sources().iter().map(|row| row.informer.as_str()).collect();
        assert_eq!(informers, ["z", "a", "b"]);
    }
}
