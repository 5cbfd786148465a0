//! A host for simulations: guests run on the caller's thread, and nothing depends on real time.
//!
//! ```text
//! components ──compiled once──▶ SimulatedGuests ──▶ PluginHost::simulated, one for each run
//! ```
//!
//! The same actors, instances and host functions as in the program, with three differences: there is no ticker, so that
//! no guest is interrupted and its CPU time is not limited; components are compiled beforehand; and blocking work, of
//! which none is left that takes time, runs where it is called. Under a paused clock a run then replays exactly. For
//! trusted components only: one that loops never returns.

use std::sync::Arc;
use std::time::Duration;

use informant_cache::Environment;
use informant_spec::{Content, Digest};
use tokio::runtime::Handle;
use wasmtime::Engine;
use wasmtime::component::Component;

use crate::artifacts::last_good::LastGood;
use crate::artifacts::{Artifact, Artifacts};
use crate::capability::Services;
use crate::clock::{ScenarioClock, WallClock};
use crate::component::Offer;
use crate::component::by_digest::SharedByDigest;
use crate::component::runner::{RunnerSources, ScriptRunners};
use crate::engine;
use crate::engine::compile::{CompileQueue, Compiler};
use crate::engine::scheduler::CpuScheduler;
use crate::engine::ticker::Ticker;
use crate::error::HostError;
use crate::host::PluginHost;
use crate::instance::guest::{self, GuestState};
use crate::metrics::PluginMetrics;
use crate::runtime::Runtime;
use crate::runtime::clock_watch::ClockWatch;
use crate::runtime::load_turns::LoadTurns;

/// What the wall clock shows when a simulation starts: 2026-01-01T00:00:00Z.
const SIMULATED_START: Duration = Duration::from_secs(1_767_225_600);

/// Components that are compiled once and run in any number of simulations. Cheap to clone.
#[derive(Clone)]
pub struct SimulatedGuests {
    engine: Engine,
    offer: Arc<Offer<GuestState>>,
    compiled: Vec<(Digest, Arc<Artifact>)>,
}

impl SimulatedGuests {
    /// Compiles `components` on the calling thread.
    ///
    /// # Errors
    /// [`HostError::Engine`]: WebAssembly does not run on this machine, or a component is invalid.
    pub fn compile(components: &[Content]) -> Result<SimulatedGuests, HostError> {
        let engine_error = |error: wasmtime::Error| HostError::Engine(format!("{error:#}"));
        // Without the pool, which reserves address space for thousands of instances.
        let engine = engine::on_demand().map_err(engine_error)?;
        let compile = |content: &Content| {
            let component = Component::new(&engine, content.bytes()).map_err(engine_error)?;
            Ok((content.digest(), Arc::new(Artifact { component })))
        };
        Ok(SimulatedGuests {
            compiled: components.iter().map(compile).collect::<Result<_, HostError>>()?,
            offer: guest::offer(&engine).map_err(engine_error)?,
            engine,
        })
    }
}

impl PluginHost {
    /// A host that runs the compiled `guests`, and no other component, on the current runtime, which must have one
    /// thread. `env` must run its tasks there, too.
    ///
    /// # Panics
    /// Outside of a tokio runtime.
    #[must_use]
    pub fn simulated(
        guests: &SimulatedGuests,
        env: Arc<dyn Environment>,
        services: Services,
        metrics: PluginMetrics,
    ) -> PluginHost {
        let (engine, handle) = (guests.engine.clone(), Handle::current());
        let compile_queue = CompileQueue::new(
            Compiler::InProcess,
            &engine,
            Arc::clone(&env),
            handle.clone(),
            metrics.artifacts.compiles.clone(),
        );
        let since_start = Duration::from_nanos(env.now().as_nanos());
        let wall = WallClock::Scenario(ScenarioClock::new(&env, SIMULATED_START + since_start));
        let compiled = guests.compiled.iter().map(|(digest, artifact)| (*digest, artifact));
        PluginHost::from_runtime(Runtime {
            last_good: LastGood::new(None),
            load_turns: Arc::new(LoadTurns::new(metrics.loads_waiting.clone())),
            scheduler: Arc::new(CpuScheduler::new(1)),
            artifacts: Artifacts::compiled(&engine, compile_queue, handle, metrics.artifacts.clone(), compiled),
            ticker: Ticker::stopped(),
            offer: Arc::clone(&guests.offer),
            runners: ScriptRunners::new(RunnerSources::new()),
            contents: SharedByDigest::default(),
            manifests: SharedByDigest::default(),
            documents: SharedByDigest::default(),
            engine,
            env,
            services,
            metrics,
            blocking_pool: None,
            wall,
            clock_watch: ClockWatch::default(),
        })
    }
}
