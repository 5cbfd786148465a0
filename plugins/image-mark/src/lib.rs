//! Labels each pod by how firmly its images are pinned, so that `kubectl get pods -l informant/images=floating` finds
//! those that may run something else after the next restart, and a policy or a dashboard can count them.
//!
//! | `informant/images` | |
//! |---|---|
//! | `floating` | an image has no tag, or the tag `latest` |
//! | `tagged` | each has another tag or a digest, and one has no digest |
//! | `pinned` | each has a digest |
//!
//! It writes to what it watches, so it is told of its own writes. It does not chase them: it asks for changes of the
//! images and the labels alone, and compares before it writes. One pod costs one write, and the event of that write a
//! comparison.
//!
//! Needs, in its section of config.toml:
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

/// The label that is written.
const LABEL: &str = "informant/images";

struct ImageMark;

impl Plugin for ImageMark {
    fn describe() -> Manifest {
        Manifest::new()
            .events(Events::of("v1", "Pod").fields(pod::POINTERS).changed_only())
            .needs(Need::kube([Verb::Patch], "v1/pods"))
    }

    fn init(_: Init) -> Result<Self> {
        Ok(Self)
    }
}

impl EventHandler for ImageMark {
    type Object = Pod;

    fn on_upsert(&mut self, event: &Event, pod: Pod) -> Result {
        let Some(wanted) = pod.images().map(Pinning::of).min() else {
            return Ok(());
        };
        if pod.is_going() || pod.label(LABEL) == Some(wanted.as_str()) {
            return Ok(());
        }
        mark(event, wanted)
    }
}

/// Writes the label, to this pod and not to another of its name.
fn mark(event: &Event, pinning: Pinning) -> Result {
    let pod = kube::object("v1/pods", &event.namespace, &event.name);
    let label = json!({ "metadata": { "uid": event.uid, "labels": { LABEL: pinning.as_str() } } });
    match kube::patch(&pod).merge(&label) {
        Ok(_) => {
            info!("{event}: images are {}", pinning.as_str());
            Ok(())
        }
        // It is gone, or another pod has its name: of that the next event tells.
        Err(error) if error.is_not_found() || error.is_conflict() => Ok(()),
        Err(error) => Err(error)?,
    }
}

export!(ImageMark: events);

#[cfg(test)]
mod tests;
