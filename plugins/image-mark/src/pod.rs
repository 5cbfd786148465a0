//! The fields of a pod that this plugin reads.

use std::collections::BTreeMap;

use informant_plugin_sdk::prelude::*;
use serde::Deserialize;

/// The fields that the manifest requests: changes of other fields are no events.
#[derive(Debug, Deserialize, Projection)]
#[projection(api_version = "v1", kind = "Pod")]
pub(crate) struct Pod {
    metadata: Metadata,
    #[serde(default)]
    spec: Spec,
}

#[derive(Debug, Deserialize, Projection)]
#[serde(rename_all = "camelCase")]
struct Metadata {
    #[serde(default)]
    labels: BTreeMap<String, String>,
    deletion_timestamp: Option<String>,
}

#[derive(Debug, Default, Deserialize, Projection)]
#[serde(rename_all = "camelCase", default)]
struct Spec {
    init_containers: Vec<Container>,
    containers: Vec<Container>,
    ephemeral_containers: Vec<Container>,
}

#[derive(Debug, Deserialize, Projection)]
struct Container {
    #[serde(default)]
    image: String,
}

impl Pod {
    /// The image references of all containers.
    pub(crate) fn images(&self) -> impl Iterator<Item = &str> {
        let all = [
            &self.spec.init_containers,
            &self.spec.containers,
            &self.spec.ephemeral_containers,
        ];
        let images = all.into_iter().flatten().map(|container| container.image.as_str());
        images.filter(|image| !image.is_empty())
    }

    pub(crate) fn label(&self, key: &str) -> Option<&str> {
        self.metadata.labels.get(key).map(String::as_str)
    }

    /// Whether the pod is being deleted.
    pub(crate) fn is_terminating(&self) -> bool {
        self.metadata.deletion_timestamp.is_some()
    }
}
