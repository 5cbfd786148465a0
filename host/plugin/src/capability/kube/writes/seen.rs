//! Waits until the cache has seen a write (`writes: "seen"` of the manifest, and reconcilers).

use std::sync::Arc;
use std::time::Duration;

use informant_cache::Source;
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

/// What the cache has of a write.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Look {
    NotYet,
    Seen,
    /// It has passed its version, and does not have the object.
    Absent,
}

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
        self.look(plugin).is_none_or(|(_, look)| look != Look::NotYet)
    }

    /// Whether the cache will see it: it has not, and its source reads all objects.
    pub(super) fn is_coming(&self, plugin: &KubePlugin) -> bool {
        self.look(plugin)
            .is_some_and(|(source, look)| look == Look::NotYet && !source.info().partial)
    }

    /// Whether the object was written and has been removed since, perhaps before the cache had either: then no event
    /// tells of it. Not known of a source that does not read all objects.
    pub(super) fn is_gone(&self, plugin: &KubePlugin) -> bool {
        self.look(plugin)
            .is_some_and(|(source, look)| look == Look::Absent && !source.info().partial)
    }

    /// Whether it deletes what `other` has written.
    pub(super) fn deletes(&self, other: &Written) -> bool {
        self.deleted.is_some() && self.address == other.address
    }

    /// What the cache has of it; none if no source reads it.
    fn look(&self, plugin: &KubePlugin) -> Option<(Arc<Source>, Look)> {
        let source = plugin.cache.source(&self.address)?;
        let snapshot = source.snapshot();
        let object = snapshot.get(KeyRef {
            namespace: &self.address.namespace,
            name: &self.address.name,
        });
        if let Some(uid) = &self.deleted {
            // The response to a delete may have the version from before it.
            let is_deleted = object.is_none_or(|object| object.uid() != uid || is_terminating(object));
            return Some((source, if is_deleted { Look::Seen } else { Look::NotYet }));
        }
        let Some(written) = &self.version else {
            return Some((source, Look::Seen));
        };
        let reaches = |seen: &str| match (VersionRef::new(seen).number(), VersionRef::new(written).number()) {
            (Some(seen), Some(written)) => seen >= written,
            _ => seen == &**written,
        };
        let has_passed = snapshot.version().is_some_and(|version| reaches(version.as_str()));
        let look = match object {
            Some(object) if has_passed || reaches(object.version().as_str()) => Look::Seen,
            None if has_passed => Look::Absent,
            _ => Look::NotYet,
        };
        Some((source, look))
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
