//! `GET /api/v1/dead-letters[?plugin=NAME]`: events that plugins failed on for good, oldest first.

use axum::Json;
use axum::extract::rejection::QueryRejection;
use axum::extract::{Query, State};
use informant_cache::Moment;
use informant_cache::listener::DeadLetter;
use serde::{Deserialize, Serialize};

use super::AdminState;
use super::error::{ApiError, Code};
use super::plugins::age_ms;
use crate::daemon::{Board, PluginPhase};

#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct Question {
    plugin: Option<String>,
}

#[derive(Debug, Serialize)]
pub(super) struct DeadLetters {
    items: Vec<Item>,
}

#[derive(Debug, Serialize)]
#[serde(rename_all = "camelCase")]
struct Item {
    plugin: String,
    source: u32,
    informer: Option<String>,
    namespace: String,
    name: String,
    event: &'static str,
    reason: &'static str,
    result: &'static str,
    attempts: u32,
    error: String,
    age_ms: u64,
}

pub(super) async fn list(
    State(state): State<AdminState>,
    question: Result<Query<Question>, QueryRejection>,
) -> Result<Json<DeadLetters>, ApiError> {
    let Query(question) = question.map_err(|error| ApiError::new(Code::Invalid, error.body_text()))?;
    let now = state.environment.now();
    let mut items = Vec::new();
    for entry in state.board.plugins() {
        if question.plugin.as_ref().is_some_and(|plugin| *plugin != entry.name) {
            continue;
        }
        if let PluginPhase::Running(plugin) = entry.phase() {
            let letters = plugin.listener().dead_letters();
            items.extend(
                letters
                    .iter()
                    .map(|letter| item(&state.board, &entry.name, letter, now)),
            );
        }
    }
    Ok(Json(DeadLetters { items }))
}

fn item(board: &Board, plugin: &str, letter: &DeadLetter, now: Moment) -> Item {
    Item {
        plugin: plugin.to_owned(),
        source: letter.source.0,
        informer: board.catalog().info(letter.source).map(|info| info.informer),
        namespace: letter.key.namespace().to_owned(),
        name: letter.key.name().to_owned(),
        event: letter.event,
        reason: letter.reason.as_str(),
        result: letter.result,
        attempts: letter.attempts,
        error: letter.error.clone(),
        age_ms: age_ms(now, letter.given_up),
    }
}
