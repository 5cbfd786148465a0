//! One line of a response: an object, and the cluster it is from.

use anyhow::{Context, Result};
use informant_apiserver::tree;
use serde::Deserialize;
use serde_json::Value;
use serde_json::value::RawValue;

/// The annotation for an object's cluster, for JSON and YAML that mixes clusters.
const CLUSTER_ANNOTATION: &str = "informant/cluster";

/// The error for a line of another form.
const UNPARSABLE: &str =
    "the daemon sent an object line that cannot be parsed; is it the same version as this program?";

#[derive(Debug, Deserialize)]
pub(super) struct Line<'a> {
    /// Empty for a single unnamed cluster.
    pub(super) cluster: &'a str,
    /// The number of its source in the daemon.
    #[serde(default)]
    pub(super) source: u32,
    #[serde(borrow)]
    object: &'a RawValue,
}

/// The fields of an object that name it.
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
    #[serde(default)]
    pub(super) resource_version: String,
    pub(super) creation_timestamp: Option<String>,
    #[serde(default)]
    pub(super) labels: Value,
}

impl<'a> Line<'a> {
    pub(super) fn parse(line: &'a [u8]) -> Result<Self> {
        serde_json::from_slice(line).context(UNPARSABLE)
    }

    pub(super) fn headline(&self) -> Result<Headline> {
        serde_json::from_str(self.object.get()).context(UNPARSABLE)
    }

    /// The object as a tree, in which what is nested very deep is text.
    pub(super) fn object(&self) -> Result<Value> {
        tree::read(self.object.get().as_bytes()).context(UNPARSABLE)
    }

    /// Like [`object`](Self::object), annotated with its cluster.
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
    /// `pod`, `deployment.apps`: the prefix of kubectl's `-o name`.
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
