//! Children: the objects that belong to the one that is reconciled, all at once.
//!
//! ```text
//! wanted ─▶ kind in `owns`? ─▶ namespace of the owner? ─▶ whose is what the cache has? ─▶ apply, create or update
//! cache  ─▶ labels say whose ─▶ still wanted? ─▶ nothing missing in the view? ─▶ delete, with uid and version
//! ```
//!
//! - What exists and belongs to somebody else is refused: it stays as it is, and the guest learns it.
//! - Nothing is deleted by a view that may lack something: a source that is absent, not live, shed or
//!   [partial](informant_cache::SourceInfo::partial), or a cache that has not seen earlier writes for the owner. Then
//!   the call is made again later, as for what is refused, unless only another configuration can end that.

mod metadata;
mod prune;
mod whole;

use std::collections::BTreeSet;
use std::sync::Arc;

use informant_cache::Source;
use informant_object::{Key, KeyRef, Object, Shape, SourceId};
use serde_json::{Map, Value};

use self::metadata::{OWNER_UID_LABEL, PLUGIN_LABEL, belongs_to, is_terminating};
use self::prune::PruneSkipped;
use super::api::{KubeAction, KubeError, KubeErrorCode, KubePatchKind, KubeWrite};
use super::{Answer, KubeCaller};
use crate::bindings::informant::plugin::kube::{Address, ApiError, Child, Children, Owner};
use crate::component::manifest::Manifest;

/// Children of one object: 1,000. More are `too-large`.
const CHILDREN_MAX: usize = 1_000;

/// The object that owns them, as the cache has it.
struct OwnerObject {
    source: Arc<Source>,
    key: Key,
    uid: String,
}

/// An object that is wanted.
struct Wanted {
    kind: String,
    key: Key,
    document: Map<String, Value>,
    is_whole: bool,
    /// Where the cache has objects of this kind.
    source: Arc<Source>,
}

impl KubeCaller {
    /// Defers what makes `children` the objects that belong to `owner`: all of it, or nothing.
    pub(super) async fn set_children(&mut self, owner: Owner, children: Vec<Child>) -> Answer<Children> {
        let before = self.deferred.mark();
        let done = self.try_set_children(owner, children).await;
        match &done {
            Ok(done) => {
                self.has_children = true;
                self.lacks_children |= !done.refused.is_empty();
            }
            Err(_) => self.deferred.truncate(before),
        }
        done.map_err(ApiError::from)
    }

    async fn try_set_children(&mut self, owner: Owner, children: Vec<Child>) -> Result<Children, KubeError> {
        self.check()?;
        let manifest = Arc::clone(&self.manifest);
        if self.has_children {
            return Err(invalid(
                "the call has set its children already: set all of them at once",
            ));
        }
        if children.len() > CHILDREN_MAX {
            let message = format!(
                "an object may have {CHILDREN_MAX} children, and these are {}",
                children.len()
            );
            return Err(KubeError::new(KubeErrorCode::TooLarge, message));
        }
        let owner = self.owner(&manifest, owner)?;
        let mut done = Children {
            written: 0,
            pruned: 0,
            refused: Vec::new(),
            prune_skipped: None,
        };
        let mut wanted_keys = BTreeSet::new();
        for child in children {
            let wanted = self.wanted(&manifest, &owner, child)?;
            let label = wanted.label();
            if !wanted_keys.insert(wanted.identity()) {
                return Err(invalid(format!("{label} is twice among the children")));
            }
            let snapshot = wanted.source.snapshot();
            let present = snapshot.get(wanted.key.as_ref());
            match present {
                Some(object) if !belongs_to(object, &owner.uid) => done.refused.push(label),
                // It is made again when it is gone.
                Some(object) if is_terminating(object) => {}
                None if !prune::is_live(&wanted.source) => {
                    let message = format!("{label}: the source is not live, so that it may exist; try again later");
                    return Err(KubeError::new(KubeErrorCode::Unavailable, message));
                }
                None if wanted.source.info().partial => {
                    return Err(invalid(format!(
                        "{label}: its informer has a selector, so that nothing tells whether the object exists and whose \
                         it is; remove the selector"
                    )));
                }
                present => {
                    if let Some((address, action)) = self.write_of(&owner, wanted, present)? {
                        self.defer_child(address, action)?;
                        done.written += 1;
                    }
                }
            }
        }
        match self.prunable(&manifest, &owner, &wanted_keys).await {
            Ok(unwanted) => {
                for (source, object) in unwanted {
                    let (address, action) = prune::delete(&source, &object);
                    self.defer_child(address, action)?;
                    done.pruned += 1;
                }
            }
            Err(PruneSkipped { reason, is_passing }) => {
                self.plugin.series.count_prune_skipped();
                self.lacks_children |= is_passing;
                done.prune_skipped = Some(reason);
            }
        }
        Ok(done)
    }

    /// The object that the call is about.
    fn owner(&self, manifest: &Manifest, owner: Owner) -> Result<OwnerObject, KubeError> {
        if manifest.reconciler.is_none() || self.subject.source() != Some(SourceId(owner.source)) {
            let message = "only reconcile has children: those of the object that it is about";
            return Err(KubeError::new(KubeErrorCode::NotHere, message));
        }
        let key = Key::new(&owner.namespace, &owner.name);
        let gone = || {
            let message = format!("{key} is gone; the API server deletes what it owned");
            KubeError::new(KubeErrorCode::NotFound, message)
        };
        let source = self.plugin.catalog.source(SourceId(owner.source)).ok_or_else(gone)?;
        let snapshot = source.snapshot();
        let is_there = snapshot
            .get(key.as_ref())
            .is_some_and(|object| object.uid() == owner.uid);
        if owner.uid.is_empty() || !is_there {
            return Err(gone());
        }
        Ok(OwnerObject {
            source,
            key,
            uid: owner.uid,
        })
    }

    fn wanted(&self, manifest: &Manifest, owner: &OwnerObject, child: Child) -> Result<Wanted, KubeError> {
        let document = match serde_json::from_slice(&child.object) {
            Ok(Value::Object(document)) => document,
            Ok(_) => return Err(invalid("a child is no JSON object")),
            Err(problem) => return Err(invalid(format!("a child is no JSON: {problem}"))),
        };
        let member = |pointer: &[&str]| {
            let first = document.get(pointer[0]);
            let value = pointer[1..].iter().fold(first, |value, name| value?.get(name));
            value.and_then(Value::as_str).unwrap_or_default().to_owned()
        };
        let (api_version, kind) = (member(&["apiVersion"]), member(&["kind"]));
        let (name, namespace) = (member(&["metadata", "name"]), member(&["metadata", "namespace"]));
        if [&api_version, &kind, &name].into_iter().any(String::is_empty) {
            return Err(invalid("a child needs apiVersion, kind and metadata.name"));
        }
        let what = format!("{kind} {name}");
        let owned = manifest.reconciler.iter().flat_map(|rules| &rules.owns);
        if !owned
            .into_iter()
            .any(|rule| rule.api_version == api_version && rule.kind == kind)
        {
            return Err(invalid(format!(
                "{what}: {api_version} {kind} is not in `reconciler.owns` of the manifest: name it there"
            )));
        }
        let of_owner = owner.key.namespace();
        let cluster = &owner.source.info().cluster;
        let namespace = if namespace.is_empty() {
            of_owner.to_owned()
        } else {
            namespace
        };
        let source = self
            .plugin
            .cache
            .source_of_kind(cluster, &api_version, &kind, &namespace);
        let Some(source) = source else {
            return Err(invalid(format!(
                "{what}: no informer of the plugin reads {api_version} {kind} there: add one to its `informers`"
            )));
        };
        let is_namespaced = source.info().namespaced;
        if !of_owner.is_empty() && (!is_namespaced || namespace != of_owner) {
            return Err(invalid(format!(
                "{what}: an owner in the namespace {of_owner} can only own objects there; the API server would delete \
                 others"
            )));
        }
        if is_namespaced && namespace.is_empty() {
            return Err(invalid(format!(
                "{what} needs metadata.namespace, because its owner has none"
            )));
        }
        let namespace = if is_namespaced { namespace } else { String::new() };
        Ok(Wanted {
            key: Key::new(&namespace, &name),
            kind,
            document,
            is_whole: child.whole,
            source,
        })
    }

    /// The write that makes it as it is wanted. None: it is.
    fn write_of(
        &self,
        owner: &OwnerObject,
        wanted: Wanted,
        present: Option<&Object>,
    ) -> Result<Option<(Address, KubeAction)>, KubeError> {
        let (label, address) = (wanted.label(), address(&wanted.source, wanted.key.as_ref()));
        let Wanted {
            kind,
            key,
            mut document,
            is_whole,
            source: wanted_source,
        } = wanted;
        let of_owner = metadata::owner_reference(owner.source.info(), owner.key.name(), &owner.uid);
        metadata::complete(
            &mut document,
            &key,
            of_owner,
            &[(OWNER_UID_LABEL, &owner.uid), (PLUGIN_LABEL, &self.plugin.plugin)],
        )
        .map_err(|problem| invalid(format!("{label}: {problem}")))?;
        let options = KubeWrite {
            field_manager: self.plugin.field_manager(),
            ..KubeWrite::default()
        };
        if !is_whole {
            let options = KubeWrite { force: true, ..options };
            let action = KubeAction::Patch(KubePatchKind::Apply, text(document), options);
            return Ok(Some((address, action)));
        }
        if !keeps_all(&wanted_source) {
            return Err(invalid(format!(
                "{label} cannot be compared as a whole: its informer does not keep all of it (`drop`, `digest` or \
                 metadata only); let its fields be applied"
            )));
        }
        whole::normalize(&kind, &mut document).map_err(|problem| invalid(format!("{label}: {problem}")))?;
        let Some(present) = present else {
            let collection = Address {
                name: String::new(),
                ..address
            };
            return Ok(Some((collection, KubeAction::Create(text(document), options))));
        };
        if present.is_head() {
            let message = format!(
                "{label}: the cache has only the head of it, so that it cannot be compared; raise max-bytes of [cache], \
                 or let its fields be applied"
            );
            return Err(KubeError::new(KubeErrorCode::Unavailable, message));
        }
        let merged = whole::merged(present, document);
        Ok(merged.map(|merged| (address, KubeAction::Update(text(merged), options))))
    }
}

/// A kind of children, and a key.
type ChildId = (String, String, Key);

impl Wanted {
    fn identity(&self) -> ChildId {
        let info = self.source.info();
        (info.api_version.clone(), info.kind.clone(), self.key.clone())
    }

    fn label(&self) -> String {
        label(&self.kind, self.key.as_ref())
    }
}

/// `Secret web/a`.
fn label(kind: &str, key: KeyRef<'_>) -> String {
    format!("{kind} {}", key.to_key())
}

/// Whether the cache has all fields of a source's objects.
fn keeps_all(source: &Source) -> bool {
    let shapes = source.shapes();
    let keeps = |shape: &Arc<Shape>| shape.drop.is_empty() && shape.digest.is_empty() && !shape.is_metadata_only();
    shapes.iter().all(keeps)
}

fn address(source: &Source, key: KeyRef<'_>) -> Address {
    let info = source.info();
    Address {
        cluster: info.cluster.clone(),
        resource: info.resource.clone(),
        namespace: key.namespace.to_owned(),
        name: key.name.to_owned(),
        subresource: String::new(),
    }
}

fn text(document: Map<String, Value>) -> Vec<u8> {
    Value::Object(document).to_string().into_bytes()
}

fn invalid(message: impl Into<String>) -> KubeError {
    KubeError::new(KubeErrorCode::Invalid, message)
}
