//! Transforms in the queue.

use super::*;
use crate::{Transform, TransformError};

/// Appends a label to each object, and fails if the name asks for it.
struct Labelling;

impl Transform for Labelling {
    fn transform(&mut self, object: Object) -> Result<Object, String> {
        let json = String::from_utf8(object.json().to_vec()).unwrap();
        match object.name() {
            "broken" => Err("no such field".to_owned()),
            "renamed" => Ok(super::object(&json.replace("renamed", "other"))),
            _ => Ok(super::object(&json.replace(r#""spec":{}"#, r#""spec":{"seen":true}"#))),
        }
    }
}

fn transforming() -> Queue {
    Queue::new(DeltaFifoOptions {
        transform: Some(Box::new(Labelling)),
        ..DeltaFifoOptions::default()
    })
}

fn was_transformed(object: &Object) -> usize {
    String::from_utf8_lossy(object.json()).matches("seen").count()
}

/// (`TestDeltaFIFO_transformer`)
#[test]
fn transform_runs_once_and_not_on_tombstones_or_resyncs() {
    let mut fifo = transforming();
    let known = Known(vec![pod("gone", 1), pod("resynced", 1)]);
    add(&mut fifo, pod("a", 1));
    update(&mut fifo, pod("a", 2));
    fifo.replace(vec![pod("a", 3), pod("resynced", 2)], &known);
    pop(&mut fifo)
        .unwrap()
        .iter()
        .for_each(|delta| assert_eq!(was_transformed(delta.object.object().unwrap()), 1));
    let gone = pop(&mut fifo).unwrap();
    assert_eq!(
        (gone.key().name, was_transformed(gone.newest().object.object().unwrap())),
        ("gone", 0)
    );
    pop(&mut fifo).unwrap();
    fifo.resync(&known);
    assert_eq!(
        was_transformed(pop(&mut fifo).unwrap().newest().object.object().unwrap()),
        0
    );
}

#[test]
fn failed_transform_withholds_only_that_version() {
    let mut fifo = transforming();
    let error = fifo.add(pod("broken", 7)).unwrap_err();
    assert_snapshot!(error, @"transform of default/broken at version 7 failed: no such field");
    assert_eq!(fifo.len(), 0);
    let known = Known(vec![pod("broken", 6)]);
    fifo.replace(vec![pod("broken", 8), pod("a", 9)], &known);
    assert_snapshot!(waiting(&fifo), @"a: Replaced(9)");
    assert_eq!((fifo.stats().tombstones, fifo.stats().transforms_failed), (0, 2));
}

#[test]
fn transform_must_not_change_the_identity() {
    let mut fifo = transforming();
    let error = fifo.add(pod("renamed", 7)).unwrap_err();
    assert!(
        matches!(error, TransformError::Identity { field: "name", .. }),
        "{error}"
    );
    assert_eq!(fifo.len(), 0);
}
