//! What the metadata of a child says: whose it is.

use informant_cache::SourceInfo;
use informant_object::{Key, Object};
use serde::Deserialize;
use serde::de::IgnoredAny;
use serde_json::{Map, Value, json};

/// The label with the uid of the owner: managedFields are not in the cache.
pub(super) const OWNER_UID_LABEL: &str = "informant.dev/owner-uid";

/// The label with the name of the plugin.
pub(super) const PLUGIN_LABEL: &str = "informant.dev/plugin";

#[derive(Default, Deserialize)]
#[serde(default, rename_all = "camelCase")]
struct Metadata {
    owner_references: Option<Vec<Owner>>,
    deletion_timestamp: Option<IgnoredAny>,
}

#[derive(Deserialize)]
struct Owner {
    uid: String,
    #[serde(default)]
    controller: Option<bool>,
}

fn read(object: &Object) -> Metadata {
    // No API server stores other types of these fields.
    serde_json::from_str(object.metadata()).unwrap_or_default()
}

/// Whether the object with this uid is its controller.
pub(super) fn belongs_to(object: &Object, uid: &str) -> bool {
    let mut owners = read(object).owner_references.into_iter().flatten();
    owners.any(|owner| owner.uid == uid && owner.controller.unwrap_or(false))
}

pub(super) fn is_terminating(object: &Object) -> bool {
    read(object).deletion_timestamp.is_some()
}

/// The reference to the controller `name`, whose source has this type.
pub(super) fn owner_reference(of: &SourceInfo, name: &str, uid: &str) -> Value {
    json!({
        "apiVersion": of.api_version,
        "kind": of.kind,
        "name": name,
        "uid": uid,
        "controller": true,
        "blockOwnerDeletion": true,
    })
}

/// Adds to the metadata of `document` what says whose it is. Errors: the metadata has members of other types.
pub(super) fn complete(
    document: &mut Map<String, Value>,
    key: &Key,
    owner: Value,
    labels: &[(&str, &str)],
) -> Result<(), String> {
    let metadata = member(document, "metadata", || json!({}))?;
    let Value::Object(metadata) = metadata else {
        return Err("metadata is no object".to_owned());
    };
    match key.namespace() {
        "" => drop(metadata.remove("namespace")),
        namespace => drop(metadata.insert("namespace".to_owned(), namespace.into())),
    }
    let Value::Array(owners) = member(metadata, "ownerReferences", || json!([]))? else {
        return Err("metadata.ownerReferences is no list".to_owned());
    };
    if owners.iter().any(|other| other["controller"] == true) {
        return Err("metadata.ownerReferences has a controller, and an object has one: its owner".to_owned());
    }
    owners.push(owner);
    let Value::Object(own) = member(metadata, "labels", || json!({}))? else {
        return Err("metadata.labels is no object".to_owned());
    };
    own.extend(
        labels
            .iter()
            .map(|(name, value)| ((*name).to_owned(), Value::from(*value))),
    );
    Ok(())
}

/// The member `name`, which is made if it is absent or null.
fn member<'m>(
    members: &'m mut Map<String, Value>,
    name: &str,
    empty: impl FnOnce() -> Value,
) -> Result<&'m mut Value, String> {
    let value = members.entry(name).or_insert(Value::Null);
    if value.is_null() {
        *value = empty();
    }
    Ok(value)
}
