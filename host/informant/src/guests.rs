//! A plugin host for inspecting components and scripts, not for running them.

use std::sync::Arc;

use anyhow::{Context, Result};
use informant_cache::Catalog;
use informant_config::ScriptRunnersSection;
use informant_informer::TokioEnvironment;
use informant_plugin_host::{Compiler, HostOptions, KeyValue, NoKeys, PluginHost, Services};
use tokio::runtime::{Builder, Runtime};

use crate::directories;
use crate::metrics::Metrics;
use crate::script_runners;

/// The hidden command that compiles a component in a separate process.
pub(crate) const COMPILE: &str = "compile-component";

/// A plugin host on a small runtime of its own.
pub(crate) struct Guests {
    runtime: Option<Runtime>,
    host: PluginHost,
}

impl Guests {
    /// Creates one with these script runners, in which plugins find no keys.
    pub(crate) fn for_inspection(runners: &ScriptRunnersSection) -> Result<Self> {
        Self::with_keys(true, runners)
    }

    /// Creates one with these script runners, in which plugins find no keys, or are denied to use any.
    pub(crate) fn with_keys(has_keys: bool, runners: &ScriptRunnersSection) -> Result<Self> {
        let runtime = Builder::new_multi_thread()
            .worker_threads(1)
            .thread_name("guest")
            .enable_all()
            .build()
            .context("cannot create an async runtime")?;
        let host = PluginHost::new(HostOptions {
            cache_dir: directories::cache(),
            env: Arc::new(TokioEnvironment::new(runtime.handle().clone(), 0)),
            handle: runtime.handle().clone(),
            compiler: compiler()?,
            services: Services {
                catalog: Catalog::new(),
                kube: None,
                key_value: has_keys.then(|| Arc::new(NoKeys) as Arc<dyn KeyValue>),
                http: None,
                observer: None,
            },
            metrics: Metrics::new().plugins,
            script_runners: script_runners::sources(runners)?,
        })
        .context("cannot create the WebAssembly engine")?;
        Ok(Self {
            runtime: Some(runtime),
            host,
        })
    }

    pub(crate) fn host(&self) -> &PluginHost {
        &self.host
    }

    pub(crate) fn block_on<T>(&self, future: impl Future<Output = T>) -> T {
        self.runtime
            .as_ref()
            .expect("only drop takes the runtime")
            .block_on(future)
    }
}

impl Drop for Guests {
    fn drop(&mut self) {
        // A runtime that waits for a spinning guest would never return.
        if let Some(runtime) = self.runtime.take() {
            runtime.shutdown_background();
        }
    }
}

/// Runs this program again to compile components, in a separate process with limited memory and time.
pub(crate) fn compiler() -> Result<Compiler> {
    Compiler::this_program([COMPILE]).context("cannot find the program's own executable, which compiles components")
}
