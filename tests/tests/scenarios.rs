//! Plays every fault case that an informer can meet, and checks that it would detect a bug: see
//! `tests/src/simulation/cases.md`.

use std::collections::BTreeSet;

use informant_tests::simulation::scenario::{SCENARIOS, Scenario};

fn scenarios() -> impl Iterator<Item = &'static Scenario> {
    SCENARIOS.iter().copied().flatten()
}

/// Plays a scenario, and plays it again with each bug that it must detect.
#[expect(clippy::print_stdout, reason = "how each bug shows is part of the result")]
fn hold(name: &str) {
    let scenario = scenarios().find(|scenario| scenario.name == name);
    let scenario = scenario.unwrap_or_else(|| panic!("no scenario is named {name}"));
    if let Some(failure) = scenario.failure() {
        panic!("{}: {failure}", scenario.case);
    }
    assert!(!scenario.bugs.is_empty(), "no seeded bug shows that {name} can fail");
    for bug in scenario.bugs {
        match bug.run_with(|| scenario.failure()) {
            Some(failure) => println!("with {bug:?}: {failure}"),
            None => panic!("{}: {bug:?} is not detected", scenario.case),
        }
    }
}

/// Makes a test of each name, which is that of its scenario.
macro_rules! scenario_tests {
    ($(fn $name:ident;)+) => {
        $(
            #[test]
            fn $name() {
                hold(stringify!($name));
            }
        )+

        /// The scenarios that have a test.
        const TESTED: &[&str] = &[$(stringify!($name)),+];
    };
}

scenario_tests! {
    fn namespace_removed_and_readded_delivers_deletes_then_adds;
    fn takeover_delivers_kept_deletes_and_what_the_watermark_does_not_cover;
    fn unseen_changes_fold_and_skipped_states_are_counted;
    fn external_change_concurrent_with_own_write_is_delivered;
    fn last_event_while_paused_is_delivered_once_on_resume;
    fn initial_burst_reaches_each_handler_once;
    fn always_failing_object_is_dead_lettered_and_redelivered_on_requeue;
    fn history_expired_between_pages_relists_without_partial_state;
    fn history_expired_during_watch_relists_and_delivers_missed_deletes;
    fn history_expired_during_initial_events_retries_without_partial_state;
    fn compaction_at_the_watch_version_needs_no_relist;
    fn past_replayed_after_reconnect_is_rejected_and_counted;
    fn events_after_a_bookmark_ahead_of_them_are_delivered;
    fn future_and_past_bookmarks_lose_and_repeat_nothing;
    fn duplicate_event_is_delivered_once;
    fn events_missed_by_a_closed_slow_watch_are_delivered;
    fn delete_right_after_the_watch_start_version_is_delivered;
    fn delete_right_after_the_last_watch_event_is_delivered;
    fn delete_at_the_compacted_version_is_delivered_as_unknown;
    fn reset_while_connecting_shows_as_stale_and_recovers;
    fn reset_mid_event_loses_and_repeats_nothing;
    fn half_open_watch_is_detected_and_reopened;
    fn frequent_clean_watch_ends_lose_nothing_and_show_as_stale;
    fn watch_that_stays_silent_after_200_is_detected;
}

#[test]
fn each_scenario_has_a_test() {
    let names: BTreeSet<_> = scenarios().map(|scenario| scenario.name).collect();
    assert_eq!(names.len(), scenarios().count(), "names are unique");
    let tested: BTreeSet<_> = TESTED.iter().copied().collect();
    assert_eq!(tested, names);
}
