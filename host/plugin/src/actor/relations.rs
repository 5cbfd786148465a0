//! How changes of related objects lead to those that a plugin reconciles, by its manifest.
//!
//! Reads only what the cache keeps of every object: key, uid, labels, and metadata.

use std::borrow::Cow;
use std::collections::HashMap;
use std::sync::{Arc, Mutex};

use informant_cache::listener::{ChangeKind, RelatedTo, Relation, Relations};
use informant_cache::{Catalog, NAMESPACE_INDEX, Snapshot, Source};
use informant_object::{KeyRef, Object, Payload, Pointer, SourceId};
use serde::Deserialize;

use crate::component::manifest::{By, Manifest, ReconcilerRules, RelatedRule, When};
use crate::sync::lock;

/// Sources remembered of one relation, with whether they have what is reconciled. Above it they are forgotten.
const SOURCES_MAX: usize = 16_384;

/// The relations of a manifest; none if its plugin reconciles nothing.
pub(crate) fn of_manifest(manifest: &Arc<Manifest>, catalog: &Catalog) -> Option<Arc<dyn Relations>> {
    manifest.reconciler.as_ref()?;
    Some(Arc::new(ManifestRelations {
        manifest: Arc::clone(manifest),
        catalog: catalog.clone(),
        before: Mutex::default(),
    }))
}

#[derive(Debug)]
struct ManifestRelations {
    manifest: Arc<Manifest>,
    catalog: Catalog,
    /// The generations of all sources before the first call. None: no source is attached that is delivered.
    before: Mutex<Option<HashMap<SourceId, u64>>>,
}

/// What the objects of one source lead to.
#[derive(Debug)]
struct SourceRelation {
    by: By,
    /// What the cache has to have of an object to find its annotation.
    annotation: Option<Payload>,
    when: Option<When>,
    /// Their own type is `v1 Namespace`.
    are_namespaces: bool,
    cluster: String,
    primary: PrimaryType,
    catalog: Catalog,
    /// Whether a source has objects that they lead to.
    leads_to: Mutex<HashMap<SourceId, bool>>,
}

/// The type of the objects that are reconciled.
#[derive(Debug)]
struct PrimaryType {
    api_version: String,
    kind: String,
}

impl Relations for ManifestRelations {
    fn of(&self, source: SourceId) -> Option<Arc<dyn Relation>> {
        let rules = self.manifest.reconciler.as_ref()?;
        let info = self.catalog.info(source)?;
        let is_its = |(rule, _): &(&RelatedRule, &By)| rule.api_version == info.api_version && rule.kind == info.kind;
        let Some((rule, by)) = rules.related().find(is_its) else {
            self.remember();
            return None;
        };
        Some(Arc::new(SourceRelation {
            by: by.clone(),
            annotation: annotation(by),
            when: rule.when.clone(),
            are_namespaces: is_namespace(&info.api_version, &info.kind),
            cluster: info.cluster,
            primary: PrimaryType::of(rules),
            catalog: self.catalog.clone(),
            leads_to: Mutex::default(),
        }))
    }

    fn is_as_before(&self, source: SourceId, snapshot: &Snapshot) -> bool {
        let before = lock(&self.before);
        let generation = before.as_ref().and_then(|before| before.get(&source));
        generation == Some(&snapshot.generation())
    }
}

impl ManifestRelations {
    /// A source is attached that is delivered: calls may begin.
    fn remember(&self) {
        let of = |source: &Arc<Source>| (source.id(), source.snapshot().generation());
        lock(&self.before).get_or_insert_with(|| self.catalog.all().iter().map(of).collect());
    }
}

impl Relation for SourceRelation {
    fn leads_to(&self, source: SourceId) -> bool {
        let mut known = lock(&self.leads_to);
        if known.len() >= SOURCES_MAX {
            known.clear();
        }
        *known.entry(source).or_insert_with(|| {
            let info = self.catalog.info(source);
            info.is_some_and(|info| {
                info.cluster == self.cluster
                    && info.api_version == self.primary.api_version
                    && info.kind == self.primary.kind
            })
        })
    }

    fn map(&self, change: &ChangeKind, found: &mut dyn FnMut(RelatedTo<'_>)) {
        match change {
            ChangeKind::Add(object) => self.map_object(object, found),
            ChangeKind::Update { old, new } => {
                if self.when.as_ref().is_none_or(|when| when.differs(old, new)) {
                    self.map_object(old, found);
                    self.map_object(new, found);
                }
            }
            ChangeKind::Delete { last: Some(last), .. } => self.map_object(last, found),
            // Another process reads it.
            ChangeKind::Forget { .. } => {}
            // What it led to is unknown.
            ChangeKind::Delete { last: None, key, .. } => match &self.by {
                By::Namespace => self.map_namespace(key.as_ref(), found),
                By::Index(name) => map_index(name, key.as_ref(), found),
                By::Owner | By::AnyOwner | By::Label(_) | By::Annotation(_) => found(RelatedTo::All),
            },
        }
    }
}

impl SourceRelation {
    fn map_object(&self, object: &Object, found: &mut dyn FnMut(RelatedTo<'_>)) {
        match &self.by {
            By::Owner | By::AnyOwner => self.map_owners(object, found),
            By::Namespace => self.map_namespace(object.key(), found),
            By::Label(name) => {
                if let Some(value) = object.label(name) {
                    map_name(&value, object.namespace(), found);
                }
            }
            // A head lacks some.
            By::Annotation(_) if !self.annotation.as_ref().is_some_and(|part| object.holds(part)) => {
                found(RelatedTo::All)
            }
            By::Annotation(name) => {
                if let Some(value) = Metadata::of(object).annotations.get(&**name) {
                    map_name(value, object.namespace(), found);
                }
            }
            By::Index(name) => map_index(name, object.key(), found),
        }
    }

    fn map_owners(&self, object: &Object, found: &mut dyn FnMut(RelatedTo<'_>)) {
        if !object.metadata().contains("\"ownerReferences\"") {
            return;
        }
        for owner in Metadata::of(object).owner_references {
            let is_meant = self.primary.is_of(&owner.api_version, &owner.kind);
            if !is_meant || (self.by == By::Owner && !owner.controller.unwrap_or(false)) {
                continue;
            }
            // An owner is in the namespace of what it owns, or has none.
            map_key(object.namespace(), &owner.name, found);
        }
    }

    /// `key`: of the related object.
    fn map_namespace(&self, key: KeyRef<'_>, found: &mut dyn FnMut(RelatedTo<'_>)) {
        let namespace = if self.are_namespaces { key.name } else { key.namespace };
        if namespace.is_empty() {
            return;
        }
        match is_namespace(&self.primary.api_version, &self.primary.kind) {
            true => found(RelatedTo::Object(KeyRef::new("", namespace))),
            false => found(RelatedTo::Index {
                name: NAMESPACE_INDEX,
                value: namespace,
            }),
        }
    }
}

/// `value` is `name` or `namespace/name`; the object that has it is in `namespace`.
fn map_name(value: &str, namespace: &str, found: &mut dyn FnMut(RelatedTo<'_>)) {
    let (namespace, name) = value.split_once('/').unwrap_or((namespace, value));
    map_key(namespace, name, found);
}

/// The object `name` in `namespace`, or without one: only one of both exists.
fn map_key(namespace: &str, name: &str, found: &mut dyn FnMut(RelatedTo<'_>)) {
    let mut map = |namespace| found(RelatedTo::Object(KeyRef::new(namespace, name)));
    map(namespace);
    if !namespace.is_empty() {
        map("");
    }
}

fn map_index(name: &str, key: KeyRef<'_>, found: &mut dyn FnMut(RelatedTo<'_>)) {
    let value = match key.namespace {
        "" => Cow::Borrowed(key.name),
        namespace => Cow::Owned(format!("{namespace}/{}", key.name)),
    };
    found(RelatedTo::Index { name, value: &value });
}

/// The part of an object that has the annotation of `by`.
fn annotation(by: &By) -> Option<Payload> {
    let By::Annotation(name) = by else { return None };
    let escaped = name.replace('~', "~0").replace('/', "~1");
    let pointer = Pointer::parse(&format!("/metadata/annotations/{escaped}")).ok()?;
    Some(Payload::fields(&[pointer]))
}

fn is_namespace(api_version: &str, kind: &str) -> bool {
    (api_version, kind) == ("v1", "Namespace")
}

impl PrimaryType {
    fn of(rules: &ReconcilerRules) -> PrimaryType {
        PrimaryType {
            api_version: rules.primary.api_version.clone(),
            kind: rules.primary.kind.clone(),
        }
    }

    /// Whether an owner of this type is one of them: its version may be another one of the group.
    fn is_of(&self, api_version: &str, kind: &str) -> bool {
        fn group(api_version: &str) -> &str {
            api_version.split_once('/').map_or("", |(group, _)| group)
        }
        self.kind == kind && group(&self.api_version) == group(api_version)
    }
}

/// What is read of an object's metadata.
#[derive(Default, Deserialize)]
#[serde(default, rename_all = "camelCase")]
struct Metadata<'a> {
    #[serde(borrow, deserialize_with = "or_empty")]
    owner_references: Vec<Owner<'a>>,
    #[serde(borrow, deserialize_with = "or_empty")]
    annotations: HashMap<Cow<'a, str>, Cow<'a, str>>,
}

#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
struct Owner<'a> {
    #[serde(borrow)]
    api_version: Cow<'a, str>,
    #[serde(borrow)]
    kind: Cow<'a, str>,
    #[serde(borrow)]
    name: Cow<'a, str>,
    #[serde(default)]
    controller: Option<bool>,
}

impl Metadata<'_> {
    /// No API server stores other types of these fields; from one that does, nothing follows.
    fn of(object: &Object) -> Metadata<'_> {
        serde_json::from_str(object.metadata()).unwrap_or_default()
    }
}

/// `null` is the same as nothing.
fn or_empty<'de, T: Default + Deserialize<'de>, D: serde::Deserializer<'de>>(deserializer: D) -> Result<T, D::Error> {
    Option::deserialize(deserializer).map(Option::unwrap_or_default)
}

#[cfg(test)]
mod tests {
    use informant_cache::SourceInfo;
    use informant_object::{Key, Shape};
    use serde_json::json;

    use super::*;
    use crate::component::roles::{Role, Roles};

    const RULES: &str = r#"{"name": "n", "version": "1",
        "indexes": {"names": ["configs"], "objects": [{"apiVersion": "*", "kind": "*"}]},
        "reconciler": {"for": {"apiVersion": "example.com/v1", "kind": "Website"},
        "owns": [{"apiVersion": "apps/v1", "kind": "Deployment", "when": ["/spec"]}],
        "watches": [{"apiVersion": "v1", "kind": "ConfigMap", "by": {"index": "configs"}},
            {"apiVersion": "v1", "kind": "Secret", "by": {"annotation": "site"}},
            {"apiVersion": "v1", "kind": "Pod", "by": "anyOwner"},
            {"apiVersion": "v1", "kind": "Namespace", "by": "namespace"}]}}"#;

    /// A source of this kind in a cluster.
    fn source(catalog: &Catalog, cluster: &str, api_version: &str, kind: &str) -> SourceId {
        let info = SourceInfo {
            informer: kind.to_owned(),
            cluster: cluster.to_owned(),
            api_version: api_version.to_owned(),
            kind: kind.to_owned(),
            resource: kind.to_owned(),
            namespace: None,
            namespaced: true,
            partial: false,
        };
        catalog.add_source(info)
    }

    fn relations(catalog: &Catalog) -> Arc<dyn Relations> {
        let roles = Roles::of(&[Role::Reconciler, Role::IndexFuncs]);
        let manifest = Arc::new(Manifest::parse(RULES.as_bytes(), roles).unwrap());
        of_manifest(&manifest, catalog).unwrap()
    }

    fn object(metadata: serde_json::Value, spec: u8) -> Object {
        let json = json!({ "metadata": metadata, "spec": spec }).to_string();
        Object::parse(json.as_bytes(), &Shape::of("v1", "Pod")).unwrap()
    }

    /// What a change leads to, as texts.
    fn led_to(kind: (&str, &str), change: &ChangeKind) -> Vec<String> {
        let catalog = Catalog::new();
        let relations = relations(&catalog);
        let relation = relations.of(source(&catalog, "", kind.0, kind.1)).unwrap();
        let mut found = Vec::new();
        relation.map(change, &mut |to| {
            found.push(match to {
                RelatedTo::Object(key) => key.to_key().to_string(),
                RelatedTo::Index { name, value } => format!("{name}={value}"),
                RelatedTo::All => "all".to_owned(),
            });
        });
        found
    }

    fn owned(owners: serde_json::Value) -> Object {
        object(json!({ "name": "x", "namespace": "web", "ownerReferences": owners }), 1)
    }

    fn owner(api_version: &str, kind: &str, is_controller: bool) -> serde_json::Value {
        json!({ "apiVersion": api_version, "kind": kind, "name": "a", "uid": "u", "controller": is_controller })
    }

    #[test]
    fn an_object_leads_to_its_controller_of_any_version() {
        let deployment = ("apps/v1", "Deployment");
        let of = |owners| led_to(deployment, &ChangeKind::Add(owned(owners)));
        let expected = ["web/a", "a"];
        assert_eq!(of(json!([owner("example.com/v1beta1", "Website", true)])), expected);
        let others = json!([
            owner("other.com/v1", "Website", true),
            owner("example.com/v1", "Other", true)
        ]);
        assert_eq!(of(others), Vec::<String>::new());
        assert_eq!(
            of(json!([owner("example.com/v1", "Website", false)])),
            Vec::<String>::new()
        );
        let any = ChangeKind::Add(owned(json!([owner("example.com/v1", "Website", false)])));
        assert_eq!(led_to(("v1", "Pod"), &any), expected);
        assert_eq!(of(json!(null)), Vec::<String>::new());
    }

    #[test]
    fn names_namespaces_and_indexes_lead_to_objects() {
        let annotated = |value| {
            object(
                json!({ "name": "x", "namespace": "web", "annotations": { "site": value } }),
                1,
            )
        };
        let secret = ("v1", "Secret");
        assert_eq!(led_to(secret, &ChangeKind::Add(annotated("a"))), ["web/a", "a"]);
        assert_eq!(led_to(secret, &ChangeKind::Add(annotated("other/a"))), ["other/a", "a"]);
        let plain = object(json!({ "name": "x", "namespace": "web" }), 1);
        assert_eq!(led_to(secret, &ChangeKind::Add(plain.clone())), Vec::<String>::new());
        assert_eq!(led_to(("v1", "ConfigMap"), &ChangeKind::Add(plain)), ["configs=web/x"]);
        let namespace = ChangeKind::Add(object(json!({ "name": "web" }), 1));
        assert_eq!(
            led_to(("v1", "Namespace"), &namespace),
            [format!("{NAMESPACE_INDEX}=web")]
        );
    }

    #[test]
    fn only_named_parts_lead_anywhere_and_both_states_count() {
        let state = |name: &str, spec| {
            let owner = json!({ "apiVersion": "example.com/v1", "kind": "Website", "name": name, "uid": "u", "controller": true });
            object(
                json!({ "name": "x", "namespace": "", "uid": "x", "ownerReferences": [owner] }),
                spec,
            )
        };
        let update = |old, new| ChangeKind::Update { old, new };
        let deployment = ("apps/v1", "Deployment");
        assert_eq!(
            led_to(deployment, &update(state("a", 1), state("b", 1))),
            Vec::<String>::new()
        );
        let both = led_to(deployment, &update(state("a", 1), state("b", 2)));
        assert_eq!(both, ["a", "b"]);
    }

    #[test]
    fn a_delete_without_last_state_leads_to_all() {
        let gone = ChangeKind::Delete {
            last: None,
            key: Key::new("web", "x"),
            final_state_unknown: true,
        };
        assert_eq!(led_to(("apps/v1", "Deployment"), &gone), ["all"]);
        assert_eq!(led_to(("v1", "ConfigMap"), &gone), ["configs=web/x"]);
    }

    #[test]
    fn sources_of_other_clusters_and_kinds_are_not_related() {
        let catalog = Catalog::new();
        let relations = relations(&catalog);
        let websites = ["", "east"].map(|cluster| source(&catalog, cluster, "example.com/v1", "Website"));
        let pods = source(&catalog, "east", "v1", "Pod");
        let relation = relations.of(pods).unwrap();
        assert!(!relation.leads_to(websites[0]) && relation.leads_to(websites[1]) && !relation.leads_to(pods));
        assert!(relations.of(websites[0]).is_none());
        assert!(relations.of(source(&catalog, "", "v1", "Node")).is_none());
    }
}
