//! Errors of loading a component. Each message says what was found and what to change.

mod runner;

use std::fmt;
use std::path::{Path, PathBuf};
use std::time::Duration;

use crate::bindings::{CONTRACT, PACKAGE};
use crate::engine::limiter::Mib;
use crate::engine::trap::TrapReport;
use informant_spec::Digest;

pub use self::runner::RunnerProblem;
pub(crate) use self::runner::language;

/// A component that was not loaded or not swapped in. Whatever was running keeps running unchanged.
#[derive(Debug)]
pub struct LoadError {
    plugin: Option<String>,
    component: PathBuf,
    problem: Box<LoadProblem>,
}

#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum LoadProblem {
    #[error("cannot be read: {0}")]
    Unreadable(std::io::Error),
    #[error("{found}, not a regular file: set `component` to a .wasm file, or `script` to a script")]
    NotRegular {
        /// What it is, with an article.
        found: &'static str,
    },
    #[error(
        "cannot be read: its file system has not answered within {} s; Informant tries again when it does",
        within.as_secs()
    )]
    ReadTimeout { within: Duration },
    #[error("too large: {}; a component may have at most {}", Mib(*bytes), Mib(*max))]
    TooLarge {
        /// The file's length in bytes, or how many bytes were read before giving up.
        bytes: usize,
        max: usize,
    },
    #[error(
        "too large: {bytes} bytes; a script may have at most {max} (1 MiB); make a component of a larger one: informant plugin build FILE --component"
    )]
    ScriptTooLarge {
        /// The file's length in bytes, or how many bytes were read before giving up.
        bytes: usize,
        max: usize,
    },
    #[error("not UTF-8: byte {byte:#04x} at line {line}, column {column}; save it as UTF-8")]
    ScriptNotText {
        /// The line, from 1.
        line: usize,
        /// The position in the line, in bytes from 1.
        column: usize,
        byte: u8,
    },
    #[error(transparent)]
    Runner(#[from] RunnerProblem),
    /// Its types cannot be erased.
    #[error("{0}")]
    Types(String),
    #[error(
        "not WebAssembly: {found}; use the .wasm file that the build produces (Rust: cargo build --target wasm32-wasip2 --release)"
    )]
    NotWasm {
        found: String,
        /// Whether it is text of no known form.
        is_text: bool,
    },
    #[error(
        "invalid WebAssembly at byte {offset} of {length}: {cause}; the file may be truncated, so copy or build it again"
    )]
    Broken {
        offset: usize,
        length: usize,
        /// wasmparser's message.
        cause: String,
    },
    #[error(
        "a core module, not a component; make one of it: informant plugin build FILE -o NAME.wasm (Rust: build with --target wasm32-wasip2)"
    )]
    CoreModule,
    #[error("its sha256 is {found}, but config.toml pins {pinned}; change `sha256` if the new file is the right one")]
    Pin { found: Digest, pinned: Digest },
    #[error("imports {interface}, which Informant does not provide{hint}")]
    Import {
        interface: String,
        /// What to do about it, including the leading separator.
        hint: String,
    },
    /// It imports a function that Informant's interface does not have, or has with another type.
    #[error("its imports do not match the contract: {0}; build it with the SDK for contract {CONTRACT}")]
    ImportType(String),
    /// A program with `main`.
    #[error(
        "a command (it exports {0}), not a library; Rust: use crate-type = [\"cdylib\"] and no main; C and Go: build a reactor (-mexec-model=reactor, -buildmode=c-shared)"
    )]
    Command(String),
    #[error(
        "built for the newer contract {found}, but this Informant supports {CONTRACT}; upgrade Informant, or build it with an older SDK"
    )]
    NewerContract { found: String },
    #[error(
        "built for the older contract {found}, but this Informant supports {CONTRACT}; rebuild it with {sdk} of this Informant (version {})",
        env!("CARGO_PKG_VERSION")
    )]
    OlderContract {
        found: String,
        /// `the SDK`, with its language if that is known.
        sdk: String,
    },
    #[error(
        "imports or exports {name}, which has a canonical name; build it with tools that write the whole version \
         (without `--emit-canonical-names`), as {PACKAGE}/…@{CONTRACT}"
    )]
    CanonicalName { name: String },
    /// A composition of components, one of which would never be called.
    #[error("exports {first} and {second}, of which only one could be called; leave out the older one")]
    RoleTwice { first: String, second: String },
    #[error(
        "uses `async` functions or streams, as components for WASI 0.3 do, and Informant calls components for WASI 0.2; \
         build it for that one (Rust: --target wasm32-wasip2; JavaScript: componentize-qjs --sync): {0}"
    )]
    Async(String),
    #[error(
        "does not export informant:plugin/lifecycle: it is a component, but not a plugin; build it with a plugin SDK (its exports: {exports})"
    )]
    NoLifecycle { exports: String },
    #[error(
        "exports no role; export at least one of event-handler, sync-handler and index-funcs in addition to lifecycle; Rust: list them in export!(Type: events, sync, index)"
    )]
    NoRole,
    /// It exports a role of a newer contract, which would never be called.
    #[error(
        "exports the role {role}, which this Informant (contract {CONTRACT}) does not know and would never call; upgrade Informant, or leave the role out: list the others as `roles` in the manifest"
    )]
    UnknownRole { role: String },
    #[error("{function} of {interface} {cause}; build it with the SDK for contract {CONTRACT}")]
    RoleType {
        /// The interface, with its version.
        interface: String,
        function: String,
        cause: String,
    },
    #[error("does not compile: {0}")]
    Compile(String),
    #[error("cannot be instantiated: {0}")]
    Instantiate(String),
    /// A call during load trapped or timed out.
    #[error("{0}")]
    Trapped(TrapReport),
    #[error("its manifest (returned by describe) {error}{hint}")]
    Manifest {
        error: ManifestError,
        /// Where else to look, or nothing.
        hint: &'static str,
    },
    #[error("requires access that is not granted; in config.toml, set in [plugin.{plugin}]: {line}")]
    Needs { plugin: String, line: String },
    #[error(
        "declares the metric {name:?} as {kind}, but plugin {other} has it as {other_kind}, and both would have one name \
         in the output; rename it in one of them"
    )]
    MetricType {
        name: String,
        kind: &'static str,
        other: String,
        other_kind: &'static str,
    },
    /// The section wants several instances of a plugin that handles its events in one.
    #[error(
        "is not parallel, but limits.instances is {instances}; in [plugin.{plugin}] of config.toml, set \
         limits.instances to 1; or set `parallel` in its manifest, if its instances need not know of each other's objects"
    )]
    NotParallel { plugin: String, instances: u32 },
    #[error(
        "is a reconciler, for which {key} = \"{value}\" would hide objects; in [plugin.{plugin}] of config.toml, remove \
         {key}: a reconciler is called when all that it may read is there, and after a start once for each object"
    )]
    UnfitForReconciler {
        plugin: String,
        key: &'static str,
        value: &'static str,
    },
    #[error(
        "has timers, and its objects are divided among the replicas, each of which would make every run; in config.toml, \
         set in [plugin.{plugin}]: run-once = true"
    )]
    TimersDivided { plugin: String },
    #[error(
        "has no timer {timer:?}, whose schedule [plugin.{plugin}.timers] of config.toml sets; {}",
        known_timers(.known)
    )]
    UnknownTimer {
        plugin: String,
        timer: String,
        known: Vec<String>,
    },
    #[error("{0}")]
    Script(String),
    /// `describe` failed, which can depend only on the component and its `config`.
    #[error("describe failed: {0}; check the plugin's `config` in config.toml")]
    Describe(String),
    /// `init` failed for good.
    #[error("init for the role {role} failed: {message}; check the plugin's `config` in config.toml")]
    Init {
        /// `events` or `index`.
        role: &'static str,
        message: String,
    },
    /// `init` failed, and asks to be tried again.
    #[error("init for the role {role} failed and will be tried again: {message}")]
    InitRetryable {
        /// `events` or `index`.
        role: &'static str,
        message: String,
        /// How long the plugin asks to wait.
        after: Option<Duration>,
    },
    /// At a swap, `init` failed for as long as it is tried.
    #[error("init for the role {role} still failed after {} s: {message}; reload it when that is solved", within.as_secs())]
    InitGaveUp {
        /// `events` or `index`.
        role: &'static str,
        message: String,
        within: Duration,
    },
    /// The old version's state cannot be transferred to the new one.
    ///
    /// Contains the failure of the running version's `save`, or of the new version's `restore`.
    #[error("cannot transfer the old version's state: {0}")]
    State(String),
    /// The section was changed while the version was prepared for the one before.
    #[error("the plugin's section changed meanwhile; try again")]
    Outdated,
    /// The plugin is being stopped.
    #[error("the plugin is stopping and cannot be reloaded")]
    Stopping,
}

/// A manifest that is rejected. The text continues "its manifest (returned by describe)".
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum ManifestError {
    #[error("is too large: {bytes} bytes; at most {max} are allowed")]
    TooLong { bytes: usize, max: usize },
    #[error("is not valid: {0}")]
    Json(String),
    #[error("{0}")]
    Inconsistent(String),
}

impl LoadError {
    /// The file system of `component` did not answer `within` that time.
    #[must_use]
    pub fn read_timeout(component: &Path, within: Duration) -> LoadError {
        LoadError::new(component, LoadProblem::ReadTimeout { within })
    }

    /// `problem` of what is at this path.
    #[must_use]
    pub fn new(component: &Path, problem: LoadProblem) -> LoadError {
        LoadError {
            plugin: None,
            component: component.to_owned(),
            problem: Box::new(problem),
        }
    }

    /// The same error of the plugin with this name in config.toml.
    #[must_use]
    pub fn of_plugin(self, plugin: &str) -> LoadError {
        LoadError {
            plugin: Some(plugin.to_owned()),
            ..self
        }
    }

    /// The plugin's name; none while a file is only inspected.
    #[must_use]
    pub fn plugin(&self) -> Option<&str> {
        self.plugin.as_deref()
    }

    #[must_use]
    pub fn component(&self) -> &Path {
        &self.component
    }

    #[must_use]
    pub fn problem(&self) -> &LoadProblem {
        &self.problem
    }
}

impl LoadError {
    /// What follows the name of the file in a problem that begins with it, as those of scripts do: `:7:37: message`.
    fn after_file_name<'a>(&self, problem: &'a str) -> Option<&'a str> {
        let rest = problem.strip_prefix(self.component.file_name()?.to_str()?)?;
        rest.starts_with([':', ' ']).then_some(rest)
    }
}

impl fmt::Display for LoadError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        if let Some(plugin) = &self.plugin {
            write!(f, "plugin {plugin:?}: ")?;
        }
        let (component, problem) = (self.component.display(), self.problem.to_string());
        match self.after_file_name(&problem) {
            Some(rest) => write!(f, "{component}{rest}"),
            None => write!(f, "{component}: {problem}"),
        }
    }
}

impl std::error::Error for LoadError {
    fn source(&self) -> Option<&(dyn std::error::Error + 'static)> {
        match &*self.problem {
            LoadProblem::Unreadable(error) => Some(error),
            _ => None,
        }
    }
}

#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum HostError {
    #[error("WebAssembly cannot run on this machine: {0}")]
    Engine(String),
    #[error("cannot start the thread that limits plugins' CPU time: {0}")]
    Ticker(std::io::Error),
    #[error("the directory for compiled plugins, {}: {problem}", path.display())]
    CacheDir { path: PathBuf, problem: String },
}
fn known_timers(known: &[String]) -> String {
    match known {
        [] => "its manifest has none".to_owned(),
        known => format!("its manifest has {}", known.join(", ")),
    }
}
