//! Whatever happens in whatever order, the listener keeps its promises.
//!
//! A random schedule of writes, pulls, answers, pauses, replays and time runs against a real store. [`witness`] watches
//! what the consumer sees and knows the rules, but nothing of how the listener works.

mod schedule;
mod witness;

use proptest::collection::vec;
use proptest::prelude::*;

use self::schedule::{Op, Run, any_op, calm_op};
use super::*;

fn few() -> ListenerOptions {
    let retry = RetryPolicy {
        attempts: 3,
        ..RetryPolicy::default()
    };
    ListenerOptions {
        pending_events_max: 4,
        dead_letters_max: 2,
        retry,
        ..options()
    }
}

fn run(options: ListenerOptions, ops: Vec<Op>) {
    let mut run = Run::new(options);
    for op in ops {
        run.apply(op);
    }
    run.come_to_rest();
}

proptest! {
    /// In full as long as nothing overflows.
    #[test]
    fn promises_hold_with_room(ops in vec(any_op(), 0..120)) {
        run(options(), ops);
    }

    #[test]
    fn promises_hold_when_few_events_may_wait(ops in vec(any_op(), 0..120)) {
        run(few(), ops);
    }

    #[test]
    fn promises_hold_when_few_bytes_may_wait(ops in vec(any_op(), 0..120)) {
        run(ListenerOptions { pending_bytes_max: 1_500, ..few() }, ops);
    }

    #[test]
    fn promises_hold_with_resync(ops in vec(any_op(), 0..120)) {
        run(ListenerOptions { resync: Some(seconds(5)), ..few() }, ops);
    }

    #[test]
    fn promises_hold_when_failures_are_skipped(ops in vec(any_op(), 0..120)) {
        run(ListenerOptions { on_failure: OnFailure::Skip, ..few() }, ops);
    }

    /// Exactly once: swaps, however many, change nothing while nothing fails and there is room.
    #[test]
    fn every_event_is_delivered_exactly_once_over_any_number_of_swaps(ops in vec(calm_op(), 0..200)) {
        let mut run = Run::new(options());
        run.come_to_rest();
        for op in ops {
            run.apply(op);
        }
        run.come_to_rest();
        run.check_exactly_once();
    }
}
