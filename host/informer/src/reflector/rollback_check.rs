//! Whether the cluster went back in time while it could not be reached.
//!
//! Owns one question, asked when the API server was away and is there again. A watch opened at a version that is yet to
//! come is not refused: it is silent until that version has been passed, with everything before it unseen. client-go
//! waits through this with a cache of things that are gone (kubernetes/kubernetes#91073); here the newest version is
//! asked for before the watch goes on.

use informant_cache::Moment;
use informant_object::frames::ListSplitter;

use super::Reflector;
use crate::api::{ANSWER_SILENCE_MAX, ApiError, Frames, ListQuery, SilenceTimeout, open};

/// The smallest list there is; its head has the version.
const ITEMS: usize = 1;

impl Reflector {
    /// Whether the newest state is older than what was seen. Versions that are no numbers cannot tell.
    pub(super) async fn was_rolled_back(&self) -> Result<bool, ApiError> {
        let Some(seen) = self.versions.last().and_then(|version| version.number()) else {
            return Ok(false);
        };
        Ok(self.newest_version().await?.is_some_and(|newest| newest < seen))
    }

    /// The version of the newest state, of a consistent list; `None` if it is no number.
    async fn newest_version(&self) -> Result<Option<u64>, ApiError> {
        let environment = &self.parts.environment;
        let request = self.parts.request.list(&ListQuery {
            version: None,
            limit: ITEMS,
            continuation: None,
        })?;
        let response = open(&self.parts.client, environment, request).await?;
        let silence_timeout = SilenceTimeout {
            until: Moment::ZERO,
            silence: ANSWER_SILENCE_MAX,
        };
        let mut frames = Frames::new(response.into_body(), environment.clone(), silence_timeout);
        let mut splitter = ListSplitter::new(self.parts.options.watch_line_bytes_max);
        while let Some(frame) = frames.next().await? {
            splitter.push(frame.bytes);
            while splitter.next_part()?.is_some() {}
        }
        Ok(splitter.finish()?.version.number())
    }
}
