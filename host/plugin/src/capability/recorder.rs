//! The interface `recorder`: Kubernetes Events of a plugin.
//!
//! ```text
//! guest ─event─▶ the call's Events ─success─▶ queue ─▶ series, spam filter ─▶ sender ─▶ API server
//!                    └ failure: dropped                                          └ lost: counted
//! ```
//!
//! An Event is sent when the event of its call has ended well, with the writes that the call deferred: it tells what
//! has happened. It never fails a call. A plugin that records nothing costs nothing: the sender is a
//! task that begins with the first Event, and ends when there is no series left.

mod event;
mod metrics;
mod sender;
mod series;

use std::sync::Arc;

use informant_cache::Moment;
use informant_spec::{ALLOW_EVENTS, PluginSpec};
use wasmtime::component::{HasSelf, Linker};

use self::event::{EVENT_REASON_BYTES_MAX, EventKey, REFERENCE_BYTES_MAX, RecordedEvent, Reference};
use self::metrics::RecorderSeries;
pub(crate) use self::sender::RecorderPlugin;
use crate::bindings::informant::plugin::recorder::{self, EventType, Regarding};
use crate::bindings::informant::plugin::types::{ErrorCode, HostError};
use crate::capability::kube::identity_of;
use crate::capability::parts::{
    CallEnd, CallPart, CallStart, CallSubject, Capability, Current, HandledEvent, InstanceParts, PluginParts,
};
use crate::capability::permission::MayUse;
use crate::capability::{HasCapabilities, error};
use crate::observed::CurrentCause;
use crate::series::Live;

/// Events that one call may record: 100. One more is `too-large`.
pub(crate) const CALL_EVENTS_MAX: usize = 100;

type Answer<T> = Result<T, HostError>;

/// Whether a section grants Events, and the user that records them; none: Informant's own.
pub(crate) struct EventsGrant {
    is_granted: bool,
    identity: Option<Arc<str>>,
}

/// Events as one instance sees them.
pub(crate) struct RecorderCaller {
    plugin: Arc<RecorderPlugin>,
    grants: Arc<Current<EventsGrant>>,
    may_use: MayUse,
    subject: CallSubject,
    /// Those of the current call.
    recorded: Vec<RecordedEvent>,
    cause: CurrentCause,
}

impl Capability for RecorderPlugin {
    const INTERFACE: Option<&'static str> = Some("recorder");

    type Host = Live<RecorderSeries>;
    type Grants = EventsGrant;
    type Call = RecorderCaller;

    fn grants(spec: &PluginSpec) -> EventsGrant {
        EventsGrant {
            is_granted: spec.allow_events,
            identity: identity_of(spec),
        }
    }

    fn new(
        host: &Live<RecorderSeries>,
        grants: &Arc<Current<EventsGrant>>,
        plugin: &PluginParts<'_>,
    ) -> RecorderPlugin {
        RecorderPlugin::of(host.clone(), grants, plugin)
    }

    fn configure(&self, _spec: &PluginSpec, grants: &Arc<Current<EventsGrant>>, _now: Moment) {
        self.set_grants(grants);
    }

    fn stand_by(&self) {
        self.drop_waiting();
    }

    fn close(&self) {
        self.close_queue();
    }

    fn call(self: &Arc<Self>, grants: &Arc<Current<EventsGrant>>, instance: &InstanceParts<'_>) -> RecorderCaller {
        RecorderCaller {
            plugin: Arc::clone(self),
            grants: Arc::clone(grants),
            may_use: Ok(()),
            subject: CallSubject::new(self.catalog()),
            recorded: Vec::new(),
            cause: instance.cause.clone(),
        }
    }

    fn commit(self: &Arc<Self>, effects: Vec<RecordedEvent>, _event: Option<HandledEvent>) {
        self.send(effects);
    }

    /// They tell what the call's deferred writes have done.
    fn commit_with(self: &Arc<Self>, effects: Vec<RecordedEvent>, event: HandledEvent) -> HandledEvent {
        if effects.is_empty() {
            return event;
        }
        let (plugin, end) = (Arc::clone(self), event.end);
        HandledEvent {
            end: Box::new(move |outcome| {
                match outcome.is_ok() {
                    true => plugin.send(effects),
                    false => plugin.count_dropped(effects.len()),
                }
                end(outcome);
            }),
            ..event
        }
    }

    fn link<T: HasCapabilities>(linker: &mut Linker<T>) -> wasmtime::Result<()> {
        recorder::add_to_linker::<_, HasSelf<RecorderCaller>>(linker, |state: &mut T| {
            &mut state.capabilities().recorder
        })
    }
}

impl CallPart for RecorderCaller {
    type Effects = Vec<RecordedEvent>;

    fn begin(&mut self, call: CallStart) {
        self.may_use = call.may_use;
        self.subject.set(call.source);
        self.recorded.clear();
    }

    fn finish(&mut self, end: CallEnd) -> Vec<RecordedEvent> {
        let recorded = std::mem::take(&mut self.recorded);
        if end.is_success() { recorded } else { Vec::new() }
    }
}

impl RecorderCaller {
    fn record(
        &mut self,
        about: Regarding,
        related: Option<Regarding>,
        kind: EventType,
        (reason, action, note): (String, String, String),
    ) -> Answer<()> {
        self.may_use.map_err(|reason| error(ErrorCode::NotHere, reason))?;
        if !self.grants.get().is_granted {
            let message = format!(
                "Events are not granted; in config.toml, set in [plugin.{}]: {ALLOW_EVENTS}",
                self.plugin.name()
            );
            return Err(error(ErrorCode::Denied, message));
        }
        if self.recorded.len() >= CALL_EVENTS_MAX {
            let message =
                format!("a call may record {CALL_EVENTS_MAX} Events: record one about what they have in common");
            return Err(error(ErrorCode::TooLarge, message));
        }
        check_word("reason", &reason)?;
        check_word("action", &action)?;
        let key = EventKey {
            about: self.reference("about", about)?,
            related: related.map(|related| self.reference("related", related)).transpose()?,
            is_warning: event::is_warning(kind),
            reason,
            action,
        };
        self.recorded.push(RecordedEvent {
            key: Arc::new(key),
            note: event::cut_note(note),
            at: self.plugin.wall_time(),
            cause: self.cause.get(),
        });
        Ok(())
    }

    /// An object without a cluster is in that of the object that the call is about.
    fn reference(&self, argument: &str, regarding: Regarding) -> Answer<Reference> {
        let Regarding {
            cluster,
            api_version,
            kind,
            namespace,
            name,
            uid,
        } = regarding;
        let invalid = |message: String| error(ErrorCode::Invalid, message);
        for (member, value, is_required) in [
            ("api-version", &api_version, true),
            ("kind", &kind, true),
            ("namespace", &namespace, false),
            ("name", &name, true),
            ("uid", &uid, false),
        ] {
            if is_required && value.is_empty() {
                return Err(invalid(format!(
                    "`{argument}` has no {member}: pass the object, or all of its reference"
                )));
            }
            if value.len() > REFERENCE_BYTES_MAX {
                let bytes = value.len();
                return Err(invalid(format!(
                    "`{argument}` has a {member} of {bytes} bytes, and none has more than {REFERENCE_BYTES_MAX}"
                )));
            }
        }
        let cluster = match cluster.is_empty() {
            false => cluster,
            true => {
                let subject = self.subject.cluster().map_err(|gone| invalid(gone.to_string()))?;
                subject.unwrap_or_default()
            }
        };
        let cluster = self.plugin.cluster(&cluster).map_err(invalid)?;
        Ok(Reference {
            cluster,
            api_version,
            kind,
            namespace,
            name,
            uid,
        })
    }
}

/// `reason` and `action` are words for programs: `CamelCase`.
fn check_word(argument: &str, word: &str) -> Answer<()> {
    let is_camel_case = word.starts_with(|first: char| first.is_ascii_uppercase())
        && word.bytes().all(|byte| byte.is_ascii_alphanumeric());
    let problem = match word.len() {
        _ if !is_camel_case => format!("`{argument}` {word:?} is no word in CamelCase, such as \"ImagePulled\""),
        bytes if bytes > EVENT_REASON_BYTES_MAX => {
            format!("`{argument}` has {bytes} bytes, and may have {EVENT_REASON_BYTES_MAX}")
        }
        _ => return Ok(()),
    };
    Err(error(ErrorCode::Invalid, problem))
}

impl recorder::Host for RecorderCaller {
    fn event(
        &mut self,
        about: Regarding,
        related: Option<Regarding>,
        kind: EventType,
        reason: String,
        action: String,
        note: String,
    ) -> wasmtime::Result<Answer<()>> {
        let answer = self.record(about, related, kind, (reason, action, note));
        if let Err(problem) = &answer {
            self.plugin.count_refused(problem.code);
        }
        Ok(answer)
    }
}

#[cfg(test)]
mod tests;
