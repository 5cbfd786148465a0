//! A component with its manifest: all there is to know of a version of a plugin before it runs.

use std::sync::Arc;

use crate::component::PluginComponent;
use crate::error::Problem;
use crate::guest::Ration;
use crate::instance::Instance;
use crate::manifest::{Manifest, ManifestError};
use crate::shared::truncated;
use crate::watch::Watch;

/// What `store` and `kube` answer while a component describes itself.
pub(crate) const DENIED_IN_DESCRIBE: &str =
    "describe is answered from the component alone: no call but log is answered in it";

/// A version of a plugin. Cheap to clone.
#[derive(Clone)]
pub(crate) struct Described {
    pub(crate) component: PluginComponent,
    pub(crate) manifest: Arc<Manifest>,
}

impl Described {
    /// Asks the component for its manifest, in an instance that is made for that and dropped.
    ///
    /// # Errors
    /// What goes wrong in the instance, and what is wrong with the manifest.
    pub(crate) async fn ask(component: PluginComponent, ration: Ration, watch: Watch) -> Result<Described, Problem> {
        let engine = component.pre.engine().clone();
        let _running = ration.clock.run_guests();
        let mut instance = Instance::new(&engine, &component, ration, watch).await?;
        let document = instance.describe().await.map_err(|report| Problem::Trapped(*report))?;
        let manifest = Manifest::parse(&document, component.roles).map_err(|error| match error {
            ManifestError::Refused(reason) => Problem::Refused(truncated(&reason)),
            error => Problem::Manifest(error),
        })?;
        let roles = manifest.plays(component.roles);
        Ok(Described {
            component: component.playing(roles),
            manifest: Arc::new(manifest),
        })
    }
}
