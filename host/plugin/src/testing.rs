//! Shared by this crate's tests.

use std::fmt::{Debug, Write as _};
use std::path::Path;
use std::sync::{Arc, Mutex};
use std::time::Duration;

use informant_cache::{BoxFuture, Catalog, Environment, Moment};
use informant_object::SourceId;
use informant_spec::PluginSpec;
use prometheus_client::registry::Registry;
use tokio::runtime::Handle;
use tracing::field::{Field, Visit};
use tracing::span::{Attributes, Id, Record};
use tracing::{Event, Metadata, Subscriber};

use crate::capability::Services;
use crate::capability::parts::{ActorWaker, CallStart, PluginParts};
use crate::capability::permission::MayUse;
use crate::clock::WallClock;
use crate::component::runner::RunnerSources;
use crate::effects::{self, Effects};
use crate::engine::compile::Compiler;
use crate::host::{HostOptions, PluginHost};
use crate::metrics::PluginMetrics;

/// A subscriber that keeps each event as a line: level, message, fields.
#[derive(Clone, Default)]
pub(crate) struct LogLines(Arc<Mutex<Vec<String>>>);

impl LogLines {
    pub(crate) fn take(&self) -> Vec<String> {
        std::mem::take(&mut self.0.lock().unwrap())
    }
}

impl Subscriber for LogLines {
    fn enabled(&self, _metadata: &Metadata<'_>) -> bool {
        true
    }

    fn new_span(&self, _span: &Attributes<'_>) -> Id {
        Id::from_u64(1)
    }

    fn record(&self, _span: &Id, _values: &Record<'_>) {}

    fn record_follows_from(&self, _span: &Id, _follows: &Id) {}

    fn event(&self, event: &Event<'_>) {
        let mut line = Line {
            message: String::new(),
            fields: String::new(),
        };
        event.record(&mut line);
        let text = format!("{} {}{}", event.metadata().level(), line.message, line.fields);
        self.0.lock().unwrap().push(text);
    }

    fn enter(&self, _span: &Id) {}

    fn exit(&self, _span: &Id) {}
}

struct Line {
    message: String,
    fields: String,
}

impl Visit for Line {
    fn record_debug(&mut self, field: &Field, value: &dyn Debug) {
        if field.name() == "message" {
            self.message = format!("{value:?}");
        } else {
            write!(self.fields, " {}={value:?}", field.name()).unwrap();
        }
    }
}

/// Sleeps with tokio's clock; its own clock stands at zero.
pub(crate) struct TokioTime;

impl Environment for TokioTime {
    fn now(&self) -> Moment {
        Moment::ZERO
    }

    fn sleep(&self, duration: Duration) -> BoxFuture {
        Box::pin(tokio::time::sleep(duration))
    }

    fn spawn(&self, _name: &'static str, task: BoxFuture) {
        tokio::spawn(task);
    }

    fn random(&self) -> u64 {
        0
    }
}

/// A host without services, on this runtime.
pub(crate) fn test_host(cache_dir: &Path) -> PluginHost {
    let host = PluginHost::new(HostOptions {
        cache_dir: cache_dir.to_owned(),
        env: Arc::new(TokioTime),
        handle: Handle::current(),
        compiler: Compiler::InProcess,
        services: no_services(),
        metrics: PluginMetrics::register(&mut Registry::default()),
        script_runners: RunnerSources::new(),
    });
    host.unwrap()
}

fn no_services() -> Services {
    Services {
        catalog: Catalog::new(),
        kube: None,
        key_value: None,
        http: None,
        observer: None,
        gate: None,
    }
}

/// What the capabilities of a plugin are made from: no services, and a clock that stands still.
pub(crate) struct TestParts {
    plugin: Arc<str>,
    pub(crate) spec: PluginSpec,
    pub(crate) services: Services,
    pub(crate) env: Arc<dyn Environment>,
    pub(crate) dry_run: Arc<Effects>,
    waker: Arc<ActorWaker>,
}

impl TestParts {
    pub(crate) fn new(plugin: &str, is_dry_run: bool) -> TestParts {
        TestParts {
            plugin: Arc::from(plugin),
            spec: PluginSpec::new(plugin, "plugin.wasm"),
            services: no_services(),
            env: Arc::new(TokioTime),
            dry_run: Arc::new(effects::withheld(is_dry_run)),
            waker: Arc::default(),
        }
    }

    pub(crate) fn plugin(&self) -> PluginParts<'_> {
        PluginParts {
            plugin: &self.plugin,
            spec: &self.spec,
            services: &self.services,
            env: &self.env,
            wall: &WallClock::System,
            dry_run: &self.dry_run,
            waker: &self.waker,
        }
    }
}

/// A call about an object of this source.
pub(crate) fn call_about(source: Option<u32>, may_use: MayUse) -> CallStart {
    CallStart {
        source: source.map(SourceId),
        may_use,
    }
}
