//! Durations as people write them: a number and a unit.

use std::time::Duration;

/// The format of a duration, for messages.
pub const DURATION_FORM: &str = "a number and a unit: \"500ms\", \"5s\", \"1m 30s\", \"2h\"";

/// Reads `"5s"`, `"1m 30s"`.
#[must_use]
pub fn parse_duration(text: &str) -> Option<Duration> {
    humantime::parse_duration(text).ok()
}

/// Writes a duration as config.toml would.
#[must_use]
pub fn show_duration(duration: Duration) -> String {
    // humantime spells out days only.
    humantime::format_duration(duration)
        .to_string()
        .replace("days", "d")
        .replace("day", "d")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn shown_durations_parse_again() {
        for duration in [1, 2, 1_000, 90_000, 3_600_000, 86_400_000, 604_800_000].map(Duration::from_millis) {
            assert_eq!(parse_duration(&show_duration(duration)), Some(duration));
        }
    }
}
