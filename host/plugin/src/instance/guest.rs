//! The data of one instance's wasmtime store, and the linker.

use std::sync::Arc;

use informant_spec::Limits;
use wasmtime::component::{HasSelf, Linker, ResourceTable};
use wasmtime::{Engine, Store};
use wasmtime_wasi::{WasiCtx, WasiCtxView, WasiView};
use wasmtime_wasi_http::{WasiHttpCtxView, WasiHttpView};

use crate::bindings::informant::plugin::types;
use crate::capability::parts::InstanceParts;
use crate::capability::{self, CallCapabilities, Grants, HasCapabilities, PluginCapabilities};
use crate::capture::Tape;
use crate::clock::WallClock;
use crate::component::Offer;
use crate::component::by_digest::SharedByDigest;
use crate::component::manifest::Manifest;
use crate::component::script::Script;
use crate::engine::TRANSFER_BYTES_MAX;
use crate::engine::budget::{self, Budget};
use crate::engine::limiter::Limiter;
use crate::engine::scheduler::{CpuScheduler, OverrunHistory};
use crate::engine::ticker::TickClock;
use crate::engine::watchdog::CallWatchdog;
use crate::instance::wasi::{self, WasiMode};
use crate::observed::{CurrentCause, Observed};
use crate::output::Output;

/// Handles (streams, pollables, requests) that one instance may hold in the host: 1,000. One more is a trap.
const HANDLES_MAX: usize = 1_000;

/// The data of one instance's wasmtime store.
pub(crate) struct GuestState {
    wasi: WasiCtx,
    handles: ResourceTable,
    pub(crate) limiter: Limiter,
    pub(crate) budget: Budget,
    pub(crate) output: Output,
    pub(crate) capabilities: CallCapabilities,
    /// Records a call that is captured.
    pub(crate) tape: Tape,
    /// What the present call is about, for its effects.
    pub(crate) cause: CurrentCause,
    /// Sees the calls.
    pub(crate) observed: Observed,
}

/// The resources and grants of an instance.
pub(crate) struct InstanceResources {
    pub(crate) limits: Limits,
    pub(crate) wasi_mode: WasiMode,
    pub(crate) capabilities: Arc<PluginCapabilities>,
    pub(crate) grants: Grants,
    /// That of its version; an empty one while that is not known.
    pub(crate) manifest: Arc<Manifest>,
    pub(crate) clock: Arc<TickClock>,
    pub(crate) scheduler: Arc<CpuScheduler>,
    pub(crate) overruns: Arc<OverrunHistory>,
    pub(crate) observed: Observed,
    /// Of a run of a scenario.
    pub(crate) wall: WallClock,
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
        let (tape, cause) = (Tape::default(), CurrentCause::default());
        let output = resources.capabilities.log.output(&tape);
        let mut handles = ResourceTable::new();
        handles.set_max_capacity(HANDLES_MAX);
        let parts = InstanceParts {
            manifest: &resources.manifest,
            time: watchdog.call_time(),
            output: &output,
            tape: &tape,
            cause: &cause,
        };
        let state = GuestState {
            wasi: wasi::context(resources.wasi_mode, &output, script, resources.wall.scenario(), &tape),
            handles,
            limiter: Limiter::new(
                Arc::clone(resources.capabilities.log.plugin()),
                resources.limits.memory_bytes,
            ),
            budget: Budget::new(
                resources.clock,
                resources.limits.cpu,
                resources.scheduler,
                resources.overruns,
            )
            .undivided(resources.wall.scenario().is_some()),
            capabilities: resources.capabilities.of_instance(&resources.grants, &parts),
            output,
            tape,
            cause,
            observed: resources.observed,
        };
        let mut store = Store::new(engine, state);
        store.limiter(|state| &mut state.limiter);
        store.epoch_deadline_callback(|mut store| budget::at_tick(&mut store.data_mut().budget));
        store.set_hostcall_fuel(TRANSFER_BYTES_MAX);
        store
    }
}

/// Links everything Informant offers into every component: each call is authorized when it is made.
pub(crate) fn offer(engine: &Engine) -> wasmtime::Result<Arc<Offer<GuestState>>> {
    let mut linker = Linker::new(engine);
    wasmtime_wasi::p2::add_to_linker_async(&mut linker)?;
    types::add_to_linker::<_, HasSelf<GuestState>>(&mut linker, |state| state)?;
    capability::link(&mut linker)?;
    Ok(Arc::new(Offer {
        interfaces: capability::interfaces(),
        linker,
        linked: SharedByDigest::default(),
    }))
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
        self.capabilities.http.view(&mut self.handles)
    }
}

impl HasCapabilities for GuestState {
    fn capabilities(&mut self) -> &mut CallCapabilities {
        &mut self.capabilities
    }
}

impl types::Host for GuestState {}

#[cfg(test)]
mod tests {
    use wasmtime::component::Component;

    use super::*;
    use crate::component::imports;

    #[test]
    fn every_offered_interface_is_linked() {
        let engine = crate::engine::engine().unwrap();
        let offer = offer(&engine).unwrap();
        for import in imports::offered(&offer.interfaces) {
            let bytes = wat::parse_str(format!(r#"(component (import "{import}" (instance)))"#)).unwrap();
            let component = Component::new(&engine, bytes).unwrap();
            offer
                .linker
                .instantiate_pre(&component)
                .map(|_| ())
                .unwrap_or_else(|error| panic!("{import}: {error:#}"));
        }
    }
}
