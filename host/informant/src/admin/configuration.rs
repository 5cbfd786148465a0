//! `GET /api/v1/configuration`: what became of config.toml's last change, and what waits for what.

use axum::Json;
use axum::extract::State;
use serde::{Deserialize, Serialize};

use super::AdminState;
use super::plugins::age_ms;

/// How the file and what runs relate.
#[derive(Debug, Clone, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct ConfigurationView {
    /// The file, as the daemon was told.
    pub path: String,
    /// `applied`, `partial` (some sections wait) or `refused` (the file as it is now is not taken).
    pub state: String,
    /// How long ago the file had a new content; at first, how long ago the daemon was started.
    pub age_ms: u64,
    /// What became of the last change: `ok`, `partial`, `refused`, `unchanged`; null while there was none.
    pub last_result: Option<String>,
    /// Why the file as it is now is not taken.
    pub refused: Option<String>,
    /// Sections whose newest version does not run.
    pub waiting: Vec<Waiting>,
}

/// A section whose newest version does not run.
#[derive(Debug, Clone, Serialize, Deserialize)]
pub struct Waiting {
    /// As its header in the file, without brackets.
    pub section: String,
    /// Why.
    pub reason: String,
}

pub(super) async fn get(State(state): State<AdminState>) -> Json<ConfigurationView> {
    let configuration = state.board.configuration().clone();
    let waiting = configuration.waiting.iter().map(|(section, reason)| Waiting {
        section: section.to_string(),
        reason: reason.to_string(),
    });
    Json(ConfigurationView {
        path: configuration.path.display().to_string(),
        state: configuration.state().to_owned(),
        age_ms: age_ms(state.environment.now(), configuration.read),
        last_result: configuration.result.map(|result| result.as_str().to_owned()),
        refused: configuration.refused.as_ref().map(ToString::to_string),
        waiting: waiting.collect(),
    })
}
