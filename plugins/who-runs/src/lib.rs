//! Indexes pods by container image, to answer "who runs this image?".
//!
//! | index | values |
//! |---|---|
//! | `image` | each image, as the pod's spec writes it |
//! | `image-repository` | the full repository of each image, without tag and digest |
//!
//! ```sh
//! informant get pods --index image=nginx:1.25
//! informant get pods --index image-repository=docker.io/library/nginx
//! ```
//!
//! Containers, init containers and ephemeral containers count. `image` is literal: `nginx:1.25` and
//! `docker.io/library/nginx:1.25` are two values in `image` and one in `image-repository`.

mod repository;

use informant_plugin_sdk::prelude::*;
use serde::Deserialize;

/// The plugin. It takes no config.
#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct WhoRuns {}

#[derive(Deserialize)]
struct Pod {
    #[serde(default)]
    spec: Spec,
}

#[derive(Default, Deserialize)]
#[serde(rename_all = "camelCase", default)]
struct Spec {
    containers: Vec<Container>,
    init_containers: Vec<Container>,
    ephemeral_containers: Vec<Container>,
}

#[derive(Deserialize)]
struct Container {
    /// Empty if it is absent, as a pod's template allows.
    #[serde(default)]
    image: String,
}

impl Plugin for WhoRuns {
    fn describe(_: Describe) -> Result<Manifest> {
        Ok(Manifest::new()
            .index("image")
            .index("image-repository")
            .indexed(Objects::of("v1", "Pod").fields([
                "/spec/containers/*/image",
                "/spec/initContainers/*/image",
                "/spec/ephemeralContainers/*/image",
            ])))
    }

    fn init(init: Init) -> Result<Self> {
        init.config()
    }
}

impl IndexFuncs for WhoRuns {
    type Object = Pod;

    fn index(&mut self, _: &ObjectRef, pod: Pod) -> Result<IndexValues> {
        let Spec {
            containers,
            init_containers,
            ephemeral_containers,
        } = pod.spec;
        let all = [containers, init_containers, ephemeral_containers]
            .into_iter()
            .flatten();
        let mut images: Vec<String> = all
            .map(|container| container.image)
            .filter(|image| !image.is_empty())
            .collect();
        images.sort();
        images.dedup();
        let mut repositories: Vec<String> = images.iter().map(|image| repository::of(image)).collect();
        repositories.sort();
        repositories.dedup();
        Ok(IndexValues::new()
            .with("image", images)
            .with("image-repository", repositories))
    }
}

export!(WhoRuns: index);

#[cfg(test)]
mod tests;
