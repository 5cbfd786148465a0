//! Builds the plugins in C: the examples and the test guests of their SDK. zig compiles them, and the component linker
//! of Rust turns them into components.
//!
//! That linker (`wasm-component-ld`) calls another linker for the core module. In its place it gets a script that
//! copies the module that zig has linked.

use std::path::{Path, PathBuf};
use std::process::Command;
use std::time::{SystemTime, UNIX_EPOCH};

use crate::{c_bindings, cargo, guests, workspace, zig};
use anyhow::{Context, Result, bail, ensure};

/// The flags in `plugin-sdk/c/README.md`, with warnings. Without a stack size zig reserves 16 MiB of memory for the
/// stack.
const FLAGS: &str = "-target wasm32-wasi -mexec-model=reactor -std=c11 -Os -s -Wall -Wextra -Werror -ffunction-sections -Wl,--gc-sections \
                     -Wl,-z,stack-size=131072";

/// The custom section that `informant.c` writes.
const SECTION: &str = concat!(
    r#"informant-sdk{"language":"c","sdk":""#,
    env!("CARGO_PKG_VERSION"),
    r#"","contract":"0.3.0"}"#
);

/// The test guests: their sources, how many of the bindings they use, and the names of their components.
const GUESTS: [(&[&str], usize, &str); 5] = [
    (&["guest.c"], 1, "guest_c.wasm"),
    (&["no_op.c"], 1, "guest_no_op_c.wasm"),
    (&["readme.c"], 1, "guest_readme_c.wasm"),
    (&["conformance_reconciler.c"], 1, "guest_conformance_reconciler_c.wasm"),
    (&["conformance.c", "conformance_http.c"], 2, "guest_conformance_c.wasm"),
];

/// Replaces the linker of core modules: copies the linked module to `-o FILE`.
const COPY_MODULE: &str = "#!/bin/sh\nwhile [ $# -gt 0 ]; do\n  case $1 in -o) shift; out=$1 ;; esac\n  shift\ndone\nexec cp \"$INFORMANT_CORE_MODULE\" \"$out\"\n";

/// Builds every plugin in C.
pub(crate) fn build() -> Result<()> {
    let zig = zig::install()?;
    let sdk = c_bindings::generate()?;
    let out = workspace::target()?.join(guests::TARGET).join("plugin");
    std::fs::create_dir_all(&out).with_context(|| format!("failed to create {}", out.display()))?;
    for entry in std::fs::read_dir(sdk.join("examples"))? {
        let folder = entry?.path();
        let name = folder.file_name().unwrap_or_default().to_string_lossy();
        let component = out.join(format!("{}_c.wasm", name.replace('-', "_")));
        build_one(&zig, &sdk, &c_bindings::FOLDERS[..1], &files(&folder, "c")?, &component)
            .with_context(|| format!("failed to build {}", folder.display()))?;
    }
    refuses_misspelled_handlers(&zig, &sdk)?;
    for (sources, bindings, component) in GUESTS {
        let sources: Vec<PathBuf> = sources.iter().map(|source| sdk.join("tests").join(source)).collect();
        build_one(
            &zig,
            &sdk,
            &c_bindings::FOLDERS[..bindings],
            &sources,
            &out.join(component),
        )
        .context("failed to build a test guest in C")?;
    }
    Ok(())
}

fn build_one(zig: &Path, sdk: &Path, bindings: &[&str], sources: &[PathBuf], component: &Path) -> Result<()> {
    let module = component.with_extension("core.wasm");
    let mut command = Command::new(zig);
    command.arg("cc").args(FLAGS.split_whitespace());
    command.arg("-I").arg(sdk).args(sources).args(files(sdk, "c")?);
    for folder in bindings.iter().map(|folder| sdk.join(folder)) {
        command.arg("-I").arg(&folder);
        command.args(files(&folder, "c")?).args(files(&folder, "o")?);
    }
    cargo::run(command.arg("-o").arg(&module))?;
    let mut command = Command::new(component_linker()?);
    command
        .arg("--wasm-ld-path")
        .arg(zig::script("copy-module", COPY_MODULE)?);
    command.env("INFORMANT_CORE_MODULE", &module);
    cargo::run(command.arg("-o").arg(component).arg(&module))?;
    let bytes = std::fs::read(component).with_context(|| format!("failed to read {}", component.display()))?;
    let has_section = bytes.windows(SECTION.len()).any(|bytes| bytes == SECTION.as_bytes());
    ensure!(
        has_section,
        "informant.c does not write the section {SECTION}: correct its versions"
    );
    Ok(())
}

/// Checks that a handler whose name has a typo causes a warning: it would never be called.
fn refuses_misspelled_handlers(zig: &Path, sdk: &Path) -> Result<()> {
    let mut command = Command::new(zig);
    command.args(["cc", "-target", "wasm32-wasi", "-std=c11", "-c"]);
    command.arg("-I").arg(sdk).arg("-I").arg(sdk.join("gen"));
    command.arg("-o").arg(workspace::target()?.join("misspelled.o"));
    // zig does not repeat the warnings of what it has compiled before.
    let now = SystemTime::now().duration_since(UNIX_EPOCH)?;
    command.arg(format!("-DNOW={}", now.as_nanos()));
    let output = command.arg(sdk.join("tests").join("misspelled.c")).output()?;
    let text = String::from_utf8_lossy(&output.stderr);
    ensure!(
        text.contains("no previous prototype for function 'informant_on_ad'"),
        "the compiler does not warn of a misspelled handler: {text}"
    );
    Ok(())
}

/// `wasm-component-ld` of the active Rust toolchain.
fn component_linker() -> Result<PathBuf> {
    let output = Command::new("rustc")
        .args(["--print", "target-libdir"])
        .output()
        .context("failed to run rustc")?;
    let libraries = PathBuf::from(String::from_utf8(output.stdout)?.trim());
    let linker = libraries.with_file_name("bin").join("wasm-component-ld");
    if !linker.is_file() {
        bail!(
            "{} is missing; it is part of a Rust toolchain from rustup",
            linker.display()
        );
    }
    Ok(linker)
}

/// The files in `folder` that end in `extension`, sorted.
fn files(folder: &Path, extension: &str) -> Result<Vec<PathBuf>> {
    let mut found = Vec::new();
    if folder.is_dir() {
        for entry in std::fs::read_dir(folder)? {
            let path = entry?.path();
            if path.extension().is_some_and(|found| found == extension) {
                found.push(path);
            }
        }
    }
    found.sort();
    Ok(found)
}
