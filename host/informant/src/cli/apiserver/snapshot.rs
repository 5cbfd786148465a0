//! The file in which the embedded API server keeps its state between runs.
//!
//! The file is always complete: a new one is written to a temporary file, flushed to disk and renamed. An incomplete
//! file was damaged by something else; the server refuses to start with it, so that it is not overwritten either.

use std::fs::File;
use std::io::{self, BufReader, BufWriter};
use std::path::PathBuf;
use std::time::Duration;

use anyhow::{Context, Result};
use informant_apiserver::{ApiServer, Options, ServerSnapshot};
use tokio_util::sync::CancellationToken;

/// How often a changed state is saved: the most that a crash can lose.
const SAVE_INTERVAL: Duration = Duration::from_secs(10);

pub(super) struct SnapshotFile {
    path: PathBuf,
}

impl SnapshotFile {
    pub(super) fn new(path: PathBuf) -> Self {
        Self { path }
    }

    /// A server with the state in the file, or an empty one if there is none.
    pub(super) fn load(&self, options: Options) -> Result<ApiServer> {
        let path = self.path.display();
        match File::open(&self.path) {
            Ok(file) => {
                let server = ApiServer::restore(options, BufReader::new(file))
                    .with_context(|| format!("cannot load the snapshot {path}"))?;
                tracing::info!(%path, revision = server.revision(), "snapshot restored");
                Ok(server)
            }
            Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(ApiServer::new(options)),
            Err(error) => Err(error).with_context(|| format!("cannot read the snapshot {path}")),
        }
    }

    /// Saves the state when it has changed, until `stopping`, and then once more. The present state is in the file
    /// already.
    pub(super) async fn save_periodically(&self, server: &ApiServer, stopping: &CancellationToken) -> Result<()> {
        let mut saved = server.revision();
        let mut interval = tokio::time::interval(SAVE_INTERVAL);
        loop {
            tokio::select! {
                biased;
                () = stopping.cancelled() => return self.save(server.snapshot()).await,
                _ = interval.tick() => {}
            }
            let snapshot = server.snapshot();
            if snapshot.revision() == saved {
                continue;
            }
            let revision = snapshot.revision();
            match self.save(snapshot).await {
                Ok(()) => saved = revision,
                Err(error) => {
                    let retry_in_seconds = SAVE_INTERVAL.as_secs();
                    let path = self.path.display();
                    tracing::warn!(%path, error = format!("{error:#}"), retry_in_seconds, "snapshot not saved");
                }
            }
        }
    }

    pub(super) async fn save(&self, snapshot: ServerSnapshot) -> Result<()> {
        let path = self.path.clone();
        let failed = format!("cannot write the snapshot {}", path.display());
        let written = tokio::task::spawn_blocking(move || {
            let temporary = path.with_added_extension("tmp");
            let file = File::create(&temporary)?;
            let mut out = BufWriter::new(&file);
            snapshot.write(&mut out)?;
            drop(out);
            file.sync_all()?;
            std::fs::rename(&temporary, &path)
        });
        written.await.context("the snapshot's writer panicked")?.context(failed)
    }
}
