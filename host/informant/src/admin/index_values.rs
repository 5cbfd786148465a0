//! `GET /api/v1/indexes/RESOURCE?name=NAME`: the values of one object in the indexes of the informers that have it.

use std::sync::Arc;

use axum::extract::rejection::QueryRejection;
use axum::extract::{Path, Query, State};
use axum::{Extension, Json};
use informant_cache::{IndexError, Source};
use informant_object::Object;
use serde::{Deserialize, Serialize};

use super::AdminState;
use super::access::Caller;
use super::error::{AdminError, Code};
use super::one_object::{OneObject, OneObjectQuery};
use super::secrets;

#[derive(Debug, Clone, Default, Serialize, Deserialize)]
pub(crate) struct IndexValuesView {
    pub items: Vec<IndexValuesItem>,
}

/// The values of the object in one index.
#[derive(Debug, Clone, Default, Serialize, Deserialize)]
pub(crate) struct IndexValuesItem {
    pub informer: String,
    pub index: String,
    /// Null if they are not known, or not shown.
    pub values: Option<Vec<String>>,
    /// Why not.
    pub error: Option<String>,
}

pub(super) async fn index_values(
    State(state): State<AdminState>,
    Extension(caller): Extension<Caller>,
    Path(resource): Path<String>,
    query: Result<Query<OneObjectQuery>, QueryRejection>,
) -> Result<Json<IndexValuesView>, AdminError> {
    let (object, _) = OneObject::of(&state.registry, &resource, query)?;
    object.authorize(&state, &caller, std::iter::empty()).await?;
    let sources = state.registry.catalog().all();
    // Without a namespace all objects of the source are looked at, and probes are answered by this thread.
    let items = tokio::task::spawn_blocking(move || items_of(&object, &sources)).await;
    let items =
        items.map_err(|error| AdminError::new(Code::Unavailable, format!("cannot read the indexes: {error}")))?;
    Ok(Json(IndexValuesView { items }))
}

fn items_of(object: &OneObject, sources: &[Arc<Source>]) -> Vec<IndexValuesItem> {
    let mut items = Vec::new();
    for source in sources {
        let info = source.info();
        if !object.is_in(&info.cluster, &info.resource) {
            continue;
        }
        let snapshot = source.snapshot();
        for found in snapshot.named(object.name(), object.namespace()) {
            items.extend(
                snapshot
                    .index_names()
                    .into_iter()
                    .map(|index| item(source, found, index)),
            );
        }
    }
    items
}

fn item(source: &Source, object: &Object, index: String) -> IndexValuesItem {
    let (info, snapshot) = (source.info(), source.snapshot());
    let (values, error) = match snapshot.values_of(&index, object.key()) {
        _ if secrets::are_secrets(info) => (None, Some("values of Secrets are not shown".to_owned())),
        Ok(values) => (Some(values), failure(&snapshot, &index, object)),
        Err(error @ (IndexError::NotReady { .. } | IndexError::UnknownIndex { .. })) => (None, Some(error.to_string())),
    };
    IndexValuesItem {
        informer: info.informer.clone(),
        values,
        error,
        index,
    }
}

/// Why the index lacks the object.
fn failure(snapshot: &informant_cache::Snapshot, index: &str, object: &Object) -> Option<String> {
    let mut listed = snapshot.index_failures(index)?.listed();
    listed
        .find(|(key, _)| key.as_ref() == object.key())
        .map(|(_, message)| message.to_owned())
}
