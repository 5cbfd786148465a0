//! Waiting until the cache has seen a version, so that clients of the admin API can read their own writes.
//!
//! Waits are bounded in time ([`VERSION_WAIT_MAX`]) and number ([`VERSION_WAITS_MAX`]), and end when the client
//! disconnects.

use std::sync::Arc;
use std::time::Duration;

use futures::future::try_join_all;
use informant_cache::Snapshot;
use informant_informer::{NotFresh, SharedInformer};
use informant_object::ResourceVersion;
use serde::{Deserialize, Serialize};

use super::AdminState;
use super::error::{AdminError, Code};

/// How long to wait for a version by default.
pub(crate) const VERSION_WAIT_DEFAULT: Duration = Duration::from_secs(10);

/// The longest wait for a version; a request for more is refused. Bookmarks arrive about once a minute, so a healthy
/// source sees every version within this time.
pub(crate) const VERSION_WAIT_MAX: Duration = Duration::from_secs(120);

/// How many requests may wait for a version at a time. Each is a connection and a task; one more gets 429 `busy`.
pub(crate) const VERSION_WAITS_MAX: usize = 128;

#[derive(Debug, Default, Deserialize)]
#[serde(deny_unknown_fields, rename_all = "kebab-case")]
pub(super) struct FreshnessQuery {
    /// Wait until the store has seen everything up to this version.
    pub(super) at_least: Option<String>,
    /// The epoch of that version; by default the present one.
    pub(super) epoch: Option<u64>,
    pub(super) timeout_ms: Option<u64>,
}

/// A version to wait for.
#[derive(Debug)]
pub(super) struct AtLeast {
    version: ResourceVersion,
    epoch: Option<u64>,
    timeout: Duration,
}

/// The version that a source had reached when a wait failed.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub(crate) struct FreshAsOf {
    pub source: u32,
    pub state: String,
    /// Null before its first list.
    pub resource_version: Option<String>,
    pub epoch: u64,
}

impl FreshnessQuery {
    /// `None` if no version is requested.
    pub(super) fn parse(&self) -> Result<Option<AtLeast>, AdminError> {
        let Some(version) = &self.at_least else {
            if self.epoch.is_some() || self.timeout_ms.is_some() {
                let message = "`epoch` and `timeout-ms` need `at-least`, the version to wait for";
                return Err(AdminError::new(Code::Invalid, message));
            }
            return Ok(None);
        };
        let timeout = self.timeout_ms.map_or(VERSION_WAIT_DEFAULT, Duration::from_millis);
        if timeout > VERSION_WAIT_MAX {
            let message = format!("`timeout-ms` is at most {}", VERSION_WAIT_MAX.as_millis());
            return Err(AdminError::new(Code::Invalid, message));
        }
        Ok(Some(AtLeast {
            version: ResourceVersion::new(version),
            epoch: self.epoch,
            timeout,
        }))
    }
}

impl AtLeast {
    /// Snapshots of all `sources` that have seen the version, in their order.
    pub(super) async fn seen_by(
        &self,
        sources: &[Arc<SharedInformer>],
        state: &AdminState,
    ) -> Result<Vec<Snapshot>, AdminError> {
        let _waits = state.version_wait()?;
        try_join_all(sources.iter().map(async |source| {
            let seen = source.wait_for_version(&self.version, self.epoch, self.timeout).await;
            seen.map_err(|error| not_fresh(source, &error))
        }))
        .await
    }
}

fn not_fresh(source: &SharedInformer, error: &NotFresh) -> AdminError {
    let code = match error {
        NotFresh::Timeout { .. } => Code::Timeout,
        NotFresh::Stale { .. } => Code::Stale,
        NotFresh::Unsupported(_) => Code::Unsupported,
        NotFresh::Stopped => {
            let id = source.source().0;
            let message = format!("source {id} was stopped while waiting; list the informer's sources again");
            return AdminError::new(Code::UnknownSource, message);
        }
    };
    let snapshot = source.snapshot();
    AdminError::new(code, error.to_string()).at(FreshAsOf {
        source: source.source().0,
        state: source.status().state.as_str().to_owned(),
        resource_version: snapshot.version().map(|version| version.as_str().to_owned()),
        epoch: snapshot.epoch(),
    })
}
