//! The objects of a plugin that a request is about.

use std::collections::BTreeSet;

use informant_cache::{Source, SourceInfo};
use informant_object::{Key, KeyRef, Object};
use informant_plugin_host::Plugin;

use crate::admin::error::{AdminError, Code};

/// Those that match every member.
#[derive(Debug, Clone, Copy, Default)]
pub(in crate::admin) struct ObjectScope<'r> {
    /// Names, separated by commas; none for all.
    pub(in crate::admin) clusters: Option<&'r str>,
    /// As for `get`: `v1/pods`, `pods`, `Pod`, `deployments.apps`; none for all.
    pub(in crate::admin) resource: Option<&'r str>,
    pub(in crate::admin) namespace: Option<&'r str>,
}

impl ObjectScope<'_> {
    pub(in crate::admin) fn is_everything(&self) -> bool {
        [self.clusters, self.resource, self.namespace]
            .iter()
            .all(Option::is_none)
    }

    /// Whether a source may hold such objects.
    pub(in crate::admin) fn may_be_in(&self, info: &SourceInfo) -> bool {
        let in_cluster = |names: &str| names.split(',').any(|name| name == info.cluster);
        self.clusters.is_none_or(in_cluster)
            && self.resource.is_none_or(|resource| is_of(info, resource))
            && (self.namespace.zip(info.namespace.as_deref())).is_none_or(|(wanted, only)| wanted == only)
    }

    pub(in crate::admin) fn has_key(&self, key: KeyRef<'_>) -> bool {
        self.namespace.is_none_or(|namespace| namespace == key.namespace)
    }

    /// ` of cluster "east", of resource "pods"`, for an error.
    pub(in crate::admin) fn named(&self) -> String {
        let members = [
            ("cluster", self.clusters),
            ("resource", self.resource),
            ("namespace", self.namespace),
        ];
        let named = members
            .iter()
            .filter_map(|(what, name)| name.map(|name| format!(" of {what} \"{name}\"")));
        named.collect()
    }
}

/// Whether `resource` is that of a source: `v1/pods`, `pods`, `Pod`, or with its group `deployments.apps`.
pub(in crate::admin) fn is_of(info: &SourceInfo, resource: &str) -> bool {
    if info.resource == resource {
        return true;
    }
    let group = info.api_version.split_once('/').map_or("", |(group, _)| group);
    let (name, of_group) = match resource.split_once('.') {
        Some((name, wanted)) => (name, wanted == group),
        None => (resource, true),
    };
    let plural = info.resource.rsplit('/').next().unwrap_or_default();
    of_group && (plural.eq_ignore_ascii_case(name) || info.kind.eq_ignore_ascii_case(name))
}

/// Whether `plugin` is called for changes of `object`, of a source that is attached to it.
pub(in crate::admin) fn handles(plugin: &Plugin, info: &SourceInfo, object: &Object) -> bool {
    let manifest = plugin.manifest();
    let rule = manifest.event_rule(&info.api_version, &info.kind);
    rule.is_some_and(|rule| rule.selection().selects(object)) && plugin.spec().selection.selects(object)
}

/// # Errors
/// `ambiguous` if objects of several resources have `key`, which a pattern informer may hold: lists them. Objects of
/// one resource in several clusters are meant together.
pub(in crate::admin) fn check_one_resource<'s>(
    key: &Key,
    holding: impl IntoIterator<Item = &'s Source>,
) -> Result<(), AdminError> {
    let resources: BTreeSet<&str> = holding.into_iter().map(|source| &*source.info().resource).collect();
    if resources.len() < 2 {
        return Ok(());
    }
    let objects: Vec<String> = resources.iter().map(|resource| format!("{resource} {key}")).collect();
    let message = format!(
        "several objects have the key {key}: {}; choose one with `resource` (--resource)",
        objects.join(", ")
    );
    Err(AdminError::new(Code::Ambiguous, message))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn info(api_version: &str, kind: &str, resource: &str) -> SourceInfo {
        SourceInfo {
            informer: "all".to_owned(),
            cluster: "east".to_owned(),
            api_version: api_version.to_owned(),
            kind: kind.to_owned(),
            resource: resource.to_owned(),
            namespace: Some("web".to_owned()),
            namespaced: true,
            partial: false,
        }
    }

    #[test]
    fn resources_are_named_as_for_get() {
        let pods = info("v1", "Pod", "v1/pods");
        let deployments = info("apps/v1", "Deployment", "apps/v1/deployments");
        for name in ["v1/pods", "pods", "Pod", "pod"] {
            assert!(is_of(&pods, name) && !is_of(&deployments, name), "{name}");
        }
        for name in [
            "apps/v1/deployments",
            "deployments",
            "deployments.apps",
            "deployment.apps",
        ] {
            assert!(is_of(&deployments, name) && !is_of(&pods, name), "{name}");
        }
        assert!(!is_of(&deployments, "deployments.extensions"));
    }

    #[test]
    fn every_member_of_a_scope_must_match() {
        let pods = info("v1", "Pod", "v1/pods");
        let scope = |clusters, resource, namespace| ObjectScope {
            clusters,
            resource,
            namespace,
        };
        assert!(scope(None, None, None).may_be_in(&pods));
        assert!(scope(Some("west,east"), Some("pods"), Some("web")).may_be_in(&pods));
        assert!(!scope(Some("west"), None, None).may_be_in(&pods));
        assert!(!scope(None, Some("nodes"), None).may_be_in(&pods));
        assert!(!scope(None, None, Some("shop")).may_be_in(&pods));
    }
}
