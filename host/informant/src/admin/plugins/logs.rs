//! The last log lines about a plugin: its own, and Informant's.

use axum::Json;
use axum::extract::rejection::QueryRejection;
use axum::extract::{Path, Query, State};
use serde::{Deserialize, Serialize};

use super::known;
use crate::admin::AdminState;
use crate::admin::error::{AdminError, Code};
use crate::logging::{self, RecentLine};

#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub(in crate::admin) struct LogsQuery {
    /// The number of the first requested line; 0 for all.
    #[serde(default)]
    from: u64,
}

#[derive(Debug, Clone, Default, Serialize, Deserialize)]
pub(crate) struct LogsView {
    /// The number of the line that follows: `from` of the next request.
    pub next: u64,
    /// Requested lines that are no longer kept.
    pub dropped: u64,
    /// Oldest first.
    pub items: Vec<LogLineView>,
}

#[derive(Debug, Clone, Default, Serialize, Deserialize)]
pub(crate) struct LogLineView {
    /// In RFC 3339, to the millisecond.
    pub time: String,
    /// `ERROR`, `WARN`, `INFO`, `DEBUG` or `TRACE`.
    pub level: String,
    /// The message and the fields, as in a plain log line.
    pub line: String,
}

pub(in crate::admin) async fn logs(
    State(state): State<AdminState>,
    Path(name): Path<String>,
    query: Result<Query<LogsQuery>, QueryRejection>,
) -> Result<Json<LogsView>, AdminError> {
    let Query(LogsQuery { from }) = query.map_err(|error| AdminError::new(Code::Invalid, error.body_text()))?;
    known(&state.registry, &name)?;
    let recent = logging::recent_lines(&name, from);
    let items = recent.lines.into_iter().map(LogLineView::from);
    Ok(Json(LogsView {
        next: recent.next,
        dropped: recent.dropped,
        items: items.collect(),
    }))
}

impl From<RecentLine> for LogLineView {
    fn from(line: RecentLine) -> Self {
        Self {
            time: format!("{:.3}", line.at),
            level: line.level.to_string(),
            line: line.text,
        }
    }
}
