//! Whether the cluster was rolled back while it was unreachable.
//!
//! A watch opened at a version from the future is not refused: it is silent until that version is passed, and
//! everything before it is missed. client-go waits through this with a cache of objects that no longer exist
//! (kubernetes/kubernetes#91073). Informant asks for the newest version before it reopens the watch.

use informant_cache::Moment;
use informant_object::frames::ListSplitter;

use super::Reflector;
use crate::api::{ANSWER_SILENCE_MAX, ApiError, Frames, ListQuery, SilenceTimeout, open};

/// The smallest possible list; its head has the version.
const ITEMS: usize = 1;

impl Reflector {
    /// Whether the newest state is older than what was seen. False for versions that are not integers.
    pub(super) async fn was_rolled_back(&self) -> Result<bool, ApiError> {
        let Some(seen) = self.versions.last().and_then(|version| version.number()) else {
            return Ok(false);
        };
        Ok(self.newest_version().await?.is_some_and(|newest| newest < seen))
    }

    /// The version of a consistent list; `None` if it is not an integer.
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
