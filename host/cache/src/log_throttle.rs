//! A limit on log lines about one thing that may happen very often.

use std::time::Duration;

use crate::Moment;

/// Allows a number of lines in a period; the first line of the next period reports how many were suppressed.
///
/// Periods begin with their first event, so that a rare event is always logged at once. The caller writes the lines and
/// passes the time.
///
/// ```
/// use std::time::Duration;
/// use informant_cache::{LogThrottle, Moment};
///
/// let mut throttle = LogThrottle::new(1, Duration::from_secs(60));
/// let at = |seconds| Moment::ZERO + Duration::from_secs(seconds);
/// assert_eq!(throttle.line(at(0)), Some(0), "write a line");
/// assert_eq!(throttle.line(at(1)), None, "be silent");
/// assert_eq!(throttle.line(at(60)), Some(1), "write a line, and that one was suppressed");
/// ```
#[derive(Debug)]
pub struct LogThrottle {
    lines_max: usize,
    period: Duration,
    /// When the first line of the period was written.
    since: Option<Moment>,
    lines: usize,
    /// Events without a line that no line has reported yet.
    suppressed: u64,
}

/// The lines to write now.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct LinesDue {
    /// Lines to write.
    pub lines: usize,
    /// Suppressed events that the first of them reports.
    pub suppressed: u64,
}

impl LogThrottle {
    /// At most `lines_max` lines in `period`.
    #[must_use]
    pub const fn new(lines_max: usize, period: Duration) -> LogThrottle {
        LogThrottle {
            lines_max,
            period,
            since: None,
            lines: 0,
            suppressed: 0,
        }
    }

    /// One event happened. Returns the number of suppressed events to report if a line is due, else None.
    pub fn line(&mut self, now: Moment) -> Option<u64> {
        let LinesDue { lines, suppressed } = self.due(1, now);
        (lines > 0).then_some(suppressed)
    }

    /// `events` happened, at least one, and share a line. Returns how many events the line reports if one is due.
    pub fn shared_line(&mut self, events: u64, now: Moment) -> Option<u64> {
        let Some(suppressed) = self.line(now) else {
            self.suppressed += events.saturating_sub(1);
            return None;
        };
        Some(events + suppressed)
    }

    /// `events` happened. Returns how many of them to log.
    pub fn due(&mut self, events: u64, now: Moment) -> LinesDue {
        let is_over = self.since.is_none_or(|since| now - since >= self.period);
        if is_over {
            self.since = Some(now);
            self.lines = 0;
        }
        let left = self.lines_max - self.lines;
        let lines = usize::try_from(events).unwrap_or(left).min(left);
        self.lines += lines;
        let suppressed = match is_over {
            true => std::mem::take(&mut self.suppressed),
            false => 0,
        };
        self.suppressed += events - lines as u64;
        LinesDue { lines, suppressed }
    }

    /// Events that were due a line, but got none: the next line reports them.
    pub fn defer(&mut self, events: u64) {
        self.suppressed += events;
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn events_above_the_limit_are_reported_later() {
        let mut throttle = LogThrottle::new(10, Duration::from_secs(60));
        let mut due = |events: u64, seconds: u64| {
            let LinesDue { lines, suppressed } = throttle.due(events, Moment::from_nanos(seconds * 1_000_000_000));
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
    fn a_shared_line_reports_every_event_once() {
        let mut throttle = LogThrottle::new(1, Duration::from_secs(60));
        let mut line =
            |events: u64, seconds: u64| throttle.shared_line(events, Moment::from_nanos(seconds * 1_000_000_000));
        assert_eq!(line(4, 0), Some(4));
        assert_eq!(line(5, 1), None);
        assert_eq!(line(1, 59), None);
        assert_eq!(line(1, 60), Some(7));
        assert_eq!(line(1, 120), Some(1));
    }
}
