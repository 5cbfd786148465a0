//! One line of an answer: an object, and where it is from.

use anyhow::{Context, Result};
use serde::Deserialize;
use serde_json::Value;
use serde_json::value::RawValue;

/// Under this annotation an object is printed as JSON or YAML that is shown beside objects of other clusters.
const CLUSTER_ANNOTATION: &str = "informant/cluster";

/// A line.
#[derive(Debug, Deserialize)]
pub(super) struct Line<'a> {
    /// Empty for the only one.
    pub(super) cluster: &'a str,
    #[serde(borrow)]
    object: &'a RawValue,
}

/// What is read of an object to name it.
#[derive(Debug, Deserialize)]
#[serde(rename_all = "camelCase")]
pub(super) struct Headline {
    pub(super) api_version: String,
    pub(super) kind: String,
    pub(super) metadata: Metadata,
}

#[derive(Debug, Deserialize)]
#[serde(rename_all = "camelCase")]
pub(super) struct Metadata {
    #[serde(default)]
    pub(super) namespace: String,
    pub(super) name: String,
    pub(super) creation_timestamp: Option<String>,
}

impl<'a> Line<'a> {
    pub(super) fn parse(line: &'a [u8]) -> Result<Self> {
        serde_json::from_slice(line).context("the daemon sent something that is not an object of a source")
    }

    pub(super) fn headline(&self) -> Result<Headline> {
        serde_json::from_str(self.object.get()).context("the daemon sent something that is not an object")
    }

    /// The object as a tree of values.
    pub(super) fn object(&self) -> Result<Value> {
        serde_json::from_str(self.object.get()).context("the daemon sent an object that is not JSON")
    }

    /// As [`object`](Self::object), annotated with its cluster.
    pub(super) fn annotated(&self) -> Result<Value> {
        let mut object = self.object()?;
        let annotations = &mut object["metadata"]["annotations"];
        if annotations.is_object() || annotations.is_null() {
            annotations[CLUSTER_ANNOTATION] = self.cluster.into();
        }
        Ok(object)
    }
}

impl Headline {
    /// `pod`, `deployment.apps`: what kubectl calls an object.
    pub(super) fn resource(&self) -> String {
        let kind = self.kind.to_ascii_lowercase();
        match self.group() {
            "" => kind,
            group => format!("{kind}.{group}"),
        }
    }

    /// Empty for the core group.
    pub(super) fn group(&self) -> &str {
        self.api_version.split_once('/').map_or("", |(group, _)| group)
    }
}
