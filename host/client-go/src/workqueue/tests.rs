//! The queue's rules, one by one; against a naive model in `model`.

mod model;

use std::time::Duration;

use super::queue::QueueState;
use super::*;

fn queue() -> QueueState<&'static str> {
    QueueState::new(WorkQueueOptions::default())
}

impl<T: Clone + Eq + std::hash::Hash> QueueState<T> {
    fn add(&mut self, item: T, now: Moment) -> Admission {
        self.add_with(item, AddOptions::default(), now)
    }

    fn add_after(&mut self, item: T, after: Duration, now: Moment) -> Admission {
        let when = DueTime::After(after);
        self.add_with(item, AddOptions { when, priority: 0 }, now)
    }

    fn add_rate_limited(&mut self, item: T, now: Moment) -> Admission {
        let when = DueTime::RateLimited;
        self.add_with(item, AddOptions { when, priority: 0 }, now)
    }
}

fn at(millis: u64) -> Moment {
    Moment::ZERO + Duration::from_millis(millis)
}

const NOW: Moment = Moment::ZERO;

/// Gets all items that are ready at `now`, each done immediately.
fn drain(queue: &mut QueueState<&'static str>, now: Moment) -> Vec<&'static str> {
    let mut items = Vec::new();
    while let Get::Item(item) = queue.get(now) {
        queue.done(&item, now);
        items.push(item);
    }
    items
}

fn with(priority: i32) -> AddOptions {
    let when = DueTime::Now;
    AddOptions { when, priority }
}

/// client-go: TestCollapse.
#[test]
fn repeated_adds_of_a_queued_item_are_merged() {
    let mut queue = queue();
    assert_eq!(queue.add("a", NOW), Admission::Waits);
    assert_eq!(queue.add("a", NOW), Admission::Merged);
    queue.add("b", NOW);
    assert_eq!(drain(&mut queue, NOW), ["a", "b"]);
    assert_eq!(queue.get(NOW), Get::Idle);
}

/// client-go: TestAddWhileProcessing, TestReinsert, TestCollapseWhileProcessing.
#[test]
fn item_added_while_processed_is_processed_once_more() {
    let mut queue = queue();
    queue.add("a", NOW);
    assert_eq!(queue.get(NOW), Get::Item("a"));
    for _ in 0..3 {
        queue.add("a", NOW);
    }
    assert_eq!(queue.get(NOW), Get::Idle);
    assert!(queue.done(&"a", NOW));
    assert_eq!(drain(&mut queue, NOW), ["a"]);
    assert!(!queue.done(&"a", NOW), "it is not being processed");
    assert_eq!(queue.len(), 0);
}

/// client-go: TestQueueDrainageUsingShutDown, and the queue half of TestBasic.
#[test]
fn shut_down_drains_the_queue_and_ignores_additions() {
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
fn re_added_item_is_processed_only_if_added_before_shutdown() {
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
        "client-go's drain waits for workers, not for the queue"
    );
    assert_eq!(queue.remaining().queued, 1);
    assert_eq!(drain(&mut queue, NOW), ["before"]);
}

/// client-go: TestSimpleQueue (delaying), TestAddTwoFireEarly.
#[test]
fn delayed_item_is_due_at_the_earliest_time() {
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
fn second_delay_only_makes_an_item_earlier() {
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
fn delayed_items_come_in_order_of_time() {
    let mut queue = queue();
    for (item, millis) in [("third", 1_000), ("second", 500), ("first", 250)] {
        queue.add_after(item, Duration::from_millis(millis), NOW);
    }
    assert_eq!(drain(&mut queue, at(2_000)), ["first", "second", "third"]);
}

#[test]
fn plain_add_does_not_replace_a_delayed_one() {
    let mut queue = queue();
    assert_eq!(queue.add_after("a", Duration::ZERO, NOW), Admission::Waits);
    queue.add_after("a", Duration::from_millis(10), NOW);
    assert_eq!(drain(&mut queue, NOW), ["a"]);
    assert_eq!(drain(&mut queue, at(10)), ["a"]);
}

/// client-go loses them without a number.
#[test]
fn shut_down_drops_and_counts_delayed_items() {
    let mut queue = queue();
    queue.add_after("a", Duration::from_millis(10), NOW);
    queue.add_after("b", Duration::MAX, NOW);
    assert_eq!(queue.shut_down().delayed_dropped, 2);
    assert_eq!(queue.get(at(10)), Get::ShutDown);
    assert_eq!(queue.stats(NOW).delayed_dropped, 2);
}

/// client-go: TestRateLimitingQueue.
#[test]
fn rate_limited_delay_grows_until_forgotten() {
    let options = WorkQueueOptions {
        limiter: Box::new(ItemExponentialFailureRateLimiter::new(
            Duration::from_millis(1),
            Duration::from_secs(1),
        )),
        ..WorkQueueOptions::default()
    };
    let mut queue = QueueState::new(options);
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
fn higher_priority_first_then_arrival() {
    let mut queue = queue();
    for (item, priority) in [("low", LOW_PRIORITY), ("first", 0), ("urgent", 5), ("second", 0)] {
        queue.add_with(item, with(priority), NOW);
    }
    assert_eq!(drain(&mut queue, NOW), ["urgent", "first", "second", "low"]);
}

#[test]
fn item_keeps_highest_priority_and_arrival() {
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
    // While it is delayed, and while it is processed.
    queue.add_with(
        "delayed",
        AddOptions {
            when: DueTime::After(Duration::from_millis(1)),
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
fn low_priority_item_does_not_starve() {
    let options = WorkQueueOptions {
        passed_over_max: 3,
        ..WorkQueueOptions::default()
    };
    let mut queue = QueueState::new(options);
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
fn new_items_are_rejected_above_the_limit() {
    let options = WorkQueueOptions {
        items_max: 2,
        ..WorkQueueOptions::default()
    };
    let mut queue = QueueState::new(options);
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
fn stats_match_client_go_metrics() {
    let mut queue = queue();
    queue.add("foo", NOW);
    queue.add("foo", at(1));
    queue.add("bar", at(10));
    assert_eq!((queue.stats(NOW).depth, queue.stats(NOW).adds), (2, 2));
    assert_eq!(queue.get(at(50)), Get::Item("foo"));
    // Added while it is processed: it counts, and waits from now on.
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
fn duration_falls_into_the_first_matching_bucket() {
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
fn finished_item_leaves_no_state() {
    let item = std::sync::Arc::new(());
    let mut queue = QueueState::new(WorkQueueOptions::default());
    queue.add(item.clone(), NOW);
    queue.add_rate_limited(item.clone(), NOW);
    while let Get::Item(item) = queue.get(at(1_000)) {
        queue.done(&item, at(1_000));
        queue.forget(&item);
    }
    assert_eq!(std::sync::Arc::strong_count(&item), 1);
}
