//! Makes one write, unless the cache shows that it would change nothing.

use std::sync::Arc;

use crate::actor::PluginContext;
use crate::hostcalls::kube::{KUBE_WAIT_MAX, describe, send, version_of};
use crate::hostcalls::kube_api::{KubeAction, KubePatchKind};
use crate::writes::result::WriteResult;
use crate::writes::{DeferredWrite, unchanged};

/// A write that ended.
pub(super) struct Made {
    pub(super) result: WriteResult,
    /// Whether it has changed the object, as far as that is known.
    pub(super) is_effective: bool,
    /// The version of the written object, if the response has one.
    pub(super) version: Option<Box<str>>,
}

/// Makes a write, if it is still granted.
pub(super) async fn make(context: &PluginContext, write: &DeferredWrite) -> Made {
    if is_unchanged(context, write) {
        return Made {
            result: WriteResult::Unchanged,
            is_effective: false,
            version: None,
        };
    }
    let before = [
        context.cache.version(&write.address),
        context.kube.own.version(&write.target),
    ];
    let is_dry_run = context.effects.is_dry_run();
    let grants = Arc::clone(&context.config().kube);
    let (address, action) = (write.address.clone(), write.action.clone());
    let began = context.now();
    let answer = send(&context.kube, &grants, address, action, KUBE_WAIT_MAX, None).await;
    context.kube.count(write.action.verb(), answer.as_ref().err(), began);
    // The cache never sees what a dry run wrote.
    let version = answer
        .as_ref()
        .ok()
        .and_then(|body| version_of(body))
        .filter(|_| !is_dry_run);
    Made {
        is_effective: version.is_some() && !before.contains(&version),
        result: WriteResult::of(&write.action, &describe(&write.address, &write.action), answer),
        version,
    }
}

/// Whether the object is in a live source, has all of the plugin's own writes, and stays as it is.
fn is_unchanged(context: &PluginContext, write: &DeferredWrite) -> bool {
    let (KubeAction::Patch(KubePatchKind::Merge, _, options) | KubeAction::Update(_, options)) = &write.action else {
        return false;
    };
    if !write.address.subresource.is_empty() || options.dry_run {
        return false;
    }
    let Some((source, object)) = context.cache.object(&write.address) else {
        return false;
    };
    // Read before the object is compared: a direct call may write meanwhile.
    if !context.kube.own.are_seen(&write.target, object.version()) {
        return false;
    }
    let keeps = |document: &[u8]| {
        let shapes = source.shapes();
        let by = match write.action {
            KubeAction::Update(..) => unchanged::by_update,
            _ => unchanged::by_merge,
        };
        !shapes.is_empty() && shapes.iter().all(|shape| by(document, &object, shape))
    };
    keeps(write.action.document())
}
