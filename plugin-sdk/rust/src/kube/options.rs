//! The options of calls: JSON documents of Kubernetes' meta/v1. Only what is set is written.

use std::time::Duration;

use serde::{Serialize, Serializer};

/// ListOptions
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize)]
#[serde(rename_all = "camelCase")]
pub(super) struct ListOptions {
    #[serde(skip_serializing_if = "String::is_empty")]
    pub(super) label_selector: String,
    #[serde(skip_serializing_if = "String::is_empty")]
    pub(super) field_selector: String,
    #[serde(skip_serializing_if = "is_default")]
    pub(super) limit: u32,
    #[serde(rename = "continue", skip_serializing_if = "String::is_empty")]
    pub(super) cursor: String,
}

/// CreateOptions, UpdateOptions and PatchOptions
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize)]
#[serde(rename_all = "camelCase")]
pub(super) struct WriteOptions {
    #[serde(skip_serializing_if = "String::is_empty")]
    pub(super) field_manager: String,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(super) field_validation: Option<FieldValidation>,
    /// Only for patches.
    #[serde(skip_serializing_if = "is_default")]
    pub(super) force: bool,
    #[serde(serialize_with = "dry_run_all", skip_serializing_if = "is_default")]
    pub(super) dry_run: bool,
}

/// What the API server does with fields that the schema of the resource does not have, and with duplicates.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
#[non_exhaustive]
pub enum FieldValidation {
    /// Drop them.
    Ignore,
    /// Drop them, and warn. The default of the API server.
    Warn,
    /// Reject the request as invalid.
    Strict,
}

/// DeleteOptions
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize)]
#[serde(rename_all = "camelCase")]
pub(super) struct DeleteOptions {
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(super) propagation_policy: Option<&'static str>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(super) grace_period_seconds: Option<u32>,
    #[serde(skip_serializing_if = "is_default")]
    pub(super) preconditions: Preconditions,
    #[serde(serialize_with = "dry_run_all", skip_serializing_if = "is_default")]
    pub(super) dry_run: bool,
}

#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize)]
#[serde(rename_all = "camelCase")]
pub(super) struct Preconditions {
    #[serde(skip_serializing_if = "String::is_empty")]
    pub(super) uid: String,
    #[serde(skip_serializing_if = "String::is_empty")]
    pub(super) resource_version: String,
}

/// The document; empty if nothing is set.
pub(super) fn document<T: Serialize + Default + PartialEq>(options: &T) -> Vec<u8> {
    if is_default(options) {
        return Vec::new();
    }
    serde_json::to_vec(options).expect("options consist of strings, numbers and booleans")
}

/// Rounded up, and at most what the contract can say (136 years).
pub(super) fn whole_seconds(period: Duration) -> u32 {
    u32::try_from(period.as_nanos().div_ceil(1_000_000_000)).unwrap_or(u32::MAX)
}

fn is_default<T: Default + PartialEq>(value: &T) -> bool {
    *value == T::default()
}

/// The only value that Kubernetes knows.
fn dry_run_all<S: Serializer>(_: &bool, serializer: S) -> Result<S::Ok, S::Error> {
    ["All"].serialize(serializer)
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    fn check<T: Serialize + Default + PartialEq>(options: &T, expected: &serde_json::Value) {
        let written: serde_json::Value = serde_json::from_slice(&document(options)).expect("it is JSON");
        assert_eq!(written, *expected);
    }

    #[test]
    fn options_that_are_not_set_are_an_empty_document() {
        assert_eq!(document(&ListOptions::default()), b"");
        assert_eq!(document(&WriteOptions::default()), b"");
        assert_eq!(document(&DeleteOptions::default()), b"");
    }

    #[test]
    fn options_have_the_names_of_meta_v1() {
        let list = ListOptions {
            label_selector: "a=b".to_owned(),
            field_selector: "c=d".to_owned(),
            limit: 7,
            cursor: "x".to_owned(),
        };
        check(
            &list,
            &json!({ "labelSelector": "a=b", "fieldSelector": "c=d", "limit": 7, "continue": "x" }),
        );
        let write = WriteOptions {
            field_manager: "me".to_owned(),
            field_validation: Some(FieldValidation::Strict),
            force: true,
            dry_run: true,
        };
        check(
            &write,
            &json!({ "fieldManager": "me", "fieldValidation": "Strict", "force": true, "dryRun": ["All"] }),
        );
        let delete = DeleteOptions {
            propagation_policy: Some("Foreground"),
            grace_period_seconds: Some(whole_seconds(Duration::from_millis(1_001))),
            preconditions: Preconditions {
                uid: "u".to_owned(),
                resource_version: "1".to_owned(),
            },
            dry_run: true,
        };
        let expected = json!({
            "propagationPolicy": "Foreground",
            "gracePeriodSeconds": 2,
            "preconditions": { "uid": "u", "resourceVersion": "1" },
            "dryRun": ["All"],
        });
        check(&delete, &expected);
    }
}
