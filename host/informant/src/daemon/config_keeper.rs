//! Notices that config.toml changed. Taking the change in while running is not built yet; it is judged and said.

use std::path::PathBuf;

use tokio_util::sync::CancellationToken;

use super::content::Content;
use super::file_watch::Ticks;
use crate::config::Config;
use crate::metrics::Metrics;

/// Keeps an eye on the configuration.
pub(crate) struct ConfigKeeper {
    pub(crate) path: PathBuf,
    pub(crate) metrics: Metrics,
    pub(crate) ticks: Ticks,
    pub(crate) stop: CancellationToken,
}

impl ConfigKeeper {
    /// Runs until `stop`.
    pub(crate) async fn run(mut self) {
        let stop = self.stop.clone();
        tokio::select! {
            biased;
            () = stop.cancelled() => {}
            () = self.keep() => {}
        }
    }

    async fn keep(&mut self) {
        let mut known = Content::of(&self.path).await;
        while self.ticks.changed().await.is_ok() {
            let now = Content::of(&self.path).await;
            if now != known && !matches!(now, Content::Unreadable(_)) {
                self.judge();
                known = now;
            }
        }
    }

    fn judge(&self) {
        let config = self.path.display();
        match Config::load(&self.path) {
            Ok(_) => {
                self.metrics.daemon.config_changed("restart-needed");
                tracing::warn!(%config, "the configuration changed: what runs goes on as it was, restart to take it in");
            }
            Err(problems) => {
                self.metrics.daemon.config_changed("refused");
                tracing::error!(%config, "the configuration changed and is refused; what runs goes on as it was\n{problems}");
            }
        }
    }
}
