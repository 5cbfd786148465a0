//! Sends a plugin's Events, one after the other.

use std::collections::VecDeque;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, OnceLock};
use std::time::Duration;

use informant_cache::{Catalog, Environment};
use informant_spec::{ALLOW_EVENTS, KubeResource};
use jiff::Timestamp;
use serde_json::{Value, json};
use tokio::sync::Notify;

use super::EventsGrant;
use super::event::{RecordedEvent, Reference, Series};
use super::metrics::{EventResult, RecorderSeries};
use super::series::{FINISH_AFTER, Next, SeriesTable};
use crate::bindings::informant::plugin::types::ErrorCode;
use crate::capability::kube::KUBE_ANSWER_BYTES_MAX;
use crate::capability::kube::api::{
    KubeAction, KubeAddress, KubeApi, KubeCall, KubeError, KubeErrorCode, KubePatchKind, KubePurpose, KubeWrite,
};
use crate::capability::parts::{Current, PluginParts};
use crate::clock::WallClock;
use crate::effects::Effects;
use crate::engine::wait;
use crate::observed::{CallCause, Effect, EffectKind, KubernetesEvent};
use crate::series::Live;
use crate::sync::lock;

/// Events of one plugin that wait to be sent: 1,000, as in client-go. Further ones are dropped, and counted.
pub(super) const EVENTS_WAITING_MAX: usize = 1_000;

/// How often an Event is sent at most while the API server cannot be reached: 12 times, as in client-go.
const EVENT_ATTEMPTS_MAX: u32 = 12;

/// Between two attempts: 10 s, as in client-go.
const EVENT_PAUSE: Duration = Duration::from_secs(10);

/// How long a request may take: 10 s.
const EVENT_TIME_MAX: Duration = Duration::from_secs(10);

/// What the instances of a plugin share.
pub(crate) struct RecorderPlugin {
    plugin: Arc<str>,
    api: Option<Arc<dyn KubeApi>>,
    catalog: Catalog,
    env: Arc<dyn Environment>,
    wall: WallClock,
    dry_run: Arc<Effects>,
    /// Those of the present section.
    grants: Mutex<Arc<Current<EventsGrant>>>,
    /// Nothing more is recorded.
    is_closed: AtomicBool,
    series: Live<RecorderSeries>,
    /// From the first Event on.
    used: OnceLock<Box<Used>>,
}

struct Used {
    series: Arc<RecorderSeries>,
    queue: Mutex<Queue>,
    /// Wakes the sender.
    changed: Notify,
}

#[derive(Default)]
struct Queue {
    events: VecDeque<RecordedEvent>,
    /// The sender runs.
    runs: bool,
}

impl RecorderPlugin {
    pub(super) fn of(
        series: Live<RecorderSeries>,
        grants: &Arc<Current<EventsGrant>>,
        parts: &PluginParts<'_>,
    ) -> RecorderPlugin {
        RecorderPlugin {
            plugin: Arc::clone(parts.plugin),
            api: parts.services.kube.clone(),
            catalog: parts.services.catalog.clone(),
            env: Arc::clone(parts.env),
            wall: parts.wall.clone(),
            dry_run: Arc::clone(parts.dry_run),
            grants: Mutex::new(Arc::clone(grants)),
            is_closed: AtomicBool::new(false),
            series,
            used: OnceLock::new(),
        }
    }

    pub(super) fn set_grants(&self, grants: &Arc<Current<EventsGrant>>) {
        *lock(&self.grants) = Arc::clone(grants);
    }

    pub(super) fn name(&self) -> &str {
        &self.plugin
    }

    #[cfg(test)]
    pub(super) fn series(&self) -> &Live<RecorderSeries> {
        &self.series
    }

    pub(super) fn catalog(&self) -> &Catalog {
        &self.catalog
    }

    pub(super) fn wall_time(&self) -> Timestamp {
        self.wall.now()
    }

    /// The full name of a cluster.
    /// Errors: there is no such cluster.
    pub(super) fn cluster(&self, name: &str) -> Result<String, String> {
        match &self.api {
            Some(api) => api.cluster(name).map_err(|problem| problem.message),
            None => Ok(name.to_owned()),
        }
    }

    pub(super) fn count_refused(&self, code: ErrorCode) {
        self.used().series.count_refused(code);
    }

    pub(super) fn count_dropped(&self, events: usize) {
        self.used().series.count(EventResult::Dropped, events as u64);
    }

    /// Sends what a call has recorded that succeeded.
    pub(super) fn send(self: &Arc<Self>, events: Vec<RecordedEvent>) {
        if events.is_empty() {
            return;
        }
        for event in &events {
            self.dry_run.recorded(|| observed(event));
        }
        if self.dry_run.is_dry_run() {
            events.iter().for_each(|event| self.dry_run.record(effect(event)));
            return self.used().series.count(EventResult::Withheld, events.len() as u64);
        }
        let used = self.used();
        let mut queue = lock(&used.queue);
        let room = EVENTS_WAITING_MAX - queue.events.len();
        let dropped = match self.is_closed() {
            true => events.len(),
            false => events.len().saturating_sub(room),
        };
        let accepted = events.len() - dropped;
        queue.events.extend(events.into_iter().take(accepted));
        if dropped > 0 {
            used.series.count(EventResult::Dropped, dropped as u64);
        }
        if accepted > 0 && !std::mem::replace(&mut queue.runs, true) {
            let sender = run(Arc::clone(self));
            self.env.spawn("plugin-recorder", Box::pin(sender));
        }
        drop(queue);
        used.changed.notify_one();
    }

    /// Drops what waits: another replica acts.
    pub(super) fn drop_waiting(&self) {
        let Some(used) = self.used.get() else { return };
        let dropped = std::mem::take(&mut lock(&used.queue).events);
        if !dropped.is_empty() {
            used.series.count(EventResult::Dropped, dropped.len() as u64);
        }
    }

    /// Nothing more is recorded: what waits is sent, once.
    pub(super) fn close_queue(&self) {
        self.is_closed.store(true, Ordering::Release);
        if let Some(used) = self.used.get() {
            used.changed.notify_one();
        }
    }

    fn used(&self) -> &Used {
        self.used.get_or_init(|| {
            Box::new(Used {
                series: self.series.of(&self.plugin),
                queue: Mutex::default(),
                changed: Notify::new(),
            })
        })
    }

    /// The next Event that waits.
    fn next(&self) -> Option<RecordedEvent> {
        lock(&self.used().queue).events.pop_front()
    }

    /// Whether the sender may end: nothing waits, and nothing will that it knows better.
    fn may_end(&self, table: &SeriesTable) -> bool {
        let mut queue = lock(&self.used().queue);
        let ends = queue.events.is_empty() && (self.is_closed() || table.is_empty());
        queue.runs &= !ends;
        ends
    }

    fn is_closed(&self) -> bool {
        self.is_closed.load(Ordering::Acquire)
    }

    async fn handle(&self, event: RecordedEvent, table: &mut SeriesTable) {
        let now = self.env.now();
        let (made, result) = match table.record(event, now) {
            Next::Limited => return self.used().series.count(EventResult::Limited, 1),
            Next::Counted => return self.used().series.count(EventResult::Counted, 1),
            Next::Create(event) => {
                let made = self.create(&event, None).await;
                if made.is_ok() {
                    self.dry_run.made(|| effect(&event));
                }
                (made, EventResult::Created)
            }
            Next::Update(event, series) => (self.update(&event, series).await, EventResult::Updated),
        };
        self.count(made, result);
    }

    fn count(&self, made: Result<(), KubeError>, result: EventResult) {
        let result = match made {
            Ok(()) => result,
            Err(problem) => {
                let plugin: &str = &self.plugin;
                tracing::debug!(plugin, error = problem.message, "Kubernetes Event lost");
                EventResult::Lost
            }
        };
        self.used().series.count(result, 1);
    }

    async fn create(&self, event: &RecordedEvent, series: Option<Series>) -> Result<(), KubeError> {
        let instance = self.api.as_deref().map_or("", KubeApi::process);
        let controller = format!("informant.dev/{}", self.plugin);
        let document = event.document(&controller, instance, series);
        self.try_send(event, "", KubeAction::Create, &document).await
    }

    /// Sends a series. If its Event is gone, it begins again.
    async fn update(&self, event: &RecordedEvent, series: Series) -> Result<(), KubeError> {
        let patch = json!({ "series": series.document() });
        let action = |bytes, options| KubeAction::Patch(KubePatchKind::Merge, bytes, options);
        match self.try_send(event, &event.name(), action, &patch).await {
            Err(problem) if problem.status == 404 => self.create(event, Some(series)).await,
            sent => sent,
        }
    }

    /// Sends a request until the API server has answered it.
    async fn try_send(
        &self,
        event: &RecordedEvent,
        name: &str,
        action: impl Fn(Vec<u8>, KubeWrite) -> KubeAction,
        document: &Value,
    ) -> Result<(), KubeError> {
        let mut attempts = 0;
        loop {
            attempts += 1;
            let options = KubeWrite {
                field_manager: KubeWrite::default_manager(&self.plugin),
                ..KubeWrite::default()
            };
            let (identity, time_max) = self.granted(event)?;
            let call = KubeCall {
                plugin: Arc::clone(&self.plugin),
                address: KubeAddress {
                    cluster: event.key.about.cluster.clone(),
                    resource: KubeResource::events(),
                    namespace: event.key.namespace().to_owned(),
                    name: name.to_owned(),
                    subresource: String::new(),
                },
                action: action(document.to_string().into_bytes(), options),
                uid: String::new(),
                purpose: KubePurpose::Event,
                identity,
                answer_bytes_max: KUBE_ANSWER_BYTES_MAX,
            };
            let Err(problem) = self.call(call, time_max).await else {
                return Ok(());
            };
            // What was created by an attempt whose response was lost.
            if problem.status == 409 && attempts > 1 {
                return Ok(());
            }
            let is_worth_another = match problem.status {
                0 => matches!(problem.code, KubeErrorCode::Timeout | KubeErrorCode::Unavailable),
                status => matches!(status, 429 | 500..=599),
            };
            if !is_worth_another || attempts >= EVENT_ATTEMPTS_MAX || self.is_closed() {
                return Err(problem);
            }
            let pause = self
                .env
                .sleep(problem.retry_after.unwrap_or(EVENT_PAUSE).min(EVENT_PAUSE));
            tokio::select! {
                biased;
                () = pause => {}
                () = self.closed() => {}
            }
        }
    }

    /// Ends when nothing more is recorded.
    async fn closed(&self) {
        while !self.is_closed() {
            self.used().changed.notified().await;
        }
    }

    /// The user that records the Event, and how long the request may take.
    /// Errors: what it was recorded under holds no longer; it may have waited since.
    fn granted(&self, event: &RecordedEvent) -> Result<(Option<Arc<str>>, Duration), KubeError> {
        let refused = |message: &str| Err(KubeError::new(KubeErrorCode::Denied, message));
        let grant = lock(&self.grants).get();
        let about = event.cause.as_deref().and_then(CallCause::about);
        match () {
            () if self.dry_run.is_dry_run() => refused("the plugin is in dry run"),
            () if !grant.is_granted => refused("Events are not granted any more"),
            () => match self.dry_run.admit(EffectKind::Event, about) {
                Ok(time_max) => Ok((grant.identity.clone(), time_max.min(EVENT_TIME_MAX))),
                Err(not_acting) => refused(&not_acting.to_string()),
            },
        }
    }

    async fn call(&self, call: KubeCall, time_max: Duration) -> Result<(), KubeError> {
        let Some(api) = &self.api else {
            return Err(KubeError::new(KubeErrorCode::Denied, "no cluster is connected"));
        };
        let answer = wait::at_most(&*self.env, time_max, api.call(call)).await;
        let answer = answer.unwrap_or_else(|_| Err(KubeError::new(KubeErrorCode::Timeout, "no response in time")));
        answer.map(|_| ())
    }
}

/// Sends until nothing waits and no series is left.
async fn run(plugin: Arc<RecorderPlugin>) {
    let mut table = SeriesTable::default();
    loop {
        match plugin.next() {
            Some(event) => plugin.handle(event, &mut table).await,
            None if plugin.may_end(&table) => return,
            None => {
                let due = plugin.env.sleep(FINISH_AFTER);
                tokio::select! {
                    biased;
                    () = plugin.used().changed.notified() => continue,
                    () = due => {}
                }
            }
        }
        for (event, series) in table.refresh(plugin.env.now()) {
            let made = plugin.update(&event, series).await;
            plugin.count(made, EventResult::Updated);
        }
    }
}

fn observed(event: &RecordedEvent) -> KubernetesEvent {
    let key = &event.key;
    KubernetesEvent {
        event_type: key.event_type(),
        reason: key.reason.clone(),
        action: key.action.clone(),
        note: event.note.clone(),
        regarding: key.about.describe(),
        related: key.related.as_ref().map(Reference::describe),
    }
}

fn effect(event: &RecordedEvent) -> Effect {
    let key = &event.key;
    let action = format!("{} {}", key.event_type(), key.reason);
    Effect {
        cluster: key.about.cluster.clone(),
        detail: event.note.clone(),
        object: Some(key.about.as_object()),
        grant: ALLOW_EVENTS.to_owned(),
        cause: event.cause.clone(),
        ..Effect::new(EffectKind::Event, action, key.about.describe())
    }
}
