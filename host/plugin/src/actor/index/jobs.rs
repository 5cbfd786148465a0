//! The objects that an index actor computes next.
//!
//! One of which the cache has only the head, but the index needs more, is read first. Its source's other objects wait
//! behind it; other sources do not. If it cannot be read, it is read again after a pause: an index with holes would
//! count as complete.

use std::collections::{BTreeMap, VecDeque};
use std::sync::Arc;
use std::time::Duration;

use informant_cache::index_feed::{IndexJob, IndexResult};
use informant_cache::{AnswerBody, BodyUnavailable, Catalog, IndexFeedHandle, Moment};
use informant_object::{Object, SourceId};
use tokio::sync::oneshot;
use tokio::sync::oneshot::error::TryRecvError;

use crate::bodies::BODY_WAIT_MAX;

/// Objects taken from the feed at once.
const BATCH_OBJECTS_MAX: usize = 64;

/// The pause of a source after one of its objects could not be read: 1 s. Then it is read again.
pub(super) const BODY_READ_PAUSE: Duration = Duration::from_secs(1);

/// Jobs of the feed, in the order in which they are computed.
#[derive(Default)]
pub(super) struct IndexJobs {
    /// To be computed next.
    ready: VecDeque<IndexJob>,
    taken: Vec<IndexJob>,
    /// The sources that wait for a body.
    reads: BTreeMap<SourceId, BodyRead>,
}

/// A source that waits for a body.
struct BodyRead {
    /// The first is the one that is read.
    jobs: VecDeque<IndexJob>,
    /// None: it could not be read, and the source pauses.
    answer: Option<oneshot::Receiver<Result<Object, BodyUnavailable>>>,
    /// When the read is given up, or the pause ends.
    until: Moment,
}

/// What follows the wait of a source.
enum Waited {
    Still,
    /// The first job has a body now, or is read again.
    Over,
    /// The first job's object is no longer there.
    Gone,
}

/// Wakes the actor.
pub(super) type Waker = Arc<dyn Fn() + Send + Sync>;

impl IndexJobs {
    pub(super) fn clear(&mut self) {
        self.ready.clear();
        self.reads.clear();
    }

    pub(super) fn is_empty(&self) -> bool {
        self.ready.is_empty()
    }

    pub(super) fn pop(&mut self) -> Option<IndexJob> {
        self.ready.pop_front()
    }

    /// Takes what `feed` hands out, if nothing else is left to compute.
    pub(super) fn refill(&mut self, feed: &IndexFeedHandle, now: Moment) {
        self.end_waits(feed, now);
        if self.ready.is_empty() {
            feed.next_batch(BATCH_OBJECTS_MAX, &mut self.taken);
            self.ready.extend(self.taken.drain(..));
        }
    }

    /// When to [refill](Self::refill) at the latest.
    pub(super) fn next_end(&self) -> Option<Moment> {
        self.reads.values().map(|read| read.until).min()
    }

    /// Lets `job` wait behind another one of its source, if that is being read. Otherwise returns it.
    pub(super) fn queue_behind(&mut self, job: IndexJob, feed: &IndexFeedHandle) -> Option<IndexJob> {
        let Some(read) = self.reads.get_mut(&job.source) else {
            return Some(job);
        };
        // Its back-fill may have started again since, which ended the pause.
        feed.pause(job.source);
        read.jobs.push_back(job);
        None
    }

    /// Reads the object of `job`. No other object of its source is computed before.
    pub(super) fn read(&mut self, job: IndexJob, feed: &IndexFeedHandle, catalog: &Catalog, waker: Waker, now: Moment) {
        let Some(source) = catalog.source(job.source) else {
            return feed.complete([gone(job)]);
        };
        feed.pause(job.source);
        let (sender, answer) = oneshot::channel();
        source.read_body(&job.object, Box::new(WaitingIndex { sender, waker }));
        let read = BodyRead {
            jobs: VecDeque::from([job]),
            answer: Some(answer),
            until: now + BODY_WAIT_MAX,
        };
        self.reads.insert(source.id(), read);
    }

    /// Ends the waits whose body is there or whose time is over.
    fn end_waits(&mut self, feed: &IndexFeedHandle, now: Moment) {
        let mut over = Vec::new();
        for (source, read) in &mut self.reads {
            match read.look(now) {
                Waited::Still => continue,
                Waited::Over => {}
                Waited::Gone => feed.complete(read.jobs.pop_front().map(gone)),
            }
            over.push(*source);
        }
        for source in over {
            let jobs = self.reads.remove(&source).map(|read| read.jobs).unwrap_or_default();
            // Before later jobs of the source, which may be about the same objects.
            jobs.into_iter().rev().for_each(|job| self.ready.push_front(job));
            feed.resume(source);
        }
    }
}

/// An index that waits for a body, until it gives up.
struct WaitingIndex {
    sender: oneshot::Sender<Result<Object, BodyUnavailable>>,
    waker: Waker,
}

impl AnswerBody for WaitingIndex {
    fn is_closed(&self) -> bool {
        self.sender.is_closed()
    }

    fn send(self: Box<Self>, body: Result<Object, BodyUnavailable>) -> bool {
        let is_taken = self.sender.send(body).is_ok();
        (self.waker)();
        is_taken
    }
}

impl BodyRead {
    fn look(&mut self, now: Moment) -> Waited {
        let Some(answer) = &mut self.answer else {
            return if self.until <= now { Waited::Over } else { Waited::Still };
        };
        match answer.try_recv() {
            Ok(Ok(body)) => {
                if let Some(first) = self.jobs.front_mut() {
                    first.object = body;
                }
                return Waited::Over;
            }
            Ok(Err(BodyUnavailable::Gone)) => return Waited::Gone,
            Err(TryRecvError::Empty) if now < self.until => return Waited::Still,
            // Too late, or the source ended.
            Ok(Err(_)) | Err(_) => {}
        }
        self.answer = None;
        self.until = now + BODY_READ_PAUSE;
        Waited::Still
    }
}

/// Nothing is indexed of an object that was deleted: the delete follows.
fn gone(job: IndexJob) -> IndexResult {
    job.answer(Err(BodyUnavailable::Gone.to_string()))
}

#[cfg(test)]
mod tests {
    use std::sync::Mutex;

    use informant_cache::index_feed::{IndexPoll, IndexState};
    use informant_cache::{BodyAnswer, ReadBodies, SourceInfo, StoreWriter};
    use informant_object::Shape;

    use super::*;

    /// How a read ends.
    enum Reply {
        Body,
        Fails,
        Gone,
        /// Without an answer.
        Waits,
    }

    /// Replies in this order, and then with the body.
    #[derive(Default)]
    struct Bodies {
        replies: Mutex<VecDeque<Reply>>,
        unanswered: Mutex<Vec<BodyAnswer>>,
    }

    impl ReadBodies for Bodies {
        fn read_body(&self, head: &Object, answer: BodyAnswer) {
            match self.replies.lock().unwrap().pop_front() {
                None | Some(Reply::Body) => drop(answer.send(Ok(pod(head.namespace(), head.name())))),
                Some(Reply::Fails) => drop(answer.send(Err(BodyUnavailable::Failed("429".to_owned())))),
                Some(Reply::Gone) => drop(answer.send(Err(BodyUnavailable::Gone))),
                Some(Reply::Waits) => self.unanswered.lock().unwrap().push(answer),
            }
        }
    }

    /// A feed over two sources: of the objects of `shed` the cache has only heads.
    struct Rig {
        catalog: Catalog,
        feed: IndexFeedHandle,
        jobs: IndexJobs,
        bodies: Arc<Bodies>,
        now: Moment,
        shed: SourceId,
        whole: SourceId,
    }

    fn pod(namespace: &str, name: &str) -> Object {
        let json = format!(
            r#"{{"apiVersion":"v1","kind":"Pod","metadata":{{"namespace":"{namespace}","name":"{name}","uid":"{name}","resourceVersion":"1"}},"spec":{{"text":"{}"}}}}"#,
            "x".repeat(1_024)
        );
        Object::parse(json.as_bytes(), &Shape::of("v1", "Pod")).unwrap()
    }

    impl Rig {
        fn new(replies: impl Into<VecDeque<Reply>>) -> Rig {
            let (catalog, feed) = (Catalog::new(), IndexFeedHandle::new(Vec::new()));
            feed.loaded();
            let add = |informer: &str, is_shed: bool, names: &[&str]| {
                let info = SourceInfo {
                    informer: informer.to_owned(),
                    cluster: String::new(),
                    api_version: "v1".to_owned(),
                    kind: "Pod".to_owned(),
                    resource: "v1/pods".to_owned(),
                    namespace: None,
                    namespaced: true,
                    partial: false,
                };
                let id = catalog.add_source(info);
                let mut writer = StoreWriter::publishing_to(&catalog, id).unwrap();
                if is_shed {
                    writer.shed_namespace("web");
                }
                names.iter().for_each(|name| drop(writer.add(pod("web", name))));
                feed.add_source(id, Arc::new(|| {}));
                feed.begin_backfill(id, &writer.publish());
                id
            };
            let (shed, whole) = (add("shed", true, &["a", "b"]), add("whole", false, &["z"]));
            let bodies = Arc::new(Bodies {
                replies: Mutex::new(replies.into()),
                ..Bodies::default()
            });
            let reader = Arc::clone(&bodies) as Arc<dyn ReadBodies>;
            catalog.source(shed).unwrap().set_body_reader(reader);
            Rig {
                catalog,
                feed,
                jobs: IndexJobs::default(),
                bodies,
                now: Moment::ZERO,
                shed,
                whole,
            }
        }

        /// Computes what can be computed after `millis`, and returns its names.
        fn work_after(&mut self, millis: u64) -> String {
            self.now += Duration::from_millis(millis);
            let mut computed = Vec::new();
            loop {
                self.jobs.refill(&self.feed, self.now);
                let Some(job) = self.jobs.pop() else {
                    return computed.join(" ");
                };
                let Some(job) = self.jobs.queue_behind(job, &self.feed) else {
                    continue;
                };
                if job.object.is_head() {
                    let waker: Waker = Arc::new(|| {});
                    self.jobs.read(job, &self.feed, &self.catalog, waker, self.now);
                } else {
                    computed.push(job.object.name().to_owned());
                    self.feed.complete([job.answer(Ok(Vec::new()))]);
                }
            }
        }

        fn is_ready(&self, source: SourceId) -> bool {
            matches!(self.feed.poll(source, self.now), IndexPoll::Ready(_))
        }
    }

    #[test]
    fn an_object_that_cannot_be_read_is_read_again() {
        let mut rig = Rig::new([Reply::Fails]);
        assert_eq!(rig.work_after(0), "z");
        assert!(rig.is_ready(rig.whole) && !rig.is_ready(rig.shed));
        assert_eq!(
            rig.feed.state(rig.shed),
            Some(IndexState::Backfilling { done: 2, total: 2 })
        );
        assert_eq!(rig.jobs.next_end(), Some(rig.now + BODY_READ_PAUSE));
        assert_eq!(rig.work_after(999), "");
        assert_eq!(rig.work_after(1), "a b");
        assert!(rig.is_ready(rig.shed) && rig.feed.failures().is_empty());
    }

    #[test]
    fn a_read_without_an_answer_delays_no_other_source() {
        let mut rig = Rig::new([Reply::Body, Reply::Waits]);
        assert_eq!(rig.work_after(0), "a z");
        assert_eq!(rig.work_after(5_999), "");
        assert_eq!(rig.work_after(1_000), "b");
        assert!(rig.is_ready(rig.shed));
    }

    #[test]
    fn an_answer_that_comes_later_is_used() {
        let mut rig = Rig::new([Reply::Waits]);
        assert_eq!(rig.work_after(0), "z");
        let answer = rig.bodies.unanswered.lock().unwrap().pop().unwrap();
        assert!(answer.send(Ok(pod("web", "a"))));
        assert_eq!(rig.work_after(1), "a b");
    }

    #[test]
    fn an_object_that_is_gone_is_left_out() {
        let mut rig = Rig::new([Reply::Gone]);
        assert_eq!(rig.work_after(0), "b z");
        assert!(rig.is_ready(rig.shed));
        assert_eq!(rig.feed.failures().len(), 1);
    }

    #[test]
    fn a_back_fill_that_starts_again_is_complete() {
        let mut rig = Rig::new([Reply::Waits]);
        rig.work_after(0);
        rig.feed.loaded();
        let snapshot = rig.catalog.source(rig.shed).unwrap().snapshot();
        rig.feed.begin_backfill(rig.shed, &snapshot);
        assert_eq!(rig.work_after(1), "");
        rig.work_after(5_000);
        assert_eq!(rig.work_after(1_000), "a b a b");
        assert!(rig.is_ready(rig.shed));
    }
}
