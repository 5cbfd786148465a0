//! Labels each pod by how its images are pinned. `kubectl get pods -l informant/images=floating` then finds the pods
//! that may run another image after the next restart, and a policy or dashboard can count them.
//!
//! | `informant/images` | |
//! |---|---|
//! | `floating` | at least one image has no tag, or the tag `latest` |
//! | `tagged` | no image is floating, and at least one has a tag but no digest |
//! | `pinned` | every image has a digest |
//!
//! The plugin writes to the objects that it watches, so it receives events for its own writes. This does not loop: it
//! requests only changes of images and labels, and compares before it writes. Each pod costs one write, and the event
//! of that write one comparison.
//!
//! Required in its section of config.toml:
//!
//! ```toml
//! allow.kube = [{ verbs = ["patch"], resource = "v1/pods" }]
//! ```

mod image;
mod pod;

use informant_plugin_sdk::prelude::*;
use serde_json::json;

use image::Pinning;
use pod::Pod;

/// The label that the plugin writes.
const LABEL: &str = "informant/images";

#[informant::handler(changed_only, needs = Need::kube([Verb::Patch], "v1/pods"))]
fn image_mark(event: &Event, pod: Pod) -> Result {
    let Some(wanted) = pod.images().map(Pinning::of).min() else {
        return Ok(());
    };
    if !pod.is_terminating() && pod.label(LABEL) != Some(wanted.as_str()) {
        label(event, wanted)?;
    }
    Ok(())
}

/// Writes the label in the cluster of the event, only to this pod and not to a later one with the same name.
fn label(event: &Event, pinning: Pinning) -> Result {
    let patch = json!({ "metadata": { "uid": event.uid, "labels": { LABEL: pinning.as_str() } } });
    match kube::patch(&kube::of(event)).merge(&patch) {
        Ok(_) => {
            info!("{event}: images are {}", pinning.as_str());
            Ok(())
        }
        // The pod is gone or was replaced: that has its own event.
        Err(error) if error.is_not_found() || error.is_conflict() => Ok(()),
        Err(error) => Err(error)?,
    }
}

#[cfg(test)]
mod tests;
