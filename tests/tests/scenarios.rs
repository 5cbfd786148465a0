//! Every fault case that an informer can meet is played, and would be noticed if it were a bug of ours: see
//! `tests/src/simulation/cases.md`.

use std::collections::BTreeSet;

use informant_tests::simulation::scenario::{SCENARIOS, Scenario};

fn scenarios() -> impl Iterator<Item = &'static Scenario> {
    SCENARIOS.iter().copied().flatten()
}

/// Plays a scenario, and plays it again with each bug that it must notice.
#[expect(clippy::print_stdout, reason = "how each bug shows is part of the result")]
fn hold(name: &str) {
    let scenario = scenarios().find(|scenario| scenario.name == name);
    let scenario = scenario.unwrap_or_else(|| panic!("no scenario is named {name}"));
    if let Some(failure) = scenario.failure() {
        panic!("{}: {failure}", scenario.case);
    }
    assert!(!scenario.bugs.is_empty(), "nothing shows that {name} would fail");
    for bug in scenario.bugs {
        match bug.run_with(|| scenario.failure()) {
            Some(failure) => println!("with {bug:?}: {failure}"),
            None => panic!("{}: {bug:?} goes unnoticed", scenario.case),
        }
    }
}

#[test]
fn what_leaves_an_informer_and_comes_back_unseen_is_told_in_that_order() {
    hold("what_leaves_an_informer_and_comes_back_unseen_is_told_in_that_order");
}

#[test]
fn what_goes_there_and_back_unseen_is_told_once_and_the_skipped_states_are_counted() {
    hold("what_goes_there_and_back_unseen_is_told_once_and_the_skipped_states_are_counted");
}

#[test]
fn a_change_from_outside_beside_the_handlers_own_is_told() {
    hold("a_change_from_outside_beside_the_handlers_own_is_told");
}

#[test]
fn what_came_last_while_a_handler_was_held_back_is_told_once_when_it_goes_on() {
    hold("what_came_last_while_a_handler_was_held_back_is_told_once_when_it_goes_on");
}

#[test]
fn a_burst_at_the_start_and_to_several_handlers_is_told_to_each_once() {
    hold("a_burst_at_the_start_and_to_several_handlers_is_told_to_each_once");
}

#[test]
fn one_that_fails_for_ever_holds_up_nothing_becomes_a_dead_letter_and_is_told_when_requeued() {
    hold("one_that_fails_for_ever_holds_up_nothing_becomes_a_dead_letter_and_is_told_when_requeued");
}

#[test]
fn a_history_that_ends_between_two_pages_is_listed_anew_and_no_half_is_shown() {
    hold("a_history_that_ends_between_two_pages_is_listed_anew_and_no_half_is_shown");
}

#[test]
fn a_history_that_ends_in_the_midst_of_a_watch_is_listed_anew_and_what_vanished_is_told() {
    hold("a_history_that_ends_in_the_midst_of_a_watch_is_listed_anew_and_what_vanished_is_told");
}

#[test]
fn a_history_that_ends_among_the_initial_events_is_asked_for_anew_and_no_half_is_shown() {
    hold("a_history_that_ends_among_the_initial_events_is_asked_for_anew_and_no_half_is_shown");
}

#[test]
fn a_history_compacted_to_the_very_version_of_a_watch_needs_no_list() {
    hold("a_history_compacted_to_the_very_version_of_a_watch_needs_no_list");
}

#[test]
fn a_past_that_is_shown_again_after_a_reconnect_is_refused_and_counted() {
    hold("a_past_that_is_shown_again_after_a_reconnect_is_refused_and_counted");
}

#[test]
fn events_that_come_after_a_bookmark_ahead_of_them_are_told() {
    hold("events_that_come_after_a_bookmark_ahead_of_them_are_told");
}

#[test]
fn a_bookmark_of_the_future_or_of_the_past_loses_and_repeats_nothing() {
    hold("a_bookmark_of_the_future_or_of_the_past_loses_and_repeats_nothing");
}

#[test]
fn an_event_that_comes_twice_is_told_once() {
    hold("an_event_that_comes_twice_is_told_once");
}

#[test]
fn what_a_watch_that_was_closed_for_its_slowness_left_out_is_told() {
    hold("what_a_watch_that_was_closed_for_its_slowness_left_out_is_told");
}

#[test]
fn a_delete_right_behind_the_version_at_which_a_watch_is_opened_is_told() {
    hold("a_delete_right_behind_the_version_at_which_a_watch_is_opened_is_told");
}

#[test]
fn a_delete_right_behind_the_last_event_of_a_watch_is_told_when_it_goes_on() {
    hold("a_delete_right_behind_the_last_event_of_a_watch_is_told_when_it_goes_on");
}

#[test]
fn a_delete_at_the_very_version_that_was_compacted_is_told_as_unknown() {
    hold("a_delete_at_the_very_version_that_was_compacted_is_told_as_unknown");
}

#[test]
fn a_connection_that_is_reset_while_it_is_made_shows_as_stale_and_heals() {
    hold("a_connection_that_is_reset_while_it_is_made_shows_as_stale_and_heals");
}

#[test]
fn a_reset_in_the_midst_of_an_event_loses_and_repeats_nothing() {
    hold("a_reset_in_the_midst_of_an_event_loses_and_repeats_nothing");
}

#[test]
fn a_watch_that_is_half_open_is_found_out_and_opened_anew() {
    hold("a_watch_that_is_half_open_is_found_out_and_opened_anew");
}

#[test]
fn watches_that_end_cleanly_all_the_time_lose_nothing_and_do_not_count_as_alive() {
    hold("watches_that_end_cleanly_all_the_time_lose_nothing_and_do_not_count_as_alive");
}

#[test]
fn a_watch_that_is_answered_and_then_shows_nothing_is_found_out() {
    hold("a_watch_that_is_answered_and_then_shows_nothing_is_found_out");
}

#[test]
fn each_scenario_has_a_test_here() {
    let here = include_str!("scenarios.rs");
    let names: BTreeSet<_> = scenarios().map(|scenario| scenario.name).collect();
    assert_eq!(names.len(), scenarios().count(), "names are unique");
    for name in names {
        assert!(here.contains(&format!("fn {name}() {{")), "{name} is not run");
    }
}
