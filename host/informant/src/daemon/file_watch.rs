//! Tells when files may have changed.
//!
//! ```text
//! notify (every folder on the way) ──▶ settle 20 ms ──▶ tick ──▶ whoever subscribed compares content hashes
//! slow poll (30 s) ────────────────────────────────────▲
//! ```
//!
//! Folders are watched, not files: a ConfigMap swaps a symlink, after which a watched file tells nothing more. A folder
//! that was replaced by another of its name is noticed in its parent and watched anew. Any event is a hint only. Where
//! folders cannot be watched (out of inotify watches, network file systems) the poll remains.

mod way;

use std::collections::{BTreeMap, BTreeSet};
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use informant_cache::Environment;
use notify::event::{AccessKind, AccessMode, ModifyKind};
use notify::{Event, EventKind, RecommendedWatcher, RecursiveMode, Watcher};
use tokio::sync::{Notify, watch};
use tokio_util::sync::CancellationToken;

use way::Ways;

/// How long files must be left alone before they are looked at: an editor or a compiler writes in several steps.
pub const SETTLE: Duration = Duration::from_millis(20);

/// After how long they are looked at although they are not left alone, or somebody who wrote to one has not closed it.
pub const SETTLE_MAX: Duration = Duration::from_secs(1);

/// How often files are looked at even if nobody said that they changed.
pub const POLL_PERIOD: Duration = Duration::from_secs(30);

/// Whether the system tells when a file that was written to is closed.
const TELLS_OF_CLOSING: bool = cfg!(target_os = "linux");

/// Ticks when a file may have changed. Each subscriber sees the newest tick only.
pub(crate) type Ticks = watch::Receiver<u64>;

/// Watches some files.
pub(crate) struct FileWatch {
    ticks: watch::Receiver<u64>,
    seen: Arc<Seen>,
}

impl FileWatch {
    /// Watches nothing until it is told [which files](Self::set_files); ends with `stop`.
    pub(crate) fn start(environment: &Arc<dyn Environment>, stop: CancellationToken) -> Self {
        let seen = Arc::new(Seen::default());
        let (sender, ticks) = watch::channel(0);
        let task = Watching {
            folders: Folders::new(Arc::clone(&seen)),
            seen: Arc::clone(&seen),
            environment: Arc::clone(environment),
            ticks: sender,
            stop,
        };
        environment.spawn("file-watch", Box::pin(task.run()));
        Self { ticks, seen }
    }

    /// Watches these files and no others. Ticks once they are watched, so that no change before it is missed.
    pub(crate) fn set_files(&self, files: BTreeSet<PathBuf>) {
        let mut parts = self.seen.parts();
        if parts.files != files {
            parts.files = files;
            self.seen.hint.notify_one();
        }
    }

    pub(crate) fn ticks(&self) -> Ticks {
        self.ticks.clone()
    }
}

/// What the thread of notify and the task share.
#[derive(Default)]
struct Seen {
    hint: Notify,
    parts: Mutex<SeenParts>,
}

#[derive(Default)]
struct SeenParts {
    files: BTreeSet<PathBuf>,
    ways: Ways,
    /// Files that were written to and not closed yet.
    writing: BTreeSet<PathBuf>,
}

impl Seen {
    fn parts(&self) -> MutexGuard<'_, SeenParts> {
        // Changed by single assignments: whole after any panic.
        self.parts.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Called by notify for everything that happens in the folders.
    fn note(&self, event: notify::Result<Event>) {
        let Ok(event) = event else {
            return self.hint.notify_one();
        };
        let closed = matches!(event.kind, EventKind::Access(AccessKind::Close(AccessMode::Write)));
        // Reading a file is no change of it, and we read whenever we are told.
        if event.kind.is_access() && !closed {
            return;
        }
        let mut parts = self.parts();
        let mut concerns = event.need_rescan() || event.paths.is_empty();
        for path in event.paths {
            if !parts.ways.pass(&path) {
                continue;
            }
            concerns = true;
            if closed {
                parts.writing.remove(&path);
            } else if TELLS_OF_CLOSING && matches!(event.kind, EventKind::Modify(ModifyKind::Data(_))) {
                parts.writing.insert(path);
            }
        }
        drop(parts);
        if concerns {
            self.hint.notify_one();
        }
    }
}

struct Watching {
    folders: Folders,
    seen: Arc<Seen>,
    environment: Arc<dyn Environment>,
    ticks: watch::Sender<u64>,
    stop: CancellationToken,
}

impl Watching {
    async fn run(mut self) {
        loop {
            self.folders.follow(&self.seen);
            self.ticks.send_modify(|tick| *tick += 1);
            tokio::select! {
                biased;
                () = self.stop.cancelled() => return,
                () = self.seen.hint.notified() => self.settle().await,
                () = self.environment.sleep(POLL_PERIOD) => {}
            }
        }
    }

    /// Waits until hints have ceased for [`SETTLE`] and nobody is writing, at most [`SETTLE_MAX`].
    async fn settle(&self) {
        let mut enough = self.environment.sleep(SETTLE_MAX);
        loop {
            tokio::select! {
                biased;
                () = &mut enough => break,
                () = self.seen.hint.notified() => {}
                () = self.environment.sleep(SETTLE) => {
                    if self.seen.parts().writing.is_empty() {
                        break;
                    }
                }
            }
        }
        // Who keeps a file open for longer, or whose file was replaced meanwhile, is not waited for again.
        self.seen.parts().writing.clear();
    }
}

/// The folders that are watched.
struct Folders {
    watcher: Option<RecommendedWatcher>,
    /// Which folder it was when it began to be watched: another of the same name is another folder.
    watched: BTreeMap<PathBuf, Identity>,
}

/// Device and inode.
type Identity = (u64, u64);

impl Folders {
    fn new(seen: Arc<Seen>) -> Self {
        let watcher = notify::recommended_watcher(move |event| seen.note(event));
        let watcher = watcher
            .inspect_err(|error| tracing::warn!(%error, "folders cannot be watched: files are looked at every 30 s"))
            .ok();
        Self {
            watcher,
            watched: BTreeMap::new(),
        }
    }

    /// Watches the folders that lead to the files now, and no others.
    fn follow(&mut self, seen: &Seen) {
        let Some(watcher) = &mut self.watcher else {
            return;
        };
        let files = seen.parts().files.clone();
        let ways = Ways::to(files.iter().map(PathBuf::as_path));
        self.watched.retain(|folder, _| {
            let stays = ways.has_folder(folder);
            if !stays {
                // It may be gone already.
                let _ = watcher.unwatch(folder);
            }
            stays
        });
        for folder in ways.folders() {
            let now = identity(folder);
            if now.is_some() && self.watched.get(folder).copied() == now {
                continue;
            }
            if self.watched.remove(folder).is_some() {
                let _ = watcher.unwatch(folder);
            }
            let Some(now) = now else { continue };
            match watcher.watch(folder, RecursiveMode::NonRecursive) {
                Ok(()) => drop(self.watched.insert(folder.to_owned(), now)),
                Err(error) => tracing::debug!(folder = %folder.display(), %error, "folder cannot be watched now"),
            }
        }
        seen.parts().ways = ways;
    }
}

/// Which folder that is; none if it is no folder.
fn identity(folder: &Path) -> Option<Identity> {
    let metadata = std::fs::metadata(folder).ok().filter(std::fs::Metadata::is_dir)?;
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
