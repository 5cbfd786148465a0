//! Shared by the tests of this crate: an API server with scripted responses, an informer on the embedded one, and a
//! handler that records its calls. No sockets, and only paused time.

pub(crate) mod log_lines;
pub(crate) mod manual_journal;

use std::convert::Infallible;
use std::future::{Ready, ready};
use std::io;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex};
use std::time::Duration;

use bytes::Bytes;
use futures::channel::mpsc;
use futures::{StreamExt as _, stream};
use http::{Request, Response, StatusCode};
use http_body::Frame;
use http_body_util::combinators::UnsyncBoxBody;
use http_body_util::{BodyExt, Full, StreamBody};
use informant_apiserver::{ApiServer, Filter};
use informant_cache::listener::{Delivery, DeliveryOutcome, ListenerOptions, NextDelivery};
use informant_cache::{
    CacheBudget, Catalog, Environment as _, EventContext, EventHandler, HandlerError, ListenerHandle, Reason,
};
use informant_object::{KeyRef, Object};
use informant_spec::GroupVersionResource;
use kube::Client;
use kube::client::Body;
use prometheus_client::registry::Registry;
use serde_json::{Value, json};
use tokio::sync::{Notify, watch};
use tokio::time::Instant;
use tower::Service as _;

use crate::{
    ClusterClient, InformerMetrics, InformerOptions, ReflectorOptions, Registration, SharedInformer, SourceSpec,
    TokioEnvironment,
};

/// The body of a scripted response.
pub(crate) type TestBody = UnsyncBoxBody<Bytes, io::Error>;

/// A client whose requests are answered by `answer`. Needs a running runtime.
pub(crate) fn client<F>(mut answer: F) -> Client
where
    F: FnMut(&Request<Body>) -> Response<TestBody> + Send + 'static,
{
    let service = tower::service_fn(move |request: Request<Body>| -> Ready<Result<_, Infallible>> {
        ready(Ok(answer(&request)))
    });
    Client::new(service, "default")
}

/// A response with status 200 and a JSON body.
pub(crate) fn json_answer(body: impl Into<String>) -> Response<TestBody> {
    answer(200, "application/json", body)
}

/// A `Status` with which an API server refuses a request.
pub(crate) fn refusal(code: u16, reason: &str, message: &str) -> Response<TestBody> {
    let body = serde_json::json!({
        "kind": "Status", "apiVersion": "v1", "status": "Failure", "code": code, "reason": reason, "message": message,
    });
    answer(code, "application/json", body.to_string())
}

/// A response with a complete body.
pub(crate) fn answer(code: u16, content_type: &str, body: impl Into<String>) -> Response<TestBody> {
    let body = Full::new(Bytes::from(body.into()))
        .map_err(|never| match never {})
        .boxed_unsync();
    respond(code, content_type, body)
}

/// A response whose body is written while it is read.
pub(crate) fn streamed() -> (Writer, Response<TestBody>) {
    let (sender, receiver) = mpsc::unbounded();
    (
        Writer(sender),
        respond(200, "application/json", StreamBody::new(receiver).boxed_unsync()),
    )
}

/// A response whose body has every frame ready, and never ends.
pub(crate) fn ready_at_once(frames: impl Iterator<Item = String> + Send + 'static) -> Response<TestBody> {
    let frames = frames.map(|frame| Ok(Frame::data(Bytes::from(frame))));
    let frames = stream::iter(frames).chain(stream::pending());
    respond(200, "application/json", StreamBody::new(frames).boxed_unsync())
}

/// Writes a [`streamed`] body. Dropping it ends the body cleanly.
pub(crate) struct Writer(mpsc::UnboundedSender<Result<Frame<Bytes>, io::Error>>);

impl Writer {
    /// Writes one frame; returns whether the body is still read.
    pub(crate) fn write(&self, frame: impl Into<Bytes>) -> bool {
        self.0.unbounded_send(Ok(Frame::data(frame.into()))).is_ok()
    }

    /// Breaks the connection.
    pub(crate) fn reset(self) {
        let _ = self
            .0
            .unbounded_send(Err(io::Error::from(io::ErrorKind::ConnectionReset)));
    }

    /// Whether the reader is gone.
    pub(crate) fn is_closed(&self) -> bool {
        self.0.is_closed()
    }
}

fn respond(code: u16, content_type: &str, body: TestBody) -> Response<TestBody> {
    let status = StatusCode::from_u16(code).expect("a status code");
    Response::builder()
        .status(status)
        .header("content-type", content_type)
        .body(body)
        .expect("a response")
}

/// An API server that can be made to hang: it accepts requests and answers none.
pub(crate) struct HangingServer {
    pub(crate) server: ApiServer,
    hangs: watch::Sender<bool>,
    /// When requests for a sign of life arrived.
    probes: Arc<Mutex<Vec<Instant>>>,
}

impl HangingServer {
    pub(crate) fn new(server: &ApiServer) -> Self {
        Self {
            server: server.clone(),
            hangs: watch::Sender::new(false),
            probes: Arc::default(),
        }
    }

    pub(crate) fn client(&self) -> ClusterClient {
        let (service, hangs, probes) = (self.server.service(), self.hangs.clone(), Arc::clone(&self.probes));
        let service = tower::service_fn(move |request: Request<Body>| {
            if request.uri().path() == "/readyz" {
                probes.lock().expect("no request panics").push(Instant::now());
            }
            let (mut service, mut hangs) = (service.clone(), hangs.subscribe());
            async move {
                hangs.wait_for(|hangs| !*hangs).await.expect("the sender is held");
                service.call(request).await
            }
        });
        Client::new(service, "default").into()
    }

    /// Like `kill -STOP`: connections stay open, and nothing is sent.
    pub(crate) fn stop(&self) {
        self.hangs.send_replace(true);
        self.server.faults().freeze_watches(&Filter::any());
    }

    /// Like `kill -CONT`.
    pub(crate) fn resume(&self) {
        self.hangs.send_replace(false);
        self.server.faults().thaw_watches(&Filter::any());
    }

    /// When requests for a sign of life arrived since the last time.
    pub(crate) fn take_probes(&self) -> Vec<Instant> {
        std::mem::take(&mut *self.probes.lock().expect("no request panics"))
    }
}

/// A whole informer on the embedded API server, without sockets.
pub(crate) struct Rig {
    pub(crate) server: ApiServer,
    pub(crate) informer: SharedInformer,
    pub(crate) catalog: Catalog,
    registry: Registry,
}

/// Options of a [`Rig`].
pub(crate) struct RigOptions {
    pub(crate) spec: SourceSpec,
    pub(crate) informer: InformerOptions,
    /// Replaces the server's own service.
    pub(crate) client: Option<ClusterClient>,
    /// The budget of all caches.
    pub(crate) budget: CacheBudget,
}

impl Default for RigOptions {
    fn default() -> Self {
        Self {
            spec: pods(),
            informer: by_list(ReflectorOptions::default()),
            client: None,
            budget: CacheBudget::default(),
        }
    }
}

/// Fetches the state by LIST.
pub(crate) fn by_list(reflector: ReflectorOptions) -> InformerOptions {
    InformerOptions {
        reflector: ReflectorOptions {
            watch_list: false,
            ..reflector
        },
        ..InformerOptions::default()
    }
}

/// Fetches the state by WatchList.
pub(crate) fn by_watch_list() -> RigOptions {
    RigOptions {
        informer: InformerOptions::default(),
        ..RigOptions::default()
    }
}

/// The informer that most tests use.
pub(crate) fn pods() -> SourceSpec {
    SourceSpec::new("pods", GroupVersionResource::new("", "v1", "pods"), "Pod")
}

impl Rig {
    /// An informer on `server`; [`settle`] lets it sync.
    pub(crate) fn start(server: &ApiServer) -> Self {
        Self::start_with(server, RigOptions::default())
    }

    pub(crate) fn start_with(server: &ApiServer, options: RigOptions) -> Self {
        let mut registry = Registry::default();
        let metrics = InformerMetrics::register(&mut registry);
        let catalog = Catalog::with_budget(options.budget);
        let client = options
            .client
            .unwrap_or_else(|| Client::new(server.service(), "default").into());
        let environment = Arc::new(TokioEnvironment::current(7));
        let informer = SharedInformer::start_with(
            options.spec,
            client,
            environment,
            catalog.clone(),
            &metrics,
            options.informer,
        )
        .expect("the informer starts");
        Self {
            server: server.clone(),
            informer,
            catalog,
            registry,
        }
    }

    /// Adds a handler that records its calls.
    pub(crate) fn record(&self) -> RecordedCalls {
        self.record_with(ListenerOptions::default())
    }

    pub(crate) fn record_with(&self, options: ListenerOptions) -> RecordedCalls {
        let lines = Arc::default();
        let handler = RecordingHandler {
            lines: Arc::clone(&lines),
            fail: None,
        };
        let registration = self
            .informer
            .add_handler(Box::new(handler), options)
            .expect("the informer runs");
        RecordedCalls { lines, registration }
    }

    /// The store's content: `NAME@VERSION`, sorted.
    pub(crate) fn stored(&self) -> Vec<String> {
        self.informer
            .snapshot()
            .iter()
            .map(|object| format!("{}@{}", object.name(), object.version()))
            .collect()
    }

    /// The names of the stored objects, sorted.
    pub(crate) fn names(&self) -> Vec<String> {
        let snapshot = self.informer.snapshot();
        snapshot.iter().map(|object| object.name().to_owned()).collect()
    }

    /// The server's content, in the form of [`stored`](Self::stored).
    pub(crate) fn truth(&self) -> Vec<String> {
        let mut truth = self.server.list("v1/pods").expect("pods");
        truth.sort_by_key(|pod| pod["metadata"]["name"].as_str().map(str::to_owned));
        truth.iter().map(name_at_version).collect()
    }

    /// The value of one series, written `NAME{LABELS}`; 0 if it does not exist.
    pub(crate) fn metric(&self, series: &str) -> f64 {
        let mut text = String::new();
        prometheus_client::encoding::text::encode(&mut text, &self.registry).expect("metrics are written");
        let line = text
            .lines()
            .find_map(|line| line.strip_prefix(series)?.strip_prefix(' '));
        line.map_or(0.0, |value| value.parse().expect("a number"))
    }

    /// The queries of the requests with this verb, in order.
    pub(crate) fn requests(&self, verb: &str) -> Vec<String> {
        requests(&self.server, verb)
    }
}

pub(crate) fn requests(server: &ApiServer, verb: &str) -> Vec<String> {
    let all = server.requests().into_iter().filter(|request| request.verb == verb);
    all.map(|request| {
        request
            .uri
            .split_once('?')
            .map_or(String::new(), |(_, query)| query.to_owned())
    })
    .collect()
}

pub(crate) fn name_at_version(object: &Value) -> String {
    let metadata = &object["metadata"];
    let text = |field: &str| metadata[field].as_str().unwrap_or_default().to_owned();
    format!("{}@{}", text("name"), text("resourceVersion"))
}

/// Lets everything happen that needs no time (a millisecond of paused time: the clock only advances when nothing else
/// can run).
pub(crate) async fn settle() {
    tokio::time::sleep(Duration::from_millis(1)).await;
}

/// Lets paused time pass.
pub(crate) async fn pass(seconds: u64) {
    tokio::time::sleep(Duration::from_secs(seconds)).await;
}

pub(crate) fn api_server() -> ApiServer {
    ApiServer::new(informant_apiserver::Options::default())
}

/// Writes a pod: creates it, or changes its label `revision`.
pub(crate) fn put(server: &ApiServer, name: &str, revision: u64) {
    let pod = json!({
        "apiVersion": "v1", "kind": "Pod",
        "metadata": {"namespace": "default", "name": name, "labels": {"revision": revision.to_string()}},
        "spec": {"nodeName": format!("node-{}", revision % 3), "containers": [{"name": "main", "image": "nginx"}]},
    });
    server.put("v1/pods", "default", pod).expect("the pod is written");
}

pub(crate) fn delete(server: &ApiServer, name: &str) {
    server.delete("v1/pods", "default", name).expect("the pod is deleted");
}

/// The calls of a [`RecordingHandler`], and its registration.
pub(crate) struct RecordedCalls {
    lines: Arc<Mutex<Vec<String>>>,
    pub(crate) registration: Registration,
}

impl RecordedCalls {
    /// The calls since the last time.
    pub(crate) fn take(&self) -> Vec<String> {
        std::mem::take(&mut *self.lines.lock().expect("no recorder panics"))
    }
}

/// Decides the result of a call, by its recorded line.
pub(crate) type CallOutcome = Box<dyn FnMut(&str) -> Result<(), HandlerError> + Send>;

/// Records its calls: `add a (initial)`, `update a`, `delete a (unknown)`, `synced`.
pub(crate) struct RecordingHandler {
    pub(crate) lines: Arc<Mutex<Vec<String>>>,
    pub(crate) fail: Option<CallOutcome>,
}

impl RecordingHandler {
    fn note(&mut self, line: String, context: &EventContext) -> Result<(), HandlerError> {
        let reason = if context.reason == Reason::Watch {
            String::new()
        } else {
            format!(" ({})", context.reason)
        };
        let line = format!("{line}{reason}");
        self.lines.lock().expect("no recorder panics").push(line.clone());
        self.fail.as_mut().map_or(Ok(()), |fail| fail(&line))
    }
}

impl EventHandler for RecordingHandler {
    fn on_add(&mut self, object: &Object, context: &EventContext) -> Result<(), HandlerError> {
        self.note(format!("add {}", object.name()), context)
    }

    fn on_update(&mut self, old: Option<&Object>, new: &Object, context: &EventContext) -> Result<(), HandlerError> {
        let revision = |object: &Object| {
            object
                .label("revision")
                .map_or("?".to_owned(), |value| value.into_owned())
        };
        let old = old.map_or("?".to_owned(), revision);
        self.note(format!("update {} {old}->{}", new.name(), revision(new)), context)
    }

    fn on_delete(
        &mut self,
        key: KeyRef<'_>,
        last: Option<&Object>,
        final_state_unknown: bool,
        context: &EventContext,
    ) -> Result<(), HandlerError> {
        let unknown = if final_state_unknown { " unknown" } else { "" };
        let last = if last.is_none() { " without state" } else { "" };
        self.note(format!("delete {}{unknown}{last}", key.name), context)
    }

    fn on_synced(&mut self, context: &EventContext) -> Result<(), HandlerError> {
        self.note("synced".to_owned(), context)
    }
}

/// Waits for deliveries, for a handler with one call at a time.
pub(crate) struct Deliveries {
    listener: ListenerHandle,
    environment: Arc<TokioEnvironment>,
    woken: Arc<Notify>,
}

impl Deliveries {
    pub(crate) fn of(listener: ListenerHandle, environment: Arc<TokioEnvironment>) -> Self {
        let woken = Arc::new(Notify::new());
        let notify = Arc::clone(&woken);
        listener.consumer().set_waker(Arc::new(move || notify.notify_one()));
        Self {
            listener,
            environment,
            woken,
        }
    }

    /// None once the listener is closed.
    pub(crate) async fn next(&self) -> Option<Delivery> {
        loop {
            match self.listener.consumer().next(self.environment.now()) {
                NextDelivery::Deliver(delivery) => return Some(delivery),
                NextDelivery::Closed => return None,
                NextDelivery::WaitUntil(_) | NextDelivery::Idle => self.woken.notified().await,
            }
        }
    }

    /// Acknowledges a delivery.
    pub(crate) fn done(&self, delivery: &Delivery) {
        self.listener
            .consumer()
            .done(delivery.token, DeliveryOutcome::Ok, self.environment.now());
    }
}

/// Two servers: one with the pods `a`, `b` and `c`, and one with fewer writes: only `c`.
pub(crate) struct Replaceable {
    pub(crate) old: ApiServer,
    pub(crate) new: ApiServer,
    is_replaced: Arc<AtomicBool>,
}

impl Replaceable {
    pub(crate) fn new() -> Self {
        let (old, new) = (api_server(), api_server());
        for name in ["a", "b", "c"] {
            put(&old, name, 1);
        }
        put(&new, "c", 1);
        Self::of(old, new)
    }

    pub(crate) fn of(old: ApiServer, new: ApiServer) -> Self {
        Self {
            old,
            new,
            is_replaced: Arc::default(),
        }
    }

    /// A client of the old server, and once it is replaced of the new one.
    pub(crate) fn client(&self) -> Client {
        let (old, new) = (self.old.service(), self.new.service());
        let is_replaced = Arc::clone(&self.is_replaced);
        let service = tower::service_fn(move |request| {
            let mut service = if is_replaced.load(Ordering::Relaxed) {
                new.clone()
            } else {
                old.clone()
            };
            async move { service.call(request).await }
        });
        Client::new(service, "default")
    }

    pub(crate) fn start(&self) -> Rig {
        let options = RigOptions {
            client: Some(self.client().into()),
            ..RigOptions::default()
        };
        Rig::start_with(&self.old, options)
    }

    /// From now on the new server answers.
    pub(crate) fn replace(&self) {
        self.is_replaced.store(true, Ordering::Relaxed);
    }
}
