//! Reads of objects of which the cache has only the head.

use std::sync::Mutex;

use informant_cache::{BodyAnswer, ReadBodies};

use super::*;

/// Answers with these objects, by name; others are gone.
struct Bodies {
    objects: Vec<Object>,
    asked: Mutex<usize>,
}

impl ReadBodies for Bodies {
    fn read_body(&self, head: &Object, answer: BodyAnswer) {
        *self.asked.lock().unwrap() += 1;
        let object = self.objects.iter().find(|object| object.key() == head.key());
        answer.send(object.cloned().ok_or(BodyUnavailable::Gone));
    }
}

fn large(name: &str, version: u64) -> Object {
    pod("a", name, version, &"x".repeat(1_024))
}

/// A cache with the heads of `objects`, of which `readable` can be read.
fn shed(objects: Vec<Object>, readable: Vec<Object>) -> (Cache, Arc<Bodies>) {
    let mut cache = Cache::new();
    cache.writer.shed_namespace("a");
    let cache = cache.with(objects);
    let bodies = Arc::new(Bodies {
        objects: readable,
        asked: Mutex::default(),
    });
    let source = cache.catalog.source(SourceId(cache.source)).unwrap();
    source.set_body_reader(Arc::clone(&bodies) as Arc<dyn ReadBodies>);
    (cache, bodies)
}

#[tokio::test]
async fn a_read_beyond_the_head_reads_the_body() {
    let (cache, bodies) = shed(vec![large("x", 1)], vec![large("x", 2)]);
    let mut reader = cache.reader();
    let label = reader.get(1, "a".into(), "x".into(), vec!["/metadata/labels".into()]);
    assert!(label.await.unwrap().unwrap().is_some());
    assert_eq!(*bodies.asked.lock().unwrap(), 0, "the head has it");
    let whole = reader.get(1, "a".into(), "x".into(), Vec::new()).await;
    let whole = String::from_utf8(whole.unwrap().unwrap().unwrap()).unwrap();
    assert!(
        whole.contains("xxx") && whole.contains(r#""resourceVersion":"2""#),
        "{whole}"
    );
    let found = reader.find("main".into(), "a".into(), "x".into(), Vec::new()).await;
    assert!(found.unwrap().unwrap().is_some());
    let page = list(&mut reader, query()).await.unwrap();
    assert_eq!(names(&page), ["a/x"]);
    assert_eq!(*bodies.asked.lock().unwrap(), 3);
    assert_eq!(reader.awaited(), None);
}

#[tokio::test]
async fn a_body_that_cannot_be_read_is_not_ready() {
    let (cache, _) = shed(vec![large("x", 1)], Vec::new());
    let mut reader = cache.reader();
    let refused = message(reader.get(1, "a".into(), "x".into(), Vec::new()).await.unwrap());
    assert!(
        refused.starts_with("ErrorCode::NotReady: the cache has only the metadata of a/x"),
        "{refused}"
    );
    assert_eq!(reader.awaited(), Some(Awaited::Body(SourceId(1))));
    assert!(
        list(&mut reader, query()).await.is_err(),
        "no page without one of its objects"
    );
}

#[tokio::test]
async fn a_page_ends_after_a_limited_number_of_bodies() {
    let pods: Vec<Object> = (0..PAGE_BODIES_MAX + 1)
        .map(|number| large(&format!("x{number:03}"), 1))
        .collect();
    let (cache, _) = shed(pods.clone(), pods);
    let mut reader = cache.reader();
    let first = list(&mut reader, query()).await.unwrap();
    assert_eq!(first.items.len(), PAGE_BODIES_MAX);
    let next = Query {
        cursor: first.cursor,
        ..query()
    };
    assert_eq!(list(&mut reader, next).await.unwrap().items.len(), 1);
}
