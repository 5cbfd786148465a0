//! Records what a plugin does: its calls, its lines in the log, its writes and its HTTP requests.

use std::fmt::{Debug, Write as _};
use std::sync::{Arc, Mutex};

use informant_plugin_host::{
    KubeApi, KubeCall, KubeError, KubeFuture, KubeRequest, KubernetesEvent, ObservedCall, PluginObserver,
};
use serde_json::{Value, json};
use tracing::field::{Field, Visit};
use tracing::span::{Attributes, Id, Record};
use tracing::{Event, Level, Metadata, Subscriber};

use crate::recorded;
use crate::sync::lock;

/// The target of the lines of plugins.
const PLUGIN_TARGET: &str = "informant::guest";

/// Lines of Informant itself that a failed scenario shows: 20.
const NOTES_MAX: usize = 20;

/// What has happened since it was last taken. Clones share it.
#[derive(Clone, Debug, Default)]
pub(super) struct Recorder(Arc<Mutex<Recorded>>);

#[derive(Debug, Default)]
pub(super) struct Recorded {
    pub(super) calls: Vec<ObservedCall>,
    pub(super) log: Vec<Value>,
    pub(super) writes: Vec<Value>,
    pub(super) http: Vec<Value>,
    pub(super) events: Vec<Value>,
    /// Warnings and errors of Informant.
    notes: Vec<String>,
}

impl Recorder {
    /// Takes what happened. The notes stay.
    pub(super) fn take(&self) -> Recorded {
        let mut recorded = lock(&self.0);
        let notes = std::mem::take(&mut recorded.notes);
        let taken = std::mem::take(&mut *recorded);
        recorded.notes = notes;
        taken
    }

    pub(super) fn notes(&self) -> Vec<String> {
        lock(&self.0).notes.clone()
    }

    pub(super) fn record_http(&self, request: Value) {
        lock(&self.0).http.push(request);
    }

    /// Puts itself in front of what sends requests to the cluster.
    pub(super) fn watch(&self, clusters: Arc<dyn KubeApi>) -> Arc<dyn KubeApi> {
        Arc::new(RecordedCluster {
            clusters,
            recorder: self.clone(),
        })
    }

    /// Reads the log of this thread.
    pub(super) fn subscriber(&self) -> impl Subscriber + Send + Sync + use<> {
        LogLines(self.clone())
    }
}

impl PluginObserver for Recorder {
    fn called(&self, _plugin: &str, call: ObservedCall) {
        lock(&self.0).calls.push(call);
    }

    fn recorded(&self, _plugin: &str, event: &KubernetesEvent) {
        lock(&self.0).events.push(recorded::event(event));
    }
}

struct RecordedCluster {
    clusters: Arc<dyn KubeApi>,
    recorder: Recorder,
}

impl KubeApi for RecordedCluster {
    fn call(&self, call: KubeCall) -> KubeFuture {
        // Kubernetes Events are no writes of a handler: they are recorded when it makes them.
        let write = recorded::write(&KubeRequest::from(&call)).filter(|_| !call.is_event());
        let Some(mut write) = write else {
            return self.clusters.call(call);
        };
        let (answer, recorder) = (self.clusters.call(call), self.recorder.clone());
        Box::pin(async move {
            let answer = answer.await;
            let result = match &answer {
                Ok(_) => "ok",
                Err(error) => error.code.as_str(),
            };
            write.insert("result".to_owned(), result.into());
            lock(&recorder.0).writes.push(Value::Object(write));
            answer
        })
    }

    fn cluster(&self, name: &str) -> Result<String, KubeError> {
        self.clusters.cluster(name)
    }
}

/// The log of one thread.
struct LogLines(Recorder);

/// The fields of a line.
#[derive(Default)]
struct Fields {
    message: String,
    /// The JSON object that a plugin has logged.
    fields: Option<String>,
    rest: String,
}

impl Visit for Fields {
    fn record_str(&mut self, field: &Field, value: &str) {
        match field.name() {
            "fields" => self.fields = Some(value.to_owned()),
            "message" => value.clone_into(&mut self.message),
            name => drop(write!(self.rest, " {name}={value}")),
        }
    }

    fn record_debug(&mut self, field: &Field, value: &dyn Debug) {
        match field.name() {
            "message" => self.message = format!("{value:?}"),
            name => drop(write!(self.rest, " {name}={value:?}")),
        }
    }
}

impl Subscriber for LogLines {
    fn enabled(&self, metadata: &Metadata<'_>) -> bool {
        // As `informant run` logs by default. What is not an event asks for the level on behalf of a guest.
        !metadata.is_span() && *metadata.level() <= Level::INFO
    }

    fn new_span(&self, _span: &Attributes<'_>) -> Id {
        Id::from_u64(1)
    }

    fn record(&self, _span: &Id, _values: &Record<'_>) {}

    fn record_follows_from(&self, _span: &Id, _follows: &Id) {}

    fn event(&self, event: &Event<'_>) {
        let (metadata, mut fields) = (event.metadata(), Fields::default());
        event.record(&mut fields);
        let level = metadata.level().as_str().to_ascii_lowercase();
        let mut recorded = lock(&self.0.0);
        if metadata.target() == PLUGIN_TARGET {
            let mut line = json!({ "level": level, "message": fields.message });
            let of_plugin = fields
                .fields
                .and_then(|fields| serde_json::from_str::<Value>(&fields).ok());
            if let Some(of_plugin) = of_plugin {
                line["fields"] = of_plugin;
            }
            recorded.log.push(line);
        } else if *metadata.level() <= Level::WARN && recorded.notes.len() < NOTES_MAX {
            recorded
                .notes
                .push(format!("{level}: {}{}", fields.message, fields.rest));
        }
    }

    fn enter(&self, _span: &Id) {}

    fn exit(&self, _span: &Id) {}
}
