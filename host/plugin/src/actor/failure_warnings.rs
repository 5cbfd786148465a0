//! Log lines about events that failed, limited in number: dead letters, events under retry, and skipped ones.
//!
//! Costs nothing while there are none.

use std::collections::BTreeMap;
use std::sync::{Arc, Mutex};
use std::time::Duration;

use informant_cache::listener::{DeadLetter, RetriedKey};
use informant_cache::{Catalog, LinesDue, ListenerHandle, LogThrottle, Moment};

use crate::sync::lock;

/// Dead letters of one plugin that are logged within [`DEAD_LETTER_WARNING_PERIOD`]: 10.
///
/// Enough to see whether they have something in common. A plugin may fail on every object; the first line after the
/// period says how many were suppressed, and the list of dead letters has a separate limit.
pub(crate) const DEAD_LETTER_WARNINGS_MAX: usize = 10;

/// See [`DEAD_LETTER_WARNINGS_MAX`]: 60 s, as between two warnings about one index.
pub(crate) const DEAD_LETTER_WARNING_PERIOD: Duration = Duration::from_secs(60);

/// Between two warnings of one plugin about events under retry, or that were skipped, after calls that ended alike:
/// 60 s, as between two batches of warnings about dead letters. Each says how many there are.
pub(crate) const RETRY_WARNING_PERIOD: Duration = Duration::from_secs(60);

pub(super) struct FailureWarnings {
    plugin: Arc<str>,
    listener: ListenerHandle,
    catalog: Catalog,
    dead_letters: Mutex<LogThrottle>,
    /// When a line about retries was written last, by the result of the calls.
    retried: Mutex<BTreeMap<&'static str, Moment>>,
    /// Failures that are skipped, by result.
    skipped: Mutex<BTreeMap<&'static str, LogThrottle>>,
}

impl FailureWarnings {
    pub(super) fn new(plugin: &Arc<str>, listener: ListenerHandle, catalog: Catalog) -> FailureWarnings {
        FailureWarnings {
            plugin: Arc::clone(plugin),
            listener,
            catalog,
            dead_letters: Mutex::new(LogThrottle::new(DEAD_LETTER_WARNINGS_MAX, DEAD_LETTER_WARNING_PERIOD)),
            retried: Mutex::default(),
            skipped: Mutex::default(),
        }
    }

    /// Logs that `dead` more events were dead-lettered, as far as a line is due.
    pub(super) fn dead_lettered(&self, dead: u64, now: Moment) {
        let mut throttle = lock(&self.dead_letters);
        let LinesDue { lines, mut suppressed } = throttle.due(dead, now);
        if lines == 0 {
            return;
        }
        let letters = self.listener.ledger().last_dead_letters(lines);
        // Those that are no longer kept are reported by number.
        throttle.defer((lines - letters.len()) as u64);
        if letters.is_empty() {
            throttle.defer(suppressed);
        }
        for letter in letters {
            self.warn_of_letter(&letter, std::mem::take(&mut suppressed));
        }
    }

    /// Calls failed with `result`: logs which events are retried, if a line is due. No line is used up while there are
    /// none.
    pub(super) fn failed(&self, result: &'static str, now: Moment) {
        let mut last = lock(&self.retried);
        if last.get(result).is_some_and(|last| now - *last < RETRY_WARNING_PERIOD) {
            return;
        }
        let (retrying, oldest) = self.listener.ledger().retried_after(result);
        if let Some(oldest) = oldest {
            last.insert(result, now);
            self.warn_of_retries(retrying, &oldest, now);
        }
    }

    /// A failure with `result` is skipped. Returns how many had no line since the last one, if a line is due.
    pub(super) fn skipped(&self, result: &'static str, now: Moment) -> Option<u64> {
        let mut skipped = lock(&self.skipped);
        let throttle = skipped
            .entry(result)
            .or_insert_with(|| LogThrottle::new(1, RETRY_WARNING_PERIOD));
        throttle.line(now)
    }

    fn warn_of_letter(&self, letter: &DeadLetter, suppressed: u64) {
        let plugin: &str = &self.plugin;
        // A removed source no longer has a name.
        let info = self.catalog.info(letter.source);
        let informer = info.as_ref().map(|info| info.informer.as_str());
        let cluster = info.as_ref().map(|info| info.cluster.as_str());
        let cluster = cluster.filter(|cluster| !cluster.is_empty());
        let resource = info.as_ref().map(|info| info.resource.as_str());
        let (event, attempts, result, key) = (letter.event, letter.attempts, letter.result, &letter.key);
        tracing::warn!(
            plugin,
            informer,
            cluster,
            resource,
            event,
            %key,
            attempts,
            result,
            error = letter.error,
            suppressed = (suppressed > 0).then_some(suppressed),
            redeliver = redeliver_command(plugin, [cluster, resource], letter, suppressed),
            code = "dead-letters",
            "event dead-lettered"
        );
    }

    fn warn_of_retries(&self, retrying: usize, oldest: &RetriedKey, now: Moment) {
        let plugin: &str = &self.plugin;
        // A removed source no longer has a name.
        let info = self.catalog.info(oldest.source);
        let informer = info.as_ref().map(|info| info.informer.as_str());
        let cluster = info.as_ref().map(|info| info.cluster.as_str());
        let RetriedKey {
            event,
            attempts,
            result,
            error,
            ..
        } = oldest;
        tracing::warn!(
            plugin,
            retrying,
            informer,
            cluster = cluster.filter(|cluster| !cluster.is_empty()),
            resource = info.as_ref().map(|info| info.resource.as_str()),
            event,
            key = oldest.key.as_ref().map(ToString::to_string),
            timer = oldest.timer.as_deref(),
            attempts,
            failing_seconds = (now - oldest.since).as_secs(),
            result,
            error,
            code = "events-stuck",
            "events under retry"
        );
    }
}

/// The command that redelivers the event, and the suppressed ones if there are any: without a key, all dead letters of
/// the plugin.
fn redeliver_command(
    plugin: &str,
    [cluster, resource]: [Option<&str>; 2],
    letter: &DeadLetter,
    suppressed: u64,
) -> String {
    let flag = |name: &str, value: Option<&str>| {
        let word = value.and_then(shell_word);
        word.map_or(String::new(), |word| format!(" --{name} {word}"))
    };
    let (cluster, resource) = (flag("cluster", cluster), flag("resource", resource));
    match shell_word(&letter.key.to_string()) {
        Some(key) if suppressed == 0 => format!("informant plugin requeue {plugin}{cluster}{resource} --key {key}"),
        _ => format!("informant plugin requeue {plugin} --all"),
    }
}

/// `key` as one word of a POSIX shell: names of RBAC objects may contain `$(id)` or `;`. None for keys that cannot be
/// pasted safely: the log escapes quotes, backslashes and control characters, which would change the quoting. A hyphen
/// in front would start an option.
fn shell_word(key: &str) -> Option<String> {
    let is_plain = |byte: u8| byte.is_ascii_alphanumeric() || b"._/:@%+=,-".contains(&byte);
    let is_quotable = |byte: u8| matches!(byte, b' '..=b'~') && !b"'\"\\".contains(&byte);
    match key {
        _ if key.starts_with('-') => None,
        _ if key.bytes().all(is_plain) => Some(key.to_owned()),
        _ => key.bytes().all(is_quotable).then(|| format!("'{key}'")),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use informant_cache::Reason;
    use informant_object::{Key, SourceId};

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
            age_before: std::time::Duration::ZERO,
            delete: None,
        };
        let command = redeliver_command("greeter", [None, Some("v1/pods")], &letter, 0);
        assert_eq!(
            command,
            "informant plugin requeue greeter --resource v1/pods --key default/web-0"
        );
        assert_eq!(
            redeliver_command("greeter", [None, Some("v1/pods")], &letter, 59),
            "informant plugin requeue greeter --all"
        );
        assert_eq!(
            redeliver_command("greeter", [Some("east"), Some("apps/v1/deployments")], &letter, 0),
            "informant plugin requeue greeter --cluster east --resource apps/v1/deployments --key default/web-0"
        );
        let hostile = DeadLetter {
            key: Key::parse("$(id);x").unwrap(),
            ..letter
        };
        let command = redeliver_command("greeter", [None, None], &hostile, 0);
        assert_eq!(command, "informant plugin requeue greeter --key '$(id);x'");
    }

    #[test]
    fn keys_that_a_shell_would_expand_are_quoted() {
        for plain in ["default/web-0", "system:node", "a.b_c@d%2f+e=f,g"] {
            assert_eq!(shell_word(plain).as_deref(), Some(plain));
        }
        for special in ["a b", "$(id)", "`id`", "a;id", "a&b|c>d", "*", "~root", "!x", "#x"] {
            assert_eq!(shell_word(special), Some(format!("'{special}'")));
        }
        for unsafe_to_paste in ["a'b", "a\"b", "a\\b", "a\nb", "a\u{1b}b", "a\u{202e}b", "-x"] {
            assert_eq!(shell_word(unsafe_to_paste), None, "{unsafe_to_paste:?}");
        }
    }
}
