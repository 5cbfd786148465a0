//! What a plugin needs to be granted, by its own words, held against what config.toml grants.

use serde::{Deserialize, Serialize};

use crate::error::Problem;
use crate::grant::{KubeGrant, allow_line, unmet};
use crate::manifest::Manifest;
use crate::spec::PluginSpec;

/// One entry of a manifest's `needs`: an object with one member that says of which kind it is, so that kinds can be
/// added.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Need {
    /// To do something on the cluster. Where it names no namespaces or names, these are left to whoever grants it.
    Kube(KubeGrant),
}

impl Need {
    /// What is wrong with it by itself.
    pub(crate) fn judge(&self) -> Result<(), String> {
        let Need::Kube(grant) = self;
        grant
            .judge()
            .map_err(|problem| format!("has a need of {} in which {problem}", grant.resource))
    }
}

/// Refuses a version that needs what its section of config.toml does not grant.
///
/// # Errors
/// [`Problem::Needs`] with the line that would grant it.
pub(crate) fn judge(manifest: &Manifest, spec: &PluginSpec) -> Result<(), Problem> {
    let missing = unmet(&manifest.kube_needs(), &spec.allow_kube);
    if missing.is_empty() {
        return Ok(());
    }
    Err(Problem::Needs {
        plugin: spec.name.clone(),
        line: allow_line(&spec.allow_kube, &missing),
    })
}
