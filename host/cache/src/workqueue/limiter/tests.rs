use super::*;

const NOW: Moment = Moment::ZERO;

fn millis(limiter: &mut dyn RateLimiter<&'static str>, item: &'static str, times: usize) -> Vec<u128> {
    (0..times).map(|_| limiter.when(&item, NOW).as_millis()).collect()
}

/// client-go: TestItemExponentialFailureRateLimiter.
#[test]
fn the_wait_of_an_item_doubles_with_its_failures_until_it_is_forgotten() {
    let mut limiter = ItemExponentialFailureRateLimiter::new(Duration::from_millis(1), Duration::from_secs(1));
    assert_eq!(millis(&mut limiter, "one", 5), [1, 2, 4, 8, 16]);
    assert_eq!(limiter.num_requeues(&"one"), 5);
    assert_eq!(millis(&mut limiter, "two", 2), [1, 2]);
    limiter.forget(&"one");
    assert_eq!(limiter.num_requeues(&"one"), 0);
    assert_eq!(millis(&mut limiter, "one", 1), [1]);
    assert_eq!(limiter.failing(), 2);
}

/// client-go: TestItemExponentialFailureRateLimiterOverFlow.
#[test]
fn the_wait_ends_at_its_maximum_however_often_an_item_fails() {
    let mut limiter = ItemExponentialFailureRateLimiter::new(Duration::from_millis(1), Duration::from_secs(1_000));
    assert_eq!(millis(&mut limiter, "one", 200).pop(), Some(1_000_000));
    let mut limiter = ItemExponentialFailureRateLimiter::new(Duration::MAX, Duration::MAX);
    for _ in 0..200 {
        assert_eq!(limiter.when(&"one", NOW), Duration::MAX);
    }
    let mut limiter = ItemExponentialFailureRateLimiter::new(Duration::ZERO, Duration::from_secs(1));
    assert_eq!(millis(&mut limiter, "one", 200).pop(), Some(0));
}

/// client-go: TestItemFastSlowRateLimiter.
#[test]
fn an_item_is_fast_for_some_failures_and_slow_after_them() {
    let (fast, slow) = (Duration::from_millis(5), Duration::from_secs(10));
    let mut limiter = ItemFastSlowRateLimiter::new(fast, slow, 3);
    assert_eq!(millis(&mut limiter, "one", 5), [5, 5, 5, 10_000, 10_000]);
    assert_eq!(limiter.num_requeues(&"one"), 5);
    assert_eq!(millis(&mut limiter, "two", 1), [5]);
    limiter.forget(&"one");
    assert_eq!(millis(&mut limiter, "one", 1), [5]);
}

#[test]
fn a_bucket_lets_a_burst_through_and_then_one_per_interval() {
    let mut limiter = BucketRateLimiter::new(DEFAULT_BUCKET_PER_SECOND, 3);
    assert_eq!(millis(&mut limiter, "any", 6), [0, 0, 0, 100, 200, 300]);
    // A second later what was borrowed is paid back and the bucket is full again.
    let later = NOW + Duration::from_millis(1_000);
    let waits: Vec<Duration> = (0..4).map(|_| limiter.when(&"any", later)).collect();
    assert_eq!(waits[..3], [Duration::ZERO; 3]);
    assert_eq!(waits[3], Duration::from_millis(100));
    assert_eq!(RateLimiter::<&str>::num_requeues(&limiter, &"any"), 0);
}

/// client-go: TestMaxOfRateLimiter.
#[test]
fn of_several_limiters_the_slowest_says_and_all_of_them_count_and_forget() {
    let fast_slow = ItemFastSlowRateLimiter::new(Duration::from_millis(5), Duration::from_secs(3), 3);
    let exponential = ItemExponentialFailureRateLimiter::new(Duration::from_millis(1), Duration::from_secs(1));
    let mut limiter = MaxOfRateLimiter::new(vec![Box::new(fast_slow), Box::new(exponential)]);
    assert_eq!(millis(&mut limiter, "one", 5), [5, 5, 5, 3_000, 3_000]);
    assert_eq!((limiter.num_requeues(&"one"), limiter.num_requeues(&"two")), (5, 0));
    limiter.forget(&"one");
    assert_eq!(millis(&mut limiter, "one", 1), [5]);
}

/// client-go: TestWithMaxWaitRateLimiter.
#[test]
fn a_limiter_with_a_longest_wait_never_says_a_longer_one() {
    let inner = ItemExponentialFailureRateLimiter::new(Duration::from_millis(5), Duration::from_secs(1_000));
    let mut limiter = WithMaxWaitRateLimiter::new(Box::new(inner), Duration::from_millis(500));
    let waits = millis(&mut limiter, "one", 100);
    assert_eq!(waits[..8], [5, 10, 20, 40, 80, 160, 320, 500]);
    assert!(waits[8..].iter().all(|&wait| wait == 500));
    assert_eq!(limiter.num_requeues(&"one"), 100);
    limiter.forget(&"one");
    assert_eq!(limiter.num_requeues(&"one"), 0);
}

#[test]
fn the_default_is_the_longer_of_the_items_own_wait_and_of_the_common_bucket() {
    let mut limiter = default_rate_limiter::<u32>();
    let first: Vec<u128> = (0..100).map(|item| limiter.when(&item, NOW).as_millis()).collect();
    assert!(first.iter().all(|&wait| wait == 5));
    // The burst is used up.
    assert_eq!(limiter.when(&100, NOW), Duration::from_millis(100));
    let mut longest = Duration::ZERO;
    for _ in 0..40 {
        longest = limiter.when(&7, NOW + Duration::from_secs(3_600));
    }
    assert_eq!(longest, DEFAULT_BACK_OFF_MAX);
    assert_eq!(
        default_item_based_rate_limiter().when(&7, NOW),
        Duration::from_millis(1)
    );
}

#[test]
fn a_limiter_that_remembers_enough_treats_further_items_as_failing_for_the_first_time() {
    let limiter = ItemExponentialFailureRateLimiter::new(Duration::from_millis(1), Duration::from_secs(1));
    let mut limiter = limiter.with_items_max(1);
    assert_eq!(millis(&mut limiter, "known", 3), [1, 2, 4]);
    assert_eq!(millis(&mut limiter, "late", 3), [1, 1, 1]);
    assert_eq!((limiter.failing(), limiter.num_requeues(&"late")), (1, 0));
}
