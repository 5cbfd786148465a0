//! Options of the embedded API server: TLS on request, a persisted state, a second replica, faults set on the command
//! line.

use std::path::Path;

use anyhow::{Result, ensure};
use informant_tests::process::Process;
use informant_tests::{guests, wait};

use super::{ANSWERS_WITHIN, Kubectl};

fn start(folder: &Path, options: &[&str]) -> Result<Process> {
    let mut args = vec![
        "apiserver".to_owned(),
        "--listen=127.0.0.1:0".to_owned(),
        format!("--kubeconfig-out={}", folder.join("kubeconfig").display()),
        format!("--snapshot={}", folder.join("snapshot").display()),
    ];
    args.extend(options.iter().map(|option| (*option).to_owned()));
    Process::start(&guests::informant()?, args)
}

/// Starts a server and waits until kubectl reaches it.
async fn reached(kubectl: &Kubectl, options: &[&str]) -> Result<Process> {
    let _ = std::fs::remove_file(&kubectl.kubeconfig);
    let mut server = start(&kubectl.folder, options)?;
    let answers = wait::until("the server to answer kubectl", ANSWERS_WITHIN, async || {
        let ready = kubectl.run(&["get", "--raw", "/readyz"]).await;
        ready.map_err(|error| format!("{error:#}"))
    });
    server.while_running(answers).await?;
    Ok(server)
}

fn kubectl(folder: &Path) -> Kubectl {
    Kubectl {
        kubeconfig: folder.join("kubeconfig"),
        folder: folder.to_path_buf(),
    }
}

async fn stop(mut server: Process) -> Result<()> {
    server.signal("TERM").await?;
    let code = server.wait_for_end(ANSWERS_WITHIN).await?;
    ensure!(code == Some(0), "ended with {code:?}\n{}", server.tail());
    Ok(())
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn server_restores_its_snapshot_and_refuses_a_truncated_one() {
    keep_and_tear().await.unwrap();
}

async fn keep_and_tear() -> Result<()> {
    let folder = tempfile::tempdir()?;
    let kubectl = kubectl(folder.path());
    let server = reached(&kubectl, &["--tls"]).await?;
    let config = std::fs::read_to_string(&kubectl.kubeconfig)?;
    ensure!(
        config.contains("server: https://127.0.0.1:") && config.contains("certificate-authority-data: "),
        "{config}"
    );
    kubectl
        .run(&["create", "configmap", "kept", "--from-literal=a=1"])
        .await?;
    let uid = kubectl
        .run(&["get", "configmap", "kept", "-o", "jsonpath={.metadata.uid}"])
        .await?;
    stop(server).await?;

    let server = reached(&kubectl, &[]).await?;
    let config = std::fs::read_to_string(&kubectl.kubeconfig)?;
    ensure!(config.contains("server: http://127.0.0.1:"), "{config}");
    kubectl
        .expect(&["get", "configmap", "kept", "-o", "jsonpath={.metadata.uid}"], &uid)
        .await?;
    stop(server).await?;

    let snapshot = folder.path().join("snapshot");
    let whole = std::fs::read(&snapshot)?;
    let torn = &whole[..whole.len() - 5];
    std::fs::write(&snapshot, torn)?;
    let mut refused = start(folder.path(), &[])?;
    let code = refused.wait_for_end(ANSWERS_WITHIN).await?;
    ensure!(
        code == Some(1) && refused.tail().contains("the file is truncated"),
        "{code:?} {}",
        refused.tail()
    );
    ensure!(std::fs::read(&snapshot)? == torn, "the refused file is left unchanged");
    Ok(())
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn kubectl_meets_faults_configured_at_start() {
    meet_faults().await.unwrap();
}

async fn meet_faults() -> Result<()> {
    let folder = tempfile::tempdir()?;
    let kubectl = kubectl(folder.path());
    let fault = r#"--fault={"rule": {"filter": {"verb": "list", "resource": "pods"}, "times": 1, "action": {"answer": "internal-error"}}}"#;
    let server = reached(
        &kubectl,
        &["--replica=127.0.0.1:0", "--fault={\"freeze-replicas\": {}}", fault],
    )
    .await?;
    kubectl
        .expect_failure(
            &["get", "pods"],
            "Error from server (InternalError): Internal error occurred: fault injected",
        )
        .await?;
    kubectl.expect(&["get", "pods", "-o", "name"], "").await?;
    kubectl.run(&["create", "configmap", "late"]).await?;
    let cached = "/api/v1/namespaces/default/configmaps/late?resourceVersion=0";
    kubectl.run(&["get", "--raw", cached]).await?;
    kubectl
        .expect_failure(
            &["--context", "informant-replica", "get", "--raw", cached],
            "configmaps \"late\" not found",
        )
        .await?;
    stop(server).await
}
