//! `GET /api/v1/sources/ID[?at-least=VERSION]`: how one source fares, once it has seen a version.

use std::sync::Arc;

use axum::Json;
use axum::extract::rejection::{PathRejection, QueryRejection};
use axum::extract::{Path, Query, State};
use informant_informer::SharedInformer;

use super::AdminState;
use super::error::{ApiError, Code};
use super::freshness::Asked;
use super::sources::{self, SourceView};
use crate::daemon::{Board, Place};

pub(super) async fn get(
    State(state): State<AdminState>,
    id: Result<Path<u32>, PathRejection>,
    question: Result<Query<Asked>, QueryRejection>,
) -> Result<Json<SourceView>, ApiError> {
    let Path(id) = id.map_err(|error| ApiError::new(Code::Invalid, error.body_text()))?;
    let Query(question) = question.map_err(|error| ApiError::new(Code::Invalid, error.body_text()))?;
    let at_least = question.judge()?;
    let (place, shared) = find(&state.board, id)?;
    let sources = [shared];
    if let Some(at_least) = at_least {
        at_least.seen_by(&sources, &state).await?;
    }
    let source = state.board.catalog().source(sources[0].source());
    let source = source.ok_or_else(|| unknown(id))?;
    Ok(Json(sources::of_source(&place, &source)))
}

/// The source of that number, and the place it belongs to.
fn find(board: &Board, id: u32) -> Result<(Place, Arc<SharedInformer>), ApiError> {
    for entry in board.informers() {
        for place in entry.places().into_values() {
            let running = sources::running_in(&place);
            if let Some(found) = running.into_iter().find(|source| source.source().0 == id) {
                return Ok((place, found));
            }
        }
    }
    Err(unknown(id))
}

fn unknown(id: u32) -> ApiError {
    let message = format!(
        "there is no source {id}: /api/v1/sources lists them; a source that is made anew, as by a change of its section, has another number"
    );
    ApiError::new(Code::UnknownSource, message)
}
