//! A component that can be a plugin: validated, compiled and linked, but not running.

pub(crate) mod binary;
pub(crate) mod by_digest;
pub(crate) mod imports;
pub(crate) mod interface_name;
pub(crate) mod manifest;
pub(crate) mod precompile;
pub(crate) mod roles;
pub(crate) mod runner;
pub(crate) mod script;
pub(crate) mod stubs;

use std::path::Path;
use std::sync::Arc;

use informant_spec::Digest;
use wasmtime::component::{InstancePre, Linker};

use crate::artifacts::{Artifact, Artifacts};
use crate::component::binary::SdkInfo;
use crate::component::roles::{ExportedRoles, Indices, Roles};
use crate::component::runner::RunnerStatus;
use crate::component::script::Script;
use crate::engine::compile::{CompileRequest, expected_memory_bytes};
use crate::error::LoadProblem;

/// A component that can be a plugin, linked for stores with data `T`. Cheap to clone.
pub(crate) struct PluginComponent<T: 'static> {
    facts: Arc<ComponentFacts>,
    pub(crate) pre: InstancePre<T>,
    pub(crate) indices: Indices,
    /// Shared with other plugins of the same component.
    _artifact: Arc<Artifact>,
}

/// What is known of a component without running it.
#[derive(Clone)]
pub(crate) struct ComponentFacts {
    /// The digest of the plugin's file: of the script, if it is one.
    pub(crate) digest: Digest,
    pub(crate) size_bytes: usize,
    /// The memory that compiling its code is expected to take.
    pub(crate) compile_memory_bytes: u64,
    pub(crate) roles: Roles,
    /// Roles that this Informant does not know; see [`roles`].
    pub(crate) unknown_roles: Vec<String>,
    pub(crate) imports: Vec<String>,
    /// Functions of a newer contract, which trap when they are called.
    pub(crate) stubs: Vec<String>,
    /// The contract version that it exports.
    pub(crate) contract: String,
    pub(crate) sdk: Option<SdkInfo>,
    /// The script runner that the component is, or contains.
    pub(crate) runner: Option<Arc<RunnerStatus>>,
    /// The script to run, if the component is the script runner: the plugin's file, or a part of it.
    pub(crate) script: Option<Arc<Script>>,
}

/// What a host offers to components: Informant's interfaces, besides `types` and WASI, and how they are linked.
pub(crate) struct Offer<T: 'static> {
    pub(crate) interfaces: Vec<&'static str>,
    pub(crate) linker: Linker<T>,
}

impl<T> Clone for PluginComponent<T> {
    fn clone(&self) -> PluginComponent<T> {
        PluginComponent {
            facts: Arc::clone(&self.facts),
            pre: self.pre.clone(),
            indices: self.indices.clone(),
            _artifact: Arc::clone(&self._artifact),
        }
    }
}

impl<T> std::ops::Deref for PluginComponent<T> {
    type Target = ComponentFacts;

    fn deref(&self) -> &ComponentFacts {
        &self.facts
    }
}

impl<T> PluginComponent<T> {
    /// Validates `bytes`, the contents of `file` with this digest, and prepares them to run: checks the names,
    /// compiles, checks the types.
    /// Errors: why the component is rejected.
    pub(crate) async fn new(
        bytes: Arc<[u8]>,
        digest: Digest,
        file: &Path,
        artifacts: &Artifacts,
        offer: &Offer<T>,
    ) -> Result<PluginComponent<T>, LoadProblem> {
        let surface = binary::surface(&bytes)?;
        let ExportedRoles {
            roles,
            unknown,
            contract,
        } = roles::check_names(&surface)?;
        imports::check_names(&surface, &offer.interfaces)?;
        let size_bytes = bytes.len();
        // The code is that of the script runner, which is compiled once for all scripts.
        let code = surface
            .script
            .as_ref()
            .and_then(|script| bytes.strip_suffix(&script.section[..]));
        let (code_digest, code) = match code {
            Some(code) => (Digest::of(code), Arc::from(code)),
            None => (digest, bytes),
        };
        let compile_memory_bytes = expected_memory_bytes(code.len(), surface.code_bytes);
        let request = CompileRequest {
            bytes: code,
            digest: code_digest,
            file,
            memory_bytes: compile_memory_bytes,
        };
        let artifact = artifacts.get(request).await?;
        let runner = surface.runner.map(|info| {
            Arc::new(RunnerStatus {
                language: info.language,
                version: info.version,
                digest: code_digest,
            })
        });
        roles::check_types(&artifact.component)?;
        let own = stubs::linker_with_stubs(&artifact.component, offer)
            .map_err(|error| LoadProblem::ImportType(format!("{error:#}")))?;
        let (linker, stubs) = own
            .as_ref()
            .map_or((&offer.linker, &[][..]), |(own, stubs)| (own, stubs));
        let pre = linker
            .instantiate_pre(&artifact.component)
            .map_err(|error| LoadProblem::ImportType(format!("{error:#}")))?;
        let indices = Indices::find(&pre, roles).map_err(|error| LoadProblem::Compile(format!("{error:#}")))?;
        Ok(PluginComponent {
            facts: Arc::new(ComponentFacts {
                digest,
                size_bytes,
                compile_memory_bytes,
                roles,
                unknown_roles: unknown,
                imports: surface.imports,
                stubs: stubs.to_vec(),
                contract,
                sdk: surface.sdk,
                runner,
                script: surface.script.map(|script| Arc::new(Script::embedded(script))),
            }),
            pre,
            indices,
            _artifact: artifact,
        })
    }

    /// The same code with `script` to run: the plugin is the script and has its digest.
    pub(crate) fn with_script(&self, script: Arc<Script>, digest: Digest) -> PluginComponent<T> {
        let mut component = self.clone();
        let facts = Arc::make_mut(&mut component.facts);
        facts.digest = digest;
        facts.size_bytes = script.text.len();
        facts.script = Some(script);
        component
    }

    /// The same component, called only for `roles`, which it has.
    pub(crate) fn with_roles(mut self, roles: Roles) -> PluginComponent<T> {
        if roles != self.roles {
            Arc::make_mut(&mut self.facts).roles = roles;
            self.indices.retain(roles);
        }
        self
    }
}
