//! The data of one instance's wasmtime store, and the linker.

use std::sync::Arc;

use informant_spec::Limits;
use prometheus_client::metrics::counter::Counter;
use wasmtime::component::{HasSelf, Linker, ResourceTable};
use wasmtime::{Engine, Store};
use wasmtime_wasi::{WasiCtx, WasiCtxView, WasiView};
use wasmtime_wasi_http::{WasiHttpCtx, WasiHttpCtxView, WasiHttpView};

use crate::component::script::Script;
use crate::engine::budget::{self, Budget};
use crate::engine::limiter::Limiter;
use crate::engine::scheduler::{CpuScheduler, OverrunHistory};
use crate::engine::ticker::TickClock;
use crate::hostcalls::HostAccess;
use crate::hostcalls::http::{self, HttpCaller};
use crate::hostcalls::kube::KubeCaller;
use crate::hostcalls::kv::KvCaller;
use crate::hostcalls::metrics::MetricsCaller;
use crate::hostcalls::store::StoreReader;
use crate::instance::bindings::informant::plugin::log::{self, Level};
use crate::instance::bindings::informant::plugin::{kube, kv, metrics, store, types};
use crate::instance::output::Output;
use crate::instance::wasi::{self, WasiMode};
use crate::instance::watchdog::CallWatchdog;

/// Handles (streams, pollables, requests) that one instance may hold in the host: 1,000. One more is a trap.
const HANDLES_MAX: usize = 1_000;

/// Bytes a guest may pass in one call of a host function or return as one result: 16 MiB. More is a trap.
pub const TRANSFER_BYTES_MAX: usize = 16 << 20;

/// The data of one instance's wasmtime store.
pub(crate) struct GuestState {
    wasi: WasiCtx,
    handles: ResourceTable,
    pub(crate) limiter: Limiter,
    pub(crate) budget: Budget,
    pub(crate) output: Output,
    pub(crate) reader: StoreReader,
    pub(crate) kube: KubeCaller,
    pub(crate) kv: KvCaller,
    pub(crate) metrics: MetricsCaller,
    pub(crate) http: HttpCaller,
    http_context: WasiHttpCtx,
}

/// The resources and grants of an instance.
pub(crate) struct InstanceResources {
    pub(crate) plugin: Arc<str>,
    pub(crate) limits: Limits,
    pub(crate) wasi_mode: WasiMode,
    pub(crate) access: HostAccess,
    pub(crate) clock: Arc<TickClock>,
    pub(crate) scheduler: Arc<CpuScheduler>,
    pub(crate) overruns: Arc<OverrunHistory>,
    pub(crate) log_dropped: Counter,
}

impl GuestState {
    /// A wasmtime store for one instance, limited in memory, time and transfer; `watchdog` watches its calls. For
    /// `script`, if it is the script runner's.
    pub(crate) fn store(
        engine: &Engine,
        resources: InstanceResources,
        watchdog: &CallWatchdog,
        script: Option<&Script>,
    ) -> Store<GuestState> {
        let output = Output::new(resources.plugin, resources.log_dropped);
        let mut handles = ResourceTable::new();
        handles.set_max_capacity(HANDLES_MAX);
        let access = resources.access;
        let state = GuestState {
            wasi: wasi::context(resources.wasi_mode, &output, script),
            handles,
            limiter: Limiter::new(resources.limits.memory_bytes),
            budget: Budget::new(
                resources.clock,
                resources.limits.cpu,
                resources.scheduler,
                resources.overruns,
            ),
            reader: access.reader,
            kube: KubeCaller::new(access.kube, watchdog.call_time().clone()),
            kv: KvCaller::new(access.kv, watchdog.call_time().clone()),
            metrics: MetricsCaller::new(access.metrics),
            http: HttpCaller::new(access.http, watchdog.call_time().clone(), output.clone()),
            http_context: http::context(),
            output,
        };
        let mut store = Store::new(engine, state);
        store.limiter(|state| &mut state.limiter);
        store.epoch_deadline_callback(budget::at_tick);
        store.set_hostcall_fuel(TRANSFER_BYTES_MAX);
        store
    }

    /// Denies all calls of `store`, `kube` and wasi:http for this reason, or no longer.
    pub(crate) fn deny(&mut self, reason: Option<&'static str>) {
        self.reader.deny(reason);
        self.deny_effects(reason);
    }

    /// Denies all calls of `kube` and wasi:http for this reason, or no longer.
    pub(crate) fn deny_effects(&mut self, reason: Option<&'static str>) {
        self.kube.deny(reason);
        self.http.deny(reason);
    }
}

/// Links everything Informant offers into every component: each call is authorized when it is made.
///
/// # Errors
/// None that depends on a plugin.
pub(crate) fn linker(engine: &Engine) -> wasmtime::Result<Linker<GuestState>> {
    let mut linker = Linker::new(engine);
    wasmtime_wasi::p2::add_to_linker_async(&mut linker)?;
    http::link(&mut linker)?;
    types::add_to_linker::<_, HasSelf<GuestState>>(&mut linker, |state| state)?;
    store::add_to_linker::<_, HasSelf<StoreReader>>(&mut linker, |state| &mut state.reader)?;
    kube::add_to_linker::<_, HasSelf<GuestState>>(&mut linker, |state| state)?;
    kv::add_to_linker::<_, HasSelf<GuestState>>(&mut linker, |state| state)?;
    metrics::add_to_linker::<_, HasSelf<MetricsCaller>>(&mut linker, |state| &mut state.metrics)?;
    log::add_to_linker::<_, HasSelf<GuestState>>(&mut linker, |state| state)?;
    Ok(linker)
}

impl WasiView for GuestState {
    fn ctx(&mut self) -> WasiCtxView<'_> {
        WasiCtxView {
            ctx: &mut self.wasi,
            table: &mut self.handles,
        }
    }
}

impl WasiHttpView for GuestState {
    fn http(&mut self) -> WasiHttpCtxView<'_> {
        WasiHttpCtxView {
            hooks: &mut self.http,
            table: &mut self.handles,
            ctx: &mut self.http_context,
        }
    }
}

impl types::Host for GuestState {}

impl log::Host for GuestState {
    fn log(&mut self, level: Level, message: String) -> wasmtime::Result<()> {
        let cluster = self.reader.cluster_of_call().ok().flatten();
        let cluster = cluster.as_deref().filter(|cluster| !cluster.is_empty());
        self.output.log(level, &message, cluster);
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use wasmtime::component::Component;

    use super::*;
    use crate::component::imports;

    #[test]
    fn every_offered_interface_is_linked() {
        let engine = crate::engine::engine().unwrap();
        let linker = linker(&engine).unwrap();
        for import in imports::offered() {
            let bytes = wat::parse_str(format!(r#"(component (import "{import}" (instance)))"#)).unwrap();
            let component = Component::new(&engine, bytes).unwrap();
            linker
                .instantiate_pre(&component)
                .map(|_| ())
                .unwrap_or_else(|error| panic!("{import}: {error:#}"));
        }
    }
}
