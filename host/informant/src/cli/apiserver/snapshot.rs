//! Where the embedded API server keeps its state between runs.
//!
//! The file is always whole: a new one is written aside, flushed to the disk and renamed. A file that is not whole was
//! damaged by others; the server does not start on it, so that it is not overwritten either.

use std::fs::File;
use std::io::{self, BufReader, BufWriter};
use std::path::PathBuf;
use std::time::Duration;

use anyhow::{Context, Result};
use informant_apiserver::{ApiServer, Options, Snapshot};
use tokio_util::sync::CancellationToken;

/// How often the state is written if it has changed: what a crash can lose.
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
                    .with_context(|| format!("the snapshot {path} is not taken"))?;
                tracing::info!(%path, revision = server.revision(), "state restored");
                Ok(server)
            }
            Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(ApiServer::new(options)),
            Err(error) => Err(error).with_context(|| format!("cannot read the snapshot {path}")),
        }
    }

    /// Writes the state, which is in the file already, whenever it has changed, until `stopping`, and then once more.
    pub(super) async fn keep(&self, server: &ApiServer, stopping: &CancellationToken) -> Result<()> {
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
                Err(error) => tracing::warn!("{error:#}; tried again in {SAVE_INTERVAL:?}"),
            }
        }
    }

    /// Writes a state.
    pub(super) async fn save(&self, snapshot: Snapshot) -> Result<()> {
        let path = self.path.clone();
        let failed = format!("cannot write the snapshot {}", path.display());
        let written = tokio::task::spawn_blocking(move || {
            let aside = path.with_added_extension("tmp");
            let file = File::create(&aside)?;
            let mut out = BufWriter::new(&file);
            snapshot.write(&mut out)?;
            drop(out);
            file.sync_all()?;
            std::fs::rename(&aside, &path)
        });
        written.await.context("the snapshot's writer ended")?.context(failed)
    }
}
