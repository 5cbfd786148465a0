//! What a plugin in dry run would have done.

use axum::Json;
use axum::extract::{Path, State};
use informant_cache::Moment;
use informant_plugin_host::Effect;
use serde::{Deserialize, Serialize};

use super::{age_ms, loaded};
use crate::admin::AdminState;
use crate::admin::error::AdminError;

#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub(crate) struct EffectsView {
    /// Whether the plugin is in dry run now. Otherwise these are the effects of the last dry run.
    pub dry_run: bool,
    /// Effects that are no longer listed, because there were more.
    pub dropped: u64,
    /// Oldest first.
    pub items: Vec<EffectView>,
}

/// Something that a plugin would have done.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub(crate) struct EffectView {
    /// `kube`, `kv` or `http`.
    pub kind: String,
    /// The verb: `patch`, `set`, `POST`.
    pub action: String,
    /// The cluster of an object; empty for the only one.
    pub cluster: String,
    /// The object, the key or the URL.
    pub target: String,
    /// The document that was sent, or the size of a value; its beginning, if it is long.
    pub detail: String,
    /// Why it would have failed, if that is known.
    pub error: Option<String>,
    pub age_ms: u64,
}

pub(in crate::admin) async fn effects(
    State(state): State<AdminState>,
    Path(name): Path<String>,
) -> Result<Json<EffectsView>, AdminError> {
    let list = loaded(&state.registry, &name)?.effects();
    let now = state.environment.now();
    Ok(Json(EffectsView {
        dry_run: list.is_dry_run,
        dropped: list.dropped,
        items: list.effects.into_iter().map(|effect| item(effect, now)).collect(),
    }))
}

fn item(effect: Effect, now: Moment) -> EffectView {
    EffectView {
        kind: effect.kind.as_str().to_owned(),
        action: effect.action,
        cluster: effect.cluster,
        target: effect.target,
        detail: effect.detail,
        error: effect.error,
        age_ms: age_ms(now, effect.at),
    }
}
