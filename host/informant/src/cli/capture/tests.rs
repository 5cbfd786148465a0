use informant_config::SourceFile;
use serde_json::json;

use super::*;

fn captured() -> CapturedView {
    let pod = json!({
        "apiVersion": "v1", "kind": "Pod",
        "metadata": { "namespace": "shop", "name": "web-0", "annotations": { "on": "yes", "n": "1", "text": "a\nb: c\n" } },
    });
    CapturedView {
        digest: "0123".to_owned(),
        contract: "informant:plugin@0.3.0".to_owned(),
        scenario: json!({
            "name": "on-update v1/pods shop/web-0, captured",
            "time": "2026-11-28T11:21:16.123Z",
            "config": {
                "informer": { "pods": { "resource": "v1/pods" } },
                "plugin": { "greeter": { "script": "greeter.js", "informers": ["pods"], "config": { "token": "REDACTED" } } },
            },
            "objects": [pod],
            "kv": { "last": "\"shop/web-0\"" },
            "http": [{ "method": "GET", "url": "https://team.example/*", "times": 1, "status": 503 }],
            "steps": [
                { "replay": {
                    "call": "on-update", "object": pod, "reason": "trigger", "attempt": 0,
                    "kube": [{ "verb": "get", "object": "v1/nodes n1", "error": { "code": "not-found", "status": 404 } }],
                } },
                { "expect": { "calls": [{ "call": "on-update", "result": "retry", "error": "503 \\*" }], "log": [] } },
            ],
        }),
        redacted: vec!["token".to_owned()],
        inexact: Vec::new(),
    }
}

#[test]
fn a_capture_is_a_file_that_people_read() {
    insta::assert_snapshot!(text_of("greeter", &captured()).unwrap(), @r#"
    # A call of plugin greeter, written by `informant plugin capture`. Run it with `informant plugin test`.
    # Component or script: sha256 0123, called by informant:plugin@0.3.0
    # Read this file before you share it. Only what looks like a credential was redacted, and unusual headers:
    #   token
    # Not replayed as it was: nothing
    name: on-update v1/pods shop/web-0, captured
    time: "2026-11-28T11:21:16.123Z"
    config:
      informer:
        pods:
          resource: v1/pods
      plugin:
        greeter:
          config:
            token: REDACTED
          informers:
          - pods
          script: greeter.js
    objects:
    - apiVersion: v1
      kind: Pod
      metadata:
        annotations:
          "n": "1"
          "on": "yes"
          text: |
            a
            b: c
        name: web-0
        namespace: shop
    kv:
      last: "\"shop/web-0\""
    http:
    - method: GET
      status: 503
      times: 1
      url: https://team.example/*
    steps:
    - replay:
        attempt: 0
        call: on-update
        kube:
        - error:
            code: not-found
            status: 404
          object: v1/nodes n1
          verb: get
        object:
          apiVersion: v1
          kind: Pod
          metadata:
            annotations:
              "n": "1"
              "on": "yes"
              text: |
                a
                b: c
            name: web-0
            namespace: shop
        reason: trigger
    - expect:
        calls:
        - call: on-update
          error: 503 \*
          result: retry
        log: []
    "#);
}

#[test]
fn a_capture_is_read_as_it_was_written() {
    let view = captured();
    let text = text_of("greeter", &view).unwrap();
    test::check(Path::new("a.scenario.yaml"), &text).unwrap();
    let read = test::parsed(&SourceFile::new("a.scenario.yaml", text));
    assert_eq!(read, view.scenario);
}

#[test]
fn names_that_plugin_test_does_not_find_are_refused() {
    insta::assert_snapshot!(check_name(Path::new("a.yaml")).unwrap_err(), @"--out a.yaml: the name of a scenario ends in .scenario.yaml, as a.scenario.yaml does");
    let folder = tempfile::tempdir().unwrap();
    let file = folder.path().join("a.scenario.yaml");
    check_name(&file).unwrap();
    std::fs::write(&file, "").unwrap();
    assert!(check_name(&file).unwrap_err().to_string().contains("exists: remove it"));
}
