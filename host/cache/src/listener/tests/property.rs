//! The listener's guarantees hold for any order of operations.
//!
//! A random schedule of writes, pulls, answers, pauses, replays and time runs against a real store. [`witness`]
//! observes what the consumer receives and checks the rules, without knowledge of the listener's internals.

mod history;
mod lanes;
mod ops;
mod requeues;
mod retries;
mod schedule;
mod shards;
mod takeover;
mod witness;

use proptest::collection::vec;
use proptest::prelude::*;

use self::ops::{Op, any_laneed_op, any_op, calm_op};
use self::schedule::Run;
use super::*;

fn few() -> ListenerOptions {
    ListenerOptions {
        pending_events_max: 4,
        dead_letters_max: 2,
        ..with_attempts(3)
    }
}

fn run(options: ListenerOptions, ops: Vec<Op>) {
    let mut run = Run::new(options);
    for op in ops {
        run.apply(op);
    }
    run.run_until_idle();
}

fn run_laneed(options: ListenerOptions, ops: Vec<Op>) {
    run(options, std::iter::once(Op::Lanes(3)).chain(ops).collect());
}

proptest! {
    /// Complete as long as nothing overflows.
    #[test]
    fn guarantees_hold_below_the_limits(ops in vec(any_op(), 0..120)) {
        run(options(), ops);
    }

    #[test]
    fn guarantees_hold_with_low_event_limit(ops in vec(any_op(), 0..120)) {
        run(few(), ops);
    }

    #[test]
    fn guarantees_hold_with_low_byte_limit(ops in vec(any_op(), 0..120)) {
        run(ListenerOptions { pending_bytes_max: 1_500, ..few() }, ops);
    }

    #[test]
    fn guarantees_hold_with_resync(ops in vec(any_op(), 0..120)) {
        run(ListenerOptions { resync: Some(seconds(5)), ..few() }, ops);
    }

    #[test]
    fn guarantees_hold_when_failures_are_skipped(ops in vec(any_op(), 0..120)) {
        run(ListenerOptions { on_failure: FailurePolicy::Skip, ..few() }, ops);
    }

    #[test]
    fn guarantees_hold_with_one_retry_per_second(ops in vec(any_op(), 0..120)) {
        run(ListenerOptions { retries_per_second_max: 1, retried_deletes_max: 0, ..few() }, ops);
    }

    #[test]
    fn guarantees_hold_with_an_interval(ops in vec(any_op(), 0..120)) {
        run(ListenerOptions { min_interval: Some(seconds(3)), ..options() }, ops);
    }

    #[test]
    fn guarantees_hold_with_an_interval_and_low_limits(ops in vec(any_op(), 0..120)) {
        run(ListenerOptions { min_interval: Some(seconds(3)), pending_bytes_max: 1_500, ..few() }, ops);
    }

    #[test]
    fn guarantees_hold_with_a_limited_rate(ops in vec(any_op(), 0..120)) {
        run(ListenerOptions { calls_per_second_max: Some(2), ..options() }, ops);
    }

    #[test]
    fn guarantees_hold_with_rate_interval_and_low_limits(ops in vec(any_op(), 0..120)) {
        run(ListenerOptions { calls_per_second_max: Some(2), min_interval: Some(seconds(3)), ..few() }, ops);
    }

    #[test]
    fn guarantees_hold_with_lanes(ops in vec(any_laneed_op(), 0..120)) {
        run_laneed(options(), ops);
    }

    #[test]
    fn guarantees_hold_with_lanes_and_low_limits(ops in vec(any_laneed_op(), 0..120)) {
        run_laneed(ListenerOptions { pending_bytes_max: 1_500, resync: Some(seconds(5)), ..few() }, ops);
    }

    #[test]
    fn guarantees_hold_with_lanes_and_an_interval(ops in vec(any_laneed_op(), 0..120)) {
        run_laneed(ListenerOptions { min_interval: Some(seconds(3)), ..options() }, ops);
    }

    /// Exactly once: any number of swaps changes nothing while nothing fails and no limit is reached.
    #[test]
    fn events_are_delivered_exactly_once_across_swaps(ops in vec(calm_op(), 0..200)) {
        let mut run = Run::new(options());
        run.run_until_idle();
        for op in ops {
            run.apply(op);
        }
        run.run_until_idle();
        run.check_exactly_once();
    }
}
