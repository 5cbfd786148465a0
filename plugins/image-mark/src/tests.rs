use informant_plugin_sdk::testing::{Driver, Write};

use super::*;

fn driver() -> Driver<ImageMark> {
    Driver::start(json!({})).expect("the plugin starts")
}

fn pod(name: &str, images: &[&str]) -> Value {
    let containers: Vec<Value> = images
        .iter()
        .map(|image| json!({ "name": "c", "image": image }))
        .collect();
    json!({
        "apiVersion": "v1",
        "kind": "Pod",
        "metadata": { "namespace": "web", "name": name, "labels": { "app": "shop" } },
        "spec": { "containers": containers },
    })
}

/// The writes of the plugin, as `object=label`.
fn written(driver: &Driver<ImageMark>) -> Vec<String> {
    let writes = driver.cache().take_writes().into_iter();
    writes
        .map(|write| {
            assert_eq!((write.verb, write.resource.as_str()), ("patch", "v1/pods"));
            let label = write.document["metadata"]["labels"][LABEL].as_str().unwrap_or_default();
            format!("{}={label}", write.object)
        })
        .collect()
}

#[test]
fn a_pod_is_labeled_once_by_its_weakest_image() {
    let mut driver = driver();
    driver.put(pod("a", &["nginx:1.25", "proxy@sha256:00ff"])).unwrap();
    driver.put(pod("b", &["nginx:1.25", "proxy"])).unwrap();
    driver.put(pod("c", &["nginx@sha256:00ff"])).unwrap();
    assert_eq!(
        driver.settle().unwrap(),
        3,
        "each write causes one event, and no further write"
    );
    assert_eq!(written(&driver), ["web/a=tagged", "web/b=floating", "web/c=pinned"]);
}

#[test]
fn only_a_changed_pod_is_labeled_again() {
    let mut driver = driver();
    driver.put(pod("a", &["nginx:1.25"])).unwrap();
    driver.settle().unwrap();
    written(&driver);
    let mut ready = driver.cache().object(SourceId(0), "web", "a").expect("it is there");
    ready["status"]["phase"] = json!("Running");
    driver.put(ready.clone()).unwrap();
    assert_eq!(written(&driver), [""; 0]);
    ready["metadata"]["labels"][LABEL] = json!("pinned");
    driver.put(ready).unwrap();
    driver.settle().unwrap();
    assert_eq!(written(&driver), ["web/a=tagged"]);
}

#[test]
fn a_terminating_pod_or_one_without_images_is_not_labeled() {
    let mut driver = driver();
    let mut terminating = pod("a", &["nginx"]);
    terminating["metadata"]["deletionTimestamp"] = json!("2026-11-21T00:00:00Z");
    driver.put(terminating).unwrap();
    driver.put(pod("b", &[])).unwrap();
    assert_eq!(written(&driver), [""; 0]);
}

#[test]
fn without_the_grant_it_fails_permanently_with_the_reason() {
    let mut driver = driver();
    driver.cache().refuse(Some(informant_plugin_sdk::HostError {
        code: informant_plugin_sdk::ErrorCode::Denied,
        message: "not granted".to_owned(),
    }));
    let answer = driver.put(pod("a", &["nginx"]));
    assert_eq!(answer, Err(Failure::permanent("not granted")));
}

#[test]
fn pods_with_the_same_name_are_labeled_in_their_clusters() {
    let mut driver = driver();
    for cluster in ["east", "west"] {
        driver.cache().source_in_cluster(cluster, "pods", "v1", "Pod");
    }
    driver.put_in_cluster("east", pod("a", &["nginx"])).unwrap();
    driver.put_in_cluster("west", pod("a", &["nginx:1.25"])).unwrap();
    assert_eq!(driver.settle().unwrap(), 2);
    let label = |write: Write| {
        let label = write.document["metadata"]["labels"][LABEL].clone();
        (write.cluster, label)
    };
    let written: Vec<_> = driver.cache().take_writes().into_iter().map(label).collect();
    let expected = [("east", "floating"), ("west", "tagged")];
    assert_eq!(
        written,
        expected.map(|(cluster, label)| (cluster.to_owned(), json!(label)))
    );
}
