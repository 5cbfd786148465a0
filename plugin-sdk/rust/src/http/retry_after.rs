//! The header `Retry-After`. Source: RFC 9110, 10.2.3 and 5.6.7.

use std::time::{Duration, SystemTime};

const MONTHS: [&str; 12] = [
    "Jan", "Feb", "Mar", "Apr", "May", "Jun", "Jul", "Aug", "Sep", "Oct", "Nov", "Dec",
];

const DAY_SECONDS: u64 = 24 * 60 * 60;

/// The time that is left at `now`: seconds, or until a date.
pub(super) fn parse(text: &str, now: SystemTime) -> Option<Duration> {
    if let Ok(seconds) = text.parse() {
        return Some(Duration::from_secs(seconds));
    }
    let since = now.duration_since(SystemTime::UNIX_EPOCH).unwrap_or_default();
    Some(Duration::from_secs(date(text)?).saturating_sub(since))
}

/// A date like `Sun, 06 Nov 1994 08:49:37 GMT`, in seconds since 1970. Servers must send no other form.
fn date(text: &str) -> Option<u64> {
    let (_, text) = text.strip_suffix(" GMT")?.split_once(", ")?;
    let parts: Vec<&str> = text.split([' ', ':']).collect();
    let [day, month, year, hour, minute, second] = parts[..] else {
        return None;
    };
    let number = |text: &str, max: u64| text.parse::<u64>().ok().filter(|number| *number <= max);
    let month = MONTHS.iter().position(|name| *name == month)? as u64;
    // Years begin in March, so that a leap day is the last one.
    let (year, month) = match (number(year, 9_999).filter(|year| *year >= 1970)?, month) {
        (year, 0 | 1) => (year - 1, month + 10),
        (year, _) => (year, month - 2),
    };
    let days_before_month = (153 * month + 2) / 5;
    let days_before_year = 365 * year + year / 4 - year / 100 + year / 400;
    // March 1 of year 0 is 719,468 days before 1970.
    let days = days_before_year + days_before_month + number(day, 31)?.checked_sub(1)? - 719_468;
    Some(days * DAY_SECONDS + number(hour, 23)? * 3_600 + number(minute, 59)? * 60 + number(second, 60)?)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn seconds_and_dates_are_read_and_nothing_else() {
        let now = SystemTime::UNIX_EPOCH + Duration::from_secs(784_111_777 - 60);
        let seconds = |text: &str| parse(text, now).map(|left| left.as_secs());
        for (text, wanted) in [
            ("0", Some(0)),
            ("30", Some(30)),
            ("Sun, 06 Nov 1994 08:49:37 GMT", Some(60)),
            ("Sun, 06 Nov 1994 08:48:00 GMT", Some(0)),
            ("Thu, 29 Feb 1996 00:00:00 GMT", Some(825_552_000 - 784_111_717)),
            ("Sat, 01 Jan 2000 00:00:00 GMT", Some(946_684_800 - 784_111_717)),
            ("Thu, 01 Jan 1970 00:00:00 GMT", Some(0)),
            ("", None),
            ("-1", None),
            ("soon", None),
            ("Sun, 00 Nov 1994 08:49:37 GMT", None),
            ("Sun, 06 Nov 1994 24:49:37 GMT", None),
            ("Sun, 06 Now 1994 08:49:37 GMT", None),
            ("Sun, 06 Nov 1994 08:49:37 CET", None),
            ("Sun, 06 Nov 99999 08:49:37 GMT", None),
        ] {
            assert_eq!(seconds(text), wanted, "{text}");
        }
    }
}
