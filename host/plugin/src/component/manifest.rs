//! A plugin's manifest: the JSON document that `describe` returns.
//!
//! Strict: unknown members are rejected, so that a typo in a name does not become an event that never arrives. Pure.

mod metric;
mod reconciler;
mod timers;

use std::collections::BTreeSet;
use std::time::Duration;

use informant_object::{LabelSelector, Payload, Pointer};
use informant_spec::{
    ALLOW_EVENTS, EventSelection, KubeGrant, PluginSpec, ReplayPolicy, TimerSpec, WaitFor, allow_line, unmet,
};
use serde::de::{self, Deserializer};
use serde::{Deserialize, Serialize};

use crate::component::roles::{Role, Roles};
use crate::error::{LoadProblem, ManifestError};
use crate::json_error::{Members, all_members, members, read};

pub use self::metric::{MetricDeclaration, MetricKind};
pub use self::reconciler::{By, PrimaryRule, ReconcilerRules, RelatedRule, When};
#[cfg(test)]
pub(crate) use self::timers::TimerRule;

/// The largest manifest: 256 KiB.
pub(crate) const MANIFEST_BYTES_MAX: usize = 256 * 1_024;

/// The longest name of a plugin or an index, in bytes.
const NAME_BYTES_MAX: usize = 253;

/// Matches every apiVersion or kind.
const ANY: &str = "*";

#[derive(Clone, Debug, Default, Deserialize)]
#[serde(deny_unknown_fields, rename_all = "camelCase")]
pub struct Manifest {
    /// The plugin's name, chosen by its author.
    pub name: String,
    pub version: String,
    /// The active roles, of those that the component exports. Absent: all.
    #[serde(default)]
    pub roles: Option<Vec<Role>>,
    /// The objects whose events it receives, and their payload. Absent: all objects, whole.
    #[serde(default = "everything", deserialize_with = "all_members")]
    pub events: Vec<EventRule>,
    /// The objects that it reconciles, and what leads to them.
    #[serde(default, deserialize_with = "reconciler")]
    pub reconciler: Option<ReconcilerRules>,
    /// When it is called although nothing has changed.
    #[serde(default, deserialize_with = "timers::timers")]
    pub timers: Vec<TimerSpec>,
    /// The indexes it computes.
    #[serde(default, deserialize_with = "indexes")]
    pub indexes: Option<Indexes>,
    /// The access that config.toml must grant.
    #[serde(default)]
    pub needs: Vec<Requirement>,
    /// When an event counts as handled whose call deferred writes.
    #[serde(default)]
    pub writes: WritesEnd,
    /// The metrics that it has of its own.
    #[serde(default, deserialize_with = "all_members")]
    pub metrics: Vec<MetricDeclaration>,
    /// Whether several instances may handle its events, each those of some keys.
    #[serde(default)]
    pub parallel: bool,
}

/// When deferred writes have ended.
#[derive(Clone, Copy, Debug, Default, Deserialize, PartialEq, Eq)]
#[serde(rename_all = "kebab-case")]
pub enum WritesEnd {
    /// When the API server has accepted them.
    #[default]
    Done,
    /// When the cache has seen them.
    Seen,
}

/// How events of objects of one type are delivered.
#[derive(Clone, Debug, Deserialize)]
#[serde(deny_unknown_fields, rename_all = "camelCase")]
pub struct EventRule {
    /// `v1`, `apps/v1`, or `*`.
    pub api_version: String,
    /// `Pod`, or `*`.
    pub kind: String,
    /// How much of an object is passed.
    #[serde(default = "whole", deserialize_with = "payload")]
    pub payload: Payload,
    /// Whether an update also passes the previous state.
    #[serde(default)]
    pub old: bool,
    /// Whether updates are skipped if the payload did not change.
    #[serde(default)]
    pub changed_only: bool,
    /// The namespaces of the objects. Empty: all. Cluster-scoped objects are in the namespace "".
    #[serde(default)]
    pub namespaces: Vec<String>,
    /// The labels of the objects. None: all.
    #[serde(default, deserialize_with = "label_selector")]
    pub label_selector: Option<LabelSelector>,
    /// Of objects that are reconciled: what has to change for a call. None: anything.
    #[serde(skip)]
    pub when: Option<When>,
}

/// The indexes a plugin computes.
#[derive(Clone, Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Indexes {
    pub names: Vec<String>,
    /// The objects they are computed for, and their payload.
    #[serde(deserialize_with = "all_members")]
    pub objects: Vec<IndexRule>,
}

/// How objects of one type are indexed.
#[derive(Clone, Debug, Deserialize)]
#[serde(deny_unknown_fields, rename_all = "camelCase")]
pub struct IndexRule {
    /// `v1`, `apps/v1`, or `*`.
    pub api_version: String,
    /// `Pod`, or `*`.
    pub kind: String,
    /// How much of an object is passed.
    #[serde(default = "whole", deserialize_with = "payload")]
    pub payload: Payload,
}

/// One entry of a manifest's `needs`: an object with one member that names its kind, so that kinds can be added.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Requirement {
    /// Access to the cluster. Where it does not name namespaces or names, the operator chooses them.
    Kube(#[serde(deserialize_with = "members")] KubeGrant),
    /// Kubernetes Events.
    Events(#[serde(deserialize_with = "members")] EventsNeed),
}

/// What a plugin needs of Kubernetes Events: to record them.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct EventsNeed {}

/// A rule for objects of one type, which may be `*`.
trait Rule {
    /// Its apiVersion and kind.
    fn types(&self) -> (&str, &str);
}

impl Manifest {
    /// Parses and validates the document that a component with `roles` returned.
    ///
    /// # Errors
    /// [`ManifestError`], whose text says what to change.
    pub fn parse(json: &[u8], roles: Roles) -> Result<Manifest, ManifestError> {
        if json.len() > MANIFEST_BYTES_MAX {
            return Err(ManifestError::TooLong {
                bytes: json.len(),
                max: MANIFEST_BYTES_MAX,
            });
        }
        let mut manifest: Manifest = read(json).map_err(ManifestError::Json)?;
        let valid = manifest.validate(roles).and_then(|()| {
            let can_set = manifest.active_roles(roles).has_handler();
            manifest.validate_metrics(can_set)?;
            manifest.validate_timers(roles)?;
            manifest.validate_reconciler(roles)
        });
        valid.map_err(ManifestError::Inconsistent)?;
        Ok(manifest)
    }

    /// The active roles, if the component exports `exported`.
    #[must_use]
    pub fn active_roles(&self, exported: Roles) -> Roles {
        let Some(roles) = &self.roles else { return exported };
        exported.and(Roles::of(roles))
    }

    /// The event rule for objects of this type; none: no events. The most specific rule wins.
    #[must_use]
    pub fn event_rule(&self, api_version: &str, kind: &str) -> Option<&EventRule> {
        closest(&self.events, api_version, kind)
    }

    /// The index rule for objects of this type; none: not indexed.
    #[must_use]
    pub fn index_rule(&self, api_version: &str, kind: &str) -> Option<&IndexRule> {
        closest(&self.indexes.as_ref()?.objects, api_version, kind)
    }

    #[must_use]
    pub fn index_names(&self) -> &[String] {
        self.indexes.as_ref().map_or(&[], |indexes| &indexes.names)
    }

    /// Whether an event ends only when the cache has seen its writes.
    pub(crate) fn awaits_writes(&self) -> bool {
        self.writes == WritesEnd::Seen || self.reconciler.is_some()
    }

    /// The shortest time between two calls for one object, where the section sets none.
    pub(crate) fn min_interval(&self) -> Option<Duration> {
        self.reconciler.as_ref()?.min_interval
    }

    /// The cluster access it requires.
    #[must_use]
    pub fn kube_requirements(&self) -> Vec<KubeGrant> {
        let kube = |need: &Requirement| match need {
            Requirement::Kube(grant) => Some(grant.clone()),
            Requirement::Events(_) => None,
        };
        self.needs.iter().filter_map(kube).collect()
    }

    /// Whether it requires that it may record Kubernetes Events.
    #[must_use]
    pub fn needs_events(&self) -> bool {
        self.needs.iter().any(|need| matches!(need, Requirement::Events(_)))
    }

    /// Rejects a version whose requirements its section of config.toml does not grant.
    /// Errors: [`LoadProblem::Needs`] with the line that grants them, and what its roles do not permit.
    pub(crate) fn check_section(&self, spec: &PluginSpec) -> Result<(), LoadProblem> {
        if spec.limits.instances > 1 && !self.parallel {
            return Err(LoadProblem::NotParallel {
                plugin: spec.name.clone(),
                instances: spec.limits.instances,
            });
        }
        if let Some((key, value)) = self.reconciler.as_ref().and_then(|_| unfit_for_reconciler(spec)) {
            return Err(LoadProblem::UnfitForReconciler {
                plugin: spec.name.clone(),
                key,
                value,
            });
        }
        self.check_timers(spec)?;
        let missing = unmet(&self.kube_requirements(), &spec.allow_kube, &spec.allow_informers);
        let line = match missing.is_empty() {
            true if spec.allow_events || !self.needs_events() => return Ok(()),
            true => ALLOW_EVENTS.to_owned(),
            false => allow_line(&spec.allow_kube, &spec.allow_informers, &missing),
        };
        Err(LoadProblem::Needs {
            plugin: spec.name.clone(),
            line,
        })
    }

    fn validate(&self, roles: Roles) -> Result<(), String> {
        validate_name("name", &self.name)?;
        validate_name("version", &self.version)?;
        check_types("events", &self.events)?;
        self.events.iter().try_for_each(EventRule::validate)?;
        self.needs.iter().try_for_each(Requirement::validate)?;
        self.validate_roles(roles)?;
        match (&self.indexes, self.active_roles(roles).has(Role::IndexFuncs)) {
            (Some(indexes), true) => indexes.validate(),
            (Some(_), false) => Err(
                "has `indexes`, but the component does not export index-funcs; export the role, or remove `indexes`"
                    .to_owned(),
            ),
            (None, true) => Err(
                "has no `indexes`, but the component exports index-funcs; add `indexes`, or remove the role".to_owned(),
            ),
            (None, false) => Ok(()),
        }
    }

    fn validate_roles(&self, exported: Roles) -> Result<(), String> {
        let Some(roles) = &self.roles else { return Ok(()) };
        if roles.is_empty() {
            return Err("has an empty `roles`; list at least one role, or remove it to activate all".to_owned());
        }
        for role in roles {
            if !exported.has(*role) {
                let name = role.name();
                return Err(format!(
                    "lists the role {name}, but the component does not export it; export the role, or remove it from `roles`"
                ));
            }
        }
        // Even if the component has roles that are left out: a plugin that is never called would look as if it worked.
        if !self.active_roles(exported).is_called() {
            return Err(
                "lists only state in `roles`, which is never called by itself; list event-handler, reconciler, \
                 timer-handler, sync-handler or index-funcs, too"
                    .to_owned(),
            );
        }
        Ok(())
    }
}

impl EventRule {
    /// The objects whose events are delivered.
    #[must_use]
    pub fn selection(&self) -> EventSelection {
        EventSelection {
            namespaces: self.namespaces.clone(),
            label_selector: self.label_selector.clone(),
        }
    }

    fn validate(&self) -> Result<(), String> {
        let has_no_payload = matches!(self.payload, Payload::None);
        let compares = [(self.changed_only, "changedOnly"), (self.old, "old")];
        match compares.into_iter().find(|(is_set, _)| *is_set && has_no_payload) {
            Some((_, member)) => Err(format!(
                "has `payload: none` and `{member}` in `events` for {} {}: without a payload there is nothing to \
                 compare; choose the fields that matter, or remove `{member}`",
                self.api_version, self.kind
            )),
            None => Ok(()),
        }
    }
}

impl Requirement {
    /// Checks the entry by itself.
    fn validate(&self) -> Result<(), String> {
        match self {
            Requirement::Kube(grant) => grant
                .validate()
                .map_err(|problem| format!("has an entry for {} in `needs`, in which {problem}", grant.resource)),
            Requirement::Events(_) => Ok(()),
        }
    }
}

impl Indexes {
    fn validate(&self) -> Result<(), String> {
        let mut seen = BTreeSet::new();
        for name in &self.names {
            validate_name("indexes.names", name)?;
            if !seen.insert(name) {
                return Err(format!("lists the index {name:?} twice in `indexes.names`"));
            }
        }
        if self.names.is_empty() {
            return Err("has an empty `indexes.names`; list at least one index".to_owned());
        }
        if self.objects.is_empty() {
            return Err("has an empty `indexes.objects`; add at least one apiVersion and kind".to_owned());
        }
        if let Some(rule) = self.objects.iter().find(|rule| matches!(rule.payload, Payload::None)) {
            return Err(format!(
                "has `payload: none` in `indexes.objects` for {} {}: choose the fields that its values are computed from",
                rule.api_version, rule.kind
            ));
        }
        check_types("indexes.objects", &self.objects)
    }
}

fn validate_name(field: &str, name: &str) -> Result<(), String> {
    match name {
        "" => Err(format!("has an empty `{field}`")),
        name if name.len() > NAME_BYTES_MAX => Err(format!("has a `{field}` of more than {NAME_BYTES_MAX} bytes")),
        name if name.chars().any(char::is_control) => Err(format!("has control characters in `{field}`: {name:?}")),
        _ => Ok(()),
    }
}

fn check_types<R: Rule>(field: &str, rules: &[R]) -> Result<(), String> {
    let mut seen = BTreeSet::new();
    for (api_version, kind) in rules.iter().map(Rule::types) {
        if api_version.is_empty() || kind.is_empty() {
            return Err(format!(
                "has an empty apiVersion or kind in `{field}`; use \"{ANY}\" for all"
            ));
        }
        if !seen.insert((api_version, kind)) {
            return Err(format!("has two entries in `{field}` for {api_version} {kind}"));
        }
    }
    Ok(())
}

/// The most specific matching rule: apiVersion and kind, apiVersion alone, kind alone, neither.
fn closest<'r, R: Rule>(rules: &'r [R], api_version: &str, kind: &str) -> Option<&'r R> {
    let fits = |(own_version, own_kind)| [ANY, api_version].contains(&own_version) && [ANY, kind].contains(&own_kind);
    let is_specific = |(own_version, own_kind)| (own_version != ANY, own_kind != ANY);
    let fitting = rules.iter().filter(|rule| fits(rule.types()));
    fitting.max_by_key(|rule| is_specific(rule.types()))
}

impl Rule for EventRule {
    fn types(&self) -> (&str, &str) {
        (&self.api_version, &self.kind)
    }
}

impl Rule for IndexRule {
    fn types(&self) -> (&str, &str) {
        (&self.api_version, &self.kind)
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
        namespaces: Vec::new(),
        label_selector: None,
        when: None,
    }]
}

/// The key of a section, with its value, that would let a reconciler conclude from what is not there yet.
fn unfit_for_reconciler(spec: &PluginSpec) -> Option<(&'static str, &'static str)> {
    if spec.wait_for == WaitFor::Own {
        return Some(("wait-for", "own"));
    }
    (spec.on_start == ReplayPolicy::Continue).then_some(("on-start", "continue"))
}

/// Whether these rules are those of a manifest without any.
fn is_everything(rules: &[EventRule]) -> bool {
    matches!(rules, [rule] if rule.types() == (ANY, ANY) && matches!(rule.payload, Payload::Whole))
}

fn whole() -> Payload {
    Payload::Whole
}

fn reconciler<'de, D: Deserializer<'de>>(deserializer: D) -> Result<Option<ReconcilerRules>, D::Error> {
    let rules = Option::<Members<ReconcilerRules>>::deserialize(deserializer)?;
    Ok(rules.map(|Members(rules)| rules))
}

fn indexes<'de, D: Deserializer<'de>>(deserializer: D) -> Result<Option<Indexes>, D::Error> {
    let indexes = Option::<Members<Indexes>>::deserialize(deserializer)?;
    Ok(indexes.map(|Members(indexes)| indexes))
}

fn label_selector<'de, D: Deserializer<'de>>(deserializer: D) -> Result<Option<LabelSelector>, D::Error> {
    let text = String::deserialize(deserializer)?;
    let selector = LabelSelector::parse(&text)
        .map_err(|problem| de::Error::custom(format_args!("`labelSelector` {text:?}: {problem}")))?;
    Ok(Some(selector))
}

/// Reads `"none"`, `"whole"`, `"metadata"` or `{"fields": ["/json/pointer", …]}`.
fn payload<'de, D: Deserializer<'de>>(deserializer: D) -> Result<Payload, D::Error> {
    #[derive(Deserialize)]
    #[serde(rename_all = "lowercase")]
    enum Written {
        None,
        Whole,
        Metadata,
        Fields(Vec<String>),
    }
    let fields = match Written::deserialize(deserializer)? {
        Written::None => return Ok(Payload::None),
        Written::Whole => return Ok(Payload::Whole),
        Written::Metadata => return Ok(Payload::Metadata),
        Written::Fields(fields) => fields,
    };
    if fields.is_empty() {
        return Err(de::Error::custom(
            "`fields` is empty; list at least one JSON pointer, or use \"metadata\"",
        ));
    }
    let pointers: Result<Vec<Pointer>, D::Error> = fields
        .iter()
        .map(|text| Pointer::parse(text).map_err(|problem| de::Error::custom(format_args!("`fields`: {problem}"))))
        .collect();
    Ok(Payload::fields(&pointers?))
}

#[cfg(test)]
mod tests;
