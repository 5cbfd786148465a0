//! The UID of the object that a deferred write is for: its name may belong to another object when the write is made,
//! and the replica that made the call may act no longer.
//!
//! The document stays as the plugin wrote it. The UID is a part of the [`KubeCall`], which adds it to what is sent. The
//! API server refuses a write with another UID, and an apply with one creates nothing.

use std::borrow::Cow;
use std::collections::BTreeMap;

use informant_object::Object;
use serde_json::value::{RawValue, to_raw_value};

use super::KubeCaller;
use super::api::{KubeAction, KubeAddress, KubeCall, KubePatchKind};
use super::document::has_uid;
use super::writes::Target;

/// The subresources whose documents have the metadata of their object.
const WITH_METADATA: [&str; 3] = ["", "scale", "status"];

impl KubeCaller {
    /// The UID of the object that a write is for: of the one that the call is about, or of the one that the cache has.
    /// None: it is unknown, the plugin names one itself, or the write makes the object.
    pub(super) fn known_uid(&self, address: &KubeAddress, action: &KubeAction, target: &Target) -> Option<Box<str>> {
        let (KubeAction::Update(document, _) | KubeAction::Patch(_, document, _)) = action else {
            return None;
        };
        let is_named = has_uid(document).unwrap_or(false);
        if is_named || !WITH_METADATA.contains(&&*address.subresource) || self.is_replaced(target) {
            return None;
        }
        let uid = match self.subject(address) {
            Some(subject) => subject.uid().into(),
            None => self.plugin.cache.uid(address)?,
        };
        (!uid.is_empty()).then_some(uid)
    }

    /// Whether the plugin has deleted the object, so that the write is for the next one.
    fn is_replaced(&self, target: &Target) -> bool {
        self.deferred.deletes(target) || self.plugin.own.has_deleted(target)
    }

    /// The object at `address`, if the call is about it.
    fn subject(&self, address: &KubeAddress) -> Option<Object> {
        let (source, object) = self.cause.object()?;
        if object.name() != address.name || object.namespace() != address.namespace {
            return None;
        }
        let source = self.plugin.catalog.source(source)?;
        let info = source.info();
        let is_it = info.cluster == address.cluster && info.resource == address.resource.to_string();
        (is_it && !object.uid().is_empty()).then_some(object)
    }
}

impl KubeCall {
    /// The document to send: that of the action, with the [UID](KubeCall::uid) that the object must have.
    #[must_use]
    pub fn document(&self) -> Cow<'_, [u8]> {
        let document = self.action.document();
        let with_uid = match &self.action {
            _ if self.uid.is_empty() => None,
            // A test that fails is an error that does not say what it was about. No UID can be replaced by another.
            KubeAction::Patch(KubePatchKind::Json, ..) => in_json_patch(document, &self.uid),
            KubeAction::Update(..) | KubeAction::Patch(..) => in_metadata(document, &self.uid),
            KubeAction::Get | KubeAction::List(_) | KubeAction::Create(..) | KubeAction::Delete(_) => None,
        };
        with_uid.map_or(Cow::Borrowed(document), Cow::Owned)
    }
}

/// None: it is no list, which the API server refuses, or it has an operation on the UID itself.
fn in_json_patch(document: &[u8], uid: &str) -> Option<Vec<u8>> {
    let mut operations: Vec<&RawValue> = serde_json::from_slice(document).ok()?;
    if operations.iter().any(|operation| is_on_uid(operation)) {
        return None;
    }
    let operation = serde_json::json!({ "op": "replace", "path": "/metadata/uid", "value": uid });
    let operation = to_raw_value(&operation).ok()?;
    operations.insert(0, &operation);
    serde_json::to_vec(&operations).ok()
}

fn is_on_uid(operation: &RawValue) -> bool {
    #[derive(serde::Deserialize)]
    struct Operation<'a> {
        #[serde(borrow, default)]
        path: Cow<'a, str>,
    }
    serde_json::from_str::<Operation<'_>>(operation.get()).is_ok_and(|operation| operation.path == "/metadata/uid")
}

/// None: it is no object with metadata, which the API server refuses.
fn in_metadata(document: &[u8], uid: &str) -> Option<Vec<u8>> {
    // Numbers stay as they are written.
    let mut members: BTreeMap<String, &RawValue> = serde_json::from_slice(document).ok()?;
    let mut metadata: BTreeMap<String, &RawValue> = match members.get("metadata") {
        Some(metadata) => serde_json::from_str(metadata.get()).ok()?,
        None => BTreeMap::new(),
    };
    let uid = to_raw_value(uid).ok()?;
    metadata.insert("uid".to_owned(), &uid);
    let metadata = to_raw_value(&metadata).ok()?;
    members.insert("metadata".to_owned(), &metadata);
    serde_json::to_vec(&members).ok()
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use super::*;
    use crate::capability::kube::api::{KubePurpose, KubeWrite};

    fn sent(action: impl FnOnce(Vec<u8>, KubeWrite) -> KubeAction, document: &str) -> String {
        let call = KubeCall {
            plugin: Arc::from("a"),
            address: KubeAddress::of_pod("a"),
            action: action(document.into(), KubeWrite::default()),
            uid: "u\"1".to_owned(),
            purpose: KubePurpose::Plugin,
            identity: None,
            answer_bytes_max: 0,
        };
        String::from_utf8(call.document().into_owned()).unwrap()
    }

    fn merge(document: &str) -> String {
        sent(
            |document, options| KubeAction::Patch(KubePatchKind::Merge, document, options),
            document,
        )
    }

    #[test]
    fn a_uid_is_added_to_metadata_and_nothing_else_changes() {
        insta::assert_snapshot!(merge(r#"{"spec":{"big":12345678901234567890123,"a":1.10}}"#), @r#"{"metadata":{"uid":"u\"1"},"spec":{"big":12345678901234567890123,"a":1.10}}"#);
        insta::assert_snapshot!(merge(r#"{"metadata":{"labels":{"b":null}}}"#), @r#"{"metadata":{"labels":{"b":null},"uid":"u\"1"}}"#);
        insta::assert_snapshot!(sent(KubeAction::Update, r#"{"kind":"Pod"}"#), @r#"{"kind":"Pod","metadata":{"uid":"u\"1"}}"#);
        assert_eq!(sent(KubeAction::Create, "{}"), "{}");
    }

    #[test]
    fn a_json_patch_replaces_the_uid_by_itself() {
        let json = |document, options| KubeAction::Patch(KubePatchKind::Json, document, options);
        insta::assert_snapshot!(sent(json, r#"[{"op":"remove","path":"/data/x"}]"#), @r#"[{"op":"replace","path":"/metadata/uid","value":"u\"1"},{"op":"remove","path":"/data/x"}]"#);
    }

    #[test]
    fn a_document_without_metadata_that_is_an_object_stays() {
        for document in [r#"{"metadata":null}"#, "[]", "1", "{"] {
            assert_eq!(merge(document), document);
        }
    }
}
