//! Compiled components, kept in a folder so that each is compiled once.
//!
//! ```text
//! component ──digest──▶ in use already? ──no──▶ in the folder, and sound? ──no──▶ compile, write, rename
//! ```
//!
//! An artifact is native code that runs in this process, so the folder has to be ours alone ([`crate::private_dir`]),
//! and each file goes with a checksum. A file that is damaged or foreign is set aside as `….bad` and made again; it is
//! never an error. A component that two plugins ask for is compiled once. How is [`crate::compile`]'s business.

use std::collections::BTreeMap;
use std::collections::btree_map::Entry;
use std::fs;
use std::hash::{DefaultHasher, Hash, Hasher};
use std::io::Write as _;
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex, PoisonError, Weak};
use std::time::{Instant, SystemTime};

use tokio::runtime::Handle;
use tokio::sync::OnceCell;
use wasmtime::Engine;
use wasmtime::component::Component;

use crate::compile::Compiling;
use crate::error::Problem;
use crate::{Digest, HostError, PluginMetrics, private_dir};

/// Bytes of all artifacts in the folder: 2 GiB, room for 50 components of JavaScript or Python, or 5,000 of Rust. Above
/// it those go first that were used least recently.
pub const ARTIFACTS_BYTES_MAX: u64 = 2 << 30;

/// The folder, and what of it is in use.
pub(crate) struct Artifacts {
    folder: Arc<Folder>,
    compiling: Compiling,
    in_use: Mutex<BTreeMap<Digest, Weak<Artifact>>>,
    /// Artifacts that are being looked up or made.
    awaited: Mutex<BTreeMap<Digest, Arc<OnceCell<Arc<Artifact>>>>>,
    handle: Handle,
}

/// A compiled component that is in use.
pub(crate) struct Artifact {
    pub(crate) component: Component,
}

struct Folder {
    engine: Engine,
    /// None: it cannot be written, so that nothing is kept.
    path: Option<PathBuf>,
    /// What wasmtime says about itself, its settings and this processor: code made under another is of no use.
    engine_hash: u64,
    metrics: PluginMetrics,
}

impl Artifacts {
    /// Uses `path`, which is made if it does not exist.
    ///
    /// # Errors
    /// [`HostError::CacheDir`] if others may write into it. One that cannot be written is only warned of: components
    /// are then compiled at each start.
    pub(crate) fn open(
        engine: &Engine,
        path: &Path,
        compiling: Compiling,
        handle: Handle,
        metrics: PluginMetrics,
    ) -> Result<Artifacts, HostError> {
        let mut hasher = DefaultHasher::new();
        engine.precompile_compatibility_hash().hash(&mut hasher);
        let folder = Folder {
            engine: engine.clone(),
            path: private_dir::open(path)?.then(|| path.to_owned()),
            engine_hash: hasher.finish(),
            metrics,
        };
        Ok(Artifacts {
            folder: Arc::new(folder),
            compiling,
            in_use: Mutex::default(),
            awaited: Mutex::default(),
            handle,
        })
    }

    /// Where files are kept, if they can be.
    pub(crate) fn path(&self) -> Option<&Path> {
        self.folder.path.as_deref()
    }

    /// The artifact of the component that `bytes` are, from memory, from the folder, or made now.
    ///
    /// # Errors
    /// [`Problem::Compile`].
    pub(crate) async fn get(&self, digest: Digest, bytes: Arc<[u8]>) -> Result<Arc<Artifact>, Problem> {
        if let Some(artifact) = lock(&self.in_use).get(&digest).and_then(Weak::upgrade) {
            return Ok(artifact);
        }
        let awaited = Arc::clone(lock(&self.awaited).entry(digest).or_default());
        let artifact = awaited.get_or_try_init(|| self.load(digest, bytes)).await.cloned();
        if let Entry::Occupied(entry) = lock(&self.awaited).entry(digest)
            && Arc::ptr_eq(entry.get(), &awaited)
        {
            entry.remove();
        }
        artifact
    }

    async fn load(&self, digest: Digest, bytes: Arc<[u8]>) -> Result<Arc<Artifact>, Problem> {
        let interrupted = |_| Problem::Compile("it was interrupted: Informant is stopping".to_owned());
        let folder = Arc::clone(&self.folder);
        let found = self
            .handle
            .spawn_blocking(move || folder.find(digest))
            .await
            .map_err(interrupted)?;
        let component = match found {
            Some(component) => component,
            None => {
                let (began, metrics) = (Instant::now(), &self.folder.metrics);
                metrics.artifact("miss");
                let artifact = self.compiling.compile(bytes).await?;
                metrics.compiled(began.elapsed().as_secs_f64());
                let folder = Arc::clone(&self.folder);
                self.handle
                    .spawn_blocking(move || folder.keep(digest, &artifact))
                    .await
                    .map_err(interrupted)?
                    .map_err(Problem::Compile)?
            }
        };
        let artifact = Arc::new(Artifact { component });
        let mut in_use = lock(&self.in_use);
        in_use.retain(|_, artifact| artifact.strong_count() > 0);
        in_use.insert(digest, Arc::downgrade(&artifact));
        Ok(artifact)
    }
}

impl Folder {
    /// What is in the folder for `digest`, if it is sound.
    fn find(&self, digest: Digest) -> Option<Component> {
        let path = self.file(digest)?;
        let checksum = fs::read_to_string(checksum_of(&path)).ok()?;
        let bytes = fs::read(&path).ok()?;
        let found = match checksum.trim().parse::<Digest>() {
            Ok(checksum) if checksum == Digest::of(&bytes) => {
                drop(bytes);
                self.deserialize(&path)
            }
            _ => Err("its checksum does not match".to_owned()),
        };
        match found {
            Ok(component) => {
                self.metrics.artifact("hit");
                // For the choice of what goes when the folder is full; a failure costs nothing.
                let _ = fs::File::open(&path).and_then(|file| file.set_modified(SystemTime::now()));
                Some(component)
            }
            Err(cause) => {
                self.metrics.artifact("corrupt");
                let aside = path.with_extension("bad");
                tracing::warn!(file = %path.display(), aside = %aside.display(), cause, "a compiled plugin is damaged; it is set aside and compiled again");
                let _ = fs::rename(&path, &aside);
                None
            }
        }
    }

    #[expect(unsafe_code, reason = "wasmtime maps the file as code and trusts it")]
    fn deserialize(&self, path: &Path) -> Result<Component, String> {
        // SAFETY: the file holds what this program's compiler returned, or wasmtime's own check of version and settings
        // refuses it: it lies in a folder that only this user can write (`private_dir`), its checksum was just found to
        // be right, and nobody changes a file in place: files are written under another name and renamed, and removed
        // as a whole.
        unsafe { Component::deserialize_file(&self.engine, path) }.map_err(|error| format!("{error:#}"))
    }

    /// Makes a component of what was just compiled, and keeps it if there is a place.
    fn keep(&self, digest: Digest, artifact: &[u8]) -> Result<Component, String> {
        let Some(path) = self.file(digest) else {
            return self.deserialize_bytes(artifact);
        };
        match write(&path, artifact) {
            Ok(()) => {
                self.shrink();
                self.deserialize(&path)
            }
            Err(error) => {
                tracing::warn!(file = %path.display(), %error, "a compiled plugin cannot be kept; it will be compiled again at the next start");
                self.deserialize_bytes(artifact)
            }
        }
    }

    #[expect(unsafe_code, reason = "wasmtime takes the bytes as code and trusts them")]
    fn deserialize_bytes(&self, artifact: &[u8]) -> Result<Component, String> {
        // SAFETY: the bytes are what this program's compiler returned for this engine a moment ago, through memory or a
        // pipe that nobody else has, or wasmtime's own check of version and settings refuses them.
        unsafe { Component::deserialize(&self.engine, artifact) }.map_err(|error| format!("{error:#}"))
    }

    fn file(&self, digest: Digest) -> Option<PathBuf> {
        Some(
            self.path
                .as_ref()?
                .join(format!("{digest}-{:016x}.cwasm", self.engine_hash)),
        )
    }

    /// Removes what was used least recently until the rest fits.
    fn shrink(&self) {
        let Some(path) = &self.path else { return };
        let Ok(entries) = fs::read_dir(path) else { return };
        let mut files: Vec<(SystemTime, u64, PathBuf)> = entries
            .flatten()
            .filter_map(|entry| {
                let about = entry.metadata().ok()?;
                Some((about.modified().ok()?, about.len(), entry.path()))
            })
            .collect();
        files.sort_unstable();
        let mut total: u64 = files.iter().map(|(_, bytes, _)| bytes).sum();
        for (_, bytes, file) in files {
            if total <= ARTIFACTS_BYTES_MAX {
                break;
            }
            // A file that is mapped stays readable to whoever mapped it.
            if fs::remove_file(&file).is_ok() {
                total -= bytes;
            }
        }
    }
}

/// Writes an artifact and its checksum, each whole or not at all. Between the two the checksum does not match: whoever
/// looks then compiles once more.
fn write(path: &Path, artifact: &[u8]) -> std::io::Result<()> {
    let whole = |path: &Path, bytes: &[u8]| {
        let folder = path.parent().unwrap_or(Path::new("."));
        // Mode 0600: tempfile's files are the user's alone.
        let mut file = tempfile::NamedTempFile::new_in(folder)?;
        file.write_all(bytes)?;
        file.persist(path).map_err(std::io::Error::from).map(|_| ())
    };
    whole(path, artifact)?;
    whole(&checksum_of(path), Digest::of(artifact).to_string().as_bytes())
}

fn checksum_of(path: &Path) -> PathBuf {
    path.with_extension("sha256")
}

fn lock<T>(mutex: &Mutex<T>) -> std::sync::MutexGuard<'_, T> {
    // Maps that are changed by single inserts and removes: whole after any panic.
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

#[cfg(test)]
mod tests;
