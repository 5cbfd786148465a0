//! Objects of snapshots as a response body, in chunks that are built as the client reads.
//!
//! Nothing is collected: a stream keeps the key of the last object it has visited, and at most [`BATCH_OBJECTS`]
//! objects that it fetched ahead.

use std::collections::VecDeque;
use std::convert::Infallible;
use std::sync::Arc;
use std::time::Duration;

use axum::body::{Body, Bytes};
use futures::{StreamExt, stream};
use informant_cache::{IndexError, IndexFailures, Snapshot, Source};
use informant_object::{KeyRef, LabelSelector, Object};
use tokio::sync::{OwnedSemaphorePermit, oneshot};

use crate::admin::secrets;
use crate::metrics::AnswerBytes;

/// The size of a chunk, plus at most one object.
pub(super) const CHUNK_BYTES: usize = 64 * 1024;

/// How many objects are fetched from a snapshot at a time.
const BATCH_OBJECTS: usize = 256;

/// How long a response waits for the body of an object of which the cache has only the head: 5 s. Then it has the head.
const BODY_WAIT_MAX: Duration = Duration::from_secs(5);

/// How many objects are visited before the task yields.
const YIELD_OBJECTS: usize = 1_000;

pub(super) struct ObjectFilter {
    pub(super) namespace: Option<String>,
    pub(super) name: Option<String>,
    /// The index, and the value to look up.
    pub(super) index: Option<(String, String)>,
    pub(super) selector: LabelSelector,
}

/// The objects of one source, and how to print them.
pub(super) struct SourceObjects {
    pub(super) snapshot: Snapshot,
    /// Reads bodies that the cache does not have.
    pub(super) source: Option<Arc<Source>>,
    /// Whether its objects have a namespace.
    pub(super) namespaced: bool,
    /// Whether only keys and sizes of its Secrets' data are shown.
    pub(super) redacted: bool,
    /// The text before and after the object on each line.
    pub(super) frame: (String, &'static str),
}

pub(super) struct ObjectStream {
    filter: ObjectFilter,
    /// The sources that follow, the next one last.
    left: Vec<SourceObjects>,
    current: Option<SourceCursor>,
    /// Released when the response was read or the client has disconnected.
    _permit: OwnedSemaphorePermit,
    /// Counts the chunk that the client reads.
    memory: AnswerBytes,
}

struct SourceCursor {
    objects: SourceObjects,
    ahead: VecDeque<Object>,
    last: Option<Object>,
    exhausted: bool,
}

impl ObjectFilter {
    /// Whether the object matches. One that is cluster-scoped is in no namespace, and matches any.
    fn matches(&self, object: &Object) -> bool {
        let in_namespace = |namespace: &str| object.namespace().is_empty() || namespace == object.namespace();
        self.namespace.as_deref().is_none_or(in_namespace)
            && self.name.as_deref().is_none_or(|name| name == object.name())
            && (self.selector.is_everything() || self.selector.matches(object))
    }

    /// Whether the index exists and is ready.
    pub(super) fn check_index(&self, snapshot: &Snapshot) -> Result<(), IndexError> {
        match &self.index {
            Some((index, value)) => snapshot.by_index(index, value).map(drop),
            None => Ok(()),
        }
    }

    /// How many objects the queried index lacks because its function failed on them.
    pub(super) fn index_failures(&self, snapshots: &[Snapshot]) -> usize {
        let Some((index, _)) = &self.index else { return 0 };
        let failures = snapshots.iter().filter_map(|snapshot| snapshot.index_failures(index));
        failures.map(IndexFailures::absent).sum()
    }

    /// Up to one batch of objects that may match, in order, after `last`.
    fn fetch(&self, from: &SourceObjects, last: Option<KeyRef<'_>>) -> VecDeque<Object> {
        let snapshot = &from.snapshot;
        let namespace = self.namespace.as_ref().filter(|_| from.namespaced);
        match (&self.index, namespace, &self.name) {
            // Checked before; a snapshot never loses an index.
            (Some((index, value)), _, _) => match snapshot.by_index_after(index, value, last) {
                Ok(found) => found.take(BATCH_OBJECTS).cloned().collect(),
                Err(_) => VecDeque::new(),
            },
            (None, Some(namespace), Some(name)) => match last {
                None => snapshot
                    .get(KeyRef::new(namespace, name))
                    .cloned()
                    .into_iter()
                    .collect(),
                Some(_) => VecDeque::new(),
            },
            (None, Some(namespace), None) => {
                let from = last.unwrap_or(KeyRef::new(namespace, ""));
                let inside = snapshot
                    .after(Some(from))
                    .take_while(|object| object.namespace() == namespace);
                inside.take(BATCH_OBJECTS).cloned().collect()
            }
            (None, None, _) => snapshot.after(last).take(BATCH_OBJECTS).cloned().collect(),
        }
    }
}

impl SourceCursor {
    fn new(objects: SourceObjects) -> Self {
        Self {
            objects,
            ahead: VecDeque::new(),
            last: None,
            exhausted: false,
        }
    }

    fn next(&mut self, filter: &ObjectFilter) -> Option<Object> {
        if self.ahead.is_empty() && !self.exhausted {
            let last = self.last.as_ref().map(Object::key);
            self.ahead = filter.fetch(&self.objects, last);
            self.exhausted = self.ahead.len() < BATCH_OBJECTS;
            self.last = self.ahead.back().cloned();
        }
        self.ahead.pop_front()
    }
}

impl ObjectStream {
    pub(super) fn new(
        filter: ObjectFilter,
        mut sources: Vec<SourceObjects>,
        permit: OwnedSemaphorePermit,
        memory: AnswerBytes,
    ) -> Self {
        sources.reverse();
        Self {
            filter,
            left: sources,
            current: None,
            _permit: permit,
            memory,
        }
    }

    /// The body; `None` if no object matches. Builds the first chunk, so that "not found" can be an error instead of an
    /// empty response.
    pub(super) async fn into_body(mut self) -> Option<Body> {
        let first = self.next_chunk().await?;
        let rest = stream::unfold(self, async |mut stream| Some((stream.next_chunk().await?, stream)));
        Some(Body::from_stream(
            stream::iter([first]).chain(rest).map(Ok::<_, Infallible>),
        ))
    }

    /// The next lines, about [`CHUNK_BYTES`] of them.
    async fn next_chunk(&mut self) -> Option<Bytes> {
        let mut chunk = Vec::with_capacity(CHUNK_BYTES);
        let mut looked_at = 0;
        while chunk.len() < CHUNK_BYTES {
            let Some(cursor) = &mut self.current else {
                let Some(objects) = self.left.pop() else { break };
                self.current = Some(SourceCursor::new(objects));
                continue;
            };
            let Some(object) = cursor.next(&self.filter) else {
                self.current = None;
                continue;
            };
            if self.filter.matches(&object) {
                let object = match self.filter.name {
                    Some(_) => cursor.objects.whole(object).await,
                    None => object,
                };
                cursor.objects.push_line(&object, &mut chunk);
            }
            looked_at += 1;
            if looked_at % YIELD_OBJECTS == 0 {
                tokio::task::yield_now().await;
            }
        }
        self.memory.set(chunk.capacity());
        (!chunk.is_empty()).then(|| Bytes::from(chunk))
    }
}

impl SourceObjects {
    /// The object with its body, if the cache has only its head and the API server answers in time.
    async fn whole(&self, object: Object) -> Object {
        let Some(source) = self.source.as_ref().filter(|_| object.is_head()) else {
            return object;
        };
        let (sender, body) = oneshot::channel();
        // The request may have ended.
        source.read_body(&object, Box::new(move |body| drop(sender.send(body))));
        match tokio::time::timeout(BODY_WAIT_MAX, body).await {
            Ok(Ok(Ok(whole))) => whole,
            _ => object,
        }
    }

    /// Appends an object as one line. The API server's JSON may have line breaks between its tokens.
    fn push_line(&self, object: &Object, chunk: &mut Vec<u8>) {
        chunk.extend_from_slice(self.frame.0.as_bytes());
        let from = chunk.len();
        match self.redacted {
            true => chunk.extend_from_slice(&secrets::without_data(object.json())),
            false => chunk.extend_from_slice(object.json()),
        }
        for byte in &mut chunk[from..] {
            if matches!(byte, b'\n' | b'\r') {
                *byte = b' ';
            }
        }
        chunk.extend_from_slice(self.frame.1.as_bytes());
        chunk.push(b'\n');
    }
}

#[cfg(test)]
mod tests {
    use http_body_util::BodyExt;
    use informant_cache::{PointerIndex, StoreWriter};
    use informant_object::{Pointer, Shape};
    use tokio::sync::Semaphore;

    use super::*;
    use crate::metrics::DaemonMetrics;

    const OBJECTS: usize = 100_000;

    /// Pods of about 500 bytes in ten namespaces, every second one of them under `node=a`.
    fn snapshot(objects: usize) -> Snapshot {
        let shape = Shape::new("v1", "Pod", Vec::new(), true).unwrap();
        let mut store = StoreWriter::new();
        let node = Pointer::parse("/spec/nodeName").unwrap();
        store
            .add_indexers(vec![Box::new(PointerIndex::new("node", node))])
            .unwrap();
        for number in 0..objects {
            let node = ["a", "b"][number % 2];
            let json = format!(
                r#"{{"metadata":{{"namespace":"ns-{}","name":"pod-{number}","resourceVersion":"1"}},"spec":{{"nodeName":"{node}","pad":"{:400}"}}}}"#,
                number % 10,
                ""
            );
            store.add(Object::parse(json.as_bytes(), &shape).unwrap());
        }
        store.publish()
    }

    fn everything() -> ObjectFilter {
        ObjectFilter {
            namespace: None,
            name: None,
            index: None,
            selector: LabelSelector::parse("").unwrap(),
        }
    }

    fn stream(snapshot: &Snapshot, filter: ObjectFilter) -> ObjectStream {
        let objects = SourceObjects {
            snapshot: snapshot.clone(),
            source: None,
            namespaced: true,
            redacted: false,
            frame: (String::new(), ""),
        };
        let permit = Arc::new(Semaphore::new(1)).try_acquire_owned().unwrap();
        let memory = DaemonMetrics::default().answer_bytes();
        ObjectStream::new(filter, vec![objects], permit, memory)
    }

    #[tokio::test]
    async fn list_of_100_000_objects_is_streamed_in_bounded_memory() {
        let snapshot = snapshot(OBJECTS);
        let by_node = || Some(("node".to_owned(), "a".to_owned()));
        for (filter, expected) in [
            (everything(), OBJECTS),
            (
                ObjectFilter {
                    namespace: Some("ns-3".into()),
                    ..everything()
                },
                OBJECTS / 10,
            ),
            (
                ObjectFilter {
                    index: by_node(),
                    ..everything()
                },
                OBJECTS / 2,
            ),
            (
                ObjectFilter {
                    index: by_node(),
                    namespace: Some("ns-4".into()),
                    ..everything()
                },
                OBJECTS / 10,
            ),
        ] {
            let mut stream = stream(&snapshot, filter);
            let (mut lines, mut chunks) = (0, 0);
            while let Some(chunk) = stream.next_chunk().await {
                assert!(chunk.len() < CHUNK_BYTES + 1_024, "{}", chunk.len());
                lines += chunk.iter().filter(|byte| **byte == b'\n').count();
                chunks += 1;
                // Only the object references of one batch are fetched ahead, no bytes.
                let ahead = stream.current.as_ref().map_or(0, |cursor| cursor.ahead.capacity());
                assert!(ahead <= 2 * BATCH_OBJECTS, "{ahead}");
            }
            assert_eq!(lines, expected);
            assert!(chunks >= expected * 400 / (CHUNK_BYTES + 1_024), "{chunks}");
        }
    }

    #[tokio::test]
    async fn chunks_are_built_as_the_client_reads() {
        let snapshot = snapshot(10_000);
        let mut body = stream(&snapshot, everything()).into_body().await.unwrap();
        let first = body.frame().await.unwrap().unwrap().into_data().unwrap();
        assert!(first.len() < CHUNK_BYTES + 1_024);
        drop(body);
        assert!(
            stream(
                &snapshot,
                ObjectFilter {
                    name: Some("missing".into()),
                    ..everything()
                }
            )
            .into_body()
            .await
            .is_none()
        );
    }
}
