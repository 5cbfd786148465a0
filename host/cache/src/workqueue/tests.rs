//! The queue's rules, one by one; against a naive model in `model`.

mod model;

use std::time::Duration;

use super::*;
use crate::Moment;

fn queue() -> WorkQueue<&'static str> {
    WorkQueue::new(WorkQueueOptions::default())
}

fn at(millis: u64) -> Moment {
    Moment::ZERO + Duration::from_millis(millis)
}

const NOW: Moment = Moment::ZERO;

/// What is handed out at `now` until nothing is, each done at once.
fn drain(queue: &mut WorkQueue<&'static str>, now: Moment) -> Vec<&'static str> {
    let mut items = Vec::new();
    while let Get::Item(item) = queue.get(now) {
        queue.done(&item, now);
        items.push(item);
    }
    items
}

fn with(priority: i32) -> AddOptions {
    let when = When::Now;
    AddOptions { when, priority }
}

/// client-go: TestCollapse.
#[test]
fn an_item_that_waits_is_handed_out_once_however_often_it_is_added() {
    let mut queue = queue();
    assert_eq!(queue.add("a", NOW), Admission::Waits);
    assert_eq!(queue.add("a", NOW), Admission::Merged);
    queue.add("b", NOW);
    assert_eq!(drain(&mut queue, NOW), ["a", "b"]);
    assert_eq!(queue.get(NOW), Get::Idle);
}

/// client-go: TestAddWhileProcessing, TestReinsert, TestCollapseWhileProcessing.
#[test]
fn what_is_added_while_it_is_worked_on_is_done_once_more_and_never_by_two_at_once() {
    let mut queue = queue();
    queue.add("a", NOW);
    assert_eq!(queue.get(NOW), Get::Item("a"));
    for _ in 0..3 {
        queue.add("a", NOW);
    }
    assert_eq!(queue.get(NOW), Get::Idle);
    assert!(queue.done(&"a", NOW));
    assert_eq!(drain(&mut queue, NOW), ["a"]);
    assert!(!queue.done(&"a", NOW), "nobody has it");
    assert_eq!(queue.len(), 0);
}

/// client-go: TestQueueDrainageUsingShutDown, and the queue half of TestBasic.
#[test]
fn after_a_shut_down_what_is_in_line_is_handed_out_and_what_is_added_is_ignored_and_counted() {
    let mut queue = queue();
    queue.add("a", NOW);
    queue.add("b", NOW);
    let expected = Remaining {
        queued: 2,
        ..Remaining::default()
    };
    assert_eq!(queue.shut_down(), expected);
    assert_eq!(queue.add("c", NOW), Admission::ShutDown);
    assert_eq!(drain(&mut queue, NOW), ["a", "b"]);
    assert_eq!(queue.get(NOW), Get::ShutDown);
    assert_eq!(queue.stats(NOW).ignored, 1);
}

/// client-go: TestQueueDrainageUsingShutDownWithDrain, …WithDirtyItem.
#[test]
fn an_item_added_again_before_the_shut_down_is_handed_out_again_and_one_added_after_it_is_not() {
    let mut queue = queue();
    queue.add("before", NOW);
    queue.add("after", NOW);
    assert_eq!(
        (queue.get(NOW), queue.get(NOW)),
        (Get::Item("before"), Get::Item("after"))
    );
    queue.add("before", NOW);
    let _ = queue.shut_down();
    queue.add("after", NOW);
    assert!(!queue.is_drained());
    queue.done(&"before", NOW);
    queue.done(&"after", NOW);
    assert!(
        queue.is_drained(),
        "client-go's drain waits for workers, not for the ready"
    );
    assert_eq!(queue.remaining().queued, 1);
    assert_eq!(drain(&mut queue, NOW), ["before"]);
}

/// client-go: TestSimpleQueue (delaying), TestAddTwoFireEarly.
#[test]
fn a_delayed_item_waits_for_its_time_and_the_earlier_of_two_counts() {
    let mut queue = queue();
    assert_eq!(
        queue.add_after("late", Duration::from_millis(50), NOW),
        Admission::Delayed
    );
    queue.add_after("early", Duration::from_millis(20), NOW);
    assert_eq!(queue.get(NOW), Get::WaitUntil(at(20)));
    assert_eq!(drain(&mut queue, at(19)), [""; 0]);
    assert_eq!(drain(&mut queue, at(20)), ["early"]);
    assert_eq!(drain(&mut queue, at(50)), ["late"]);
}

/// client-go: TestDeduping.
#[test]
fn a_second_delay_of_an_item_makes_it_earlier_and_never_later() {
    let mut queue = queue();
    queue.add_after("a", Duration::from_millis(50), NOW);
    assert_eq!(queue.add_after("a", Duration::from_millis(70), NOW), Admission::Merged);
    assert_eq!(queue.next_due(), Some(at(50)));
    queue.add_after("a", Duration::from_millis(30), NOW);
    assert_eq!(queue.next_due(), Some(at(30)));
    assert_eq!(drain(&mut queue, at(30)), ["a"]);
    assert_eq!(drain(&mut queue, at(100)), [""; 0], "one entry, one turn");
}

/// client-go: TestCopyShifting.
#[test]
fn delayed_items_come_in_the_order_of_their_times() {
    let mut queue = queue();
    for (item, millis) in [("third", 1_000), ("second", 500), ("first", 250)] {
        queue.add_after(item, Duration::from_millis(millis), NOW);
    }
    assert_eq!(drain(&mut queue, at(2_000)), ["first", "second", "third"]);
}

#[test]
fn no_delay_is_an_addition_and_what_is_added_meanwhile_does_not_take_the_delays_place() {
    let mut queue = queue();
    assert_eq!(queue.add_after("a", Duration::ZERO, NOW), Admission::Waits);
    queue.add_after("a", Duration::from_millis(10), NOW);
    assert_eq!(drain(&mut queue, NOW), ["a"]);
    assert_eq!(drain(&mut queue, at(10)), ["a"]);
}

/// client-go loses them without a number.
#[test]
fn a_shut_down_drops_what_is_delayed_and_counts_it() {
    let mut queue = queue();
    queue.add_after("a", Duration::from_millis(10), NOW);
    queue.add_after("b", Duration::MAX, NOW);
    assert_eq!(queue.shut_down().delayed_dropped, 2);
    assert_eq!(queue.get(at(10)), Get::ShutDown);
    assert_eq!(queue.stats(NOW).delayed_dropped, 2);
}

/// client-go: TestRateLimitingQueue.
#[test]
fn a_failing_item_comes_back_later_each_time_until_it_is_forgotten() {
    let options = WorkQueueOptions {
        limiter: Box::new(ItemExponentialFailureRateLimiter::new(
            Duration::from_millis(1),
            Duration::from_secs(1),
        )),
        ..WorkQueueOptions::default()
    };
    let mut queue = WorkQueue::new(options);
    let (mut now, mut waits) = (NOW, Vec::new());
    for _ in 0..4 {
        queue.add_rate_limited("one", now);
        let Get::WaitUntil(next) = queue.get(now) else {
            panic!("it waits")
        };
        waits.push((next - now).as_millis());
        now = next;
        assert_eq!(queue.get(now), Get::Item("one"));
        queue.done(&"one", now);
    }
    assert_eq!(waits, [1, 2, 4, 8]);
    assert_eq!(queue.num_requeues(&"one"), 4);
    queue.forget(&"one");
    queue.add_rate_limited("one", now);
    assert_eq!(queue.next_due(), Some(now + Duration::from_millis(1)));
}

#[test]
fn the_higher_priority_goes_first_and_among_equals_the_first_come() {
    let mut queue = queue();
    for (item, priority) in [("low", LOW_PRIORITY), ("first", 0), ("urgent", 5), ("second", 0)] {
        queue.add_with(item, with(priority), NOW);
    }
    assert_eq!(drain(&mut queue, NOW), ["urgent", "first", "second", "low"]);
}

#[test]
fn an_item_keeps_the_highest_priority_it_was_added_with_and_its_place() {
    let mut queue = queue();
    for (item, priority) in [
        ("raised", LOW_PRIORITY),
        ("other", 0),
        ("raised", 0),
        ("raised", LOW_PRIORITY),
    ] {
        queue.add_with(item, with(priority), NOW);
    }
    assert_eq!(drain(&mut queue, NOW), ["raised", "other"], "it came before the other");
    // While it is delayed, and while it is worked on.
    queue.add_with(
        "delayed",
        AddOptions {
            when: When::After(Duration::from_millis(1)),
            priority: 7,
        },
        NOW,
    );
    queue.add_after("delayed", Duration::from_millis(5), NOW);
    queue.add("busy", NOW);
    assert_eq!(queue.get(NOW), Get::Item("busy"));
    queue.add_with("busy", with(3), NOW);
    queue.add_with("busy", with(1), NOW);
    queue.add_with("between", with(2), NOW);
    queue.done(&"busy", NOW);
    assert_eq!(drain(&mut queue, at(1)), ["delayed", "busy", "between"]);
}

/// controller-runtime's users report that items of low priority starve (issue 3496).
#[test]
fn an_item_of_low_priority_has_its_turn_however_many_urgent_ones_come() {
    let options = WorkQueueOptions {
        passed_over_max: 3,
        ..WorkQueueOptions::default()
    };
    let mut queue = WorkQueue::new(options);
    queue.add_with(u32::MAX, with(LOW_PRIORITY), NOW);
    let mut order = Vec::new();
    for urgent in 0..5 {
        queue.add(urgent, NOW);
        queue.add(urgent + 100, NOW);
        let Get::Item(item) = queue.get(NOW) else {
            panic!("items wait")
        };
        order.push(item);
    }
    assert_eq!(order, [0, 100, 1, u32::MAX, 101]);
}

#[test]
fn above_the_limit_an_item_that_does_not_wait_yet_is_refused_and_counted() {
    let options = WorkQueueOptions {
        items_max: 2,
        ..WorkQueueOptions::default()
    };
    let mut queue = WorkQueue::new(options);
    queue.add("a", NOW);
    queue.add_after("b", Duration::from_millis(1), NOW);
    assert_eq!(queue.add("c", NOW), Admission::Full);
    assert_eq!(queue.add_after("c", Duration::from_millis(1), NOW), Admission::Full);
    assert_eq!(queue.add("a", NOW), Admission::Merged);
    assert_eq!(queue.get(at(1)), Get::Item("a"));
    assert_eq!(queue.add("c", at(1)), Admission::Waits);
    assert_eq!(queue.stats(NOW).refused, 2);
}

/// client-go: TestMetrics.
#[test]
fn the_numbers_are_those_of_client_go() {
    let mut queue = queue();
    queue.add("foo", NOW);
    queue.add("foo", at(1));
    queue.add("bar", at(10));
    assert_eq!((queue.stats(NOW).depth, queue.stats(NOW).adds), (2, 2));
    assert_eq!(queue.get(at(50)), Get::Item("foo"));
    // Added while it is worked on: it counts, and waits from now on.
    queue.add("foo", at(60));
    let stats = queue.stats(at(75));
    assert_eq!((stats.depth, stats.adds, stats.merged, stats.processing), (2, 3, 1, 1));
    assert_eq!(
        (stats.unfinished_work, stats.longest_running),
        (Duration::from_millis(25), Duration::from_millis(25))
    );
    queue.done(&"foo", at(75));
    assert_eq!(queue.get(at(75)), Get::Item("bar"));
    assert_eq!(queue.get(at(85)), Get::Item("foo"));
    let stats = queue.stats(at(95));
    assert_eq!(
        (stats.unfinished_work, stats.longest_running),
        (Duration::from_millis(30), Duration::from_millis(20))
    );
    assert_eq!(stats.queue_duration.sum, Duration::from_millis(50 + 65 + 25));
    assert_eq!((stats.queue_duration.counts[7], stats.queue_duration.count()), (3, 3));
    assert_eq!(
        (stats.work_duration.sum, stats.work_duration.count()),
        (Duration::from_millis(25), 1)
    );
    queue.add_rate_limited("baz", at(95));
    queue.add_after("baz", Duration::ZERO, at(95));
    let stats = queue.stats(at(95));
    assert_eq!((stats.retries, stats.delayed, stats.failing, stats.depth), (2, 1, 1, 1));
}

#[test]
fn a_duration_falls_into_the_first_bucket_whose_bound_it_does_not_pass() {
    let mut histogram = DurationHistogram::default();
    for duration in [
        Duration::ZERO,
        Duration::from_micros(1),
        Duration::from_secs(10),
        Duration::from_secs(11),
    ] {
        histogram.observe(duration);
    }
    assert_eq!(histogram.counts, [1, 0, 1, 0, 0, 0, 0, 0, 0, 1, 1]);
}

/// client-go: TestGarbageCollection. What is done holds nothing of the item.
#[test]
fn an_item_that_is_done_and_forgotten_is_kept_nowhere() {
    let item = std::sync::Arc::new(());
    let mut queue = WorkQueue::new(WorkQueueOptions::default());
    queue.add(item.clone(), NOW);
    queue.add_rate_limited(item.clone(), NOW);
    while let Get::Item(item) = queue.get(at(1_000)) {
        queue.done(&item, at(1_000));
        queue.forget(&item);
    }
    assert_eq!(std::sync::Arc::strong_count(&item), 1);
}
