//! Objects of snapshots as the body of an answer: cut into chunks, each made when the socket takes it.
//!
//! Nothing is collected: a walk keeps its place as the key of the last object it has looked at, and at most
//! [`STRETCH_OBJECTS`] handles that it fetched ahead.

use std::collections::VecDeque;
use std::convert::Infallible;

use axum::body::{Body, Bytes};
use futures::{StreamExt, stream};
use informant_cache::{IndexError, IndexFailures, Snapshot};
use informant_object::{KeyRef, LabelSelector, Object};
use tokio::sync::OwnedSemaphorePermit;

/// How much is handed to the socket at once; one object more than that at most.
pub(super) const CHUNK_BYTES: usize = 64 * 1024;

/// How many objects are fetched per descent into a snapshot.
const STRETCH_OBJECTS: usize = 256;

/// How many objects are looked at before other tasks get their turn.
const TURN_OBJECTS: usize = 1_000;

/// Which objects are wanted.
pub(super) struct Wanted {
    pub(super) namespace: Option<String>,
    pub(super) name: Option<String>,
    /// The index to look in, and the value to look for.
    pub(super) index: Option<(String, String)>,
    pub(super) selector: LabelSelector,
}

/// The objects of one source, as they were at one moment.
pub(super) struct Stock {
    pub(super) snapshot: Snapshot,
    /// What each line begins with, and what it ends with, around the object.
    pub(super) frame: (String, &'static str),
}

/// An answer while it is read.
pub(super) struct Walk {
    wanted: Wanted,
    /// Yet to come, the next one last.
    left: Vec<Stock>,
    now: Option<Place>,
    /// Given back when the answer was read or its reader has gone.
    _permit: OwnedSemaphorePermit,
}

/// Where in a source the walk is.
struct Place {
    stock: Stock,
    ahead: VecDeque<Object>,
    last: Option<Object>,
    exhausted: bool,
}

impl Wanted {
    fn takes(&self, object: &Object) -> bool {
        self.namespace
            .as_deref()
            .is_none_or(|namespace| namespace == object.namespace())
            && self.name.as_deref().is_none_or(|name| name == object.name())
            && (self.selector.is_everything() || self.selector.matches(object))
    }

    /// Whether the index is there and can answer.
    ///
    /// # Errors
    /// [`IndexError`] if not.
    pub(super) fn judge_index(&self, snapshot: &Snapshot) -> Result<(), IndexError> {
        match &self.index {
            Some((index, value)) => snapshot.by_index(index, value).map(drop),
            None => Ok(()),
        }
    }

    /// How many objects the index that is asked lacks because its function failed on them.
    pub(super) fn index_failures(&self, snapshots: &[Snapshot]) -> usize {
        let Some((index, _)) = &self.index else { return 0 };
        let failures = snapshots.iter().filter_map(|snapshot| snapshot.index_failures(index));
        failures.map(IndexFailures::absent).sum()
    }

    /// Up to a stretch of the objects that may be wanted, in order, from behind `last` on.
    fn fetch(&self, snapshot: &Snapshot, last: Option<KeyRef<'_>>) -> VecDeque<Object> {
        match (&self.index, &self.namespace, &self.name) {
            // Judged before; an index that a snapshot has it keeps.
            (Some((index, value)), _, _) => match snapshot.by_index_after(index, value, last) {
                Ok(found) => found.take(STRETCH_OBJECTS).cloned().collect(),
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
                inside.take(STRETCH_OBJECTS).cloned().collect()
            }
            (None, None, _) => snapshot.after(last).take(STRETCH_OBJECTS).cloned().collect(),
        }
    }
}

impl Place {
    fn new(stock: Stock) -> Self {
        Self {
            stock,
            ahead: VecDeque::new(),
            last: None,
            exhausted: false,
        }
    }

    fn next(&mut self, wanted: &Wanted) -> Option<Object> {
        if self.ahead.is_empty() && !self.exhausted {
            let last = self.last.as_ref().map(Object::key);
            self.ahead = wanted.fetch(&self.stock.snapshot, last);
            self.exhausted = self.ahead.len() < STRETCH_OBJECTS;
            self.last = self.ahead.back().cloned();
        }
        self.ahead.pop_front()
    }
}

impl Walk {
    pub(super) fn new(wanted: Wanted, mut stocks: Vec<Stock>, permit: OwnedSemaphorePermit) -> Self {
        stocks.reverse();
        Self {
            wanted,
            left: stocks,
            now: None,
            _permit: permit,
        }
    }

    /// The body; none if there is no object at all. Looks for the first chunk, so that "not found" can be an error
    /// instead of an empty answer.
    pub(super) async fn into_body(mut self) -> Option<Body> {
        let first = self.next_chunk().await?;
        let rest = stream::unfold(self, async |mut walk| Some((walk.next_chunk().await?, walk)));
        Some(Body::from_stream(
            stream::iter([first]).chain(rest).map(Ok::<_, Infallible>),
        ))
    }

    /// The next lines, about [`CHUNK_BYTES`] of them.
    async fn next_chunk(&mut self) -> Option<Bytes> {
        let mut chunk = Vec::with_capacity(CHUNK_BYTES);
        let mut looked_at = 0;
        while chunk.len() < CHUNK_BYTES {
            let Some(place) = &mut self.now else {
                let Some(stock) = self.left.pop() else { break };
                self.now = Some(Place::new(stock));
                continue;
            };
            let Some(object) = place.next(&self.wanted) else {
                self.now = None;
                continue;
            };
            if self.wanted.takes(&object) {
                place.stock.push_line(&object, &mut chunk);
            }
            looked_at += 1;
            if looked_at % TURN_OBJECTS == 0 {
                tokio::task::yield_now().await;
            }
        }
        (!chunk.is_empty()).then(|| Bytes::from(chunk))
    }
}

impl Stock {
    /// Appends an object as one line. What an API server sent may be broken into lines between its tokens.
    fn push_line(&self, object: &Object, chunk: &mut Vec<u8>) {
        chunk.extend_from_slice(self.frame.0.as_bytes());
        let from = chunk.len();
        chunk.extend_from_slice(object.json());
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
    use std::sync::Arc;

    use http_body_util::BodyExt;
    use informant_cache::{PointerIndex, StoreWriter};
    use informant_object::{Pointer, Shape};
    use tokio::sync::Semaphore;

    use super::*;

    const OBJECTS: usize = 100_000;

    /// So many pods of some 500 bytes in ten namespaces, every second one of them found under `node=a`.
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

    fn wanted() -> Wanted {
        Wanted {
            namespace: None,
            name: None,
            index: None,
            selector: LabelSelector::parse("").unwrap(),
        }
    }

    fn walk(snapshot: &Snapshot, wanted: Wanted) -> Walk {
        let stock = Stock {
            snapshot: snapshot.clone(),
            frame: (String::new(), ""),
        };
        let permit = Arc::new(Semaphore::new(1)).try_acquire_owned().unwrap();
        Walk::new(wanted, vec![stock], permit)
    }

    #[tokio::test]
    async fn a_list_of_100_000_objects_is_never_there_as_a_whole() {
        let snapshot = snapshot(OBJECTS);
        let by_node = || Some(("node".to_owned(), "a".to_owned()));
        for (wanted, expected) in [
            (wanted(), OBJECTS),
            (
                Wanted {
                    namespace: Some("ns-3".into()),
                    ..wanted()
                },
                OBJECTS / 10,
            ),
            (
                Wanted {
                    index: by_node(),
                    ..wanted()
                },
                OBJECTS / 2,
            ),
            (
                Wanted {
                    index: by_node(),
                    namespace: Some("ns-4".into()),
                    ..wanted()
                },
                OBJECTS / 10,
            ),
        ] {
            let mut walk = walk(&snapshot, wanted);
            let (mut lines, mut chunks) = (0, 0);
            while let Some(chunk) = walk.next_chunk().await {
                assert!(chunk.len() < CHUNK_BYTES + 1_024, "{}", chunk.len());
                lines += chunk.iter().filter(|byte| **byte == b'\n').count();
                chunks += 1;
                // What is made ahead of its reader: handles of one stretch, no bytes.
                let ahead = walk.now.as_ref().map_or(0, |place| place.ahead.capacity());
                assert!(ahead <= 2 * STRETCH_OBJECTS, "{ahead}");
            }
            assert_eq!(lines, expected);
            assert!(chunks >= expected * 400 / (CHUNK_BYTES + 1_024), "{chunks}");
        }
    }

    #[tokio::test]
    async fn the_next_chunk_is_made_when_the_one_before_was_taken() {
        let snapshot = snapshot(10_000);
        let mut body = walk(&snapshot, wanted()).into_body().await.unwrap();
        let first = body.frame().await.unwrap().unwrap().into_data().unwrap();
        assert!(first.len() < CHUNK_BYTES + 1_024);
        // Only the walk and this test hold the snapshot: nothing has run ahead to its end and let go of it.
        drop(body);
        assert!(
            walk(
                &snapshot,
                Wanted {
                    name: Some("nobody".into()),
                    ..wanted()
                }
            )
            .into_body()
            .await
            .is_none()
        );
    }
}
