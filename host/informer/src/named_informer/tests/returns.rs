//! What leaves an informer and comes back before handlers have been told that it left.

use super::*;

/// What a handler was told of one key, in order.
fn of(told: &[String], key: &str) -> Vec<String> {
    told.iter().filter(|line| line.contains(key)).cloned().collect()
}

#[tokio::test(start_paused = true)]
async fn a_namespace_that_comes_back_while_a_handler_is_slow_is_told_after_its_deletes() {
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
    let told = world.take();
    for key in ["b/one", "b/two", "b/three"] {
        let expected = [format!("delete {key} (reconfigured)"), format!("add {key} (initial)")];
        assert_eq!(of(&told, key), expected, "{told:#?}");
    }
    assert_eq!(of(&told, "b/goes"), ["delete b/goes (reconfigured)"]);
    assert_eq!(told.last().unwrap(), "synced (initial)");
    // The source that left has nothing to wait for any more.
    pass(10).await;
    assert_eq!((world.catalog.all().len(), server.stats().watches_open), (2, 2));
    put(&server, "b/three", 2);
    settle().await;
    assert_eq!(world.take(), ["update b/three (watch)"]);
}

#[tokio::test(start_paused = true)]
async fn from_all_namespaces_to_one_and_back_is_told_in_that_order_however_slow_a_handler_is() {
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
    let told = world.take();
    let (delete, add) = ("delete KEY (reconfigured)", "add KEY (reconfigured)");
    let expected = |key: &str, lines: &[&str]| lines.iter().map(|line| line.replace("KEY", key)).collect::<Vec<_>>();
    assert!(of(&told, "a/one").is_empty(), "{told:#?}");
    // What left and came back twice need not be told that often: in the end it is there, or not.
    let of_b = of(&told, "b/one");
    assert_eq!(of_b.last(), expected("b/one", &[delete, add]).last(), "{told:#?}");
    let of_c = of(&told, "c/one");
    assert_eq!(of_c.last(), expected("c/one", &[delete]).last(), "{told:#?}");
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
async fn a_namespace_that_comes_back_before_it_was_listed_leaves_nothing_behind() {
    let server = filled();
    let world = World::start(&server, &["a", "b"]);
    settle().await;
    world.take();
    let held = world.open.acquire().await.unwrap();
    let in_b = Filter::any().namespace("b");
    world.change(&["a"]).await;
    server.faults().forbid(in_b.clone());
    // Comes, is refused, and goes; then comes to stay.
    world.change(&["a", "b"]).await;
    pass(5).await;
    world.change(&["a"]).await;
    server.faults().allow(&in_b);
    world.change(&["a", "b"]).await;
    world.informer.synced().await.unwrap();
    drop(held);
    pass(5).await;
    let told = world.take();
    assert_eq!(
        of(&told, "b/one"),
        ["delete b/one (reconfigured)", "add b/one (initial)"]
    );
    pass(10).await;
    assert_eq!((world.catalog.all().len(), server.stats().watches_open), (2, 2));
}
