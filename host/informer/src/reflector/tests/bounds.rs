//! Lists that do not end, and requests that the API server does not support.

use std::iter;

use informant_cache::SourceState;
use informant_object::FieldSelector;

use super::super::{LIST_PAGES_MAX, ListLimits};
use crate::testing::{
    Rig, RigOptions, api_server, by_list, client, json_answer, pass, pods, put, ready_at_once, settle, streamed,
};
use crate::{ReflectorOptions, SourceSpec};

/// An informer with low limits whose every list is `answer`.
fn limited(options: RigOptions, body: impl Fn() -> Box<dyn Iterator<Item = String> + Send> + Send + 'static) -> Rig {
    let client = client(move |_| ready_at_once(body()));
    let options = RigOptions {
        client: Some(client.into()),
        ..options
    };
    Rig::start_with(&api_server(), options)
}

fn low_limits() -> ReflectorOptions {
    ReflectorOptions {
        list_objects_max: 2_000,
        list_bytes_max: 1024 * 1024,
        ..ReflectorOptions::default()
    }
}

fn item(number: usize) -> String {
    format!(r#"{{"metadata":{{"name":"p{number}","namespace":"default","uid":"{number}","resourceVersion":"1"}}}}"#)
}

fn too_large(rig: &Rig) -> String {
    let status = rig.informer.status();
    assert_eq!(status.state, SourceState::Syncing);
    let failed = r#"reflector_lists_total{informer="pods",cluster="",result="too-large"}"#;
    assert_eq!(rig.metric(failed), 1.0);
    status.last_error.expect("an error").0
}

#[tokio::test(start_paused = true)]
async fn a_list_of_endless_items_fails_at_the_limit() {
    let options = RigOptions {
        informer: by_list(low_limits()),
        ..RigOptions::default()
    };
    let rig = limited(options, || {
        let head = r#"{"kind":"PodList","apiVersion":"v1","metadata":{"resourceVersion":"1"},"items":["#;
        let items = (0..).map(|number| format!("{},", item(number)));
        Box::new(iter::once(head.to_owned()).chain(items))
    });
    settle().await;
    insta::assert_snapshot!(too_large(&rig), @"list: the list is too large: more than 2000 objects; narrow the informer with `namespaces` or a selector");
    pass(290).await;
    too_large(&rig);
}

#[tokio::test(start_paused = true)]
async fn a_list_counts_as_staged_until_it_is_stored() {
    let (writer, list) = streamed();
    let mut list = Some(list);
    let options = RigOptions {
        client: Some(client(move |_| list.take().unwrap_or_else(|| ready_at_once(iter::empty()))).into()),
        informer: by_list(ReflectorOptions::default()),
        ..RigOptions::default()
    };
    let rig = Rig::start_with(&api_server(), options);
    settle().await;
    let head = r#"{"kind":"PodList","apiVersion":"v1","metadata":{"resourceVersion":"1"},"items":["#;
    writer.write(format!("{head}{},", item(1)));
    settle().await;
    let staged = rig.informer.status().staged_bytes;
    assert!(staged > 0);
    let gauge = || rig.metric(r#"reflector_staged_bytes{informer="pods",cluster=""}"#);
    assert_eq!(gauge(), staged as f64);
    writer.write(format!("{}]}}", item(2)));
    drop(writer);
    settle().await;
    assert_eq!((gauge(), rig.informer.snapshot().bytes()), (0.0, 2 * staged));
}

#[tokio::test(start_paused = true)]
async fn a_list_of_endless_space_fails_at_the_limit() {
    let options = RigOptions {
        informer: by_list(low_limits()),
        ..RigOptions::default()
    };
    let rig = limited(options, || Box::new(iter::repeat_with(|| " ".repeat(4_096))));
    settle().await;
    insta::assert_snapshot!(too_large(&rig), @"list: the list is too large: more than 1 MiB; narrow the informer with `namespaces` or a selector");
}

#[tokio::test(start_paused = true)]
async fn endless_initial_events_fail_at_the_limit() {
    let mut informer = by_list(low_limits());
    informer.reflector.watch_list = true;
    let options = RigOptions {
        informer,
        ..RigOptions::default()
    };
    let rig = limited(options, || {
        Box::new((0..).map(|number| format!("{{\"type\":\"ADDED\",\"object\":{}}}\n", item(number))))
    });
    settle().await;
    let status = rig.informer.status();
    assert_eq!(status.state, SourceState::Syncing);
    assert!(status.last_error.unwrap().0.contains("more than 2000 objects"));
}

#[tokio::test(start_paused = true)]
async fn the_same_continue_token_twice_is_an_error() {
    let page =
        r#"{"kind":"PodList","apiVersion":"v1","metadata":{"resourceVersion":"1","continue":"again"},"items":[]}"#;
    let mut requests = 0;
    let client = client(move |_| {
        requests += 1;
        assert!(requests < 10, "the list has no end");
        json_answer(page)
    });
    let options = RigOptions {
        client: Some(client.into()),
        ..RigOptions::default()
    };
    let rig = Rig::start_with(&api_server(), options);
    settle().await;
    assert_eq!(rig.informer.status().state, SourceState::Syncing);
    insta::assert_snapshot!(rig.informer.status().last_error.unwrap().0, @"list: the response is malformed: page 2 of the list has the continue token of the page before, so the list has no end");
}

#[test]
fn a_list_has_a_limited_number_of_pages() {
    let mut limits = ListLimits::new(&ReflectorOptions::default(), false);
    let mut token = |page: usize| limits.page(&page.to_string(), &(page + 1).to_string());
    assert!((1..LIST_PAGES_MAX).all(|page| token(page).is_ok()));
    assert!(token(LIST_PAGES_MAX).is_err());
}

#[tokio::test(start_paused = true)]
async fn an_unsupported_field_selector_is_refused() {
    let server = api_server();
    put(&server, "a", 1);
    for watch_list in [false, true] {
        let spec = SourceSpec {
            field_selector: Some(FieldSelector::parse("spec.image=nginx").unwrap()),
            ..pods()
        };
        let mut informer = by_list(ReflectorOptions::default());
        informer.reflector.watch_list = watch_list;
        let rig = Rig::start_with(
            &server,
            RigOptions {
                spec,
                informer,
                ..RigOptions::default()
            },
        );
        let before = server.requests().len();
        pass(60).await;
        let status = rig.informer.status();
        assert_eq!(status.state, SourceState::Refused);
        let (error, _) = status.last_error.unwrap();
        assert!(error.ends_with("field label not supported: spec.image"), "{error}");
        assert_eq!(server.requests().len(), before + 1, "it is not asked again soon");
    }
}
