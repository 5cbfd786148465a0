//! Plugins' grants against the cluster: may Informant itself do what it lets them do?

use std::collections::BTreeMap;

use informant_plugin_host::{KubeGrant, KubeVerb};
use serde_json::{Value, json};

use super::Findings;
use super::cluster::{Place, Verdict, allowed};
use crate::config::Config;

/// Acts that are asked about. Beyond that a configuration is odd, and each is a request.
const ASKED_MAX: usize = 1_000;

/// Asks for each act of each grant, once.
pub(super) async fn judge(config: &Config, cluster: &Place<'_>) -> Findings {
    let mut findings = Findings::default();
    let mut known: BTreeMap<String, bool> = BTreeMap::new();
    for (name, section) in &config.plugins {
        let mut denied_any = false;
        for grant in &section.allow_kube {
            let mut denied = Vec::new();
            for act in acts(&grant.value) {
                match known.get(&act.said) {
                    Some(true) => continue,
                    Some(false) => {}
                    None if known.len() == ASKED_MAX => return findings,
                    None => match allowed(&cluster.client, act.attributes).await {
                        Ok(Verdict { allowed, .. }) => {
                            known.insert(act.said.clone(), allowed);
                            if allowed {
                                continue;
                            }
                        }
                        Err(error) => {
                            let message = format!(
                                "[plugin.{name}] whether we may {} could not be asked: {error}",
                                act.said
                            );
                            findings.problems.push(config.problem(grant.place, message).warning());
                            continue;
                        }
                    },
                }
                denied.push(act.said);
            }
            if !denied.is_empty() {
                denied_any = true;
                let message = format!(
                    "[plugin.{name}] is granted what we may not do ourselves{}: {}",
                    cluster.said(),
                    denied.join(", ")
                );
                let help =
                    "`informant rbac` prints the rights it takes; or narrow the grant, with `namespaces` perhaps";
                findings.problems.push(config.problem(grant.place, message).help(help));
            }
        }
        if !section.allow_kube.is_empty() && !denied_any {
            findings.good.push(format!(
                "plugin {name}: may do {} what it is granted",
                cluster.where_it_acts()
            ));
        }
    }
    findings
}

/// Something that a grant allows.
struct Act {
    /// `patch v1/pods/status in namespace web`.
    said: String,
    attributes: Value,
}

fn acts(grant: &KubeGrant) -> Vec<Act> {
    let each = |words: Option<&Vec<String>>| match words {
        Some(words) if !words.is_empty() => words.clone(),
        _ => vec![String::new()],
    };
    let resource = &grant.resource;
    let mut acts = Vec::new();
    for verb in &grant.verbs {
        for namespace in each(grant.namespaces.as_ref()) {
            for subresource in each(Some(&grant.subresources)) {
                // What is made has no name yet when it is judged.
                let names = grant.names.as_ref().filter(|_| *verb != KubeVerb::Create);
                for name in each(names) {
                    let mut said = format!("{verb} {resource}");
                    for (before, word) in [("/", &subresource), (" ", &name), (" in namespace ", &namespace)] {
                        if !word.is_empty() {
                            said.extend([before, word]);
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
                    acts.push(Act { said, attributes });
                }
            }
        }
    }
    acts
}
