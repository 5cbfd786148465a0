//! The calls of one process: what its guest logs, and what it asks of the API server.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex};
use std::time::Duration;

use informant_apiserver::Status;
use informant_cache::{Environment, HandlerError, SourceState};
use informant_informer::NamedInformer;
use informant_object::KeyRef;
use informant_plugin_host::{KubeAction, KubeApi, KubeCall, KubeDelete, KubeError, KubeErrorCode, KubeFuture};
use serde::Deserialize;
use serde_json::Value;

use super::super::guest;
use super::super::history::{Controlled, Ended, Entry, ObjectVersion};
use super::super::recorder::ScriptedResult;
use super::super::rng::Rng;
use super::super::world::{World, locked, version_of};
use super::CHILDREN;

/// What the timer asks about.
const BEAT: &str = "beat";

/// How many percent of the calls fail, and are given up.
const FAILS_PERCENT: u64 = 15;
const REFUSES_PERCENT: u64 = 3;

/// How many percent of the writes are refused, and how many are made without an answer.
const REFUSED_PERCENT: u64 = 8;
const UNANSWERED_PERCENT: u64 = 4;

pub(super) struct Calls {
    world: Arc<World>,
    informers: Arc<Vec<NamedInformer>>,
    has_ended: AtomicBool,
    rng: Mutex<Rng>,
    /// The calls whose children could not be set: they fail, whatever the API server answers.
    giving_up: Mutex<BTreeSet<(String, String)>>,
    /// The newest version that the API server has answered of each child.
    written: Mutex<BTreeMap<(String, String), u64>>,
}

/// The API server as the guest sees it.
pub(super) struct Server(pub(super) Arc<Calls>);

/// What a guest logs.
#[derive(Deserialize)]
#[serde(rename_all = "kebab-case", tag = "did")]
enum Line {
    Began {
        call: String,
        namespace: String,
        name: String,
        primary: Option<ObjectVersion>,
        children: Vec<ObjectVersion>,
    },
    Children {
        namespace: String,
        name: String,
        pruned: u32,
    },
    GivesUp {
        namespace: String,
        name: String,
    },
    TimerBegan {
        call: String,
        scheduled: jiff::Timestamp,
        missed: u32,
    },
}

/// Namespace and name of the ConfigMap to which a child belongs.
pub(super) fn owner_of(child: &Value) -> (&str, &str) {
    let text = |member: &str| child["metadata"][member].as_str().unwrap_or_default();
    (text("namespace"), owner_name(text("name")))
}

fn owner_name(child: &str) -> &str {
    child.rsplit_once('-').map_or(child, |(owner, _)| owner)
}

impl Calls {
    pub(super) fn new(world: &Arc<World>, informers: Arc<Vec<NamedInformer>>, rng: Rng) -> Self {
        Self {
            world: Arc::clone(world),
            informers,
            has_ended: AtomicBool::new(false),
            rng: Mutex::new(rng),
            giving_up: Mutex::default(),
            written: Mutex::default(),
        }
    }

    /// The process is killed: what it still does does not count.
    pub(super) fn end(&self) {
        self.has_ended.store(true, Ordering::Relaxed);
    }

    fn has_ended(&self) -> bool {
        self.has_ended.load(Ordering::Relaxed)
    }

    fn record(&self, did: Controlled) {
        if !self.has_ended() {
            self.world.record(Entry::Controller(did));
        }
    }

    /// The guest logged a line.
    pub(super) fn logged(&self, line: &str) {
        // The rest is of panics.
        let Some(line) = line.trim_end().starts_with('{').then_some(line) else {
            return;
        };
        match serde_json::from_str(line).expect("the guest logs JSON") {
            Line::Began {
                call,
                namespace,
                name,
                primary,
                mut children,
            } => {
                children.sort();
                self.record(Controlled::Began {
                    call,
                    namespace,
                    name,
                    primary,
                    children,
                });
            }
            Line::Children { pruned: 0, .. } => {}
            Line::Children { namespace, name, .. } => self.record(Controlled::Pruned {
                gaps: self.gaps(&namespace, &name),
                namespace,
                name,
            }),
            Line::GivesUp { namespace, name } => {
                locked(&self.giving_up).insert((namespace, name));
            }
            Line::TimerBegan {
                call,
                scheduled,
                missed,
            } => self.record(Controlled::TimerBegan {
                call,
                scheduled_ms: scheduled.as_millisecond(),
                missed,
            }),
        }
    }

    /// Why the cache may lack some children of a ConfigMap at present.
    fn gaps(&self, namespace: &str, name: &str) -> Vec<String> {
        let mut gaps = Vec::new();
        let ids = self.informers[1].sources().into_iter().map(|source| source.source());
        for source in ids.filter_map(|id| self.world.catalog.source(id)) {
            let snapshot = source.snapshot();
            if source.state() != SourceState::Live {
                gaps.push(format!("the source is {}", source.state()));
            }
            if snapshot.heads() > 0 {
                gaps.push("the cache has only heads".to_owned());
            }
            let fresh_as_of = snapshot.version().and_then(|version| version.number());
            let written = locked(&self.written);
            let is_its = |(key, _): &(&(String, String), &u64)| key.0 == namespace && owner_name(&key.1) == name;
            for ((_, child), version) in written.iter().filter(is_its) {
                let object = snapshot.get(KeyRef::new(namespace, child));
                let seen = object.and_then(|object| object.version().number()).max(fresh_as_of);
                // A version that the API server no longer has is of before a restore.
                if seen.is_none_or(|seen| seen < *version) && *version <= self.world.server().revision() {
                    gaps.push(format!("it has not seen {child}@{version}"));
                }
            }
        }
        gaps
    }

    /// Ends a call: decides how.
    async fn end_call(&self, namespace: String, name: String) -> Result<Vec<u8>, KubeError> {
        let (pause, result) = self.draw(&name);
        if pause > 0 {
            self.world.environment.sleep(Duration::from_millis(pause)).await;
        }
        let gives_up = locked(&self.giving_up).remove(&(namespace.clone(), name.clone()));
        let ended = match &result {
            _ if gives_up => Ended::Retry,
            ScriptedResult::Ok => Ended::Ok,
            ScriptedResult::Fail(HandlerError::Permanent(_)) => Ended::Permanent,
            ScriptedResult::Fail(_) => Ended::Retry,
            ScriptedResult::Panic => Ended::Trap,
        };
        self.record(match name == BEAT {
            true => Controlled::TimerEnded { ended },
            false => Controlled::Ended { namespace, name, ended },
        });
        match gives_up {
            true => Ok(b"{}".to_vec()),
            false => guest::answer(result).map(|_| b"{}".to_vec()),
        }
    }

    /// How long a call takes, in milliseconds, and how it ends. A run of the timer never traps: after several traps it
    /// would be given up, which the history does not show.
    fn draw(&self, name: &str) -> (u64, ScriptedResult) {
        if !self.world.faults_active() {
            return (0, ScriptedResult::Ok);
        }
        let mut rng = locked(&self.rng);
        let pause = rng.pick(&[0, 0, 5, 200, 1_000]);
        let message = String::from("scripted");
        let result = match rng.below(3) {
            _ if rng.percent(REFUSES_PERCENT) => ScriptedResult::Fail(HandlerError::Permanent(message)),
            _ if !rng.percent(FAILS_PERCENT) => ScriptedResult::Ok,
            0 if name != BEAT => ScriptedResult::Panic,
            1 => ScriptedResult::Fail(HandlerError::RetryAfter {
                message,
                after: Duration::from_millis(rng.below(5_000)),
            }),
            _ => ScriptedResult::Fail(HandlerError::Retryable(message)),
        };
        (pause, result)
    }

    /// Makes a write of a child.
    async fn write(&self, call: KubeCall) -> Result<Vec<u8>, KubeError> {
        let (pause, is_refused, is_unanswered) = {
            let mut rng = locked(&self.rng);
            let may_fail = self.world.faults_active();
            let pause = rng.pick(&[0, 0, 20, 400]);
            (
                pause,
                rng.percent(REFUSED_PERCENT) && may_fail,
                rng.percent(UNANSWERED_PERCENT) && may_fail,
            )
        };
        if pause > 0 {
            self.world.environment.sleep(Duration::from_millis(pause)).await;
        }
        let unavailable = || KubeError::new(KubeErrorCode::Unavailable, "scripted");
        if self.has_ended() || is_refused || !self.world.may_be_written() {
            return Err(unavailable());
        }
        let namespace = call.address.namespace;
        let written = self.change(&namespace, &call.address.name, &call.action);
        let child = match call.address.name.is_empty() {
            true => version_of(&json_of(&call.action)).name,
            false => call.address.name,
        };
        self.record(Controlled::Wrote {
            namespace: namespace.clone(),
            name: owner_name(&child).to_owned(),
        });
        let written = written.map_err(kube_error)?;
        if is_unanswered {
            return Err(unavailable());
        }
        locked(&self.written).insert((namespace, child), written.version);
        let version = written.version.to_string();
        let answer = serde_json::json!({ "apiVersion": "v1", "kind": "Secret",
            "metadata": { "namespace": written.namespace, "name": written.name, "uid": written.uid,
                "resourceVersion": version } });
        Ok(answer.to_string().into_bytes())
    }

    fn change(&self, namespace: &str, name: &str, action: &KubeAction) -> Result<ObjectVersion, Status> {
        let server = self.world.server();
        let written = match action {
            KubeAction::Create(..) => server.create(CHILDREN, namespace, json_of(action))?,
            KubeAction::Update(..) => server.update(CHILDREN, namespace, json_of(action))?,
            KubeAction::Delete(options) => {
                let there = server.get(CHILDREN, namespace, name)?;
                if there.as_ref().is_some_and(|there| !is_meant(there, options)) {
                    return Err(Status::new(409, "Conflict", "it is not the state that is meant"));
                }
                let deleted = version_of(&server.delete(CHILDREN, namespace, name)?);
                return Ok(ObjectVersion {
                    version: server.revision(),
                    ..deleted
                });
            }
            KubeAction::Get | KubeAction::List(_) | KubeAction::Patch(..) => panic!("the guest makes no such call"),
        };
        Ok(version_of(&written))
    }
}

impl KubeApi for Server {
    fn call(&self, call: KubeCall) -> KubeFuture {
        let calls = Arc::clone(&self.0);
        Box::pin(async move {
            if call.is_event() {
                let event = json_of(&call.action);
                // The end of a series has none.
                if let Some(reason) = event["reason"].as_str() {
                    calls.record(Controlled::Recorded {
                        call: reason.to_owned(),
                    });
                }
                return Ok(b"{}".to_vec());
            }
            match call.action {
                KubeAction::Get => calls.end_call(call.address.namespace, call.address.name).await,
                _ => calls.write(call).await,
            }
        })
    }
}

fn json_of(action: &KubeAction) -> Value {
    match action {
        KubeAction::Create(document, _) | KubeAction::Update(document, _) | KubeAction::Patch(_, document, _) => {
            serde_json::from_slice(document).expect("the host sends JSON")
        }
        KubeAction::Get | KubeAction::List(_) | KubeAction::Delete(_) => Value::Null,
    }
}

/// Whether a delete with these preconditions is of this state.
fn is_meant(there: &Value, options: &KubeDelete) -> bool {
    let is = |member: &str, wanted: &str| wanted.is_empty() || there["metadata"][member].as_str() == Some(wanted);
    is("uid", &options.uid) && is("resourceVersion", &options.resource_version)
}

fn kube_error(status: Status) -> KubeError {
    let code = match (status.code, status.reason.as_str()) {
        (409, "AlreadyExists") => KubeErrorCode::AlreadyExists,
        (409, _) => KubeErrorCode::Conflict,
        (404, _) => KubeErrorCode::NotFound,
        (400..500, _) => KubeErrorCode::Invalid,
        _ => KubeErrorCode::Unavailable,
    };
    KubeError {
        status: status.code,
        reason: status.reason,
        is_from_kubernetes: true,
        ..KubeError::new(code, status.message)
    }
}
