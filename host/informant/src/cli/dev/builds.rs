//! Builds when sources change: one build at a time, and another one if they changed while it ran.
//!
//! ```text
//! FileWatch ─tick─▶ snapshot differs? ─▶ build ─▶ its end
//! ```

use std::collections::BTreeMap;
use std::ffi::OsStr;
use std::fs;
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant, SystemTime};

use anyhow::Result;
use tokio::task::{JoinHandle, block_in_place};

use crate::cli::build::{self, BuildArgs, Built, Language, Source};
use crate::daemon::{FileTicks, FileWatch, or_never};

/// Folders that hold what tools write or download.
const FOLDERS_LEFT_OUT: [&str; 6] = ["__pycache__", "build", "dist", "node_modules", "target", "venv"];

/// Suffixes of what builds write.
const SUFFIXES_LEFT_OUT: [&str; 4] = ["o", "partial", "swp", "wasm"];

/// Files of a project whose changes lead to a build: 10,000. Changes of further ones are not noticed.
const SOURCES_MAX: usize = 10_000;

/// How long a stop waits for a build: 2 s. Then its temporary files stay.
const BUILD_END_MAX: Duration = Duration::from_secs(2);

/// What a build reads.
struct Sources {
    /// A core module, which is a file that another tool writes, or the folder of a project.
    path: PathBuf,
    output: PathBuf,
}

/// The files of a project, each with its size and when it changed.
type Snapshot = BTreeMap<PathBuf, (u64, Option<SystemTime>)>;

pub(super) struct Builds {
    args: BuildArgs,
    sources: Sources,
    ticks: FileTicks,
    seen: Snapshot,
    /// They have changed since the last build began.
    is_due: bool,
    running: Option<JoinHandle<Result<Built>>>,
    began: Instant,
}

/// The end of a build.
pub(super) struct BuildEnd {
    pub(super) result: Result<Built>,
    pub(super) took: Duration,
}

impl Builds {
    /// The first build is due at once.
    pub(super) fn new(args: BuildArgs, source: &Source, output: PathBuf, watch: &FileWatch) -> Self {
        let is_file = source.language == Language::CoreModule;
        let path = if is_file { &source.files[0] } else { &source.folder };
        Self {
            ticks: match is_file {
                true => watch.subscribe(path),
                false => watch.subscribe_tree(path, is_folder_left_out),
            },
            sources: Sources {
                path: path.clone(),
                output,
            },
            args,
            seen: Snapshot::new(),
            is_due: true,
            running: None,
            began: Instant::now(),
        }
    }

    /// Waits for the end of the next build. May be dropped at any point.
    pub(super) async fn next(&mut self) -> BuildEnd {
        loop {
            if self.running.is_none() && std::mem::take(&mut self.is_due) {
                // Before it begins: what changes while it runs is for the next one.
                self.seen = block_in_place(|| self.sources.snapshot());
                self.began = Instant::now();
                let args = self.args.clone();
                self.running = Some(tokio::task::spawn_blocking(move || build::build(&args)));
            }
            tokio::select! {
                biased;
                ended = or_never(self.running.as_mut()) => {
                    self.running = None;
                    let result = ended.unwrap_or_else(|error| Err(error.into()));
                    return BuildEnd { result, took: self.began.elapsed() };
                }
                () = self.ticks.next() => {
                    let now = block_in_place(|| self.sources.snapshot());
                    self.is_due |= now != self.seen;
                    self.seen = now;
                }
            }
        }
    }
}

impl Builds {
    /// Waits for the build that runs, whose tools Ctrl-C has ended, too, so that it removes its files.
    pub(super) async fn end(self) {
        if let Some(running) = self.running {
            let _ = tokio::time::timeout(BUILD_END_MAX, running).await;
        }
    }
}

impl Sources {
    fn snapshot(&self) -> Snapshot {
        let mut found = Snapshot::new();
        self.add(&self.path, &mut found);
        found
    }

    fn add(&self, path: &Path, found: &mut Snapshot) {
        if found.len() >= SOURCES_MAX {
            return;
        }
        // What cannot be read is reported by the build.
        let Ok(metadata) = fs::metadata(path) else { return };
        if metadata.is_dir() {
            for entry in fs::read_dir(path).into_iter().flatten().flatten() {
                let (name, is_link) = (entry.file_name(), entry.file_type().is_ok_and(|kind| kind.is_symlink()));
                let is_left_out = match entry.path().is_dir() {
                    true => is_link || is_folder_left_out(&name),
                    false => self.is_file_left_out(&entry.path()),
                };
                if !is_left_out {
                    self.add(&entry.path(), found);
                }
            }
        } else {
            found.insert(path.to_owned(), (metadata.len(), metadata.modified().ok()));
        }
    }

    fn is_file_left_out(&self, file: &Path) -> bool {
        let suffix = file.extension().and_then(OsStr::to_str);
        file.file_name() == self.output.file_name()
            || suffix.is_some_and(|suffix| SUFFIXES_LEFT_OUT.contains(&suffix))
            || file.file_name().is_some_and(is_hidden)
            || file.to_string_lossy().ends_with('~')
    }
}

fn is_folder_left_out(name: &OsStr) -> bool {
    is_hidden(name) || name.to_str().is_some_and(|name| FOLDERS_LEFT_OUT.contains(&name))
}

fn is_hidden(name: &OsStr) -> bool {
    name.as_encoded_bytes().starts_with(b".")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn results_and_downloads_are_no_sources() {
        let folder = tempfile::tempdir().unwrap();
        for file in [
            ".git/index",
            ".handler.c.swp",
            "Cargo.toml",
            "greeter.wasm",
            "handler.js",
            "handler.ts",
            "node_modules/a/index.js",
            "src/deep/lib.rs",
            "src/lib.rs~",
            "target/debug/a.rs",
        ] {
            let path = folder.path().join(file);
            fs::create_dir_all(path.parent().unwrap()).unwrap();
            fs::write(path, "").unwrap();
        }
        std::os::unix::fs::symlink(folder.path(), folder.path().join("src/loop")).unwrap();
        let sources = Sources {
            path: folder.path().to_owned(),
            output: "handler.js".into(),
        };
        let names = |snapshot: &Snapshot| -> Vec<String> {
            let names = snapshot.keys().map(|path| path.strip_prefix(folder.path()).unwrap());
            names.map(|name| name.display().to_string()).collect()
        };
        let before = sources.snapshot();
        assert_eq!(names(&before), ["Cargo.toml", "handler.ts", "src/deep/lib.rs"]);
        fs::write(folder.path().join("src/deep/lib.rs"), "changed").unwrap();
        assert_ne!(sources.snapshot(), before);
    }
}
