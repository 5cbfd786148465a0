//! The objects that a reconciler brings to their wanted state, and the kinds whose changes lead to them.

use std::collections::BTreeSet;
use std::time::Duration;

use informant_object::{LabelSelector, Object, Payload, Pointer};
use informant_spec::{CALL_INTERVAL_MAX, CALL_INTERVAL_MIN, DURATION_FORM, parse_duration, show_duration};
use serde::de::{self, Deserializer};
use serde::{Deserialize, Serialize};

use super::{ANY, EventRule, Manifest, label_selector, payload, whole};
use crate::component::roles::{Role, Roles};
use crate::json_error::{all_members, members};

/// The member `reconciler` of a manifest.
#[derive(Clone, Debug, Deserialize)]
#[serde(deny_unknown_fields, rename_all = "camelCase")]
pub struct ReconcilerRules {
    /// The objects that are reconciled.
    #[serde(rename = "for", deserialize_with = "members")]
    pub primary: PrimaryRule,
    /// Kinds that the plugin makes for them: an object leads to its owner.
    #[serde(default, deserialize_with = "all_members")]
    pub owns: Vec<RelatedRule>,
    /// Other kinds whose objects lead to them.
    #[serde(default, deserialize_with = "all_members")]
    pub watches: Vec<RelatedRule>,
    /// The shortest time from the end of one call for an object to the start of the next, unless the section sets
    /// another.
    #[serde(default, deserialize_with = "min_interval")]
    pub min_interval: Option<Duration>,
}

/// The objects that are reconciled.
#[derive(Clone, Debug, Deserialize)]
#[serde(deny_unknown_fields, rename_all = "camelCase")]
pub struct PrimaryRule {
    pub api_version: String,
    pub kind: String,
    /// How much of an object is passed.
    #[serde(default = "whole", deserialize_with = "payload")]
    pub payload: Payload,
    /// What has to change in an object for a call. None: anything.
    #[serde(default)]
    pub when: Option<When>,
    /// The namespaces of the objects. Empty: all.
    #[serde(default)]
    pub namespaces: Vec<String>,
    /// The labels of the objects. None: all.
    #[serde(default, deserialize_with = "label_selector")]
    pub label_selector: Option<LabelSelector>,
}

/// A kind whose objects lead to those that are reconciled, in the same cluster.
#[derive(Clone, Debug, Deserialize)]
#[serde(deny_unknown_fields, rename_all = "camelCase")]
pub struct RelatedRule {
    pub api_version: String,
    pub kind: String,
    /// What has to change in an object. None: anything.
    #[serde(default)]
    pub when: Option<When>,
    /// How it leads there. In `owns`, absent: by its controller.
    #[serde(default)]
    pub by: Option<By>,
}

/// How an object leads to those that are reconciled.
#[derive(Clone, Debug, Serialize, Deserialize, PartialEq, Eq)]
#[serde(rename_all = "camelCase")]
pub enum By {
    /// To the owner that is its controller.
    Owner,
    /// To each owner.
    AnyOwner,
    /// To all in its namespace; if namespaces are reconciled, to its namespace. That of a namespace is itself.
    Namespace,
    /// To the one that the value of this label names: `name`, in its own namespace.
    Label(String),
    /// To the one that the value of this annotation names: `name`, in its own namespace, or `namespace/name`.
    Annotation(String),
    /// To those that this index of the plugin has under its key: `namespace/name`, or `name` without a namespace.
    Index(String),
}

/// The parts of an object whose changes count. That it is being deleted, and its finalizers, always do.
#[derive(Clone, Debug)]
pub struct When {
    written: Vec<String>,
    compared: Payload,
    /// `generation` is one of them.
    has_generation: bool,
}

impl When {
    /// Whether one of these parts differs.
    #[must_use]
    pub fn differs(&self, old: &Object, new: &Object) -> bool {
        if old.ptr_eq(new) {
            return false;
        }
        // A head may lack fields.
        if !old.holds(&self.compared) || !new.holds(&self.compared) {
            return !old.has_same_content(new);
        }
        let (mut before, mut after) = (Vec::new(), Vec::new());
        self.compared.write(old, &mut before);
        self.compared.write(new, &mut after);
        let is_same = before == after && old.uid() == new.uid();
        match is_same && self.has_generation && !has_generation(new) {
            // Of kinds without a generation, any change counts.
            true => !old.has_same_content(new),
            false => !is_same,
        }
    }

    /// The parts, as the manifest names them.
    #[must_use]
    pub fn parts(&self) -> &[String] {
        &self.written
    }
}

fn min_interval<'de, D: Deserializer<'de>>(deserializer: D) -> Result<Option<Duration>, D::Error> {
    let text = String::deserialize(deserializer)?;
    let range = CALL_INTERVAL_MIN..=CALL_INTERVAL_MAX;
    match parse_duration(&text) {
        Some(interval) if range.contains(&interval) => Ok(Some(interval)),
        Some(_) => Err(de::Error::custom(format_args!(
            "`minInterval` is {text:?}, but must be from {} to {}",
            show_duration(CALL_INTERVAL_MIN),
            show_duration(CALL_INTERVAL_MAX)
        ))),
        None => Err(de::Error::custom(format_args!(
            "`minInterval` is {text:?}: write {DURATION_FORM}"
        ))),
    }
}

fn has_generation(object: &Object) -> bool {
    #[derive(Default, Deserialize)]
    struct Metadata {
        generation: Option<de::IgnoredAny>,
    }
    let metadata: Metadata = serde_json::from_str(object.metadata()).unwrap_or_default();
    metadata.generation.is_some()
}

impl<'de> Deserialize<'de> for When {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<When, D::Error> {
        let written = Vec::<String>::deserialize(deserializer)?;
        if written.is_empty() {
            return Err(de::Error::custom(
                "`when` is empty; list \"generation\", \"labels\" or JSON pointers, or leave it out for any change",
            ));
        }
        // A plugin that adds its finalizer before it does anything is called again for that.
        let mut pointers = vec![
            pointer::<D>("/metadata/deletionTimestamp")?,
            pointer::<D>("/metadata/finalizers")?,
        ];
        for part in &written {
            pointers.push(pointer::<D>(match &**part {
                "generation" => "/metadata/generation",
                "labels" => "/metadata/labels",
                other => other,
            })?);
        }
        Ok(When {
            compared: Payload::fields(&pointers),
            has_generation: written.iter().any(|part| part == "generation"),
            written,
        })
    }
}

fn pointer<'de, D: Deserializer<'de>>(text: &str) -> Result<Pointer, D::Error> {
    Pointer::parse(text).map_err(|problem| match text.starts_with('/') {
        true => de::Error::custom(format_args!("`when`: {problem}")),
        false => de::Error::custom(format_args!(
            "`when`: {text:?} is neither \"generation\" nor \"labels\" nor a JSON pointer such as \"/spec\""
        )),
    })
}

impl ReconcilerRules {
    /// The kinds that lead to those that are reconciled, each with how it does.
    pub fn related(&self) -> impl Iterator<Item = (&RelatedRule, &By)> {
        let owned = self
            .owns
            .iter()
            .map(|rule| (rule, rule.by.as_ref().unwrap_or(&By::Owner)));
        let watched = self.watches.iter().filter_map(|rule| Some((rule, rule.by.as_ref()?)));
        owned.chain(watched)
    }

    /// The rule by which the objects themselves are delivered.
    pub(super) fn event_rule(&self) -> EventRule {
        let PrimaryRule {
            api_version,
            kind,
            payload,
            when,
            namespaces,
            label_selector,
        } = self.primary.clone();
        EventRule {
            api_version,
            kind,
            payload,
            old: false,
            changed_only: false,
            namespaces,
            label_selector,
            when,
        }
    }

    fn validate(&self, indexes: &[String]) -> Result<(), String> {
        let primary = (&*self.primary.api_version, &*self.primary.kind);
        check_type("for", primary)?;
        if matches!(self.primary.payload, Payload::None) {
            return Err(
                "has `payload: none` in `reconciler.for`: without a payload, an object that exists looks like one that is \
                 gone; choose \"metadata\" or fields"
                    .to_owned(),
            );
        }
        let mut seen = BTreeSet::from([primary]);
        for (member, rule) in self.named() {
            let (api_version, kind) = (&*rule.api_version, &*rule.kind);
            check_type(member, (api_version, kind))?;
            if (api_version, kind) == primary {
                return Err(format!(
                    "has {api_version} {kind} in `reconciler.for` and in `reconciler.{member}`: an object leads to \
                     itself already; remove it from `{member}`"
                ));
            }
            if !seen.insert((api_version, kind)) {
                return Err(format!("has two entries in `reconciler` for {api_version} {kind}"));
            }
            rule.validate(member, indexes)?;
        }
        Ok(())
    }

    /// The related kinds, each with the member that has it.
    fn named(&self) -> impl Iterator<Item = (&'static str, &RelatedRule)> {
        let owned = self.owns.iter().map(|rule| ("owns", rule));
        owned.chain(self.watches.iter().map(|rule| ("watches", rule)))
    }
}

impl RelatedRule {
    fn validate(&self, member: &str, indexes: &[String]) -> Result<(), String> {
        let of = format!("`reconciler.{member}` for {} {}", self.api_version, self.kind);
        match &self.by {
            None if member == "watches" => Err(format!(
                "has no `by` in {of}: write how it leads to what is reconciled: \"owner\", \"anyOwner\", \"namespace\", \
                 or an object with `label`, `annotation` or `index`"
            )),
            Some(by) if member == "owns" && !matches!(by, By::Owner | By::AnyOwner) => Err(format!(
                "has a `by` in {of} that is no owner: write \"owner\" or \"anyOwner\", or move it to `watches`"
            )),
            Some(By::Label(name) | By::Annotation(name)) if name.is_empty() => {
                Err(format!("has an empty name in `by` in {of}"))
            }
            Some(By::Index(name)) if !indexes.contains(name) => Err(format!(
                "has the index {name:?} in `by` in {of}, which is not in `indexes.names`: only an index of the plugin \
                 itself is complete before its first call"
            )),
            _ => Ok(()),
        }
    }
}

fn check_type(member: &str, (api_version, kind): (&str, &str)) -> Result<(), String> {
    if [api_version, kind].iter().any(|word| word.is_empty() || *word == ANY) {
        return Err(format!(
            "has no single type in `reconciler.{member}`: write one apiVersion and one kind, such as \"apps/v1\" and \
             \"Deployment\""
        ));
    }
    Ok(())
}

impl Manifest {
    /// Whether changes of objects of this kind lead to the same objects as with `other`.
    pub(crate) fn relates_like(&self, other: &Manifest, api_version: &str, kind: &str) -> bool {
        let relation = |manifest: &Manifest| {
            let rules = manifest.reconciler.as_ref()?;
            let primary = (rules.primary.api_version.clone(), rules.primary.kind.clone());
            let (mut kinds, is_it) = (rules.related(), |rule: &RelatedRule| {
                rule.api_version == api_version && rule.kind == kind
            });
            let parts = |rule: &RelatedRule| rule.when.as_ref().map(|when| when.parts().to_vec());
            let led = kinds.find(|(rule, _)| is_it(rule));
            Some((primary, led.map(|(rule, by)| (by.clone(), parts(rule)))))
        };
        relation(self) == relation(other)
    }

    /// Checks the role `reconciler` and its member, and sets the rule for the objects that are reconciled.
    pub(super) fn validate_reconciler(&mut self, exported: Roles) -> Result<(), String> {
        let active = self.active_roles(exported);
        if active.has(Role::Reconciler) && active.has(Role::EventHandler) {
            return Err(
                "has the roles reconciler and event-handler, of which a plugin may have one; list the one to call in \
                 `roles`, or export only that"
                    .to_owned(),
            );
        }
        match (&self.reconciler, active.has(Role::Reconciler)) {
            (Some(_), false) => Err(
                "has `reconciler`, but the component does not export reconciler; export the role, or remove \
                 `reconciler`"
                    .to_owned(),
            ),
            (None, true) => Err(
                "has no `reconciler`, but the component exports reconciler; name the objects in `reconciler.for`, or \
                 remove the role"
                    .to_owned(),
            ),
            (None, false) => Ok(()),
            (Some(_), true) if !super::is_everything(&self.events) => Err(
                "has `events` and `reconciler`; a reconciler receives no events: name the objects in \
                 `reconciler.for`, and what leads to them in `owns` and `watches`"
                    .to_owned(),
            ),
            (Some(rules), true) => {
                rules.validate(self.index_names())?;
                self.events = vec![rules.event_rule()];
                Ok(())
            }
        }
    }
}
