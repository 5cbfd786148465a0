//! The contract's `kube`, implemented on a [`Cache`]: an API server for the logic of a plugin.
//!
//! The resource of a kind is its lowercase plural: `v1/pods` for Pod. Every call is granted. A strategic patch and an
//! apply work like a merge patch. A JSON patch, and subresources other than `status`, are `unsupported`.

use serde_json::{Map, Value, json};

use super::cache::{self, Cache, Key, State};
use super::options::{self, DeleteOptions, ListOptions, WriteOptions};
use super::selector;
use crate::bindings::imports::informant::plugin::kube::{Address, ApiError, ApiErrorCode, ObjectPage, PatchKind};
use crate::bindings::imports::informant::plugin::types::ErrorCode;
use crate::call;

/// Objects in a page, by default and at most.
const PAGE_OBJECTS: usize = 500;

pub(super) type Answer<T> = Result<T, ApiError>;

/// A write of the plugin, with the arguments of its call.
#[derive(Debug, Clone, PartialEq)]
pub struct Write {
    /// `create`, `update`, `patch` or `delete`.
    pub verb: &'static str,
    /// The cluster that was written to. Empty if the test has a single, unnamed one.
    pub cluster: String,
    /// `v1/pods`, or `v1/pods/status` for a subresource.
    pub resource: String,
    /// `namespace/name`, or `name`.
    pub object: String,
    /// The document that was sent. Null for a delete.
    pub document: Value,
}

impl Cache {
    /// The writes since the last call, without failed ones and dry runs.
    pub fn take_writes(&self) -> Vec<Write> {
        cache::with(|state| std::mem::take(&mut state.writes))
    }

    /// Denies every call of `kube`, with this message.
    pub(super) fn refuse_kube(&self, message: &str) {
        cache::with(|state| state.kube_refusal = Some(message.to_owned()));
    }

    /// All writes that were sent since the last call, as a scenario shows them.
    pub(super) fn take_sent(&self) -> Vec<Value> {
        cache::with(|state| std::mem::take(&mut state.sent))
    }

    /// The objects that the plugin changed since the last call, with their previous states.
    pub(super) fn take_changed(&self) -> Vec<(Key, Option<Value>)> {
        cache::with(|state| std::mem::take(&mut state.changed))
    }
}

pub(crate) fn get(address: &Address) -> Answer<Vec<u8>> {
    ask(|state| {
        let (_, object) = existing(state, address)?;
        Ok(bytes(&object))
    })
}

pub(crate) fn list(address: &Address, options: &[u8]) -> Answer<ObjectPage> {
    ask(|state| {
        let options: ListOptions = options::parse(options)?;
        let cluster = cluster_of(state, address)?;
        let selects =
            selector::parse(&options.label_selector).map_err(|message| refusal(ApiErrorCode::Invalid, message))?;
        if !options.field_selector.is_empty() {
            return Err(refusal(
                ApiErrorCode::Unsupported,
                "the test kit does not support field selectors",
            ));
        }
        let limit = match options.limit as usize {
            0 => PAGE_OBJECTS,
            limit => limit.min(PAGE_OBJECTS),
        };
        let text = |key: &Key| format!("{}/{}", key.1, key.2);
        let mut found = state.objects.iter().filter(|(key, object)| {
            is_of(object, &address.resource)
                && state.cluster_of(key.0) == cluster
                && (address.namespace.is_empty() || address.namespace == key.1)
                && selects.iter().all(|requirement| requirement.matches(object))
                && (options.cursor.is_empty() || text(key) > options.cursor)
        });
        let page: Vec<_> = found.by_ref().take(limit).collect();
        let last = page.last().map(|(key, _)| text(key)).unwrap_or_default();
        Ok(ObjectPage {
            items: page.iter().map(|(_, object)| bytes(object)).collect(),
            cursor: if found.next().is_some() { last } else { String::new() },
            resource_version: state.version(),
        })
    })
}

pub(crate) fn create(address: &Address, object: &[u8], options: &[u8]) -> Answer<Vec<u8>> {
    ask(|state| {
        let options: WriteOptions = options::parse(options)?;
        let mut object = document(object)?;
        if !address.namespace.is_empty() {
            object["metadata"]["namespace"] = json!(address.namespace);
        }
        let Some(name) = object
            .pointer("/metadata/name")
            .and_then(Value::as_str)
            .map(str::to_owned)
        else {
            return Err(refusal(
                ApiErrorCode::Invalid,
                "the test kit does not generate names: set metadata.name",
            ));
        };
        let created = Address {
            name,
            ..address.clone()
        };
        state.send("create", &created, Value::Null, &object, |state| {
            if existing(state, &created).is_ok() {
                let message = format!("{} \"{}\" already exists", created.resource, created.name);
                return Err(refusal(ApiErrorCode::AlreadyExists, message));
            }
            let after = object.clone();
            state.write("create", &created, None, &object, after, options.is_dry_run())
        })
    })
}

pub(crate) fn update(address: &Address, object: &[u8], options: &[u8]) -> Answer<Vec<u8>> {
    ask(|state| {
        let options: WriteOptions = options::parse(options)?;
        let object = document(object)?;
        state.send("update", address, Value::Null, &object, |state| {
            let (key, before) = existing(state, address)?;
            check_preconditions(&before, &object)?;
            let after = match address.subresource.as_str() {
                "" => object.clone(),
                _ => with_status(&before, &object),
            };
            let dry_run = options.is_dry_run();
            state.write("update", address, Some((key, before)), &object, after, dry_run)
        })
    })
}

pub(crate) fn patch(address: &Address, kind: PatchKind, patch: &[u8], options: &[u8]) -> Answer<Vec<u8>> {
    ask(|state| {
        let options: WriteOptions = options::parse(options)?;
        if options.force && kind != PatchKind::Apply {
            return Err(refusal(ApiErrorCode::Invalid, "options: `force` is for apply only"));
        }
        if kind == PatchKind::Json {
            return Err(refusal(
                ApiErrorCode::Unsupported,
                "the test kit does not support JSON patches",
            ));
        }
        let (patch, dry_run) = (document(patch)?, options.is_dry_run());
        state.send("patch", address, json!(name_of(kind)), &patch, |state| {
            let (key, before) = match existing(state, address) {
                Err(error) if error.code == ApiErrorCode::NotFound && kind == PatchKind::Apply => {
                    return state.write("patch", address, None, &patch, patch.clone(), dry_run);
                }
                found => found?,
            };
            check_preconditions(&before, &patch)?;
            let mut after = before.clone();
            merge(&mut after, &patch);
            if !address.subresource.is_empty() {
                after = with_status(&before, &after);
            }
            state.write("patch", address, Some((key, before)), &patch, after, dry_run)
        })
    })
}

pub(crate) fn delete(address: &Address, options: &[u8]) -> Answer<()> {
    ask(|state| {
        let options: DeleteOptions = options::parse(options)?;
        state.send("delete", address, Value::Null, &Value::Null, |state| {
            let (key, before) = existing(state, address)?;
            check_preconditions(&before, &json!({ "metadata": options.preconditions }))?;
            if !options.is_dry_run() {
                state.objects.remove(&key);
                state.record("delete", address, cluster_of(state, address)?, Value::Null);
                state.changed.push((key, Some(before)));
            }
            Ok(())
        })
    })
}

/// As in a scenario.
fn name_of(kind: PatchKind) -> &'static str {
    match kind {
        PatchKind::Merge => "merge",
        PatchKind::Json => "json",
        PatchKind::Strategic => "strategic",
        PatchKind::Apply => "apply",
    }
}

impl State {
    /// Makes a write, and keeps it with its result.
    fn send<T>(
        &mut self,
        verb: &str,
        address: &Address,
        kind: Value,
        document: &Value,
        write: impl FnOnce(&mut Self) -> Answer<T>,
    ) -> Answer<T> {
        let answer = write(self);
        let subresource = Some(&address.subresource).filter(|name| !name.is_empty());
        let object = joined(&address.namespace, &address.name);
        self.sent.push(json!({
            "verb": verb, "object": format!("{} {object}", address.resource), "subresource": subresource,
            "kind": kind, "document": document,
            "result": answer.as_ref().map_or_else(|error| error.code.as_str(), |_| "ok"),
        }));
        answer
    }

    /// Replaces the object with `after`, unless they are equal.
    fn write(
        &mut self,
        verb: &'static str,
        address: &Address,
        before: Option<(Key, Value)>,
        document: &Value,
        mut after: Value,
        dry_run: bool,
    ) -> Answer<Vec<u8>> {
        // The address names the object: a document need not repeat that.
        after["metadata"]["name"] = address.name.as_str().into();
        if !address.namespace.is_empty() {
            after["metadata"]["namespace"] = address.namespace.as_str().into();
        }
        check_texts(&after)?;
        if dry_run {
            return Ok(bytes(&after));
        }
        let cluster = cluster_of(self, address)?;
        self.record(verb, address, cluster.clone(), document.clone());
        Ok(match before {
            Some((_, before)) if before == after => bytes(&before),
            before => {
                let key = self.put(Some(&cluster), after);
                self.changed.push((key.clone(), before.map(|(_, before)| before)));
                bytes(&self.objects[&key])
            }
        })
    }

    fn record(&mut self, verb: &'static str, address: &Address, cluster: String, document: Value) {
        self.writes.push(Write {
            verb,
            cluster,
            resource: joined(&address.resource, &address.subresource),
            object: joined(&address.namespace, &address.name),
            document,
        });
    }
}

pub(super) fn joined(first: &str, second: &str) -> String {
    let words: Vec<&str> = [first, second].into_iter().filter(|word| !word.is_empty()).collect();
    words.join("/")
}

pub(super) fn ask<T>(answer: impl FnOnce(&mut State) -> Answer<T>) -> Answer<T> {
    cache::with(|state| match (&state.refusal, &state.kube_refusal) {
        (Some(denied), _) => {
            let code = match denied.code {
                ErrorCode::NotHere => ApiErrorCode::NotHere,
                _ => ApiErrorCode::Denied,
            };
            Err(refusal(code, denied.message.clone()))
        }
        (None, Some(denied)) => Err(refusal(ApiErrorCode::Denied, denied.as_str())),
        (None, None) => answer(state),
    })
}

pub(super) fn refusal(code: ApiErrorCode, message: impl Into<String>) -> ApiError {
    ApiError {
        code,
        status: 0,
        reason: String::new(),
        message: message.into(),
        retry_after_ms: 0,
    }
}

fn existing(state: &State, address: &Address) -> Answer<(Key, Value)> {
    if !matches!(address.subresource.as_str(), "" | "status") {
        let message = format!(
            "the test kit does not support the subresource {:?}",
            address.subresource
        );
        return Err(refusal(ApiErrorCode::Unsupported, message));
    }
    let cluster = cluster_of(state, address)?;
    let found = state.objects.iter().find(|(key, object)| {
        key.1 == address.namespace
            && key.2 == address.name
            && state.cluster_of(key.0) == cluster
            && is_of(object, &address.resource)
    });
    match found {
        Some((key, object)) => Ok((key.clone(), object.clone())),
        None => Err(not_found(state, address)),
    }
}

/// As in Informant, a missing namespace is not an absent object.
fn not_found(state: &State, address: &Address) -> ApiError {
    let Address { resource, name, .. } = address;
    let is_namespaced = |(key, object): (&Key, &Value)| !key.1.is_empty() && is_of(object, resource);
    if address.namespace.is_empty() && state.objects.iter().any(is_namespaced) {
        let message = format!("{resource} is namespaced, but the address has no `namespace`");
        return refusal(ApiErrorCode::Invalid, message);
    }
    refusal(ApiErrorCode::NotFound, format!("{resource} \"{name}\" not found"))
}

/// The cluster of an address: by default that of the object that the call is about.
pub(super) fn cluster_of(state: &State, address: &Address) -> Answer<String> {
    if !address.cluster.is_empty() {
        return Ok(address.cluster.clone());
    }
    if let Some(source) = call::source() {
        return Ok(state.cluster_of(source.0).to_owned());
    }
    let mut clusters = state.sources.iter().map(|source| &source.cluster);
    let first = clusters.next().cloned().unwrap_or_default();
    if clusters.all(|cluster| *cluster == first) {
        return Ok(first);
    }
    let message = "the test has several clusters, and this call is about no object: use in_cluster(name)";
    Err(refusal(ApiErrorCode::Invalid, message))
}

/// Whether `object` belongs to the resource.
fn is_of(object: &Value, resource: &str) -> bool {
    let text = |field: &str| object[field].as_str().unwrap_or_default();
    resource_of(text("apiVersion"), text("kind")) == resource
}

/// The apiVersion and the lowercase plural of the kind.
pub(super) fn resource_of(api_version: &str, kind: &str) -> String {
    let kind = kind.to_lowercase();
    let plural = match kind.as_bytes() {
        [.., b's' | b'x'] => format!("{kind}es"),
        [.., b'y'] if !kind.ends_with("ey") && !kind.ends_with("ay") => format!("{}ies", &kind[..kind.len() - 1]),
        _ => format!("{kind}s"),
    };
    format!("{api_version}/{plural}")
}

/// Rejects a write that expects another uid or resource version than the stored one.
fn check_preconditions(before: &Value, write: &Value) -> Answer<()> {
    for field in ["uid", "resourceVersion"] {
        let expected = write["metadata"][field].as_str().filter(|text| !text.is_empty());
        if expected.is_some_and(|expected| before["metadata"][field] != expected) {
            let message = "the object has been modified; please apply your changes to the latest version and try again";
            return Err(refusal(ApiErrorCode::Conflict, message));
        }
    }
    Ok(())
}

/// Rejects labels and annotations whose values are no texts, as the API server does.
fn check_texts(object: &Value) -> Answer<()> {
    for field in ["labels", "annotations"] {
        let members = object["metadata"][field].as_object();
        let wrong =
            members.and_then(|members| members.iter().find(|(_, value)| !value.is_string() && !value.is_null()));
        if let Some((name, value)) = wrong {
            let message =
                format!("metadata.{field}: the value of {name:?} must be a text, not {value}: put it in quotes");
            return Err(refusal(ApiErrorCode::Invalid, message));
        }
    }
    Ok(())
}

fn with_status(before: &Value, written: &Value) -> Value {
    let mut after = before.clone();
    after["status"] = written["status"].clone();
    after
}

/// RFC 7386.
pub(super) fn merge(target: &mut Value, patch: &Value) {
    let Value::Object(members) = patch else {
        *target = patch.clone();
        return;
    };
    if !target.is_object() {
        *target = Value::Object(Map::new());
    }
    for (name, value) in members {
        match (target.as_object_mut(), value) {
            (Some(target), Value::Null) => {
                target.remove(name);
            }
            (Some(target), value) => merge(target.entry(name.clone()).or_insert(Value::Null), value),
            (None, _) => {}
        }
    }
}

pub(super) fn document(json: &[u8]) -> Answer<Value> {
    match serde_json::from_slice(json) {
        Ok(Value::Object(members)) => Ok(Value::Object(members)),
        Ok(_) => Err(refusal(ApiErrorCode::Invalid, "the document is not a JSON object")),
        Err(error) => Err(refusal(
            ApiErrorCode::Invalid,
            format!("the document is not JSON: {error}"),
        )),
    }
}

fn bytes(object: &Value) -> Vec<u8> {
    object.to_string().into_bytes()
}
