//! The bounds of one list. Without them an API server, or a proxy in its place, could fill the memory of the process
//! with a list that does not end.

use super::{LIST_PAGES_MAX, ReflectorOptions};
use crate::api::ApiError;

/// What one list has used of its limits, with all its pages.
#[derive(Debug)]
pub(super) struct ListLimits {
    objects_max: usize,
    bytes_max: u64,
    bytes: u64,
    pages: usize,
}

impl ListLimits {
    /// `has_budget`: the budget of all caches limits the bytes that are kept.
    pub(super) fn new(options: &ReflectorOptions, has_budget: bool) -> Self {
        Self {
            objects_max: options.list_objects_max,
            bytes_max: if has_budget { u64::MAX } else { options.list_bytes_max },
            bytes: 0,
            pages: 0,
        }
    }

    /// Another frame of this many bytes arrived, and `objects` are staged.
    ///
    /// # Errors
    /// [`ApiError::TooLarge`] if the list exceeds a limit.
    pub(super) fn frame(&mut self, bytes: usize, objects: usize) -> Result<(), ApiError> {
        self.bytes = self.bytes.saturating_add(bytes as u64);
        let advice = "narrow the informer with `namespaces` or a selector";
        if self.bytes > self.bytes_max {
            let mib = self.bytes_max / (1024 * 1024);
            return Err(ApiError::TooLarge(format!("more than {mib} MiB; {advice}")));
        }
        if objects > self.objects_max {
            let max = self.objects_max;
            return Err(ApiError::TooLarge(format!("more than {max} objects; {advice}")));
        }
        Ok(())
    }

    /// The page that was requested with the continue token `before` is complete and names `next`.
    ///
    /// # Errors
    /// [`ApiError::Damaged`] if that is the same page again, [`ApiError::TooLarge`] for too many pages.
    pub(super) fn page(&mut self, before: &str, next: &str) -> Result<(), ApiError> {
        self.pages += 1;
        if next.is_empty() {
            return Ok(());
        }
        if before == next {
            return Err(ApiError::Damaged(format!(
                "page {} of the list has the continue token of the page before, so the list has no end",
                self.pages
            )));
        }
        if self.pages >= LIST_PAGES_MAX {
            return Err(ApiError::TooLarge(format!(
                "{LIST_PAGES_MAX} pages, and the last one names another"
            )));
        }
        Ok(())
    }

    /// Complete pages.
    pub(super) fn pages(&self) -> usize {
        self.pages
    }
}
