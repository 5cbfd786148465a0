//! The informers that a plugin may read, as granted by config.toml.

use informant_cache::{Catalog, SourceInfo};

use super::Answer;
use crate::bindings::informant::plugin::types::ErrorCode;
use crate::capability::error;

/// The informers listed in a plugin's section of config.toml.
#[derive(Debug, PartialEq, Eq)]
pub(crate) struct InformerGrants {
    plugin: String,
    /// The plugin's name for the informer, and the informer's own.
    informers: Vec<(String, String)>,
}

impl InformerGrants {
    pub(crate) fn new(plugin: &str, informers: &[(String, String)]) -> InformerGrants {
        InformerGrants {
            plugin: plugin.to_owned(),
            informers: informers.to_vec(),
        }
    }

    /// The informer that the plugin calls `alias`.
    pub(super) fn informer(&self, alias: &str, catalog: &Catalog) -> Answer<&str> {
        if let Some((_, informer)) = self.informers.iter().find(|(name, _)| name == alias) {
            return Ok(informer);
        }
        if self.alias(alias).is_none() && catalog.informers().iter().any(|informer| informer == alias) {
            return Err(self.denied(alias));
        }
        let known: Vec<&str> = self.informers.iter().map(|(alias, _)| alias.as_str()).collect();
        let known = if known.is_empty() {
            "none".to_owned()
        } else {
            known.join(", ")
        };
        Err(error(
            ErrorCode::UnknownInformer,
            format!(
                "unknown informer {alias:?}; [plugin.{}] in config.toml lists: {known}",
                self.plugin
            ),
        ))
    }

    /// The plugin's name for the informer `informer`.
    pub(super) fn alias(&self, informer: &str) -> Option<&str> {
        self.informers
            .iter()
            .find(|(_, name)| name == informer)
            .map(|(alias, _)| alias.as_str())
    }

    /// Checks that the source's informer is listed.
    pub(super) fn authorize_source(&self, info: &SourceInfo) -> Answer<()> {
        match self.alias(&info.informer) {
            Some(_) => Ok(()),
            None => Err(self.denied(&info.informer)),
        }
    }

    fn denied(&self, informer: &str) -> super::HostError {
        error(
            ErrorCode::Denied,
            format!(
                "the informer {informer:?} is not granted; in config.toml, set in [plugin.{}]: informers = {}",
                self.plugin,
                self.line_with(informer)
            ),
        )
    }

    /// The value of `informers` in config.toml that also grants `informer`: a list, or a table if the plugin uses other
    /// names.
    fn line_with(&self, informer: &str) -> String {
        let own = self
            .informers
            .iter()
            .map(|(alias, name)| (alias.as_str(), name.as_str()));
        let all: Vec<(&str, &str)> = own.chain([(informer, informer)]).collect();
        if all.iter().all(|(alias, name)| alias == name) {
            let names: Vec<String> = all.iter().map(|(_, name)| format!("{name:?}")).collect();
            return format!("[{}]", names.join(", "));
        }
        let pairs: Vec<String> = all.iter().map(|(alias, name)| format!("{alias} = {name:?}")).collect();
        format!("{{ {} }}", pairs.join(", "))
    }
}
