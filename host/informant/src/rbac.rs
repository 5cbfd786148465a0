//! The rights in the cluster that a configuration needs, and no more: as RBAC has them, and as YAML to apply.
//!
//! ```text
//! informers ─▶ get, list, watch ─┐
//! plugins' allow.kube ───────────┴▶ Rights ─▶ ServiceAccount, ClusterRole and binding, Role and binding per namespace
//! ```
//!
//! What is limited to namespaces becomes Roles there, everything else a ClusterRole. Pure.

mod yaml;

use std::collections::{BTreeMap, BTreeSet};

use informant_plugin_host::{KubeGrant, KubeVerb};

pub use yaml::{Subject, yaml};

/// What an informer does with its resource.
const INFORMER_VERBS: [&str; 3] = ["get", "list", "watch"];

/// The order in which verbs are written.
const VERBS: [&str; 7] = ["get", "list", "watch", "create", "update", "patch", "delete"];

/// Where a right holds: a namespace, or everywhere.
type Scope = Option<String>;

/// What a rule is about.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord)]
struct About {
    /// Empty for the core group.
    group: String,
    /// `pods`, `pods/status`.
    resource: String,
    /// Empty: objects of any name.
    names: Vec<String>,
}

/// What may be done, and for whom it is.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
struct Rule {
    verbs: BTreeSet<&'static str>,
    /// The sections that need it: `[informer.pods]`.
    wanted_by: BTreeSet<String>,
}

/// Rights, collected.
#[derive(Debug, Clone, Default)]
pub struct Rights {
    rules: BTreeMap<Scope, BTreeMap<About, Rule>>,
}

impl Rights {
    /// What the informer called `name` needs: to read `resource` of `group`, in one namespace or everywhere.
    pub fn add_informer(&mut self, name: &str, group: &str, resource: &str, namespace: Option<&str>) {
        let about = About {
            group: group.to_owned(),
            resource: resource.to_owned(),
            names: Vec::new(),
        };
        let scope = namespace.map(str::to_owned);
        self.add(scope, about, INFORMER_VERBS, &format!("[informer.{name}]"));
    }

    /// What the plugin called `name` may do.
    pub fn add_grant(&mut self, name: &str, grant: &KubeGrant) {
        let resource = &grant.resource;
        let resources: Vec<String> = match grant.subresources.as_slice() {
            [] => vec![resource.plural.clone()],
            subresources => subresources
                .iter()
                .map(|subresource| format!("{}/{subresource}", resource.plural))
                .collect(),
        };
        let scopes: Vec<Scope> = match &grant.namespaces {
            Some(namespaces) => namespaces.iter().cloned().map(Some).collect(),
            None => vec![None],
        };
        let names = grant.names.clone().unwrap_or_default();
        // The API server does not know the name of what is to be made when it judges: of all verbs, create alone goes
        // without.
        let (creating, others): (Vec<KubeVerb>, Vec<KubeVerb>) =
            grant.verbs.iter().partition(|verb| **verb == KubeVerb::Create);
        let wanted_by = format!("[plugin.{name}]");
        for scope in &scopes {
            for resource in &resources {
                for (verbs, names) in [(&creating, Vec::new()), (&others, names.clone())] {
                    let about = About {
                        group: grant.resource.group.clone(),
                        resource: resource.clone(),
                        names,
                    };
                    let verbs = verbs.iter().map(|verb| verb.as_str());
                    self.add(scope.clone(), about, verbs, &wanted_by);
                }
            }
        }
    }

    fn add(&mut self, scope: Scope, about: About, verbs: impl IntoIterator<Item = &'static str>, wanted_by: &str) {
        let verbs: Vec<_> = verbs.into_iter().collect();
        if verbs.is_empty() {
            return;
        }
        let rule = self.rules.entry(scope).or_default().entry(about).or_default();
        rule.verbs.extend(verbs);
        rule.wanted_by.insert(wanted_by.to_owned());
    }

    /// The rules by scope, everywhere first. What holds everywhere is not said again for a namespace.
    fn by_scope(&self) -> BTreeMap<Scope, BTreeMap<About, Rule>> {
        let everywhere = self.rules.get(&None).cloned().unwrap_or_default();
        let held = |about: &About, verb: &str| {
            let any_name = About {
                names: Vec::new(),
                ..about.clone()
            };
            everywhere.get(&any_name).is_some_and(|rule| rule.verbs.contains(verb))
        };
        let mut rules = self.rules.clone();
        for (scope, rules) in &mut rules {
            for (about, rule) in rules.iter_mut() {
                let is_said_elsewhere = |verb: &str| (scope.is_some() || !about.names.is_empty()) && held(about, verb);
                rule.verbs.retain(|verb| !is_said_elsewhere(verb));
            }
            rules.retain(|_, rule| !rule.verbs.is_empty());
        }
        rules.retain(|_, rules| !rules.is_empty());
        rules
    }
}

#[cfg(test)]
mod tests;
