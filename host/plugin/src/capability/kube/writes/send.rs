//! Makes one write, unless the cache shows that it would change nothing.

use crate::capability::kube::api::{KubeAction, KubePatchKind};
use crate::capability::kube::gate::{Way, describe, send, version_of};
use crate::capability::kube::writes::result::WriteResult;
use crate::capability::kube::writes::{DeferredWrite, unchanged};
use crate::capability::kube::{KUBE_WAIT_MAX, KubePlugin};
use crate::capture::Record;
use crate::observed::CallCause;

pub(super) struct Made {
    pub(super) result: WriteResult,
    /// Whether it has changed the object, as far as that is known.
    pub(super) is_effective: bool,
    /// The version of the written object, if the response has one.
    pub(super) version: Option<Box<str>>,
}

/// Makes a write, if it is still granted.
pub(super) async fn make(plugin: &KubePlugin, write: &DeferredWrite) -> Made {
    if is_unchanged(plugin, write) {
        return Made {
            result: WriteResult::Unchanged,
            is_effective: false,
            version: None,
        };
    }
    let before = [plugin.cache.version(&write.address), plugin.own.version(&write.target)];
    let is_dry_run = plugin.dry_run.is_dry_run();
    let grants = plugin.grants();
    let (address, action) = (write.address.clone(), write.action.clone());
    let way = Way {
        turns: None,
        recorder: write.recorder.as_deref(),
        uid: write.uid.as_deref(),
        cause: write.cause.clone(),
    };
    let began = plugin.env.now();
    let answer = send(plugin, &grants, address, action, KUBE_WAIT_MAX, way).await;
    plugin.count(write.action.verb(), answer.as_ref().err(), began);
    // The cache never sees what a dry run wrote.
    let version = answer
        .as_ref()
        .ok()
        .and_then(|body| version_of(body))
        .filter(|_| !is_dry_run);
    let about = write.cause.as_deref().and_then(CallCause::about);
    let is_refused = answer.as_ref().is_err_and(|error| error.status == 0) && !plugin.dry_run.may_act(about);
    let result = match is_refused {
        true => WriteResult::Refused,
        false => WriteResult::of(&write.action, &describe(&write.address, &write.action), answer),
    };
    Made {
        is_effective: version.is_some() && !before.contains(&version),
        result,
        version,
    }
}

/// Whether the object is in a live source, has all of the plugin's own writes, and stays as it is.
fn is_unchanged(plugin: &KubePlugin, write: &DeferredWrite) -> bool {
    let (KubeAction::Patch(KubePatchKind::Merge | KubePatchKind::Apply, _, options) | KubeAction::Update(_, options)) =
        &write.action
    else {
        return false;
    };
    if !write.address.subresource.is_empty() || options.dry_run {
        return false;
    }
    let Some((source, object)) = plugin.cache.object(&write.address) else {
        return false;
    };
    if let Some(recorder) = &write.recorder {
        recorder.record(Record::Object(source.id(), object.clone()));
    }
    if matches!(write.action, KubeAction::Patch(KubePatchKind::Apply, ..)) {
        return plugin.own.has_applied(&write.target, &object, &write.action);
    }
    // Read before the object is compared: a direct call may write meanwhile.
    if !plugin.own.are_seen(&write.target, object.version()) {
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
