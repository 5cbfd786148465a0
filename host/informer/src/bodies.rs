//! Reads objects of which the store has only the head, with the rights and the selectors of the source.
//!
//! ```text
//! read_body ─▶ queue ─▶ on the page that is held? ─▶ LIST with fieldSelector=metadata.name=NAME
//!                                └ many of one namespace: the next page of a LIST of the namespace
//! ```
//!
//! All requests for bodies of a cluster share
//! [`BODY_READS_PER_SECOND_MAX`](crate::cluster_client::BODY_READS_PER_SECOND_MAX).

mod pages;
mod walk;

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use informant_cache::seeded_bug::{SeededBug, seeded_bug};
use informant_cache::{BodyAnswer, BodyUnavailable, Environment, ReadBodies, Source};
use informant_object::Object;
use tokio::sync::mpsc;
use tokio_util::sync::{CancellationToken, DropGuard};

pub(crate) use self::pages::{BodyPage, ReadSpec, page_objects};
use self::walk::Walk;
use crate::api::ApiError;
use crate::cluster_client::ClusterLink;
use crate::metrics::{CounterFamily, SourceMetrics};

/// Requests for bodies that may wait for each source. Further ones are answered with [`BodyUnavailable::Busy`].
pub(crate) const BODY_READS_QUEUED_MAX: usize = 256;

/// How long the read of one body may take: 2 s.
pub(crate) const BODY_READ_MAX: Duration = Duration::from_secs(2);

/// How long the read of a page of bodies may take: 5 s.
pub(crate) const BODY_PAGE_READ_MAX: Duration = Duration::from_secs(5);

/// How long a page is held, and bodies are answered from it: 10 s.
pub(crate) const BODY_PAGE_HELD_MAX: Duration = Duration::from_secs(10);

const IGNORES_SELECTOR: &str = "it sent other objects than the one that was asked for";

/// Namespaces of a source of which pages may be held: 4. With more, the one that was read longest ago has to begin
/// again with single reads.
pub(crate) const BODY_WALKS_MAX: usize = 4;

/// What a source needs to read bodies.
#[derive(Clone)]
pub(crate) struct BodyParts {
    pub(crate) source: Arc<Source>,
    pub(crate) spec: Arc<ReadSpec>,
    pub(crate) link: ClusterLink,
    pub(crate) metrics: Arc<SourceMetrics>,
}

impl BodyParts {
    /// From now on bodies of the source are read, until the guard is dropped.
    pub(crate) fn start_reader(&self, environment: &dyn Environment) -> DropGuard {
        let (requests, queue) = mpsc::channel(BODY_READS_QUEUED_MAX);
        let has_refused = Arc::new(AtomicBool::new(false));
        self.source.set_body_reader(Arc::new(BodyQueue {
            requests,
            metrics: Arc::clone(&self.metrics),
            has_refused: Arc::clone(&has_refused),
        }));
        let end = CancellationToken::new();
        let (reader, ended) = (BodyReader::new(self.clone(), queue, has_refused), end.clone());
        let task = async move {
            tokio::select! {
                biased;
                () = ended.cancelled() => {}
                () = reader.run() => {}
            }
        };
        environment.spawn("body-reader", Box::pin(task));
        end.drop_guard()
    }

    /// `future`, for at most `limit`.
    async fn at_most<T>(
        &self,
        limit: Duration,
        future: impl Future<Output = Result<T, ApiError>>,
    ) -> Result<T, BodyUnavailable> {
        tokio::select! {
            biased;
            read = future => read.map_err(|error| BodyUnavailable::Failed(error.to_string())),
            () = self.link.environment.sleep(limit) => Err(BodyUnavailable::Busy),
        }
    }
}

struct BodyRequest {
    head: Object,
    answer: BodyAnswer,
}

/// The end of the queue that the source has.
struct BodyQueue {
    requests: mpsc::Sender<BodyRequest>,
    metrics: Arc<SourceMetrics>,
    has_refused: Arc<AtomicBool>,
}

impl ReadBodies for BodyQueue {
    fn read_body(&self, head: &Object, answer: BodyAnswer) {
        let head = head.clone();
        let (request, why) = match self.requests.try_send(BodyRequest { head, answer }) {
            Ok(()) => return,
            Err(mpsc::error::TrySendError::Full(request)) => (request, BodyUnavailable::Busy),
            Err(mpsc::error::TrySendError::Closed(request)) => (request, BodyUnavailable::NoReader),
        };
        self.metrics.count(CounterFamily::BodyReads, label(Some(&why)));
        self.has_refused.store(true, Ordering::Relaxed);
        request.answer.send(Err(why));
    }
}

/// Answers the requests of one source, in order.
struct BodyReader {
    parts: BodyParts,
    requests: mpsc::Receiver<BodyRequest>,
    /// A body could not be read since the last one that was: what waits for it may try again with the next one.
    has_refused: Arc<AtomicBool>,
    /// By when they were last read, the newest last.
    walks: Vec<Walk>,
}

impl BodyReader {
    fn new(parts: BodyParts, requests: mpsc::Receiver<BodyRequest>, has_refused: Arc<AtomicBool>) -> Self {
        Self {
            parts,
            requests,
            has_refused,
            walks: Vec::new(),
        }
    }

    async fn run(mut self) {
        loop {
            let environment = Arc::clone(&self.parts.link.environment);
            let request = tokio::select! {
                biased;
                request = self.requests.recv() => request,
                // No call asks: the pages go.
                () = environment.sleep(BODY_PAGE_HELD_MAX), if !self.walks.is_empty() => {
                    self.walks.clear();
                    continue;
                }
            };
            let Some(BodyRequest { head, answer }) = request else {
                return;
            };
            // The call gave up: it is as late as an answer after that.
            let body = match answer.is_closed() {
                true => Err(BodyUnavailable::Busy),
                false => self.read(&head).await,
            };
            self.answer(answer, body);
        }
    }

    /// A call that gets no body, but for one that is gone, is to be made again: with the next one that gets one.
    fn answer(&self, answer: BodyAnswer, body: Result<Object, BodyUnavailable>) {
        let BodyParts { metrics, source, .. } = &self.parts;
        metrics.count(CounterFamily::BodyReads, label(body.as_ref().err()));
        let (is_read, is_gone) = (body.is_ok(), matches!(body, Err(BodyUnavailable::Gone)));
        let is_taken = answer.send(body);
        if is_read && is_taken {
            if self.has_refused.swap(false, Ordering::Relaxed) {
                source.notify_body_read();
            }
        } else if !is_gone {
            self.has_refused.store(true, Ordering::Relaxed);
        }
    }

    async fn read(&mut self, head: &Object) -> Result<Object, BodyUnavailable> {
        if let Some(body) = self.read_on_page(head).await {
            return Ok(body);
        }
        let page = self.read_page(head, Some(head.name()), 1, "").await?;
        let is_cut = page.is_cut;
        let mut found = page.objects.into_iter().filter(|body| body.name() == head.name());
        match found.next() {
            Some(body) if is_body_of(&body, head) => Ok(body),
            // The API server answered with an older state than it sent before.
            Some(body) if body.uid() == head.uid() => Err(BodyUnavailable::Busy),
            None if is_cut => Err(BodyUnavailable::Failed(IGNORES_SELECTOR.to_owned())),
            _ => Err(BodyUnavailable::Gone),
        }
    }

    /// The body from a page, if many of its namespace are asked for. Nothing if it is not there.
    async fn read_on_page(&mut self, head: &Object) -> Option<Object> {
        let now = self.parts.link.environment.now();
        self.walks.retain(|walk| walk.is_recent(now));
        let held = self.walks.iter().position(|walk| walk.is_of(head));
        let mut walk = match held {
            Some(at) => self.walks.remove(at),
            None => Walk::new(head, now),
        };
        walk.count();
        while let Some(continuation) = walk.next_page(head) {
            let mean = self.parts.source.snapshot().mean_whole_bytes(head.namespace());
            let objects_max = page_objects(mean.unwrap_or_else(|| head.whole_bytes()));
            // A page that cannot be read ends the walk.
            let page = self.read_page(head, None, objects_max, &continuation).await.ok()?;
            walk.hold(page, self.parts.link.environment.now());
        }
        let body = walk.get(head, self.parts.link.environment.now());
        if self.walks.len() == BODY_WALKS_MAX {
            self.walks.remove(0);
        }
        self.walks.push(walk);
        body
    }

    async fn read_page(
        &self,
        head: &Object,
        name: Option<&str>,
        objects_max: usize,
        continuation: &str,
    ) -> Result<BodyPage, BodyUnavailable> {
        let BodyParts { spec, link, .. } = &self.parts;
        let limit = if name.is_some() {
            BODY_READ_MAX
        } else {
            BODY_PAGE_READ_MAX
        };
        link.body_read_allowed().await;
        let page = spec.read_page(link, head.namespace(), name, objects_max, continuation);
        self.parts.at_most(limit, page).await
    }
}

/// Whether `body` is the object of `head`, in the same or a newer state.
fn is_body_of(body: &Object, head: &Object) -> bool {
    let is_older = body
        .version()
        .number()
        .zip(head.version().number())
        .is_some_and(|(body, head)| body < head);
    body.uid() == head.uid() && (!is_older || seeded_bug(SeededBug::OldBodyTaken))
}

/// The counter label for the result of a read.
fn label(unavailable: Option<&BodyUnavailable>) -> &'static str {
    match unavailable {
        None => "ok",
        Some(BodyUnavailable::Gone) => "gone",
        Some(BodyUnavailable::Busy) => "busy",
        Some(BodyUnavailable::Failed(_)) => "failed",
        Some(BodyUnavailable::NoReader) => "stopped",
    }
}
