//! Why a component is not taken. Every message says what was found and what to change.

use std::fmt;
use std::path::{Path, PathBuf};

use crate::limiter::Mib;
use crate::manifest::ManifestError;
use crate::roles::CONTRACT;
use crate::script::SCRIPT_BYTES_MAX;
use crate::{Digest, TrapReport};

/// A component that was not loaded or not swapped in. Nothing that runs has changed.
#[derive(Debug)]
pub struct LoadError {
    plugin: Option<String>,
    component: PathBuf,
    problem: Box<Problem>,
}

/// What is wrong.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum Problem {
    /// The file cannot be read.
    #[error("cannot be read: {0}")]
    Unreadable(std::io::Error),
    /// The file is longer than a component may be.
    #[error("{} long; a component may have {}", Mib(*bytes), Mib(*max))]
    TooLarge {
        /// The file's length, or how much of it was read.
        bytes: usize,
        /// What is allowed.
        max: usize,
    },
    /// A script is longer than scripts may be.
    #[error(
        "{bytes} bytes long; a script may have {SCRIPT_BYTES_MAX} (1 MiB): compile what is larger to a component \
         (docs/plugins.md, JavaScript)"
    )]
    ScriptTooLarge {
        /// The file's length, or how much of it was read.
        bytes: usize,
    },
    /// A script is not UTF-8.
    #[error("not UTF-8: byte {byte:#04x} at line {line}, column {column}; save it as UTF-8")]
    ScriptNotText {
        /// Where, from 1.
        line: usize,
        /// Where in the line, in bytes from 1.
        column: usize,
        /// What stands there.
        byte: u8,
    },
    /// This program came without the component that runs scripts.
    #[error(
        "this Informant was built without its script runner; build it with `cargo xtask`, which puts it in, or name its file \
         in INFORMANT_SCRIPT_RUNNER"
    )]
    NoScriptRunner,
    /// The file is no WebAssembly at all.
    #[error(
        "not WebAssembly: {found}; give the .wasm file that the build makes (Rust: cargo build --target wasm32-wasip2 --release)"
    )]
    NotWasm {
        /// What it looks like.
        found: String,
    },
    /// The file begins as WebAssembly does and breaks off or goes wrong later.
    #[error("broken at byte {offset} of {length}: {cause}; was it copied completely?")]
    Broken {
        /// Where.
        offset: usize,
        /// The file's length.
        length: usize,
        /// wasmparser's words.
        cause: String,
    },
    /// A core module.
    #[error(
        "a core module, not a component; Rust: build with --target wasm32-wasip2; others: wasm-tools component new"
    )]
    CoreModule,
    /// Not the file that config.toml pins.
    #[error("its sha256 is {found}, and config.toml pins {pinned}; change `sha256` if the new file is the right one")]
    Pin {
        /// What the file has.
        found: Digest,
        /// What it should have.
        pinned: Digest,
    },
    /// It imports an interface that Informant does not offer.
    #[error("imports {interface}, which Informant does not offer{hint}")]
    Import {
        /// The interface.
        interface: String,
        /// What to do about it, with what separates it.
        hint: String,
    },
    /// It imports an interface that Informant offers, with a function that it has not or that has another type.
    #[error("does not fit what Informant offers: {0}; build it with the SDK of contract {CONTRACT}")]
    ImportType(String),
    /// A program with `main`.
    #[error(
        "a command (it exports {0}), but a plugin is a library that is called; Rust: crate-type = [\"cdylib\"] and no main; \
         C and Go: a reactor (-mexec-model=reactor, -buildmode=c-shared)"
    )]
    Command(String),
    /// It is made for a newer contract.
    #[error(
        "built for the newer contract {found}, this Informant speaks {CONTRACT}; upgrade Informant, or build it with an older SDK"
    )]
    NewerContract {
        /// The version it names.
        found: String,
    },
    /// It is made for a contract that is no longer spoken.
    #[error(
        "built for the older contract {found}, this Informant speaks {CONTRACT}; build it again with the present SDK"
    )]
    OlderContract {
        /// The version it names.
        found: String,
    },
    /// It does not export `lifecycle`.
    #[error(
        "exports no informant:plugin/lifecycle; it is a component, but no plugin: use a plugin SDK (its exports: {exports})"
    )]
    NoLifecycle {
        /// What it exports, for a hint.
        exports: String,
    },
    /// It exports `lifecycle` and nothing that could be called.
    #[error(
        "has no role: besides lifecycle a plugin exports at least one of event-handler, sync-handler and index-funcs; \
         Rust: name them in export!(Type: events, sync, index)"
    )]
    NoRole,
    /// A role lacks a function, or one has another type.
    #[error("{function} of {interface} {cause}; build it with the SDK of contract {CONTRACT}")]
    RoleType {
        /// The interface, with its version.
        interface: String,
        /// The function.
        function: String,
        /// What is wrong with it.
        cause: String,
    },
    /// wasmtime does not take it.
    #[error("does not compile: {0}")]
    Compile(String),
    /// It cannot be given an instance.
    #[error("cannot be instantiated: {0}")]
    Instantiate(String),
    /// A call during load trapped or overran its time.
    #[error("{0}")]
    Trapped(TrapReport),
    /// The manifest is wrong.
    #[error("its manifest (what describe returned) {0}")]
    Manifest(ManifestError),
    /// It needs what config.toml does not grant.
    #[error("needs what is not granted; in config.toml, [plugin.{plugin}]: {line}")]
    Needs {
        /// The plugin's name there.
        plugin: String,
        /// What to write there.
        line: String,
    },
    /// The component described itself with the reason why it cannot be used.
    #[error("{0}")]
    Refused(String),
    /// `init` said no.
    #[error("init for the role {role} failed: {message}; is the plugin's `config` in config.toml what it expects?")]
    Init {
        /// `events` or `index`.
        role: &'static str,
        /// The plugin's words.
        message: String,
    },
    /// What the old version remembers cannot be handed to the new one.
    ///
    /// With what `save` of the version that runs, or `restore` of the new one, answered.
    #[error("what the old version remembers cannot be handed over: {0}")]
    State(String),
    /// A section of config.toml that the host cannot act on.
    #[error("{0}")]
    Spec(String),
    /// The plugin is being stopped.
    #[error("the plugin is stopping; nothing is swapped any more")]
    Stopping,
}

impl LoadError {
    pub(crate) fn new(component: &Path, problem: Problem) -> LoadError {
        LoadError {
            plugin: None,
            component: component.to_owned(),
            problem: Box::new(problem),
        }
    }

    pub(crate) fn of_plugin(self, plugin: &str) -> LoadError {
        LoadError {
            plugin: Some(plugin.to_owned()),
            ..self
        }
    }

    /// The plugin it was for; none while a file is only looked at.
    #[must_use]
    pub fn plugin(&self) -> Option<&str> {
        self.plugin.as_deref()
    }

    /// The component's file.
    #[must_use]
    pub fn component(&self) -> &Path {
        &self.component
    }

    /// What is wrong.
    #[must_use]
    pub fn problem(&self) -> &Problem {
        &self.problem
    }
}

impl fmt::Display for LoadError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        if let Some(plugin) = &self.plugin {
            write!(f, "plugin {plugin:?}: ")?;
        }
        write!(f, "{}: {}", self.component.display(), self.problem)
    }
}

impl std::error::Error for LoadError {
    fn source(&self) -> Option<&(dyn std::error::Error + 'static)> {
        match &*self.problem {
            Problem::Unreadable(error) => Some(error),
            _ => None,
        }
    }
}

/// The host itself cannot be set up.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum HostError {
    /// wasmtime does not run here.
    #[error("WebAssembly cannot run on this machine: {0}")]
    Engine(String),
    /// No thread for the ticker.
    #[error("no thread for the plugins' clock: {0}")]
    Ticker(std::io::Error),
    /// The folder for compiled artifacts cannot be made or is not ours alone.
    #[error("the folder for compiled plugins, {}: {problem}", path.display())]
    CacheDir {
        /// Which folder.
        path: PathBuf,
        /// What is wrong with it, and what to do.
        problem: String,
    },
}
