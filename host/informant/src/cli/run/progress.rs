//! What `informant run` waits for at its start, for the person who started it in a terminal.

use std::time::Duration;

use informant_cache::SourceState;

use crate::cli::count;
use crate::daemon::{InformerPhase, PluginPhase, StatusRegistry};
use crate::status_line::{self, StatusLine};

/// Between two looks: 200 ms.
const EVERY: Duration = Duration::from_millis(200);

/// How far plugins and sources are.
#[derive(Debug, Default, Clone, Copy, PartialEq, Eq)]
struct Start {
    plugins: usize,
    /// Those that run, or were refused.
    plugins_done: usize,
    /// Informers whose resources are not known yet count as one source.
    sources: usize,
    /// Those that are synced, or wait for something else than their first list.
    sources_done: usize,
    objects: usize,
}

/// Shows how far the start is until it is over. Nothing where stderr is no terminal.
pub(super) async fn show(registry: StatusRegistry) {
    let line = StatusLine::begin();
    while line.is_shown() {
        let start = Start::of(&registry);
        let Some(text) = start.text() else { return };
        status_line::show(&text);
        tokio::time::sleep(EVERY).await;
    }
}

impl Start {
    fn of(registry: &StatusRegistry) -> Start {
        let mut start = Start::default();
        for plugin in registry.plugins() {
            start.plugins += 1;
            start.plugins_done += usize::from(!matches!(plugin.phase(), PluginPhase::Loading(_)));
        }
        for informer in registry.informers() {
            let sources = registry.sources(&informer.name);
            for (cluster, status) in informer.by_cluster() {
                let before = start.sources;
                for source in sources.iter().filter(|source| source.info().cluster == cluster) {
                    let status = source.status();
                    start.sources += 1;
                    start.sources_done += usize::from(status.synced || status.state != SourceState::Syncing);
                    start.objects += status.snapshot.len();
                }
                if start.sources == before {
                    start.sources += 1;
                    let is_over = matches!(status.phase, InformerPhase::Refused { .. } | InformerPhase::Stopped);
                    start.sources_done += usize::from(is_over);
                }
            }
        }
        start
    }

    /// None: the start is over.
    fn text(self) -> Option<String> {
        let Start {
            plugins,
            plugins_done,
            sources,
            sources_done,
            objects,
        } = self;
        if (plugins_done, sources_done) == (plugins, sources) {
            return None;
        }
        let mut parts = Vec::new();
        if sources > 0 {
            let objects = count(objects, "object");
            parts.push(format!(
                "{sources_done} of {} synced, {objects}",
                count(sources, "source")
            ));
        }
        if plugins > 0 {
            parts.push(format!("{plugins_done} of {} loaded", count(plugins, "plugin")));
        }
        Some(format!("starting: {}", parts.join("; ")))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_start_shows_what_is_still_waited_for() {
        let start = Start {
            plugins: 5,
            plugins_done: 2,
            sources: 12,
            sources_done: 3,
            objects: 12_345,
        };
        let only_plugins = Start {
            sources: 0,
            sources_done: 0,
            ..start
        };
        let texts = [start, only_plugins].map(|start| start.text().unwrap());
        insta::assert_snapshot!(texts.join("\n"), @r"
        starting: 3 of 12 sources synced, 12345 objects; 2 of 5 plugins loaded
        starting: 2 of 5 plugins loaded
        ");
        let done = Start {
            plugins_done: 5,
            sources_done: 12,
            ..start
        };
        assert_eq!(done.text(), None);
        assert_eq!(Start::default().text(), None);
    }
}
