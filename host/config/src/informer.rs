//! `[informer.NAME]`: what to watch, and how to cache it.

use std::time::Duration;

use informant_object::{FieldSelector, LabelSelector, Pointer, PointerError, Shape};
use informant_spec::{Exclude, Required};

use crate::cache;
use crate::name;
use crate::pointers;
use crate::resources::{self, Resources};
use crate::source::{FilePosition, Located};
use crate::state::{self, Durable};
use crate::table::{Planned, Table};

const PLANNED: &Planned = &[
    ("store", "whole objects are kept: remove it, and use `drop`"),
    ("transform", "use `drop` to remove fields"),
];

/// The shortest resync: with less, handlers would do nothing else.
pub(crate) const RESYNC_MIN: Duration = Duration::from_secs(1);
/// The longest resync: a week; more is as good as none.
pub(crate) const RESYNC_MAX: Duration = Duration::from_secs(7 * 24 * 60 * 60);

#[derive(Debug, Clone, PartialEq)]
pub struct InformerSection {
    pub position: FilePosition,
    /// group/version/plural, a kind, or a pattern.
    pub resource: Located<Resources>,
    pub exclude: Exclude,
    /// The entries of `exclude` as written.
    pub exclude_entries: Vec<Located<String>>,
    /// The clusters to watch, with one source each. Empty: all clusters.
    pub clusters: Vec<Located<String>>,
    /// In the order of the file, with one source each. Empty: all namespaces, or a cluster-scoped resource.
    pub namespaces: Vec<String>,
    /// Evaluated by the API server.
    pub label_selector: Option<LabelSelector>,
    /// Evaluated by the API server.
    pub field_selector: Option<FieldSelector>,
    /// How often handlers receive all objects again, unless their own section overrides it.
    pub resync: Option<Duration>,
    /// Whether plugins receive objects that a relist shows unchanged.
    pub relist_notify_unchanged: bool,
    /// Fields that are removed from each object before it is cached.
    pub drop: Vec<Pointer>,
    /// Fields of which only a hash is cached.
    pub digest: Vec<Pointer>,
    /// Whether `metadata.managedFields` is kept.
    pub keep_managed_fields: bool,
    /// Whether only metadata is requested from the API server.
    pub metadata_only: bool,
    /// Whether the first state is requested by WatchList, before falling back to LIST.
    pub watch_list: bool,
    /// Native indexes by name.
    pub indexes: Vec<(String, Pointer)>,
    /// The budget of its caches in each cluster, in bytes; `None`: that of all caches.
    pub cache_bytes_max: Option<usize>,
    /// What is persisted; `None`: nothing.
    pub durable: Option<Durable>,
    /// Whether readiness depends on its first sync.
    pub required: Required,
    /// How its objects are divided among the replicas; `None`: each replica that needs it reads all of them. That
    /// follows from the whole file: from `[ha]`, and from what the plugins of the informer need.
    pub shard_by: Option<ShardKey>,
}

/// What decides which shard an object belongs to.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum ShardKey {
    /// Its namespace: related objects are in one shard.
    Namespace,
    /// Its namespace and name: for few namespaces with many objects.
    Name,
}

const SHARD_BY: [(&str, Option<ShardKey>); 3] = [
    ("namespace", Some(ShardKey::Namespace)),
    ("name", Some(ShardKey::Name)),
    ("none", None),
];

impl ShardKey {
    /// As in `shard-by`.
    #[must_use]
    pub fn as_str(self) -> &'static str {
        match self {
            ShardKey::Namespace => "namespace",
            ShardKey::Name => "name",
        }
    }
}

impl InformerSection {
    /// Whether both have the same settings, wherever in the file they are.
    #[must_use]
    pub fn has_same_settings(&self, other: &Self) -> bool {
        let position = other.position;
        Self {
            position,
            ..self.clone()
        } == *other
    }
}

pub(crate) fn read(table: &Table<'_>) -> Option<InformerSection> {
    let section = read_keys(table);
    table.finish(PLANNED);
    section
}

/// `shard-by`, as written. Call it before [`read`], which reports keys that were not read.
pub(crate) fn read_shard_by(table: &Table<'_>) -> Option<Located<Option<ShardKey>>> {
    let text = table.string("shard-by")?;
    let value = table.word("shard-by", &text, &SHARD_BY)?;
    Some(Located {
        value,
        position: text.position,
    })
}

fn read_keys(table: &Table<'_>) -> Option<InformerSection> {
    let resource = table.required_string("resource", "set what to watch: resource = \"v1/pods\"");
    let exclude_entries = table.strings("exclude").unwrap_or_default();
    let section = InformerSection {
        position: table.position(),
        // Whether they exist is checked with the whole file.
        clusters: read_names(table, "clusters", "remove it to watch in all clusters", |_| ()),
        namespaces: read_namespaces(table, name::validate_name),
        label_selector: read_parsed(table, "label-selector", LabelSelector::parse, LABEL_SELECTOR_HELP),
        field_selector: read_parsed(table, "field-selector", FieldSelector::parse, FIELD_SELECTOR_HELP),
        relist_notify_unchanged: table.boolean("relist-notify-unchanged").unwrap_or(false),
        resync: table.duration("resync", RESYNC_MIN..=RESYNC_MAX),
        drop: read_cuts(table, "drop", |pointer| {
            Shape::new("", "", vec![pointer], true).map(drop)
        }),
        digest: read_cuts(table, "digest", |pointer| {
            Shape::verbatim().with_digest(vec![pointer]).map(drop)
        }),
        keep_managed_fields: table.boolean("keep-managed-fields").unwrap_or(false),
        metadata_only: table.boolean("metadata-only").unwrap_or(false),
        watch_list: table.boolean("watch-list").unwrap_or(true),
        indexes: read_indexes(table),
        cache_bytes_max: cache::read_max_bytes(table),
        durable: state::read_durable(table, resource.as_ref().map(|resource| resource.value.as_str())),
        required: read_required(table, Required::Once),
        // Known when the whole file has been read.
        shard_by: None,
        exclude: resources::read_exclude(table, &exclude_entries),
        exclude_entries,
        resource: resource.and_then(|resource| resources::read(table, &resource))?,
    };
    Some(section)
}

/// `required = true | false | "always"`.
pub(crate) fn read_required(table: &Table<'_>, default: Required) -> Required {
    if table.is_string("required") {
        return match table.string("required") {
            Some(text) if text.value == "always" => Required::Always,
            _ => {
                let message = "`required` has an invalid value";
                let help = "possible values: true, false, \"always\"";
                table.refuse(table.value_position("required"), message, help);
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

/// `namespaces`, of which none breaks a rule that `validate` returns.
pub(crate) fn read_namespaces(table: &Table<'_>, validate: impl Fn(&str) -> Result<(), &'static str>) -> Vec<String> {
    let names = read_names(table, "namespaces", "remove it for all namespaces", |name| {
        if let Err(rule) = validate(&name.value) {
            let message = format!("\"{}\" is not a valid namespace", name.value);
            table.refuse(name.position, message, rule);
        }
    });
    names.into_iter().map(|name| name.value).collect()
}

/// The names at `key`, which may be absent, but not empty; each once.
fn read_names(table: &Table<'_>, key: &str, help: &str, check: impl Fn(&Located<String>)) -> Vec<Located<String>> {
    let Some(names) = table.strings(key) else {
        return Vec::new();
    };
    if names.is_empty() {
        table.refuse(table.value_position(key), format!("`{key}` is empty"), help);
    }
    for (number, name) in names.iter().enumerate() {
        check(name);
        if names[..number].contains(name) {
            let message = format!("`{key}` names \"{}\" twice", name.value);
            table.refuse(name.position, message, "remove one of them");
        }
    }
    names
}

/// The fields at `key` that are cut, without those that `check` refuses: for example, they name or version an object.
fn read_cuts(table: &Table<'_>, key: &str, check: impl Fn(Pointer) -> Result<(), PointerError>) -> Vec<Pointer> {
    let texts = table.strings(key).unwrap_or_default();
    let read = |text: &Located<String>| {
        let pointer = parse_pointer(table, key, text)?;
        let problem = check(pointer.clone()).err();
        if let Some(error) = &problem {
            table.report(text.position, format!("`{key}`: {error}"));
        }
        problem.is_none().then_some(pointer)
    };
    texts.iter().filter_map(read).collect()
}

fn read_indexes(table: &Table<'_>) -> Vec<(String, Pointer)> {
    let Some(indexes) = table.table("index") else {
        return Vec::new();
    };
    let mut read = Vec::new();
    for key in indexes.keys() {
        let rule = match key.value {
            "namespace" => Err("every informer already has an index of that name"),
            name => name::validate_alias(name),
        };
        if let Err(rule) = rule {
            let message = format!("\"{}\" is not a valid index name", key.value);
            indexes.refuse(key.position, message, rule);
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
            pointers::warn_about_divided_key(table, key, text);
            Some(pointer)
        }
        Err(error) => {
            pointers::report(table, key, text, &error);
            None
        }
    }
}

/// How to write a label selector.
pub(crate) const LABEL_SELECTOR_HELP: &str = "write it as for `kubectl -l`: \"app=web,tier in (a, b),!canary\"";

/// How to write a field selector.
const FIELD_SELECTOR_HELP: &str =
    "write it as for `kubectl --field-selector`: \"spec.nodeName=a,status.phase!=Failed\"";

/// The parsed text of a key. Reports why it cannot be parsed, with `help`.
pub(crate) fn read_parsed<T, E: std::fmt::Display>(
    table: &Table<'_>,
    key: &str,
    parse: impl FnOnce(&str) -> Result<T, E>,
    help: &str,
) -> Option<T> {
    let text = table.string(key)?;
    parse(&text.value)
        .inspect_err(|error| {
            table.refuse(text.position, format!("`{key}`: {error}"), help);
        })
        .ok()
}
