//! `[plugin.NAME.timers]`: schedules that take the place of those in the manifest.

use std::time::Duration;

use informant_spec::{Schedule, TIMER_EVERY_MAX, TIMER_EVERY_MIN};

use crate::table::Table;

/// `timers.report = { cron = "0 8 * * 1-5", zone = "Europe/Berlin" }`, `timers.poll = { every = "1m" }`.
pub(crate) fn read(plugin: &Table<'_>) -> Vec<(String, Schedule)> {
    let Some(timers) = plugin.table("timers") else {
        return Vec::new();
    };
    let mut schedules = Vec::new();
    for name in timers.keys() {
        let Some(timer) = timers.table(name.value) else {
            continue;
        };
        schedules.extend(read_schedule(&timer).map(|schedule| (name.value.to_owned(), schedule)));
    }
    schedules
}

/// None, if a problem was reported.
fn read_schedule(timer: &Table<'_>) -> Option<Schedule> {
    let (cron, zone) = (timer.string("cron"), timer.string("zone"));
    let is_period = timer.has("every");
    let every: Option<Duration> = timer.duration("every", TIMER_EVERY_MIN..=TIMER_EVERY_MAX);
    timer.finish(&[]);
    if is_period && every.is_none() {
        return None;
    }
    let text = |located: &Option<crate::source::Located<String>>| located.as_ref().map(|it| it.value.clone());
    match Schedule::new(text(&cron).as_deref(), text(&zone).as_deref(), every) {
        Ok(schedule) => Some(schedule),
        Err(problem) => {
            let position = cron
                .or(zone)
                .map_or_else(|| timer.position(), |written| written.position);
            timer.report(position, format!("{} {problem}", timer.title()));
            None
        }
    }
}
