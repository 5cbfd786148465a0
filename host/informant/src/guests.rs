//! A plugin host for inspecting components and scripts, not for running them.

use std::path::Path;
use std::sync::Arc;

use anyhow::{Context, Result};
use informant_cache::Catalog;
use informant_config::{PluginsSection, ScriptRunnersSection};
use informant_informer::TokioEnvironment;
use informant_plugin_host::limits::COMPILE_MEMORY_DEFAULT_BYTES;
use informant_plugin_host::{Compiler, HostOptions, KeyValue, NoKeys, PluginHost, Services};
use tokio::runtime::{Builder, Runtime};

use crate::directories;
use crate::memory_limit::memory_limit_bytes;
use crate::metrics::Metrics;
use crate::script_runners;

/// The hidden command that compiles a component in a separate process.
pub(crate) const COMPILE: &str = "compile-component";

/// The memory for compiling without `compile-memory`: at most a quarter of the container's limit, or of the machine's
/// memory. The caches have 60 % of it.
pub(crate) const COMPILE_MEMORY_DEFAULT_PART: u64 = 4;

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
                gate: None,
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

/// The memory for compiling components side by side, in bytes.
pub(crate) fn compile_memory_bytes(section: &PluginsSection) -> u64 {
    let configured = section.compile_memory.map(|bytes| bytes as u64);
    configured.unwrap_or_else(|| default_compile_memory(memory_limit_bytes(Path::new("/"))))
}

fn default_compile_memory(limit_bytes: Option<u64>) -> u64 {
    let part = limit_bytes.map(|bytes| bytes / COMPILE_MEMORY_DEFAULT_PART);
    part.map_or(COMPILE_MEMORY_DEFAULT_BYTES, |part| {
        part.min(COMPILE_MEMORY_DEFAULT_BYTES)
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn memory_for_compiling_is_a_part_of_the_limit() {
        let configured = PluginsSection {
            compile_memory: Some(64 << 20),
        };
        assert_eq!(compile_memory_bytes(&configured), 64 << 20);
        let defaults = [None, Some(256 << 20), Some(8 << 30)].map(default_compile_memory);
        assert_eq!(defaults, [512 << 20, 64 << 20, 512 << 20]);
    }
}
