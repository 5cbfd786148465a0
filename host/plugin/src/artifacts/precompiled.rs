//! Artifacts that a release brings: native code of a script runner, in a folder next to it that is only read.
//!
//! ```text
//! informant-runner-python.wasm
//! compiled/DIGEST-VERSION.cwasm, ….sha256     for every processor of this architecture
//! ```
//!
//! Compiling a large runner takes more memory than running it, so an image can have it compiled. The code in the cache
//! of [`super::ArtifactDir`] is for this processor only, that of a release for every one.

use std::fs;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use informant_spec::Digest;
use wasmtime::component::Component;

use super::{Artifact, ArtifactDir, Artifacts, write};
use crate::sync::lock;

/// The folder, next to the runner.
const FOLDER: &str = "compiled";

/// The file for the component with this digest, which is next to the folder. Another version of Informant has another
/// file: one that is copied over the folder of a running version does not change what that has mapped.
fn file(component: &Path, digest: Digest) -> PathBuf {
    let name = format!("{digest}-{}.cwasm", env!("CARGO_PKG_VERSION"));
    component.with_file_name(FOLDER).join(name)
}

/// Writes the artifact of a component next to it, and returns its path. Fails if the daemon would not use it.
pub(crate) fn keep(component: &Path, digest: Digest, artifact: &[u8]) -> std::io::Result<PathBuf> {
    let file = file(component, digest);
    fs::create_dir_all(component.with_file_name(FOLDER))?;
    write(&file, artifact)?;
    readable(component, &file)?;
    permission_problem(component, &file).map_or(Ok(file), |problem| Err(std::io::Error::other(problem)))
}

/// The image's user reads what root has written, whatever the umask is.
#[cfg(unix)]
fn readable(component: &Path, artifact: &Path) -> std::io::Result<()> {
    use std::os::unix::fs::PermissionsExt as _;
    let set = |path: &Path, mode| fs::set_permissions(path, fs::Permissions::from_mode(mode));
    set(&component.with_file_name(FOLDER), 0o755)?;
    set(artifact, 0o644)?;
    set(&super::checksum_of(artifact), 0o644)
}

#[cfg(not(unix))]
fn readable(_component: &Path, _artifact: &Path) -> std::io::Result<()> {
    Ok(())
}

/// The artifact next to a component of the release, which may be there.
pub(crate) struct Precompiled {
    directory: Arc<ArtifactDir>,
    component: PathBuf,
    file: PathBuf,
}

impl Artifacts {
    /// The artifact next to a component of the release. Nothing is read yet.
    pub(crate) fn precompiled(&self, component: &Path, digest: Digest) -> Precompiled {
        Precompiled {
            directory: Arc::clone(&self.directory),
            component: component.to_owned(),
            file: file(component, digest),
        }
    }

    /// Uses a loaded artifact: while what this returns exists, [`Artifacts::get`] finds it.
    pub(crate) fn use_precompiled(&self, digest: Digest, component: Component) -> Arc<Artifact> {
        let artifact = Arc::new(Artifact { component });
        self.directory.metrics.artifact("hit");
        lock(&self.in_use).insert(digest, Arc::downgrade(&artifact));
        artifact
    }
}

impl Precompiled {
    pub(crate) fn file(&self) -> &Path {
        &self.file
    }

    /// Loads it, if it is there. Blocks. Errors: why it cannot be used.
    pub(crate) fn load(&self) -> Result<Option<Component>, String> {
        // What cannot be looked at may be there.
        if !self.file.try_exists().unwrap_or(true) {
            return Ok(None);
        }
        match permission_problem(&self.component, &self.file) {
            Some(problem) => Err(problem),
            None => {
                let loaded = self.directory.intact(&self.file);
                loaded.map(Some).map_err(|cause| cause.to_string())
            }
        }
    }
}

/// Why it may be that others than root and this user have written an artifact, which is run as code. The folder of the
/// component is looked at, too: who may write there can exchange the one of the artifacts.
#[cfg(unix)]
fn permission_problem(component: &Path, artifact: &Path) -> Option<String> {
    use std::os::unix::fs::MetadataExt as _;
    const OTHERS_WRITE: u32 = 0o022;
    let own = rustix::process::geteuid().as_raw();
    let around = component.parent().filter(|folder| !folder.as_os_str().is_empty());
    let folder = component.with_file_name(FOLDER);
    let paths = [around.unwrap_or(Path::new(".")), &folder, artifact];
    paths.into_iter().enumerate().find_map(|(number, path)| {
        // The path to the component may have links; what is in its folder must have none.
        let about = match number {
            0 => fs::metadata(path),
            _ => fs::symlink_metadata(path),
        };
        let (about, path) = match about {
            Ok(about) => (about, path.display()),
            Err(error) => return Some(format!("{}: {error}", path.display())),
        };
        let is_trusted = about.uid() == 0 || about.uid() == own;
        match () {
            () if about.is_symlink() => Some(format!("{path} is a symbolic link; put the file itself there")),
            () if !is_trusted || about.mode() & OTHERS_WRITE != 0 => Some(format!(
                "others may write {path}, which is run as code: let root own it, and run chmod go-w on it"
            )),
            () => None,
        }
    })
}

#[cfg(not(unix))]
fn permission_problem(_component: &Path, _artifact: &Path) -> Option<String> {
    None
}
