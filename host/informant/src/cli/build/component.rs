//! Makes a component of a core module, as the linkers of Rust and wasm-tools do.
//!
//! ```text
//! core.wasm ──▶ examined ──▶ + the contract, if no bindings have embedded theirs ──▶ + WASI's adapter ──▶ component
//! ```
//!
//! Of the contract's roles, a module gets those whose functions it exports. Whether Informant would load the component
//! is for `inspect` to say.

use std::collections::BTreeSet;
use std::fs::File;
use std::io::Read as _;
use std::path::Path;

use anyhow::{Context, Result, bail, ensure};
use informant_plugin_host::{CONTRACT, SdkInfo};
use wasi_preview1_component_adapter_provider::{
    WASI_SNAPSHOT_PREVIEW1_ADAPTER_NAME, WASI_SNAPSHOT_PREVIEW1_REACTOR_ADAPTER,
};
use wasmparser::{Parser, Payload};
use wit_component::{ComponentEncoder, StringEncoding, embed_component_metadata};
use wit_parser::{Resolve, WorldId};

/// The packages of a plugin's world, each after those that it needs: WASI's for HTTP requests, and the contract.
const PACKAGES: [(&str, &str); 4] = [
    (
        "io.wit",
        include_str!("../../../../../plugin-sdk/rust/wit-http/deps/io.wit"),
    ),
    (
        "clocks.wit",
        include_str!("../../../../../plugin-sdk/rust/wit-http/deps/clocks.wit"),
    ),
    (
        "http.wit",
        include_str!("../../../../../plugin-sdk/rust/wit-http/deps/http.wit"),
    ),
    ("informant.wit", include_str!("../../../../../wit/informant.wit")),
];

/// The interface of HTTP requests that a plugin may import.
const HTTP: &str = "wasi:http/outgoing-handler@0.2.12";

/// How the custom sections begin in which generators of bindings embed what a module imports and exports.
const METADATA: &str = "component-type";

/// The module whose imports the adapter implements.
const WASI_PREVIEW_1: &str = WASI_SNAPSHOT_PREVIEW1_ADAPTER_NAME;

/// What matters of a core module.
#[derive(Debug, Default)]
struct CoreModule {
    /// Whether bindings have embedded what it imports and exports.
    has_metadata: bool,
    /// Modules and names of the functions that it imports.
    imports: Vec<(String, String)>,
    exports: BTreeSet<String>,
}

/// Whether a file is a component, as far as its first bytes show.
pub(super) fn is_component(file: &Path) -> bool {
    let mut head = [0; 8];
    let read = File::open(file).and_then(|mut file| file.read_exact(&mut head));
    read.is_ok() && Parser::is_component(&head)
}

/// The component of `core`, the content of `file`.
///
/// # Errors
/// If it is no core module, or cannot be a plugin. Messages name `file`.
pub(super) fn from_core_module(core: &[u8], file: &Path) -> Result<Vec<u8>> {
    let shown = file.display();
    if Parser::is_component(core) {
        bail!("{shown} is a component already: `informant plugin inspect {shown}` shows it");
    }
    ensure!(
        Parser::is_core_wasm(core),
        "{shown} is not WebAssembly: name the module that your compiler writes"
    );
    let module = CoreModule::read(core).with_context(|| format!("{shown} is not valid WebAssembly"))?;
    module.check_imports(file)?;
    module.check_exports(file)?;
    let mut core = core.to_owned();
    if !module.has_metadata {
        let (resolve, world) = module.world().context("cannot read the contract that is built in")?;
        embed_component_metadata(&mut core, &resolve, world, StringEncoding::UTF8)
            .with_context(|| format!("cannot embed the contract into {shown}"))?;
    }
    let encoded = ComponentEncoder::default()
        .validate(true)
        .module(&core)
        .and_then(|encoder| encoder.adapter(WASI_PREVIEW_1, WASI_SNAPSHOT_PREVIEW1_REACTOR_ADAPTER))
        .and_then(|mut encoder| encoder.encode());
    encoded.with_context(|| format!("{shown} makes no component for contract {CONTRACT}"))
}

/// The component with the section that names its SDK, for a language whose tools write no sections. SDKs have the
/// version of Informant.
pub(super) fn with_sdk(mut component: Vec<u8>, language: &str) -> Vec<u8> {
    let sdk = SdkInfo {
        language: language.to_owned(),
        sdk: env!("CARGO_PKG_VERSION").to_owned(),
        contract: CONTRACT.to_owned(),
    };
    component.extend(sdk.section());
    component
}

impl CoreModule {
    fn read(bytes: &[u8]) -> wasmparser::Result<CoreModule> {
        let mut module = CoreModule::default();
        for payload in Parser::new(0).parse_all(bytes) {
            match payload? {
                Payload::ImportSection(section) => {
                    for import in section.into_imports() {
                        let import = import?;
                        module.imports.push((import.module.to_owned(), import.name.to_owned()));
                    }
                }
                Payload::ExportSection(section) => {
                    for export in section {
                        module.exports.insert(export?.name.to_owned());
                    }
                }
                Payload::CustomSection(section) => module.has_metadata |= section.name().starts_with(METADATA),
                _ => {}
            }
        }
        Ok(module)
    }

    /// Refuses imports of which no component can be made.
    fn check_imports(&self, file: &Path) -> Result<()> {
        let is_interface = |module: &str| module.contains(':') || module.starts_with("cm32p2") || module == "$root";
        let foreign = self
            .imports
            .iter()
            .find(|(module, _)| module != WASI_PREVIEW_1 && !is_interface(module) && !module.starts_with('['));
        let Some((module, name)) = foreign else { return Ok(()) };
        let hint = match module.as_str() {
            "env" => "a function without a definition: link the library that has it, or correct its name",
            "gojs" | "go" => "it was compiled for a browser: use GOOS=wasip1 and -buildmode=c-shared",
            "wasi_unstable" => "its compiler is too old: use one for WASI preview 1 (wasi_snapshot_preview1)",
            "wbg" | "__wbindgen_placeholder__" => {
                "it was compiled for a browser by wasm-bindgen: leave that crate out, or its features for JavaScript"
            }
            _ => "Informant provides WASI and the interfaces of its contract only",
        };
        bail!(
            "{} imports {name} from {module:?}, which no plugin has: {hint}",
            file.display()
        )
    }

    /// Refuses programs, and libraries that are no plugins.
    fn check_exports(&self, file: &Path) -> Result<()> {
        ensure!(
            !self.exports.contains("_start") || self.exports.contains("_initialize"),
            "{} is a program (it exports _start), not a library: link a reactor (C and C++: -mexec-model=reactor; Go: \
             -buildmode=c-shared; Zig: -fno-entry -mexec-model=reactor)",
            file.display()
        );
        let is_export = |name: &String| name.contains("informant:plugin/");
        ensure!(
            self.has_metadata || self.exports.iter().any(is_export),
            "{} exports no function of the contract, such as {}: generate bindings for your language from \
             wit/informant.wit, or use its SDK",
            file.display(),
            exported("lifecycle", "describe")
        );
        Ok(())
    }

    /// The contract's world with the roles of this module. `lifecycle` is always one, so that its absence is an error.
    fn world(&self) -> Result<(Resolve, WorldId)> {
        let (mut resolve, world) = full_world()?;
        let left_out: Vec<_> = resolve.worlds[world]
            .exports
            .keys()
            .filter(|role| {
                let role = resolve.name_world_key(role);
                !role.contains("/lifecycle@") && !self.exports.iter().any(|export| export.contains(&role))
            })
            .cloned()
            .collect();
        resolve.worlds[world].exports.retain(|role, _| !left_out.contains(role));
        Ok((resolve, world))
    }
}

/// What any plugin may import and export.
fn full_world() -> Result<(Resolve, WorldId)> {
    let mut resolve = Resolve::default();
    for (name, text) in PACKAGES {
        resolve.push_str(name, text)?;
    }
    let text = format!(
        "package informant:built;\nworld plugin {{ include informant:plugin/full@{CONTRACT}; import {HTTP}; }}"
    );
    let package = resolve.push_str("plugin.wit", &text)?;
    let world = resolve.select_world(&[package], Some("plugin"))?;
    Ok((resolve, world))
}

/// The name of an exported function in a core module.
fn exported(role: &str, function: &str) -> String {
    format!("informant:plugin/{role}@{CONTRACT}#{function}")
}

#[cfg(test)]
mod tests;
