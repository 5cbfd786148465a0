//! The columns in which `informant status` and `informant get sources` show a source alike.

use super::table::{self, or_nothing};
use crate::admin::SourceView;

/// What each table of sources begins with.
pub(super) struct SourceColumns {
    /// Only where clusters have names: else there is one.
    with_cluster: bool,
}

impl SourceColumns {
    pub(super) fn of(sources: &[SourceView]) -> Self {
        let with_cluster = sources.iter().any(|source| !source.cluster.is_empty());
        Self { with_cluster }
    }

    /// `version` is what the table calls the version that a source has seen everything up to.
    pub(super) fn headings(&self, version: &'static str) -> Vec<&'static str> {
        let mut headings = vec!["INFORMER"];
        headings.extend(self.with_cluster.then_some("CLUSTER"));
        headings.extend(["RESOURCE", "NAMESPACE", "STATE", "OBJECTS", version, "SEEN", "BOOKMARK"]);
        headings
    }

    /// A cell for each of the [`headings`](Self::headings).
    pub(super) fn row(&self, source: &SourceView) -> Vec<String> {
        let ago = |age_ms: Option<u64>| or_nothing(age_ms, |age_ms| format!("{} ago", table::ago(age_ms)));
        let mut row = vec![source.informer.clone()];
        row.extend(self.with_cluster.then(|| source.cluster.clone()));
        row.extend([
            source.resource.clone(),
            source.namespace.clone().unwrap_or_else(|| "*".to_owned()),
            source.state.clone(),
            source.objects.to_string(),
            or_nothing(source.resource_version.clone(), |version| version),
            ago(source.last_event_age_ms),
            ago(source.bookmark_age_ms),
        ]);
        row
    }
}
