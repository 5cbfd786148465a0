//! Owners of objects.

use serde::{Deserialize, Serialize};

use crate::bindings::imports::informant::plugin::recorder::Regarding;
use crate::failure::{Failure, Result};
use crate::projection::Projection;
use crate::recorder::ObjectReference;

/// A member of `metadata.ownerReferences`. The garbage collector deletes an object when its owner is gone.
/// [`kube::children`](crate::kube::children) adds it by itself.
///
/// ```no_run
/// # use informant_plugin_sdk::prelude::*;
/// # use serde_json::json;
/// # fn example(event: &Event) -> Result {
/// let map = json!({
///     "metadata": { "name": event.name, "ownerReferences": [OwnerReference::controller(event)?] },
/// });
/// kube::create(&kube::collection("v1/configmaps", &event.namespace)).object(&map)?;
/// # Ok(())
/// # }
/// ```
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", default)]
#[non_exhaustive]
pub struct OwnerReference {
    /// `v1`, `apps/v1`
    pub api_version: String,
    /// `Pod`
    pub kind: String,
    /// The owner's name. It is in the namespace of the owned object, or has no namespace.
    pub name: String,
    /// The owner's uid.
    pub uid: String,
    /// Whether the owner is the object's controller. There is at most one.
    #[serde(skip_serializing_if = "is_false")]
    pub controller: bool,
    /// Whether a deletion of the owner in the foreground waits for the object.
    #[serde(skip_serializing_if = "is_false")]
    pub block_owner_deletion: bool,
}

#[expect(clippy::trivially_copy_pass_by_ref, reason = "serde passes references")]
fn is_false(value: &bool) -> bool {
    !value
}

impl OwnerReference {
    /// An object as an owner: the [`Event`](crate::Event) or [`Request`](crate::Request) of the call, an object as a
    /// [`Value`](serde_json::Value), or an [`Item`](crate::store::Item) that was read. The owned object stays until all
    /// its owners are gone.
    ///
    /// # Errors
    /// [`Failure::Permanent`] for an object without apiVersion, kind, name or uid; as
    /// [`Event::source_info`](crate::Event::source_info).
    pub fn owner(object: impl Into<ObjectReference>) -> Result<Self> {
        let Regarding {
            api_version,
            kind,
            name,
            uid,
            ..
        } = object.into().resolve()?;
        if uid.is_empty() {
            return Err(Failure::permanent(format_args!(
                "{kind} {name} has no metadata.uid, which an owner needs: pass the event instead, or add it to the \
                 fields in the manifest"
            )));
        }
        Ok(Self {
            api_version,
            kind,
            name,
            uid,
            controller: false,
            block_owner_deletion: true,
        })
    }

    /// As [`owner`](Self::owner), as the controller. There is at most one.
    ///
    /// # Errors
    /// As [`owner`](Self::owner).
    pub fn controller(object: impl Into<ObjectReference>) -> Result<Self> {
        Ok(Self {
            controller: true,
            ..Self::owner(object)?
        })
    }

    /// The controller among the owners of an object.
    pub fn controller_in(owners: &[Self]) -> Option<&Self> {
        owners.iter().find(|owner| owner.controller)
    }
}

impl Projection for OwnerReference {
    fn pointers() -> Vec<String> {
        vec![String::new()]
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;
    use crate::event::{Event, Reason};
    use crate::testing::Cache;

    #[test]
    fn an_owner_is_named_by_type_name_and_uid() {
        let cache = Cache::new();
        let source = cache.put(json!({
            "apiVersion": "apps/v1", "kind": "Deployment",
            "metadata": { "namespace": "web", "name": "a", "uid": "1" },
        }));
        let event = Event {
            source,
            namespace: "web".to_owned(),
            name: "a".to_owned(),
            uid: "1".to_owned(),
            resource_version: "1".to_owned(),
            reason: Reason::Watch,
            attempt: 0,
        };
        let owner = OwnerReference::owner(&event).expect("the source is known");
        let document = json!({
            "apiVersion": "apps/v1", "kind": "Deployment", "name": "a", "uid": "1", "blockOwnerDeletion": true,
        });
        assert_eq!(serde_json::to_value(&owner).expect("it is JSON"), document);
        let controller = OwnerReference::controller(&event).expect("the source is known");
        assert_eq!(
            serde_json::to_value(&controller).expect("it is JSON")["controller"],
            json!(true)
        );
        let owners = [owner, controller];
        assert_eq!(OwnerReference::controller_in(&owners), Some(&owners[1]));
        assert_eq!(OwnerReference::controller_in(&owners[..1]), None);
    }

    #[test]
    fn an_object_is_an_owner_if_it_has_a_uid() {
        let mut object = json!({ "apiVersion": "v1", "kind": "Node", "metadata": { "name": "n", "uid": "2" } });
        let controller = OwnerReference::controller(&object).expect("it is complete");
        assert_eq!(
            serde_json::to_value(&controller).expect("it is JSON"),
            json!({
                "apiVersion": "v1", "kind": "Node", "name": "n", "uid": "2",
                "controller": true, "blockOwnerDeletion": true,
            })
        );
        object["metadata"]["uid"] = json!(null);
        let refused = OwnerReference::owner(&object).expect_err("it has no uid");
        assert!(refused.message().starts_with("Node n has no metadata.uid"), "{refused}");
    }
}
