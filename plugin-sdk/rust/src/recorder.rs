//! Records Kubernetes Events about objects, which `kubectl describe` shows.
//!
//! Informant records them if the plugin's section in config.toml has `allow.events = true`. Without it, every call
//! fails with [`ErrorCode::Denied`].
//!
//! ```no_run
//! # use informant_plugin_sdk::prelude::*;
//! # fn example(event: &Event) -> Result {
//! recorder::event(event, "CrashLooping").warning().note("3 restarts in 10 minutes").record()?;
//! # Ok(())
//! # }
//! ```
//!
//! Informant sends what a handler has recorded when the handler has succeeded. A handler that fails or panics has
//! recorded nothing. Equal Events become a series, and each object gets a limited number. An Event that is lost fails
//! nothing, and Informant counts it. Only handler calls can record Events, at most 100 in a call; other calls are
//! denied.

use std::fmt;

use serde_json::Value;

use crate::bindings::imports::informant::plugin::recorder as contract;
use crate::event::{Event, Request, SourceId};
use crate::host_error::{ErrorCode, HostError};
use crate::store::Item;
use crate::{call, host, store};

/// The object that an Event is about: see [`event`].
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ObjectReference {
    reference: contract::Regarding,
    /// The source of the object, which has what the reference lacks.
    of: Option<SourceId>,
}

/// Names an object: `recorder::object("v1", "Pod", "web", "a")`. `namespace` is empty for cluster-scoped objects.
pub fn object(
    api_version: impl Into<String>,
    kind: impl Into<String>,
    namespace: impl Into<String>,
    name: impl Into<String>,
) -> ObjectReference {
    ObjectReference {
        reference: contract::Regarding {
            cluster: String::new(),
            api_version: api_version.into(),
            kind: kind.into(),
            namespace: namespace.into(),
            name: name.into(),
            uid: String::new(),
        },
        of: None,
    }
}

impl ObjectReference {
    /// Sets the uid, which distinguishes the object from a later one with the same name.
    #[must_use]
    pub fn uid(mut self, uid: impl Into<String>) -> Self {
        self.reference.uid = uid.into();
        self
    }

    /// Selects the cluster. The default is the cluster of the object that the call is about.
    #[must_use]
    pub fn in_cluster(mut self, cluster: impl Into<String>) -> Self {
        self.reference.cluster = cluster.into();
        self
    }

    /// As the contract wants it: complete, with its cluster.
    pub(crate) fn resolve(self) -> Result<contract::Regarding, HostError> {
        let mut reference = self.reference;
        if let Some(source) = self.of {
            let source = store::constant(source)?;
            for (member, of_source) in [
                (&mut reference.api_version, &source.api_version),
                (&mut reference.kind, &source.kind),
                (&mut reference.cluster, &source.cluster),
            ] {
                if member.is_empty() {
                    member.clone_from(of_source);
                }
            }
        }
        if let Some(source) = call::source().filter(|_| reference.cluster.is_empty()) {
            reference.cluster.clone_from(&store::constant(source)?.cluster);
        }
        let members = [
            ("apiVersion", &reference.api_version),
            ("kind", &reference.kind),
            ("metadata.name", &reference.name),
        ];
        match members.iter().find(|(_, value)| value.is_empty()) {
            None => Ok(reference),
            Some((member, _)) => Err(HostError {
                code: ErrorCode::Invalid,
                message: format!(
                    "the object has no {member}: pass the event instead, or add it to the fields in the manifest"
                ),
            }),
        }
    }
}

/// The object of the event.
impl From<&Event> for ObjectReference {
    fn from(event: &Event) -> Self {
        let object = object("", "", &event.namespace, &event.name).uid(&event.uid);
        Self {
            of: Some(event.source),
            ..object
        }
    }
}

/// The object that is to be reconciled.
impl From<&Request> for ObjectReference {
    fn from(request: &Request) -> Self {
        Self::from(&request.event)
    }
}

/// The object in this document, which has apiVersion, kind, and name, namespace and uid in `metadata`. Pass the event
/// instead if the manifest asks for other fields.
impl From<&Value> for ObjectReference {
    fn from(document: &Value) -> Self {
        let text = |pointer| document.pointer(pointer).and_then(Value::as_str).unwrap_or_default();
        object(
            text("/apiVersion"),
            text("/kind"),
            text("/metadata/namespace"),
            text("/metadata/name"),
        )
        .uid(text("/metadata/uid"))
    }
}

/// The object that was read, in the cluster of its source.
impl From<&Item<Value>> for ObjectReference {
    fn from(item: &Item<Value>) -> Self {
        Self {
            of: Some(item.source),
            ..Self::from(&item.object)
        }
    }
}

impl From<&ObjectReference> for ObjectReference {
    fn from(reference: &ObjectReference) -> Self {
        reference.clone()
    }
}

/// An Event about `about`, of type Normal: the [`Event`] or [`Request`] of the call, an object as a [`Value`], an
/// [`Item`] that was read, or [`object`]. `reason` is why it is recorded, in CamelCase.
pub fn event(about: impl Into<ObjectReference>, reason: impl Into<String>) -> NewEvent {
    NewEvent {
        about: about.into(),
        related: None,
        kind: contract::EventType::Normal,
        reason: reason.into(),
        action: None,
        note: String::new(),
    }
}

/// Builds an Event.
#[derive(Debug, Clone)]
#[must_use = "records nothing until you call `record`"]
pub struct NewEvent {
    about: ObjectReference,
    related: Option<ObjectReference>,
    kind: contract::EventType,
    reason: String,
    action: Option<String>,
    note: String,
}

impl NewEvent {
    /// Makes its type Warning.
    pub fn warning(mut self) -> Self {
        self.kind = contract::EventType::Warning;
        self
    }

    /// What was done, in CamelCase. The default is the reason.
    pub fn action(mut self, action: impl Into<String>) -> Self {
        self.action = Some(action.into());
        self
    }

    /// Text for people. Informant cuts what is longer than 1,024 bytes.
    pub fn note(mut self, note: impl fmt::Display) -> Self {
        self.note = note.to_string();
        self
    }

    /// Another object that the Event is about: the new one, if one replaces another.
    pub fn related(mut self, object: impl Into<ObjectReference>) -> Self {
        self.related = Some(object.into());
        self
    }

    /// Records the Event.
    ///
    /// # Errors
    /// [`ErrorCode::Denied`]; [`ErrorCode::Invalid`] for a reason or an action that is not CamelCase or has more than
    /// 128 bytes, or an object without a name; [`ErrorCode::TooLarge`] for more than 100 Events in a call.
    pub fn record(self) -> Result<(), HostError> {
        let about = self.about.resolve()?;
        let related = self.related.map(ObjectReference::resolve).transpose()?;
        let action = self.action.as_ref().unwrap_or(&self.reason);
        Ok(host::recorder_event(
            &about,
            related.as_ref(),
            self.kind,
            &self.reason,
            action,
            &self.note,
        )?)
    }
}

#[cfg(test)]
mod tests;
