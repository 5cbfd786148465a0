//! Ticks when files may have changed, each file by itself.
//!
//! ```text
//! notify (every directory on the path) ──▶ settle 20 ms ──▶ tick ──▶ the file's subscriber reads it
//! slow poll (30 s) ───────────────────────────────────────▲
//! ```
//! Directories are watched, not files: a ConfigMap swaps a symlink, after which a watch on the file reports nothing
//! more. A directory that was replaced by another one of the same name is noticed in its parent and watched again.
//! Every event is only a hint. Where directories cannot be watched (no inotify watches left, network file systems),
//! polling remains.
//!
//! Links and directories are looked up in a turn of the file's own ([`Turn`]), so a file system that does not
//! answer delays only its own files. If it stops to answer just while one of its directories is added to inotify, all
//! files are polled until it answers.

mod watched_paths;

use std::collections::{BTreeMap, BTreeSet};
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex, MutexGuard, Weak};
use std::time::Duration;

use informant_cache::Environment;
use notify::event::{AccessKind, AccessMode, ModifyKind};
use notify::{Event, EventKind, RecommendedWatcher, RecursiveMode, Watcher};
use tokio::sync::{Notify, watch};
use tokio_util::sync::{CancellationToken, DropGuard};

use super::until;
use crate::files::Turn;
use crate::sync::lock;
use watched_paths::{IsLeftOut, WatchedPaths};

/// How long files must be unchanged before they are read: an editor or a compiler writes in several steps.
pub const SETTLE: Duration = Duration::from_millis(20);

/// After how long they are read although they keep changing, or a writer has not closed one.
pub(super) const SETTLE_MAX: Duration = Duration::from_secs(1);

/// How often files are read without any notification.
pub(super) const POLL_PERIOD: Duration = Duration::from_secs(30);

/// Whether the system reports that a writer closed a file.
const REPORTS_CLOSE: bool = cfg!(target_os = "linux");

#[derive(Clone)]
pub(crate) struct FileWatch {
    shared: Arc<SharedState>,
    environment: Arc<dyn Environment>,
    stop: CancellationToken,
}

/// Ticks when one file may have changed. Ends the watch when it is dropped.
pub(crate) struct FileTicks {
    ticks: watch::Receiver<u64>,
    _end: DropGuard,
}

impl std::fmt::Debug for FileWatch {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str("FileWatch")
    }
}

impl FileWatch {
    /// Watches nothing until [`subscribe`](Self::subscribe); ends with `stop`.
    pub(crate) fn start(environment: &Arc<dyn Environment>, stop: CancellationToken) -> Self {
        let shared = Arc::new(SharedState::default());
        let events = Arc::downgrade(&shared);
        let watcher = notify::recommended_watcher(move |event| {
            if let Some(shared) = Weak::upgrade(&events) {
                shared.note(event);
            }
        });
        let watcher = watcher
            .inspect_err(|error| tracing::warn!(%error, "cannot watch directories; polling every 30 s"))
            .ok();
        shared.directories().watcher = watcher;
        Self {
            shared,
            environment: Arc::clone(environment),
            stop,
        }
    }

    /// Watches a file. Ticks once it is watched, so that no change before is missed.
    pub(crate) fn subscribe(&self, file: &Path) -> FileTicks {
        self.start_watch(file, None)
    }

    /// Watches the files in a folder and in those below it, except in folders that are left out by their names.
    pub(crate) fn subscribe_tree(&self, folder: &Path, is_left_out: IsLeftOut) -> FileTicks {
        self.start_watch(folder, Some(is_left_out))
    }

    fn start_watch(&self, file: &Path, tree: Option<IsLeftOut>) -> FileTicks {
        let (sender, ticks) = watch::channel(0);
        let stop = self.stop.child_token();
        let hint = Arc::new(Notify::new());
        let id = self.shared.add(file, tree, &hint);
        let task = WatchTask {
            id,
            hint,
            shared: Arc::clone(&self.shared),
            environment: Arc::clone(&self.environment),
            turn: Turn::new(),
            ticks: sender,
            stop: stop.clone(),
        };
        self.environment.spawn("file-watch", Box::pin(task.run()));
        FileTicks {
            ticks,
            _end: stop.drop_guard(),
        }
    }

    /// Ticks for every file, as if each had been written.
    pub(crate) fn check_all(&self) {
        self.shared.hint_all();
    }
}

impl FileTicks {
    pub(crate) async fn next(&mut self) {
        if self.ticks.changed().await.is_err() {
            // The watch has ended: the daemon is stopping.
            std::future::pending().await
        }
    }

    #[cfg(test)]
    fn count(&mut self) -> u64 {
        *self.ticks.borrow_and_update()
    }
}

/// State shared between notify's thread, the tasks of the files and their threads.
#[derive(Default)]
struct SharedState {
    files: Mutex<WatchedFiles>,
    /// Locked only in a [`Turn`]: a file system that does not answer holds the lock.
    directories: Mutex<WatchedDirectories>,
}

#[derive(Default)]
struct WatchedFiles {
    by_id: BTreeMap<u64, WatchedFile>,
    last_id: u64,
}

struct WatchedFile {
    file: PathBuf,
    /// It is a folder, and what is in it counts.
    tree: Option<IsLeftOut>,
    paths: WatchedPaths,
    /// Files that have been written to but not closed.
    writing: BTreeSet<PathBuf>,
    hint: Arc<Notify>,
}

#[derive(Default)]
struct WatchedDirectories {
    watcher: Option<RecommendedWatcher>,
    /// The identity of each directory when its watch began: another one of the same name is another directory.
    watched: BTreeMap<PathBuf, Identity>,
}

/// Device and inode.
type Identity = (u64, u64);

impl SharedState {
    fn files(&self) -> MutexGuard<'_, WatchedFiles> {
        // Changed by single assignments, so it is consistent after any panic.
        lock(&self.files)
    }

    fn directories(&self) -> MutexGuard<'_, WatchedDirectories> {
        lock(&self.directories)
    }

    fn add(&self, file: &Path, tree: Option<IsLeftOut>, hint: &Arc<Notify>) -> u64 {
        let mut files = self.files();
        files.last_id += 1;
        let id = files.last_id;
        let file = WatchedFile {
            file: file.to_owned(),
            tree,
            paths: WatchedPaths::default(),
            writing: BTreeSet::new(),
            hint: Arc::clone(hint),
        };
        files.by_id.insert(id, file);
        id
    }

    fn hint_all(&self) {
        self.files().by_id.values().for_each(|file| file.hint.notify_one());
    }

    fn is_being_written(&self, id: u64) -> bool {
        let files = self.files();
        files.by_id.get(&id).is_some_and(|file| !file.writing.is_empty())
    }

    fn forget_writers(&self, id: u64) {
        if let Some(file) = self.files().by_id.get_mut(&id) {
            file.writing.clear();
        }
    }

    /// Called by notify for every event in the directories.
    fn note(&self, event: notify::Result<Event>) {
        let Ok(event) = event else {
            return self.hint_all();
        };
        let closed = matches!(event.kind, EventKind::Access(AccessKind::Close(AccessMode::Write)));
        // Reading a file does not change it, and every tick leads to reads.
        if event.kind.is_access() && !closed {
            return;
        }
        if event.need_rescan() || event.paths.is_empty() {
            self.hint_all();
        }
        let written = REPORTS_CLOSE && matches!(event.kind, EventKind::Modify(ModifyKind::Data(_)));
        for file in self.files().by_id.values_mut() {
            for path in event.paths.iter().filter(|path| file.paths.contains(path)) {
                if closed {
                    file.writing.remove(path);
                } else if written {
                    file.writing.insert(path.clone());
                }
                file.hint.notify_one();
            }
        }
    }

    /// Watches the directories that lead to a file now. Blocks for as long as its file system takes.
    fn follow(&self, id: u64) {
        let found = self.files().by_id.get(&id).map(|file| (file.file.clone(), file.tree));
        let Some((file, tree)) = found else {
            return;
        };
        let paths = match tree {
            Some(is_left_out) => WatchedPaths::resolve_tree(&file, is_left_out),
            None => WatchedPaths::resolve(&file),
        };
        let found: Vec<_> = paths
            .directories()
            .map(|directory| (directory.to_owned(), identity(directory)))
            .collect();
        match self.files().by_id.get_mut(&id) {
            Some(file) => file.paths = paths,
            None => return,
        }
        let mut directories = self.directories();
        let unneeded = self.unneeded(&directories);
        directories.unwatch(&unneeded);
        directories.watch(found);
    }

    /// Watched directories that lead to no file any more. The files are not locked afterwards: notify's thread may wait
    /// for them, and it has to answer before a directory is unwatched.
    fn unneeded(&self, directories: &WatchedDirectories) -> Vec<PathBuf> {
        let files = self.files();
        let is_needed = |directory: &Path| files.by_id.values().any(|file| file.paths.has_directory(directory));
        let watched = directories.watched.keys();
        watched.filter(|directory| !is_needed(directory)).cloned().collect()
    }

    /// Ends the notifications of a file. Waits for nothing.
    fn remove(&self, id: u64) {
        self.files().by_id.remove(&id);
    }

    /// Unwatches the directories that lead to no file any more. Blocks for as long as a file system takes.
    fn unwatch_unneeded(&self) {
        let mut directories = self.directories();
        let unneeded = self.unneeded(&directories);
        directories.unwatch(&unneeded);
    }
}

impl WatchedDirectories {
    fn watch(&mut self, found: Vec<(PathBuf, Option<Identity>)>) {
        for (directory, now) in found {
            if now.is_some() && self.watched.get(&directory).copied() == now {
                continue;
            }
            if self.watched.contains_key(&directory) {
                self.unwatch(std::slice::from_ref(&directory));
            }
            let (Some(now), Some(watcher)) = (now, &mut self.watcher) else {
                continue;
            };
            match watcher.watch(&directory, RecursiveMode::NonRecursive) {
                Ok(()) => drop(self.watched.insert(directory, now)),
                Err(error) => tracing::debug!(directory = %directory.display(), %error, "cannot watch directory"),
            }
        }
    }

    fn unwatch(&mut self, directories: &[PathBuf]) {
        for directory in directories {
            self.watched.remove(directory);
            if let Some(watcher) = &mut self.watcher {
                // It may be gone already.
                let _ = watcher.unwatch(directory);
            }
        }
    }
}

struct WatchTask {
    id: u64,
    hint: Arc<Notify>,
    shared: Arc<SharedState>,
    environment: Arc<dyn Environment>,
    turn: Turn,
    ticks: watch::Sender<u64>,
    stop: CancellationToken,
}

impl WatchTask {
    async fn run(mut self) {
        until(self.stop.clone(), self.watch()).await;
        self.shared.remove(self.id);
        let shared = Arc::clone(&self.shared);
        // After the thread that may still follow the file. If that hangs, the next file that is followed does the same.
        let _ = self
            .turn
            .run_within(POLL_PERIOD, move || shared.unwatch_unneeded())
            .await;
    }

    async fn watch(&mut self) {
        loop {
            let (shared, id) = (Arc::clone(&self.shared), self.id);
            let followed = self.turn.run_within(POLL_PERIOD, move || shared.follow(id)).await;
            self.ticks.send_modify(|tick| *tick += 1);
            if followed.is_err() {
                // A file system that does not answer is polled, too: its state shows as unreadable.
                continue;
            }
            tokio::select! {
                biased;
                () = self.hint.notified() => self.settle().await,
                () = self.environment.sleep(POLL_PERIOD) => {}
            }
        }
    }

    /// Waits until there are no hints for [`SETTLE`] and the file is not being written, at most [`SETTLE_MAX`].
    async fn settle(&self) {
        let mut enough = self.environment.sleep(SETTLE_MAX);
        loop {
            tokio::select! {
                biased;
                () = &mut enough => break,
                () = self.hint.notified() => {}
                () = self.environment.sleep(SETTLE) => {
                    if !self.shared.is_being_written(self.id) {
                        break;
                    }
                }
            }
        }
        // A writer that keeps a file open for longer, or whose file was replaced, is not waited for again.
        self.shared.forget_writers(self.id);
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
