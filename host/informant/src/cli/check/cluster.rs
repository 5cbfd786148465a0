//! The cluster's part: does it serve the resources, and may we list and watch them?

use std::collections::BTreeMap;
use std::time::Duration;

use http::Request;
use informant_informer::{Discovered, DiscoveryError, discover};
use kube::Client;
use serde::Deserialize;
use serde_json::json;

use super::{Findings, grants};
use crate::cluster::{Cluster, ClusterFlags};
use crate::config::{Config, InformerSection, Problem};

/// How long the cluster may take to answer one question.
const ANSWER_MAX: Duration = Duration::from_secs(10);

/// The verbs an informer needs.
const VERBS: [&str; 2] = ["list", "watch"];

/// What the cluster said.
#[derive(Debug, Default)]
pub(super) struct Asked {
    /// What each informer's resource is.
    pub(super) discovered: BTreeMap<String, Discovered>,
    pub(super) findings: Findings,
}

/// Asks for each informer. A cluster that cannot be reached is an error only if `required`.
pub(super) async fn ask(config: &Config, flags: &ClusterFlags, required: bool) -> Asked {
    let mut asked = Asked::default();
    if config.informers.is_empty() && !required {
        return asked;
    }
    let cluster = match Cluster::connect(&config.cluster, flags).await {
        Ok(cluster) => cluster,
        Err(error) => {
            asked
                .findings
                .problems
                .push(not_asked(config, &error.to_string(), required));
            return asked;
        }
    };
    for (name, section) in &config.informers {
        let resource = &section.resource.value;
        let answer = match tokio::time::timeout(ANSWER_MAX, discover(&cluster.client, resource)).await {
            Ok(answer) => answer,
            Err(_) => {
                let why = format!("{} did not answer within {} s", cluster.url, ANSWER_MAX.as_secs());
                asked.findings.problems.push(not_asked(config, &why, required));
                return asked;
            }
        };
        match answer {
            Ok(discovered) => {
                judge(config, &cluster.client, name, section, &discovered, &mut asked.findings).await;
                asked.discovered.insert(name.clone(), discovered);
            }
            Err(DiscoveryError::Api { source, .. }) => {
                asked
                    .findings
                    .problems
                    .push(not_asked(config, &format!("{}: {source}", cluster.url), required));
                return asked;
            }
            Err(error) => {
                let message = format!("[informer.{name}] {error}");
                asked
                    .findings
                    .problems
                    .push(config.problem(section.resource.place, message));
            }
        }
    }
    asked.findings.add(grants::judge(config, &cluster.client).await);
    asked
}

fn not_asked(config: &Config, why: &str, required: bool) -> Problem {
    let problem = Problem::of_file(&config.path, format!("the cluster could not be asked: {why}"));
    if required {
        return problem;
    }
    problem
        .help("resources and rights are not judged; --offline says that this is meant")
        .warning()
}

async fn judge(
    config: &Config,
    client: &Client,
    name: &str,
    section: &InformerSection,
    discovered: &Discovered,
    findings: &mut Findings,
) {
    let gvr = &discovered.gvr;
    if let (Some(namespace), false) = (section.namespaces.first(), discovered.namespaced) {
        let message = format!("[informer.{name}] names namespace \"{namespace}\", but {gvr} is not in namespaces");
        findings
            .problems
            .push(config.problem(section.place, message).help("leave `namespaces` out"));
        return;
    }
    if section.namespaces.is_empty() {
        judge_rights(config, client, name, section, discovered, None, findings).await;
    }
    for namespace in &section.namespaces {
        judge_rights(config, client, name, section, discovered, Some(namespace), findings).await;
    }
}

/// Judges whether an informer may read in one namespace, or in all.
async fn judge_rights(
    config: &Config,
    client: &Client,
    name: &str,
    section: &InformerSection,
    discovered: &Discovered,
    namespace: Option<&str>,
    findings: &mut Findings,
) {
    let gvr = &discovered.gvr;
    let place = namespace.map_or("all namespaces".to_owned(), |ns| format!("namespace {ns}"));
    let mut denied = Vec::new();
    for verb in VERBS {
        match may(client, verb, namespace, discovered).await {
            Ok(Verdict { allowed: true, .. }) => {}
            Ok(Verdict { reason, .. }) => {
                denied.push(reason.map_or(verb.to_owned(), |reason| format!("{verb} ({reason})")))
            }
            Err(error) => {
                let message = format!("[informer.{name}] whether we may {verb} {gvr} could not be asked: {error}");
                findings
                    .problems
                    .push(config.problem(section.resource.place, message).warning());
            }
        }
    }
    if denied.is_empty() {
        let kind = &discovered.kind;
        findings
            .good
            .push(format!("informer {name}: {gvr} ({kind}), {place}, may list and watch"));
        return;
    }
    let message = format!("[informer.{name}] may not {} {gvr} in {place}", denied.join(" and "));
    let help = "grant `list` and `watch` on it to the identity that Informant runs as, or name one namespace";
    findings
        .problems
        .push(config.problem(section.resource.place, message).help(help));
}

#[derive(Debug, Deserialize)]
struct Review {
    #[serde(default)]
    status: Verdict,
}

#[derive(Debug, Default, Deserialize)]
pub(super) struct Verdict {
    #[serde(default)]
    pub(super) allowed: bool,
    reason: Option<String>,
}

/// Asks whether we may list or watch what an informer is about.
async fn may(
    client: &Client,
    verb: &str,
    namespace: Option<&str>,
    discovered: &Discovered,
) -> Result<Verdict, anyhow::Error> {
    let gvr = &discovered.gvr;
    let attributes = json!({
        "verb": verb,
        "group": gvr.group,
        "version": gvr.version,
        "resource": gvr.plural,
        "namespace": namespace.unwrap_or_default(),
    });
    allowed(client, attributes).await
}

/// Asks whether we may. Source: `kubectl auth can-i`.
pub(super) async fn allowed(client: &Client, attributes: serde_json::Value) -> Result<Verdict, anyhow::Error> {
    let review = json!({
        "apiVersion": "authorization.k8s.io/v1",
        "kind": "SelfSubjectAccessReview",
        "spec": { "resourceAttributes": attributes },
    });
    let request = Request::post("/apis/authorization.k8s.io/v1/selfsubjectaccessreviews")
        .header(http::header::CONTENT_TYPE, "application/json")
        .body(serde_json::to_vec(&review)?)?;
    let review: Review = tokio::time::timeout(ANSWER_MAX, client.request(request)).await??;
    Ok(review.status)
}
