use super::*;

const NOW: Moment = Moment::ZERO;

fn millis(limiter: &mut dyn RateLimiter<&'static str>, item: &'static str, times: usize) -> Vec<u128> {
    (0..times).map(|_| limiter.when(&item, NOW).as_millis()).collect()
}

/// client-go: TestItemExponentialFailureRateLimiter.
#[test]
fn exponential_limiter_doubles_until_forgotten() {
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
fn exponential_limiter_ends_at_its_maximum() {
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
fn fast_slow_limiter_switches_after_some_failures() {
    let (fast, slow) = (Duration::from_millis(5), Duration::from_secs(10));
    let mut limiter = ItemFastSlowRateLimiter::new(fast, slow, 3);
    assert_eq!(millis(&mut limiter, "one", 5), [5, 5, 5, 10_000, 10_000]);
    assert_eq!(limiter.num_requeues(&"one"), 5);
    assert_eq!(millis(&mut limiter, "two", 1), [5]);
    limiter.forget(&"one");
    assert_eq!(millis(&mut limiter, "one", 1), [5]);
}

#[test]
fn bucket_limiter_allows_a_burst_then_a_rate() {
    let mut limiter = BucketRateLimiter::new(DEFAULT_BUCKET_PER_SECOND, 3);
    assert_eq!(millis(&mut limiter, "any", 6), [0, 0, 0, 100, 200, 300]);
    // A second later the bucket is full again.
    let later = NOW + Duration::from_millis(1_000);
    let waits: Vec<Duration> = (0..4).map(|_| limiter.when(&"any", later)).collect();
    assert_eq!(waits[..3], [Duration::ZERO; 3]);
    assert_eq!(waits[3], Duration::from_millis(100));
    assert_eq!(RateLimiter::<&str>::num_requeues(&limiter, &"any"), 0);
}

/// client-go: TestMaxOfRateLimiter.
#[test]
fn max_of_limiter_takes_the_longest_wait() {
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
fn max_wait_limiter_caps_the_wait() {
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
fn default_limiter_combines_exponential_and_bucket() {
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
fn full_limiter_treats_new_items_as_first_failures() {
    let limiter = ItemExponentialFailureRateLimiter::new(Duration::from_millis(1), Duration::from_secs(1));
    let mut limiter = limiter.with_items_max(1);
    assert_eq!(millis(&mut limiter, "known", 3), [1, 2, 4]);
    assert_eq!(millis(&mut limiter, "late", 3), [1, 1, 1]);
    assert_eq!((limiter.failing(), limiter.num_requeues(&"late")), (1, 0));
}
