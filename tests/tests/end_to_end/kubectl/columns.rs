//! The output of `kubectl get -o wide`, for every kind for which kubectl has columns.

use anyhow::{Result, ensure};
use informant_tests::cluster::Cluster;

use super::{Kubectl, write};

crate::on_both_clusters!(kubectl_prints_the_columns_of_every_kind);

const MANIFEST: &str = include_str!("every_kind.yaml");

/// From a real API server, with spaces collapsed and times masked.
const EXPECTED: &str = include_str!("every_kind.tables");

const KINDS: &str = "namespaces,nodes,configmaps,secrets,serviceaccounts,pods,services,deployments,replicasets,statefulsets,daemonsets,jobs,\
     cronjobs,ingresses,ingressclasses,networkpolicies,persistentvolumeclaims,persistentvolumes,storageclasses,hpa,pdb,leases,clusterroles,\
     rolebindings,priorityclasses,endpointslices,events";

const POD_STATUS: &str = r#"{"status": {"phase": "Running", "podIP": "10.2.0.1", "podIPs": [{"ip": "10.2.0.1"}], "containerStatuses": [
    {"name": "a", "image": "a:1", "imageID": "", "ready": true, "restartCount": 0, "state": {"running": {}}},
    {"name": "b", "image": "b:1", "imageID": "", "ready": false, "restartCount": 4, "state": {"waiting": {"reason": "CrashLoopBackOff"}}}
]}}"#;

const DEPLOYMENT_STATUS: &str = r#"{"status": {"replicas": 2, "updatedReplicas": 2, "readyReplicas": 1, "availableReplicas": 1, "unavailableReplicas": 1}}"#;

async fn kubectl_prints_the_columns_of_every_kind(cluster: Cluster) -> Result<()> {
    let kubectl = Kubectl::of(&cluster);
    let manifest = write(&cluster.folder().join("every_kind.yaml"), MANIFEST)?;
    kubectl.run(&["apply", "-f", &manifest]).await?;
    for (object, status) in [("pod/pod", POD_STATUS), ("deployment/web", DEPLOYMENT_STATUS)] {
        kubectl
            .run(&["patch", object, "--subresource=status", "--type=merge", "-p", status])
            .await?;
    }
    let tables = kubectl.run(&["get", KINDS, "-l", "app=shown", "-o", "wide"]).await?;
    let tables: Vec<String> = tables.lines().map(masked).collect();
    for (place, (found, expected)) in tables.iter().zip(EXPECTED.lines()).enumerate() {
        ensure!(found == expected, "line {}: {found:?}, not {expected:?}", place + 1);
    }
    ensure!(tables.len() == EXPECTED.lines().count(), "{}", tables.join("\n"));
    Ok(())
}

/// A line with single spaces, ages as `AGE` and times as `TIME`.
fn masked(line: &str) -> String {
    let words: Vec<&str> = line
        .split_whitespace()
        .map(|word| match word {
            word if is_age(word) => "AGE",
            word if word.len() == 20 && word.ends_with('Z') && word.contains("T") => "TIME",
            word => word,
        })
        .collect();
    words.join(" ")
}

/// `5s`, `2m10s`.
fn is_age(word: &str) -> bool {
    word.ends_with(['s', 'm', 'h', 'd', 'y'])
        && word.starts_with(|it: char| it.is_ascii_digit())
        && word.chars().all(|it| it.is_ascii_digit() || "smhdy".contains(it))
}
