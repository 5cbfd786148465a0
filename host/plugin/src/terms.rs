//! What a plugin's instances are made under: its section of config.toml, and what that grants.
//!
//! Exchanged as a whole, as a component is: an instance that takes over brings the terms it was made under. What an
//! instance is not made of (what it may read, what failures lead to) can change under one that runs.

use std::sync::Arc;

use crate::error::Problem;
use crate::host_kube::KubeGrants;
use crate::host_store::{Grants, GrantsCell};
use crate::spec::PluginSpec;

/// A section and what it grants.
pub(crate) struct Terms {
    pub(crate) spec: PluginSpec,
    /// What instances made under these terms may read; they look at it at each call.
    pub(crate) grants: Arc<GrantsCell>,
    /// What they may do on the cluster; as well.
    pub(crate) kube: Arc<KubeGrants>,
    /// What `init` receives.
    pub(crate) config: Vec<u8>,
}

impl Terms {
    /// Terms for new instances.
    ///
    /// # Errors
    /// [`Problem::Spec`] when the section's `config` is no JSON.
    pub(crate) fn new(spec: PluginSpec) -> Result<Arc<Terms>, Problem> {
        let grants = Arc::new(GrantsCell::new(Grants::new(&spec.name, &spec.informers)));
        let kube = Arc::new(KubeGrants::new(&spec.allow_kube));
        Terms::with(spec, grants, kube)
    }

    /// Terms for the instances that run: they are granted what `spec` grants from their next call on. Only where they
    /// [serve](Self::serve) it.
    ///
    /// # Errors
    /// As [`new`](Self::new); nothing has changed then.
    pub(crate) fn amended(&self, spec: PluginSpec) -> Result<Arc<Terms>, Problem> {
        let grants = Grants::new(&spec.name, &spec.informers);
        let terms = Terms::with(spec, Arc::clone(&self.grants), Arc::clone(&self.kube))?;
        self.grants.set(grants);
        self.kube.set(&terms.spec.allow_kube);
        Ok(terms)
    }

    /// Whether instances made under these terms can go on under `spec`, as far as the section goes: what they were told
    /// at `init` and what bounds them is the same, and no informer goes by a name that another had, which a guest may
    /// remember.
    pub(crate) fn serve(&self, spec: &PluginSpec) -> bool {
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

    fn with(spec: PluginSpec, grants: Arc<GrantsCell>, kube: Arc<KubeGrants>) -> Result<Arc<Terms>, Problem> {
        let config = serde_json::to_vec(&spec.config).map_err(|error| Problem::Spec(format!("config: {error}")))?;
        Ok(Arc::new(Terms {
            spec,
            grants,
            kube,
            config,
        }))
    }
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use serde_json::json;

    use super::*;
    use crate::spec::{Continuation, OnFailure};

    fn spec(informers: &[(&str, &str)]) -> PluginSpec {
        let informers = informers.iter().map(|(a, b)| ((*a).to_owned(), (*b).to_owned()));
        PluginSpec {
            informers: informers.collect(),
            ..PluginSpec::new("greeter", "greeter.wasm")
        }
    }

    fn serve(before: PluginSpec, after: &PluginSpec) -> bool {
        Terms::new(before).unwrap().serve(after)
    }

    #[test]
    fn an_instance_goes_on_unless_what_it_was_made_of_changes() {
        let base = spec(&[("pods", "pods")]);
        let with = |change: fn(&mut PluginSpec)| {
            let mut changed = base.clone();
            change(&mut changed);
            serve(base.clone(), &changed)
        };
        assert!(with(|_| ()));
        assert!(with(|spec| spec.limits.pending = 7));
        assert!(with(|spec| spec.resync = Some(Duration::from_secs(9))));
        assert!(with(|spec| spec.on_failure = OnFailure::Skip));
        assert!(with(|spec| spec.on_restart = Continuation::Replay));
        assert!(!with(|spec| spec.config = json!({ "greeting": "hi" })));
        assert!(!with(|spec| spec.limits.memory_bytes /= 2));
        assert!(!with(|spec| spec.limits.cpu /= 2));
        assert!(!with(|spec| spec.limits.call /= 2));
    }

    #[test]
    fn informers_come_and_go_but_are_not_renamed_under_an_instance() {
        let one = || spec(&[("main", "pods")]);
        assert!(serve(one(), &spec(&[("main", "pods"), ("nodes", "nodes")])));
        assert!(serve(one(), &spec(&[])));
        assert!(!serve(one(), &spec(&[("main", "nodes")])));
        assert!(!serve(one(), &spec(&[("other", "pods")])));
    }
}
