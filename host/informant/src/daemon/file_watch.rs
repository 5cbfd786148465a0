//! Tells when files may have changed.
//!
//! ```text
//! notify (parent folders) ──▶ settle 20 ms ──▶ tick ──▶ whoever subscribed compares content hashes
//! slow poll (30 s) ───────────────────────────▲
//! ```
//!
//! Folders are watched, not files: a ConfigMap swaps a symlink, after which a watched file tells nothing more. Any event is a
//! hint only. Where folders cannot be watched (missing, out of inotify watches, network file systems) the poll remains.

use std::collections::{BTreeMap, BTreeSet};
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Duration;

use informant_cache::Environment;
use notify::{RecommendedWatcher, RecursiveMode, Watcher};
use tokio::sync::{Notify, watch};
use tokio_util::sync::CancellationToken;

/// How long a folder must be quiet before its files are looked at: an editor or a compiler writes in several steps.
pub const SETTLE: Duration = Duration::from_millis(20);

/// How long it may stay unquiet before its files are looked at all the same.
pub const SETTLE_MAX: Duration = Duration::from_secs(1);

/// How often files are looked at even if nobody said that they changed.
pub const POLL_PERIOD: Duration = Duration::from_secs(30);

/// Ticks when a file may have changed. Each subscriber sees the newest tick only.
pub(crate) type Ticks = watch::Receiver<u64>;

/// Watches the folders of some files.
pub(crate) struct FileWatch {
    ticks: watch::Receiver<u64>,
}

impl FileWatch {
    /// Watches the parent folders of `files` until `stop`.
    pub(crate) fn start(
        files: impl IntoIterator<Item = PathBuf>,
        environment: &Arc<dyn Environment>,
        stop: CancellationToken,
    ) -> Self {
        let folders: BTreeSet<PathBuf> = files.into_iter().map(|file| parent(&file).to_owned()).collect();
        let hint = Arc::new(Notify::new());
        let (sender, ticks) = watch::channel(0);
        let task = Watching {
            folders: Folders::new(folders, Arc::clone(&hint)),
            hint,
            environment: Arc::clone(environment),
            ticks: sender,
            stop,
        };
        environment.spawn("file-watch", Box::pin(task.run()));
        Self { ticks }
    }

    pub(crate) fn ticks(&self) -> Ticks {
        self.ticks.clone()
    }
}

fn parent(file: &Path) -> &Path {
    match file.parent() {
        Some(folder) if !folder.as_os_str().is_empty() => folder,
        _ => Path::new("."),
    }
}

struct Watching {
    folders: Folders,
    hint: Arc<Notify>,
    environment: Arc<dyn Environment>,
    ticks: watch::Sender<u64>,
    stop: CancellationToken,
}

impl Watching {
    async fn run(mut self) {
        loop {
            self.folders.watch_missing();
            tokio::select! {
                biased;
                () = self.stop.cancelled() => return,
                () = self.hint.notified() => self.settle().await,
                () = self.environment.sleep(POLL_PERIOD) => {}
            }
            self.ticks.send_modify(|tick| *tick += 1);
        }
    }

    /// Waits until hints have ceased for [`SETTLE`], at most [`SETTLE_MAX`].
    async fn settle(&self) {
        let mut enough = self.environment.sleep(SETTLE_MAX);
        loop {
            tokio::select! {
                biased;
                () = &mut enough => return,
                () = self.hint.notified() => {}
                () = self.environment.sleep(SETTLE) => return,
            }
        }
    }
}

/// The folders and what watches them.
struct Folders {
    watcher: Option<RecommendedWatcher>,
    /// Whether each folder is being watched.
    watched: BTreeMap<PathBuf, bool>,
}

impl Folders {
    fn new(folders: BTreeSet<PathBuf>, hint: Arc<Notify>) -> Self {
        let watcher = notify::recommended_watcher(move |event: notify::Result<notify::Event>| {
            // Reading a file is no change of it, and we read whenever we are told.
            if !event.is_ok_and(|event| event.kind.is_access()) {
                hint.notify_one();
            }
        });
        let watcher = watcher
            .inspect_err(|error| tracing::warn!(%error, "folders cannot be watched: files are looked at every 30 s"))
            .ok();
        Self {
            watcher,
            watched: folders.into_iter().map(|folder| (folder, false)).collect(),
        }
    }

    /// Begins to watch what could not be watched before, as a folder that did not exist yet, and what was replaced.
    fn watch_missing(&mut self) {
        let Some(watcher) = &mut self.watcher else {
            return;
        };
        for (folder, watched) in &mut self.watched {
            if *watched && folder.is_dir() {
                continue;
            }
            match watcher.watch(folder, RecursiveMode::NonRecursive) {
                Ok(()) => *watched = true,
                Err(error) => {
                    *watched = false;
                    tracing::debug!(folder = %folder.display(), %error, "folder cannot be watched now");
                }
            }
        }
    }
}
