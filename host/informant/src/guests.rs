//! A plugin host for inspecting components, not for running them, and the component that runs scripts.

use std::borrow::Cow;
use std::path::Path;
use std::sync::Arc;

use anyhow::{Context, Result};
use informant_cache::Catalog;
use informant_informer::TokioEnvironment;
use informant_plugin_host::limits::COMPONENT_BYTES_MAX;
use informant_plugin_host::{Compiler, HostOptions, KeyValue, NoKeys, PluginHost, Services};
use tokio::runtime::{Builder, Runtime};

use crate::directories;
use crate::files::read_regular_file;
use crate::metrics::Metrics;

/// The hidden command that compiles a component in a separate process.
pub(crate) const COMPILE: &str = "compile-component";

/// A plugin host on a small runtime of its own.
pub(crate) struct Guests {
    runtime: Option<Runtime>,
    host: PluginHost,
}

impl Guests {
    /// Creates one, in which plugins find no keys.
    pub(crate) fn for_inspection() -> Result<Self> {
        Self::with_keys(true)
    }

    /// Creates one, in which plugins find no keys, or are denied to use any.
    pub(crate) fn with_keys(has_keys: bool) -> Result<Self> {
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
            },
            metrics: Metrics::new().plugins,
            script_runner: script_runner()?,
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

/// The file of another runner: to try one, or for programs that were built without.
pub(crate) const SCRIPT_RUNNER_VARIABLE: &str = "INFORMANT_SCRIPT_RUNNER";

/// The embedded runner. `None` if the program was built by cargo alone, not by `cargo xtask`.
const EMBEDDED_SCRIPT_RUNNER: Option<&[u8]> = include!(concat!(env!("OUT_DIR"), "/script_runner.rs"));

/// The component that runs scripts: the embedded one, or the file in `INFORMANT_SCRIPT_RUNNER`.
/// Errors: if the variable names a file that cannot be read.
pub(crate) fn script_runner() -> Result<Option<Cow<'static, [u8]>>> {
    match std::env::var_os(SCRIPT_RUNNER_VARIABLE).filter(|file| !file.is_empty()) {
        Some(file) => {
            let bytes = read_regular_file(Path::new(&file), COMPONENT_BYTES_MAX).with_context(|| {
                format!(
                    "cannot read the script runner {} ({SCRIPT_RUNNER_VARIABLE})",
                    file.display()
                )
            })?;
            Ok(Some(Cow::Owned(bytes)))
        }
        None => Ok(EMBEDDED_SCRIPT_RUNNER.map(Cow::Borrowed)),
    }
}

/// Runs this program again to compile components, in a separate process with limited memory and time.
pub(crate) fn compiler() -> Result<Compiler> {
    Compiler::this_program([COMPILE]).context("cannot find the program's own executable, which compiles components")
}
