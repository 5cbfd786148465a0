//! Parses the parts of documents that the host needs: the name of a created object, the UID that an apply requires, the
//! objects of a list.

use std::collections::BTreeMap;

use serde::Deserialize;
use serde_json::value::RawValue;

use crate::bindings::informant::plugin::kube::ObjectPage;
use crate::capability::kube::api::{KubeError, KubeErrorCode};
use crate::json_error::{Members, members};

#[derive(Deserialize)]
struct Document {
    #[serde(default, deserialize_with = "members")]
    metadata: Metadata,
}

#[derive(Default, Deserialize)]
#[serde(default, rename_all = "camelCase")]
struct Metadata {
    name: Option<String>,
    uid: Option<String>,
    resource_version: Option<String>,
}

/// The name of the object that `document` creates; empty if the API server generates it.
/// Errors: [`KubeErrorCode::Invalid`]: it is not a JSON object, or its name is invalid.
pub(super) fn name_of(document: &[u8]) -> Result<String, KubeError> {
    Ok(read(document)?.name.unwrap_or_default())
}

/// Whether `document` has a UID, so that it cannot create another object.
pub(super) fn has_uid(document: &[u8]) -> Result<bool, KubeError> {
    Ok(read(document)?.uid.is_some_and(|uid| !uid.is_empty()))
}

/// The resource version of an object that the API server returned.
pub(super) fn version_of(body: &[u8]) -> Option<Box<str>> {
    read(body).ok()?.resource_version.map(String::into_boxed_str)
}

fn read(document: &[u8]) -> Result<Metadata, KubeError> {
    let invalid = |cause: &dyn std::fmt::Display| {
        let message = format!("the document is not a JSON object with metadata: {cause}");
        KubeError::new(KubeErrorCode::Invalid, message)
    };
    // serde accepts a list as a struct.
    if document.trim_ascii_start().first() != Some(&b'{') {
        return Err(invalid(&"it does not start with {"));
    }
    let read: Result<Document, _> = serde_json::from_slice(document);
    read.map(|document| document.metadata).map_err(|error| invalid(&error))
}

#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
struct List<'a> {
    api_version: String,
    kind: String,
    #[serde(default, deserialize_with = "members")]
    metadata: ListMetadata,
    // Go writes an empty list as null.
    #[serde(borrow)]
    items: Option<Vec<&'a RawValue>>,
}

#[derive(Default, Deserialize)]
#[serde(rename_all = "camelCase", default)]
struct ListMetadata {
    r#continue: String,
    resource_version: String,
}

/// The objects of a list, each with apiVersion and kind, which lists of built-in resources leave out.
/// Errors: [`KubeErrorCode::Unavailable`] if the body is not a list, or an item has only a part of its type.
pub(super) fn page(body: &[u8]) -> Result<ObjectPage, KubeError> {
    let broken = |cause: &dyn std::fmt::Display| {
        let message = format!("the API server's response is not a list of objects: {cause}");
        KubeError::new(KubeErrorCode::Unavailable, message)
    };
    let Members::<List<'_>>(list) = serde_json::from_slice(body).map_err(|error| broken(&error))?;
    let Some(kind) = list.kind.strip_suffix("List") else {
        return Err(broken(&format_args!("its kind is {:?}", list.kind)));
    };
    let quoted = |text: &str| serde_json::Value::from(text).to_string();
    let head = format!(
        "{{\"apiVersion\":{},\"kind\":{}",
        quoted(&list.api_version),
        quoted(kind)
    );
    let items = list.items.unwrap_or_default().into_iter().map(|item| {
        let own: BTreeMap<String, &RawValue> = serde_json::from_str(item.get()).map_err(|error| broken(&error))?;
        let has_text = |name: &str| own.get(name).map(|value| value.get().starts_with('"'));
        match (has_text("apiVersion"), has_text("kind")) {
            (Some(true), Some(true)) => Ok(item.get().as_bytes().to_vec()),
            (None, None) => Ok(with_type(&head, item.get())),
            _ => Err(broken(&"an item has a part of its type")),
        }
    });
    Ok(ObjectPage {
        items: items.collect::<Result<_, KubeError>>()?,
        cursor: list.metadata.r#continue,
        resource_version: list.metadata.resource_version,
    })
}

/// `item`, a JSON object, with `head` before its first member.
fn with_type(head: &str, item: &str) -> Vec<u8> {
    let members = item.trim_start().strip_prefix('{').unwrap_or_default().trim_start();
    let comma = if members.starts_with('}') { "" } else { "," };
    [head, comma, members].concat().into_bytes()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn items(body: &str) -> Vec<String> {
        let page = page(body.as_bytes()).unwrap();
        page.items
            .into_iter()
            .map(|item| String::from_utf8(item).unwrap())
            .collect()
    }

    #[test]
    fn items_of_built_in_resources_get_their_type() {
        let built_in = r#"{"kind":"PodList","apiVersion":"v1","metadata":{"resourceVersion":"7","continue":"next"},
            "items":[{"metadata":{"name":"a"}}, { } , {"apiVersion":"v1","kind":"Pod","metadata":{"name":"b"}}]}"#;
        assert_eq!(
            items(built_in),
            [
                r#"{"apiVersion":"v1","kind":"Pod","metadata":{"name":"a"}}"#,
                r#"{"apiVersion":"v1","kind":"Pod"}"#,
                r#"{"apiVersion":"v1","kind":"Pod","metadata":{"name":"b"}}"#,
            ]
        );
        let page = page(built_in.as_bytes()).unwrap();
        assert_eq!((page.cursor.as_str(), page.resource_version.as_str()), ("next", "7"));
        assert!(items(r#"{"kind":"PodList","apiVersion":"v1","metadata":{},"items":null}"#).is_empty());
    }

    #[test]
    fn a_response_that_is_not_a_list_is_an_error() {
        for (body, cause) in [
            ("<html>", "expected value"),
            (r#"{"kind":"Pod","apiVersion":"v1","items":[]}"#, "its kind is \"Pod\""),
            (r#"{"kind":"PodList","apiVersion":"v1","items":[1]}"#, "invalid type"),
        ] {
            let error = page(body.as_bytes()).unwrap_err();
            assert!(error.message.contains(cause), "{}", error.message);
        }
    }

    #[test]
    fn the_name_and_uid_of_a_document_are_read() {
        assert_eq!(name_of(br#"{"metadata":{"name":"a"}}"#).unwrap(), "a");
        assert_eq!(name_of(br#"{"metadata":{"generateName":"a-"}}"#).unwrap(), "");
        assert!(name_of(b"[]").is_err() && name_of(br#"{"metadata":{"name":1}}"#).is_err());
        let twice = br#"{"metadata":{"name":"a"},"metadata":{"name":"b"}}"#;
        assert!(
            name_of(twice).is_err(),
            "it is undefined which name the API server uses"
        );
        assert!(has_uid(br#"{"metadata":{"uid":"u"}}"#).unwrap());
        assert!(!has_uid(br#"{"metadata":{"uid":""}}"#).unwrap() && !has_uid(b"{}").unwrap());
    }
}
