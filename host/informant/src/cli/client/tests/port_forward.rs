//! Port-forwards, with the part of the API server and the kubelet played by the test.

use super::*;

fn ready(name: &str) -> Value {
    json!({
        "metadata": { "name": name, "namespace": "informant" },
        "spec": { "containers": [{ "name": "informant", "ports": [{ "name": "admin", "containerPort": 8089 }] }] },
        "status": { "phase": "Running", "conditions": [{ "type": "Ready", "status": "True" }] },
    })
}

#[tokio::test]
async fn port_forward_leads_to_the_ready_pod() {
    let daemon = Daemon::start("informant.informant.svc", no_plugins()).await;
    let api = ApiServer::start(json!([ready("informant-0")]), Some(daemon.address), None).await;
    let folder = tempfile::tempdir().unwrap();
    let kubeconfig = api.kubeconfig(&folder, &json!({ "token": "secret" }));
    let authority = daemon.certificate.display().to_string();
    let through = async |flags: &[&str]| plugins(&[&["--kubeconfig", &kubeconfig], flags].concat()).await;
    for flags in [
        &["--informant-namespace", "informant"][..],
        &["--pod", "informant-0"],
        &["--pod", "informant-0", "--certificate-authority", &authority],
    ] {
        assert!(through(flags).await.unwrap().items.is_empty(), "{flags:?}");
        assert_eq!(
            daemon.seen(),
            ["GET /api/v1/plugins localhost Bearer secret"],
            "{flags:?}"
        );
    }
    let list = "GET /api/v1/namespaces/informant/pods?&labelSelector=app.kubernetes.io%2Fname%3Dinformant&limit=100 ";
    assert!(api.seen()[0].starts_with(list));

    let other = Daemon::start("informant.informant.svc", no_plugins()).await;
    let authority = other.certificate.display().to_string();
    let error = through(&["--pod", "informant-0", "--certificate-authority", &authority])
        .await
        .unwrap_err();
    let expected = "cannot connect to the admin server of pod informant/informant-0: invalid peer certificate";
    assert!(error.starts_with(expected), "{error}");
    assert_eq!(daemon.seen(), [""; 0]);
}

#[tokio::test]
async fn failing_port_forwards_are_explained() {
    let folder = tempfile::tempdir().unwrap();
    let error = async |api: ApiServer, flags: &[&str]| {
        let kubeconfig = api.kubeconfig(&folder, &json!({ "token": "secret" }));
        plugins(&[&["--kubeconfig", &kubeconfig], flags].concat())
            .await
            .unwrap_err()
    };
    let namespace = ["--informant-namespace", "informant"];
    let pods = || json!([ready("informant-0")]);
    let refusing = ApiServer::start(pods(), None, None).await;
    insta::assert_snapshot!(error(refusing, &namespace).await, @"cannot connect to the admin server of pod informant/informant-0: error forwarding port 8089: connection refused");
    let forbidding = ApiServer::start(pods(), None, Some(StatusCode::FORBIDDEN)).await;
    insta::assert_snapshot!(error(forbidding.clone(), &namespace).await, @"cannot find Informant's pod in namespace informant: it is forbidden; you need `list` on pods in namespace informant");
    insta::assert_snapshot!(error(forbidding, &["--pod", "informant-0"]).await, @"cannot find Informant's pod in namespace informant: it is forbidden; you need `get` on pods in namespace informant");
    let mut pending = ready("informant-0");
    pending["status"] = json!({ "phase": "Pending" });
    let pending = ApiServer::start(json!([pending]), None, None).await;
    insta::assert_snapshot!(error(pending.clone(), &["--pod", "informant-0"]).await, @"pod informant-0 in namespace informant is Pending: nothing responds there");
    insta::assert_snapshot!(error(pending.clone(), &["--pod", "informant-1"]).await, @"there is no pod informant-1 in namespace informant");
    insta::assert_snapshot!(error(pending, &["--pod", "../secrets"]).await, @"
    error: invalid value '../secrets' for '--pod <NAME>': not the name of a Kubernetes object: use lowercase letters, digits, `-` and `.`

    For more information, try '--help'.
    ");
}
