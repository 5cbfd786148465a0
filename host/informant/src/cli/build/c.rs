//! A core module of C files and the C SDK, by zig.

use std::ffi::OsStr;
use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;

use anyhow::{Context, Result, bail};

use super::source::Source;
use super::tool::{Tool, is_there, read_result, scratch_folder};

/// The version that `plugin-sdk/c/README.md` installs and the tests use.
const ZIG: Tool = Tool {
    name: "zig",
    purpose: "compiles",
    install: "run `pip install ziglang==0.17.0`, or put zig 0.17 into PATH",
    oldest: (0, 17),
};

/// The flags in `plugin-sdk/c/README.md`. Without a stack size zig reserves 16 MiB of memory for the stack.
const FLAGS: [&str; 9] = [
    "-target",
    "wasm32-wasi",
    "-mexec-model=reactor",
    "-std=c11",
    "-Os",
    "-s",
    "-Wall",
    "-Wextra",
    "-Wl,-z,stack-size=131072",
];

/// The header that a folder with the SDK has.
const HEADER: &str = "informant.h";

/// The SDK's folder with the bindings of the contract.
const BINDINGS: &str = "gen";

/// The SDK's folder with the bindings of HTTP requests, and the header that a plugin includes to send them.
const HTTP: (&str, &str) = ("gen-http", "http_client.h");

/// The file that tells clangd the flags of the folder.
const CLANGD: &str = ".clangd";

/// `sdk` is the folder of the SDK, if the command line names one.
///
/// # Errors
/// If zig is missing or too old, the SDK is not found, or the files do not compile.
pub(super) fn build(source: &Source, sdk: Option<&Path>) -> Result<Vec<u8>> {
    let first = &source.files[0];
    let zig = zig();
    ZIG.check_version(command(zig).arg("version"), first)?;
    let included = included_folders(&source.folder)?;
    let sdk = find_sdk(source, sdk, &included)?;
    let scratch = scratch_folder()?;
    let core = scratch.path().join("core.wasm");
    let mut command = command(zig);
    command.arg("cc").args(FLAGS);
    for folder in std::iter::once(&sdk).chain(&included) {
        command.arg("-I").arg(folder);
    }
    command.args(&source.files).args(files(&sdk, &["c"])?);
    for bindings in bindings(source, &sdk)? {
        command.arg("-I").arg(&bindings).args(files(&bindings, &["c", "o"])?);
    }
    ZIG.run(command.arg("-o").arg(&core), first, "")?;
    read_result(&core, &ZIG)
}

/// How zig is started: the program, or Python's package.
fn zig() -> &'static [&'static str] {
    const PROGRAM: &[&str] = &["zig"];
    const PACKAGE: &[&str] = &["python3", "-m", "ziglang"];
    let is_package = !is_there(command(PROGRAM).arg("version")) && is_there(command(PACKAGE).arg("version"));
    if is_package { PACKAGE } else { PROGRAM }
}

fn command(words: &[&str]) -> Command {
    let mut command = Command::new(words[0]);
    command.args(&words[1..]);
    command
}

/// The folder of the SDK: that of the command line, or the one among the editor's folders that has the header.
fn find_sdk(source: &Source, named: Option<&Path>, included: &[PathBuf]) -> Result<PathBuf> {
    let has_header = |folder: &&PathBuf| folder.join(HEADER).is_file();
    if let Some(named) = named {
        let candidates = [named.to_owned(), named.join("c")];
        return candidates.iter().find(has_header).cloned().with_context(|| {
            format!("{} has no {HEADER}: name the folder of the C SDK with --sdk", named.display())
        });
    }
    included.iter().find(has_header).cloned().with_context(|| {
        format!(
            "cannot find the C SDK for {0}: name its folder with --sdk, or add `-I FOLDER` to CompileFlags in {1}",
            source.files[0].display(),
            source.folder.join(CLANGD).display()
        )
    })
}

/// The folders with bindings that the sources use.
fn bindings(source: &Source, sdk: &Path) -> Result<Vec<PathBuf>> {
    let mut folders = vec![sdk.join(BINDINGS)];
    for file in &source.files {
        let text = fs::read(file).with_context(|| format!("cannot read {}", file.display()))?;
        if String::from_utf8_lossy(&text).contains(HTTP.1) {
            folders.push(sdk.join(HTTP.0));
            break;
        }
    }
    if let Some(absent) = folders.iter().find(|folder| !folder.is_dir()) {
        bail!(
            "the bindings {} are missing: run `cargo xtask c-bindings` in the clone of Informant, or use the archive \
             informant-c-sdk-VERSION.tar.gz of a release",
            absent.display()
        );
    }
    Ok(folders)
}

/// The folders after `-I` in the flags for clangd, so that the editor and the build read the same headers.
fn included_folders(folder: &Path) -> Result<Vec<PathBuf>> {
    let file = folder.join(CLANGD);
    if !file.is_file() {
        return Ok(Vec::new());
    }
    let text = fs::read_to_string(&file).with_context(|| format!("cannot read {}", file.display()))?;
    let document: serde_json::Value =
        serde_saphyr::from_str(&text).with_context(|| format!("{} is not YAML", file.display()))?;
    let flags = match &document["CompileFlags"]["Add"] {
        serde_json::Value::Array(flags) => flags.iter().filter_map(|flag| flag.as_str()).collect(),
        serde_json::Value::String(flag) => vec![flag.as_str()],
        _ => Vec::new(),
    };
    let folders = flags.into_iter().filter_map(|flag| flag.strip_prefix("-I"));
    Ok(folders.map(|included| folder.join(included.trim())).collect())
}

/// The files in a folder with these suffixes, sorted.
fn files(folder: &Path, suffixes: &[&str]) -> Result<Vec<PathBuf>> {
    let failed = || format!("cannot read the folder {}", folder.display());
    let mut found = Vec::new();
    for entry in fs::read_dir(folder).with_context(failed)? {
        let path = entry.with_context(failed)?.path();
        let suffix = path.extension().and_then(OsStr::to_str);
        if suffix.is_some_and(|suffix| suffixes.contains(&suffix)) {
            found.push(path);
        }
    }
    found.sort();
    Ok(found)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn source(folder: &Path) -> Source {
        Source {
            language: super::super::source::Language::C,
            folder: folder.to_owned(),
            files: vec![folder.join("greeter.c")],
            name: "greeter".to_owned(),
        }
    }

    #[test]
    fn the_sdk_is_the_one_of_the_editor() {
        let folder = tempfile::tempdir().unwrap();
        let at = |name: &str| folder.path().join(name);
        fs::create_dir_all(at("sdk/gen")).unwrap();
        fs::write(at("sdk/informant.h"), "").unwrap();
        fs::write(at("greeter.c"), "#include <informant.h>\n").unwrap();
        let source = source(folder.path());
        let message = |error: anyhow::Error| error.to_string().replace(&folder.path().display().to_string(), "FOLDER");
        let error = find_sdk(&source, None, &included_folders(folder.path()).unwrap()).unwrap_err();
        insta::assert_snapshot!(message(error), @"cannot find the C SDK for FOLDER/greeter.c: name its folder with --sdk, or add `-I FOLDER` to CompileFlags in FOLDER/.clangd");
        fs::write(at(".clangd"), "CompileFlags:\n  Add: [-Wall, -Isdk, -Isdk/gen]\n").unwrap();
        let found = find_sdk(&source, None, &included_folders(folder.path()).unwrap()).unwrap();
        assert_eq!(found, at("sdk"));
        assert_eq!(bindings(&source, &found).unwrap(), [at("sdk/gen")]);
    }

    #[test]
    fn missing_bindings_are_named_with_the_command() {
        let folder = tempfile::tempdir().unwrap();
        let at = |name: &str| folder.path().join(name);
        fs::create_dir_all(at("gen")).unwrap();
        fs::write(at("informant.h"), "").unwrap();
        fs::write(at("greeter.c"), "#include \"http_client.h\"\n").unwrap();
        let source = source(folder.path());
        let sdk = find_sdk(&source, Some(folder.path()), &[]).unwrap();
        let error = bindings(&source, &sdk).unwrap_err();
        let error = error.to_string().replace(&folder.path().display().to_string(), "FOLDER");
        insta::assert_snapshot!(error, @"the bindings FOLDER/gen-http are missing: run `cargo xtask c-bindings` in the clone of Informant, or use the archive informant-c-sdk-VERSION.tar.gz of a release");
    }
}
