//! Detaching and reattaching an index: overruns, failures.

use super::*;
use crate::IndexFailures;

#[test]
fn overrun_detaches_until_caught_up() {
    let (feed, mut pods, slow) = one_being_computed();
    assert_eq!(pods.poll(at(0)), "computing");
    pods.overrun(at(0));
    pods.write(&[("c", "x")]);
    assert_eq!(pods.poll(at(0)), "detached", "the loop no longer waits for it");
    assert_eq!(
        pods.state(),
        IndexState::Behind {
            waiting: 2,
            held_until: None
        }
    );
    complete(&feed, slow);
    assert_eq!(work(&feed), 1, "only what is missing is computed, not everything again");
    assert_eq!(pods.poll(at(0)), "ready");
    assert_eq!(feed.counters().overruns, 1);
}

#[test]
fn a_second_overrun_within_the_window_holds_the_index_back() {
    let feed = new_feed();
    let mut pods = Loop::attached(&feed, &[("a", "x")]);
    let overrun = |pods: &mut Loop, now, words| {
        pods.write(&[("a", words)]);
        assert_eq!(pods.poll(now), "computing");
        pods.overrun(now);
        work(&feed);
    };
    overrun(&mut pods, at(0), "y");
    assert_eq!(pods.poll(at(1)), "ready");
    overrun(&mut pods, at(10), "z");
    assert_eq!((pods.poll(at(19)), feed.held_until(PODS)), ("detached", Some(at(20))));
    assert_eq!((pods.poll(at(20)), feed.held_until(PODS)), ("ready", None));
    overrun(&mut pods, at(20), "y");
    assert_eq!(feed.held_until(PODS), Some(at(40)), "for longer each time");
    assert_eq!(pods.poll(at(40)), "ready");
    overrun(&mut pods, at(60), "z");
    assert_eq!(pods.poll(at(60)), "ready", "the last overrun was long ago");
    assert_eq!((feed.counters().overruns, feed.counters().held), (4, 2));
}

#[test]
fn values_at_the_last_moment_avoid_the_overrun() {
    let feed = new_feed();
    let mut pods = Loop::attached(&feed, &[("a", "x")]);
    pods.write(&[("a", "y")]);
    work(&feed);
    assert_eq!((pods.overrun(at(0)), feed.counters().overruns), ("ready", 0));
}

#[test]
fn an_object_that_fails_is_absent_counted_and_listed() {
    let feed = new_feed();
    let mut pods = Loop::attached(&feed, &[("a", "x"), ("b", "x")]);
    pods.write(&[("a", "x bad")]);
    work(&feed);
    assert_eq!(pods.poll(at(0)), "ready");
    assert_eq!(pods.found("x"), ["b"]);
    let failure = IndexFailure {
        source: PODS,
        key: Key::new("default", "a"),
        error: "bad object".to_owned(),
    };
    assert_eq!((feed.failures(), feed.counters().failed), (vec![failure], 1));
    let absent = |pods: &Loop| {
        let snapshot = pods.store.published();
        snapshot.index_failures("word").map_or(0, IndexFailures::absent)
    };
    assert_eq!(absent(&pods), 1, "readers of the store see it, too");
    let lately = RecentFailures {
        count: 1,
        key: Key::new("default", "a"),
        error: "bad object".to_owned(),
    };
    assert_eq!(
        (feed.take_recent_failures(PODS), feed.take_recent_failures(PODS)),
        (Some(lately), None)
    );
    pods.write(&[("a", "x")]);
    work(&feed);
    assert_eq!(pods.poll(at(0)), "ready");
    assert_eq!(absent(&pods), 0);
    assert!(feed.failures().is_empty(), "it has recovered");
}

#[test]
fn missing_index_or_too_many_values_is_a_failure() {
    let feed = new_feed();
    let mut pods = Loop::attached(&feed, &[]);
    pods.write(&[("a", "x"), ("b", "x"), ("c", "x")]);
    let mut jobs = take(&feed, 10).into_iter();
    let many: Vec<String> = (0..2_000).map(|number| number.to_string()).collect();
    feed.complete([
        jobs.next().unwrap().answer(Ok(vec![Vec::new()])),
        jobs.next().unwrap().answer(Ok(vec![many, Vec::new()])),
        jobs.next().unwrap().answer(Err("trapped".to_owned())),
    ]);
    let errors: Vec<String> = feed
        .failures()
        .into_iter()
        .map(|failure| format!("{}: {}", failure.key, failure.error))
        .collect();
    insta::assert_snapshot!(errors.join("\n"), @r#"
    default/a: the plugin returned values for 1 indexes, but its manifest names 2
    default/b: more than 1024 values or 65536 bytes of them for one object; index a field with fewer values
    default/c: trapped
    "#);
    assert!(
        matches!(feed.poll(PODS, at(0)), IndexPoll::Ready(contents) if contents.iter().all(|(_, index)| index.is_empty()))
    );
}

#[test]
fn failed_plugin_detaches_and_backfills_from_scratch() {
    let (feed, mut pods, lost) = one_being_computed();
    pods.take_woken();
    feed.failed("it trapped 5 times in 10 s");
    assert!(pods.take_woken(), "the waiting loop is woken");
    assert_eq!(pods.poll(at(0)), "detached");
    assert_eq!(
        pods.state(),
        IndexState::Detached {
            reason: "it trapped 5 times in 10 s".into()
        }
    );
    feed.loaded();
    pods.backfill();
    complete(&feed, lost);
    assert_eq!(feed.counters().superseded, 1);
    assert_eq!(work(&feed), 2);
    assert_eq!(pods.poll(at(0)), "ready");
}
