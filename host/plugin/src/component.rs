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
use wasmtime::Store;
use wasmtime::component::{Instance, InstancePre, Linker};

use crate::artifacts::{Artifact, Artifacts};
use crate::component::binary::SdkInfo;
use crate::component::by_digest::SharedByDigest;
use crate::component::roles::{Exports, Indices, Roles};
use crate::component::runner::RunnerStatus;
use crate::component::script::Script;
use crate::engine::compile::{CompileRequest, expected_memory_bytes};
use crate::error::LoadProblem;

/// A component that can be a plugin, linked for stores with data `T`. Cheap to clone.
pub(crate) struct PluginComponent<T: 'static> {
    linked: Arc<LinkedComponent<T>>,
    facts: Arc<ComponentFacts>,
    /// Those that it is called for.
    pub(crate) roles: Roles,
}

/// What all plugins of one component have in memory once.
pub(crate) struct LinkedComponent<T: 'static> {
    facts: Arc<ComponentFacts>,
    /// All that it exports.
    roles: Roles,
    pre: InstancePre<T>,
    indices: Indices,
    /// Shared with files of the same code.
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
    /// The components that are linked to it and in use.
    pub(crate) linked: SharedByDigest<LinkedComponent<T>>,
}

impl<T> Clone for PluginComponent<T> {
    fn clone(&self) -> PluginComponent<T> {
        PluginComponent {
            linked: Arc::clone(&self.linked),
            facts: Arc::clone(&self.facts),
            roles: self.roles,
        }
    }
}

impl<T> From<Arc<LinkedComponent<T>>> for PluginComponent<T> {
    fn from(linked: Arc<LinkedComponent<T>>) -> PluginComponent<T> {
        PluginComponent {
            facts: Arc::clone(&linked.facts),
            roles: linked.roles,
            linked,
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
    /// compiles, checks the types. Of a component that is in use, nothing of that is done again.
    /// Errors: why the component is rejected.
    pub(crate) async fn new(
        bytes: Arc<[u8]>,
        digest: Digest,
        file: &Path,
        artifacts: &Artifacts,
        offer: &Offer<T>,
    ) -> Result<PluginComponent<T>, LoadProblem> {
        if let Some(linked) = offer.linked.get(digest) {
            return Ok(linked.into());
        }
        let surface = binary::surface(&bytes)?;
        let exported = roles::check_names(&surface)?;
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
        // Of plugins that are loaded side by side, the first has linked it meanwhile.
        if let Some(linked) = offer.linked.get(digest) {
            return Ok(linked.into());
        }
        let runner = surface.runner.map(|info| {
            Arc::new(RunnerStatus {
                language: info.language,
                version: info.version,
                digest: code_digest,
            })
        });
        let facts = ComponentFacts {
            digest,
            size_bytes,
            compile_memory_bytes,
            unknown_roles: exported.unknown,
            imports: surface.imports,
            stubs: Vec::new(),
            contract: exported.contract,
            sdk: surface.sdk,
            runner,
            script: surface.script.map(|script| Arc::new(Script::embedded(script))),
        };
        let linked = LinkedComponent::new(facts, exported.roles, artifact, offer)?;
        Ok(offer.linked.share(digest, &Arc::new(linked)).into())
    }

    pub(crate) fn pre(&self) -> &InstancePre<T> {
        &self.linked.pre
    }

    /// The functions of an instance, for the roles that it is called for.
    pub(crate) fn exports(&self, store: &mut Store<T>, instance: &Instance) -> wasmtime::Result<Exports> {
        self.linked.indices.load(store, instance, self.roles)
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
    pub(crate) fn with_roles(self, roles: Roles) -> PluginComponent<T> {
        PluginComponent { roles, ..self }
    }
}

impl<T> LinkedComponent<T> {
    /// Checks the types of `artifact`, which exports these roles, and links it.
    fn new(
        facts: ComponentFacts,
        roles: Roles,
        artifact: Arc<Artifact>,
        offer: &Offer<T>,
    ) -> Result<LinkedComponent<T>, LoadProblem> {
        roles::check_types(&artifact.component)?;
        let import_type = |error: wasmtime::Error| LoadProblem::ImportType(format!("{error:#}"));
        let own = stubs::linker_with_stubs(&artifact.component, offer).map_err(import_type)?;
        let (linker, stubs) = own
            .as_ref()
            .map_or((&offer.linker, &[][..]), |(own, stubs)| (own, stubs));
        let pre = linker.instantiate_pre(&artifact.component).map_err(import_type)?;
        let indices = Indices::find(&pre, roles).map_err(|error| LoadProblem::Compile(format!("{error:#}")))?;
        let stubs = stubs.to_vec();
        Ok(LinkedComponent {
            facts: Arc::new(ComponentFacts { stubs, ..facts }),
            roles,
            pre,
            indices,
            _artifact: artifact,
        })
    }
}
