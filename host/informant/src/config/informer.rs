//! `[informer.NAME]`: what is watched and how it is kept.

use std::time::Duration;

use informant_informer::Exclude;
use informant_object::{FieldSelector, LabelSelector, Pointer, Shape};

use super::durable::{self, Durable};
use super::name;
use super::pointers;
use super::resources::{self, Resources};
use super::source::{Located, Place};
use super::table::{Keys, Table};

const KEYS: Keys = Keys {
    known: &[
        "clusters",
        "drop",
        "durable",
        "durable-key-file",
        "durable-secrets",
        "exclude",
        "field-selector",
        "index",
        "keep-managed-fields",
        "label-selector",
        "metadata-only",
        "namespaces",
        "relist-notify-unchanged",
        "required",
        "resource",
        "resync",
        "watch-list",
    ],
    planned: &[
        ("store", "whole objects are kept: leave it out, and use `drop`"),
        ("transform", "use `drop` to leave fields out"),
    ],
};

/// The shortest resync: below it handlers would do nothing else.
pub(super) const RESYNC_MIN: Duration = Duration::from_secs(1);
/// The longest: a week, beyond which it is the same as none.
pub(super) const RESYNC_MAX: Duration = Duration::from_secs(7 * 24 * 60 * 60);

/// Whether readiness waits for something.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Required {
    /// Not at all.
    No,
    /// Until it was ready once; later trouble shows in `/readyz?verbose` and in metrics.
    Once,
    /// And later trouble turns `/readyz` red again.
    Always,
}

/// An informer.
#[derive(Debug, Clone, PartialEq)]
pub struct InformerSection {
    /// Where the section begins.
    pub place: Place,
    /// group/version/plural, a kind, or a pattern.
    pub resource: Located<Resources>,
    /// What is left out of a pattern.
    pub exclude: Exclude,
    /// Where each entry of `exclude` stands, as written.
    pub exclude_entries: Vec<Located<String>>,
    /// The clusters it is watched in, a source for each. Empty: all there are.
    pub clusters: Vec<Located<String>>,
    /// In the order of the file, a source for each. Empty: all, or none for what lives outside of namespaces.
    pub namespaces: Vec<String>,
    /// Judged by the API server.
    pub label_selector: Option<LabelSelector>,
    /// Judged by the API server.
    pub field_selector: Option<FieldSelector>,
    /// How often handlers are shown everything again, unless their own section says so.
    pub resync: Option<Duration>,
    /// Whether plugins are told of what a relist shows unchanged.
    pub relist_notify_unchanged: bool,
    /// What is cut from each object before it is kept.
    pub drop: Vec<Pointer>,
    /// Whether `metadata.managedFields` stays.
    pub keep_managed_fields: bool,
    /// Whether the API server is asked for metadata alone.
    pub metadata_only: bool,
    /// Whether the first state is asked for by WatchList before LIST.
    pub watch_list: bool,
    /// Native indexes by name.
    pub indexes: Vec<(String, Pointer)>,
    /// What outlives the process; none: nothing.
    pub durable: Option<Durable>,
    /// Whether readiness waits for its first sync.
    pub required: Required,
}

impl InformerSection {
    /// Whether both mean the same, wherever in the file they stand.
    #[must_use]
    pub fn says_the_same_as(&self, other: &Self) -> bool {
        let place = other.place;
        Self { place, ..self.clone() } == *other
    }
}

pub(super) fn read(table: &Table<'_>) -> Option<InformerSection> {
    table.only(&KEYS);
    let resource = table.required_string("resource", "name what is watched: resource = \"v1/pods\"");
    let exclude_entries = table.strings("exclude").unwrap_or_default();
    let section = InformerSection {
        place: table.place(),
        clusters: read_clusters(table),
        namespaces: read_namespaces(table),
        label_selector: read_parsed(table, "label-selector", LabelSelector::parse),
        field_selector: read_parsed(table, "field-selector", FieldSelector::parse),
        relist_notify_unchanged: table.boolean("relist-notify-unchanged").unwrap_or(false),
        resync: table.duration("resync", RESYNC_MIN..=RESYNC_MAX),
        drop: read_drop(table),
        keep_managed_fields: table.boolean("keep-managed-fields").unwrap_or(false),
        metadata_only: table.boolean("metadata-only").unwrap_or(false),
        watch_list: table.boolean("watch-list").unwrap_or(true),
        indexes: read_indexes(table),
        durable: durable::read(table, resource.as_ref().map(|resource| resource.value.as_str())),
        required: read_required(table, Required::Once),
        exclude: resources::read_exclude(table, &exclude_entries),
        exclude_entries,
        resource: resource.and_then(|resource| resources::read(table, &resource))?,
    };
    Some(section)
}

/// `required = true | false | "always"`.
pub(super) fn read_required(table: &Table<'_>, default: Required) -> Required {
    if table.is_string("required") {
        return match table.string("required") {
            Some(text) if text.value == "always" => Required::Always,
            _ => {
                let problem = table.error(table.value_place("required"), "`required` cannot be that");
                table
                    .reporter()
                    .report(problem.help("possible values: true, false, \"always\""));
                default
            }
        };
    }
    match table.boolean("required") {
        Some(true) => Required::Once,
        Some(false) => Required::No,
        None => default,
    }
}

fn read_namespaces(table: &Table<'_>) -> Vec<String> {
    let Some(names) = table.strings("namespaces") else {
        return Vec::new();
    };
    if names.is_empty() {
        let problem = table.error(table.value_place("namespaces"), "`namespaces` is empty");
        table
            .reporter()
            .report(problem.help("leave it out to watch all namespaces"));
    }
    let mut read: Vec<String> = Vec::with_capacity(names.len());
    for name in names {
        if let Err(rule) = name::judge_name(&name.value) {
            let problem = table.error(name.place, format!("\"{}\" cannot be a namespace", name.value));
            table.reporter().report(problem.help(rule));
        }
        if read.contains(&name.value) {
            let problem = table.error(name.place, format!("`namespaces` names \"{}\" twice", name.value));
            table.reporter().report(problem.help("leave one of them out"));
        }
        read.push(name.value);
    }
    read
}

/// Names alone: whether there are such clusters is judged with the whole file.
fn read_clusters(table: &Table<'_>) -> Vec<Located<String>> {
    let Some(names) = table.strings("clusters") else {
        return Vec::new();
    };
    if names.is_empty() {
        let problem = table.error(table.value_place("clusters"), "`clusters` is empty");
        table
            .reporter()
            .report(problem.help("leave it out to watch in all clusters"));
    }
    let mut read: Vec<Located<String>> = Vec::with_capacity(names.len());
    for name in names {
        if read.contains(&name) {
            let problem = table.error(name.place, format!("`clusters` names \"{}\" twice", name.value));
            table.reporter().report(problem.help("leave one of them out"));
        }
        read.push(name);
    }
    read
}

fn read_drop(table: &Table<'_>) -> Vec<Pointer> {
    let pointers = table.strings("drop").unwrap_or_default();
    let parsed = pointers
        .iter()
        .filter_map(|text| Some((text, parse_pointer(table, "drop", text)?)));
    parsed
        .filter_map(|(text, pointer)| judge_drop(table, text, pointer))
        .collect()
}

/// What names and versions an object cannot be dropped.
fn judge_drop(table: &Table<'_>, text: &Located<String>, pointer: Pointer) -> Option<Pointer> {
    match Shape::new("", "", vec![pointer.clone()], true) {
        Ok(_) => Some(pointer),
        Err(error) => {
            table
                .reporter()
                .report(table.error(text.place, format!("`drop`: {error}")));
            None
        }
    }
}

fn read_indexes(table: &Table<'_>) -> Vec<(String, Pointer)> {
    let Some(indexes) = table.has("index").then(|| table.table("index")).flatten() else {
        return Vec::new();
    };
    let mut read = Vec::new();
    for key in indexes.keys() {
        let rule = match key.value {
            "namespace" => Err("every informer has an index of that name already"),
            name => name::judge_word(name),
        };
        if let Err(rule) = rule {
            let problem = indexes.error(key.place, format!("\"{}\" cannot be the name of an index", key.value));
            indexes.reporter().report(problem.help(rule));
        }
        let pointer = indexes
            .string(key.value)
            .and_then(|text| parse_pointer(&indexes, key.value, &text));
        read.extend(pointer.map(|pointer| (key.value.to_owned(), pointer)));
    }
    read
}

fn parse_pointer(table: &Table<'_>, key: &str, text: &Located<String>) -> Option<Pointer> {
    match Pointer::parse(&text.value) {
        Ok(pointer) => {
            pointers::warn_of_divided_key(table, key, text);
            Some(pointer)
        }
        Err(error) => {
            pointers::report(table, key, text, &error);
            None
        }
    }
}

fn read_parsed<T, E: std::fmt::Display>(
    table: &Table<'_>,
    key: &str,
    parse: impl FnOnce(&str) -> Result<T, E>,
) -> Option<T> {
    let text = table.string(key)?;
    parse(&text.value)
        .inspect_err(|error| {
            table
                .reporter()
                .report(table.error(text.place, format!("`{key}`: {error}")));
        })
        .ok()
}
