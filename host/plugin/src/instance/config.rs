//! The configuration of a plugin's instances: its section of config.toml, and what that grants.
//!
//! Replaced as a whole, like a component: each instance keeps the configuration it was created with. Settings that are
//! not baked into an instance (what it may read, what failures lead to) can change while it runs.

use std::sync::Arc;

use informant_spec::PluginSpec;

use crate::capability::Grants;
use crate::instance::context::DescribeContext;

/// A section of config.toml and what it grants.
pub(crate) struct PluginConfig {
    pub(crate) spec: PluginSpec,
    /// What instances with this configuration may use, checked at each call.
    pub(crate) grants: Grants,
    /// What `describe` receives, and `init`, too.
    pub(crate) context: DescribeContext,
}

impl PluginConfig {
    /// A configuration for new instances.
    pub(crate) fn new(spec: PluginSpec) -> Arc<PluginConfig> {
        let grants = Grants::new(&spec);
        PluginConfig::with(spec, grants)
    }

    /// A configuration for the running instances: from their next call on they have the grants of `spec`. Only where
    /// they [can serve](Self::can_serve) it.
    pub(crate) fn updated(&self, spec: PluginSpec) -> Arc<PluginConfig> {
        self.grants.set(&spec);
        PluginConfig::with(spec, self.grants.clone())
    }

    /// Whether instances with this configuration can keep running with `spec`: the arguments of `init` and the limits
    /// of the instance are the same, and no informer has a name that another one had, which a guest may remember.
    pub(crate) fn can_serve(&self, spec: &PluginSpec) -> bool {
        let own = &self.spec;
        let bounds = |spec: &PluginSpec| (spec.limits.memory_bytes, spec.limits.cpu, spec.limits.call);
        let renamed = spec
            .informers
            .iter()
            .any(|(alias, informer)| own.informers.iter().any(|(was, of)| (was == alias) != (of == informer)));
        own.config == spec.config
            && bounds(own) == bounds(spec)
            && own.limits.instances == spec.limits.instances
            && !renamed
    }

    fn with(spec: PluginSpec, grants: Grants) -> Arc<PluginConfig> {
        Arc::new(PluginConfig {
            context: DescribeContext::new(&spec),
            spec,
            grants,
        })
    }
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use informant_spec::{OnFailure, ReplayPolicy, WaitFor};
    use serde_json::json;

    use super::*;

    fn spec(informers: &[(&str, &str)]) -> PluginSpec {
        let informers = informers.iter().map(|(a, b)| ((*a).to_owned(), (*b).to_owned()));
        PluginSpec {
            informers: informers.collect(),
            ..PluginSpec::new("greeter", "greeter.wasm")
        }
    }

    fn is_kept(before: PluginSpec, after: &PluginSpec) -> bool {
        PluginConfig::new(before).can_serve(after)
    }

    #[test]
    fn an_instance_is_kept_unless_its_config_or_limits_change() {
        let base = spec(&[("pods", "pods")]);
        let with = |change: fn(&mut PluginSpec)| {
            let mut changed = base.clone();
            change(&mut changed);
            is_kept(base.clone(), &changed)
        };
        assert!(with(|_| ()));
        assert!(with(|spec| spec.limits.pending = 7));
        assert!(with(|spec| spec.resync = Some(Duration::from_secs(9))));
        assert!(with(|spec| spec.min_interval = Some(Duration::from_secs(9))));
        assert!(with(|spec| spec.calls_per_second_max = Some(9)));
        assert!(with(|spec| spec.selection.namespaces = vec!["prod".to_owned()]));
        assert!(with(|spec| spec.on_failure = OnFailure::Skip));
        assert!(with(|spec| spec.wait_for = WaitFor::Own));
        assert!(with(|spec| spec.is_dry_run = true));
        assert!(with(|spec| spec.on_restart = ReplayPolicy::Replay));
        assert!(!with(|spec| spec.config = json!({ "greeting": "hi" })));
        assert!(!with(|spec| spec.limits.memory_bytes /= 2));
        assert!(!with(|spec| spec.limits.cpu /= 2));
        assert!(!with(|spec| spec.limits.call /= 2));
    }

    #[test]
    fn an_instance_is_kept_unless_an_informer_is_renamed() {
        let one = || spec(&[("main", "pods")]);
        assert!(is_kept(one(), &spec(&[("main", "pods"), ("nodes", "nodes")])));
        assert!(is_kept(one(), &spec(&[])));
        assert!(!is_kept(one(), &spec(&[("main", "nodes")])));
        assert!(!is_kept(one(), &spec(&[("other", "pods")])));
    }
}
