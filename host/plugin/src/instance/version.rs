//! A version of a plugin: a component, and the manifest that it describes itself with.

use std::sync::Arc;

use crate::component::PluginComponent;
use crate::component::manifest::Manifest;
use crate::engine::watchdog::CallWatchdog;
use crate::error::LoadProblem;
use crate::instance::Instance;
use crate::instance::context::DescribeContext;
use crate::instance::guest::{GuestState, InstanceResources};
use crate::text::truncated;

/// Follows an error of a manifest that the configuration may have caused.
const CONFIG_HINT: &str = "; if it depends on the plugin's `config`, check that in config.toml";

/// A version of a plugin: a component and its manifest. Cheap to clone.
#[derive(Clone)]
pub(crate) struct LoadedVersion {
    pub(crate) component: PluginComponent<GuestState>,
    pub(crate) manifest: Arc<Manifest>,
    /// The manifest as the component wrote it.
    pub(crate) document: Arc<[u8]>,
}

impl LoadedVersion {
    /// Asks the component for its manifest, in a temporary instance.
    /// Errors: those of the instance, and of the manifest.
    pub(crate) async fn describe(
        component: PluginComponent<GuestState>,
        context: &DescribeContext,
        resources: InstanceResources,
        watchdog: CallWatchdog,
    ) -> Result<LoadedVersion, LoadProblem> {
        let engine = component.pre().engine().clone();
        let _running = resources.clock.run_guests();
        let mut instance = Instance::new(&engine, &component, resources, watchdog).await?;
        let document = instance
            .describe(&context.to_json())
            .await
            .map_err(|report| LoadProblem::Trapped(*report))?
            .map_err(|reason| match component.script {
                Some(_) => LoadProblem::Script(truncated(&reason)),
                None => LoadProblem::Describe(truncated(&reason)),
            })?;
        let manifest = Manifest::parse(&document, component.roles).map_err(|error| LoadProblem::Manifest {
            error,
            hint: if context.has_config() { CONFIG_HINT } else { "" },
        })?;
        if let Some(role) = component.unknown_roles.first().filter(|_| manifest.roles.is_none()) {
            return Err(LoadProblem::UnknownRole { role: role.clone() });
        }
        let roles = manifest.active_roles(component.roles);
        Ok(LoadedVersion {
            component: component.with_roles(roles),
            manifest: Arc::new(manifest),
            document: document.into(),
        })
    }
}
