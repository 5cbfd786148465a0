//! Checks of plugins' grants: are the resources served, and does Informant itself have the permissions that it grants
//! to plugins? A grant for an informer counts as one for each resource that the informer watches.

use std::collections::{BTreeMap, BTreeSet};

use informant_config::{Config, FilePosition, PluginSection, Problem};
use informant_informer::{DiscoveryError, discover};
use informant_spec::suggest::nearest;
use informant_spec::{KubeGrant, KubeResource, KubeVerb, ResourceName};
use serde_json::{Value, json};

use super::cluster::{AccessReviewStatus, RESPONSE_MAX, ReachableCluster, Watched, allowed_as};
use super::{Findings, show_progress};

/// The most permissions to ask about: each is a request, and no sensible configuration has more.
const PERMISSIONS_MAX: usize = 1_000;

/// The groups of a kubeconfig would be added to the ServiceAccount, so that calls are denied.
const HOW_TO_IMPERSONATE: &str = "remove `as`, `as-groups`, `as-uid` and `as-user-extra` from the user in the \
                                  kubeconfig, or `as` from the section";

/// `watched` is what each informer watches in the cluster.
pub(super) async fn check(
    config: &Config,
    cluster: &ReachableCluster<'_>,
    watched: &BTreeMap<&str, Watched>,
) -> Findings {
    let (mut useless, mut problems) = unserved(config, cluster).await;
    for (plugin, problem) in unwatched(config, cluster, watched) {
        useless.insert(plugin);
        problems.push(problem);
    }
    let mut findings = Findings {
        problems,
        passed: Vec::new(),
    };
    let mut known: BTreeMap<(Option<String>, String), bool> = BTreeMap::new();
    for (number, (name, section)) in config.plugins.iter().enumerate() {
        let what = format!("what plugin {name} may do{}", cluster.in_cluster());
        show_progress(&what, number, config.plugins.len());
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
        for Granted {
            grants,
            position,
            narrowed_by,
        } in granted(config, section, watched)
        {
            let mut denied = Vec::new();
            for permission in grants.iter().flat_map(permissions) {
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
                let help = format!(
                    "apply the RBAC that `informant rbac` prints, or narrow the grant, for example with `{narrowed_by}`"
                );
                findings.problems.push(config.problem(position, message).help(help));
            }
        }
        if (section.spec.may_call_kube() || section.spec.allow_events) && !has_problems {
            findings.passed.push(format!(
                "plugin {name}: all grants are permitted {}",
                cluster.on_cluster()
            ));
        }
    }
    findings
}

/// What an entry grants in a cluster.
struct Granted {
    grants: Vec<KubeGrant>,
    position: FilePosition,
    /// A key that makes the entry grant less.
    narrowed_by: &'static str,
}

fn granted(config: &Config, section: &PluginSection, watched: &BTreeMap<&str, Watched>) -> Vec<Granted> {
    let one = |grant: KubeGrant, position| Granted {
        grants: vec![grant],
        position,
        narrowed_by: "namespaces",
    };
    let of_resources = section
        .allow_kube()
        .map(|(grant, position)| one(grant.clone(), position));
    let of_informers = section.allow_informers().map(|(grant, positions)| {
        let resources = watched.get(grant.informer.as_str()).into_iter().flatten();
        let namespaces = &config.informers[&grant.informer].namespaces;
        Granted {
            grants: resources
                .filter_map(|resource| grant.of_resource(resource, namespaces))
                .collect(),
            position: positions.informer,
            narrowed_by: "exclude",
        }
    });
    let events = section.spec.allow_events.then(events_grant);
    let events = events.map(|grant| one(grant, section.positions.section));
    of_resources.chain(of_informers).chain(events).collect()
}

/// Warns of grants for informers that watch nothing, or nothing that the grant does not exclude. With the plugins.
fn unwatched<'c>(
    config: &'c Config,
    cluster: &ReachableCluster<'_>,
    watched: &BTreeMap<&str, Watched>,
) -> Vec<(&'c str, Problem)> {
    let mut problems = Vec::new();
    for (name, section) in &config.plugins {
        for (grant, positions) in section.allow_informers() {
            let informer = grant.informer.as_str();
            // An informer that is not in the cluster, or whose resource is not served: reported separately.
            let Some(resources) = watched.get(informer) else {
                continue;
            };
            if resources
                .iter()
                .any(|resource| grant.of_resource(resource, &[]).is_some())
            {
                continue;
            }
            let why = match resources.is_empty() {
                true => format!("[informer.{informer}] watches nothing there"),
                false => format!("`exclude` has all that [informer.{informer}] watches"),
            };
            let message = format!(
                "[plugin.{name}] grants access to nothing{}: {why}",
                cluster.in_cluster()
            );
            let problem = config.problem(positions.informer, message).warning();
            problems.push((name.as_str(), problem));
        }
    }
    problems
}

/// One problem for each entry of a grant's `exclude` that matches nothing which the informer watches in any of its
/// clusters. `watched` has an item for each informer and cluster; there is no problem if one of them is not known.
pub(super) fn unused_excludes(config: &Config, watched: &[(String, Watched)]) -> Vec<Problem> {
    let mut problems = Vec::new();
    for (name, section) in &config.plugins {
        for (grant, positions) in section.allow_informers() {
            let informer = &config.informers[&grant.informer];
            let of_informer = || watched.iter().filter(|(watched, _)| *watched == grant.informer);
            if of_informer().count() < config.clusters_of(informer).count() {
                continue;
            }
            let resources: BTreeSet<_> = of_informer().flat_map(|(_, resources)| resources).collect();
            for (text, entry) in grant.exclude.entries() {
                let is_used = resources.iter().any(|resource| entry.covers_any_version_of(resource));
                // Also one that the informer itself excludes: it may be there to be safe.
                let of_informer = informer.exclude.entries().any(|(excluded, _)| excluded == text);
                if is_used || of_informer {
                    continue;
                }
                let position = positions.exclude.iter().find(|written| written.value == text);
                let position = position.map_or(positions.informer, |written| written.position);
                let message = format!(
                    "[plugin.{name}] `exclude` entry `{text}` matches nothing that [informer.{}] watches",
                    grant.informer
                );
                let names: Vec<String> = resources.iter().map(ToString::to_string).collect();
                let help = match nearest(&text, names.iter().map(String::as_str)) {
                    Some(name) => format!("did you mean `{name}`?"),
                    None => "correct the entry, or remove it".to_owned(),
                };
                problems.push(config.problem(position, message).warning().help(help));
            }
        }
    }
    problems
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
