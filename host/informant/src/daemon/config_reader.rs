//! Reads config.toml when it may have changed, and passes on what is new and stable.
//!
//! ```text
//! tick, or a check ──▶ read twice, until stable ──▶ new? ──▶ ConfigWatcher
//! ```

use std::path::PathBuf;
use std::sync::Arc;
use std::time::Duration;

use informant_cache::Environment;
use informant_config::{Problems, SourceFile, TextHash};
use tokio::sync::{mpsc, watch};

use super::file_content::{Read, StableRead, read_stable};
use super::file_watch::{FileTicks, SETTLE};
use super::status_registry::StatusRegistry;
use crate::config_file::{self, ReadError};
use crate::files::{FILE_READ_MAX, Turn};

/// How long a changed plugin file waits for config.toml to be compared: 2 s. When both change at once, the new section
/// belongs to the new component.
pub(crate) const CONFIG_FIRST_MAX: Duration = Duration::from_secs(2);

pub(super) struct ConfigReader {
    path: PathBuf,
    registry: StatusRegistry,
    environment: Arc<dyn Environment>,
    ticks: FileTicks,
    requests: watch::Receiver<u64>,
    texts: mpsc::Sender<CheckedText>,
    /// The hash of the text that was passed on last.
    validated_hash: TextHash,
    /// What the log says about a file that cannot be read or is empty.
    reported_unreadable: Option<String>,
    /// The log says that the file keeps changing.
    reported_unstable: bool,
}

pub(super) struct CheckedText {
    /// The text, or why it is not text; none if it is not new.
    pub(super) text: Option<Result<SourceFile, Problems>>,
    /// The last [check](ConfigChecks::check) that had been asked for.
    pub(super) check: u64,
}

#[derive(Clone)]
pub(super) struct ConfigChecks {
    environment: Arc<dyn Environment>,
    requested: Arc<watch::Sender<u64>>,
    completed: watch::Receiver<u64>,
}

/// Receives what is read, and confirms that it was handled.
pub(super) struct ConfigTexts {
    texts: mpsc::Receiver<CheckedText>,
    completed: watch::Sender<u64>,
}

/// How [`ConfigReader`] and its users are connected.
pub(super) struct ConfigChannel {
    pub(super) checks: ConfigChecks,
    texts: ConfigTexts,
    requests: watch::Receiver<u64>,
    sender: mpsc::Sender<CheckedText>,
}

/// A channel for the texts of config.toml. While one is being applied the next is not read.
pub(super) fn config_channel(environment: &Arc<dyn Environment>) -> ConfigChannel {
    let (sender, texts) = mpsc::channel(1);
    let (requested, requests) = watch::channel(0);
    let (completed, done) = watch::channel(0);
    ConfigChannel {
        checks: ConfigChecks {
            environment: Arc::clone(environment),
            requested: Arc::new(requested),
            completed: done,
        },
        texts: ConfigTexts { texts, completed },
        requests,
        sender,
    }
}

impl ConfigChecks {
    /// Waits until config.toml was compared and, if it is new, its commands were sent; at most [`CONFIG_FIRST_MAX`].
    pub(super) async fn check(&self) {
        let mut number = 0;
        self.requested.send_modify(|last| {
            *last += 1;
            number = *last;
        });
        let mut completed = self.completed.clone();
        tokio::select! {
            biased;
            _ = completed.wait_for(|completed| *completed >= number) => {}
            () = self.environment.sleep(CONFIG_FIRST_MAX) => {}
        }
    }
}

impl ConfigTexts {
    /// The next result. May be dropped at any point.
    pub(super) async fn next(&mut self) -> CheckedText {
        match self.texts.recv().await {
            Some(checked) => checked,
            // The daemon is stopping.
            None => std::future::pending().await,
        }
    }

    pub(super) fn handled(&self, check: u64) {
        self.completed.send_replace(check);
    }
}

impl ConfigChannel {
    /// The reader of the file `path`, whose text was `validated_hash` at the start.
    pub(super) fn reader(
        self,
        (path, validated_hash): (PathBuf, TextHash),
        registry: StatusRegistry,
        ticks: FileTicks,
    ) -> (ConfigReader, ConfigTexts) {
        let reader = ConfigReader {
            path,
            registry,
            environment: self.checks.environment,
            ticks,
            requests: self.requests,
            texts: self.sender,
            validated_hash,
            reported_unreadable: None,
            reported_unstable: false,
        };
        (reader, self.texts)
    }
}

impl ConfigReader {
    /// Does not end.
    pub(super) async fn run(mut self) {
        loop {
            tokio::select! {
                biased;
                () = self.ticks.next() => {}
                // The sender is gone only while the daemon stops.
                Ok(()) = self.requests.changed() => {}
            }
            let check = *self.requests.borrow_and_update();
            let text = self.changed_text().await;
            if self.texts.send(CheckedText { text, check }).await.is_err() {
                return std::future::pending().await;
            }
        }
    }

    /// The text of the file, or why it cannot be read as text, if it is new and not being written.
    async fn changed_text(&mut self) -> Option<Result<SourceFile, Problems>> {
        let config = self.path.display();
        let stable = read_stable(&*self.environment, self.validated_hash, || self.read()).await;
        let (now, read) = match stable {
            StableRead::Text(now, read) => (now, read),
            StableRead::Unstable => {
                // Each change ticks, including the last one.
                if !std::mem::replace(&mut self.reported_unstable, true) {
                    tracing::warn!(
                        %config,
                        settle_ms = SETTLE.as_millis() as u64,
                        "configuration keeps changing; waiting until it is stable"
                    );
                }
                return None;
            }
        };
        self.reported_unstable = false;
        let error = unreadable(&read);
        self.registry.configuration().unreadable = error.as_deref().map(Into::into);
        if let Some(error) = error {
            if self.reported_unreadable.as_ref() != Some(&error) {
                tracing::warn!(%config, error, code = "config-not-applied", "configuration unreadable; keeping the previous configuration");
                self.reported_unreadable = Some(error);
            }
            return None;
        }
        if self.reported_unreadable.take().is_some() {
            tracing::info!(%config, "configuration readable again");
        }
        let changed = std::mem::replace(&mut self.validated_hash, now) != now;
        changed.then(|| read.map_err(|error| config_file::unreadable(&self.path, &error)))
    }

    async fn read(&self) -> Read {
        let path = self.path.clone();
        let turn = Turn::of(&self.path);
        let read = turn.run_within(FILE_READ_MAX, move || config_file::read(&path)).await;
        read.unwrap_or(Err(ReadError::Timeout { within: FILE_READ_MAX }))
    }
}

/// Why there is no text that could be valid or not.
fn unreadable(read: &Read) -> Option<String> {
    match read {
        Err(error @ (ReadError::Io(_) | ReadError::NotRegular { .. } | ReadError::Timeout { .. })) => {
            Some(error.to_string())
        }
        // An empty file is more likely a mistake than a request to stop everything.
        Ok(file) if file.text().trim().is_empty() => {
            Some("the file is empty; to stop all informers and plugins, leave [admin] in it".into())
        }
        _ => None,
    }
}
