//! The status of an object, and its conditions.

use std::fmt;
use std::time::SystemTime;

use serde::Serialize;
use serde_json::{Map, Value, json};

use crate::event::Event;
use crate::failure::{Failure, Result};
use crate::store;

/// A member of `status.conditions`, for [`set_status`].
///
/// ```
/// # use informant_plugin_sdk::kube;
/// kube::Condition::new("Ready", false, "RollingOut").message("1 of 3 replicas");
/// ```
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
#[non_exhaustive]
pub struct Condition {
    /// What it says, in CamelCase: `Ready`. An object has one condition of each type.
    #[serde(rename = "type")]
    pub kind: String,
    /// Whether that is so.
    pub status: ConditionStatus,
    /// Why, in CamelCase.
    pub reason: String,
    /// Text for people.
    pub message: String,
}

/// Whether a condition is true.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
pub enum ConditionStatus {
    /// It is.
    True,
    /// It is not.
    False,
    /// The plugin cannot tell.
    Unknown,
}

impl From<bool> for ConditionStatus {
    fn from(is_true: bool) -> Self {
        if is_true { Self::True } else { Self::False }
    }
}

impl Condition {
    /// A condition without a message: `Condition::new("Ready", true, "Deployed")`.
    pub fn new(kind: impl Into<String>, status: impl Into<ConditionStatus>, reason: impl Into<String>) -> Self {
        Self {
            kind: kind.into(),
            status: status.into(),
            reason: reason.into(),
            message: String::new(),
        }
    }

    /// Adds text for people.
    #[must_use]
    pub fn message(mut self, message: impl fmt::Display) -> Self {
        self.message = message.to_string();
        self
    }
}

/// Writes these members into the status of the object that the call is about, unless the cache has it so. The write is
/// [deferred](super::Deferred).
///
/// ```no_run
/// # use informant_plugin_sdk::prelude::*;
/// # fn example(request: &Request, done: &kube::Children, url: &str) -> Result {
/// let ready = kube::Condition::new("Ready", true, "Deployed");
/// let conditions = [vec![ready], done.conditions()].concat();
/// kube::set_status(request, &json!({ "url": url, "conditions": conditions }))?;
/// # Ok(())
/// # }
/// ```
///
/// `status` is anything that serde serializes as an object. A member that it lacks stays as it is, and null removes
/// one. `conditions` become part of those that the object has: each replaces the one of its type, and the others stay.
/// `lastTransitionTime` changes only with the `status` of a condition. If the object has a `metadata.generation`, that
/// is `observedGeneration` of the status and of these conditions.
///
/// The write is a merge patch of the subresource `status`, for the state that the call is about. If the object has
/// changed since then, the write is a conflict, and the handler is called again for the new state. An object that is
/// gone has no status: nothing is written.
///
/// The informer must keep the status: without it, conditions of others would be lost. `allow.kube` needs `patch` for
/// the subresource `status`.
///
/// # Errors
/// [`Failure::Permanent`] for a status that is no object, and a condition without a type, a status or a reason; errors
/// of [`store::get_fields`] and [`Deferred`](super::Deferred).
pub fn set_status(about: &Event, status: &impl Serialize) -> Result {
    let Value::Object(mut wanted) = serde_json::to_value(status)? else {
        return Err(Failure::permanent("the status is not a JSON object"));
    };
    let pointers = ["/metadata/generation", "/status"];
    let found: Option<Value> = store::get_fields(about.source, &about.namespace, &about.name, &pointers)?;
    let Some(object) = found else {
        return Ok(());
    };
    let (present, generation) = (&object["status"], &object["metadata"]["generation"]);
    observe(&mut wanted, generation);
    match wanted.remove("conditions") {
        None | Some(Value::Null) => {}
        Some(Value::Array(given)) if given.is_empty() => {}
        Some(Value::Array(given)) => {
            let conditions = merged(&present["conditions"], &given, generation)?;
            wanted.insert("conditions".to_owned(), conditions.into());
        }
        Some(_) => return Err(Failure::permanent("the conditions of a status are not a list")),
    }
    let wanted = Value::Object(wanted);
    if changes(present, &wanted) {
        let patch = json!({ "metadata": { "resourceVersion": about.resource_version }, "status": wanted });
        super::defer_patch(&super::of(about).status()).merge(&patch)?;
    }
    Ok(())
}

/// Adds the generation that a status or a condition is about.
fn observe(members: &mut Map<String, Value>, generation: &Value) {
    if !generation.is_null() {
        let observed = members.entry("observedGeneration");
        observed.or_insert_with(|| generation.clone());
    }
}

/// The conditions of the object, with those that are given in their place or at the end.
fn merged(present: &Value, given: &[Value], generation: &Value) -> Result<Vec<Value>> {
    let mut conditions = present.as_array().cloned().unwrap_or_default();
    for condition in given {
        let mut condition = checked(condition)?;
        observe(&mut condition, generation);
        condition.entry("message").or_insert_with(|| "".into());
        let before = conditions.iter_mut().find(|before| before["type"] == condition["type"]);
        let since = match &before {
            Some(before) if before["status"] == condition["status"] => before["lastTransitionTime"].clone(),
            _ => Value::Null,
        };
        match since {
            Value::Null => {
                condition.entry("lastTransitionTime").or_insert_with(now);
            }
            since => {
                condition.insert("lastTransitionTime".to_owned(), since);
            }
        }
        match before {
            Some(before) => *before = condition.into(),
            None => conditions.push(condition.into()),
        }
    }
    Ok(conditions)
}

/// The members of a condition.
fn checked(condition: &Value) -> Result<Map<String, Value>> {
    let is_missing = |member: &&str| condition[*member].as_str().is_none_or(str::is_empty);
    if let Some(member) = ["type", "status", "reason"].iter().find(|member| is_missing(member)) {
        return Err(Failure::permanent(format_args!(
            "a condition has no {member}: {condition}"
        )));
    }
    let (kind, status) = (&condition["type"], &condition["status"]);
    if !["True", "False", "Unknown"].iter().any(|known| status == known) {
        return Err(Failure::permanent(format_args!(
            "the status of the condition {kind} is {status}: write \"True\", \"False\" or \"Unknown\""
        )));
    }
    Ok(condition.as_object().cloned().unwrap_or_default())
}

fn now() -> Value {
    humantime::format_rfc3339_seconds(SystemTime::now()).to_string().into()
}

/// Whether a merge patch changes a value. An empty object is as good as none.
fn changes(value: &Value, patch: &Value) -> bool {
    match (value, patch) {
        (Value::Null | Value::Object(_), Value::Object(members)) => {
            members.iter().any(|(name, member)| changes(&value[name], member))
        }
        _ => value != patch,
    }
}

#[cfg(test)]
mod tests;
