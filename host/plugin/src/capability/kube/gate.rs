//! The gate: every call of a plugin to a cluster, direct or deferred, leaves through [`send`]. What closes it (grants,
//! for writes also that another replica acts) is checked when the call is sent.

use std::sync::Arc;
use std::time::Duration;

use informant_spec::{KubeVerb, ResourceAttributes};
use tokio::sync::Semaphore;

use super::api::{KubeAction, KubeAddress, KubeApi, KubeCall, KubeError, KubeErrorCode, KubePatchKind, KubePurpose};
use super::document;
use super::plugin::{IsWatched, KubeGrants, KubePlugin};
use super::writes::{Target, WriteInFlight};
use super::{KUBE_ANSWER_BYTES_MAX, KUBE_DOCUMENT_BYTES_MAX};
use crate::capability::parts::Current;
use crate::capture::{KubeFailure, KubeRequest, Record, Recorder};
use crate::effects::acting::NotActing;
use crate::effects::beginning;
use crate::engine::wait::{self, TooLate};
use crate::observed::{CallCause, Effect, EffectKind, EffectObject};

/// The resource whose documents and errors are not shown.
const SECRETS: &str = "v1/secrets";

/// What a call passes on its way.
#[derive(Clone)]
pub(crate) struct Way<'a> {
    /// It waits for a permit.
    pub(crate) turns: Option<&'a Semaphore>,
    /// It is recorded, with its answer.
    pub(crate) recorder: Option<&'a Recorder>,
    /// The UID that its object must have.
    pub(crate) uid: Option<&'a str>,
    /// The call that has it made.
    pub(crate) cause: Option<Arc<CallCause>>,
}

/// Sends a call if it is valid and granted. It ends within `wait_max`, including the wait for a permit.
/// Errors: [`KubeError`]; without a status if nothing was sent, or if there was no response.
pub(crate) async fn send(
    plugin: &KubePlugin,
    grants: &Current<KubeGrants>,
    mut address: KubeAddress,
    mut action: KubeAction,
    wait_max: Duration,
    way: Way<'_>,
) -> Result<Vec<u8>, KubeError> {
    let mut granted = grants.get();
    authorize(plugin, &granted, &address, &action)?;
    let began = plugin.env.now();
    let _permit = match way.turns {
        Some(turns) => {
            // Never closed.
            let permit = wait::at_most(&*plugin.env, wait_max, turns.acquire()).await;
            let permit = permit.map_err(|TooLate| {
                let message = format!("nothing was sent within {wait_max:?}: limits.kube-calls are in flight");
                KubeError::new(KubeErrorCode::Timeout, message)
            })?;
            // Grants and dry run may have changed meanwhile.
            granted = grants.get();
            authorize(plugin, &granted, &address, &action)?;
            permit.ok()
        }
        None => None,
    };
    let wait_max = wait_max.saturating_sub(plugin.env.now() - began);
    let api = api(plugin)?;
    address.cluster = api.cluster(&address.cluster)?;
    let is_withheld = plugin.dry_run.is_dry_run();
    let effect = match is_withheld || plugin.dry_run.is_observed() {
        true => effect_of(plugin, &granted, &address, &action, way.cause.clone())?,
        false => None,
    };
    if is_withheld {
        withhold(&mut action);
    }
    let about = way.cause.as_deref().and_then(CallCause::about);
    let time_max = match action.is_write() {
        true => plugin.dry_run.admit(EffectKind::Kube, about).map_err(refused)?,
        false => Duration::MAX,
    };
    let wait_max = wait_max.min(time_max);
    let write = begin_write(plugin, &address, &action)?;
    let call = KubeCall {
        plugin: Arc::clone(&plugin.plugin),
        address,
        action,
        uid: way.uid.unwrap_or_default().to_owned(),
        purpose: KubePurpose::Plugin,
        // Of the same section as what was granted.
        identity: granted.identity(),
        answer_bytes_max: KUBE_ANSWER_BYTES_MAX,
    };
    let sent_bytes = call.action.document().len();
    let recorded = way.recorder.map(|recorder| (recorder, KubeRequest::from(&call)));
    let answer = match wait::at_most(&*plugin.env, wait_max, api.call(call)).await {
        Ok(answer) => answer,
        Err(TooLate) => Err(KubeError::new(
            KubeErrorCode::Timeout,
            format!(
                "no response within {wait_max:?}; a write may still have taken effect; read the object before you retry"
            ),
        )),
    };
    let received_bytes = answer.as_ref().map_or(0, Vec::len);
    plugin.series.count_bytes(sent_bytes, received_bytes);
    if let Some((recorder, request)) = recorded {
        let reply = answer.clone().map_err(|error| KubeFailure::from(&error));
        recorder.record(Record::Kube(Box::new(request), reply));
    }
    if let Some(mut write) = write {
        if let Ok(body) = &answer {
            write.made(body);
        }
        let version = answer.as_ref().map(|body| version_of(body));
        write.ended(version.as_ref().map(Option::as_deref).map_err(|error| *error));
    }
    if let Some(effect) = effect {
        let effect = ended(effect, &answer);
        match is_withheld {
            true => plugin.dry_run.record(effect),
            false => plugin.dry_run.made(|| effect),
        }
    }
    answer
}

/// The effect with what came of it.
fn ended(mut effect: Effect, answer: &Result<Vec<u8>, KubeError>) -> Effect {
    match answer {
        Ok(body) => {
            let version = version_of(body).map(String::from);
            effect.object.iter_mut().for_each(|object| {
                object.version = version.clone().unwrap_or_default();
            });
        }
        Err(problem) => {
            effect.result = problem.code.as_str();
            let is_secret = effect.object.as_ref().is_some_and(|object| object.resource == SECRETS);
            // The API server quotes values that it refuses.
            effect.error = Some(match is_secret {
                true => format!("{} (a message about a Secret may contain its data)", effect.result),
                false => problem.message.clone(),
            });
        }
    }
    effect
}

fn refused(why: NotActing) -> KubeError {
    KubeError::new(KubeErrorCode::Unavailable, why.to_string())
}

/// What the call does. None: it reads, or the plugin itself asks for a dry run, so that nothing happens.
fn effect_of(
    plugin: &KubePlugin,
    grants: &KubeGrants,
    address: &KubeAddress,
    action: &KubeAction,
    cause: Option<Arc<CallCause>>,
) -> Result<Option<Effect>, KubeError> {
    let is_dry_run = match action {
        KubeAction::Get | KubeAction::List(_) => return Ok(None),
        KubeAction::Create(_, options) | KubeAction::Update(_, options) | KubeAction::Patch(_, _, options) => {
            options.dry_run
        }
        KubeAction::Delete(options) => options.dry_run,
    };
    if is_dry_run {
        return Ok(None);
    }
    let made = name_made(address, action)?;
    let call = attributes(address, action, &made);
    let described = call.target();
    Ok(Some(Effect {
        cluster: address.cluster.clone(),
        detail: detail(address, action.document()),
        object: Some(EffectObject {
            resource: address.resource.to_string(),
            namespace: address.namespace.clone(),
            name: call.name.to_owned(),
            subresource: address.subresource.clone(),
            version: String::new(),
        }),
        grant: grants.granting(&plugin.watched_in(&address.cluster), &call),
        identity: grants.identity(),
        cause,
        ..Effect::new(EffectKind::Kube, action.verb().to_string(), described)
    }))
}

/// Makes a write one that changes nothing.
fn withhold(action: &mut KubeAction) {
    match action {
        KubeAction::Get | KubeAction::List(_) => {}
        KubeAction::Create(_, options) | KubeAction::Update(_, options) | KubeAction::Patch(_, _, options) => {
            options.dry_run = true;
        }
        KubeAction::Delete(options) => options.dry_run = true,
    }
}

/// What is shown of a document: of Secrets, their size only.
fn detail(address: &KubeAddress, document: &[u8]) -> String {
    let of_secret = address.resource.to_string() == SECRETS;
    match of_secret && !document.is_empty() {
        true => format!("{} bytes about a Secret", document.len()),
        false => beginning(document),
    }
}

/// Notes that a call that may change an object is about to be sent.
fn begin_write(
    plugin: &KubePlugin,
    address: &KubeAddress,
    action: &KubeAction,
) -> Result<Option<WriteInFlight>, KubeError> {
    if !action.is_write() {
        return Ok(None);
    }
    let made = name_made(address, action)?;
    let name = if made.is_empty() { &address.name } else { &made };
    if name.is_empty() {
        return Ok(None);
    }
    let target = Target::new(address, name);
    let at = KubeAddress {
        name: name.clone(),
        ..address.clone()
    };
    let cached = |address: &KubeAddress| plugin.cache.version(address);
    Ok(Some(plugin.own.begin(target, &at, action, cached)))
}

/// The version of the object in the response to a write, if it has one.
pub(crate) fn version_of(body: &[u8]) -> Option<Box<str>> {
    document::version_of(body)
}

/// The clusters.
/// Errors: [`KubeErrorCode::Unavailable`] where there is none.
pub(super) fn api(plugin: &KubePlugin) -> Result<&dyn KubeApi, KubeError> {
    plugin.api.as_deref().ok_or_else(|| {
        let message = "no cluster is connected: kube calls need `informant run`";
        KubeError::new(KubeErrorCode::Unavailable, message)
    })
}

/// `patch v1/pods/status "a" in namespace "web"`, for messages.
pub(crate) fn describe(address: &KubeAddress, action: &KubeAction) -> String {
    let made = name_made(address, action).unwrap_or_default();
    attributes(address, action, &made).to_string()
}

/// Rejects calls that are not granted, invalid or too large.
pub(super) fn authorize(
    plugin: &KubePlugin,
    grants: &KubeGrants,
    address: &KubeAddress,
    action: &KubeAction,
) -> Result<(), KubeError> {
    authorize_where(
        &plugin.plugin,
        grants,
        &plugin.watched_in(&address.cluster),
        address,
        action,
    )
}

pub(super) fn authorize_where(
    plugin: &str,
    grants: &KubeGrants,
    is_watched: IsWatched<'_>,
    address: &KubeAddress,
    action: &KubeAction,
) -> Result<(), KubeError> {
    let refuse = |code, message: String| Err(KubeError::new(code, message));
    let of_collection = matches!(action, KubeAction::List(_))
        || (matches!(action, KubeAction::Create(..)) && address.subresource.is_empty());
    if of_collection && !(address.name.is_empty() && address.subresource.is_empty()) {
        let message = match action {
            KubeAction::List(_) => "list addresses a collection, not an object: leave name and subresource empty",
            _ => {
                "create takes the address of a collection, such as { resource, namespace }: put the name into \
                 metadata.name of the object, and leave name empty"
            }
        };
        return refuse(KubeErrorCode::Invalid, message.to_owned());
    }
    if !of_collection && address.name.is_empty() {
        return refuse(
            KubeErrorCode::Invalid,
            format!("{} needs the name of an object", action.verb()),
        );
    }
    let document = action.document();
    if document.len() > KUBE_DOCUMENT_BYTES_MAX {
        let message = format!(
            "the document is too large: {} bytes; at most {KUBE_DOCUMENT_BYTES_MAX} are allowed",
            document.len()
        );
        return refuse(KubeErrorCode::TooLarge, message);
    }
    let made = name_made(address, action)?;
    let call = attributes(address, action, &made);
    grants.authorize(plugin, is_watched, &call)?;
    match action {
        // It may create the object.
        KubeAction::Patch(KubePatchKind::Apply, document, _) | KubeAction::Update(document, _)
            if address.subresource.is_empty() && !document::has_uid(document)? =>
        {
            let create = ResourceAttributes {
                verb: KubeVerb::Create,
                ..call
            };
            grants.authorize(plugin, is_watched, &create)
        }
        _ => Ok(()),
    }
}

/// The name of the object that a call creates; empty if it creates none, or if the API server generates the name.
pub(super) fn name_made(address: &KubeAddress, action: &KubeAction) -> Result<String, KubeError> {
    match action {
        KubeAction::Create(document, _) if address.subresource.is_empty() => document::name_of(document),
        _ => Ok(String::new()),
    }
}

fn attributes<'a>(address: &'a KubeAddress, action: &KubeAction, made: &'a str) -> ResourceAttributes<'a> {
    ResourceAttributes {
        verb: action.verb(),
        resource: &address.resource,
        namespace: &address.namespace,
        name: if made.is_empty() { &address.name } else { made },
        subresource: &address.subresource,
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use informant_spec::KubeResource;

    #[test]
    fn detail_of_a_secret_is_its_size() {
        let shown = |group: &str, plural: &str| {
            let resource = KubeResource {
                group: group.to_owned(),
                version: "v1".to_owned(),
                plural: plural.to_owned(),
            };
            let address = KubeAddress {
                cluster: String::new(),
                resource,
                namespace: "web".to_owned(),
                name: "db".to_owned(),
                subresource: String::new(),
            };
            detail(&address, br#"{"data":{"a":"b"}}"#)
        };
        assert_eq!(shown("", "secrets"), "18 bytes about a Secret");
        assert_eq!(shown("", "configmaps"), r#"{"data":{"a":"b"}}"#);
        assert_eq!(shown("example.com", "secrets"), r#"{"data":{"a":"b"}}"#);
    }
}
