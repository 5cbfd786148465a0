//! Checks of a component's file before it is compiled.
//!
//! Compiling a bad file costs seconds and memory, so everything its bytes show is checked first: whether it is a
//! component, what it imports, and which interfaces it exports. Names only; wasmtime checks the types in
//! [`crate::component::roles`].

mod section;

use wasmparser::{ComponentExternalKind, Encoding, Parser, Payload};

pub use self::section::SdkInfo;
pub(crate) use self::section::{EmbeddedScript, RunnerInfo};
use self::section::{RUNNER_SECTION, SCRIPT_SECTION, SDK_SECTION, document};
use crate::error::LoadProblem;

/// The names a component imports and exports, in its order.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct Surface {
    pub(crate) imports: Vec<String>,
    pub(crate) exports: Vec<String>,
    /// Bytes of the functions of all modules in it.
    pub(crate) code_bytes: usize,
    /// None: built without an SDK, or with one that does not say.
    pub(crate) sdk: Option<SdkInfo>,
    /// What it says of itself if it is a script runner.
    pub(crate) runner: Option<RunnerInfo>,
    /// The script that it contains, if it is a script runner with one.
    pub(crate) script: Option<EmbeddedScript>,
}

/// Reads the surface of the component that `bytes` are.
/// Errors: [`LoadProblem::NotWasm`], [`LoadProblem::CoreModule`], [`LoadProblem::Broken`].
pub(crate) fn surface(bytes: &[u8]) -> Result<Surface, LoadProblem> {
    if !bytes.starts_with(b"\0asm") {
        let (found, is_text) = looks_like(bytes);
        return Err(LoadProblem::NotWasm { found, is_text });
    }
    let mut surface = Surface::default();
    let mut depth = 0u32;
    for payload in Parser::new(0).parse_all(bytes) {
        match payload.map_err(|error| broken(bytes, &error))? {
            Payload::Version {
                encoding: Encoding::Module,
                ..
            } if depth == 0 => return Err(LoadProblem::CoreModule),
            Payload::ModuleSection { .. } | Payload::ComponentSection { .. } => depth += 1,
            Payload::End(_) => depth = depth.saturating_sub(1),
            Payload::CodeSectionStart { size, .. } => surface.code_bytes += size as usize,
            Payload::ComponentImportSection(imports) if depth == 0 => {
                for import in imports {
                    surface
                        .imports
                        .push(import.map_err(|error| broken(bytes, &error))?.name.name.to_owned());
                }
            }
            Payload::ComponentExportSection(exports) if depth == 0 => {
                for export in exports {
                    let export = export.map_err(|error| broken(bytes, &error))?;
                    if matches!(
                        export.kind,
                        ComponentExternalKind::Instance | ComponentExternalKind::Func
                    ) {
                        surface.exports.push(export.name.name.to_owned());
                    }
                }
            }
            Payload::CustomSection(section) if depth == 0 && section.name() == SCRIPT_SECTION => {
                surface.script = EmbeddedScript::parse(section.data());
            }
            // At any depth: compilers put them into the module that they make.
            Payload::CustomSection(section) if section.name() == SDK_SECTION => {
                surface.sdk = surface.sdk.or_else(|| document(section.data()));
            }
            // The section of the component overrides that of a module in it.
            Payload::CustomSection(section) if section.name() == RUNNER_SECTION => {
                let runner = document(section.data());
                surface.runner = if depth == 0 { runner } else { surface.runner.or(runner) };
            }
            _ => {}
        }
    }
    Ok(surface)
}

fn broken(bytes: &[u8], error: &wasmparser::BinaryReaderError) -> LoadProblem {
    LoadProblem::Broken {
        offset: error.offset(),
        length: bytes.len(),
        cause: error.message().to_owned(),
    }
}

/// Describes a file that does not start like WebAssembly, and says whether it is text of no known form.
fn looks_like(bytes: &[u8]) -> (String, bool) {
    if let Some(known) = known_form(bytes) {
        return (known.to_owned(), false);
    }
    match std::str::from_utf8(&bytes[..bytes.len().min(24)]) {
        Ok(text) => (format!("it starts with the text {text:?}"), true),
        Err(_) => (
            format!("it starts with the bytes {:02x?}", &bytes[..bytes.len().min(8)]),
            false,
        ),
    }
}

fn known_form(bytes: &[u8]) -> Option<&'static str> {
    let begins = String::from_utf8_lossy(&bytes[..bytes.len().min(40)])
        .trim_start()
        .to_lowercase();
    if bytes.is_empty() {
        return Some("the file is empty");
    }
    if bytes.iter().take(4_096).all(|byte| *byte == 0) {
        return Some("it starts with zeros, as after a failed copy or download");
    }
    if begins.starts_with("<!doctype html") || begins.starts_with("<html") {
        return Some("it is an HTML page, as from a download that required a login");
    }
    if begins.starts_with("(component") || begins.starts_with("(module") {
        return Some("it is WebAssembly text; convert it with `wasm-tools parse`");
    }
    if bytes.starts_with(&[0x1f, 0x8b]) || bytes.starts_with(b"PK\x03\x04") || bytes.starts_with(b"\x28\xb5\x2f\xfd") {
        return Some("it is compressed; unpack it first");
    }
    if bytes.starts_with(b"\x7fELF") {
        return Some("it is a native executable (or a compiled artifact)");
    }
    None
}

#[cfg(test)]
mod tests;
