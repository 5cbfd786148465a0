//! Follows the content of a plugin: reads it when a section needs it, and again when its source may have changed.
//!
//! ```text
//! section needs it ───▶ read ─────────────────────────────▶ PluginSupervisor
//! tick of the file ───▶ read ──▶ new? ──▶ wait for config.toml ──▲
//! ```

use futures::future::BoxFuture;
use informant_plugin_host::LoadError;
use informant_spec::{Content, ContentSource, Digest};

use super::config_reader::ConfigChecks;
use super::file_watch::{FileTicks, FileWatch};
use super::or_never;
use crate::files::{FILE_READ_MAX, NoAnswer, Turn, read_content};

pub(super) struct ContentFollower {
    source: ContentSource,
    ticks: FileTicks,
    checks: ConfigChecks,
    /// The content that was tried last. Another one waits until config.toml was compared.
    pub(super) tried: Option<Digest>,
    /// Why it could not be read when it was read last.
    unreadable: Option<String>,
    reading: Option<BoxFuture<'static, Result<Content, LoadError>>>,
    /// Whether a section needs what is being read.
    for_section: bool,
    /// It ticked while it was being read.
    read_again: bool,
}

/// What was read, and why.
pub(super) struct ContentRead {
    pub(super) content: Result<Content, LoadError>,
    /// Whether a section needs it, or it only may have changed.
    pub(super) for_section: bool,
    /// It is readable again, or unreadable for another reason than before.
    pub(super) is_news: bool,
}

impl ContentFollower {
    /// Reads nothing until the source ticks, which it soon does, or [`read`](Self::read).
    pub(super) fn new(source: &ContentSource, watch: &FileWatch, checks: &ConfigChecks) -> Self {
        Self {
            source: source.clone(),
            ticks: watch.subscribe(source.path()),
            checks: checks.clone(),
            tried: None,
            unreadable: None,
            reading: None,
            for_section: false,
            read_again: false,
        }
    }

    /// Begins to read, in place of what is being read.
    pub(super) fn read(&mut self, for_section: bool) {
        let (source, checks, tried) = (self.source.clone(), self.checks.clone(), self.tried);
        self.for_section = for_section;
        self.reading = Some(Box::pin(async move {
            let of_thread = source.clone();
            let turn = Turn::of(source.path());
            let read = turn.run_within(FILE_READ_MAX, move || read_content(&of_thread)).await;
            let content = read.unwrap_or_else(|NoAnswer| Err(LoadError::read_timeout(source.path(), FILE_READ_MAX)));
            let is_new = content.as_ref().is_ok_and(|content| Some(content.digest()) != tried);
            if is_new && !for_section {
                checks.check().await;
            }
            content
        }));
    }

    pub(super) fn abandon(&mut self) {
        self.reading = None;
    }

    /// Waits until it was read. May be dropped at any point.
    pub(super) async fn next(&mut self) -> ContentRead {
        loop {
            if self.reading.is_none() && std::mem::take(&mut self.read_again) {
                self.read(false);
            }
            tokio::select! {
                biased;
                content = or_never(self.reading.as_mut()) => return self.end(content),
                () = self.ticks.next() => self.read_again = true,
            }
        }
    }

    fn end(&mut self, content: Result<Content, LoadError>) -> ContentRead {
        self.reading = None;
        let unreadable = content.as_ref().err().map(ToString::to_string);
        ContentRead {
            is_news: unreadable != std::mem::replace(&mut self.unreadable, unreadable.clone()),
            content,
            for_section: self.for_section,
        }
    }
}
