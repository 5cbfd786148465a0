use super::*;

fn refused(text: &str) -> String {
    match Scenario::parse(SourceFile::new("a.scenario.yaml", text)) {
        Ok(_) => panic!("it was accepted: {text}"),
        Err(problems) => problems.to_string(),
    }
}

#[test]
fn every_mistake_is_named_with_its_place_and_remedy() {
    let texts = [
        "",
        "steps: []\n---\nsteps: []\n",
        "config: { informer: {} }\n",
        "step: []\nsteps: []\nkv: [1]\n",
        "steps:\n  - apply: { kind: Pod }\n  - aply: {}\n  - {}\n  - wait: 5\n  - wait: 5 parsecs\n",
        "steps:\n  - wait: 1s\n    delete: v1/pods a/b\n  - delete: pods/b\n  - replay: {}\n",
        "steps:\n  - apply: |\n      a: 1\n      a: 2\n",
        "http:\n  - { method: GET }\n  - { url: a, status: 42, times: 0, error: tls, headers: { \"a b\": c } }\nsteps: []\n",
        "steps:\n  - expect: { call: [], calls: {}, log: {}, kv: [] }\n",
        "steps:\n  - expect:\n      calls: [{ call: onAdd, reslt: ok, requeueAfter: 5 }]\n      writes: [patch]\n      metrics: { a: b }\n",
    ];
    insta::assert_snapshot!(texts.map(refused).join("\n\n"));
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
        - { call: on-add, object: v1/pods a/b }
        - call: save
      log: [{ message: hello }]
      deadLetters: [{ object: v1/pods a/b }]
";
    assert_eq!(entries(short), entries(long));
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
