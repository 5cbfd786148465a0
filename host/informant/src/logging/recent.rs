//! The last log lines about each plugin, for `informant plugin logs`: lines that the filter admits and that have a
//! field `plugin`. Kept in memory, in the form of plain lines, so that they are there without a shell and without the
//! log.

use std::collections::{BTreeMap, VecDeque};
use std::fmt;
use std::sync::Mutex;

use jiff::Timestamp;
use tracing::field::{Field, Visit};
use tracing::{Event, Level, Subscriber};
use tracing_subscriber::Layer;
use tracing_subscriber::fmt::format::Writer;
use tracing_subscriber::layer;

use super::plain::PlainVisitor;
use crate::escape;
use crate::metrics::KEPT_LINES;
use crate::sync::lock;

/// Text of the lines kept for one plugin: 64 KiB, a few hundred lines. Above it the oldest are dropped, and counted in
/// the answer.
pub(crate) const RECENT_BYTES_MAX: usize = 64 * 1024;

/// The longest line that is kept: 4 KiB; more is cut.
const LINE_BYTES_MAX: usize = 4 * 1024;

/// Plugins whose lines are kept: 256. A further one takes the place of the plugin whose last line is oldest.
const PLUGINS_MAX: usize = 256;

#[derive(Debug, Clone)]
pub(crate) struct RecentLine {
    pub(crate) at: Timestamp,
    pub(crate) level: Level,
    pub(crate) text: String,
}

/// The lines of one plugin from some number on.
#[derive(Debug, Default)]
pub(crate) struct RecentLines {
    /// The number of the next line.
    pub(crate) next: u64,
    /// Lines that are no longer kept.
    pub(crate) dropped: u64,
    /// Oldest first.
    pub(crate) lines: Vec<RecentLine>,
}

#[derive(Debug, Default)]
struct Ring {
    lines: VecDeque<RecentLine>,
    bytes: usize,
    next: u64,
}

/// Those of this process, by plugin.
static RINGS: Mutex<BTreeMap<String, Ring>> = Mutex::new(BTreeMap::new());

/// The lines about `plugin` from number `from` on.
pub(crate) fn recent_lines(plugin: &str, from: u64) -> RecentLines {
    lock(&RINGS)
        .get(plugin)
        .map(|ring| ring.since(from))
        .unwrap_or_default()
}

impl Ring {
    fn push(&mut self, line: RecentLine) {
        self.bytes += line.text.len();
        KEPT_LINES.bytes.inc_by(line.text.len() as i64);
        self.next += 1;
        self.lines.push_back(line);
        while self.bytes > RECENT_BYTES_MAX {
            self.drop_oldest();
        }
    }

    fn drop_oldest(&mut self) {
        let Some(oldest) = self.lines.pop_front() else { return };
        self.bytes -= oldest.text.len();
        KEPT_LINES.bytes.dec_by(oldest.text.len() as i64);
        KEPT_LINES.dropped.inc();
    }

    fn since(&self, from: u64) -> RecentLines {
        let first = self.next - self.lines.len() as u64;
        // A number of an earlier process may be larger than any here.
        let from = if from > self.next { 0 } else { from };
        let skipped = usize::try_from(from.saturating_sub(first)).unwrap_or(usize::MAX);
        RecentLines {
            next: self.next,
            dropped: first.saturating_sub(from),
            lines: self.lines.iter().skip(skipped).cloned().collect(),
        }
    }
}

/// Keeps the line in `rings`, and the number of these within [`PLUGINS_MAX`].
fn keep(rings: &mut BTreeMap<String, Ring>, plugin: String, line: RecentLine) {
    if !rings.contains_key(&plugin) && rings.len() >= PLUGINS_MAX {
        let last = |ring: &Ring| ring.lines.back().map(|line| line.at);
        let quietest = rings.iter().min_by_key(|(_, ring)| last(ring));
        if let Some(name) = quietest.map(|(name, _)| name.clone()) {
            let mut ring = rings.remove(&name).unwrap_or_default();
            while !ring.lines.is_empty() {
                ring.drop_oldest();
            }
        }
    }
    rings.entry(plugin).or_default().push(line);
}

/// Keeps events with a field `plugin`.
pub(super) struct KeepRecent;

impl<S: Subscriber> Layer<S> for KeepRecent {
    fn on_event(&self, event: &Event<'_>, _: layer::Context<'_, S>) {
        if event.metadata().fields().field("plugin").is_none() {
            return;
        }
        let mut named = PluginName(None);
        event.record(&mut named);
        let Some(plugin) = named.0 else { return };
        let mut text = String::new();
        let mut visitor = PlainVisitor::new(Writer::new(&mut text));
        event.record(&mut visitor);
        let line = RecentLine {
            at: Timestamp::now(),
            level: *event.metadata().level(),
            text: escape::cut(&text, LINE_BYTES_MAX).into_owned(),
        };
        keep(&mut lock(&RINGS), plugin, line);
    }
}

struct PluginName(Option<String>);

impl Visit for PluginName {
    fn record_str(&mut self, field: &Field, value: &str) {
        if field.name() == "plugin" {
            self.0 = Some(value.to_owned());
        }
    }

    fn record_debug(&mut self, field: &Field, value: &dyn fmt::Debug) {
        if field.name() == "plugin" {
            self.0 = Some(format!("{value:?}"));
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn line(text: &str) -> RecentLine {
        RecentLine {
            at: Timestamp::now(),
            level: Level::INFO,
            text: text.to_owned(),
        }
    }

    fn texts(lines: &RecentLines) -> Vec<&str> {
        lines.lines.iter().map(|line| line.text.as_str()).collect()
    }

    #[test]
    fn the_oldest_lines_are_dropped_and_counted() {
        let mut ring = Ring::default();
        for text in ["a", "b", "c"] {
            ring.push(line(text));
        }
        let all = ring.since(0);
        assert_eq!((texts(&all), all.next, all.dropped), (vec!["a", "b", "c"], 3, 0));
        assert_eq!(texts(&ring.since(2)), ["c"]);
        ring.push(line(&"x".repeat(RECENT_BYTES_MAX - 1)));
        let rest = ring.since(1);
        assert_eq!((rest.lines.len(), rest.next, rest.dropped), (2, 4, 1));
        assert_eq!(ring.since(99).lines.len(), 2, "numbers of an earlier process");
    }

    #[test]
    fn lines_of_too_many_plugins_displace_the_quietest() {
        let mut rings = BTreeMap::new();
        for number in 0..=PLUGINS_MAX {
            keep(&mut rings, format!("plugin-{number}"), line("a"));
        }
        assert_eq!(rings.len(), PLUGINS_MAX);
        assert!(!rings.contains_key("plugin-0"));
    }

    #[test]
    fn lines_about_a_plugin_are_kept_with_their_fields() {
        use tracing_subscriber::layer::SubscriberExt as _;
        let subscriber = tracing_subscriber::registry().with(KeepRecent);
        tracing::subscriber::with_default(subscriber, || {
            tracing::warn!(plugin = %"kept-by-test", error = "no such team", "handler failed");
            tracing::info!(plugin = "other-in-test", "plugin loaded");
            tracing::info!("informer started");
        });
        let kept = recent_lines("kept-by-test", 0);
        assert_eq!(
            texts(&kept),
            [r#"handler failed plugin=kept-by-test error="no such team""#]
        );
        assert_eq!(kept.lines[0].level, Level::WARN);
    }
}
