//! `as`: what a plugin writes is its service account's doing, in the audit log of the real kube-apiserver.

use anyhow::{Result, ensure};
use informant_tests::cluster::Cluster;
use informant_tests::daemon::Daemon;
use informant_tests::objects::{pod, pods};
use informant_tests::{guests, wait};

use crate::rights::{ARRIVES_WITHIN, as_service_account, kubectl, run};

/// As whom Informant reads, and as whom its plugin writes.
const INFORMANT: &str = "system:serviceaccount:default:informant";
const PLUGIN: &str = "system:serviceaccount:default:marker";

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn audit_log_has_the_service_account_of_a_plugin() {
    if std::env::var_os("INFORMANT_TESTS_WITHOUT_CLUSTER").is_none() {
        audited(&Cluster::start_with_audit_log().await.unwrap()).await.unwrap();
    }
}

/// Applies what `informant rbac` prints for a configuration.
async fn grant(cluster: &Cluster, config: &str) -> Result<()> {
    let (config_file, rights) = (cluster.folder().join("as.toml"), cluster.folder().join("as.yaml"));
    std::fs::write(&config_file, config)?;
    let args = ["rbac", "-n", "default", "-c", &config_file.display().to_string()];
    let (code, printed) = run(&guests::informant()?, &args).await?;
    ensure!(code == 0, "{printed}");
    std::fs::write(&rights, printed)?;
    kubectl(cluster, &["apply", "-f", &rights.display().to_string()]).await?;
    Ok(())
}

async fn audited(cluster: &Cluster) -> Result<()> {
    let component = guests::component("image-mark")?;
    let config = format!(
        "[informer.pods]\nresource = \"v1/pods\"\nnamespaces = [\"default\"]\n\n\
         [plugin.image-mark]\ncomponent = {component:?}\ninformers = [\"pods\"]\nas = \"{PLUGIN}\"\n\
         retry = {{ initial = \"100ms\", max = \"1s\" }}\n\
         allow.kube = [{{ verbs = [\"patch\"], resource = \"v1/pods\", namespaces = [\"default\"] }}]\n"
    );
    // As itself, it may patch pods. It may not be another one.
    grant(cluster, &config.replace(&format!("as = \"{PLUGIN}\"\n"), "")).await?;
    // Its pods run as this one, which a controller would create.
    kubectl(cluster, &["create", "serviceaccount", "default", "-n", "default"]).await?;
    let token = kubectl(cluster, &["create", "token", "informant", "-n", "default"]).await?;
    let kubeconfig = as_service_account(cluster, token.trim())?;

    let client = cluster.client().await?;
    client.post(&pods(""), &pod("floats", "nginx")).await?;
    let daemon = Daemon::start(cluster.folder(), &kubeconfig, &config).await?;
    daemon.wait_until_ready().await?;
    wait::until("the write to be refused", ARRIVES_WITHIN, async || {
        let retries = daemon.command(&["plugin", "retries", "image-mark", "-o", "json"]).await;
        let (_, retries, _) = retries.map_err(|error| format!("{error:#}"))?;
        match retries.contains("cannot impersonate") {
            true => Ok(()),
            false => Err(retries),
        }
    })
    .await?;

    grant(cluster, &config).await?;
    wait::until("the pod to be marked", ARRIVES_WITHIN, async || {
        let pod = client.get(&pods("floats")).await;
        let pod = pod.map_err(|error| format!("{error:#}"))?;
        match pod["metadata"]["labels"]["informant/images"].as_str() {
            Some("floating") => Ok(()),
            other => Err(format!("{other:?}")),
        }
    })
    .await?;

    let requests = cluster.audit_log().read_new()?;
    let answered = requests.iter().filter(|one| one.code == 200);
    let of = |verb: &'static str| answered.clone().filter(move |one| one.request.starts_with(verb));
    ensure!(of("patch ").count() > 0, "no write: {requests:#?}");
    ensure!(
        of("patch ").all(|one| (&*one.user, &*one.impersonated) == (INFORMANT, PLUGIN)),
        "written as another user: {requests:#?}"
    );
    ensure!(of("watch ").count() > 0, "no watch: {requests:#?}");
    ensure!(
        of("list ")
            .chain(of("watch "))
            .all(|one| (&*one.user, &*one.impersonated) == (INFORMANT, "")),
        "read as another user: {requests:#?}"
    );
    Ok(())
}
