//! A component that was found fit to be a plugin: judged, compiled and linked, but not running.

use std::fs::File;
use std::io::Read as _;
use std::path::Path;
use std::sync::Arc;

use wasmtime::component::{InstancePre, Linker};

use crate::artefact::{Artefact, Artefacts};
use crate::bindings::exports::informant::plugin::{event_handler, index_funcs, lifecycle, sync_handler};
use crate::error::Problem;
use crate::guest::GuestState;
use crate::{Digest, Roles, binary, imports, roles};

/// Bytes of a component's file: 64 MiB. Python's has 18, StarlingMonkey's 12; what is much longer is something else.
pub const COMPONENT_BYTES_MAX: usize = 64 << 20;

/// A component that is fit to be a plugin. Cheap to clone.
#[derive(Clone)]
pub(crate) struct PluginComponent(Arc<Parts>);

pub(crate) struct Parts {
    pub(crate) digest: Digest,
    pub(crate) size_bytes: usize,
    pub(crate) roles: Roles,
    pub(crate) imports: Vec<String>,
    pub(crate) pre: InstancePre<GuestState>,
    pub(crate) indices: Indices,
    /// Shared with other plugins of the same component.
    _artefact: Arc<Artefact>,
}

/// Where the functions of each role are found in an instance.
pub(crate) struct Indices {
    pub(crate) lifecycle: lifecycle::GuestIndices,
    pub(crate) events: Option<event_handler::GuestIndices>,
    pub(crate) sync: Option<sync_handler::GuestIndices>,
    pub(crate) index: Option<index_funcs::GuestIndices>,
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
        bytes: Vec<u8>,
        pin: Option<Digest>,
        artefacts: &Artefacts,
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
        let artefact = artefacts.get(digest, Arc::from(bytes)).await?;
        roles::judge_types(&artefact.component)?;
        let pre = linker
            .instantiate_pre(&artefact.component)
            .map_err(|error| Problem::ImportType(format!("{error:#}")))?;
        let indices = Indices::find(&pre, roles).map_err(|error| Problem::Compile(format!("{error:#}")))?;
        Ok(PluginComponent(Arc::new(Parts {
            digest,
            size_bytes,
            roles,
            imports: surface.imports,
            pre,
            indices,
            _artefact: artefact,
        })))
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
        })
    }
}

/// Reads a component's file, up to [`COMPONENT_BYTES_MAX`].
///
/// # Errors
/// [`Problem::Unreadable`], [`Problem::TooLarge`].
pub(crate) fn read(path: &Path) -> Result<Vec<u8>, Problem> {
    let file = File::open(path).map_err(Problem::Unreadable)?;
    let about = file.metadata().map_err(Problem::Unreadable)?;
    let length = usize::try_from(about.len()).unwrap_or(usize::MAX);
    if length > COMPONENT_BYTES_MAX {
        return Err(Problem::TooLarge {
            bytes: length,
            max: COMPONENT_BYTES_MAX,
        });
    }
    let mut bytes = Vec::with_capacity(length);
    // A file can grow while it is read, and a pipe has no length.
    file.take(COMPONENT_BYTES_MAX as u64 + 1)
        .read_to_end(&mut bytes)
        .map_err(Problem::Unreadable)?;
    if bytes.len() > COMPONENT_BYTES_MAX {
        return Err(Problem::TooLarge {
            bytes: bytes.len(),
            max: COMPONENT_BYTES_MAX,
        });
    }
    Ok(bytes)
}
