//! What a plugin wants, by its own words: the JSON document that `describe` returns.
//!
//! Strict: what is not known is refused, so that a slip in a name does not become an event that never comes. Pure.

use std::collections::BTreeSet;

use informant_object::{Payload, Pointer, Projection};
use serde::Deserialize;
use serde::de::{self, Deserializer};

use crate::{KubeGrant, Need, Roles};

/// The longest manifest: 256 KiB.
pub const MANIFEST_BYTES_MAX: usize = 256 * 1_024;

/// The longest name of a plugin or an index, in bytes.
const NAME_BYTES_MAX: usize = 253;

/// Matches every apiVersion or kind.
const ANY: &str = "*";

/// What a plugin wants.
#[derive(Clone, Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Manifest {
    /// The plugin's name, as its author calls it.
    pub name: String,
    /// The plugin's version.
    pub version: String,
    /// Of the roles that the component exports, those it plays. Absent: all.
    #[serde(default)]
    pub roles: Option<Vec<Role>>,
    /// Which objects it is told about, and how much of them. Absent: all of them, whole.
    #[serde(default = "everything")]
    pub events: Vec<EventRule>,
    /// The indexes it computes.
    #[serde(default)]
    pub indexes: Option<Indexes>,
    /// What has to be granted to it.
    #[serde(default)]
    pub needs: Vec<Need>,
}

/// A role, by its interface's name.
#[derive(Clone, Copy, Debug, Deserialize, PartialEq, Eq)]
#[serde(rename_all = "kebab-case")]
pub enum Role {
    /// It is told about each change.
    EventHandler,
    /// It is told when a source has been shown completely.
    SyncHandler,
    /// It computes index values.
    IndexFuncs,
    /// It hands over what it remembers.
    State,
}

/// What a component says that cannot be used as it is: a plugin that is made from something else, which is wrong.
#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct Refusal {
    refused: String,
}

/// How a plugin is told about objects of one type.
#[derive(Clone, Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct EventRule {
    /// `v1`, `apps/v1`, or `*`.
    #[serde(rename = "apiVersion")]
    pub api_version: String,
    /// `Pod`, or `*`.
    pub kind: String,
    /// How much of an object it is handed.
    #[serde(default = "whole", deserialize_with = "payload")]
    pub payload: Payload,
    /// Whether an update also hands it the state before.
    #[serde(default)]
    pub old: bool,
    /// Whether it is left alone while what it is handed of an object stays the same.
    #[serde(default, rename = "changed-only")]
    pub changed_only: bool,
}

/// The indexes a plugin computes.
#[derive(Clone, Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Indexes {
    /// Their names.
    pub names: Vec<String>,
    /// Which objects they are computed for, and what is handed over of these.
    pub objects: Vec<IndexRule>,
}

/// How objects of one type are indexed.
#[derive(Clone, Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct IndexRule {
    /// `v1`, `apps/v1`, or `*`.
    #[serde(rename = "apiVersion")]
    pub api_version: String,
    /// `Pod`, or `*`.
    pub kind: String,
    /// How much of an object it is handed.
    #[serde(default = "whole", deserialize_with = "payload")]
    pub payload: Payload,
}

/// A manifest that is not taken. Reads on from "its manifest (what describe returned)".
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum ManifestError {
    /// Longer than [`MANIFEST_BYTES_MAX`].
    #[error("has {0} bytes; {MANIFEST_BYTES_MAX} are allowed")]
    TooLong(usize),
    /// Not JSON, or not of the shape.
    #[error("is not valid: {0}")]
    Json(serde_json::Error),
    /// It is no manifest but the reason why there is none.
    #[error("says why it cannot be used: {0}")]
    Refused(String),
    /// What it says does not hold together.
    #[error("{0}")]
    Inconsistent(String),
}

/// Something said about objects of a type, which may be `*`.
trait Rule {
    fn api_version(&self) -> &str;
    fn kind(&self) -> &str;
}

impl Manifest {
    /// Reads and judges the document that a component with `roles` returned.
    ///
    /// # Errors
    /// [`ManifestError`], whose text says what to change.
    pub fn parse(json: &[u8], roles: Roles) -> Result<Manifest, ManifestError> {
        if json.len() > MANIFEST_BYTES_MAX {
            return Err(ManifestError::TooLong(json.len()));
        }
        if let Ok(Refusal { refused }) = serde_json::from_slice(json) {
            return Err(ManifestError::Refused(refused));
        }
        let manifest: Manifest = serde_json::from_slice(json).map_err(ManifestError::Json)?;
        manifest.judge(roles).map_err(ManifestError::Inconsistent)?;
        Ok(manifest)
    }

    /// What it is to be called for, if its component exports `exported`.
    #[must_use]
    pub fn plays(&self, exported: Roles) -> Roles {
        let Some(roles) = &self.roles else { return exported };
        Roles {
            event_handler: exported.event_handler && roles.contains(&Role::EventHandler),
            sync_handler: exported.sync_handler && roles.contains(&Role::SyncHandler),
            index_funcs: exported.index_funcs && roles.contains(&Role::IndexFuncs),
            state: exported.state && roles.contains(&Role::State),
        }
    }

    /// How it wants to be told about objects of this type; none: not at all. The rule that names most of the type wins.
    #[must_use]
    pub fn event_rule(&self, api_version: &str, kind: &str) -> Option<&EventRule> {
        closest(&self.events, api_version, kind)
    }

    /// How it indexes objects of this type; none: not at all.
    #[must_use]
    pub fn index_rule(&self, api_version: &str, kind: &str) -> Option<&IndexRule> {
        closest(&self.indexes.as_ref()?.objects, api_version, kind)
    }

    /// The names of its indexes.
    #[must_use]
    pub fn index_names(&self) -> &[String] {
        self.indexes.as_ref().map_or(&[], |indexes| &indexes.names)
    }

    /// What it needs to do on the cluster.
    #[must_use]
    pub fn kube_needs(&self) -> Vec<KubeGrant> {
        let kube = |need: &Need| match need {
            Need::Kube(grant) => grant.clone(),
        };
        self.needs.iter().map(kube).collect()
    }

    fn judge(&self, roles: Roles) -> Result<(), String> {
        judge_name("name", &self.name)?;
        judge_name("version", &self.version)?;
        judge_types("events", &self.events)?;
        self.needs.iter().try_for_each(Need::judge)?;
        self.judge_roles(roles)?;
        match (&self.indexes, self.plays(roles).index_funcs) {
            (Some(indexes), true) => indexes.judge(),
            (Some(_), false) => Err(
                "names indexes, but the component does not export index-funcs; add the role, or drop `indexes`"
                    .to_owned(),
            ),
            (None, true) => Err(
                "names no indexes, but the component exports index-funcs; add `indexes`, or drop the role".to_owned(),
            ),
            (None, false) => Ok(()),
        }
    }
}

impl Manifest {
    fn judge_roles(&self, exported: Roles) -> Result<(), String> {
        let Some(roles) = &self.roles else { return Ok(()) };
        if roles.is_empty() {
            return Err("has an empty `roles`; name at least one role, or leave it out to play all".to_owned());
        }
        for role in roles {
            let (is_exported, name) = match role {
                Role::EventHandler => (exported.event_handler, "event-handler"),
                Role::SyncHandler => (exported.sync_handler, "sync-handler"),
                Role::IndexFuncs => (exported.index_funcs, "index-funcs"),
                Role::State => (exported.state, "state"),
            };
            if !is_exported {
                return Err(format!(
                    "names the role {name}, but the component does not export it; add the role, or drop it from `roles`"
                ));
            }
        }
        Ok(())
    }
}

impl Indexes {
    fn judge(&self) -> Result<(), String> {
        let mut seen = BTreeSet::new();
        for name in &self.names {
            judge_name("indexes.names", name)?;
            if !seen.insert(name) {
                return Err(format!("names the index {name:?} twice"));
            }
        }
        if self.names.is_empty() {
            return Err("has an empty `indexes.names`; name at least one index".to_owned());
        }
        if self.objects.is_empty() {
            return Err("has an empty `indexes.objects`; say at least one apiVersion and kind".to_owned());
        }
        judge_types("indexes.objects", &self.objects)
    }
}

fn judge_name(field: &str, name: &str) -> Result<(), String> {
    match name {
        "" => Err(format!("has an empty `{field}`")),
        name if name.len() > NAME_BYTES_MAX => Err(format!("has a `{field}` of more than {NAME_BYTES_MAX} bytes")),
        name if name.chars().any(char::is_control) => Err(format!("has control characters in `{field}`: {name:?}")),
        _ => Ok(()),
    }
}

fn judge_types<R: Rule>(field: &str, rules: &[R]) -> Result<(), String> {
    let mut seen = BTreeSet::new();
    for rule in rules {
        if rule.api_version().is_empty() || rule.kind().is_empty() {
            return Err(format!(
                "has an empty apiVersion or kind in `{field}`; \"{ANY}\" stands for all"
            ));
        }
        if !seen.insert((rule.api_version(), rule.kind())) {
            return Err(format!(
                "says twice in `{field}` what holds for {} {}",
                rule.api_version(),
                rule.kind()
            ));
        }
    }
    Ok(())
}

/// The rule that fits and names most: apiVersion and kind, apiVersion alone, kind alone, neither.
fn closest<'r, R: Rule>(rules: &'r [R], api_version: &str, kind: &str) -> Option<&'r R> {
    let fits = |pattern: &str, text: &str| pattern == ANY || pattern == text;
    rules
        .iter()
        .filter(|rule| fits(rule.api_version(), api_version) && fits(rule.kind(), kind))
        .max_by_key(|rule| (rule.api_version() != ANY, rule.kind() != ANY))
}

impl Rule for EventRule {
    fn api_version(&self) -> &str {
        &self.api_version
    }

    fn kind(&self) -> &str {
        &self.kind
    }
}

impl Rule for IndexRule {
    fn api_version(&self) -> &str {
        &self.api_version
    }

    fn kind(&self) -> &str {
        &self.kind
    }
}

fn everything() -> Vec<EventRule> {
    let any = || ANY.to_owned();
    vec![EventRule {
        api_version: any(),
        kind: any(),
        payload: Payload::Whole,
        old: false,
        changed_only: false,
    }]
}

fn whole() -> Payload {
    Payload::Whole
}

/// Reads `"whole"`, `"metadata"` or `{"fields": ["/json/pointer", …]}`.
fn payload<'de, D: Deserializer<'de>>(deserializer: D) -> Result<Payload, D::Error> {
    #[derive(Deserialize)]
    #[serde(rename_all = "lowercase")]
    enum Written {
        Whole,
        Metadata,
        Fields(Vec<String>),
    }
    let fields = match Written::deserialize(deserializer)? {
        Written::Whole => return Ok(Payload::Whole),
        Written::Metadata => return Ok(Payload::Metadata),
        Written::Fields(fields) => fields,
    };
    if fields.is_empty() {
        return Err(de::Error::custom(
            "`fields` is empty; name at least one JSON pointer, or ask for \"metadata\"",
        ));
    }
    let pointers: Result<Vec<Pointer>, D::Error> = fields
        .iter()
        .map(|text| Pointer::parse(text).map_err(de::Error::custom))
        .collect();
    Ok(Payload::Fields(Projection::new(&pointers?)))
}

#[cfg(test)]
mod tests;
