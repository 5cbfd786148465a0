//! Log lines about dead letters, limited in number.
//!
//! Costs nothing while there are none.

use std::time::Duration;

use informant_cache::Moment;
use informant_cache::listener::DeadLetter;

use crate::actor::PluginContext;

/// Dead letters of one plugin that are logged within [`DEAD_LETTER_WARNING_PERIOD`]: 10.
///
/// Enough to see whether they have something in common. A plugin may fail on every object; the first line after the
/// period says how many were suppressed, and the list of dead letters has a separate limit.
pub(crate) const DEAD_LETTER_WARNINGS_MAX: usize = 10;

/// See [`DEAD_LETTER_WARNINGS_MAX`]: 60 s, as between two warnings about one index.
pub(crate) const DEAD_LETTER_WARNING_PERIOD: Duration = Duration::from_secs(60);

/// The warnings of one plugin.
#[derive(Debug, Default)]
pub(crate) struct DeadLetterWarnings {
    /// When the first line of the period was written.
    since: Option<Moment>,
    lines: usize,
    /// Suppressed dead letters that no line has reported yet.
    suppressed: u64,
}

/// What is due now.
#[derive(Debug, PartialEq, Eq)]
struct Due {
    /// Lines to write, one for each of the newest dead letters.
    lines: usize,
    /// Suppressed dead letters that the first line reports.
    suppressed: u64,
}

impl DeadLetterWarnings {
    /// Logs that `dead` more events were dead-lettered, as far as a line is due.
    pub(crate) fn count(&mut self, context: &PluginContext, dead: u64, now: Moment) {
        let Due { lines, mut suppressed } = self.due(dead, now);
        if lines == 0 {
            return;
        }
        let letters = context.listener.last_dead_letters(lines);
        // Those that are no longer kept are reported by number.
        self.suppressed += (lines - letters.len()) as u64;
        if letters.is_empty() {
            self.suppressed += suppressed;
        }
        for letter in letters {
            warn_of(context, &letter, std::mem::take(&mut suppressed));
        }
    }

    fn due(&mut self, dead: u64, now: Moment) -> Due {
        let is_over = self.since.is_none_or(|since| now - since >= DEAD_LETTER_WARNING_PERIOD);
        if is_over {
            self.since = Some(now);
            self.lines = 0;
        }
        let room = DEAD_LETTER_WARNINGS_MAX - self.lines;
        let lines = usize::try_from(dead).unwrap_or(room).min(room);
        self.lines += lines;
        let suppressed = if is_over {
            std::mem::take(&mut self.suppressed)
        } else {
            0
        };
        self.suppressed += dead - lines as u64;
        Due { lines, suppressed }
    }
}

fn warn_of(context: &PluginContext, letter: &DeadLetter, suppressed: u64) {
    let plugin: &str = context.counters.plugin();
    // A removed source no longer has a name.
    let info = context.host.catalog.info(letter.source);
    let informer = info.as_ref().map(|info| info.informer.as_str());
    let cluster = info.as_ref().map(|info| info.cluster.as_str());
    let (event, attempts, result, key) = (letter.event, letter.attempts, letter.result, &letter.key);
    tracing::warn!(
        plugin,
        informer,
        cluster = cluster.filter(|cluster| !cluster.is_empty()),
        event,
        %key,
        attempts,
        result,
        error = letter.error,
        suppressed = (suppressed > 0).then_some(suppressed),
        redeliver = redeliver_command(plugin, letter, suppressed),
        "event dead-lettered"
    );
}

/// The command that redelivers the event, and the suppressed ones if there are any.
fn redeliver_command(plugin: &str, letter: &DeadLetter, suppressed: u64) -> String {
    match suppressed {
        0 => format!("informant plugin requeue {plugin} --key {}", letter.key),
        _ => format!("informant plugin requeue {plugin}"),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use informant_cache::Reason;
    use informant_object::{Key, SourceId};

    #[test]
    fn dead_letters_above_the_log_limit_are_counted() {
        let mut warnings = DeadLetterWarnings::default();
        let mut due = |dead: u64, seconds: u64| {
            let Due { lines, suppressed } = warnings.due(dead, Moment::from_nanos(seconds * 1_000_000_000));
            (lines, suppressed)
        };
        assert_eq!(due(1, 5), (1, 0));
        assert_eq!(due(3, 6), (3, 0));
        assert_eq!(due(64, 7), (6, 0));
        assert_eq!(due(1, 64), (0, 0));
        assert_eq!(due(64, 65), (10, 59), "a minute after the first line");
        assert_eq!(due(1, 124), (0, 0));
        assert_eq!(due(2, 125), (2, 55));
        assert_eq!(due(1, 300), (1, 0));
    }

    #[test]
    fn a_dead_letter_names_the_command_that_redelivers_it() {
        let letter = DeadLetter {
            source: SourceId(1),
            key: Key::parse("default/web-0").unwrap(),
            event: "update",
            resource_version: None,
            reason: Reason::Watch,
            error: "no such team".to_owned(),
            result: "retryable",
            attempts: 10,
            received: Moment::ZERO,
            given_up: Moment::ZERO,
            delete: None,
        };
        let command = redeliver_command("greeter", &letter, 0);
        assert_eq!(command, "informant plugin requeue greeter --key default/web-0");
        assert_eq!(
            redeliver_command("greeter", &letter, 59),
            "informant plugin requeue greeter"
        );
    }
}
