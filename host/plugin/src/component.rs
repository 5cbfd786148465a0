//! A component that was found fit to be a plugin: judged, compiled and linked, but not running.

use std::fs::File;
use std::io::Read as _;
use std::path::Path;
use std::sync::Arc;

use wasmtime::component::{InstancePre, Linker};

use crate::artifact::{Artifact, Artifacts};
use crate::bindings::exports::informant::plugin::{event_handler, index_funcs, lifecycle, state, sync_handler};
use crate::error::Problem;
use crate::guest::GuestState;
use crate::script::Script;
use crate::{Digest, Roles, binary, imports, roles};

/// Bytes of a component's file: 64 MiB. Python's has 18, StarlingMonkey's 12; what is much longer is something else.
pub const COMPONENT_BYTES_MAX: usize = 64 << 20;

/// A component that is fit to be a plugin. Cheap to clone.
#[derive(Clone)]
pub(crate) struct PluginComponent(Arc<Parts>);

#[derive(Clone)]
pub(crate) struct Parts {
    /// Of the file that is the plugin: the script's, if it is one.
    pub(crate) digest: Digest,
    pub(crate) size_bytes: usize,
    pub(crate) roles: Roles,
    pub(crate) imports: Vec<String>,
    pub(crate) pre: InstancePre<GuestState>,
    pub(crate) indices: Indices,
    /// What it is given to run, if it is the script runner.
    pub(crate) script: Option<Arc<Script>>,
    /// Shared with other plugins of the same component.
    _artifact: Arc<Artifact>,
}

/// Where the functions of each role are found in an instance.
#[derive(Clone)]
pub(crate) struct Indices {
    pub(crate) lifecycle: lifecycle::GuestIndices,
    pub(crate) events: Option<event_handler::GuestIndices>,
    pub(crate) sync: Option<sync_handler::GuestIndices>,
    pub(crate) index: Option<index_funcs::GuestIndices>,
    pub(crate) state: Option<state::GuestIndices>,
}

impl std::ops::Deref for PluginComponent {
    type Target = Parts;

    fn deref(&self) -> &Parts {
        &self.0
    }
}

impl PluginComponent {
    /// Judges `bytes`, the contents of a file, and makes them ready to run: by names, then compiled, then by types.
    ///
    /// # Errors
    /// What is wrong with it.
    pub(crate) async fn new(
        bytes: Arc<[u8]>,
        pin: Option<Digest>,
        artifacts: &Artifacts,
        linker: &Linker<GuestState>,
    ) -> Result<PluginComponent, Problem> {
        let digest = Digest::of(&bytes);
        if let Some(pinned) = pin.filter(|pinned| *pinned != digest) {
            return Err(Problem::Pin { found: digest, pinned });
        }
        let surface = binary::surface(&bytes)?;
        let roles = roles::judge_names(&surface)?;
        imports::judge_names(&surface)?;
        let size_bytes = bytes.len();
        let artifact = artifacts.get(digest, bytes).await?;
        roles::judge_types(&artifact.component)?;
        let pre = linker
            .instantiate_pre(&artifact.component)
            .map_err(|error| Problem::ImportType(format!("{error:#}")))?;
        let indices = Indices::find(&pre, roles).map_err(|error| Problem::Compile(format!("{error:#}")))?;
        Ok(PluginComponent(Arc::new(Parts {
            digest,
            size_bytes,
            roles,
            imports: surface.imports,
            pre,
            indices,
            script: None,
            _artifact: artifact,
        })))
    }

    /// The same code, told to run `script`: the plugin is the script, and is known by its digest.
    pub(crate) fn running(&self, script: Arc<Script>, digest: Digest) -> PluginComponent {
        let mut parts = Parts::clone(self);
        parts.digest = digest;
        parts.size_bytes = script.text.len();
        parts.script = Some(script);
        PluginComponent(Arc::new(parts))
    }

    /// The same, called for `roles` only, which it has.
    pub(crate) fn playing(self, roles: Roles) -> PluginComponent {
        if roles == self.roles {
            return self;
        }
        let mut parts = Parts::clone(&self);
        parts.roles = roles;
        parts.indices.events = parts.indices.events.filter(|_| roles.event_handler);
        parts.indices.sync = parts.indices.sync.filter(|_| roles.sync_handler);
        parts.indices.index = parts.indices.index.filter(|_| roles.index_funcs);
        parts.indices.state = parts.indices.state.filter(|_| roles.state);
        PluginComponent(Arc::new(parts))
    }
}

impl Indices {
    fn find(pre: &InstancePre<GuestState>, roles: Roles) -> wasmtime::Result<Indices> {
        Ok(Indices {
            lifecycle: lifecycle::GuestIndices::new(pre)?,
            events: roles
                .event_handler
                .then(|| event_handler::GuestIndices::new(pre))
                .transpose()?,
            sync: roles
                .sync_handler
                .then(|| sync_handler::GuestIndices::new(pre))
                .transpose()?,
            index: roles
                .index_funcs
                .then(|| index_funcs::GuestIndices::new(pre))
                .transpose()?,
            state: roles.state.then(|| state::GuestIndices::new(pre)).transpose()?,
        })
    }
}

/// Reads a component's file, up to [`COMPONENT_BYTES_MAX`].
///
/// # Errors
/// [`Problem::Unreadable`], [`Problem::TooLarge`].
pub(crate) fn read(path: &Path) -> Result<Vec<u8>, Problem> {
    read_up_to(path, COMPONENT_BYTES_MAX, |bytes| Problem::TooLarge {
        bytes,
        max: COMPONENT_BYTES_MAX,
    })
}

/// Reads a file of at most `max` bytes; `too_large` makes the error of how many it has, or how many were read.
///
/// # Errors
/// [`Problem::Unreadable`], and that of `too_large`.
pub(crate) fn read_up_to(path: &Path, max: usize, too_large: impl Fn(usize) -> Problem) -> Result<Vec<u8>, Problem> {
    let file = File::open(path).map_err(Problem::Unreadable)?;
    let about = file.metadata().map_err(Problem::Unreadable)?;
    let length = usize::try_from(about.len()).unwrap_or(usize::MAX);
    if length > max {
        return Err(too_large(length));
    }
    let mut bytes = Vec::with_capacity(length);
    // A file can grow while it is read, and a pipe has no length.
    file.take(max as u64 + 1)
        .read_to_end(&mut bytes)
        .map_err(Problem::Unreadable)?;
    if bytes.len() > max {
        return Err(too_large(bytes.len()));
    }
    Ok(bytes)
}
