//! Waiting until the cache has seen a version, on behalf of who asks the admin API: reading one's own writes.
//!
//! What is waited for is bounded in time ([`VERSION_WAIT_MAX`]) and in number ([`VERSION_WAITS_MAX`]); who hangs up
//! waits no longer.

use std::sync::Arc;
use std::time::Duration;

use futures::future::try_join_all;
use informant_cache::Snapshot;
use informant_informer::{NotFresh, SharedInformer};
use informant_object::ResourceVersion;
use serde::{Deserialize, Serialize};

use super::AdminState;
use super::error::{ApiError, Code};

/// How long is waited for a version when the question does not say.
pub const VERSION_WAIT_DEFAULT: Duration = Duration::from_secs(10);

/// How long is waited for a version at most; a question that asks for more is refused. Bookmarks come about once a
/// minute, so that every version is seen within it by a source that is well.
pub const VERSION_WAIT_MAX: Duration = Duration::from_secs(120);

/// How many questions may wait for a version at a time. Each is a connection and a task; one more is answered 429
/// `busy`.
pub const VERSION_WAITS_MAX: usize = 256;

/// What of a question is about freshness.
#[derive(Debug, Default, Deserialize)]
#[serde(deny_unknown_fields, rename_all = "kebab-case")]
pub(super) struct Asked {
    /// The answer is to wait until the store has seen everything up to this version.
    pub(super) at_least: Option<String>,
    /// Of which epoch that version is; that of the moment unless it says otherwise.
    pub(super) epoch: Option<u64>,
    /// How long to wait.
    pub(super) timeout_ms: Option<u64>,
}

/// A version to wait for.
#[derive(Debug)]
pub(super) struct AtLeast {
    version: ResourceVersion,
    epoch: Option<u64>,
    timeout: Duration,
}

/// Up to where a source had seen everything when waiting for more ended.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub struct FreshAsOf {
    /// The source's number.
    pub source: u32,
    /// How it fares.
    pub state: String,
    /// Null before its first list.
    pub resource_version: Option<String>,
    /// The epoch in which that version means something.
    pub epoch: u64,
}

impl Asked {
    /// None if no version is asked for.
    pub(super) fn judge(&self) -> Result<Option<AtLeast>, ApiError> {
        let Some(version) = &self.at_least else {
            if self.epoch.is_some() || self.timeout_ms.is_some() {
                let message = "`epoch` and `timeout-ms` say how to wait for a version: name it with `at-least`";
                return Err(ApiError::new(Code::Invalid, message));
            }
            return Ok(None);
        };
        let timeout = self.timeout_ms.map_or(VERSION_WAIT_DEFAULT, Duration::from_millis);
        if timeout > VERSION_WAIT_MAX {
            let message = format!("`timeout-ms` is at most {}", VERSION_WAIT_MAX.as_millis());
            return Err(ApiError::new(Code::Invalid, message));
        }
        Ok(Some(AtLeast {
            version: ResourceVersion::new(version),
            epoch: self.epoch,
            timeout,
        }))
    }
}

impl AtLeast {
    /// States of all of `sources` that have seen the version, in their order.
    pub(super) async fn seen_by(
        &self,
        sources: &[Arc<SharedInformer>],
        state: &AdminState,
    ) -> Result<Vec<Snapshot>, ApiError> {
        let _waits = state.version_wait()?;
        try_join_all(sources.iter().map(async |source| {
            let seen = source.wait_for_version(&self.version, self.epoch, self.timeout).await;
            seen.map_err(|error| not_fresh(source, &error))
        }))
        .await
    }
}

fn not_fresh(source: &SharedInformer, error: &NotFresh) -> ApiError {
    let code = match error {
        NotFresh::Timeout { .. } => Code::Timeout,
        NotFresh::Stale { .. } => Code::Stale,
        NotFresh::Unsupported(_) => Code::Unsupported,
        NotFresh::Stopped => {
            let id = source.source().0;
            let message = format!("source {id} was stopped meanwhile; ask for the informer's sources anew");
            return ApiError::new(Code::UnknownSource, message);
        }
    };
    let snapshot = source.snapshot();
    ApiError::new(code, error.to_string()).at(FreshAsOf {
        source: source.source().0,
        state: source.status().state.as_str().to_owned(),
        resource_version: snapshot.version().map(|version| version.as_str().to_owned()),
        epoch: snapshot.epoch(),
    })
}
