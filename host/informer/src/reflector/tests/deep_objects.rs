//! Objects of any depth are objects like all others, however the state is fetched.

use std::iter::repeat_n;

use informant_apiserver::{ApiServer, Ending};
use informant_cache::SourceState;
use informant_object::{Key, KeyRef, Pointer};

use super::watches;
use crate::reflector::ReflectorOptions;
use crate::testing::{Rig, RigOptions, api_server, by_list, by_watch_list, delete, pass, put, settle};

/// Writes a pod, as [`put`] does, whose spec is nested `levels` deep.
fn put_deep(server: &ApiServer, name: &str, revision: u64, levels: usize) {
    let deep: String = repeat_n("{\"a\":[", levels / 2)
        .chain(["{}"])
        .chain(repeat_n("]}", levels / 2))
        .collect();
    let pod = format!(
        r#"{{"apiVersion":"v1","kind":"Pod","metadata":{{"namespace":"default","name":"{name}","labels":{{"revision":"{revision}"}}}},"spec":{{"deep":{deep},"nodeName":"n1"}}}}"#
    );
    server
        .put_json("v1/pods", "default", pod.as_bytes())
        .expect("the pod is written");
}

/// An object is added, changes and is deleted, nested `levels` deep; others change meanwhile.
async fn follow(options: RigOptions, levels: usize) {
    let server = api_server();
    put(&server, "a", 1);
    put_deep(&server, "deep", 1, levels);
    put(&server, "z", 1);
    let rig = Rig::start_with(&server, options);
    let recorder = rig.record();
    settle().await;
    assert_eq!(
        recorder.take(),
        [
            "add a (initial)",
            "add deep (initial)",
            "add z (initial)",
            "synced (initial)"
        ]
    );
    let deep = rig.informer.snapshot().get(KeyRef::new("default", "deep")).cloned();
    let deep = deep.expect("it is kept");
    assert_eq!(deep.text().matches("{\"a\":[").count(), levels / 2, "byte for byte");
    assert_eq!(
        deep.pointer(&Pointer::parse("/spec/nodeName").expect("a pointer")),
        ["n1"]
    );

    put_deep(&server, "deep", 2, levels + 2);
    put(&server, "a", 2);
    put_deep(&server, "new", 1, levels);
    settle().await;
    assert_eq!(recorder.take(), ["update deep 1->2", "update a 1->2", "add new"]);
    delete(&server, "deep");
    put(&server, "a", 3);
    settle().await;
    assert_eq!(recorder.take(), ["delete deep", "update a 2->3"]);

    // What changed while the watch was down.
    server.faults().freeze_watches(&watches());
    put_deep(&server, "new", 2, levels);
    put(&server, "z", 2);
    server.faults().drop_watches(&watches(), Ending::Expired);
    server.faults().compact();
    pass(5).await;
    let mut relisted = recorder.take();
    relisted.sort();
    assert_eq!(relisted, ["update new 1->2 (relist)", "update z 1->2 (relist)"]);
    assert_eq!(rig.stored(), rig.truth());
    let status = rig.informer.status();
    assert_eq!((status.state, status.skipped), (SourceState::Live, 0), "{status:?}");
    assert_eq!(status.outdated, Vec::<Key>::new());
}

#[tokio::test(start_paused = true)]
async fn deep_objects_are_listed_and_watched_like_others() {
    for levels in [124, 126, 128, 5_000] {
        let options = RigOptions {
            informer: by_list(ReflectorOptions::default()),
            ..RigOptions::default()
        };
        follow(options, levels).await;
    }
}

#[tokio::test(start_paused = true)]
async fn deep_objects_are_streamed_like_others() {
    for levels in [124, 126, 128, 5_000] {
        follow(by_watch_list(), levels).await;
    }
}

#[tokio::test(start_paused = true)]
async fn an_object_of_a_million_levels_harms_nothing() {
    follow(RigOptions::default(), 1_000_000).await;
    follow(by_watch_list(), 1_000_000).await;
}
