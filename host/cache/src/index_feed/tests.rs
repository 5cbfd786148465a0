//! The feed's rules one by one, on real stores. The index function: the words of `spec` are the values in `word`, and their
//! number is the one in `count`; an object with the word `bad` fails.

mod property;

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use informant_object::{Key, KeyRef, Object, SourceId};

use super::*;
use crate::listener::{Change, ChangeKind};
use crate::{IndexError, Moment, Reason, Snapshot, StoreWriter, testing};

const PODS: SourceId = SourceId(1);
const NODES: SourceId = SourceId(2);

fn object(name: &str, words: &str) -> Object {
    testing::pod_with(name, 1, &format!("{words:?}"))
}

/// What the index function says.
fn values(object: &Object) -> Result<NamedValues, String> {
    let text = object.text();
    let (_, spec) = text.split_once(r#""spec":""#).expect("every test object has it");
    let words: Vec<String> = spec
        .trim_end_matches(['"', '}'])
        .split_whitespace()
        .map(ToOwned::to_owned)
        .collect();
    if words.iter().any(|word| word == "bad") {
        return Err("bad object".to_owned());
    }
    let count = words.len().to_string();
    Ok(vec![("word".to_owned(), words), ("count".to_owned(), vec![count])])
}

/// One loop with its store. Follows the protocol of [`IndexFeedHandle`].
struct Loop {
    source: SourceId,
    feed: IndexFeedHandle,
    store: StoreWriter,
    woken: Arc<AtomicBool>,
}

/// All the jobs there are, computed.
fn work(feed: &IndexFeedHandle) -> usize {
    let mut done = 0;
    loop {
        let jobs = take(feed, 3);
        if jobs.is_empty() {
            return done;
        }
        done += jobs.len();
        complete(feed, jobs);
    }
}

fn take(feed: &IndexFeedHandle, max: usize) -> Vec<IndexJob> {
    let mut jobs = Vec::new();
    feed.next_batch(max, &mut jobs);
    jobs
}

fn complete(feed: &IndexFeedHandle, jobs: Vec<IndexJob>) {
    feed.complete(jobs.into_iter().map(|job| {
        let values = values(&job.object);
        job.answer(values)
    }));
}

fn names(jobs: &[IndexJob]) -> String {
    jobs.iter().map(|job| job.object.name()).collect::<Vec<_>>().join(" ")
}

fn new_feed() -> IndexFeedHandle {
    IndexFeedHandle::new(["word".to_owned(), "count".to_owned()])
}

impl Loop {
    fn new(source: SourceId, feed: &IndexFeedHandle) -> Loop {
        let woken = Arc::new(AtomicBool::new(false));
        let flag = woken.clone();
        feed.add_source(source, Arc::new(move || flag.store(true, Ordering::Relaxed)));
        let mut store = StoreWriter::new();
        store.declare_index("word").unwrap();
        store.declare_index("count").unwrap();
        Loop {
            source,
            feed: feed.clone(),
            store,
            woken,
        }
    }

    /// A loop whose source has `objects` and is attached.
    fn attached(feed: &IndexFeedHandle, objects: &[(&str, &str)]) -> Loop {
        let mut looped = Loop::new(PODS, feed);
        looped.write(objects);
        feed.loaded();
        looped.backfill();
        work(feed);
        assert_eq!(looped.poll(Moment::ZERO), "ready");
        looped
    }

    fn backfill(&mut self) {
        if self.feed.wants_backfill(self.source) {
            self.feed.begin_backfill(self.source, &self.store.publish());
        }
    }

    /// Writes and submits, without publishing. No words: a delete.
    fn write(&mut self, objects: &[(&str, &str)]) {
        let changes: Vec<Change> = objects
            .iter()
            .filter_map(|(name, words)| self.change(name, words))
            .collect();
        self.feed.submit(self.source, &changes);
    }

    fn change(&mut self, name: &str, words: &str) -> Option<Change> {
        let kind = if words.is_empty() {
            let last = self.store.delete(KeyRef::new("default", name))?;
            ChangeKind::Delete {
                key: last.key().to_key(),
                last: Some(last),
                final_state_unknown: false,
            }
        } else {
            let new = object(name, words);
            match self.store.add(new.clone()) {
                Some(old) => ChangeKind::Update { old, new },
                None => ChangeKind::Add(new),
            }
        };
        Some(Change {
            kind,
            reason: Reason::Watch,
            received: Moment::ZERO,
        })
    }

    /// Polls, and publishes unless it has to wait.
    fn poll(&mut self, now: Moment) -> &'static str {
        let poll = self.feed.poll(self.source, now);
        self.heed(poll)
    }

    fn overrun(&mut self, now: Moment) -> &'static str {
        let poll = self.feed.overrun(self.source, now);
        self.heed(poll)
    }

    fn heed(&mut self, poll: IndexPoll) -> &'static str {
        match poll {
            IndexPoll::Computing => "computing",
            IndexPoll::Ready(contents) => {
                for (name, contents) in contents {
                    self.store.attach_index(&name, contents).unwrap();
                }
                let snapshot = self.store.publish();
                assert_eq!(index_of(&snapshot), recomputed(&snapshot), "attached whole");
                "ready"
            }
            IndexPoll::Detached => {
                self.detach();
                "detached"
            }
        }
    }

    fn detach(&mut self) {
        for name in ["word", "count"] {
            self.store.detach_index(name).unwrap();
        }
        let snapshot = self.store.publish();
        let answer = snapshot.index_values("word");
        assert!(matches!(answer, Err(IndexError::NotReady { .. })), "never a part");
    }

    fn take_woken(&self) -> bool {
        self.woken.swap(false, Ordering::Relaxed)
    }

    fn state(&self) -> IndexState {
        self.feed.state(self.source).unwrap()
    }
}

type Index = BTreeMap<(&'static str, String), BTreeSet<Key>>;

fn index_of(snapshot: &Snapshot) -> Index {
    let mut index = Index::new();
    for name in ["word", "count"] {
        for value in snapshot.index_values(name).unwrap() {
            let keys = snapshot.index_keys(name, &value).unwrap().map(KeyRef::to_key).collect();
            index.insert((name, value.to_string()), keys);
        }
    }
    index
}

/// The same from nothing but the objects.
fn recomputed(snapshot: &Snapshot) -> Index {
    let mut index = Index::new();
    for object in snapshot.iter() {
        for (name, values) in values(object).unwrap_or_default() {
            let name = if name == "word" { "word" } else { "count" };
            for value in values {
                index.entry((name, value)).or_default().insert(object.key().to_key());
            }
        }
    }
    index
}

fn at(seconds: u64) -> Moment {
    Moment::ZERO + Duration::from_secs(seconds)
}

#[test]
fn nobody_waits_for_a_plugin_that_is_not_loaded() {
    let feed = new_feed();
    let mut pods = Loop::new(PODS, &feed);
    pods.write(&[("a", "x")]);
    assert_eq!(pods.poll(at(0)), "detached");
    assert!(!feed.wants_backfill(PODS));
    assert!(take(&feed, 10).is_empty());
    assert_eq!(
        pods.state(),
        IndexState::Detached {
            reason: "the plugin is not loaded yet".into()
        }
    );
    feed.loaded();
    assert!(pods.take_woken() && feed.wants_backfill(PODS));
}

#[test]
fn an_index_is_attached_whole_once_every_object_was_computed() {
    let feed = new_feed();
    let mut pods = Loop::new(PODS, &feed);
    pods.write(&[("a", "x"), ("b", "x y"), ("c", "z")]);
    feed.loaded();
    pods.backfill();
    assert_eq!(pods.state(), IndexState::Backfilling { done: 0, total: 3 });
    let first = take(&feed, 2);
    assert_eq!(names(&first), "a b");
    assert_eq!(pods.state(), IndexState::Backfilling { done: 2, total: 3 });
    complete(&feed, first);
    assert_eq!(pods.poll(at(0)), "detached");
    pods.take_woken();
    work(&feed);
    assert!(pods.take_woken(), "an idle loop is told that it is whole");
    assert_eq!(pods.poll(at(0)), "ready");
    assert_eq!(pods.state(), IndexState::Attached);
    let both: Vec<&str> = pods
        .store
        .published()
        .by_index("word", "x")
        .unwrap()
        .map(Object::name)
        .collect();
    assert_eq!(both, ["a", "b"]);
}

#[test]
fn a_source_without_objects_is_attached_as_soon_as_a_worker_asks() {
    let feed = new_feed();
    let mut pods = Loop::new(PODS, &feed);
    feed.loaded();
    pods.backfill();
    pods.take_woken();
    assert!(take(&feed, 10).is_empty());
    assert!(pods.take_woken());
    assert_eq!(pods.poll(at(0)), "ready");
}

#[test]
fn what_changes_during_the_back_fill_is_computed_once_and_as_it_is() {
    let feed = new_feed();
    let mut pods = Loop::new(PODS, &feed);
    pods.write(&[("a", "x"), ("b", "x"), ("c", "x"), ("d", "x")]);
    feed.loaded();
    pods.backfill();
    let first = take(&feed, 1);
    // Behind the cursor, being computed; ahead of it; ahead and gone; new.
    pods.write(&[("a", "y"), ("b", "y"), ("c", ""), ("e", "y")]);
    pods.poll(at(0));
    assert_eq!(names(&take(&feed, 1)), "d", "the back-fill goes first");
    let rest = take(&feed, 10);
    assert_eq!(names(&rest), "a b e");
    complete(&feed, rest);
    complete(&feed, first);
    assert_eq!(
        feed.counters().superseded,
        1,
        "what was computed of a's old state came too late"
    );
    assert_eq!(pods.poll(at(0)), "detached", "d is still being computed");
}

#[test]
fn a_batch_waits_for_its_values_and_is_published_with_them() {
    let feed = new_feed();
    let mut pods = Loop::attached(&feed, &[("a", "x")]);
    pods.write(&[("a", "y"), ("b", "y z")]);
    assert_eq!(pods.poll(at(0)), "computing");
    assert!(
        pods.store.published().by_index("word", "x").unwrap().next().is_some(),
        "readers see the last publish"
    );
    pods.take_woken();
    work(&feed);
    assert!(pods.take_woken());
    assert_eq!(pods.poll(at(0)), "ready");
}

#[test]
fn a_batch_of_deletes_waits_for_nobody() {
    let feed = new_feed();
    let mut pods = Loop::attached(&feed, &[("a", "x"), ("b", "x")]);
    pods.write(&[("a", "")]);
    assert_eq!(pods.poll(at(0)), "ready");
}

#[test]
fn an_object_deleted_while_it_is_computed_leaves_nothing_behind() {
    let feed = new_feed();
    let mut pods = Loop::attached(&feed, &[("a", "x")]);
    pods.write(&[("b", "x")]);
    let jobs = take(&feed, 10);
    pods.write(&[("b", "")]);
    assert_eq!(pods.poll(at(0)), "ready");
    complete(&feed, jobs);
    assert_eq!((pods.poll(at(0)), feed.counters().superseded), ("ready", 1));
}

#[test]
fn an_overrun_detaches_until_the_index_has_caught_up() {
    let feed = new_feed();
    let mut pods = Loop::attached(&feed, &[("a", "x")]);
    pods.write(&[("b", "x")]);
    let slow = take(&feed, 10);
    assert_eq!(pods.poll(at(0)), "computing");
    pods.overrun(at(0));
    pods.write(&[("c", "x")]);
    assert_eq!(pods.poll(at(0)), "detached", "nobody waits for it any more");
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
fn values_that_come_at_the_last_moment_are_no_overrun() {
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
    let names: Vec<&str> = pods
        .store
        .published()
        .by_index("word", "x")
        .unwrap()
        .map(Object::name)
        .collect();
    assert_eq!(names, ["b"]);
    let failure = IndexFailure {
        source: PODS,
        key: Key::new("default", "a"),
        error: "bad object".to_owned(),
    };
    assert_eq!((feed.failures(), feed.counters().failed), (vec![failure], 1));
    pods.write(&[("a", "x")]);
    work(&feed);
    assert_eq!(pods.poll(at(0)), "ready");
    assert!(feed.failures().is_empty(), "it is well again");
}

#[test]
fn values_for_an_index_that_was_not_declared_or_too_many_of_them_are_a_failure() {
    let feed = new_feed();
    let mut pods = Loop::attached(&feed, &[]);
    pods.write(&[("a", "x"), ("b", "x"), ("c", "x")]);
    let mut jobs = take(&feed, 10).into_iter();
    let many: Vec<String> = (0..2_000).map(|number| number.to_string()).collect();
    let named = |name: &str, values: Vec<String>| {
        Ok(vec![
            ("count".to_owned(), vec!["1".to_owned()]),
            (name.to_owned(), values),
        ])
    };
    feed.complete([
        jobs.next().unwrap().answer(named("other", Vec::new())),
        jobs.next().unwrap().answer(named("word", many)),
        jobs.next().unwrap().answer(Err("trapped".to_owned())),
    ]);
    let errors: Vec<String> = feed
        .failures()
        .into_iter()
        .map(|failure| format!("{}: {}", failure.key, failure.error))
        .collect();
    insta::assert_snapshot!(errors.join("\n"), @r#"
    default/a: the plugin gave values for "other", which its manifest does not name as an index
    default/b: more than 1024 values or 65536 bytes of them for one object; index something that has fewer values
    default/c: trapped
    "#);
    assert!(
        matches!(feed.poll(PODS, at(0)), IndexPoll::Ready(contents) if contents.iter().all(|(_, index)| index.is_empty()))
    );
}

#[test]
fn a_plugin_that_fails_detaches_at_once_and_starts_from_nothing_when_it_is_back() {
    let feed = new_feed();
    let mut pods = Loop::attached(&feed, &[("a", "x")]);
    pods.write(&[("b", "x")]);
    let lost = take(&feed, 10);
    pods.take_woken();
    feed.failed("it trapped 5 times in 10 s");
    assert!(pods.take_woken(), "the loop that waits is told");
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

#[test]
fn what_a_loop_waits_for_goes_before_a_back_fill() {
    let feed = new_feed();
    let mut pods = Loop::attached(&feed, &[("a", "x")]);
    let mut nodes = Loop::new(NODES, &feed);
    nodes.write(&[("n", "x"), ("o", "x")]);
    nodes.backfill();
    pods.write(&[("b", "x")]);
    assert_eq!(names(&take(&feed, 2)), "b n");
}

#[test]
fn sources_of_the_same_urgency_take_turns() {
    let feed = new_feed();
    let many: Vec<String> = (0..200).map(|number| format!("pod-{number:03}")).collect();
    let many: Vec<(&str, &str)> = many.iter().map(|name| (&**name, "x")).collect();
    let mut pods = Loop::new(PODS, &feed);
    pods.write(&many);
    let mut nodes = Loop::new(NODES, &feed);
    nodes.write(&[("n", "x")]);
    feed.loaded();
    pods.backfill();
    nodes.backfill();
    assert!(take(&feed, 100).iter().any(|job| job.source == NODES));
}

#[test]
fn workers_are_woken_once_and_only_if_they_were_told_to_wait() {
    let feed = new_feed();
    let woken = Arc::new(AtomicBool::new(false));
    let flag = woken.clone();
    feed.set_worker_waker(Arc::new(move || assert!(!flag.swap(true, Ordering::Relaxed), "once")));
    let mut pods = Loop::attached(&feed, &[("a", "x")]);
    woken.store(false, Ordering::Relaxed);
    assert!(take(&feed, 10).is_empty());
    pods.write(&[("b", "x")]);
    assert!(woken.load(Ordering::Relaxed));
    pods.write(&[("c", "x")]);
    assert_eq!(names(&take(&feed, 10)), "b c");
}

#[test]
fn a_removed_source_is_forgotten() {
    let feed = new_feed();
    let mut pods = Loop::attached(&feed, &[("a", "x")]);
    pods.write(&[("b", "x")]);
    let jobs = take(&feed, 10);
    feed.remove_source(PODS);
    complete(&feed, jobs);
    assert_eq!((feed.state(PODS), feed.counters().superseded), (None, 1));
    assert!(matches!(feed.poll(PODS, at(0)), IndexPoll::Detached));
}
