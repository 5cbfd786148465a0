//! Log lines about dead letters, limited in number.
//!
//! Costs nothing while there are none.

use std::fmt::Write as _;
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
    unsaid: u64,
}

/// What is due now.
#[derive(Debug, PartialEq, Eq)]
struct Due {
    /// Lines to write, one for each of the newest dead letters.
    lines: usize,
    /// Suppressed dead letters that the first line reports.
    unsaid: u64,
}

impl DeadLetterWarnings {
    /// Logs that `dead` more events were dead-lettered, as far as a line is due.
    pub(crate) fn count(&mut self, shared: &PluginContext, dead: u64, now: Moment) {
        let Due { lines, mut unsaid } = self.due(dead, now);
        if lines == 0 {
            return;
        }
        let letters = shared.listener.last_dead_letters(lines);
        // Those that are no longer kept are reported by number.
        self.unsaid += (lines - letters.len()) as u64;
        if letters.is_empty() {
            self.unsaid += unsaid;
        }
        for letter in letters {
            warn_of(shared, &letter, std::mem::take(&mut unsaid));
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
        let unsaid = if is_over { std::mem::take(&mut self.unsaid) } else { 0 };
        self.unsaid += dead - lines as u64;
        Due { lines, unsaid }
    }
}

fn warn_of(shared: &PluginContext, letter: &DeadLetter, unsaid: u64) {
    let plugin: &str = shared.counters.plugin();
    // A removed source no longer has a name.
    let info = shared.host.catalog.info(letter.source);
    let (informer, cluster) = info.map_or_else(Default::default, |info| (info.informer, info.cluster));
    let (event, attempts, result, key) = (letter.event, letter.attempts, letter.result, &letter.key);
    tracing::warn!(
        plugin,
        informer,
        cluster,
        event,
        %key,
        attempts,
        result,
        error = letter.error,
        "{}",
        said(plugin, letter, unsaid)
    );
}

fn said(plugin: &str, letter: &DeadLetter, unsaid: u64) -> String {
    let DeadLetter {
        key,
        event,
        error,
        attempts,
        ..
    } = letter;
    let attempts = match attempts {
        1 => "1 attempt".to_owned(),
        attempts => format!("{attempts} attempts"),
    };
    let mut said = format!(
        "dead letter: plugin {plugin} failed on {event} of {key} for good, after {attempts}: {error}; \
         `informant plugin requeue {plugin} --key {key}` has it told again"
    );
    if unsaid > 0 {
        // Writing to a String does not fail.
        let _ = write!(
            said,
            "; {unsaid} dead letters before it have no line: `informant plugin requeue {plugin}` has all told again"
        );
    }
    said
}

#[cfg(test)]
mod tests {
    use super::*;
    use informant_cache::Reason;
    use informant_object::{Key, SourceId};

    #[test]
    fn dead_letters_are_logged_up_to_a_limit_and_then_counted() {
        let mut warnings = DeadLetterWarnings::default();
        let mut due = |dead: u64, seconds: u64| {
            let Due { lines, unsaid } = warnings.due(dead, Moment::from_nanos(seconds * 1_000_000_000));
            (lines, unsaid)
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
    fn a_line_says_what_failed_why_and_how_it_is_told_again() {
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
        insta::assert_snapshot!(said("greeter", &letter, 0), @"dead letter: plugin greeter failed on update of default/web-0 for good, after 10 attempts: no such team; `informant plugin requeue greeter --key default/web-0` has it told again");
        let after_many = said("greeter", &DeadLetter { attempts: 1, ..letter }, 59);
        insta::assert_snapshot!(after_many, @"dead letter: plugin greeter failed on update of default/web-0 for good, after 1 attempt: no such team; `informant plugin requeue greeter --key default/web-0` has it told again; 59 dead letters before it have no line: `informant plugin requeue greeter` has all told again");
    }
}
