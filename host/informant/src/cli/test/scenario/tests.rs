use super::*;

fn refused(text: &str) -> String {
    match Scenario::parse(SourceFile::new("a.scenario.yaml", text)) {
        Ok(_) => panic!("it was accepted: {text}"),
        Err(problems) => problems.to_string(),
    }
}

#[test]
fn every_mistake_is_named_with_its_place_and_remedy() {
    let cases: &[(&str, &[&str])] = &[
        ("", &["a.scenario.yaml: the file is empty"]),
        (
            "steps: []\n---\nsteps: []\n",
            &["a.scenario.yaml:3:1: the file has 2 documents"],
        ),
        ("config: {}\n", &["1:1: the scenario has no `steps`"]),
        (
            "step: []\nsteps: []\nkv: [1]\n",
            &[
                "1:1: unknown member `step` in a scenario\n  help: did you mean `steps`?",
                "3:5: `kv` is a list, not a mapping",
            ],
        ),
        (
            "steps:\n  - apply: { kind: Pod }\n  - aply: {}\n  - {}\n  - wait: 5\n  - wait: 5 parsecs\n",
            &[
                "2:12: an object in `apply` lacks `apiVersion`",
                "3:5: unknown member `aply` in a step\n  help: did you mean `apply`?",
                "4:5: a step has neither an action nor `expect`",
                "5:11: `wait` is a number, not a duration\n  help: with a unit: wait: 5s",
                "6:11: `wait`: \"5 parsecs\" is not a duration",
            ],
        ),
        (
            "steps:\n  - wait: 1s\n    delete: v1/pods a/b\n  - delete: pods/b\n  - replay: {}\n  - replay: { call: on-add }\n",
            &[
                "2:5: a step has two actions: `delete` and `wait`",
                "4:13: `delete`: \"pods/b\" is not a reference",
                "5:13: `replay` does not say which function is called (`call`)",
                "6:13: `replay` has no `object`",
            ],
        ),
        (
            "steps:\n  - apply: |\n      a: 1\n      a: 2\n",
            &["`apply`, line 2 of the text: `a` is there twice"],
        ),
        (
            "http:\n  - { method: GET }\n  - { url: a, times: 0, error: tls, headers: { \"a b\": c } }\nsteps: []\n",
            &[
                "2:5: an answer in `http` has no `url`",
                "`times` is not a number from 1 to 1000000",
                "`error`: \"tls\" is unknown",
                "`a b: c` is not a header",
            ],
        ),
        (
            "steps:\n  - expect: { call: [], calls: {}, log: { a: 1 }, kv: [] }\n",
            &[
                "unknown member `call` in `expect`",
                "`calls` is a mapping without `includes`",
                "unknown member `a` in `log`",
                "`kv` is a list, not a mapping",
            ],
        ),
        (
            "steps:\n  - expect:\n      calls: [{ call: onAdd, reslt: ok, requeueAfter: 5 }]\n      metrics: { a: b }\n",
            &[
                "3:15: `call` in an entry of `calls` has an unknown value: \"onAdd\"",
                "unknown member `reslt` in an entry of `calls`\n  help: did you mean `result`?",
                "`requeueAfter` is not a duration: 5",
                "the value of `a` is not a number",
            ],
        ),
    ];
    for (text, expected) in cases {
        let refused = refused(text);
        for expected in *expected {
            assert!(refused.contains(expected), "{text}\nlacks {expected}\n{refused}");
        }
    }
}

#[test]
fn short_forms_are_the_same_as_long_ones() {
    let entries = |text: &str| {
        let scenario = Scenario::parse(SourceFile::new("a.scenario.yaml", text)).unwrap();
        let expect = scenario.steps[0].expect.as_ref().unwrap();
        let entries = expect.streams.iter().flat_map(|listed| &listed.entries);
        entries.map(|entry| entry.pattern.clone()).collect::<Vec<_>>()
    };
    let short = "steps: [{ expect: { calls: [on-add v1/pods a/b, save], log: [hello], deadLetters: [v1/pods a/b] } }]";
    let long = "
steps:
  - expect:
      calls:
        - { call: on-add, object: v1/pods a/b, result: ok }
        - { call: save, result: ok }
      log: [{ message: hello }]
      deadLetters: [{ object: v1/pods a/b }]
";
    assert_eq!(entries(short), entries(long));
}

#[test]
fn names_of_expected_headers_are_read_in_lower_case() {
    let text = "steps: [{ expect: { http: [{ headers: { Content-Type: text/plain, X-Team: null } }] } }]";
    let scenario = Scenario::parse(SourceFile::new("a.scenario.yaml", text)).unwrap();
    let entry = &scenario.steps[0].expect.as_ref().unwrap().streams[0].entries[0];
    let expected = serde_json::json!({ "content-type": "text/plain", "x-team": null });
    assert_eq!(entry.pattern["headers"], expected);
}

#[test]
fn what_should_be_a_section_is_refused() {
    let text = "config:\n  informer: { pods: 5 }\n  plugin:\n    greeter: 5\n    other: {}\nsteps: []\n";
    let refusals = refused(text);
    assert!(
        refusals.contains("2:21: `informer.pods` is a number, not a mapping"),
        "{refusals}"
    );
    assert!(
        refusals.contains("4:14: `plugin.greeter` is a number, not a mapping"),
        "{refusals}"
    );
    let refusals = refused("config: { informer: 5, plugin: [1] }\nsteps: []\n");
    assert!(
        refusals.contains("1:21: `informer` is a number, not a mapping"),
        "{refusals}"
    );
    assert!(
        refusals.contains("1:32: `plugin` is a list, not a mapping"),
        "{refusals}"
    );
}

#[test]
fn objects_may_be_a_mapping_a_list_or_text() {
    let names = |objects: &str| {
        let text = format!("objects: {objects}\nsteps: []\n");
        let scenario = Scenario::parse(SourceFile::new("a.scenario.yaml", text)).unwrap();
        scenario
            .objects
            .into_iter()
            .map(|object| object.name)
            .collect::<Vec<_>>()
    };
    let pod = |name: &str| format!("{{ apiVersion: v1, kind: Pod, metadata: {{ name: {name} }} }}");
    assert_eq!(names(&pod("a")), ["a"]);
    assert_eq!(names(&format!("[{}, {}]", pod("a"), pod("b"))), ["a", "b"]);
    assert_eq!(
        names(&format!("|\n  {}\n  ---\n  {}\n", pod("a"), pod("b"))),
        ["a", "b"]
    );
}
