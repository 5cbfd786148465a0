//! Installs a C compiler for WebAssembly: zig from PyPI. It needs no system packages and no root, and is the same on
//! every system.

use std::os::unix::fs::PermissionsExt as _;
use std::path::{Path, PathBuf};
use std::process::Command;

use anyhow::{Context, Result};

use crate::{pip, workspace};

/// The pinned package.
const PACKAGE: &str = "ziglang==0.17.0";

/// Why zig cannot be installed, if a tool is missing.
pub(crate) fn missing() -> Option<&'static str> {
    (!program().is_ok_and(|zig| zig.is_file()) && !pip::is_there())
        .then_some("python3 with pip is not installed; it installs the C compiler for WebAssembly (zig from PyPI)")
}

/// Installs zig, unless it is present. Returns its path.
///
/// # Errors
/// If pip cannot install it.
pub(crate) fn install() -> Result<PathBuf> {
    let zig = program()?;
    if !zig.is_file() {
        pip::install(PACKAGE, &folder()?)?;
    }
    Ok(zig)
}

/// Makes the cargo command compile C for WebAssembly with zig.
///
/// # Errors
/// If the wrapper scripts cannot be written.
pub(crate) fn for_cargo<'c>(command: &'c mut Command, zig: &Path) -> Result<&'c mut Command> {
    // Drops the target that the `cc` crate passes, in clang's notation.
    let compiler = format!(
        "#!/bin/sh\nfor argument; do\n  shift\n  case $argument in\n    --target=*) ;;\n    *) set -- \"$@\" \"$argument\" ;;\n  esac\ndone\nexec '{}' cc -target wasm32-wasi \"$@\"\n",
        zig.display()
    );
    let archiver = format!("#!/bin/sh\nexec '{}' ar \"$@\"\n", zig.display());
    command.env("CC_wasm32_wasip2", script("zig-cc", &compiler)?);
    command.env("AR_wasm32_wasip2", script("zig-ar", &archiver)?);
    // Without this variable rquickjs-sys downloads a compiler.
    Ok(command.env("RQUICKJS_SYS_NO_WASI_SDK", "1"))
}

/// Writes a shell script that starts zig. Not next to zig, which several checkouts may share.
///
/// # Errors
/// If it cannot be written.
pub(crate) fn script(name: &str, text: &str) -> Result<PathBuf> {
    let path = workspace::target()?.join("zig-scripts").join(name);
    if std::fs::read_to_string(&path).is_ok_and(|present| present == text) {
        return Ok(path);
    }
    let write = || {
        std::fs::create_dir_all(path.parent().unwrap_or(Path::new(".")))?;
        std::fs::write(&path, text)?;
        std::fs::set_permissions(&path, std::fs::Permissions::from_mode(0o755))
    };
    write().with_context(|| format!("failed to write {}", path.display()))?;
    Ok(path)
}

fn program() -> Result<PathBuf> {
    Ok(folder()?.join("ziglang").join("zig"))
}

fn folder() -> Result<PathBuf> {
    Ok(workspace::target()?.join("tools").join("zig"))
}
