//! The options of `kube` calls, read strictly, as Informant does.

use serde::de::DeserializeOwned;
use serde::{Deserialize, Serialize};

use super::cluster::refusal;
use crate::bindings::imports::informant::plugin::kube::{ApiError, ApiErrorCode};

#[derive(Default, Deserialize)]
#[serde(default, deny_unknown_fields, rename_all = "camelCase")]
pub(super) struct ListOptions {
    pub(super) label_selector: String,
    pub(super) field_selector: String,
    pub(super) limit: u32,
    #[serde(rename = "continue")]
    pub(super) cursor: String,
}

/// The kit has neither managers nor schemas.
#[derive(Default, Deserialize)]
#[serde(default, deny_unknown_fields, rename_all = "camelCase")]
pub(super) struct WriteOptions {
    #[serde(rename = "fieldManager")]
    _field_manager: String,
    #[serde(rename = "fieldValidation")]
    _field_validation: String,
    pub(super) force: bool,
    dry_run: Vec<String>,
}

impl WriteOptions {
    pub(super) fn is_dry_run(&self) -> bool {
        !self.dry_run.is_empty()
    }
}

/// The kit deletes at once, and only the object.
#[derive(Default, Deserialize)]
#[serde(default, deny_unknown_fields, rename_all = "camelCase")]
pub(super) struct DeleteOptions {
    #[serde(rename = "propagationPolicy")]
    _propagation_policy: String,
    #[serde(rename = "gracePeriodSeconds")]
    _grace_period_seconds: u32,
    pub(super) preconditions: Preconditions,
    dry_run: Vec<String>,
}

impl DeleteOptions {
    pub(super) fn is_dry_run(&self) -> bool {
        !self.dry_run.is_empty()
    }
}

#[derive(Default, Deserialize, Serialize)]
#[serde(default, deny_unknown_fields, rename_all = "camelCase")]
pub(super) struct Preconditions {
    pub(super) uid: String,
    pub(super) resource_version: String,
}

/// An empty document has no options.
pub(super) fn parse<T: DeserializeOwned + Default>(options: &[u8]) -> Result<T, ApiError> {
    if options.is_empty() {
        return Ok(T::default());
    }
    serde_json::from_slice(options).map_err(|error| refusal(ApiErrorCode::Invalid, format!("options: {error}")))
}
