//! Artifacts that a release brings: native code of a script runner, in a folder next to it that is only read.
//!
//! ```text
//! informant-runner-python.wasm
//! compiled/DIGEST.cwasm, DIGEST.sha256     for every processor of this architecture
//! ```
//!
//! Compiling a large runner takes more memory than running it, so an image can have it compiled. The code in the cache
//! of [`super::ArtifactDir`] is for this processor only, that of a release for every one.

use std::fs;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use informant_spec::Digest;

use super::{Artifact, Artifacts, write};
use crate::sync::lock;

/// The folder, next to the runner.
const FOLDER: &str = "compiled";

/// The file for the component with this digest, which is next to the folder.
fn file(component: &Path, digest: Digest) -> PathBuf {
    component.with_file_name(FOLDER).join(format!("{digest}.cwasm"))
}

/// Writes the artifact of a component next to it, and returns its path.
pub(crate) fn keep(component: &Path, digest: Digest, artifact: &[u8]) -> std::io::Result<PathBuf> {
    let file = file(component, digest);
    fs::create_dir_all(file.parent().unwrap_or(Path::new(".")))?;
    write(&file, artifact)?;
    readable(&file)?;
    Ok(file)
}

/// The image's user reads what root has written.
#[cfg(unix)]
fn readable(artifact: &Path) -> std::io::Result<()> {
    use std::os::unix::fs::PermissionsExt as _;
    for file in [artifact, &super::checksum_of(artifact)] {
        fs::set_permissions(file, fs::Permissions::from_mode(0o644))?;
    }
    Ok(())
}

#[cfg(not(unix))]
fn readable(_artifact: &Path) -> std::io::Result<()> {
    Ok(())
}

impl Artifacts {
    /// Uses the artifact next to a component of the release, if there is one. While what this returns exists,
    /// [`Artifacts::get`] finds it. An artifact that cannot be used is logged: the component is then compiled.
    pub(crate) async fn use_precompiled(&self, component: &Path, digest: Digest) -> Option<Arc<Artifact>> {
        let file = file(component, digest);
        let directory = Arc::clone(&self.directory);
        let found = self.handle.spawn_blocking(move || {
            if !file.exists() {
                return None;
            }
            match permission_problem(&file).map_or_else(|| directory.intact(&file), Err) {
                Ok(component) => Some(component),
                Err(cause) => {
                    tracing::warn!(file = %file.display(), error = cause, "precompiled script runner unusable; compiling it");
                    None
                }
            }
        });
        let artifact = Arc::new(Artifact {
            component: found.await.ok()??,
        });
        self.directory.metrics.artifact("hit");
        lock(&self.in_use).insert(digest, Arc::downgrade(&artifact));
        Some(artifact)
    }
}

/// Why only root and this user should be able to write an artifact: it is run as code.
#[cfg(unix)]
fn permission_problem(artifact: &Path) -> Option<String> {
    use std::os::unix::fs::MetadataExt as _;
    const OTHERS_WRITE: u32 = 0o022;
    let own = rustix::process::geteuid().as_raw();
    let folder = artifact.parent().unwrap_or(Path::new("."));
    [folder, artifact].into_iter().find_map(|path| {
        let about = match fs::metadata(path) {
            Ok(about) => about,
            Err(error) => return Some(error.to_string()),
        };
        let is_trusted = about.uid() == 0 || about.uid() == own;
        (!is_trusted || about.mode() & OTHERS_WRITE != 0).then(|| {
            let path = path.display();
            format!("others may write {path}, which is run as code: let root own it, and run chmod go-w on it")
        })
    })
}

#[cfg(not(unix))]
fn permission_problem(_artifact: &Path) -> Option<String> {
    None
}
