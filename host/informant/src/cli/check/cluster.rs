//! The cluster's part: does it serve the resources, and may we list and watch them?

use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Duration;

use http::Request;
use informant_informer::{
    Discovered, DiscoveryError, Exclusion, ResourcePattern, TokioEnvironment, discover, discover_matching,
};
use kube::Client;
use serde::Deserialize;
use serde_json::json;

use super::{Findings, excludes, grants};
use crate::cluster::{Cluster, ClusterFlags};
use crate::config::{ClusterSection, Config, InformerSection, Problem, Required, Resources};

/// How long the cluster may take to answer one question.
const ANSWER_MAX: Duration = Duration::from_secs(10);

/// The verbs an informer needs.
const VERBS: [&str; 2] = ["list", "watch"];

/// What the cluster said.
#[derive(Debug, Default)]
pub(super) struct Asked {
    /// What each informer's resource is.
    pub(super) discovered: BTreeMap<String, Discovered>,
    /// What each informer's `exclude` is good for, in each cluster where that is known.
    exclusions: Vec<(String, BTreeMap<String, Exclusion>)>,
    pub(super) findings: Findings,
}

/// One cluster, and how messages name it.
pub(super) struct Place<'c> {
    config: &'c Config,
    /// Empty for the only one.
    name: &'c str,
    pub(super) client: Client,
}

impl Place<'_> {
    /// `on the cluster`, `on cluster east`
    pub(super) fn where_it_acts(&self) -> String {
        match self.name {
            "" => "on the cluster".to_owned(),
            name => format!("on cluster {name}"),
        }
    }

    /// ` in cluster east`, or nothing.
    pub(super) fn said(&self) -> String {
        said(self.name)
    }
}

fn said(cluster: &str) -> String {
    match cluster {
        "" => String::new(),
        name => format!(" in cluster {name}"),
    }
}

/// Asks each of `clusters` for each of its informers, all clusters at once. One that cannot be reached is an error only
/// if `required`.
pub(super) async fn ask(config: &Config, clusters: &[&str], flags: &ClusterFlags, required: bool) -> Asked {
    if config.informers.is_empty() && !required {
        return Asked::default();
    }
    if let Err(error) = flags.judge(config) {
        let problem = Problem::of_file(&config.path, error.to_string());
        return Asked {
            findings: Findings {
                problems: vec![problem],
                good: Vec::new(),
            },
            ..Asked::default()
        };
    }
    let clusters = clusters.iter();
    let asked = futures::future::join_all(clusters.map(|name| ask_one(config, name, flags, required))).await;
    let mut asked = asked.into_iter().fold(Asked::default(), |mut all, asked| {
        // What a resource is in one cluster it is in the others, as far as kinds go.
        for (informer, discovered) in asked.discovered {
            all.discovered.entry(informer).or_insert(discovered);
        }
        all.findings.add(asked.findings);
        all.exclusions.extend(asked.exclusions);
        all
    });
    asked
        .findings
        .problems
        .extend(excludes::judge(config, &asked.exclusions));
    asked
}

async fn ask_one(config: &Config, cluster: &str, flags: &ClusterFlags, required: bool) -> Asked {
    let mut asked = Asked::default();
    let section = flags.over(cluster, &config.clusters[cluster].value);
    let not_asked = |why: &str| not_asked(config, cluster, why, required);
    let reached = match log_in(&section).await {
        Ok(reached) => reached,
        Err((why, is_wrong)) => {
            let problem = self::not_asked(config, cluster, &why, required || is_wrong);
            asked.findings.problems.push(problem);
            return asked;
        }
    };
    let place = Place {
        config,
        name: cluster,
        client: reached.client,
    };
    let informers = config.informers.iter();
    for (name, section) in informers.filter(|(_, section)| config.clusters_of(section).any(|name| name == cluster)) {
        let resource = match &section.resource.value {
            Resources::One(resource) => resource,
            Resources::Several(pattern) => {
                match judge_several(&place, name, section, pattern, &mut asked.findings).await {
                    Ok(exclusions) => asked.exclusions.push((name.clone(), exclusions)),
                    Err(why) => {
                        let problem = not_asked(&format!("{}: {why}", reached.url));
                        asked.findings.problems.push(problem);
                        return asked;
                    }
                }
                continue;
            }
        };
        let answer = match tokio::time::timeout(ANSWER_MAX, discover(&place.client, resource)).await {
            Ok(answer) => answer,
            Err(_) => {
                let why = format!("{} did not answer within {} s", reached.url, ANSWER_MAX.as_secs());
                asked.findings.problems.push(not_asked(&why));
                return asked;
            }
        };
        match answer {
            Ok(discovered) => {
                judge(&place, name, section, &discovered, &mut asked.findings).await;
                asked.discovered.insert(name.clone(), discovered);
            }
            Err(DiscoveryError::Api { source, .. }) => {
                let why = format!("{}: {source}", reached.url);
                asked.findings.problems.push(not_asked(&why));
                return asked;
            }
            Err(error) => {
                let message = format!("[informer.{name}]{} {error}", place.said());
                let problem = config.problem(section.resource.place, message);
                let problem = match section.required {
                    Required::No if error.may_appear() => problem.help("it is watched once it is served").warning(),
                    _ => problem,
                };
                asked.findings.problems.push(problem);
            }
        }
    }
    asked.findings.add(grants::judge(config, &place).await);
    asked
}

/// Or why not, and whether that is a mistake of the configuration.
async fn log_in(section: &ClusterSection) -> Result<Cluster, (String, bool)> {
    match tokio::time::timeout(ANSWER_MAX, Cluster::connect(section)).await {
        Ok(connected) => connected.map_err(|error| (error.to_string(), error.is_of_a_named_kubeconfig())),
        Err(_) => {
            let why = format!("the login did not end within {} s", ANSWER_MAX.as_secs());
            Err((why, false))
        }
    }
}

fn not_asked(config: &Config, cluster: &str, why: &str, required: bool) -> Problem {
    let problem = match cluster {
        "" => {
            let section = &config.clusters[cluster];
            let message = format!("the cluster could not be asked: {why}");
            match section.value == ClusterSection::default() {
                true => Problem::of_file(&config.path, message),
                false => config.problem(section.place, message),
            }
        }
        name => config.problem(
            config.clusters[name].place,
            format!("cluster {name} could not be asked: {why}"),
        ),
    };
    if required {
        return problem;
    }
    problem
        .help("resources and rights are not judged; --offline says that this is meant")
        .warning()
}

async fn judge(
    cluster: &Place<'_>,
    name: &str,
    section: &InformerSection,
    discovered: &Discovered,
    findings: &mut Findings,
) {
    let gvr = &discovered.gvr;
    if let (Some(namespace), false) = (section.namespaces.first(), discovered.namespaced) {
        let message = format!("[informer.{name}] names namespace \"{namespace}\", but {gvr} is not in namespaces");
        findings.problems.push(
            cluster
                .config
                .problem(section.place, message)
                .help("leave `namespaces` out"),
        );
        return;
    }
    if section.namespaces.is_empty() {
        judge_rights(cluster, name, section, discovered, None, findings).await;
    }
    for namespace in &section.namespaces {
        judge_rights(cluster, name, section, discovered, Some(namespace), findings).await;
    }
}

/// Judges what a pattern means now: one line for all that may be read, and one problem for all that may not. Returns
/// what its `exclude` is good for.
async fn judge_several(
    cluster: &Place<'_>,
    name: &str,
    section: &InformerSection,
    pattern: &ResourcePattern,
    findings: &mut Findings,
) -> Result<BTreeMap<String, Exclusion>, String> {
    let environment = Arc::new(TokioEnvironment::current(0));
    let asked = discover_matching(&cluster.client, environment, pattern, &section.exclude);
    let served = match tokio::time::timeout(ANSWER_MAX, asked).await {
        Ok(served) => served.map_err(|error| error.to_string())?,
        Err(_) => return Err(format!("no answer within {} s", ANSWER_MAX.as_secs())),
    };
    let (mut watched, mut denied) = (0, Vec::new());
    for found in served.resources.values() {
        let mut each = Findings::default();
        if section.namespaces.is_empty() {
            judge_rights(cluster, name, section, found, None, &mut each).await;
        }
        for namespace in section.namespaces.iter().filter(|_| found.namespaced) {
            judge_rights(cluster, name, section, found, Some(namespace), &mut each).await;
        }
        watched += each.good.len();
        if !each.problems.is_empty() {
            denied.push(found.gvr.to_string());
        }
    }
    let unread = served
        .unread
        .iter()
        .map(|(version, why)| format!("{version} does not answer ({why})"));
    let said = cluster.said();
    let mut good = format!(
        "informer {name}: `{pattern}` is {} resources{said}, {watched} watches",
        served.resources.len()
    );
    unread.for_each(|unread| good.extend(["; ", unread.as_str()]));
    findings.good.push(good);
    if !denied.is_empty() {
        let message = format!("[informer.{name}] may not list and watch{said}: {}", denied.join(", "));
        let help = "grant `list` and `watch` on them to the identity that Informant runs as, or name them in `exclude`";
        let problem = cluster.config.problem(section.resource.place, message);
        findings.problems.push(problem.help(help));
    }
    Ok(served.exclusions)
}

/// Judges whether an informer may read in one namespace, or in all.
async fn judge_rights(
    cluster: &Place<'_>,
    name: &str,
    section: &InformerSection,
    discovered: &Discovered,
    namespace: Option<&str>,
    findings: &mut Findings,
) {
    let (gvr, config) = (&discovered.gvr, cluster.config);
    let place = namespace.map_or("all namespaces".to_owned(), |ns| format!("namespace {ns}"));
    let place = format!("{place}{}", cluster.said());
    let mut denied = Vec::new();
    for verb in VERBS {
        match may(&cluster.client, verb, namespace, discovered).await {
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
