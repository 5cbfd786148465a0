//! A Kubernetes Event (events.k8s.io/v1), and what makes two of them equal.

use std::sync::Arc;

use informant_spec::guessed_plural;
use jiff::Timestamp;
use serde::Serialize;
use serde_json::{Value, json};

use crate::bindings::informant::plugin::recorder::EventType;
use crate::observed::{CallCause, EffectObject};
use crate::text::truncated_at;

/// Bytes of `reason` and of `action`: 128, the limit of the API server.
pub(super) const EVENT_REASON_BYTES_MAX: usize = 128;

/// Bytes of a note: 1,024, the limit of the API server. The rest is cut.
const EVENT_NOTE_BYTES_MAX: usize = 1_024;

/// Bytes of a part of a reference: 253. No name, namespace or type is longer.
pub(super) const REFERENCE_BYTES_MAX: usize = 253;

/// Bytes of the object's name in the name of an Event, before a point and 16 digits: together they are a name.
const NAME_BYTES_MAX: usize = REFERENCE_BYTES_MAX - 17;

/// An object that an Event is about: `ObjectReference`.
#[derive(Clone, Debug, PartialEq, Eq, Hash, Serialize)]
#[serde(rename_all = "camelCase")]
pub(crate) struct Reference {
    #[serde(skip)]
    pub(super) cluster: String,
    pub(super) api_version: String,
    pub(super) kind: String,
    #[serde(skip_serializing_if = "String::is_empty")]
    pub(super) namespace: String,
    pub(super) name: String,
    #[serde(skip_serializing_if = "String::is_empty")]
    pub(super) uid: String,
}

/// Equal Events are a series: all but the note, as in client-go's tools/events.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub(crate) struct EventKey {
    pub(super) about: Reference,
    pub(super) related: Option<Reference>,
    pub(super) is_warning: bool,
    pub(super) reason: String,
    pub(super) action: String,
}

/// What a plugin has recorded.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct RecordedEvent {
    pub(super) key: Arc<EventKey>,
    pub(super) note: String,
    pub(super) at: Timestamp,
    /// The call that has recorded it.
    pub(super) cause: Option<Arc<CallCause>>,
}

/// How often an Event occurred besides the first time, and when last.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Series {
    pub(super) count: u32,
    pub(super) last: Timestamp,
}

impl Reference {
    /// `Pod web/a`, for people.
    pub(super) fn describe(&self) -> String {
        match &*self.namespace {
            "" => format!("{} {}", self.kind, self.name),
            namespace => format!("{} {namespace}/{}", self.kind, self.name),
        }
    }
}

impl Reference {
    /// As the object of an effect.
    pub(super) fn as_object(&self) -> EffectObject {
        EffectObject {
            resource: format!("{}/{}", self.api_version, guessed_plural(&self.kind)),
            namespace: self.namespace.clone(),
            name: self.name.clone(),
            ..EffectObject::default()
        }
    }
}

impl EventKey {
    pub(super) fn event_type(&self) -> &'static str {
        match self.is_warning {
            true => "Warning",
            false => "Normal",
        }
    }

    /// The namespace of its Events: that of its object, or `default`, as in client-go.
    pub(super) fn namespace(&self) -> &str {
        match &*self.about.namespace {
            "" => "default",
            namespace => namespace,
        }
    }
}

impl RecordedEvent {
    /// The name of the object: that of its object and the time, as in client-go.
    pub(super) fn name(&self) -> String {
        let (name, nanos) = (&self.key.about.name, self.at.as_nanosecond());
        let name = &name[..name.floor_char_boundary(NAME_BYTES_MAX)];
        // A name may not end with a point before the one that follows.
        format!("{}.{nanos:x}", name.trim_end_matches(['.', '-']))
    }

    /// The document to create, of the plugin `controller` in the process `instance`.
    pub(super) fn document(&self, controller: &str, instance: &str, series: Option<Series>) -> Value {
        let key = &self.key;
        let mut document = json!({
            "apiVersion": "events.k8s.io/v1",
            "kind": "Event",
            "metadata": { "name": self.name(), "namespace": key.namespace() },
            "eventTime": micro_time(self.at),
            "reportingController": controller,
            "reportingInstance": instance,
            "type": key.event_type(),
            "reason": key.reason,
            "action": key.action,
            "note": self.note,
            "regarding": key.about,
        });
        if let Some(related) = &key.related {
            document["related"] = json!(related);
        }
        if let Some(series) = series {
            document["series"] = series.document();
        }
        document
    }
}

impl Series {
    pub(super) fn document(self) -> Value {
        json!({ "count": self.count, "lastObservedTime": micro_time(self.last) })
    }
}

/// `metav1.MicroTime`.
fn micro_time(time: Timestamp) -> String {
    format!("{time:.6}")
}

/// The note that is sent.
pub(super) fn cut_note(note: String) -> String {
    truncated_at(note, EVENT_NOTE_BYTES_MAX)
}

pub(super) fn is_warning(kind: EventType) -> bool {
    matches!(kind, EventType::Warning)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn event(name: &str) -> RecordedEvent {
        let about = Reference {
            cluster: String::new(),
            api_version: "v1".to_owned(),
            kind: "Pod".to_owned(),
            namespace: "web".to_owned(),
            name: name.to_owned(),
            uid: "u".to_owned(),
        };
        let key = EventKey {
            related: Some(Reference {
                namespace: String::new(),
                uid: String::new(),
                name: "node-1".to_owned(),
                kind: "Node".to_owned(),
                ..about.clone()
            }),
            about,
            is_warning: true,
            reason: "Crashing".to_owned(),
            action: "Label".to_owned(),
        };
        RecordedEvent {
            key: Arc::new(key),
            note: "crashed 5 times".to_owned(),
            at: Timestamp::from_second(1_772_000_000).unwrap(),
            cause: None,
        }
    }

    #[test]
    fn the_document_is_that_of_events_v1() {
        let series = Series {
            count: 2,
            last: Timestamp::from_microsecond(1_772_000_009_500_000).unwrap(),
        };
        let document = event("a").document("informant.dev/p", "informant-0", Some(series));
        insta::assert_snapshot!(serde_json::to_string_pretty(&document).unwrap(), @r#"
        {
          "action": "Label",
          "apiVersion": "events.k8s.io/v1",
          "eventTime": "2026-02-25T06:13:20.000000Z",
          "kind": "Event",
          "metadata": {
            "name": "a.1897689c8dfe0000",
            "namespace": "web"
          },
          "note": "crashed 5 times",
          "reason": "Crashing",
          "regarding": {
            "apiVersion": "v1",
            "kind": "Pod",
            "name": "a",
            "namespace": "web",
            "uid": "u"
          },
          "related": {
            "apiVersion": "v1",
            "kind": "Node",
            "name": "node-1"
          },
          "reportingController": "informant.dev/p",
          "reportingInstance": "informant-0",
          "series": {
            "count": 2,
            "lastObservedTime": "2026-02-25T06:13:29.500000Z"
          },
          "type": "Warning"
        }
        "#);
    }

    #[test]
    fn the_name_of_a_long_object_stays_a_name() {
        let name = event(&"x".repeat(253)).name();
        assert_eq!(name.len(), REFERENCE_BYTES_MAX, "{name}");
        let pointed = format!("{}.{}", "x".repeat(NAME_BYTES_MAX - 1), "y".repeat(10));
        assert!(!event(&pointed).name().contains(".."));
    }
}
