//! Builds the plugin host's spec from a section of config.toml. Every new key of `[plugin.NAME]` passes through here.

use std::path::Path;
use std::time::Duration;

use informant_plugin_host::PluginSpec;

use crate::config::{Config, PluginSection, Required};

/// A plugin as the whole configuration describes it.
#[derive(Debug, Clone)]
pub(crate) struct DesiredPlugin {
    pub(super) section: PluginSection,
    /// The resync period: that of its own section, or the shortest of its informers.
    pub(super) resync: Option<Duration>,
}

impl DesiredPlugin {
    pub(crate) fn new(config: &Config, section: &PluginSection) -> Self {
        let informers = section.informers.iter();
        let of_informers = informers.filter_map(|(_, name)| config.informers.get(&name.value)?.resync);
        Self {
            section: section.clone(),
            resync: section.resync.or_else(|| of_informers.min()),
        }
    }

    /// Whether both have the same meaning, wherever in the file they are written.
    pub(super) fn has_same_settings(&self, other: &Self) -> bool {
        self.resync == other.resync && self.section.has_same_settings(&other.section)
    }

    /// The names of its informers.
    pub(super) fn informers(&self) -> impl Iterator<Item = &str> {
        self.section.informers.iter().map(|(_, name)| name.value.as_str())
    }

    /// The component file.
    pub(super) fn file(&self) -> &Path {
        &self.section.component.value
    }

    /// The spec for the plugin host.
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
            allow_http: section.allow_http.iter().map(|grant| grant.value.clone()).collect(),
            selection: section.selection.value.clone(),
            limits: section.limits,
            resync: self.resync,
            on_reload: section.on_reload,
            on_restart: section.on_restart,
            min_interval: section.min_interval,
            calls_per_second_max: section.max_rate,
            on_failure: section.on_failure,
            retry: section.retry,
            paused: section.paused,
            is_dry_run: section.dry_run,
            required: section.required != Required::No,
        }
    }
}
