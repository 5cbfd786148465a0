//! `POST /api/v1/plugins/NAME/trigger`: calls a plugin's handler for live objects, although nothing changed.

use std::sync::Arc;

use axum::extract::rejection::JsonRejection;
use axum::extract::{Path, State};
use axum::{Extension, Json};
use informant_cache::Source;
use informant_object::{Key, LabelSelector, Object};
use informant_plugin_host::{Plugin, Role, TimerTriggered};
use serde::{Deserialize, Serialize};

use super::AdminState;
use super::access::Caller;
use super::error::{AdminError, Code};
use super::plugins::commands::key_hint;
use super::plugins::scope::{ObjectScope, check_one_resource, handles};
use super::plugins::{loaded, without_object};
use crate::logging::AUDIT_TARGET;

/// Objects examined, and calls asked for, before yielding: 1,024.
const OBJECTS_BETWEEN_YIELDS_MAX: usize = 1_024;

/// The objects to call the handler for: those that match every member. At least one member is required.
#[derive(Debug, Clone, Default, Serialize, Deserialize)]
#[serde(deny_unknown_fields, rename_all = "camelCase", default)]
pub(crate) struct TriggerRequest {
    /// Every object that the plugin handles, as far as the other members allow.
    pub all: bool,
    /// Names, separated by commas.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub cluster: Option<String>,
    /// Required if objects of several resources have the key.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub resource: Option<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub informer: Option<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub namespace: Option<String>,
    /// Objects with these labels, in Kubernetes label selector syntax.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub label_selector: Option<String>,
    /// The object `namespace/name`, or the name of a cluster-scoped object.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub key: Option<String>,
    /// A timer instead of objects: it runs now.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub timer: Option<String>,
}

#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct TriggeredObjects {
    /// Objects for which the handler will be called, or the timer.
    pub triggered: usize,
    /// Objects whose events are pending or being handled already, or the timer.
    pub waiting: usize,
    /// The plugin's state: one that is paused or quarantined is called when it is resumed.
    #[serde(default)]
    pub state: String,
}

struct Selection {
    request: TriggerRequest,
    selector: LabelSelector,
    key: Option<Key>,
}

impl Selection {
    fn parse(request: TriggerRequest) -> Result<Selection, AdminError> {
        let invalid = |message: String| AdminError::new(Code::Invalid, message);
        let TriggerRequest {
            all,
            cluster,
            resource,
            informer,
            namespace,
            label_selector,
            key,
            timer,
        } = &request;
        let selects = [cluster, resource, informer, namespace, label_selector, key];
        if timer.is_some() && (*all || selects.into_iter().any(Option::is_some)) {
            return Err(invalid("select a timer or objects, not both".to_owned()));
        }
        if !all && timer.is_none() && selects.into_iter().all(Option::is_none) {
            return Err(invalid(
                "select objects (cluster, resource, informer, namespace, labelSelector, key), set all, or name a timer"
                    .to_owned(),
            ));
        }
        let selector = LabelSelector::parse(label_selector.as_deref().unwrap_or_default())
            .map_err(|error| invalid(format!("labelSelector: {error}")))?;
        let key = key.as_deref().map(Key::parse).transpose();
        let key = key.map_err(|error| invalid(format!("key: {error}")))?;
        Ok(Selection { request, selector, key })
    }

    fn scope(&self) -> ObjectScope<'_> {
        ObjectScope {
            clusters: self.request.cluster.as_deref(),
            resource: self.request.resource.as_deref(),
            namespace: self.request.namespace.as_deref(),
        }
    }

    fn selects_source(&self, source: &Source) -> bool {
        let (info, informer) = (source.info(), &self.request.informer);
        self.scope().may_be_in(info) && informer.as_ref().is_none_or(|informer| *informer == info.informer)
    }

    /// # Errors
    /// `ambiguous` if objects of several resources have the key.
    fn check_key(&self, plugin: &Plugin, sources: &[Arc<Source>]) -> Result<(), AdminError> {
        let Some(key) = &self.key else { return Ok(()) };
        let holds = |source: &&Source| {
            let snapshot = source.snapshot();
            let object = snapshot.get(key.as_ref());
            object.is_some_and(|object| handles(plugin, source.info(), object) && self.selects(object))
        };
        check_one_resource(key, sources.iter().map(|source| &**source).filter(holds))
    }

    fn without_sources(&self, plugin: &str) -> AdminError {
        let informer = self.request.informer.as_ref();
        let informer = informer.map_or(String::new(), |name| format!(" of informer \"{name}\""));
        let named = self.scope().named();
        let message = format!("plugin {plugin} receives no objects{informer}{named}; see `informant status`");
        AdminError::new(Code::NotFound, message)
    }

    fn selects(&self, object: &Object) -> bool {
        let namespace = self.request.namespace.as_deref();
        namespace.is_none_or(|namespace| namespace == object.namespace())
            && self.key.as_ref().is_none_or(|key| key.as_ref() == object.key())
            && self.selector.matches(object)
    }
}

pub(super) async fn trigger(
    State(state): State<AdminState>,
    Extension(caller): Extension<Caller>,
    Path(name): Path<String>,
    request: Result<Json<TriggerRequest>, JsonRejection>,
) -> Result<Json<TriggeredObjects>, AdminError> {
    let Json(request) = request.map_err(|error| AdminError::new(Code::Invalid, error.body_text()))?;
    let selection = Selection::parse(request)?;
    let plugin = loaded(&state.registry, &name)?;
    if let Some(timer) = &selection.request.timer {
        return trigger_timer(&plugin, &caller, timer).map(Json);
    }
    if !plugin.roles().has(Role::EventHandler) && !plugin.roles().has(Role::Reconciler) {
        let message = format!("plugin {name} has no handler of objects to call");
        return Err(AdminError::new(Code::Invalid, message));
    }
    let (listener, manifest, section) = (plugin.listener(), plugin.manifest(), plugin.spec().selection);
    let mut done = TriggeredObjects {
        state: plugin.status().state.as_str().to_owned(),
        ..TriggeredObjects::default()
    };
    let mut sources = state.registry.catalog().all();
    sources.retain(|source| listener.feed().is_attached(source.id()));
    let is_attached = !sources.is_empty();
    sources.retain(|source| selection.selects_source(source));
    if sources.is_empty() {
        return Err(without_object(
            &state.registry,
            &name,
            is_attached,
            selection.without_sources(&name),
        ));
    }
    selection.check_key(&plugin, &sources)?;
    for source in &sources {
        let Some(rule) = manifest.event_rule(&source.info().api_version, &source.info().kind) else {
            continue;
        };
        let rule = rule.selection();
        let snapshot = source.snapshot();
        let mut after: Option<Key> = None;
        loop {
            let mut last = None;
            let chunk = snapshot
                .after(after.as_ref().map(Key::as_ref))
                .take(OBJECTS_BETWEEN_YIELDS_MAX);
            let examined = chunk.inspect(|object| last = Some(object.key().to_key()));
            let keys: Vec<Key> = examined
                .filter(|object| rule.selects(object) && section.selects(object) && selection.selects(object))
                .map(|object| object.key().to_key())
                .collect();
            let triggered = listener.control().trigger(source.id(), &keys, state.environment.now());
            done.triggered += triggered.triggered;
            done.waiting += triggered.waiting;
            let Some(last) = last else { break };
            after = Some(last);
            tokio::task::yield_now().await;
        }
    }
    if let Some(key) = selection.key.filter(|_| done.triggered + done.waiting == 0) {
        let hint = key_hint(&key.to_string(), &sources);
        let message = format!("plugin {name} handles no object {key} that the request selects{hint}");
        let not_found = AdminError::new(Code::NotFound, message);
        return Err(without_object(&state.registry, &name, is_attached, not_found));
    }
    let TriggeredObjects { triggered, waiting, .. } = done;
    tracing::info!(target: AUDIT_TARGET, plugin = %name, user = caller.name(), triggered, waiting, "calls triggered");
    Ok(Json(done))
}

/// # Errors
/// `not-found` if the plugin has no such timer.
fn trigger_timer(plugin: &Plugin, caller: &Caller, timer: &str) -> Result<TriggeredObjects, AdminError> {
    let (triggered, waiting) = match plugin.trigger_timer(timer) {
        TimerTriggered::Queued => (1, 0),
        TimerTriggered::Waiting => (0, 1),
        TimerTriggered::Unknown => {
            let known: Vec<String> = plugin.status().timers.into_iter().map(|timer| timer.name).collect();
            let known = match known.as_slice() {
                [] => "it has none".to_owned(),
                known => format!("it has {}", known.join(", ")),
            };
            let message = format!("plugin {} has no timer {timer:?}: {known}", plugin.name());
            return Err(AdminError::new(Code::NotFound, message));
        }
    };
    tracing::info!(target: AUDIT_TARGET, plugin = plugin.name(), timer, user = caller.name(), triggered, waiting, "timer triggered");
    Ok(TriggeredObjects {
        triggered,
        waiting,
        state: plugin.status().state.as_str().to_owned(),
    })
}
