//! The cache of compiled components: a directory, so that each component is compiled once.
//!
//! ```text
//! component ──digest──▶ in use? ──no──▶ in the directory, and intact? ──no──▶ compile, write, rename
//! ```
//!
//! An artifact is native code that runs in this process, so only this user may write into the directory
//! (`private_dir`), and each file has a checksum. A file that is corrupt or incompatible is renamed to `….bad` and
//! compiled again; this is never an error. A component that two plugins use is compiled once, by
//! [`crate::engine::compile`].

pub(crate) mod last_good;
pub(crate) mod precompiled;

mod erased;
mod private_dir;
mod verified;

use std::collections::BTreeMap;
use std::collections::btree_map::Entry;
use std::fs;
use std::hash::{DefaultHasher, Hash, Hasher};
use std::io::Write as _;
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex, Weak};
use std::time::SystemTime;

use informant_spec::Digest;
use prometheus_client::encoding::EncodeLabelSet;
use prometheus_client::metrics::counter::Counter;
use prometheus_client::metrics::family::Family;
use prometheus_client::metrics::histogram::{Histogram, exponential_buckets};
use prometheus_client::registry::{Registry, Unit};
use tokio::runtime::Handle;
use tokio::sync::OnceCell;
use wasmtime::Engine;
use wasmtime::component::Component;

use self::verified::{Verified, verified};
use crate::engine::compile::{CompileGauges, CompileJob, CompileQueue, CompileRequest};
use crate::error::HostError;
use crate::error::LoadProblem;
use crate::sync::lock;

/// Bytes of all artifacts in the directory, and of the components and scripts kept for rollbacks: 2 GiB, enough for 50
/// components of JavaScript or Python, or 5,000 of Rust. Above it the least recently used ones are removed.
pub(crate) const ARTIFACTS_BYTES_MAX: u64 = 2 << 30;

/// The directory, and the artifacts in use.
pub(crate) struct Artifacts {
    directory: Arc<ArtifactDir>,
    compile_queue: CompileQueue,
    in_use: Mutex<BTreeMap<Digest, Weak<Artifact>>>,
    /// Artifacts that are being looked up or compiled.
    awaited: Mutex<BTreeMap<Digest, Arc<Awaited>>>,
    handle: Handle,
}

/// An artifact that is being looked up or compiled, for all files with the component.
#[derive(Default)]
struct Awaited {
    artifact: OnceCell<Arc<Artifact>>,
    /// The files that wait for it.
    files: Mutex<Vec<PathBuf>>,
}

/// A file that waits for an artifact, until this is dropped.
struct WaitingFile<'a> {
    file: &'a Path,
    awaited: &'a Awaited,
}

/// The metrics of artifacts. Cheap to clone.
#[derive(Clone)]
pub(crate) struct ArtifactMetrics {
    compile_seconds: Histogram,
    lookups: Family<ArtifactLabels, Counter>,
    pub(crate) compiles: CompileGauges,
}

#[derive(Clone, Debug, PartialEq, Eq, Hash, EncodeLabelSet)]
struct ArtifactLabels {
    result: &'static str,
}

impl ArtifactMetrics {
    pub(crate) fn register(registry: &mut Registry) -> ArtifactMetrics {
        let metrics = ArtifactMetrics {
            compile_seconds: Histogram::new(exponential_buckets(0.01, 2.0, 12)),
            lookups: Family::default(),
            compiles: CompileGauges::default(),
        };
        registry.register_with_unit(
            "plugin_compile",
            "Duration of compiling a component",
            Unit::Seconds,
            metrics.compile_seconds.clone(),
        );
        registry.register(
            "plugin_artefacts",
            "Lookups of compiled components in the cache, by result",
            metrics.lookups.clone(),
        );
        metrics.compiles.register(registry);
        metrics
    }

    fn compiled(&self, seconds: f64) {
        self.compile_seconds.observe(seconds);
    }

    /// An artifact was looked up: `hit`, `miss` or `corrupt`.
    fn artifact(&self, result: &'static str) {
        self.lookups.get_or_create(&ArtifactLabels { result }).inc();
    }
}

pub(crate) struct Artifact {
    pub(crate) component: Component,
}

/// Why an artifact cannot be used.
#[derive(Debug, thiserror::Error)]
enum Unusable {
    /// That says nothing about it.
    #[error("{0}")]
    Unread(String),
    #[error("{0}")]
    Broken(String),
}

struct ArtifactDir {
    engine: Engine,
    /// None: it cannot be written, so nothing is kept.
    path: Option<PathBuf>,
    /// wasmtime's hash of its version, its settings and this processor: code with another hash is incompatible.
    engine_hash: u64,
    metrics: ArtifactMetrics,
}

impl Artifacts {
    /// Opens `path`, which is created if it does not exist.
    ///
    /// # Errors
    /// [`HostError::CacheDir`] if others may write into it. One that cannot be written is only logged: components are
    /// then compiled at each start.
    pub(crate) fn open(
        engine: &Engine,
        path: &Path,
        compile_queue: CompileQueue,
        handle: Handle,
        metrics: ArtifactMetrics,
    ) -> Result<Artifacts, HostError> {
        let mut hasher = DefaultHasher::new();
        engine.precompile_compatibility_hash().hash(&mut hasher);
        let directory = ArtifactDir {
            engine: engine.clone(),
            path: private_dir::open(path)?.then(|| path.to_owned()),
            engine_hash: hasher.finish(),
            metrics,
        };
        Ok(Artifacts {
            directory: Arc::new(directory),
            compile_queue,
            in_use: Mutex::default(),
            awaited: Mutex::default(),
            handle,
        })
    }

    /// Only these artifacts, which must outlive this, and no directory.
    #[cfg(feature = "simulation")]
    pub(crate) fn compiled<'a>(
        engine: &Engine,
        compile_queue: CompileQueue,
        handle: Handle,
        metrics: ArtifactMetrics,
        compiled: impl Iterator<Item = (Digest, &'a Arc<Artifact>)>,
    ) -> Artifacts {
        let directory = ArtifactDir {
            engine: engine.clone(),
            path: None,
            engine_hash: 0,
            metrics,
        };
        let in_use = compiled.map(|(digest, artifact)| (digest, Arc::downgrade(artifact)));
        Artifacts {
            directory: Arc::new(directory),
            compile_queue,
            in_use: Mutex::new(in_use.collect()),
            awaited: Mutex::default(),
            handle,
        }
    }

    /// The directory, if it can be written.
    pub(crate) fn path(&self) -> Option<&Path> {
        self.directory.path.as_deref()
    }

    pub(crate) fn compile_queue(&self) -> &CompileQueue {
        &self.compile_queue
    }

    /// The artifact of a component, from memory, from the directory, or compiled now.
    pub(crate) async fn get(&self, request: CompileRequest<'_>) -> Result<Arc<Artifact>, LoadProblem> {
        let digest = request.digest;
        if let Some(artifact) = lock(&self.in_use).get(&digest).and_then(Weak::upgrade) {
            return Ok(artifact);
        }
        let awaited = {
            let mut awaited = lock(&self.awaited);
            // Those that failed or were cancelled have left theirs behind.
            awaited.retain(|_, awaited| Arc::strong_count(awaited) > 1);
            Arc::clone(awaited.entry(digest).or_default())
        };
        let artifact = {
            let _waits = WaitingFile::new(request.file, digest, &awaited);
            let loaded = awaited.artifact.get_or_try_init(|| self.load(request)).await;
            loaded.cloned()
        };
        // After an error, the next file that waits has its turn.
        if artifact.is_ok()
            && let Entry::Occupied(entry) = lock(&self.awaited).entry(digest)
            && Arc::ptr_eq(entry.get(), &awaited)
        {
            entry.remove();
        }
        artifact
    }

    /// The compile that `file` waits for, be it of another file with the same component.
    pub(crate) fn compiling(&self, file: &Path) -> Option<CompileJob> {
        let awaited = lock(&self.awaited);
        awaited.iter().find_map(|(digest, awaited)| {
            // Few are compiled, but at a start many may be looked up.
            let job = self.compile_queue.schedule().of(*digest)?;
            let waits = lock(&awaited.files).iter().any(|waiting| waiting == file);
            waits.then_some(job)
        })
    }

    async fn load(&self, request: CompileRequest<'_>) -> Result<Arc<Artifact>, LoadProblem> {
        let digest = request.digest;
        let interrupted = |_| LoadProblem::Compile("interrupted, because Informant is stopping".to_owned());
        let directory = Arc::clone(&self.directory);
        let found = self
            .handle
            .spawn_blocking(move || directory.find(digest))
            .await
            .map_err(interrupted)?;
        let component = match found {
            Some(component) => component,
            None => {
                let metrics = &self.directory.metrics;
                metrics.artifact("miss");
                let compiled = self.compile_queue.compile(request).await.map_err(refused)?;
                metrics.compiled(compiled.took.as_secs_f64());
                let artifact = compiled.artifact;
                let directory = Arc::clone(&self.directory);
                self.handle
                    .spawn_blocking(move || directory.keep(digest, &artifact))
                    .await
                    .map_err(interrupted)?
                    .map_err(LoadProblem::Compile)?
            }
        };
        let artifact = Arc::new(Artifact { component });
        let mut in_use = lock(&self.in_use);
        in_use.retain(|_, artifact| artifact.strong_count() > 0);
        in_use.insert(digest, Arc::downgrade(&artifact));
        Ok(artifact)
    }
}

impl<'a> WaitingFile<'a> {
    /// Logs it if it waits for another file.
    fn new(file: &'a Path, digest: Digest, awaited: &'a Awaited) -> WaitingFile<'a> {
        let first = {
            let mut files = lock(&awaited.files);
            files.push(file.to_owned());
            files.first().filter(|first| *first != file).cloned()
        };
        if let Some(first) = first {
            // Many at a start with a few files.
            tracing::debug!(
                file = %file.display(),
                digest = %digest.short(),
                same_as = %first.display(),
                "component waits for another file with the same one"
            );
        }
        WaitingFile { file, awaited }
    }
}

impl Drop for WaitingFile<'_> {
    fn drop(&mut self) {
        let mut files = lock(&self.awaited.files);
        if let Some(at) = files.iter().position(|file| file == self.file) {
            files.remove(at);
        }
    }
}

/// The problem of a component that does not compile, with wasmtime's message.
fn refused(message: String) -> LoadProblem {
    match message.contains("component model async feature") {
        true => LoadProblem::Async(message),
        false => LoadProblem::Compile(message),
    }
}

impl ArtifactDir {
    /// The artifact of `digest` in the directory, if it is intact.
    fn find(&self, digest: Digest) -> Option<Component> {
        let path = self.file(digest)?;
        if !(path.exists() && checksum_of(&path).exists()) {
            return None;
        }
        let found = self.intact(&path);
        match found {
            Ok(component) => {
                self.metrics.artifact("hit");
                // For the eviction of the least recently used; a failure costs nothing.
                let _ = fs::File::open(&path).and_then(|file| file.set_modified(SystemTime::now()));
                Some(component)
            }
            Err(cause @ Unusable::Unread(_)) => {
                tracing::warn!(file = %path.display(), error = %cause, "compiled plugin cannot be read; recompiling");
                None
            }
            Err(Unusable::Broken(cause)) => {
                self.metrics.artifact("corrupt");
                let aside = path.with_extension("bad");
                tracing::warn!(file = %path.display(), moved_to = %aside.display(), error = cause, "compiled plugin corrupt; recompiling");
                let _ = fs::rename(&path, &aside);
                None
            }
        }
    }

    /// The artifact in a file, if it has its checksum and suits this engine.
    fn intact(&self, path: &Path) -> Result<Component, Unusable> {
        self.load(&verified(path)?).map_err(Unusable::Broken)
    }

    fn load(&self, verified: &Verified) -> Result<Component, String> {
        match verified {
            Verified::Open { path, .. } => self.deserialize(path),
            Verified::Read(bytes) => self.deserialize_bytes(bytes),
        }
    }

    #[expect(unsafe_code, reason = "wasmtime maps the file as code and trusts it")]
    fn deserialize(&self, path: &Path) -> Result<Component, String> {
        // SAFETY: the file contains what this program's compiler returned, or wasmtime's own check of version and
        // settings rejects it: it is in a directory that only this user can write (`private_dir`), or that only this
        // user and root can (`precompiled`), and its checksum was just verified. Informant never changes such a file in
        // place: it is written under another name and renamed, and removed as a whole. Another version of Informant
        // has other names, so that a release that is copied over this one does not change it either.
        unsafe { Component::deserialize_file(&self.engine, path) }.map_err(|error| format!("{error:#}"))
    }

    /// Loads an artifact that was just compiled, and keeps it if the directory can be written.
    fn keep(&self, digest: Digest, artifact: &[u8]) -> Result<Component, String> {
        let Some(path) = self.file(digest) else {
            return self.deserialize_bytes(artifact);
        };
        match write(&path, artifact) {
            Ok(()) => {
                path.parent().into_iter().for_each(shrink);
                self.deserialize(&path)
            }
            Err(error) => {
                tracing::warn!(file = %path.display(), %error, "compiled plugin not cached; it is recompiled at the next start");
                self.deserialize_bytes(artifact)
            }
        }
    }

    #[expect(unsafe_code, reason = "wasmtime takes the bytes as code and trusts them")]
    fn deserialize_bytes(&self, artifact: &[u8]) -> Result<Component, String> {
        // SAFETY: this program's compiler has returned the bytes for this engine, through memory or a private pipe, or
        // they are a copy of a file that `deserialize` may map, or wasmtime's own check of version and settings rejects
        // them.
        unsafe { Component::deserialize(&self.engine, artifact) }.map_err(|error| format!("{error:#}"))
    }

    fn file(&self, digest: Digest) -> Option<PathBuf> {
        Some(
            self.path
                .as_ref()?
                .join(format!("{digest}-{:016x}.cwasm", self.engine_hash)),
        )
    }
}

/// Removes the least recently used files in `directory` until the rest fits into [`ARTIFACTS_BYTES_MAX`].
fn shrink(directory: &Path) {
    let Ok(entries) = fs::read_dir(directory) else { return };
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
        // A mapped file stays readable after it is removed.
        if fs::remove_file(&file).is_ok() {
            total -= bytes;
        }
    }
}

/// Writes an artifact and its checksum, each atomically. Between the two writes the checksum does not match; a reader
/// then compiles again.
fn write(path: &Path, artifact: &[u8]) -> std::io::Result<()> {
    let whole = |path: &Path, bytes: &[u8]| {
        let directory = path.parent().unwrap_or(Path::new("."));
        // Mode 0600: tempfile's files are the user's alone.
        let mut file = tempfile::NamedTempFile::new_in(directory)?;
        file.write_all(bytes)?;
        file.persist(path).map_err(std::io::Error::from).map(|_| ())
    };
    whole(path, artifact)?;
    whole(&checksum_of(path), Digest::of(artifact).to_string().as_bytes())
}

fn checksum_of(path: &Path) -> PathBuf {
    path.with_extension("sha256")
}

#[cfg(test)]
mod tests;
