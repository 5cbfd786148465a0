//! Which version and page size the next list asks for.

use informant_object::ResourceVersion;

use super::LIST_PAGE_ITEMS;

/// What past lists and watches imply for the next list.
///
/// Source: client-go `relistResourceVersion` and the paging rules of `Reflector.list`.
#[derive(Debug, Default)]
pub(crate) struct ListVersions {
    /// Always request pages of this many items.
    page_items: Option<usize>,
    /// The version up to which the source was seen.
    last: Option<ResourceVersion>,
    /// The last version was refused as expired or too large: request the newest state.
    unavailable: bool,
    /// A list at "0" came in pages: the server has no watch cache, so keep paging.
    paginated: bool,
}

#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct ListPlan {
    /// `None` requests the newest state, consistently.
    pub(crate) version: Option<String>,
    /// Items per page; 0 leaves it to the server, so that its watch cache can serve the list.
    pub(crate) limit: usize,
}

impl ListVersions {
    /// Before the first list; `page_items` as in [`ReflectorOptions`](super::ReflectorOptions).
    pub(crate) fn new(page_items: Option<usize>) -> Self {
        Self {
            page_items,
            ..Self::default()
        }
    }

    /// The next list: any version at first, then nothing older than what was seen, the newest state after a refusal.
    pub(crate) fn plan(&self) -> ListPlan {
        let version = match &self.last {
            _ if self.unavailable => None,
            None => Some("0".to_owned()),
            // A server without versions: accept whatever it has now.
            Some(last) if last.is_empty() => None,
            Some(last) => Some(last.as_str().to_owned()),
        };
        let served_by_cache = version.as_deref().is_some_and(|version| version != "0");
        let usual = if served_by_cache && !self.paginated {
            0
        } else {
            LIST_PAGE_ITEMS
        };
        let limit = self.page_items.unwrap_or(usual);
        ListPlan { version, limit }
    }

    /// The next WatchList: the newest state at first and after a refusal, else nothing older than what was seen.
    ///
    /// Source: client-go `rewatchResourceVersion`.
    pub(crate) fn stream_plan(&self) -> ListPlan {
        let last = self.last.as_ref().filter(|last| !last.is_empty() && !self.unavailable);
        ListPlan {
            version: last.map(|last| last.as_str().to_owned()),
            limit: 0,
        }
    }

    /// The requested version is expired or too large.
    pub(crate) fn refused(&mut self) {
        self.unavailable = true;
    }

    /// A list by `plan` succeeded at `version`, in `pages` pages.
    pub(crate) fn listed(&mut self, plan: &ListPlan, version: &ResourceVersion, pages: usize) {
        if plan.version.as_deref() == Some("0") && pages > 1 {
            self.paginated = true;
        }
        self.unavailable = false;
        self.last = Some(version.clone());
    }

    /// The watch received everything up to `version`.
    pub(crate) fn seen(&mut self, version: ResourceVersion) {
        self.last = Some(version);
    }

    /// The version up to which the source was seen.
    pub(crate) fn last(&self) -> Option<&ResourceVersion> {
        self.last.as_ref()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn plan(version: Option<&str>, limit: usize) -> ListPlan {
        ListPlan {
            version: version.map(str::to_owned),
            limit,
        }
    }

    fn listed(versions: &mut ListVersions, version: &str, pages: usize) {
        let plan = versions.plan();
        versions.listed(&plan, &ResourceVersion::new(version), pages);
    }

    #[test]
    fn the_first_list_accepts_any_version_later_ones_nothing_older() {
        let mut versions = ListVersions::default();
        assert_eq!(versions.plan(), plan(Some("0"), 500));
        listed(&mut versions, "10", 1);
        assert_eq!(versions.plan(), plan(Some("10"), 0));
        versions.seen(ResourceVersion::new("17"));
        assert_eq!(versions.plan(), plan(Some("17"), 0));
    }

    #[test]
    fn after_a_refused_version_lists_request_the_newest_state() {
        let mut versions = ListVersions::default();
        listed(&mut versions, "10", 1);
        versions.refused();
        assert_eq!(versions.plan(), plan(None, 500));
        listed(&mut versions, "12", 3);
        assert_eq!(versions.plan(), plan(Some("12"), 0));
    }

    #[test]
    fn a_paged_list_at_version_zero_keeps_paging() {
        let mut versions = ListVersions::default();
        listed(&mut versions, "10", 2);
        assert_eq!(versions.plan(), plan(Some("10"), 500));
    }

    #[test]
    fn a_watch_list_requests_the_newest_state_then_nothing_older() {
        let mut versions = ListVersions::default();
        assert_eq!(versions.stream_plan(), plan(None, 0));
        listed(&mut versions, "10", 1);
        assert_eq!(versions.stream_plan(), plan(Some("10"), 0));
        versions.refused();
        assert_eq!(versions.stream_plan(), plan(None, 0));
    }

    #[test]
    fn a_configured_page_size_is_always_used() {
        let mut versions = ListVersions::new(Some(4));
        assert_eq!(versions.plan(), plan(Some("0"), 4));
        listed(&mut versions, "10", 1);
        assert_eq!(versions.plan(), plan(Some("10"), 4));
    }
}
