//! Checks of `[admin] tls`: the files of the certificate, and the rights to ask the API server about callers.

use informant_config::{AdminTls, Config, Problem};
use jiff::Timestamp;
use serde_json::json;

use super::Findings;
use super::cluster::{AccessReviewStatus, ReachableCluster, allowed};
use crate::rbac::REVIEWS;
use crate::server::{CertificateFiles, CertificateProblem};

/// Reports files that hold no valid certificate. With `offline`, a missing one is a note only: it may exist where
/// Informant runs.
pub(super) fn certificate(config: &Config, offline: bool) -> Option<Problem> {
    let tls = config.admin.tls.as_ref()?;
    let AdminTls::Files { certificate, key } = &tls.value else {
        return None;
    };
    let valid = || -> Result<(), CertificateProblem> {
        let parsed = CertificateFiles::read(certificate, key)?.parse(certificate, key)?;
        parsed.check_time(Timestamp::now(), certificate)
    };
    let error = valid().err()?;
    let problem = config.problem(tls.position, format!("[admin] tls: {error}"));
    let is_missing = |path: &std::path::Path| matches!(path.try_exists(), Ok(false));
    Some(match (is_missing(certificate) || is_missing(key), offline) {
        (true, true) => problem.note(),
        (true, false) => problem
            .help("the admin port refuses connections until the files exist")
            .warning(),
        (false, _) => problem.help(match error {
            CertificateProblem::Unreadable { .. } => "Informant's user must be able to read both files",
            _ => "replace the files, for example with those that cert-manager issues",
        }),
    })
}

/// Asks the cluster that decides about callers whether Informant may ask it.
pub(super) async fn reviews(config: &Config, cluster: &ReachableCluster<'_>) -> Findings {
    let mut findings = Findings::default();
    let Some(tls) = &config.admin.tls else {
        return findings;
    };
    let mut denied = Vec::new();
    for (group, resource) in REVIEWS {
        let attributes = json!({ "verb": "create", "group": group, "resource": resource });
        match allowed(&cluster.client, attributes).await {
            Ok(AccessReviewStatus { allowed: true, .. }) => {}
            Ok(_) => denied.push(format!("create {resource}.{group}")),
            Err(error) => {
                let message = format!("[admin] tls: cannot check the permission to create {resource}.{group}: {error}");
                findings.problems.push(config.problem(tls.position, message).warning());
            }
        }
    }
    if !denied.is_empty() {
        let message = format!(
            "Informant has no permission to authenticate and authorize callers of the admin port{}: {}",
            cluster.in_cluster(),
            denied.join(", ")
        );
        let help = "apply the RBAC that `informant rbac` prints; until then the admin port refuses every caller";
        findings.problems.push(config.problem(tls.position, message).help(help));
    } else if findings.problems.is_empty() {
        let line = format!("admin: reviews of callers are permitted {}", cluster.on_cluster());
        findings.passed.push(line);
    }
    findings
}
