//! Builds the plugins in JavaScript: `plugins/*-js` and the test guest of their SDK, with the compiler componentize-qjs
//! from npm.

use std::path::{Path, PathBuf};
use std::process::Command;

use anyhow::{Context, Result, ensure};

use crate::{cargo, guests, workspace};

/// The name by which plugins import the SDK, and of its folder in `node_modules`.
const SDK: &str = "informant-plugin-sdk";

/// The files that pin the version of the compiler: the SDK's package and lock file.
const PACKAGE: [&str; 3] = ["package.json", "package-lock.json", ".npmrc"];

/// The custom section that names the SDK and the contract for `informant plugin inspect`.
const SECTION: &str = "informant-sdk";

const SECTION_CONTENT: &str = concat!(
    r#"{"language":"javascript","sdk":""#,
    env!("CARGO_PKG_VERSION"),
    r#"","contract":"0.2.0"}"#
);

/// Why the plugins cannot be built, if a tool is missing.
pub(crate) fn missing() -> Option<&'static str> {
    (!cargo::is_there("npm", "--version") || !cargo::is_there("node", "--version"))
        .then_some("npm is not installed; it installs the compiler for plugins in JavaScript (componentize-qjs)")
}

/// Builds every plugin in JavaScript.
pub(crate) fn build() -> Result<()> {
    let (root, out) = (
        workspace::root()?,
        workspace::target()?.join(guests::TARGET).join("plugin"),
    );
    let sdk = root.join("plugin-sdk").join("javascript");
    let compiler = install(&sdk)?;
    std::fs::create_dir_all(&out).with_context(|| format!("failed to create {}", out.display()))?;
    for entry in std::fs::read_dir(root.join("plugins"))? {
        let folder = entry?.path();
        let name = folder
            .file_name()
            .unwrap_or_default()
            .to_string_lossy()
            .replace('-', "_");
        if let Some(stem) = name.strip_suffix("_js") {
            let source = folder.join(stem).with_extension("js");
            build_one(&compiler, &sdk, &source, &out.join(name).with_extension("wasm"))?;
        }
    }
    let guest = sdk.join("tests").join("guest.js");
    build_one(&compiler, &sdk, &guest, &out.join("guest_javascript.wasm"))
}

/// Installs the packages in the lock file, unless they are present. Returns the path of the compiler.
fn install(sdk: &Path) -> Result<PathBuf> {
    let folder = folder()?.join("compiler");
    let compiler = folder.join("node_modules").join(".bin").join("componentize-qjs");
    let is_present = |file: &str| {
        std::fs::read(sdk.join(file))
            .is_ok_and(|wanted| std::fs::read(folder.join(file)).is_ok_and(|found| found == wanted))
    };
    if PACKAGE.iter().all(|file| is_present(file)) && compiler.exists() {
        return Ok(compiler);
    }
    std::fs::create_dir_all(&folder).with_context(|| format!("failed to create {}", folder.display()))?;
    copy(sdk, &folder, &PACKAGE)?;
    let mut command = Command::new("npm");
    // Install scripts of packages do not run.
    command.args(["ci", "--ignore-scripts", "--no-audit", "--no-fund"]);
    cargo::run(command.current_dir(&folder))?;
    ensure!(compiler.exists(), "npm did not install {}", compiler.display());
    Ok(compiler)
}

/// Builds `component` from `source` and the SDK.
fn build_one(compiler: &Path, sdk: &Path, source: &Path, component: &Path) -> Result<()> {
    let name = source.file_name().unwrap_or_default();
    let project = folder()?.join(component.file_stem().unwrap_or_default());
    let modules = project.join("node_modules").join(SDK);
    std::fs::create_dir_all(&modules).with_context(|| format!("failed to create {}", modules.display()))?;
    let scripts: Vec<String> = std::fs::read_dir(sdk)?
        .map(|entry| Ok(entry?.file_name().to_string_lossy().into_owned()))
        .collect::<Result<_>>()?;
    let scripts: Vec<&str> = scripts
        .iter()
        .map(String::as_str)
        .filter(|name| name.ends_with(".js"))
        .collect();
    copy(sdk, &modules, &scripts)?;
    copy(sdk, &modules, &["package.json"])?;
    std::fs::copy(source, project.join(name)).with_context(|| format!("failed to read {}", source.display()))?;
    let mut command = Command::new(compiler);
    command
        .args(["--sync", "--world", "full", "--wit"])
        .arg(workspace::root()?.join("wit"));
    command
        .args(["--module-root", ".", "--js"])
        .arg(name)
        .arg("--output")
        .arg(component);
    cargo::run(command.current_dir(&project)).with_context(|| format!("failed to build {}", source.display()))?;
    append_section(component)
}

/// Appends the custom section that names the SDK and the contract: its content has less than 128 bytes, as has its
/// name, so that each length is one byte.
fn append_section(component: &Path) -> Result<()> {
    let content = [
        &[u8::try_from(SECTION.len())?][..],
        SECTION.as_bytes(),
        SECTION_CONTENT.as_bytes(),
    ]
    .concat();
    let length = u8::try_from(content.len())?;
    ensure!(length < 128, "the section {SECTION} is too long");
    let mut bytes = std::fs::read(component)?;
    bytes.extend([0, length]);
    bytes.extend(content);
    std::fs::write(component, bytes).with_context(|| format!("failed to write {}", component.display()))
}

fn copy(from: &Path, to: &Path, files: &[&str]) -> Result<()> {
    for file in files {
        std::fs::copy(from.join(file), to.join(file))
            .with_context(|| format!("failed to copy {file} to {}", to.display()))?;
    }
    Ok(())
}

fn folder() -> Result<PathBuf> {
    Ok(workspace::target()?.join("tools").join("javascript"))
}
