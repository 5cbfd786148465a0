//! The contract's `defer-children` in a native test: which writes make the wanted objects of the [`Cache`].
//!
//! The plugin has a complete, live informer of every kind. The defaults of an API server are those of Secrets only.

use std::collections::BTreeSet;

use serde_json::{Map, Value, json};

use super::cache::{self, Cache, Key, State};
use super::cluster::{self, Answer, document, joined, merge, refusal};
use super::driver::type_of;
use crate::bindings::imports::informant::plugin::kube::{
    Address, ApiError, ApiErrorCode, Child, Children, Owner, PatchKind,
};
use crate::event::SourceId;
use crate::{call, context};

/// The most children of an object, as in Informant.
const CHILDREN_MAX: usize = 1_000;

/// Those that can be set whole.
const WHOLE_KINDS: [&str; 6] = [
    "ConfigMap",
    "Secret",
    "Role",
    "RoleBinding",
    "ResourceQuota",
    "NetworkPolicy",
];

const OWNER_LABEL: &str = "informant.dev/owner-uid";
const PLUGIN_LABEL: &str = "informant.dev/plugin";

/// What the plugin and the present call own.
#[derive(Default)]
pub(super) struct Owned {
    /// The kinds in `owns`. `None`: the plugin has no reconciler.
    types: Option<Vec<(String, String)>>,
    has_children: bool,
    /// How many deferred writes are of children.
    writes: usize,
    /// Whether the cache may lack something.
    is_behind: bool,
}

impl Owned {
    pub(super) fn writes(&self) -> usize {
        self.writes
    }

    /// The call has ended.
    pub(super) fn end(&mut self) {
        (self.has_children, self.writes, self.is_behind) = (false, 0, false);
    }
}

impl Cache {
    /// The kinds of children that the manifest names.
    pub(super) fn declare_owned(&self, types: Option<Vec<(String, String)>>) {
        cache::with(|state| state.owned.types = types);
    }

    /// Whether the cache may lack something in the next call.
    pub(super) fn set_behind(&self, is_behind: bool) {
        cache::with(|state| state.owned.is_behind = is_behind);
    }
}

pub(crate) fn set(owner: &Owner, children: &[Child]) -> Answer<Children> {
    cluster::ask(|state| {
        check(state, owner, children)?;
        let mut done = Children {
            written: 0,
            pruned: 0,
            refused: Vec::new(),
            prune_skipped: None,
        };
        let mut wanted = BTreeSet::new();
        let cluster = state.cluster_of(owner.source).to_owned();
        for child in children {
            let child_document = complete(state, owner, child)?;
            let key = state.key_of(Some(&cluster), &child_document);
            let label = format!("{} {}", type_of(&child_document).1, joined(&key.1, &key.2));
            if !wanted.insert(key.clone()) {
                return Err(invalid(format!("{label} is twice among the children")));
            }
            match state.objects.get(&key) {
                Some(object) if !belongs_to(object, &owner.uid) => done.refused.push(label),
                Some(object) if is_terminating(object) => {}
                present => {
                    let present = present.cloned();
                    let is_written = match child.whole {
                        true => write_whole(state, &key, &child_document, present)?,
                        false => write_fields(state, &key, &child_document, present)?,
                    };
                    done.written += u32::from(is_written);
                }
            }
        }
        if state.owned.is_behind {
            done.prune_skipped = Some("the cache has not seen all earlier writes for this object".to_owned());
            return Ok(done);
        }
        for (key, metadata) in unwanted(state, owner, &wanted) {
            let options = json!({
                "preconditions": { "uid": metadata["uid"], "resourceVersion": metadata["resourceVersion"] },
            });
            defer(state, &key, move |at| match cluster::delete(at, &bytes(&options)) {
                Err(error) if error.code == ApiErrorCode::NotFound => Ok(()),
                done => done,
            })?;
            done.pruned += 1;
        }
        Ok(done)
    })
}

fn check(state: &mut State, owner: &Owner, children: &[Child]) -> Answer<()> {
    if state.owned.types.is_none() || call::source() != Some(SourceId(owner.source)) {
        let message = "only reconcile has children: those of the object that it is about";
        return Err(refusal(ApiErrorCode::NotHere, message));
    }
    if std::mem::replace(&mut state.owned.has_children, true) {
        return Err(invalid(
            "the call has set its children already: set all of them at once",
        ));
    }
    if children.len() > CHILDREN_MAX {
        let message = format!(
            "an object may have {CHILDREN_MAX} children, and these are {}",
            children.len()
        );
        return Err(refusal(ApiErrorCode::TooLarge, message));
    }
    let key = (owner.source, owner.namespace.clone(), owner.name.clone());
    let is_it = |object: &Value| object["metadata"]["uid"] == owner.uid;
    if owner.uid.is_empty() || !state.objects.get(&key).is_some_and(is_it) {
        let name = joined(&owner.namespace, &owner.name);
        let message = format!("{name} is gone; the API server deletes what it owned");
        return Err(refusal(ApiErrorCode::NotFound, message));
    }
    Ok(())
}

/// A child as it is written: with what says whose it is.
fn complete(state: &State, owner: &Owner, child: &Child) -> Answer<Value> {
    let mut object = document(&child.object)?;
    let (api_version, kind) = type_of(&object);
    let name = object["metadata"]["name"].as_str().unwrap_or_default();
    if [api_version, kind, name].contains(&"") {
        return Err(invalid("a child needs apiVersion, kind and metadata.name"));
    }
    let what = format!("{kind} {name}");
    if !owns(state, api_version, kind) {
        return Err(invalid(format!(
            "{what}: {api_version} {kind} is not in `reconciler.owns` of the manifest: name it there"
        )));
    }
    if child.whole && !WHOLE_KINDS.contains(&kind) {
        return Err(invalid(format!(
            "{what}: only {} can be set whole; let the fields of a {kind} be applied",
            WHOLE_KINDS.join(", ")
        )));
    }
    let metadata = &mut object["metadata"];
    let namespace = metadata["namespace"].as_str().unwrap_or_default();
    if !owner.namespace.is_empty() {
        if !["", &owner.namespace].contains(&namespace) {
            return Err(invalid(format!(
                "{what}: an owner in the namespace {} can only own objects there; the API server would delete others",
                owner.namespace
            )));
        }
        metadata["namespace"] = owner.namespace.as_str().into();
    }
    let mut owners = metadata["ownerReferences"].as_array().cloned().unwrap_or_default();
    if owners.iter().any(|other| other["controller"] == true) {
        return Err(invalid(format!(
            "{what}: metadata.ownerReferences has a controller, and an object has one: its owner"
        )));
    }
    let of_owner = &state.sources[owner.source as usize];
    owners.push(json!({
        "apiVersion": of_owner.api_version, "kind": of_owner.kind, "name": owner.name, "uid": owner.uid,
        "controller": true, "blockOwnerDeletion": true,
    }));
    metadata["ownerReferences"] = owners.into();
    metadata["labels"][OWNER_LABEL] = owner.uid.as_str().into();
    metadata["labels"][PLUGIN_LABEL] = context::plugin_name().into();
    Ok(object)
}

/// Applies the fields of a child, unless it has them. It counts as written in any case, as in Informant.
fn write_fields(state: &mut State, key: &Key, wanted: &Value, present: Option<Value>) -> Answer<bool> {
    let mut after = present.clone();
    if let Some(after) = &mut after {
        merge(after, wanted);
    }
    if after.is_none() || after != present {
        let patch = bytes(wanted);
        defer(state, key, move |at| {
            cluster::patch(at, PatchKind::Apply, &patch, br#"{"force":true}"#).map(drop)
        })?;
    }
    Ok(true)
}

/// Makes everything but metadata and status of a child as it is wanted. Returns whether something differs.
fn write_whole(state: &mut State, key: &Key, wanted: &Value, present: Option<Value>) -> Answer<bool> {
    let mut wanted = wanted.clone();
    let is_secret = wanted["kind"] == "Secret";
    if let Value::Object(members) = &mut wanted {
        members.remove("status");
        if is_secret {
            store_texts(members);
        }
        members.retain(|_, value| !is_empty(value));
    }
    let Some(present) = present else {
        let create = move |at: &Address| {
            let collection = Address {
                name: String::new(),
                ..at.clone()
            };
            cluster::create(&collection, &bytes(&wanted), b"").map(drop)
        };
        return defer(state, key, create).map(|()| true);
    };
    let after = merged(&present, &wanted);
    if after == present {
        return Ok(false);
    }
    defer(state, key, move |at| cluster::update(at, &bytes(&after), b"").map(drop)).map(|()| true)
}

/// What an update sends. Of metadata, labels and annotations of others stay.
fn merged(present: &Value, wanted: &Value) -> Value {
    let mut after = wanted.clone();
    for kept in ["metadata", "status"] {
        match &present[kept] {
            Value::Null => {}
            value => after[kept] = value.clone(),
        }
    }
    for (name, value) in wanted["metadata"].as_object().into_iter().flatten() {
        match (&mut after["metadata"][name], value) {
            (Value::Object(present), Value::Object(more)) => present.extend(more.clone()),
            (present, value) if present.is_null() || name == "finalizers" => *present = value.clone(),
            _ => {}
        }
    }
    after
}

/// As an API server stores a Secret.
fn store_texts(secret: &mut Map<String, Value>) {
    secret.entry("type").or_insert_with(|| "Opaque".into());
    let Some(Value::Object(texts)) = secret.remove("stringData") else {
        return;
    };
    let data = secret.entry("data").or_insert_with(|| json!({}));
    for (name, text) in texts {
        data[name] = base64(text.as_str().unwrap_or_default().as_bytes()).into();
    }
}

fn base64(bytes: &[u8]) -> String {
    const DIGITS: &[u8; 64] = b"ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/";
    let mut text = String::new();
    for three in bytes.chunks(3) {
        let byte = |position: usize| three.get(position).map_or(0, |byte| u32::from(*byte));
        let group = (byte(0) << 16) | (byte(1) << 8) | byte(2);
        for digit in 0..4 {
            let position = (group >> (18 - 6 * digit)) & 63;
            let is_padding = digit > three.len();
            text.push(if is_padding {
                '='
            } else {
                DIGITS[position as usize].into()
            });
        }
    }
    text
}

/// What the plugin has made for the owner and is not wanted, with its metadata.
fn unwanted(state: &State, owner: &Owner, wanted: &BTreeSet<Key>) -> Vec<(Key, Value)> {
    let (cluster, plugin) = (state.cluster_of(owner.source), context::plugin_name());
    let is_unwanted = |(key, object): &(&Key, &Value)| {
        let (api_version, kind) = type_of(object);
        let labels = &object["metadata"]["labels"];
        !wanted.contains(key)
            && owns(state, api_version, kind)
            && state.cluster_of(key.0) == cluster
            && ["", &key.1].contains(&owner.namespace.as_str())
            && labels[OWNER_LABEL] == owner.uid
            && labels[PLUGIN_LABEL] == plugin
            && belongs_to(object, &owner.uid)
            && !is_terminating(object)
    };
    let found = state.objects.iter().filter(is_unwanted);
    found
        .map(|(key, object)| (key.clone(), object["metadata"].clone()))
        .collect()
}

/// Keeps a write of a child.
fn defer(state: &mut State, key: &Key, write: impl FnOnce(&Address) -> Answer<()> + 'static) -> Answer<()> {
    let source = &state.sources[key.0 as usize];
    let address = Address {
        cluster: source.cluster.clone(),
        resource: source.resource.clone(),
        namespace: key.1.clone(),
        name: key.2.clone(),
        subresource: String::new(),
    };
    state.owned.writes += 1;
    state.defer(&address, write)
}

fn owns(state: &State, api_version: &str, kind: &str) -> bool {
    let mut types = state.owned.types.iter().flatten();
    types.any(|(version, name)| version == api_version && name == kind)
}

/// Whether the object with this uid is the controller of another.
fn belongs_to(object: &Value, uid: &str) -> bool {
    let mut owners = object["metadata"]["ownerReferences"].as_array().into_iter().flatten();
    owners.any(|owner| owner["uid"] == uid && owner["controller"] == true)
}

fn is_terminating(object: &Value) -> bool {
    !object["metadata"]["deletionTimestamp"].is_null()
}

/// What an API server leaves out.
fn is_empty(value: &Value) -> bool {
    match value {
        Value::Null => true,
        Value::Object(members) => members.is_empty(),
        Value::Array(items) => items.is_empty(),
        Value::String(text) => text.is_empty(),
        _ => false,
    }
}

fn bytes(document: &Value) -> Vec<u8> {
    document.to_string().into_bytes()
}

fn invalid(message: impl Into<String>) -> ApiError {
    refusal(ApiErrorCode::Invalid, message)
}

#[cfg(test)]
mod tests;
