use informant_object::Shape;

use super::*;
use crate::observed::{CallResult, ObservedCall};

fn call(function: &'static str) -> ObservedCall {
    ObservedCall {
        function,
        about: None,
        result: CallResult::Ok { requeue_after: None },
    }
}

fn recorder() -> (Arc<Recorder>, oneshot::Receiver<Result<Captured, CaptureError>>) {
    let (sender, receiver) = oneshot::channel();
    let recorder = Arc::new(Recorder::new(sender));
    recorder.begin(Moment::ZERO, Digest::of(b"component"));
    (recorder, receiver)
}

fn line(message: String) -> Record {
    Record::Log(LogRecord {
        level: "info",
        message,
        fields: None,
    })
}

#[test]
fn nothing_is_recorded_while_the_tape_stands() {
    let tape = Tape::default();
    tape.record(|| unreachable!("no call is captured"));
    let (recorder, mut done) = recorder();
    tape.start(&recorder);
    tape.record(|| line("hello".to_owned()));
    tape.stop();
    tape.record(|| unreachable!("the call is over"));
    recorder.called(call("on-add"));
    recorder.finish();
    let captured = done.try_recv().unwrap().unwrap();
    assert_eq!((captured.call, captured.records.len()), (call("on-add"), 1));
}

#[test]
fn one_call_of_a_plugin_is_captured_at_a_time() {
    let captures = Arc::new(Captures::default());
    let arm = || captures.arm(SourceId(1), Key::new("shop", "web-0"));
    let first = arm().unwrap();
    assert_eq!(arm().unwrap_err(), CaptureError::Busy);
    assert!(captures.is_armed.load(Ordering::Acquire));
    drop(first);
    assert!(!captures.is_armed.load(Ordering::Acquire));
    arm().unwrap();
}

#[test]
fn a_capture_that_is_too_large_is_refused() {
    let (recorder, mut done) = recorder();
    let half = "a".repeat(CAPTURE_BYTES_MAX / 2);
    recorder.record(line(half.clone()));
    recorder.record(line(half));
    recorder.called(call("on-add"));
    recorder.finish();
    let refused = done.try_recv().unwrap().unwrap_err();
    assert_eq!(
        refused.to_string(),
        "the call has read, sent and received more than 512 KiB"
    );
}

#[test]
fn bodies_count_for_the_limit() {
    let (recorder, mut done) = recorder();
    let tape = Tape::default();
    tape.start(&recorder);
    let request = http::Request::get("https://a.example/").body(()).unwrap();
    let http = tape.http(&request);
    http.sent(b"ping");
    http.response(&http::Response::new(()));
    http.received(b"pong");
    http.received(&vec![0; CAPTURE_BYTES_MAX]);
    recorder.called(call("on-add"));
    recorder.finish();
    assert_eq!(done.try_recv().unwrap().unwrap_err(), CaptureError::TooLarge);
}

#[test]
fn headers_count_for_the_limit() {
    let half = "a".repeat(CAPTURE_BYTES_MAX / 2);
    let (recorder, mut done) = recorder();
    let tape = Tape::default();
    tape.start(&recorder);
    let request = http::Request::get("https://a.example/").header("x-long", &half);
    let http = tape.http(&request.body(()).unwrap());
    http.response(&http::Response::builder().header("x-long", &half).body(()).unwrap());
    recorder.called(call("on-add"));
    recorder.finish();
    assert_eq!(done.try_recv().unwrap().unwrap_err(), CaptureError::TooLarge);
}

#[test]
fn the_digest_is_that_of_the_version_that_was_called() {
    let (recorder, mut done) = recorder();
    // Nothing was called before the plugin was swapped.
    recorder.begin(Moment::ZERO, Digest::of(b"next component"));
    recorder.called(call("on-add"));
    recorder.finish();
    let captured = done.try_recv().unwrap().unwrap();
    assert_eq!(captured.digest, Digest::of(b"next component"));
}

#[test]
fn an_object_that_no_longer_matches_is_the_last_state() {
    let object = |name: &str| {
        let json = format!(r#"{{"metadata":{{"name":"{name}"}}}}"#);
        informant_object::Object::parse(json.as_bytes(), &Shape::of("v1", "Pod")).unwrap()
    };
    let (recorder, mut done) = recorder();
    let tape = Tape::default();
    tape.start(&recorder);
    tape.event(&informant_cache::listener::Notification::Update {
        old: Some(object("before")),
        new: object("after"),
    });
    recorder.called(call("on-delete"));
    recorder.finish();
    let captured = done.try_recv().unwrap().unwrap();
    assert_eq!(captured.object.unwrap().name(), "before");
    assert!(captured.old.is_none());
}
