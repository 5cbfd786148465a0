//! Namespaces that are removed and added again before handlers have received all deletes.

use super::*;

/// The events of one key that a handler received, in order.
fn of(calls: &[String], key: &str) -> Vec<String> {
    calls.iter().filter(|line| line.contains(key)).cloned().collect()
}

#[tokio::test(start_paused = true)]
async fn a_readded_namespace_is_delivered_after_its_deletes() {
    let server = filled();
    for path in ["b/two", "b/three", "b/goes"] {
        put(&server, path, 1);
    }
    let world = World::start(&server, &["a", "b"]);
    settle().await;
    world.take();
    let held = world.open.acquire().await.unwrap();
    world.change(&["a"]).await;
    settle().await;
    server.delete("v1/pods", "b", "goes").unwrap();
    world.change(&["a", "b"]).await;
    world.informer.synced().await.unwrap();
    put(&server, "b/two", 2);
    settle().await;
    assert!(world.take().is_empty());
    drop(held);
    pass(5).await;
    let calls = world.take();
    for key in ["b/one", "b/two", "b/three"] {
        let expected = [format!("delete {key} (reconfigured)"), format!("add {key} (initial)")];
        assert_eq!(of(&calls, key), expected, "{calls:#?}");
    }
    assert_eq!(of(&calls, "b/goes"), ["delete b/goes (reconfigured)"]);
    assert_eq!(calls.last().unwrap(), "synced (initial)");
    // The removed source has nothing queued any more.
    pass(10).await;
    assert_eq!((world.catalog.all().len(), server.stats().watches_open), (2, 2));
    put(&server, "b/three", 2);
    settle().await;
    assert_eq!(world.take(), ["update b/three (watch)"]);
}

#[tokio::test(start_paused = true)]
async fn namespace_changes_stay_in_order_for_a_slow_handler() {
    let server = filled();
    let world = World::start(&server, &[]);
    settle().await;
    world.take();
    let held = world.open.acquire().await.unwrap();
    for namespaces in [&["a"][..], &[], &["a"], &[], &["a", "b"]] {
        world.change(namespaces).await;
        pass(5).await;
    }
    drop(held);
    pass(5).await;
    let calls = world.take();
    let (delete, add) = ("delete KEY (reconfigured)", "add KEY (reconfigured)");
    let expected = |key: &str, lines: &[&str]| lines.iter().map(|line| line.replace("KEY", key)).collect::<Vec<_>>();
    assert!(of(&calls, "a/one").is_empty(), "{calls:#?}");
    // An object that was removed and added again twice may be delivered fewer times; its last state counts.
    let of_b = of(&calls, "b/one");
    assert_eq!(of_b.last(), expected("b/one", &[delete, add]).last(), "{calls:#?}");
    let of_c = of(&calls, "c/one");
    assert_eq!(of_c.last(), expected("c/one", &[delete]).last(), "{calls:#?}");
    for lines in [of_b, of_c] {
        let kinds: Vec<_> = lines.iter().map(|line| line.starts_with("delete")).collect();
        assert!(
            kinds[0] && kinds.windows(2).all(|pair| pair[0] != pair[1]),
            "by turns: {lines:?}"
        );
    }
    pass(10).await;
    assert_eq!(world.catalog.all().len(), 2);
}

#[tokio::test(start_paused = true)]
async fn a_namespace_readded_before_its_first_list_leaves_nothing_behind() {
    let server = filled();
    let world = World::start(&server, &["a", "b"]);
    settle().await;
    world.take();
    let held = world.open.acquire().await.unwrap();
    let in_b = Filter::any().namespace("b");
    world.change(&["a"]).await;
    server.faults().forbid(in_b.clone());
    // Added, forbidden, and removed; then added to stay.
    world.change(&["a", "b"]).await;
    pass(5).await;
    world.change(&["a"]).await;
    server.faults().allow(&in_b);
    world.change(&["a", "b"]).await;
    world.informer.synced().await.unwrap();
    drop(held);
    pass(5).await;
    let calls = world.take();
    assert_eq!(
        of(&calls, "b/one"),
        ["delete b/one (reconfigured)", "add b/one (initial)"]
    );
    pass(10).await;
    assert_eq!((world.catalog.all().len(), server.stats().watches_open), (2, 2));
}
