//! The feed's rules one by one, on real stores. The index function: the words of `spec` are the values in `word`, and
//! their number is the one in `count`; an object with the word `bad` fails.

mod detached;
mod property;

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use informant_object::{Key, KeyRef, Object, SourceId};

use super::*;
use crate::listener::{ChangeKind, ObjectChange};
use crate::{IndexError, Moment, Reason, Snapshot, StoreWriter, testing};

const PODS: SourceId = SourceId(1);
const NODES: SourceId = SourceId(2);

fn object(name: &str, words: &str) -> Object {
    testing::pod_with(name, 1, &format!("{words:?}"))
}

/// The index function.
fn values(object: &Object) -> Result<IndexValues, String> {
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
    Ok(vec![words, vec![count]])
}

/// One loop with its store. Follows the protocol of [`IndexFeedHandle`].
struct Loop {
    source: SourceId,
    feed: IndexFeedHandle,
    store: StoreWriter,
    woken: Arc<AtomicBool>,
}

/// Computes all available jobs.
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
        let changes: Vec<ObjectChange> = objects
            .iter()
            .filter_map(|(name, words)| self.change(name, words))
            .collect();
        self.feed.submit(self.source, &changes);
    }

    fn change(&mut self, name: &str, words: &str) -> Option<ObjectChange> {
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
        Some(ObjectChange {
            kind,
            reason: Reason::Watch,
            received: Moment::ZERO,
        })
    }

    /// Polls, and publishes unless it has to wait.
    fn poll(&mut self, now: Moment) -> &'static str {
        let poll = self.feed.poll(self.source, now);
        self.handle_poll(poll)
    }

    fn overrun(&mut self, now: Moment) -> &'static str {
        let poll = self.feed.overrun(self.source, now);
        self.handle_poll(poll)
    }

    fn handle_poll(&mut self, poll: IndexPoll) -> &'static str {
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

    /// The names of the objects with this word, as readers find them.
    fn found(&self, word: &str) -> Vec<String> {
        let published = self.store.published();
        let objects = published.by_index("word", word).unwrap();
        objects.map(|object| object.name().to_owned()).collect()
    }

    fn take_woken(&self) -> bool {
        self.woken.swap(false, Ordering::Relaxed)
    }

    fn state(&self) -> IndexState {
        self.feed.state(self.source).unwrap()
    }
}

/// An attached source with an object `a`, and the computation of another one, `b`.
fn one_being_computed() -> (IndexFeedHandle, Loop, Vec<IndexJob>) {
    let feed = new_feed();
    let mut pods = Loop::attached(&feed, &[("a", "x")]);
    pods.write(&[("b", "x")]);
    let jobs = take(&feed, 10);
    (feed, pods, jobs)
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

/// The same, computed from the objects only.
fn recomputed(snapshot: &Snapshot) -> Index {
    let mut index = Index::new();
    for object in snapshot.iter() {
        for (name, values) in ["word", "count"].into_iter().zip(values(object).unwrap_or_default()) {
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
fn loop_does_not_wait_for_an_unloaded_plugin() {
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
fn index_is_attached_once_every_object_is_computed() {
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
    assert!(pods.take_woken(), "an idle loop is woken when the index is complete");
    assert_eq!(pods.poll(at(0)), "ready");
    assert_eq!(pods.state(), IndexState::Attached);
    assert_eq!(pods.found("x"), ["a", "b"]);
}

#[test]
fn empty_source_is_attached_at_the_first_poll_of_workers() {
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
fn changes_during_the_backfill_are_computed_once() {
    let feed = new_feed();
    let mut pods = Loop::new(PODS, &feed);
    pods.write(&[("a", "x"), ("b", "x"), ("c", "x"), ("d", "x")]);
    feed.loaded();
    pods.backfill();
    let first = take(&feed, 1);
    // Behind the cursor, being computed; ahead of it; ahead and deleted; new.
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
fn a_batch_is_published_with_its_index_values() {
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
fn deletes_need_no_computation() {
    let feed = new_feed();
    let mut pods = Loop::attached(&feed, &[("a", "x"), ("b", "x")]);
    pods.write(&[("a", "")]);
    assert_eq!(pods.poll(at(0)), "ready");
}

#[test]
fn object_deleted_while_computed_leaves_no_values() {
    let (feed, mut pods, jobs) = one_being_computed();
    pods.write(&[("b", "")]);
    assert_eq!(pods.poll(at(0)), "ready");
    complete(&feed, jobs);
    assert_eq!((pods.poll(at(0)), feed.counters().superseded), ("ready", 1));
}

#[test]
fn awaited_objects_go_before_a_backfill() {
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
fn waiting_workers_are_woken_once() {
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
    let (feed, _pods, jobs) = one_being_computed();
    feed.remove_source(PODS);
    complete(&feed, jobs);
    assert_eq!((feed.state(PODS), feed.counters().superseded), (None, 1));
    assert!(matches!(feed.poll(PODS, at(0)), IndexPoll::Detached));
}
