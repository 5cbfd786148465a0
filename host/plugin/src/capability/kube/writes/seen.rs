//! Waits until the cache has seen a write (`writes: "seen"` of the manifest, and reconcilers).

use std::time::Duration;

use informant_object::{KeyRef, Object, VersionRef};
use serde::Deserialize;
use serde::de::IgnoredAny;

use crate::capability::kube::KubePlugin;
use crate::capability::kube::api::{KubeAction, KubeAddress};

/// How long an event waits until the cache has seen its writes: 10 s. Then it counts as handled.
pub(crate) const SEEN_MAX: Duration = Duration::from_secs(10);

/// Between the first two looks; it doubles up to [`SEEN_PAUSE_MAX`].
const SEEN_PAUSE: Duration = Duration::from_millis(10);

/// See [`SEEN_PAUSE`].
const SEEN_PAUSE_MAX: Duration = Duration::from_millis(500);

#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Written {
    address: KubeAddress,
    /// The uid of the deleted object; none if it was not deleted.
    deleted: Option<String>,
    /// The version of the written object, if the response had one.
    version: Option<Box<str>>,
}

impl Written {
    /// `name`: of the object, which a create does not have in its address.
    pub(crate) fn new(address: &KubeAddress, name: &str, action: &KubeAction, version: Option<Box<str>>) -> Written {
        Written {
            address: KubeAddress {
                name: name.to_owned(),
                ..address.clone()
            },
            deleted: match action {
                KubeAction::Delete(options) => Some(options.uid.clone()),
                _ => None,
            },
            version,
        }
    }

    /// What a direct call has done to the object at `address`, which has a name.
    pub(crate) fn of(address: KubeAddress, deleted: Option<String>, version: Option<Box<str>>) -> Written {
        Written {
            address,
            deleted,
            version,
        }
    }

    /// Whether the cache has seen it. What no source reads any more need not be waited for.
    pub(super) fn is_seen(&self, plugin: &KubePlugin) -> bool {
        let Some(source) = plugin.cache.source(&self.address) else {
            return true;
        };
        let snapshot = source.snapshot();
        let object = snapshot.get(KeyRef {
            namespace: &self.address.namespace,
            name: &self.address.name,
        });
        if let Some(uid) = &self.deleted {
            // The response to a delete may have the version from before it.
            return object.is_none_or(|object| object.uid() != uid || is_terminating(object));
        }
        let Some(written) = &self.version else { return true };
        let reaches = |seen: &str| match (VersionRef::new(seen).number(), VersionRef::new(written).number()) {
            (Some(seen), Some(written)) => seen >= written,
            _ => seen == &**written,
        };
        object.is_some_and(|object| reaches(object.version().as_str()))
            || snapshot.version().is_some_and(|version| reaches(version.as_str()))
    }
}

fn is_terminating(object: &Object) -> bool {
    #[derive(Deserialize)]
    struct Document {
        metadata: Metadata,
    }
    #[derive(Deserialize)]
    #[serde(rename_all = "camelCase")]
    struct Metadata {
        deletion_timestamp: Option<IgnoredAny>,
    }
    let document: Result<Document, _> = serde_json::from_slice(object.json());
    document.is_ok_and(|document| document.metadata.deletion_timestamp.is_some())
}

/// Waits until the cache has seen all of `written`, for at most [`SEEN_MAX`]. Returns whether it has.
pub(crate) async fn wait(plugin: &KubePlugin, written: &[Written]) -> bool {
    let until = plugin.env.now() + SEEN_MAX;
    let mut pause = SEEN_PAUSE;
    loop {
        let is_seen = written.iter().all(|write| write.is_seen(plugin));
        if is_seen || plugin.env.now() >= until {
            return is_seen;
        }
        plugin.env.sleep(pause).await;
        pause = (pause * 2).min(SEEN_PAUSE_MAX);
    }
}
