//! Checks of plugins' grants: are the resources served, and does Informant itself have the permissions that it grants
//! to plugins?

use std::collections::{BTreeMap, BTreeSet};

use informant_config::{Config, Problem};
use informant_informer::{DiscoveryError, discover};
use informant_spec::{KubeGrant, KubeResource, KubeVerb, ResourceName};
use serde_json::{Value, json};

use super::Findings;
use super::cluster::{AccessReviewStatus, RESPONSE_MAX, ReachableCluster, allowed_as};

/// The most permissions to ask about: each is a request, and no sensible configuration has more.
const PERMISSIONS_MAX: usize = 1_000;

/// The groups of a kubeconfig would be added to the ServiceAccount, so that calls are denied.
const HOW_TO_IMPERSONATE: &str = "remove `as`, `as-groups`, `as-uid` and `as-user-extra` from the user in the \
                                  kubeconfig, or `as` from the section";

pub(super) async fn check(config: &Config, cluster: &ReachableCluster<'_>) -> Findings {
    let (useless, problems) = unserved(config, cluster).await;
    let mut findings = Findings {
        problems,
        passed: Vec::new(),
    };
    let mut known: BTreeMap<(Option<String>, String), bool> = BTreeMap::new();
    for (name, section) in &config.plugins {
        let user = section.spec.identity.as_ref().map(ToString::to_string);
        if let Some(user) = user.as_deref().filter(|_| cluster.impersonates) {
            let message = format!(
                "[plugin.{name}] cannot act as {user} {}: the kubeconfig acts as another user itself",
                cluster.on_cluster()
            );
            let problem = config.problem(section.positions.section, message);
            findings.problems.push(problem.help(HOW_TO_IMPERSONATE));
            continue;
        }
        let mut has_problems = useless.contains(name.as_str());
        let events = section.spec.allow_events.then(events_grant);
        let events = events.iter().map(|grant| (grant, section.positions.section));
        for (grant, position) in section.allow_kube().chain(events) {
            let mut denied = Vec::new();
            for permission in permissions(grant) {
                let asked = (user.clone(), permission.text.clone());
                match known.get(&asked) {
                    Some(true) => continue,
                    Some(false) => {}
                    None if known.len() == PERMISSIONS_MAX => return findings,
                    None => match allowed_as(&cluster.client, user.as_deref(), permission.attributes).await {
                        Ok(AccessReviewStatus { allowed, .. }) => {
                            known.insert(asked, allowed);
                            if allowed {
                                continue;
                            }
                        }
                        Err(error) => {
                            let message = format!(
                                "[plugin.{name}] cannot check the permission to {}: {error}",
                                permission.text
                            );
                            findings.problems.push(config.problem(position, message).warning());
                            continue;
                        }
                    },
                }
                denied.push(permission.text);
            }
            if !denied.is_empty() {
                has_problems = true;
                let who = user.as_deref().unwrap_or("Informant itself");
                let message = format!(
                    "[plugin.{name}] has grants that {who} has no permission for{}: {}",
                    cluster.in_cluster(),
                    denied.join(", ")
                );
                let help =
                    "apply the RBAC that `informant rbac` prints, or narrow the grant, for example with `namespaces`";
                findings.problems.push(config.problem(position, message).help(help));
            }
        }
        if (!section.spec.allow_kube.is_empty() || section.spec.allow_events) && !has_problems {
            findings.passed.push(format!(
                "plugin {name}: all grants are permitted {}",
                cluster.on_cluster()
            ));
        }
    }
    findings
}

/// What `allow.events` grants.
fn events_grant() -> KubeGrant {
    KubeGrant {
        verbs: vec![KubeVerb::Create, KubeVerb::Patch],
        resource: KubeResource::events(),
        namespaces: None,
        names: None,
        subresources: Vec::new(),
    }
}

/// Warns of granted resources that the cluster does not serve: mostly typos, which a wide role permits even so. Also
/// returns the plugins that have such grants.
async fn unserved<'c>(config: &'c Config, cluster: &ReachableCluster<'_>) -> (BTreeSet<&'c str>, Vec<Problem>) {
    let mut known: BTreeMap<String, Option<String>> = BTreeMap::new();
    let (mut plugins, mut problems) = (BTreeSet::new(), Vec::new());
    for (name, section) in &config.plugins {
        for (grant, position) in section.allow_kube() {
            let resource = grant.resource.to_string();
            if !known.contains_key(&resource) {
                known.insert(resource.clone(), why_unserved(cluster, &resource).await);
            }
            if let Some(why) = known.get(&resource).and_then(Option::as_ref) {
                let message = format!(
                    "[plugin.{name}] grants access to nothing{}: {why}",
                    cluster.in_cluster()
                );
                problems.push(config.problem(position, message).warning());
                plugins.insert(name.as_str());
            }
        }
    }
    (plugins, problems)
}

/// Why a resource does not exist; none if it does, or if that is not known.
async fn why_unserved(cluster: &ReachableCluster<'_>, resource: &str) -> Option<String> {
    let name = ResourceName::parse(resource).ok()?;
    match tokio::time::timeout(RESPONSE_MAX, discover(&cluster.client, &name))
        .await
        .ok()?
    {
        Err(error @ DiscoveryError::NotFound { .. }) => Some(error.to_string()),
        _ => None,
    }
}

/// One permission that a grant includes.
struct Permission {
    /// `patch v1/pods/status in namespace web`.
    text: String,
    attributes: Value,
}

fn permissions(grant: &KubeGrant) -> Vec<Permission> {
    let each = |words: Option<&Vec<String>>| match words {
        Some(words) if !words.is_empty() => words.clone(),
        _ => vec![String::new()],
    };
    let resource = &grant.resource;
    let mut permissions = Vec::new();
    for verb in &grant.verbs {
        for namespace in each(grant.namespaces.as_ref()) {
            for subresource in each(Some(&grant.subresources)) {
                // The API server does not know the name yet when it authorizes `create`.
                let names = grant.names.as_ref().filter(|_| *verb != KubeVerb::Create);
                for name in each(names) {
                    let mut text = format!("{verb} {resource}");
                    for (before, word) in [("/", &subresource), (" ", &name), (" in namespace ", &namespace)] {
                        if !word.is_empty() {
                            text.extend([before, word]);
                        }
                    }
                    let attributes = json!({
                        "verb": verb.as_str(),
                        "group": resource.group,
                        "version": resource.version,
                        "resource": resource.plural,
                        "subresource": subresource,
                        "namespace": namespace,
                        "name": name,
                    });
                    permissions.push(Permission { text, attributes });
                }
            }
        }
    }
    permissions
}
