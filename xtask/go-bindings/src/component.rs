//! Makes components.

use std::path::Path;

use anyhow::{Context, Result};
use wasi_preview1_component_adapter_provider::{
    WASI_SNAPSHOT_PREVIEW1_ADAPTER_NAME, WASI_SNAPSHOT_PREVIEW1_REACTOR_ADAPTER,
};
use wit_component_for_go::{ComponentEncoder, StringEncoding};

/// The custom section that `informant plugin inspect` shows.
const SECTION_NAME: &str = "informant-sdk";
const SECTION: &str = concat!(
    r#"{"language":"go","sdk":""#,
    env!("CARGO_PKG_VERSION"),
    r#"","contract":"0.3.0"}"#
);

/// Makes a component of a core module with the roles of the contract and, if it imports them, HTTP requests.
pub(crate) fn make(contract: &Path, http: &Path, module: &Path, component: &Path) -> Result<()> {
    let mut core = std::fs::read(module).with_context(|| format!("failed to read {}", module.display()))?;
    for (wit, world) in [(contract, Some("full")), (http, None)] {
        let (resolve, world) = crate::read(wit, world)?;
        let metadata = wit_component_for_go::metadata::encode(&resolve, world, StringEncoding::UTF8, None, false)?;
        let name = format!("component-type:{}", resolve.worlds[world].name);
        push_section(&mut core, &name, &metadata);
    }
    push_section(&mut core, SECTION_NAME, SECTION.as_bytes());
    let bytes = ComponentEncoder::default()
        .module(&core)
        .and_then(|encoder| {
            let name = WASI_SNAPSHOT_PREVIEW1_ADAPTER_NAME;
            encoder
                .validate(true)
                .adapter(name, WASI_SNAPSHOT_PREVIEW1_REACTOR_ADAPTER)
        })
        .and_then(|encoder| encoder.encode())
        .with_context(|| format!("{} does not make a component", module.display()))?;
    std::fs::write(component, bytes).with_context(|| format!("failed to write {}", component.display()))
}

/// Appends a custom section to a WebAssembly module.
fn push_section(module: &mut Vec<u8>, name: &str, content: &[u8]) {
    let mut section = Vec::new();
    push_length(&mut section, name.len());
    section.extend_from_slice(name.as_bytes());
    section.extend_from_slice(content);
    module.push(0);
    push_length(module, section.len());
    module.extend_from_slice(&section);
}

/// In LEB128.
fn push_length(bytes: &mut Vec<u8>, mut length: usize) {
    while length >= 0x80 {
        bytes.push((length & 0x7f) as u8 | 0x80);
        length >>= 7;
    }
    bytes.push((length & 0x7f) as u8);
}
