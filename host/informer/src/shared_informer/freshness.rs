//! Waiting until the cache has seen a version: read your own writes.
//!
//! A write to the cluster returns a version. Once the store has seen everything up to it, a lookup finds that write or
//! something newer. Versions can only be compared within one source epoch: after a restored backup the old ones are
//! meaningless, and waits for them fail as stale.
//!
//! Source: KEP-5647 (`LastStoreSyncResourceVersion`, which client-go users have to poll).

use std::time::Duration;

use informant_cache::{Snapshot, SourceState};
use informant_object::ResourceVersion;

use super::SharedInformer;

/// Why the store may not have seen a version.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum NotFresh {
    /// Not yet. A version of another resource, or of an object outside of the source's selectors, is seen with the next
    /// bookmark, about once a minute.
    #[error(
        "version {wanted} was not seen within {:.1} s; the source is {state}, {}", .waited.as_secs_f64(), fresh_as_of(.seen)
    )]
    Timeout {
        /// The requested version.
        wanted: ResourceVersion,
        /// The version up to which everything was seen; `None` before the first list.
        seen: Option<ResourceVersion>,
        /// The source's state.
        state: SourceState,
        /// How long the call waited.
        waited: Duration,
    },
    /// The version is of another epoch than the store: the cluster was rolled back in between. Read the object again.
    #[error(
        "version {wanted} is stale: it belongs to epoch {epoch}, but the cluster was rolled back and the source is in epoch {now}; read the object again"
    )]
    Stale {
        /// The requested version.
        wanted: ResourceVersion,
        /// The requested epoch.
        epoch: u64,
        /// The source's epoch.
        now: u64,
    },
    /// Versions that are not integers cannot be compared.
    #[error("unsupported: version {0:?} is not an integer and cannot be compared")]
    Unsupported(String),
    /// The informer was stopped.
    #[error("the informer was stopped; start it again to wait for it")]
    Stopped,
}

fn fresh_as_of(seen: &Option<ResourceVersion>) -> String {
    match seen {
        Some(version) => format!("fresh as of {}", version.as_str()),
        None => "its first list is not complete".to_owned(),
    }
}

impl SharedInformer {
    /// Waits until the store has seen everything up to `wanted`, for at most `timeout`, and returns a state that has:
    /// it contains what was written at `wanted`, or something newer.
    ///
    /// `epoch` is the source epoch of the version ([`Snapshot::epoch`],
    /// [`ReflectorStatus::epoch`](crate::ReflectorStatus::epoch)); `None` is the present one. Version `0` is any
    /// version: seen with the first list.
    ///
    /// # Errors
    /// [`NotFresh`].
    pub async fn wait_for_version(
        &self,
        wanted: &ResourceVersion,
        epoch: Option<u64>,
        timeout: Duration,
    ) -> Result<Snapshot, NotFresh> {
        let Some(number) = wanted.number() else {
            return Err(NotFresh::Unsupported(wanted.as_str().to_owned()));
        };
        let epoch = epoch.unwrap_or_else(|| self.source.snapshot().epoch());
        let mut ended = self.loop_ended.clone();
        tokio::select! {
            biased;
            seen = self.seen(wanted, number, epoch) => seen,
            _ = ended.wait_for(|ended| *ended) => Err(NotFresh::Stopped),
            () = self.environment.sleep(timeout) => {
                let snapshot = self.source.snapshot();
                Err(NotFresh::Timeout {
                    wanted: wanted.clone(),
                    seen: snapshot.version().cloned(),
                    state: self.source.state(),
                    waited: timeout,
                })
            }
        }
    }

    async fn seen(&self, wanted: &ResourceVersion, number: u64, epoch: u64) -> Result<Snapshot, NotFresh> {
        let waiting = self.status.published.subscribe();
        loop {
            // Enabled before the check, so that no publish in between is missed.
            let mut published = std::pin::pin!(waiting.published());
            published.as_mut().enable();
            let snapshot = self.source.snapshot();
            if snapshot.epoch() != epoch {
                return Err(NotFresh::Stale {
                    wanted: wanted.clone(),
                    epoch,
                    now: snapshot.epoch(),
                });
            }
            if let Some(version) = snapshot.version() {
                match version.number() {
                    Some(seen) if seen >= number => return Ok(snapshot),
                    Some(_) => {}
                    None => return Err(NotFresh::Unsupported(version.as_str().to_owned())),
                }
            }
            published.await;
        }
    }
}
