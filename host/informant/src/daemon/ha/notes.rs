//! What the holder of a Lease says in it for its successor.

use std::time::Duration;

use informant_lease::{LeaseContent, Notes};

use crate::daemon::acting::Watermarks;
use crate::replicas::Group;

/// The oldest delete that a holder may publish, as its age: a day. Anything may be written into a Lease, and what a
/// standby keeps is limited by number and bytes anyway.
const OLDEST_DELETE_SECONDS_MAX: u64 = 86_400;

/// The note of watermarks in the Lease.
const WATERMARKS: &str = "watermarks";

/// The note of the digest of the configuration to which these belong.
const CONFIGURATION: &str = "configuration";

/// The note of how old the oldest delete is that the holder has not handled, in seconds.
const OLDEST_DELETE_SECONDS: &str = "oldest-delete-seconds";

/// Sets what the Lease says once this process holds it. A standby has no watermarks: those of the predecessor end with
/// the acquisition, because this process may deliver again what they cover, and be lost before the delete of that.
pub(super) fn write_notes(
    group: &Group,
    shard: u8,
    (configuration, watermarks): (&str, &str),
    oldest_delete: Option<Duration>,
) {
    let oldest = oldest_delete.unwrap_or_default().as_secs().to_string();
    let notes = [
        (CONFIGURATION, configuration),
        (WATERMARKS, watermarks),
        (OLDEST_DELETE_SECONDS, oldest.as_str()),
    ];
    // Watermarks fit.
    if let Ok(notes) = Notes::new(notes) {
        group.set_notes(shard, notes);
    }
}

/// What the predecessor has published.
pub(super) fn watermarks(content: &LeaseContent, own_digest: &str) -> Watermarks {
    let note = |name| content.notes.get(name).unwrap_or_default();
    // Another configuration may have selected other objects: what is new here was not accepted there.
    match note(CONFIGURATION) == own_digest {
        true => Watermarks::parse(note(WATERMARKS)),
        false => Watermarks::default(),
    }
}

/// The age of the oldest delete that the holder has not handled.
pub(super) fn published_oldest_delete(content: &LeaseContent) -> Option<Duration> {
    let seconds = content.notes.get(OLDEST_DELETE_SECONDS)?;
    let seconds: u64 = seconds.parse().ok()?;
    Some(Duration::from_secs(seconds.min(OLDEST_DELETE_SECONDS_MAX)))
}
