//! Ticks when files may have changed.
//!
//! ```text
//! notify (every directory on the path) ──▶ settle 20 ms ──▶ tick ──▶ subscribers compare content hashes
//! slow poll (30 s) ───────────────────────────────────────▲
//! ```
//! Directories are watched, not files: a ConfigMap swaps a symlink, after which a watch on the file reports nothing
//! more. A directory that was replaced by another one of the same name is noticed in its parent and watched again.
//! Every event is only a hint. Where directories cannot be watched (no inotify watches left, network file systems),
//! polling remains.

mod watched_paths;

use std::collections::{BTreeMap, BTreeSet};
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use informant_cache::Environment;
use notify::event::{AccessKind, AccessMode, ModifyKind};
use notify::{Event, EventKind, RecommendedWatcher, RecursiveMode, Watcher};
use tokio::sync::{Notify, watch};
use tokio_util::sync::CancellationToken;

use watched_paths::WatchedPaths;

/// How long files must be unchanged before they are read: an editor or a compiler writes in several steps.
pub const SETTLE: Duration = Duration::from_millis(20);

/// After how long they are read although they keep changing, or a writer has not closed one.
pub const SETTLE_MAX: Duration = Duration::from_secs(1);

/// How often files are read without any notification.
pub const POLL_PERIOD: Duration = Duration::from_secs(30);

/// Whether the system reports that a writer closed a file.
const REPORTS_CLOSE: bool = cfg!(target_os = "linux");

/// Ticks when a file may have changed. Each subscriber sees only the newest tick.
pub(crate) type Ticks = watch::Receiver<u64>;

/// Watches files.
pub(crate) struct FileWatch {
    ticks: watch::Receiver<u64>,
    shared: Arc<SharedState>,
}

impl FileWatch {
    /// Watches nothing until [`set_files`](Self::set_files); ends with `stop`.
    pub(crate) fn start(environment: &Arc<dyn Environment>, stop: CancellationToken) -> Self {
        let shared = Arc::new(SharedState::default());
        let (sender, ticks) = watch::channel(0);
        let task = WatchTask {
            directories: WatchedDirectories::new(Arc::clone(&shared)),
            shared: Arc::clone(&shared),
            environment: Arc::clone(environment),
            ticks: sender,
            stop,
        };
        environment.spawn("file-watch", Box::pin(task.run()));
        Self { ticks, shared }
    }

    /// Watches exactly these files. Ticks once they are watched, so that no change before is missed.
    pub(crate) fn set_files(&self, files: BTreeSet<PathBuf>) {
        let mut parts = self.shared.parts();
        if parts.files != files {
            parts.files = files;
            self.shared.hint.notify_one();
        }
    }

    pub(crate) fn ticks(&self) -> Ticks {
        self.ticks.clone()
    }
}

/// State shared between notify's thread and the task.
#[derive(Default)]
struct SharedState {
    hint: Notify,
    parts: Mutex<WatchState>,
}

#[derive(Default)]
struct WatchState {
    files: BTreeSet<PathBuf>,
    paths: WatchedPaths,
    /// Files that have been written to but not closed.
    writing: BTreeSet<PathBuf>,
}

impl SharedState {
    fn parts(&self) -> MutexGuard<'_, WatchState> {
        // Changed by single assignments, so it is consistent after any panic.
        self.parts.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Called by notify for every event in the directories.
    fn note(&self, event: notify::Result<Event>) {
        let Ok(event) = event else {
            return self.hint.notify_one();
        };
        let closed = matches!(event.kind, EventKind::Access(AccessKind::Close(AccessMode::Write)));
        // Reading a file does not change it, and every tick leads to reads.
        if event.kind.is_access() && !closed {
            return;
        }
        let mut parts = self.parts();
        let mut concerns = event.need_rescan() || event.paths.is_empty();
        for path in event.paths {
            if !parts.paths.contains(&path) {
                continue;
            }
            concerns = true;
            if closed {
                parts.writing.remove(&path);
            } else if REPORTS_CLOSE && matches!(event.kind, EventKind::Modify(ModifyKind::Data(_))) {
                parts.writing.insert(path);
            }
        }
        drop(parts);
        if concerns {
            self.hint.notify_one();
        }
    }
}

struct WatchTask {
    directories: WatchedDirectories,
    shared: Arc<SharedState>,
    environment: Arc<dyn Environment>,
    ticks: watch::Sender<u64>,
    stop: CancellationToken,
}

impl WatchTask {
    async fn run(mut self) {
        loop {
            self.directories.follow(&self.shared);
            self.ticks.send_modify(|tick| *tick += 1);
            tokio::select! {
                biased;
                () = self.stop.cancelled() => return,
                () = self.shared.hint.notified() => self.settle().await,
                () = self.environment.sleep(POLL_PERIOD) => {}
            }
        }
    }

    /// Waits until there are no hints for [`SETTLE`] and no file is being written, at most [`SETTLE_MAX`].
    async fn settle(&self) {
        let mut enough = self.environment.sleep(SETTLE_MAX);
        loop {
            tokio::select! {
                biased;
                () = &mut enough => break,
                () = self.shared.hint.notified() => {}
                () = self.environment.sleep(SETTLE) => {
                    if self.shared.parts().writing.is_empty() {
                        break;
                    }
                }
            }
        }
        // A writer that keeps a file open for longer, or whose file was replaced, is not waited for again.
        self.shared.parts().writing.clear();
    }
}

/// The watched directories.
struct WatchedDirectories {
    watcher: Option<RecommendedWatcher>,
    /// The identity of each directory when its watch began: another one of the same name is another directory.
    watched: BTreeMap<PathBuf, Identity>,
}

/// Device and inode.
type Identity = (u64, u64);

impl WatchedDirectories {
    fn new(shared: Arc<SharedState>) -> Self {
        let watcher = notify::recommended_watcher(move |event| shared.note(event));
        let watcher = watcher
            .inspect_err(|error| tracing::warn!(%error, "cannot watch directories; polling every 30 s"))
            .ok();
        Self {
            watcher,
            watched: BTreeMap::new(),
        }
    }

    /// Watches exactly the directories that lead to the files now.
    fn follow(&mut self, shared: &SharedState) {
        let Some(watcher) = &mut self.watcher else {
            return;
        };
        let files = shared.parts().files.clone();
        let paths = WatchedPaths::resolve(files.iter().map(PathBuf::as_path));
        self.watched.retain(|directory, _| {
            let is_needed = paths.has_directory(directory);
            if !is_needed {
                // It may be gone already.
                let _ = watcher.unwatch(directory);
            }
            is_needed
        });
        for directory in paths.directories() {
            let now = identity(directory);
            if now.is_some() && self.watched.get(directory).copied() == now {
                continue;
            }
            if self.watched.remove(directory).is_some() {
                let _ = watcher.unwatch(directory);
            }
            let Some(now) = now else { continue };
            match watcher.watch(directory, RecursiveMode::NonRecursive) {
                Ok(()) => drop(self.watched.insert(directory.to_owned(), now)),
                Err(error) => tracing::debug!(directory = %directory.display(), %error, "cannot watch directory"),
            }
        }
        shared.parts().paths = paths;
    }
}

/// The identity of a directory; none if it is not a directory.
fn identity(directory: &Path) -> Option<Identity> {
    let metadata = std::fs::metadata(directory).ok().filter(std::fs::Metadata::is_dir)?;
    #[cfg(unix)]
    {
        use std::os::unix::fs::MetadataExt;
        Some((metadata.dev(), metadata.ino()))
    }
    #[cfg(not(unix))]
    {
        let _ = metadata;
        Some((0, 0))
    }
}

#[cfg(test)]
mod tests;
