//! How long one object takes: `cargo run --release -p informant-object --example scan`.
//!
//! Prints microseconds of CPU per 5.4 KB pod, the best of several rounds on one thread. An argument selects the
//! measurements whose name contains it.

#![expect(clippy::print_stdout, reason = "printing is its purpose")]

use std::hint::black_box;
use std::time::{Duration, Instant};

use bytes::Bytes;
use informant_object::frames::{LineSplitter, ListSplitter, WATCH_LINE_BYTES_MAX, WatchLine};
use informant_object::{LabelSelector, Object, Payload, Pointer, Shape, head};

const CALLS: u32 = 100;
const ROUNDS: u32 = 1_000;
const FRAME_BYTES: usize = 58_000;

fn main() {
    let pod = include_bytes!("../corpus/accepted/pod.json");
    let item = include_bytes!("../corpus/accepted/pod-as-list-item.json");
    let pointers = |texts: &[&str]| {
        texts
            .iter()
            .map(|text| Pointer::parse(text).expect("a pointer"))
            .collect::<Vec<_>>()
    };
    let drop = pointers(&["/metadata/annotations/kubectl.kubernetes.io~1last-applied-configuration"]);
    let shape = Shape::of("v1", "Pod");
    let dropping = Shape::new("v1", "Pod", drop, false).expect("droppable");
    let fields = [
        "/metadata/name",
        "/spec/nodeName",
        "/status/phase",
        "/status/containerStatuses/*/restartCount",
    ];
    let projection = Payload::fields(&pointers(&fields));
    let node = Pointer::parse("/spec/nodeName").expect("a pointer");
    let images = Pointer::parse("/spec/containers/*/image").expect("a pointer");
    let selector = LabelSelector::parse("app=checkout,tier in (backend)").expect("a selector");
    let object = Object::parse(pod, &shape).expect("a pod");

    println!(
        "us per pod of {} bytes, of which {} stay ({} with the head)",
        pod.len(),
        object.json().len(),
        object.size_bytes()
    );
    measure("UTF-8 check alone", || drop_it(std::str::from_utf8(black_box(pod))));
    measure("head alone", || drop_it(head(black_box(pod))));
    measure("parse: scan, cut managedFields, copy", || {
        drop_it(Object::parse(black_box(pod), &shape))
    });
    measure("parse, nothing cut", || {
        drop_it(Object::parse(black_box(pod), &Shape::verbatim()))
    });
    measure("parse, apiVersion and kind spliced", || {
        drop_it(Object::parse(black_box(item), &shape))
    });
    measure("parse, with a drop", || {
        drop_it(Object::parse(black_box(pod), &dropping))
    });
    measure("pointer /spec/nodeName", || drop_it(object.pointer(black_box(&node))));
    measure("pointer /spec/containers/*/image", || {
        drop_it(object.pointer(black_box(&images)))
    });
    measure("label selector", || drop_it(selector.matches(black_box(&object))));
    let mut out = Vec::new();
    measure("payload: 4 fields", || write(&projection, &object, &mut out));
    measure("payload: metadata", || write(&Payload::Metadata, &object, &mut out));
    measure("serde_json::Value", || {
        drop_it(serde_json::from_slice::<serde_json::Value>(black_box(pod)))
    });
    measure_watch(pod, &shape);
    measure_list(item, &shape);
}

fn drop_it<T>(value: T) {
    drop(black_box(value));
}

fn write(payload: &Payload, object: &Object, out: &mut Vec<u8>) {
    out.clear();
    payload.write(black_box(object), out);
    black_box(out);
}

fn measure(what: &str, mut call: impl FnMut()) {
    if std::env::args().nth(1).is_some_and(|asked| !what.contains(&asked)) {
        return;
    }
    let rounds = (0..ROUNDS).map(|_| time(|| (0..CALLS).for_each(|_| call())));
    report(what, rounds.min(), CALLS);
}

fn report(what: &str, best: Option<Duration>, calls: u32) {
    let micros = best.unwrap_or_default().as_secs_f64() * 1e6 / f64::from(calls);
    println!("{micros:8.3}  {what}");
}

fn time(work: impl FnOnce()) -> Duration {
    let begin = Instant::now();
    work();
    begin.elapsed()
}

/// Frames of a watch to objects.
fn measure_watch(pod: &[u8], shape: &Shape) {
    let line = [b"{\"type\":\"MODIFIED\",\"object\":", pod, b"}\n"].concat();
    let stream = line.repeat(CALLS as usize);
    let rounds = (0..ROUNDS).map(|_| {
        time(|| {
            let mut splitter = LineSplitter::new(WATCH_LINE_BYTES_MAX);
            for frame in stream.chunks(FRAME_BYTES) {
                let mut lines = splitter.feed(frame);
                while let Some(line) = lines.next_line() {
                    if let informant_object::frames::Line::Json(line) = line {
                        drop_it(WatchLine::parse(line).map(|event| event.object(shape)));
                    }
                }
            }
        })
    });
    report("watch: frames to objects", rounds.min(), CALLS);
}

/// Frames of a list to objects, or to nothing if all objects are known.
fn measure_list(item: &[u8], shape: &Shape) {
    let items = vec![item; CALLS as usize].join(&b","[..]);
    let body = Bytes::from([br#"{"kind":"PodList","items":["#, &items[..], b"]}"].concat());
    let frames: Vec<Bytes> = body.chunks(FRAME_BYTES).map(|frame| body.slice_ref(frame)).collect();
    for (what, wanted) in [
        ("list: frames to objects", true),
        ("list: frames to known objects", false),
    ] {
        let rounds = (0..ROUNDS).map(|_| {
            time(|| {
                let mut splitter = ListSplitter::new(WATCH_LINE_BYTES_MAX);
                for frame in &frames {
                    splitter.push(frame.clone());
                    while let Ok(Some(object)) = splitter.next_object(shape, |_| wanted) {
                        drop_it(object);
                    }
                }
            })
        });
        report(what, rounds.min(), CALLS);
    }
}
