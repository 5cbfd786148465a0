//! Random changes in random order: handlers end up with the state of the cluster.

use informant_cache::Environment as _;

use super::*;

/// Random writes and changes of the namespaces: in the end the handler knows the objects of the cluster in the
/// configured namespaces.
async fn run(seed: u64) {
    let random = TokioEnvironment::current(seed);
    let server = filled();
    let world = World::start(&server, &["a"]);
    let choices: [&[&str]; 6] = [&[], &["a"], &["a", "b"], &["b", "c"], &["c"], &["a", "b", "c"]];
    let mut wanted: &[&str] = &["a"];
    for _ in 0..50 {
        for _ in 0..random.random() % 5 {
            let draw = random.random();
            let namespace = ["a", "b", "c"][(draw % 3) as usize];
            let name = format!("pod-{}", draw >> 4 & 3);
            match draw >> 8 & 7 {
                0 | 1 => drop(server.delete("v1/pods", namespace, &name)),
                _ => put(&server, &format!("{namespace}/{name}"), draw >> 16 & 7),
            }
        }
        if random.random().is_multiple_of(4) {
            wanted = choices[(random.random() % 6) as usize];
            world.change(wanted).await;
        }
        tokio::time::sleep(Duration::from_millis(random.random() % 1_000)).await;
    }
    pass(30).await;
    let is_wanted = |namespace: &str| wanted.is_empty() || wanted.contains(&namespace);
    let cluster = server.list("v1/pods").unwrap();
    let mut truth: Vec<_> = cluster
        .iter()
        .map(|pod| {
            (
                pod["metadata"]["namespace"].as_str().unwrap(),
                pod["metadata"]["name"].as_str().unwrap(),
            )
        })
        .filter(|(namespace, _)| is_wanted(namespace))
        .map(|(namespace, name)| format!("{namespace}/{name}"))
        .collect();
    truth.sort();
    assert_eq!(world.found(), truth, "seed {seed}");
    let mut view = BTreeSet::new();
    for line in world.take() {
        let words: Vec<_> = line.split(' ').collect();
        match words[0] {
            "add" | "update" => drop(view.insert(words[1].to_owned())),
            "delete" => assert!(view.remove(words[1]), "seed {seed}: {line}"),
            _ => {}
        }
    }
    assert_eq!(view.into_iter().collect::<Vec<_>>(), truth, "seed {seed}");
    let sources = wanted.len().max(1);
    assert_eq!(
        (world.catalog.all().len(), server.stats().watches_open),
        (sources, sources),
        "seed {seed}"
    );
}

#[tokio::test(start_paused = true)]
async fn random_namespace_changes_converge() {
    for seed in 0..30 {
        run(seed).await;
    }
}
