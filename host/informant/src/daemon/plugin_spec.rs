//! From a section of config.toml to what the plugin host needs: the one place that a new key of `[plugin.NAME]` has to
//! go through.

use std::path::Path;
use std::time::Duration;

use informant_plugin_host::PluginSpec;

use crate::config::{Config, PluginSection, Required};

/// A plugin as the whole configuration wants it.
#[derive(Debug, Clone)]
pub(crate) struct Wanted {
    pub(super) section: PluginSection,
    /// How often it is told everything again: what its own section says, or the shortest that any of its informers asks
    /// for.
    pub(super) resync: Option<Duration>,
}

impl Wanted {
    pub(crate) fn new(config: &Config, section: &PluginSection) -> Self {
        let informers = section.informers.iter();
        let of_informers = informers.filter_map(|(_, name)| config.informers.get(&name.value)?.resync);
        Self {
            section: section.clone(),
            resync: section.resync.or_else(|| of_informers.min()),
        }
    }

    /// Whether both mean the same, wherever in the file it is written.
    pub(super) fn says_the_same_as(&self, other: &Self) -> bool {
        self.resync == other.resync && self.section.says_the_same_as(&other.section)
    }

    /// The names of its informers.
    pub(super) fn informers(&self) -> impl Iterator<Item = &str> {
        self.section.informers.iter().map(|(_, name)| name.value.as_str())
    }

    /// The file whose change makes it another plugin.
    pub(super) fn file(&self) -> &Path {
        &self.section.component.value
    }

    /// What the plugin host is to load it as.
    pub(crate) fn spec(&self, name: &str) -> PluginSpec {
        let section = &self.section;
        let informers = section
            .informers
            .iter()
            .map(|(alias, informer)| (alias.clone(), informer.value.clone()));
        PluginSpec {
            name: name.to_owned(),
            component: section.component.value.clone(),
            sha256: section.sha256,
            config: section.config.value.clone(),
            informers: informers.collect(),
            allow_kube: section.allow_kube.iter().map(|grant| grant.value.clone()).collect(),
            limits: section.limits,
            resync: self.resync,
            on_reload: section.on_reload,
            on_restart: section.on_restart,
            on_failure: section.on_failure,
            required: section.required != Required::No,
        }
    }
}
