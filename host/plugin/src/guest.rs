//! What the host keeps about one instance: the data of its wasmtime store.

use std::sync::Arc;

use prometheus_client::metrics::counter::Counter;
use wasmtime::component::{HasSelf, Linker, ResourceTable};
use wasmtime::{Engine, Store};
use wasmtime_wasi::{WasiCtx, WasiCtxView, WasiView};

use crate::Limits;
use crate::bindings::informant::plugin::log::{self, Level};
use crate::bindings::informant::plugin::{kube, store, types};
use crate::budget::{self, Budget};
use crate::host_kube::{self, KubeAccess};
use crate::host_store::Reader;
use crate::lanes::{Conduct, Lanes};
use crate::limiter::Limiter;
use crate::output::Output;
use crate::script::Script;
use crate::ticker::TickClock;
use crate::wasi::{self, World};
use crate::watch::Watch;

/// Handles (streams, pollables) that one instance may hold in the host.
const HANDLES_MAX: usize = 10_000;

/// Bytes a guest may hand over in one call of a host function or as one result: 16 MiB. More is a trap.
pub const TRANSFER_BYTES_MAX: usize = 16 << 20;

/// The data of one instance's wasmtime store.
pub(crate) struct GuestState {
    wasi: WasiCtx,
    handles: ResourceTable,
    pub(crate) limiter: Limiter,
    pub(crate) budget: Budget,
    pub(crate) output: Output,
    pub(crate) reader: Reader,
    pub(crate) kube: host_kube::Actor,
}

/// What an instance is given to live on.
pub(crate) struct Ration {
    pub(crate) plugin: Arc<str>,
    pub(crate) limits: Limits,
    pub(crate) world: World,
    pub(crate) reader: Reader,
    pub(crate) kube: KubeAccess,
    pub(crate) clock: Arc<TickClock>,
    pub(crate) lanes: Arc<Lanes>,
    pub(crate) conduct: Arc<Conduct>,
    pub(crate) log_dropped: Counter,
}

impl GuestState {
    /// A wasmtime store for one instance, limited in memory, time and transfer; `watch` will watch its calls. Of
    /// `script`, if it is the script runner's.
    pub(crate) fn store(engine: &Engine, ration: Ration, watch: &Watch, script: Option<&Script>) -> Store<GuestState> {
        let output = Output::new(ration.plugin, ration.log_dropped);
        let mut handles = ResourceTable::new();
        handles.set_max_capacity(HANDLES_MAX);
        let state = GuestState {
            wasi: wasi::context(ration.world, &output, script),
            handles,
            limiter: Limiter::new(ration.limits.memory_bytes),
            budget: Budget::new(ration.clock, ration.limits.cpu, ration.lanes, ration.conduct),
            output,
            reader: ration.reader,
            kube: host_kube::Actor::new(ration.kube, watch.call_time().clone()),
        };
        let mut store = Store::new(engine, state);
        store.limiter(|state| &mut state.limiter);
        store.epoch_deadline_callback(budget::at_tick);
        store.set_hostcall_fuel(TRANSFER_BYTES_MAX);
        store
    }
}

/// Everything Informant offers, for every component: what a plugin may use is judged at each call.
///
/// # Errors
/// None that depends on a plugin.
pub(crate) fn linker(engine: &Engine) -> wasmtime::Result<Linker<GuestState>> {
    let mut linker = Linker::new(engine);
    wasmtime_wasi::p2::add_to_linker_async(&mut linker)?;
    types::add_to_linker::<_, HasSelf<GuestState>>(&mut linker, |state| state)?;
    store::add_to_linker::<_, HasSelf<Reader>>(&mut linker, |state| &mut state.reader)?;
    kube::add_to_linker::<_, HasSelf<GuestState>>(&mut linker, |state| state)?;
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

impl types::Host for GuestState {}

impl log::Host for GuestState {
    fn log(&mut self, level: Level, message: String) -> wasmtime::Result<()> {
        self.output.log(level, &message);
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use wasmtime::component::Component;

    use super::*;
    use crate::imports;

    #[test]
    fn every_interface_that_is_offered_by_name_is_linked() {
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
