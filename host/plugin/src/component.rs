//! A component that can be a plugin: validated, compiled and linked, but not running.

pub(crate) mod binary;
pub(crate) mod context;
pub(crate) mod imports;
pub(crate) mod interface_name;
pub(crate) mod manifest;
pub(crate) mod roles;
pub(crate) mod script;
pub(crate) mod stubs;

use std::sync::Arc;

use informant_spec::Digest;
use wasmtime::component::{InstancePre, Linker};

use crate::Roles;
use crate::actor::truncated;
use crate::artifacts::{Artifact, Artifacts};
use crate::component::binary::SdkInfo;
use crate::component::context::DescribeContext;
use crate::component::manifest::Manifest;
use crate::component::roles::ExportedRoles;
use crate::component::script::Script;
use crate::error::LoadProblem;
use crate::instance::Instance;
use crate::instance::bindings::exports::informant::plugin::{
    event_handler, index_funcs, lifecycle, state, sync_handler,
};
use crate::instance::guest::{GuestState, InstanceResources};
use crate::instance::watchdog::CallWatchdog;

/// Bytes of a component's file: 64 MiB. Python's has 18, StarlingMonkey's 12; a much larger file is something else.
pub const COMPONENT_BYTES_MAX: usize = 64 << 20;

/// A component that can be a plugin. Cheap to clone.
#[derive(Clone)]
pub(crate) struct PluginComponent(Arc<ComponentParts>);

#[derive(Clone)]
pub(crate) struct ComponentParts {
    /// The digest of the plugin's file: of the script, if it is one.
    pub(crate) digest: Digest,
    pub(crate) size_bytes: usize,
    pub(crate) roles: Roles,
    /// Roles that this Informant does not know; see [`roles`].
    unknown_roles: Vec<String>,
    pub(crate) imports: Vec<String>,
    /// Functions of a newer contract, which trap when they are called.
    pub(crate) stubs: Vec<String>,
    /// The contract version that it exports.
    pub(crate) contract: String,
    pub(crate) sdk: Option<SdkInfo>,
    pub(crate) pre: InstancePre<GuestState>,
    pub(crate) indices: Indices,
    /// The script to run, if the component is the script runner: the plugin's file, or a part of it.
    pub(crate) script: Option<Arc<Script>>,
    /// Shared with other plugins of the same component.
    _artifact: Arc<Artifact>,
}

/// The export indices of each role's functions.
#[derive(Clone)]
pub(crate) struct Indices {
    pub(crate) lifecycle: lifecycle::GuestIndices,
    pub(crate) events: Option<event_handler::GuestIndices>,
    pub(crate) sync: Option<sync_handler::GuestIndices>,
    pub(crate) index: Option<index_funcs::GuestIndices>,
    pub(crate) state: Option<state::GuestIndices>,
}

impl std::ops::Deref for PluginComponent {
    type Target = ComponentParts;

    fn deref(&self) -> &ComponentParts {
        &self.0
    }
}

impl PluginComponent {
    /// Validates `bytes`, the contents of a file with this digest, and prepares them to run: checks the names,
    /// compiles, checks the types.
    ///
    /// # Errors
    /// Why the component is rejected.
    pub(crate) async fn new(
        bytes: Arc<[u8]>,
        digest: Digest,
        artifacts: &Artifacts,
        linker: &Linker<GuestState>,
    ) -> Result<PluginComponent, LoadProblem> {
        let surface = binary::surface(&bytes)?;
        let ExportedRoles {
            roles,
            unknown,
            contract,
        } = roles::check_names(&surface)?;
        imports::check_names(&surface)?;
        let size_bytes = bytes.len();
        // The code is that of the script runner, which is compiled once for all scripts.
        let code = surface
            .script
            .as_ref()
            .and_then(|script| bytes.strip_suffix(&script.section[..]));
        let artifact = match code {
            Some(code) => artifacts.get(Digest::of(code), Arc::from(code)).await?,
            None => artifacts.get(digest, bytes).await?,
        };
        roles::check_types(&artifact.component)?;
        let own = stubs::linker_with_stubs(&artifact.component, linker)
            .map_err(|error| LoadProblem::ImportType(format!("{error:#}")))?;
        let (linker, stubs) = own.as_ref().map_or((linker, &[][..]), |(own, stubs)| (own, stubs));
        let pre = linker
            .instantiate_pre(&artifact.component)
            .map_err(|error| LoadProblem::ImportType(format!("{error:#}")))?;
        let indices = Indices::find(&pre, roles).map_err(|error| LoadProblem::Compile(format!("{error:#}")))?;
        Ok(PluginComponent(Arc::new(ComponentParts {
            digest,
            size_bytes,
            roles,
            unknown_roles: unknown,
            imports: surface.imports,
            stubs: stubs.to_vec(),
            contract,
            sdk: surface.sdk,
            pre,
            indices,
            script: surface.script.map(|script| Arc::new(Script::embedded(script))),
            _artifact: artifact,
        })))
    }

    /// The same code with `script` to run: the plugin is the script and has its digest.
    pub(crate) fn with_script(&self, script: Arc<Script>, digest: Digest) -> PluginComponent {
        let mut parts = ComponentParts::clone(self);
        parts.digest = digest;
        parts.size_bytes = script.text.len();
        parts.script = Some(script);
        PluginComponent(Arc::new(parts))
    }

    /// The same component, called only for `roles`, which it has.
    pub(crate) fn with_roles(self, roles: Roles) -> PluginComponent {
        if roles == self.roles {
            return self;
        }
        let mut parts = ComponentParts::clone(&self);
        parts.roles = roles;
        parts.indices.events = parts.indices.events.filter(|_| roles.event_handler);
        parts.indices.sync = parts.indices.sync.filter(|_| roles.sync_handler);
        parts.indices.index = parts.indices.index.filter(|_| roles.index_funcs);
        parts.indices.state = parts.indices.state.filter(|_| roles.state);
        PluginComponent(Arc::new(parts))
    }
}

impl Indices {
    fn find(pre: &InstancePre<GuestState>, roles: Roles) -> wasmtime::Result<Indices> {
        Ok(Indices {
            lifecycle: lifecycle::GuestIndices::new(pre)?,
            events: roles
                .event_handler
                .then(|| event_handler::GuestIndices::new(pre))
                .transpose()?,
            sync: roles
                .sync_handler
                .then(|| sync_handler::GuestIndices::new(pre))
                .transpose()?,
            index: roles
                .index_funcs
                .then(|| index_funcs::GuestIndices::new(pre))
                .transpose()?,
            state: roles.state.then(|| state::GuestIndices::new(pre)).transpose()?,
        })
    }
}

/// The reason `store` and `kube` return to `describe` with `denied`.
pub(crate) const DENIED_IN_DESCRIBE: &str =
    "describe must depend on the plugin and its `config` alone: in describe, only log can be called";

/// Follows an error of a manifest that the configuration may have caused.
const CONFIG_HINT: &str = "; if it depends on the plugin's `config`, check that in config.toml";

/// A version of a plugin: a component and its manifest. Cheap to clone.
#[derive(Clone)]
pub(crate) struct LoadedVersion {
    pub(crate) component: PluginComponent,
    pub(crate) manifest: Arc<Manifest>,
}

impl LoadedVersion {
    /// Asks the component for its manifest, in a temporary instance.
    ///
    /// # Errors
    /// Errors of the instance, and of the manifest.
    pub(crate) async fn describe(
        component: PluginComponent,
        context: &DescribeContext,
        resources: InstanceResources,
        watchdog: CallWatchdog,
    ) -> Result<LoadedVersion, LoadProblem> {
        let engine = component.pre.engine().clone();
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
        })
    }
}
