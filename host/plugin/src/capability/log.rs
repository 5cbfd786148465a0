//! The `log` interface: lines in Informant's log.
//!
//! Each line has the plugin's name, and the cluster of the object that the call is about. What is written is bounded
//! ([`Output`]), as stdout and stderr are, which belong to the same call.

use std::sync::Arc;

use informant_cache::Catalog;
use informant_spec::PluginSpec;
use prometheus_client::metrics::counter::Counter;
use wasmtime::component::{HasSelf, Linker};

use crate::bindings::informant::plugin::log::{self, Level};
use crate::capability::HasCapabilities;
use crate::capability::parts::{
    CallEnd, CallPart, CallStart, CallSubject, Capability, Current, InstanceParts, PluginParts,
};
use crate::capture::Tape;
use crate::output::Output;
use crate::series::{FamilyOf, Live, SeriesSet};

pub(crate) struct LogPlugin {
    plugin: Arc<str>,
    catalog: Catalog,
    series: Arc<LogSeries>,
}

#[derive(Default)]
pub(crate) struct LogSeries {
    dropped_bytes: Counter,
}

/// Writes lines for one instance.
pub(crate) struct LogCaller {
    output: Output,
    subject: CallSubject,
}

impl LogPlugin {
    /// The plugin's name.
    pub(crate) fn plugin(&self) -> &Arc<str> {
        &self.plugin
    }

    /// Of an instance with this tape.
    pub(crate) fn output(&self, tape: &Tape) -> Output {
        Output::new(Arc::clone(&self.plugin), self.series.dropped_bytes.clone()).recorded(tape)
    }
}

impl SeriesSet for LogSeries {
    const FAMILIES: &'static [FamilyOf<LogSeries>] = &[FamilyOf::new(
        "plugin_log_dropped_bytes",
        "Bytes of plugin log output dropped above the limit of a call",
        |of| &of.dropped_bytes,
    )];
}

impl Capability for LogPlugin {
    const INTERFACE: Option<&'static str> = Some("log");

    type Host = Live<LogSeries>;
    type Grants = ();
    type Call = LogCaller;

    fn grants(_spec: &PluginSpec) {}

    fn new(host: &Live<LogSeries>, _grants: &Arc<Current<()>>, plugin: &PluginParts<'_>) -> LogPlugin {
        LogPlugin {
            plugin: Arc::clone(plugin.plugin),
            catalog: plugin.services.catalog.clone(),
            series: host.of(plugin.plugin),
        }
    }

    fn call(self: &Arc<Self>, _grants: &Arc<Current<()>>, instance: &InstanceParts<'_>) -> LogCaller {
        LogCaller {
            output: instance.output.clone(),
            subject: CallSubject::new(&self.catalog),
        }
    }

    fn link<T: HasCapabilities>(linker: &mut Linker<T>) -> wasmtime::Result<()> {
        log::add_to_linker::<_, HasSelf<LogCaller>>(linker, |state: &mut T| &mut state.capabilities().log)
    }
}

impl CallPart for LogCaller {
    type Effects = ();

    fn begin(&mut self, call: CallStart) {
        self.subject.set(call.source);
    }

    fn finish(&mut self, _end: CallEnd) {
        self.output.end_call();
    }
}

impl log::Host for LogCaller {
    fn log(&mut self, level: Level, message: String, fields: Vec<(String, String)>) -> wasmtime::Result<()> {
        let cluster = self.subject.cluster().ok().flatten();
        let cluster = cluster.as_deref().filter(|cluster| !cluster.is_empty());
        self.output.log(level, &message, &fields, cluster);
        Ok(())
    }
}
