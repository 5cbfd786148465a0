//! Checks against the cluster: does it serve the resources, is listing and watching permitted, and does each `exclude`
//! entry match something?

use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Duration;

use http::Request;
use informant_config::{ClusterSection, Config, InformerSection, Problem, Resources};
use informant_informer::{
    ApiErrorCause, Discovered, DiscoveryError, Exclusion, ServedResources, SourceSpec, TokioEnvironment,
    UnusedExclusion, discover, discover_matching, try_request,
};
use informant_spec::{GroupVersionResource, Required, ResourcePattern};
use kube::Client;
use serde::Deserialize;
use serde_json::json;

use super::{Findings, admin, grants, namespaces, show_progress};
use crate::cli::in_cluster;
use crate::cluster::{Cluster, ClusterFlags};

/// How long the cluster may take to answer one request.
pub(super) const RESPONSE_MAX: Duration = Duration::from_secs(10);

/// The verbs an informer needs.
const VERBS: [&str; 2] = ["list", "watch"];

#[derive(Debug, Default)]
pub(super) struct ClusterReport {
    /// Each informer's resource, as discovered.
    pub(super) discovered: BTreeMap<String, Discovered>,
    /// The effect of each informer's `exclude` entries, in each cluster that answered.
    exclusions: Vec<(String, BTreeMap<String, Exclusion>)>,
    /// What each informer watches in each cluster of which that is known completely.
    watched: Vec<(String, Watched)>,
    pub(super) findings: Findings,
}

/// The resources that an informer watches in a cluster.
pub(super) type Watched = Vec<GroupVersionResource>;

/// A reachable cluster, and its name in messages.
pub(super) struct ReachableCluster<'c> {
    pub(super) config: &'c Config,
    /// Empty for a single unnamed cluster.
    pub(super) name: &'c str,
    pub(super) client: Client,
    /// The kubeconfig makes requests those of another user.
    pub(super) impersonates: bool,
}

impl ReachableCluster<'_> {
    /// `on the cluster`, `on cluster east`
    pub(super) fn on_cluster(&self) -> String {
        match self.name {
            "" => "on the cluster".to_owned(),
            name => format!("on cluster {name}"),
        }
    }

    /// ` in cluster east`, or nothing.
    pub(super) fn in_cluster(&self) -> String {
        in_cluster(self.name)
    }
}

/// Checks each of `clusters` concurrently, with all of its informers. An unreachable cluster is an error only if
/// `required`.
pub(super) async fn check(config: &Config, clusters: &[&str], flags: &ClusterFlags, required: bool) -> ClusterReport {
    if config.informers.is_empty() && !required {
        return ClusterReport::default();
    }
    if let Err(error) = flags.validate(config) {
        let problem = Problem::of_file(&config.path, error.to_string());
        return ClusterReport {
            findings: Findings {
                problems: vec![problem],
                passed: Vec::new(),
            },
            ..ClusterReport::default()
        };
    }
    let clusters = clusters.iter();
    let reports = futures::future::join_all(clusters.map(|name| check_one(config, name, flags, required))).await;
    let mut report = reports.into_iter().fold(ClusterReport::default(), |mut all, report| {
        // A resource has the same kind in every cluster.
        for (informer, discovered) in report.discovered {
            all.discovered.entry(informer).or_insert(discovered);
        }
        all.findings.add(report.findings);
        all.exclusions.extend(report.exclusions);
        all.watched.extend(report.watched);
        all
    });
    let unused = unused_excludes(config, &report.exclusions);
    report.findings.problems.extend(unused);
    let unused = grants::unused_excludes(config, &report.watched);
    report.findings.problems.extend(unused);
    report
}

async fn check_one(config: &Config, name: &str, flags: &ClusterFlags, required: bool) -> ClusterReport {
    let mut report = ClusterReport::default();
    let section = flags.over(name, &config.clusters[name].value);
    let unreachable = |why: &str| unreachable(config, name, why, required);
    let reached = match connect(&section).await {
        Ok(reached) => reached,
        Err((why, is_wrong)) => {
            let problem = self::unreachable(config, name, &why, required || is_wrong);
            report.findings.problems.push(problem);
            return report;
        }
    };
    let cluster = ReachableCluster {
        config,
        name,
        impersonates: reached.impersonates,
        client: reached.client,
    };
    let of_cluster = |section: &InformerSection| config.clusters_of(section).any(|cluster| cluster == name);
    let informers = || config.informers.iter().filter(|(_, section)| of_cluster(section));
    let total = informers().count();
    // What is known of it, also if some group did not answer.
    let mut watched: BTreeMap<&str, Watched> = BTreeMap::new();
    for (number, (informer, section)) in informers().enumerate() {
        show_progress(&format!("informer {informer}{}", cluster.in_cluster()), number, total);
        let resource = match &section.resource.value {
            Resources::One(resource) => resource,
            Resources::Several(pattern) => {
                match check_pattern(&cluster, informer, section, pattern, &mut report.findings).await {
                    Ok(served) => {
                        let namespaced = |found: &&Discovered| section.namespaces.is_empty() || found.namespaced;
                        let resources = served.resources.values().filter(namespaced);
                        let resources: Watched = resources.map(|found| found.gvr.clone()).collect();
                        if served.unread.is_empty() {
                            report.watched.push((informer.clone(), resources.clone()));
                        }
                        watched.insert(informer, resources);
                        report.exclusions.push((informer.clone(), served.exclusions));
                    }
                    Err(why) => {
                        let problem = unreachable(&format!("{}: {why}", reached.url));
                        report.findings.problems.push(problem);
                        return report;
                    }
                }
                continue;
            }
        };
        let answer = match tokio::time::timeout(RESPONSE_MAX, discover(&cluster.client, resource)).await {
            Ok(answer) => answer,
            Err(_) => {
                let why = format!("{} did not respond within {} s", reached.url, RESPONSE_MAX.as_secs());
                report.findings.problems.push(unreachable(&why));
                return report;
            }
        };
        match answer {
            Ok(discovered) => {
                check_informer(&cluster, informer, section, &discovered, &mut report.findings).await;
                report.watched.push((informer.clone(), vec![discovered.gvr.clone()]));
                watched.insert(informer, vec![discovered.gvr.clone()]);
                report.discovered.insert(informer.clone(), discovered);
            }
            Err(DiscoveryError::Api { source, .. }) => {
                let why = format!("{}: {source}", reached.url);
                report.findings.problems.push(unreachable(&why));
                return report;
            }
            Err(error) => {
                let message = format!("[informer.{informer}]{} {error}", cluster.in_cluster());
                let problem = config.problem(section.resource.position, message);
                let problem = match section.required {
                    Required::No if error.may_appear() => {
                        problem.help("it is watched as soon as it is served").warning()
                    }
                    _ => problem,
                };
                report.findings.problems.push(problem);
            }
        }
    }
    report.findings.problems.extend(namespaces::missing(&cluster).await);
    report.findings.add(grants::check(config, &cluster, &watched).await);
    if config.admin.cluster == name {
        report.findings.add(admin::reviews(config, &cluster).await);
    }
    report
}

/// Connects to a cluster. The error says why not, and whether the configuration is at fault.
async fn connect(section: &ClusterSection) -> Result<Cluster, (String, bool)> {
    match tokio::time::timeout(RESPONSE_MAX, Cluster::connect(section)).await {
        Ok(connected) => connected.map_err(|error| (error.to_string(), error.is_of_a_named_kubeconfig())),
        Err(_) => {
            let why = format!("authentication did not complete within {} s", RESPONSE_MAX.as_secs());
            Err((why, false))
        }
    }
}

fn unreachable(config: &Config, cluster: &str, why: &str, required: bool) -> Problem {
    let problem = match cluster {
        "" => {
            let section = &config.clusters[cluster];
            let message = format!("cannot check the cluster: {why}");
            match section.value == ClusterSection::default() {
                true => Problem::of_file(&config.path, message),
                false => config.problem(section.position, message),
            }
        }
        name => config.problem(
            config.clusters[name].position,
            format!("cannot check cluster {name}: {why}"),
        ),
    };
    if required {
        return problem;
    }
    problem
        .help("resources and permissions were not checked; --offline skips this check")
        .warning()
}

async fn check_informer(
    cluster: &ReachableCluster<'_>,
    name: &str,
    section: &InformerSection,
    discovered: &Discovered,
    findings: &mut Findings,
) {
    let gvr = &discovered.gvr;
    if let (Some(namespace), false) = (section.namespaces.first(), discovered.namespaced) {
        let message = format!("[informer.{name}] names namespace \"{namespace}\", but {gvr} is cluster-scoped");
        findings.problems.push(
            cluster
                .config
                .problem(section.position, message)
                .help("remove `namespaces`"),
        );
        return;
    }
    if section.namespaces.is_empty() {
        check_permissions(cluster, name, section, discovered, None, findings).await;
    }
    for namespace in &section.namespaces {
        check_permissions(cluster, name, section, discovered, Some(namespace), findings).await;
    }
    if section.field_selector.is_some() {
        check_field_selector(cluster, name, section, discovered, findings).await;
    }
}

/// Checks that the API server supports the fields of the field selector, by a list of one object: only it knows.
async fn check_field_selector(
    cluster: &ReachableCluster<'_>,
    name: &str,
    section: &InformerSection,
    discovered: &Discovered,
    findings: &mut Findings,
) {
    let spec = SourceSpec {
        namespaced: discovered.namespaced,
        namespace: section.namespaces.first().cloned(),
        field_selector: section.field_selector.clone(),
        ..SourceSpec::new(name, discovered.gvr.clone(), discovered.kind.clone())
    };
    let answer = tokio::time::timeout(RESPONSE_MAX, try_request(&cluster.client, &spec)).await;
    // Anything else is not about the selector: permissions are checked separately, and an outage passes.
    let Ok(Err(error)) = answer else { return };
    if error.cause() == ApiErrorCause::UnsupportedSelector {
        let within = cluster.in_cluster();
        let message = format!("[informer.{name}]{within} `field-selector` is not supported: {error}");
        let problem = cluster.config.problem(section.resource.position, message);
        let help = "select by labels (`label-selector`), or in the plugin";
        findings.problems.push(problem.help(help));
    }
}

/// Checks what a pattern matches now: one line for all readable resources, and one problem for all forbidden ones.
/// Returns what is served.
async fn check_pattern(
    cluster: &ReachableCluster<'_>,
    name: &str,
    section: &InformerSection,
    pattern: &ResourcePattern,
    findings: &mut Findings,
) -> Result<ServedResources, String> {
    let environment = Arc::new(TokioEnvironment::current(0));
    let discovery = discover_matching(&cluster.client, environment, pattern, &section.exclude);
    let served = match tokio::time::timeout(RESPONSE_MAX, discovery).await {
        Ok(served) => served.map_err(|error| error.to_string())?,
        Err(_) => return Err(format!("no response within {} s", RESPONSE_MAX.as_secs())),
    };
    let (mut watched, mut denied) = (0, Vec::new());
    for found in served.resources.values() {
        let mut each = Findings::default();
        if section.namespaces.is_empty() {
            check_permissions(cluster, name, section, found, None, &mut each).await;
        }
        for namespace in section.namespaces.iter().filter(|_| found.namespaced) {
            check_permissions(cluster, name, section, found, Some(namespace), &mut each).await;
        }
        watched += each.passed.len();
        if !each.problems.is_empty() {
            denied.push(found.gvr.to_string());
        }
    }
    let unread = served
        .unread
        .iter()
        .map(|(version, why)| format!("{version} did not respond ({why})"));
    let within = cluster.in_cluster();
    let mut good = format!(
        "informer {name}: `{pattern}` matches {} resources{within}, {watched} watches",
        served.resources.len()
    );
    unread.for_each(|unread| good.extend(["; ", unread.as_str()]));
    findings.passed.push(good);
    if !denied.is_empty() {
        let message = format!(
            "[informer.{name}] has no permission to list and watch{within}: {}",
            denied.join(", ")
        );
        let help = "grant `list` and `watch` on them to the identity that Informant runs as, or add them to `exclude`";
        let problem = cluster.config.problem(section.resource.position, message);
        findings.problems.push(problem.help(help));
    }
    Ok(served)
}

/// Checks whether an informer may list and watch in one namespace, or in all.
async fn check_permissions(
    cluster: &ReachableCluster<'_>,
    name: &str,
    section: &InformerSection,
    discovered: &Discovered,
    namespace: Option<&str>,
    findings: &mut Findings,
) {
    let (gvr, config) = (&discovered.gvr, cluster.config);
    let scope = namespace.map_or("all namespaces".to_owned(), |ns| format!("namespace {ns}"));
    let scope = format!("{scope}{}", cluster.in_cluster());
    let mut denied = Vec::new();
    for verb in VERBS {
        match may_read(&cluster.client, verb, namespace, discovered).await {
            Ok(AccessReviewStatus { allowed: true, .. }) => {}
            Ok(AccessReviewStatus { reason, .. }) => {
                denied.push(reason.map_or(verb.to_owned(), |reason| format!("{verb} ({reason})")))
            }
            Err(error) => {
                let message = format!("[informer.{name}] cannot check the permission to {verb} {gvr}: {error}");
                findings
                    .problems
                    .push(config.problem(section.resource.position, message).warning());
            }
        }
    }
    if denied.is_empty() {
        let kind = &discovered.kind;
        findings.passed.push(format!(
            "informer {name}: {gvr} ({kind}), {scope}, list and watch allowed"
        ));
        return;
    }
    let message = format!(
        "[informer.{name}] has no permission to {} {gvr} in {scope}",
        denied.join(" and ")
    );
    let help = "grant `list` and `watch` on it to the identity that Informant runs as, or set `namespaces`";
    findings
        .problems
        .push(config.problem(section.resource.position, message).help(help));
}

#[derive(Debug, Deserialize)]
struct AccessReview {
    #[serde(default)]
    status: AccessReviewStatus,
}

#[derive(Debug, Default, Deserialize)]
pub(super) struct AccessReviewStatus {
    #[serde(default)]
    pub(super) allowed: bool,
    reason: Option<String>,
}

/// Asks the cluster whether an informer's resource may be listed or watched.
async fn may_read(
    client: &Client,
    verb: &str,
    namespace: Option<&str>,
    discovered: &Discovered,
) -> Result<AccessReviewStatus, anyhow::Error> {
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

/// Asks the cluster whether the present identity may do something. Source: `kubectl auth can-i`.
pub(super) async fn allowed(
    client: &Client,
    attributes: serde_json::Value,
) -> Result<AccessReviewStatus, anyhow::Error> {
    allowed_as(client, None, attributes).await
}

/// As [`allowed`], as another user if there is one: that asks for the right to impersonate it, too.
pub(super) async fn allowed_as(
    client: &Client,
    user: Option<&str>,
    attributes: serde_json::Value,
) -> Result<AccessReviewStatus, anyhow::Error> {
    let review = json!({
        "apiVersion": "authorization.k8s.io/v1",
        "kind": "SelfSubjectAccessReview",
        "spec": { "resourceAttributes": attributes },
    });
    let mut request = Request::post("/apis/authorization.k8s.io/v1/selfsubjectaccessreviews")
        .header(http::header::CONTENT_TYPE, "application/json");
    if let Some(user) = user {
        request = request.header("Impersonate-User", user);
    }
    let request = request.body(serde_json::to_vec(&review)?)?;
    let review: AccessReview = tokio::time::timeout(RESPONSE_MAX, client.request(request)).await??;
    Ok(review.status)
}

/// One problem for each entry of `exclude` that matches nothing in any cluster of its informer. `reported` has an item
/// for each informer and cluster that was asked. There is no problem if a cluster, or the entry's group in it, did not
/// respond.
fn unused_excludes(config: &Config, reported: &[(String, BTreeMap<String, Exclusion>)]) -> Vec<Problem> {
    let mut problems = Vec::new();
    for (name, section) in &config.informers {
        let of_informer: Vec<_> = reported.iter().filter(|(informer, _)| informer == name).collect();
        if of_informer.len() < config.clusters_of(section).count() {
            continue;
        }
        for entry in &section.exclude_entries {
            let exclusions = of_informer.iter().map(|(_, exclusions)| exclusions.get(&entry.value));
            let idle: Option<Vec<&UnusedExclusion>> = exclusions
                .map(|exclusion| match exclusion {
                    Some(Exclusion::Unused(idle)) => Some(idle),
                    Some(Exclusion::Effective) | None => None,
                })
                .collect();
            if let Some(idle) = idle.and_then(|idle| idle.into_iter().max_by_key(|idle| idle.candidates.len())) {
                let message = format!("[informer.{name}] `exclude` entry `{}` {idle}", entry.value);
                let problem = config.problem(entry.position, message).warning();
                problems.push(problem.help("correct the entry, or remove it"));
            }
        }
    }
    problems
}
