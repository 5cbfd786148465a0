//! A plugin host for inspecting components, not for running them.

use anyhow::{Context, Result};
use informant_cache::Catalog;
use informant_informer::TokioEnvironment;
use informant_plugin_host::{HostOptions, PluginHost};
use std::sync::Arc;
use tokio::runtime::{Builder, Runtime};

use crate::cli::compiler;
use crate::directories;
use crate::metrics::Metrics;
use crate::script_runner;

/// A plugin host on a small runtime of its own.
pub(crate) struct Guests {
    runtime: Option<Runtime>,
    host: PluginHost,
}

impl Guests {
    /// Creates one.
    pub(crate) fn for_inspection() -> Result<Self> {
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
            catalog: Catalog::new(),
            metrics: Metrics::new().plugins,
            kube: None,
            script_runner: script_runner::component()?,
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
