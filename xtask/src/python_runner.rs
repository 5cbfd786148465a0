//! Builds the runner of Python scripts and the test guest in Python with componentize-py, and tests the Python SDK:
//! under CPython, and the built runner in wasmtime. The tools are packages of PyPI, which pip installs into
//! `target/tools`.

use std::path::{Path, PathBuf};
use std::process::Command;
use std::time::SystemTime;

use anyhow::{Context, Result, ensure};

use crate::{cargo, guests, pip, workspace};

/// The tool that makes components of Python code, as in the extra `build` of the SDK.
const COMPONENTIZE: Package = Package {
    name: "componentize-py",
    version: "0.25.1",
    folder: "componentize-py",
};

/// The interpreter that it puts into components. A test compares it with the one in the runner.
const CPYTHON: &str = "3.14.0";

/// What the runner contains besides the SDK and the standard library. Only its Python code is used.
const PYYAML: Package = Package {
    name: "pyyaml",
    version: "6.0.3",
    folder: "python-runner",
};

/// Runs components in the tests: of the same series as the engine of Informant.
const WASMTIME: Package = Package {
    name: "wasmtime",
    version: "48.0.0",
    folder: "python-wasmtime",
};

/// The oldest Python that the SDK supports.
const PYTHON_MIN: (u32, u32) = (3, 10);

/// The app of the runner: `plugin-sdk/python/runner/informant_runner.py`.
const APP: &str = "informant_runner";

/// The module with the exports of the test guest.
const GUEST_APP: &str = "guest_app";

/// The custom section by which Informant recognizes a script runner.
const RUNNER_SECTION: &str = "informant:runner";

/// The custom section that every SDK writes.
const SDK_SECTION: &str = "informant-sdk";

/// Starts componentize-py from its folder, which its own program cannot do.
const START: &str = "import sys; sys.path.insert(0, sys.argv.pop(1)); import componentize_py; componentize_py.script()";

/// A pinned package of PyPI.
struct Package {
    name: &'static str,
    version: &'static str,
    /// Its folder in `target/tools`.
    folder: &'static str,
}

/// Why the runner cannot be built, if a tool is missing.
pub(crate) fn missing() -> Option<&'static str> {
    if !pip::is_there() {
        return Some("python3 with pip is not installed; it installs componentize-py, which builds the Python runner");
    }
    (!has_python()).then_some("python3 is older than 3.10, the oldest that the Python SDK supports")
}

/// Builds the components, and tests the SDK and the runner.
pub(crate) fn build_and_test() -> Result<()> {
    // Without the runner, its own tests are skipped.
    let yaml = PYYAML.install()?;
    test("tests", "test_*.py", &[("PYTHONPATH", &yaml)])?;
    test("examples", "test_*.py", &[])?;
    build_guests()?;
    let runner = build()?;
    let (tools, wasmtime) = (COMPONENTIZE.install()?, WASMTIME.install()?);
    let environment = [
        ("INFORMANT_PYTHON_RUNNER", runner.as_path()),
        ("INFORMANT_COMPONENTIZE_PY", &tools),
        ("PYTHONPATH", &wasmtime),
    ];
    test("tests", "test_component.py", &environment)
}

/// Builds the runner, unless it is newer than everything that it is made from. Returns its path.
pub(crate) fn build() -> Result<PathBuf> {
    let runner = components()?.join("informant-runner-python.wasm");
    let sdk = sdk()?;
    if is_newer(&runner, &[&sdk.join("runner")])? {
        return Ok(runner);
    }
    let paths = [sdk.join("runner"), pure_packages()?];
    let sections = [(RUNNER_SECTION, runner_info()?), (SDK_SECTION, sdk_info()?)];
    componentize(&paths, APP, &runner, &sections)?;
    Ok(runner)
}

/// Compiles the runner with the program of this workspace, once for all tests that run scripts in Python, as an image
/// has it. Otherwise each of them takes 16 s of processor time for it.
pub(crate) fn compile() -> Result<()> {
    let program = std::path::absolute(workspace::target()?.join("debug").join("informant"))?;
    let folder = components()?;
    let runner = folder.join("informant-runner-python.wasm");
    let compiled = folder.join("compiled");
    if compiled.is_dir() && newest(&compiled)? > modified(&program)?.max(modified(&runner)?) {
        return Ok(());
    }
    // Native code of earlier runners and versions. Informant reads none from folders that others may write.
    if compiled.is_dir() {
        std::fs::remove_dir_all(&compiled).with_context(|| format!("failed to remove {}", compiled.display()))?;
    }
    #[cfg(unix)]
    std::fs::set_permissions(&folder, std::os::unix::fs::PermissionsExt::from_mode(0o755))
        .with_context(|| format!("failed to change {}", folder.display()))?;
    cargo::run(Command::new(program).args(["plugin", "compile"]).arg(runner))
}

/// The packages in the runner, each as its package URL and its license.
pub(crate) fn parts() -> [String; 3] {
    [
        format!("pkg:generic/cpython@{CPYTHON}=PSF-2.0"),
        format!(
            "pkg:pypi/{}@{}=Apache-2.0 WITH LLVM-exception",
            COMPONENTIZE.name, COMPONENTIZE.version
        ),
        format!("pkg:pypi/{}@{}=MIT", PYYAML.name, PYYAML.version),
    ]
}

/// Builds the plugins of the conformance kit as components, as `informant plugin build` does, unless they are newer
/// than everything that they are made from.
pub(crate) fn build_guests() -> Result<()> {
    ["conformance", "conformance_reconciler"]
        .into_iter()
        .try_for_each(build_guest)
}

fn build_guest(name: &str) -> Result<()> {
    let component = components()?.join(format!("guest_{name}_python.wasm"));
    let module = sdk()?.join("tests").join(format!("{name}.py"));
    if is_newer(&component, &[&module])? {
        return Ok(());
    }
    // Of its own: componentize-py packs whole folders.
    let folder = workspace::target()?.join("tools").join(format!("python-{name}"));
    let folder = std::path::absolute(&folder).with_context(|| format!("failed to find {}", folder.display()))?;
    std::fs::create_dir_all(&folder).with_context(|| format!("failed to create {}", folder.display()))?;
    let app = folder.join(format!("{GUEST_APP}.py"));
    std::fs::copy(&module, folder.join(format!("{name}.py")))
        .and_then(|_| std::fs::write(&app, format!("from informant.component import *\nimport {name}\n")))
        .with_context(|| format!("failed to write the modules of {}", component.display()))?;
    componentize(&[folder], GUEST_APP, &component, &[(SDK_SECTION, sdk_info()?)])
}

/// Makes a component of the module `app` in one of `paths`, with the SDK and these custom sections.
fn componentize(paths: &[PathBuf], app: &str, component: &Path, sections: &[(&str, String)]) -> Result<()> {
    let plain = component.with_extension("unnamed.wasm");
    let mut command = python();
    command.args(["-I", "-c", START]).arg(COMPONENTIZE.install()?);
    command.args(["--quiet", "componentize", "--python-path", "."]);
    for path in paths {
        command.arg("--python-path").arg(path);
    }
    command.arg(app).arg("--output").arg(&plain);
    cargo::run(command.current_dir(sdk()?))?;
    let mut bytes = std::fs::read(&plain).with_context(|| format!("failed to read {}", plain.display()))?;
    std::fs::remove_file(&plain)?;
    for (name, content) in sections {
        bytes.extend(custom_section(name, content));
    }
    std::fs::write(component, bytes).with_context(|| format!("failed to write {}", component.display()))
}

/// The folder of built components.
fn components() -> Result<PathBuf> {
    let folder = workspace::target()?.join(guests::TARGET).join("plugin");
    std::fs::create_dir_all(&folder).with_context(|| format!("failed to create {}", folder.display()))?;
    // componentize-py runs in another folder.
    std::path::absolute(&folder).with_context(|| format!("failed to find {}", folder.display()))
}

/// Whether a component is newer than these files, the SDK and this builder.
fn is_newer(component: &Path, than: &[&Path]) -> Result<bool> {
    let own = workspace::root()?.join("xtask").join("src").join("python_runner.rs");
    let mut changed = newest(&sdk()?.join("informant"))?.max(newest(&own)?);
    for path in than {
        changed = changed.max(newest(path)?);
    }
    Ok(modified(component).is_ok_and(|built| built > changed))
}

/// What the runner runs.
fn runner_info() -> Result<String> {
    let contract = contract()?;
    Ok(format!(
        r#"{{"language":"Python","suffixes":["py"],"version":"{CPYTHON}","contract":"{contract}"}}"#
    ))
}

/// What a component was built with.
fn sdk_info() -> Result<String> {
    let (sdk, contract) = (env!("CARGO_PKG_VERSION"), contract()?);
    Ok(format!(
        r#"{{"language":"python","sdk":"{sdk}","contract":"{contract}"}}"#
    ))
}

/// The version of the contract.
fn contract() -> Result<String> {
    let path = workspace::root()?.join("wit").join("informant.wit");
    let text = std::fs::read_to_string(&path).with_context(|| format!("failed to read {}", path.display()))?;
    let package = text
        .lines()
        .find_map(|line| line.strip_prefix("package informant:plugin@"));
    let version = package.and_then(|rest| rest.strip_suffix(';'));
    version
        .map(str::to_owned)
        .with_context(|| format!("{} does not name its version", path.display()))
}

/// A custom section of WebAssembly.
fn custom_section(name: &str, content: &str) -> Vec<u8> {
    let body = [&leb128(name.len())[..], name.as_bytes(), content.as_bytes()].concat();
    [&[0], &leb128(body.len())[..], &body].concat()
}

/// An unsigned number in the encoding of WebAssembly.
fn leb128(mut number: usize) -> Vec<u8> {
    let mut bytes = Vec::new();
    loop {
        let low = u8::try_from(number & 0x7f).unwrap_or_default();
        number >>= 7;
        if number == 0 {
            bytes.push(low);
            return bytes;
        }
        bytes.push(low | 0x80);
    }
}

/// Runs the tests in a folder of the SDK whose files match `pattern`.
fn test(folder: &str, pattern: &str, environment: &[(&str, &Path)]) -> Result<()> {
    let mut command = python();
    command.args([
        "-m",
        "unittest",
        "discover",
        "--start-directory",
        folder,
        "--pattern",
        pattern,
    ]);
    command.envs(environment.iter().copied());
    cargo::run(command.current_dir(sdk()?))
}

/// The Python packages of the runner, without native code: that of the machine does not run in a component.
fn pure_packages() -> Result<PathBuf> {
    let installed = PYYAML.install()?;
    let pure = installed.join("pure");
    let (from, to) = (installed.join("yaml"), pure.join("yaml"));
    std::fs::create_dir_all(&to).with_context(|| format!("failed to create {}", to.display()))?;
    for entry in std::fs::read_dir(&from).with_context(|| format!("failed to read {}", from.display()))? {
        let path = entry?.path();
        if path.extension().is_some_and(|extension| extension == "py") {
            let name = path.file_name().unwrap_or_default();
            std::fs::copy(&path, to.join(name)).with_context(|| format!("failed to copy {}", path.display()))?;
        }
    }
    Ok(pure)
}

impl Package {
    /// Installs the package, unless this version is present. Returns its folder.
    fn install(&self) -> Result<PathBuf> {
        let folder = workspace::target()?.join("tools").join(self.folder);
        let written = format!("{}-{}.dist-info", self.name.replace('-', "_"), self.version);
        if !folder.join(&written).is_dir() {
            pip::install(&format!("{}=={}", self.name, self.version), &folder)?;
            ensure!(
                folder.join(&written).is_dir(),
                "pip did not install {} {}",
                self.name,
                self.version
            );
        }
        // Commands run in other folders.
        std::path::absolute(&folder).with_context(|| format!("failed to find {}", folder.display()))
    }
}

/// When the newest file in a folder, or the file, was changed. Without what Python writes.
fn newest(path: &Path) -> Result<SystemTime> {
    let mut newest = modified(path)?;
    if path.is_dir() {
        newest = SystemTime::UNIX_EPOCH;
        for entry in std::fs::read_dir(path).with_context(|| format!("failed to read {}", path.display()))? {
            let entry = entry?;
            if entry.file_name() != "__pycache__" {
                newest = newest.max(self::newest(&entry.path())?);
            }
        }
    }
    Ok(newest)
}

fn modified(path: &Path) -> Result<SystemTime> {
    let metadata = std::fs::metadata(path).with_context(|| format!("failed to read {}", path.display()))?;
    Ok(metadata.modified()?)
}

/// Python, which writes no files next to those of the SDK.
fn python() -> Command {
    let mut command = Command::new("python3");
    command.env("PYTHONDONTWRITEBYTECODE", "1");
    command
}

fn has_python() -> bool {
    let (major, minor) = PYTHON_MIN;
    let check = format!("import sys; sys.exit(sys.version_info < ({major}, {minor}))");
    Command::new("python3")
        .args(["-c", &check])
        .status()
        .is_ok_and(|status| status.success())
}

fn sdk() -> Result<PathBuf> {
    Ok(workspace::root()?.join("plugin-sdk").join("python"))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_custom_section_has_its_length_and_name() {
        assert_eq!(custom_section("ab", "{}"), b"\0\x05\x02ab{}");
        let long = custom_section("n", &"x".repeat(200));
        assert_eq!(&long[..5], b"\0\xca\x01\x01n");
    }
}
