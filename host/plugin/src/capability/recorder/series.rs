//! Which Events are sent, and which become part of one that was: client-go's tools/events, and the spam filter of
//! tools/record. Pure.
//!
//! - An Event that is equal to one of the last [6 minutes](FINISH_AFTER) but for its note makes that one a series. The
//!   second one is sent; further ones are counted, and sent every [30 minutes](REFRESH_AFTER) and at the end.
//! - Of each object, [25](SPAM_BURST) Events begin at once, and one every [5 minutes](SPAM_INTERVAL).

use std::collections::HashMap;
use std::sync::Arc;
use std::time::Duration;

use informant_cache::Moment;

use super::event::{EventKey, RecordedEvent, Reference, Series};

/// A series without another Event for so long has ended: 6 minutes.
pub(super) const FINISH_AFTER: Duration = Duration::from_secs(6 * 60);

/// A series that continues is sent so often: every 30 minutes.
const REFRESH_AFTER: Duration = Duration::from_secs(30 * 60);

/// Events about one object at once: 25.
const SPAM_BURST: u32 = 25;

/// One more for each 5 minutes.
const SPAM_INTERVAL: Duration = Duration::from_secs(5 * 60);

/// Objects of one plugin whose Events are limited, and Events that may become series: 4,096 each. Above it, the one
/// that was used longest ago is forgotten.
const RECORDED_MAX: usize = 4_096;

#[derive(Default)]
pub(super) struct SeriesTable {
    sent: HashMap<Arc<EventKey>, Sent>,
    limited: HashMap<Reference, SpamFilter>,
}

/// An Event that was sent.
struct Sent {
    event: RecordedEvent,
    series: Option<Series>,
    /// When it last occurred.
    last: Moment,
    /// When it was last sent.
    sent: Moment,
    /// It has occurred since.
    is_open: bool,
}

/// What still may be sent about one object.
struct SpamFilter {
    tokens: f64,
    at: Moment,
}

/// What becomes of an Event.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum Next {
    Create(RecordedEvent),
    /// The second of a series, or a later state of it.
    Update(RecordedEvent, Series),
    /// It was counted in a series.
    Counted,
    /// Its object has too many.
    Limited,
}

impl SeriesTable {
    /// An Event was recorded.
    pub(super) fn record(&mut self, event: RecordedEvent, now: Moment) -> Next {
        if let Some(sent) = self.sent.get_mut(&event.key) {
            let series = Series {
                count: sent.series.map_or(2, |series| series.count.saturating_add(1)),
                last: event.at,
            };
            sent.last = now;
            if sent.series.replace(series).is_some() {
                sent.is_open = true;
                return Next::Counted;
            }
            sent.sent = now;
            return Next::Update(sent.event.clone(), series);
        }
        if !self.allows(&event.key.about, now) {
            return Next::Limited;
        }
        forget_oldest(&mut self.sent, |sent| sent.last);
        let sent = Sent {
            event: event.clone(),
            series: None,
            last: now,
            sent: now,
            is_open: false,
        };
        self.sent.insert(Arc::clone(&event.key), sent);
        Next::Create(event)
    }

    /// The series that are to be sent again. Those that have ended are forgotten.
    pub(super) fn refresh(&mut self, now: Moment) -> Vec<(RecordedEvent, Series)> {
        let mut due = Vec::new();
        self.sent.retain(|_, sent| {
            let has_ended = now - sent.last >= FINISH_AFTER;
            let is_due = has_ended || now - sent.sent >= REFRESH_AFTER;
            if let Some(series) = sent.series.filter(|_| sent.is_open && is_due) {
                due.push((sent.event.clone(), series));
                (sent.sent, sent.is_open) = (now, false);
            }
            !has_ended
        });
        // A filter that is full again allows what a new one does.
        self.limited
            .retain(|_, filter| filter.refilled(now) < f64::from(SPAM_BURST));
        due
    }

    pub(super) fn is_empty(&self) -> bool {
        self.sent.is_empty() && self.limited.is_empty()
    }

    /// Takes one of the Events that may be sent about an object.
    fn allows(&mut self, about: &Reference, now: Moment) -> bool {
        if !self.limited.contains_key(about) {
            forget_oldest(&mut self.limited, |filter| filter.at);
            let full = SpamFilter {
                tokens: f64::from(SPAM_BURST),
                at: now,
            };
            self.limited.insert(about.clone(), full);
        }
        let Some(filter) = self.limited.get_mut(about) else {
            return false;
        };
        (filter.tokens, filter.at) = (filter.refilled(now), now);
        let is_allowed = filter.tokens >= 1.0;
        if is_allowed {
            filter.tokens -= 1.0;
        }
        is_allowed
    }
}

impl SpamFilter {
    fn refilled(&self, now: Moment) -> f64 {
        let more = (now - self.at).as_secs_f64() / SPAM_INTERVAL.as_secs_f64();
        (self.tokens + more).min(f64::from(SPAM_BURST))
    }
}

/// Makes room for one more.
fn forget_oldest<K: Clone + Eq + std::hash::Hash, V>(entries: &mut HashMap<K, V>, at: impl Fn(&V) -> Moment) {
    if entries.len() < RECORDED_MAX {
        return;
    }
    let oldest = entries
        .iter()
        .min_by_key(|(_, entry)| at(entry))
        .map(|(key, _)| key.clone());
    if let Some(oldest) = oldest {
        entries.remove(&oldest);
    }
}

#[cfg(test)]
mod tests {
    use jiff::Timestamp;

    use super::*;

    fn at(seconds: u64) -> Moment {
        Moment::ZERO + Duration::from_secs(seconds)
    }

    fn event(name: &str, reason: &str, seconds: u64) -> RecordedEvent {
        let about = Reference {
            cluster: String::new(),
            api_version: "v1".to_owned(),
            kind: "Pod".to_owned(),
            namespace: "web".to_owned(),
            name: name.to_owned(),
            uid: String::new(),
        };
        RecordedEvent {
            key: Arc::new(EventKey {
                about,
                related: None,
                is_warning: false,
                reason: reason.to_owned(),
                action: reason.to_owned(),
            }),
            note: format!("at {seconds}"),
            at: Timestamp::from_second(i64::try_from(seconds).unwrap()).unwrap(),
            cause: None,
        }
    }

    /// What becomes of an Event, in a word.
    fn record(table: &mut SeriesTable, name: &str, reason: &str, seconds: u64) -> String {
        match table.record(event(name, reason, seconds), at(seconds)) {
            Next::Create(event) => format!("create {}", event.note),
            Next::Update(event, series) => format!("update {} to {}", event.note, series.count),
            Next::Counted => "counted".to_owned(),
            Next::Limited => "limited".to_owned(),
        }
    }

    #[test]
    fn equal_events_become_a_series() {
        let mut table = SeriesTable::default();
        assert_eq!(record(&mut table, "a", "R", 1), "create at 1");
        assert_eq!(record(&mut table, "a", "Other", 2), "create at 2");
        assert_eq!(record(&mut table, "b", "R", 3), "create at 3");
        assert_eq!(record(&mut table, "a", "R", 4), "update at 1 to 2");
        assert_eq!(record(&mut table, "a", "R", 5), "counted");
        assert_eq!(record(&mut table, "a", "R", 6), "counted");
        assert!(table.refresh(at(7)).is_empty());
        let ended = table.refresh(at(6 + 360));
        assert_eq!(ended.len(), 1);
        assert_eq!((ended[0].1.count, ended[0].1.last.as_second()), (4, 6));
        assert_eq!(record(&mut table, "a", "R", 400), "create at 400");
    }

    #[test]
    fn a_series_that_continues_is_sent_now_and_then() {
        let mut table = SeriesTable::default();
        let mut sent = 0;
        for minute in 0..120 {
            record(&mut table, "a", "R", minute * 300);
            sent += table.refresh(at(minute * 300)).len();
        }
        assert!((18..=20).contains(&sent), "{sent}");
    }

    #[test]
    fn an_object_has_a_limited_number_of_events() {
        let mut table = SeriesTable::default();
        let mut create = |number: u64, seconds| record(&mut table, "a", &format!("R{number}"), seconds);
        for number in 0..25 {
            assert_eq!(create(number, 1), "create at 1");
        }
        assert_eq!(create(25, 2), "limited");
        assert_eq!(create(24, 3), "update at 1 to 2");
        assert_eq!(create(25, 301), "create at 301");
        assert_eq!(create(26, 302), "limited");
        assert_eq!(record(&mut table, "b", "R", 302), "create at 302");
    }

    #[test]
    fn what_is_remembered_is_bounded_and_ends() {
        let mut table = SeriesTable::default();
        for number in 0..RECORDED_MAX as u64 + 10 {
            record(&mut table, &format!("pod-{number}"), "R", number);
        }
        assert!(table.sent.len() <= RECORDED_MAX && table.limited.len() <= RECORDED_MAX);
        assert!(table.refresh(at(100_000)).is_empty() && table.is_empty());
    }
}
