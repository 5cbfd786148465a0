//! WebAssembly handlers: a real component (`guest.wat`) in the real plugin host, on the runtime of the run.
//!
//! ```text
//! listener ─▶ actor ─▶ guest ──log: the event──▶ [`Lines`] ─▶ history (begin)
//!                        ├────kube: how shall it end?──▶ [`Answers`] ─▶ history (end)
//!                        └────kube: a deferred write ──▶ [`Answers`] ─▶ history (sent)
//! ```
//!
//! The guest tells what it received, so that the checker sees what arrives on the other side of the host. How a call
//! ends, and after what time, is decided as for the other handlers; the guest learns it as the answer of the API server
//! and fails or traps for real.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::{Arc, Mutex, OnceLock};
use std::time::Duration;

use informant_cache::{Environment, HandlerError, ListenerHandle, Reason};
use informant_object::{KeyRef, SourceId};
use informant_plugin_host::{
    KubeAction, KubeApi, KubeCall, KubeError, KubeErrorCode, KubeFuture, Plugin, PluginHost, PluginMetrics, Services,
    SimulatedGuests,
};
use informant_spec::Content;
use tracing::subscriber::DefaultGuard;

use super::history::{Call, Entry, EventKind, ObjectVersion};
use super::lines;
use super::recorder::{CallRecorder, ScriptedResult};
use super::rng::Rng;
use super::world::{World, locked, version_of};

/// The guest's versions. The last one rejects the state of its predecessor, so that a swap to it fails.
const VERSIONS: [(&str, &str); 3] = [("1", "0"), ("2", "0"), ("3", "1")];

/// The reasons of calls, in the order of the contract.
const REASONS: [Reason; 10] = [
    Reason::Initial,
    Reason::Watch,
    Reason::Relist,
    Reason::Resync,
    Reason::Replay,
    Reason::Requeue,
    Reason::Reconfigured,
    Reason::Restored,
    Reason::RequeueAfter,
    Reason::Trigger,
];

/// The guests of one run.
pub(super) struct Guests {
    pub(super) host: PluginHost,
    calls: Arc<Calls>,
    _lines: DefaultGuard,
}

/// Each guest's recorder, by the name of its plugin.
#[derive(Default)]
struct Calls(Mutex<BTreeMap<String, Arc<GuestCalls>>>);

struct GuestCalls {
    recorder: CallRecorder,
    listener: ListenerHandle,
    /// The suspects that were recorded.
    suspects: Mutex<BTreeSet<String>>,
    rng: Mutex<Rng>,
}

/// The compiled versions, for all runs of the process: to compile them takes longer than a run.
fn compiled() -> &'static (SimulatedGuests, Vec<Content>) {
    static COMPILED: OnceLock<(SimulatedGuests, Vec<Content>)> = OnceLock::new();
    COMPILED.get_or_init(|| {
        let file = |(version, restores): (&str, &str)| {
            let text = include_str!("guest.wat")
                .replace("VERSION\\", &format!("{version}\\"))
                .replace("const RESTORES", &format!("const {restores}"));
            let bytes = wat::parse_str(text).expect("the text is a component");
            Content::new(format!("guest-{version}.wasm"), bytes)
        };
        let files: Vec<_> = VERSIONS.into_iter().map(file).collect();
        let guests = SimulatedGuests::compile(&files).expect("the guests are valid components");
        (guests, files)
    })
}

/// The files of the guest's versions.
pub(super) fn versions() -> &'static [Content] {
    &compiled().1
}

impl Guests {
    /// A host without guests. Reads what guests log on this thread until it is dropped.
    pub(super) fn new(world: &Arc<World>) -> Self {
        let calls = Arc::<Calls>::default();
        let answers = Answers {
            world: Arc::clone(world),
            calls: Arc::clone(&calls),
        };
        let host = PluginHost::simulated(
            &compiled().0,
            Arc::clone(&world.environment) as Arc<dyn Environment>,
            Services {
                catalog: world.catalog.clone(),
                kube: Some(Arc::new(answers)),
                key_value: None,
                http: None,
                observer: None,
                gate: None,
            },
            PluginMetrics::register(&mut Default::default()),
        );
        let lines = {
            let calls = Arc::clone(&calls);
            lines::read_by(move |plugin, line| calls.of(plugin).logged(line))
        };
        Self {
            host,
            calls,
            _lines: lines,
        }
    }

    /// From now on, the calls of `plugin` belong to `recorder`.
    pub(super) fn record(&self, plugin: &Plugin, recorder: CallRecorder, rng: Rng) {
        let calls = GuestCalls {
            recorder,
            listener: plugin.listener(),
            suspects: Mutex::default(),
            rng: Mutex::new(rng),
        };
        locked(&self.calls.0).insert(plugin.name().to_owned(), Arc::new(calls));
    }
}

impl Calls {
    fn of(&self, plugin: &str) -> Arc<GuestCalls> {
        Arc::clone(locked(&self.0).get(plugin).expect("each guest has a recorder"))
    }
}

/// The API server as the guests see it: it decides how a call ends. It accepts deferred writes.
struct Answers {
    world: Arc<World>,
    calls: Arc<Calls>,
}

impl KubeApi for Answers {
    fn call(&self, call: KubeCall) -> KubeFuture {
        let guest = self.calls.of(&call.plugin);
        let is_write = call.action != KubeAction::Get;
        if is_write {
            let (handler, namespace, name) = (
                guest.recorder.id,
                call.address.namespace.clone(),
                call.address.name.clone(),
            );
            self.world.record(Entry::Sent {
                handler,
                namespace,
                name,
            });
        }
        let pause = guest.recorder.call_ms(&mut locked(&guest.rng));
        let pause = (pause > 0).then(|| self.world.environment.sleep(Duration::from_millis(pause)));
        Box::pin(async move {
            if let Some(pause) = pause {
                pause.await;
            }
            if is_write {
                return Ok(Vec::new());
            }
            let key = KeyRef {
                namespace: &call.address.namespace,
                name: &call.address.name,
            };
            let result = guest.recorder.draw_result(key, &mut locked(&guest.rng));
            guest.recorder.end(key, &result);
            answer(result)
        })
    }
}

/// The answer on which the guest ends its call like this.
pub(super) fn answer(result: ScriptedResult) -> Result<Vec<u8>, KubeError> {
    let error = |code| KubeError::new(code, "scripted");
    Err(match result {
        ScriptedResult::Ok => return Ok(Vec::new()),
        ScriptedResult::Fail(HandlerError::Retryable(_)) => error(KubeErrorCode::Conflict),
        ScriptedResult::Fail(HandlerError::RetryAfter { after, .. }) => KubeError {
            retry_after: Some(after),
            ..error(KubeErrorCode::TooManyRequests)
        },
        ScriptedResult::Fail(HandlerError::Permanent(_)) => error(KubeErrorCode::Invalid),
        ScriptedResult::Panic => error(KubeErrorCode::Unavailable),
    })
}

impl GuestCalls {
    /// Records what the guest logged: the source of `synced`, an event, or that it deferred a write.
    fn logged(&self, line: &str) {
        self.record_suspects();
        let fields: Vec<&str> = line.splitn(10, ' ').collect();
        let number = |at: usize| fields[at].parse().expect("the guest writes a number");
        if fields[0] == "synced" {
            return self.recorder.synced(SourceId(number(1)), 0);
        }
        if fields[0] == "deferred" {
            return self.recorder.world.record(Entry::Deferred {
                handler: self.recorder.id,
                namespace: fields[1].to_owned(),
                name: fields[2].to_owned(),
            });
        }
        let kind = match fields[0] {
            "add" => EventKind::Add,
            "update" => EventKind::Update,
            "delete" => EventKind::Delete,
            other => panic!("the guest logged {other}"),
        };
        let object = ObjectVersion {
            namespace: fields[5].to_owned(),
            name: fields[6].to_owned(),
            uid: fields[7].to_owned(),
            // Empty if only the key is known.
            version: fields[8].parse().unwrap_or_default(),
        };
        let old = fields[9].trim_end();
        let old = (!old.is_empty()).then(|| version_of(&serde_json::from_str(old).expect("an object is JSON")));
        let (namespace, name) = (&*object.namespace, &*object.name);
        let stored = self.recorder.watched.version_at(KeyRef { namespace, name });
        self.recorder.world.record(Entry::Remembers {
            handler: self.recorder.id,
            calls: number(2).into(),
        });
        self.recorder.world.record(Entry::Begin(Call {
            handler: self.recorder.id,
            kind,
            stored,
            object,
            old,
            unknown: number(4) == 1,
            reason: REASONS[number(3) as usize].to_string(),
            instance: 0,
        }));
    }
}

impl GuestCalls {
    fn record_suspects(&self) {
        let (_, named) = self.listener.ledger().suspects(usize::MAX);
        let mut recorded = locked(&self.suspects);
        let namespaces: Vec<String> = named.into_iter().filter(|name| recorded.insert(name.clone())).collect();
        if !namespaces.is_empty() {
            let handler = self.recorder.id;
            self.recorder.world.record(Entry::Suspects { handler, namespaces });
        }
    }
}
