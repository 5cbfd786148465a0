//! A handler that logs each call as one JSON line, at level info, and performs the actions of its config (see
//! [`Behavior`]).
//!
//! The line of an event:
//!
//! ```json
//! {"guest":"v1","label":"","n":7,"event":"update","outcome":"ok","reason":"watch","attempt":0,"source":1,
//!  "namespace":"default","name":"web-0","uid":"…","version":"12","old":true,"unknown":false,"bytes":512,"seen":null}
//! ```
//!
//! `n` counts the calls of the instance. `old` tells whether the call had an old state (for a delete, a last state).
//! `unknown` is final-state-unknown. `bytes` is the length of the payload. `version` is the version in the event.
//! `seen` is the version in the store, `""` if the object was not there, and null without `read-back`.
//!
//! The line of `synced`, or of the action `digest`:
//!
//! ```json
//! {"guest":"v1","label":"","n":9,"event":"synced","outcome":"ok","source":1,"keys":2,"digest":"a3c1…"}
//! ```
//!
//! `keys` and `digest` describe the view that results from the accepted events, of that source (`synced`) or of all
//! sources (`digest`, which has no `source`). The digest is FNV-1a with 64 bits, in hexadecimal, over
//! `namespace/name=version` and a newline for each key, ordered by (namespace, name).

use std::collections::BTreeMap;

use informant_plugin_sdk::prelude::*;
use serde_json::json;

use crate::GUEST;
use crate::behavior::{Behavior, Do};

/// See the module documentation.
pub(crate) struct Recorder {
    behavior: Behavior,
    calls: u64,
    /// By source, namespace and name: the version.
    view: BTreeMap<(SourceId, String, String), String>,
    kept: Vec<Vec<u8>>,
}

/// The members of a line that are not in the event.
struct Details {
    old: bool,
    unknown: bool,
    bytes: usize,
}

impl Plugin for Recorder {
    fn describe(_: Describe) -> Result<Manifest> {
        Ok(crate::describe())
    }

    fn init(init: Init) -> Result<Self> {
        let behavior: Behavior = init.config()?;
        let mut kept = Vec::new();
        info!(
            "{}",
            json!({ "guest": GUEST, "label": behavior.label, "event": "init" })
        );
        if let Some(action) = &behavior.init {
            action.perform(&mut kept)?;
        }
        Ok(Self {
            behavior,
            calls: 0,
            view: BTreeMap::new(),
            kept,
        })
    }
}

impl Recorder {
    /// Counts a call and returns its action.
    fn next_action(&mut self, event: &str, name: &str, attempt: u32) -> Do {
        self.calls += 1;
        let every = self.behavior.swallow_every;
        if event != "synced" && every > 0 && self.calls.is_multiple_of(every) {
            return Do::Swallow;
        }
        self.behavior
            .rules
            .iter_mut()
            .find_map(|rule| rule.matches(event, name, attempt))
            .unwrap_or(Do::Ok)
    }

    fn record(&mut self, kind: &str, event: &Event, details: Details) -> Result<Action> {
        let action = self.next_action(kind, &event.name, event.attempt);
        if action == Do::Swallow {
            return Ok(Action::done());
        }
        let outcome = action.outcome();
        if !(self.behavior.quiet && outcome == "ok") {
            self.write_line(kind, event, &details, outcome)?;
        }
        let then = action.perform(&mut self.kept)?;
        let key = (event.source, event.namespace.clone(), event.name.clone());
        if kind == "delete" {
            self.view.remove(&key);
        } else {
            self.view.insert(key, event.resource_version.clone());
        }
        if action == Do::Digest {
            self.write_digest("digest", None);
        }
        Ok(then)
    }

    fn write_line(&self, kind: &str, event: &Event, details: &Details, outcome: &str) -> Result {
        let line = json!({
            "guest": GUEST,
            "label": self.behavior.label,
            "n": self.calls,
            "event": kind,
            "outcome": outcome,
            "reason": event.reason.as_str(),
            "attempt": event.attempt,
            "source": event.source.0,
            "namespace": event.namespace,
            "name": event.name,
            "uid": event.uid,
            "version": event.resource_version,
            "old": details.old,
            "unknown": details.unknown,
            "bytes": details.bytes,
            "seen": self.read_back(event)?,
        });
        info!("{line}");
        Ok(())
    }

    /// The version of the object in the store, if `read-back` is set.
    fn read_back(&self, event: &Event) -> Result<Option<String>> {
        if !self.behavior.read_back {
            return Ok(None);
        }
        let pointer = "/metadata/resourceVersion";
        let found: Option<Value> = store::get_fields(event.source, &event.namespace, &event.name, &[pointer])?;
        let version = found
            .as_ref()
            .and_then(|object| object.pointer(pointer))
            .and_then(Value::as_str);
        Ok(Some(version.unwrap_or_default().to_owned()))
    }

    fn write_digest(&self, event: &str, source: Option<SourceId>) {
        let mut keys = 0;
        let mut hash: u64 = 0xcbf2_9ce4_8422_2325;
        for ((from, namespace, name), version) in &self.view {
            if source.is_none_or(|source| source == *from) {
                keys += 1;
                for byte in format!("{namespace}/{name}={version}\n").bytes() {
                    hash = (hash ^ u64::from(byte)).wrapping_mul(0x0100_0000_01b3);
                }
            }
        }
        let mut line = json!({
            "guest": GUEST,
            "label": self.behavior.label,
            "n": self.calls,
            "event": event,
            "outcome": "ok",
            "keys": keys,
            "digest": format!("{hash:016x}"),
        });
        if let Some(source) = source {
            line["source"] = source.0.into();
        }
        info!("{line}");
    }
}

impl EventHandler<Raw> for Recorder {
    fn on_add(&mut self, event: &Event, Raw(object): Raw) -> Result<Action> {
        self.record(
            "add",
            event,
            Details {
                old: false,
                unknown: false,
                bytes: object.len(),
            },
        )
    }

    fn on_update(&mut self, event: &Event, old: Option<Raw>, Raw(object): Raw) -> Result<Action> {
        self.record(
            "update",
            event,
            Details {
                old: old.is_some(),
                unknown: false,
                bytes: object.len(),
            },
        )
    }

    fn on_delete(
        &mut self,
        event: &Event,
        Deleted {
            last,
            final_state_unknown,
        }: Deleted<Raw>,
    ) -> Result<Action> {
        let bytes = last.as_ref().map_or(0, |Raw(object)| object.len());
        self.record(
            "delete",
            event,
            Details {
                old: last.is_some(),
                unknown: final_state_unknown,
                bytes,
            },
        )
    }
}

impl SyncHandler for Recorder {
    fn on_synced(&mut self, synced: &Synced) -> Result {
        let action = self.next_action("synced", "", 0);
        action.perform(&mut self.kept)?;
        self.write_digest("synced", Some(synced.source));
        Ok(())
    }
}
