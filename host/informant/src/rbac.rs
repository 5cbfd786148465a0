//! The least-privilege RBAC of a configuration, as YAML to apply or as values of the chart.
//!
//! ```text
//! informers ─▶ list, watch ─┐               ┌▶ ServiceAccount, ClusterRole and binding, Role and binding per namespace
//! plugins' allow.kube ──────┴▶ Permissions ─┴▶ values of the chart, with the texts of the configuration
//! ```
//!
//! Permissions in namespaces become Roles, all others a ClusterRole. Pure: no input or output.

mod helm_values;
mod yaml;

use std::collections::{BTreeMap, BTreeSet};

use informant_spec::{KubeGrant, KubeVerb, ServiceAccount};

pub(crate) use helm_values::HelmValues;
pub(crate) use yaml::{Subject, yaml};

/// The folder of config.toml in the pod.
pub(crate) const POD_CONFIG_FOLDER: &str = "/etc/informant";

/// The most bytes of a ConfigMap: config.toml, the scripts and the components next to it together. The API server
/// refuses larger ones.
pub(crate) const CONFIG_MAP_BYTES_MAX: usize = 1024 * 1024;

/// The verbs that an informer needs.
const INFORMER_VERBS: [&str; 2] = ["list", "watch"];

/// The order of verbs in the output.
const VERBS: [&str; 8] = [
    "get",
    "list",
    "watch",
    "create",
    "update",
    "patch",
    "delete",
    "impersonate",
];

/// What the admin server creates to ask the API server about its callers: groups and resources.
pub(crate) const REVIEWS: [(&str, &str); 2] = [
    ("authentication.k8s.io", "tokenreviews"),
    ("authorization.k8s.io", "subjectaccessreviews"),
];

/// The scope of a rule: a namespace, or the whole cluster.
type Scope = Option<String>;

/// The objects that a rule applies to.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord)]
struct RuleTarget {
    /// Empty for the core group.
    group: String,
    /// `pods`, `pods/status`.
    resource: String,
    /// Empty: objects with any name.
    names: Vec<String>,
}

/// The verbs of a rule, and the sections that need it.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
struct Rule {
    verbs: BTreeSet<&'static str>,
    /// The sections, as in `[informer.pods]`.
    needed_by: BTreeSet<String>,
}

#[derive(Debug, Clone, Default)]
pub(crate) struct Permissions {
    rules: BTreeMap<Scope, BTreeMap<RuleTarget, Rule>>,
    /// What plugins need that act as other ServiceAccounts.
    identities: BTreeMap<ServiceAccount, Permissions>,
}

impl Permissions {
    /// Adds what the informer `name` needs: to list and watch `resource` of `group`, in one namespace or the whole
    /// cluster.
    pub(crate) fn add_informer(&mut self, name: &str, group: &str, resource: &str, namespace: Option<&str>) {
        let target = RuleTarget {
            group: group.to_owned(),
            resource: resource.to_owned(),
            names: Vec::new(),
        };
        let scope = namespace.map(str::to_owned);
        self.add(scope, target, INFORMER_VERBS, &format!("[informer.{name}]"));
    }

    pub(crate) fn add_grant(&mut self, name: &str, grant: &KubeGrant) {
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
        // The API server does not know the object's name yet when it authorizes `create`, so that verb alone has no
        // names.
        let (creating, others): (Vec<KubeVerb>, Vec<KubeVerb>) =
            grant.verbs.iter().partition(|verb| **verb == KubeVerb::Create);
        let needed_by = format!("[plugin.{name}]");
        for scope in &scopes {
            for resource in &resources {
                for (verbs, names) in [(&creating, Vec::new()), (&others, names.clone())] {
                    let target = RuleTarget {
                        group: grant.resource.group.clone(),
                        resource: resource.clone(),
                        names,
                    };
                    let verbs = verbs.iter().map(|verb| verb.as_str());
                    self.add(scope.clone(), target, verbs, &needed_by);
                }
            }
        }
    }

    /// The permissions of the plugin `name`, which acts as `identity`: those of Informant itself, or of another
    /// ServiceAccount, which Informant may impersonate.
    pub(crate) fn of_plugin(&mut self, name: &str, identity: Option<&ServiceAccount>) -> &mut Permissions {
        let Some(account) = identity else { return self };
        let target = RuleTarget {
            group: String::new(),
            resource: "serviceaccounts".to_owned(),
            names: vec![account.name.clone()],
        };
        let scope = Some(account.namespace.clone());
        self.add(scope, target, ["impersonate"], &format!("[plugin.{name}] as"));
        self.identities.entry(account.clone()).or_default()
    }

    /// Adds what the plugin `name` needs to record Kubernetes Events.
    pub(crate) fn add_events(&mut self, name: &str) {
        let target = RuleTarget {
            group: "events.k8s.io".to_owned(),
            resource: "events".to_owned(),
            names: Vec::new(),
        };
        self.add(None, target, ["create", "patch"], &format!("[plugin.{name}]"));
    }

    /// Adds what replicas need in their namespace: Leases, and Secrets if what plugins remember is in these. A name
    /// cannot be demanded of what is listed, or to be created.
    pub(crate) fn add_replicas(&mut self, namespace: &str, has_secrets: bool) {
        let mut add = |group: &str, resource: &str, verbs: &[&'static str], needed_by: &str| {
            let target = RuleTarget {
                group: group.to_owned(),
                resource: resource.to_owned(),
                names: Vec::new(),
            };
            self.add(Some(namespace.to_owned()), target, verbs.iter().copied(), needed_by);
        };
        let verbs = ["get", "list", "watch", "create", "patch"];
        add("coordination.k8s.io", "leases", &verbs, "[ha]");
        if has_secrets {
            add("", "secrets", &["get", "create", "update"], "[state] store");
        }
    }

    /// Adds what the admin server needs to ask the API server about its callers.
    pub(crate) fn add_reviews(&mut self) {
        for (group, resource) in REVIEWS {
            let target = RuleTarget {
                group: group.to_owned(),
                resource: resource.to_owned(),
                names: Vec::new(),
            };
            self.add(None, target, ["create"], "[admin] tls");
        }
    }

    fn add(
        &mut self,
        scope: Scope,
        target: RuleTarget,
        verbs: impl IntoIterator<Item = &'static str>,
        needed_by: &str,
    ) {
        let verbs: Vec<_> = verbs.into_iter().collect();
        if verbs.is_empty() {
            return;
        }
        let rule = self.rules.entry(scope).or_default().entry(target).or_default();
        rule.verbs.extend(verbs);
        rule.needed_by.insert(needed_by.to_owned());
    }

    /// The rules by scope, cluster-wide first. Cluster-wide permissions are not repeated for a namespace.
    fn by_scope(&self) -> BTreeMap<Scope, BTreeMap<RuleTarget, Rule>> {
        let cluster_wide = self.rules.get(&None).cloned().unwrap_or_default();
        let held = |target: &RuleTarget, verb: &str| {
            let any_name = RuleTarget {
                names: Vec::new(),
                ..target.clone()
            };
            cluster_wide
                .get(&any_name)
                .is_some_and(|rule| rule.verbs.contains(verb))
        };
        let mut rules = self.rules.clone();
        for (scope, rules) in &mut rules {
            for (target, rule) in rules.iter_mut() {
                let is_redundant = |verb: &str| (scope.is_some() || !target.names.is_empty()) && held(target, verb);
                rule.verbs.retain(|verb| !is_redundant(verb));
            }
            rules.retain(|_, rule| !rule.verbs.is_empty());
        }
        rules.retain(|_, rules| !rules.is_empty());
        rules
    }
}

#[cfg(test)]
mod tests;
