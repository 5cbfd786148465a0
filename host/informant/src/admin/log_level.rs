//! `POST /api/v1/loglevel`: changes the log level until the process ends.

use axum::extract::rejection::JsonRejection;
use axum::{Extension, Json};
use serde::{Deserialize, Serialize};

use super::access::Caller;
use super::error::{AdminError, Code};

#[derive(Debug, Clone, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub(crate) struct LogLevelRequest {
    /// As in `--log-level`.
    pub level: String,
}

#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct LogLevelView {
    /// The present filter.
    pub level: String,
    pub previous: String,
}

pub(super) async fn set(
    Extension(caller): Extension<Caller>,
    request: Result<Json<LogLevelRequest>, JsonRejection>,
) -> Result<Json<LogLevelView>, AdminError> {
    let Json(LogLevelRequest { level }) = request.map_err(|error| AdminError::new(Code::Invalid, error.body_text()))?;
    let previous = crate::logging::set_level(&level, caller.name())
        .map_err(|error| AdminError::new(Code::Invalid, format!("{error:#}")))?;
    Ok(Json(LogLevelView { level, previous }))
}
