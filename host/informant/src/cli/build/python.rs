//! A component of a Python module and the Python SDK, by componentize-py.

use std::ffi::OsStr;
use std::fs;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

use anyhow::{Context, Result, bail};

use super::source::Source;
use super::tool::{Tool, is_there, read_result, scratch_folder};

/// The version that the SDK's runner is built with.
const COMPONENTIZE: Tool = Tool {
    name: "componentize-py",
    purpose: "builds",
    install: "run `pip install componentize-py==0.25.1`, in the folder's .venv if it has one",
    oldest: (0, 25),
};

/// The folder of a virtual environment.
const VENV: &str = ".venv";

/// The SDK's package.
const PACKAGE: &str = "informant";

/// The module that has the exports of the component.
const APP: &str = "informant_app";

/// How a module begins that has the exports itself.
const EXPORTS: &str = "informant.component";

/// Prints where the SDK is installed.
const FIND_SDK: &str = "import informant, os; print(os.path.dirname(os.path.dirname(os.path.abspath(informant.__file__))))";

/// Prints a file with native code of each installed distribution: `NAME MODULE FILE`.
const FIND_NATIVE: &str = "\
import importlib.metadata as m
for d in m.distributions():
    for f in d.files or []:
        if f.name.endswith(('.so', '.pyd', '.dylib')) and 'componentize' not in d.name:
            print(d.name, f.parts[0].split('.')[0], f, sep='\\t')
            break
";

/// `sdk` is the folder of the SDK, if the command line names one.
///
/// # Errors
/// If componentize-py or the SDK is missing, or the module cannot be imported.
pub(super) fn build(source: &Source, sdk: Option<&Path>) -> Result<Vec<u8>> {
    let file = &source.files[0];
    let python = Python::of(&source.folder);
    COMPONENTIZE.check_version(python.componentize().arg("--version"), file)?;
    let sdk = python.find_sdk(file, sdk)?;
    let scratch = scratch_folder()?;
    copy_modules(&source.folder, scratch.path())?;
    let app = write_app(file, scratch.path())?;
    let component = scratch.path().join("plugin.wasm");
    let mut command = python.componentize();
    command.arg("componentize").arg(app).arg("-p").arg(scratch.path()).arg("-p").arg(sdk);
    let output = COMPONENTIZE.run_and_read(command.arg("-o").arg(&component), file)?;
    if !output.status.success() {
        let messages = [output.stdout, output.stderr].concat();
        refuse_native_code(&python.native_code(), &String::from_utf8_lossy(&messages))?;
        return Err(COMPONENTIZE.failed(file, "the module is imported at the build, so its top level runs there"));
    }
    read_result(&component, &COMPONENTIZE)
}

/// Python and componentize-py, of the folder's virtual environment or else of `PATH`.
struct Python {
    venv: Option<PathBuf>,
}

impl Python {
    fn of(folder: &Path) -> Python {
        let venv = folder.join(VENV);
        let venv = venv.is_dir().then(|| venv.canonicalize().unwrap_or(venv));
        Python { venv }
    }

    /// A program of the virtual environment, or one of `PATH`.
    fn program(&self, name: &str) -> Command {
        let Some(venv) = &self.venv else { return Command::new(name) };
        let in_venv = venv.join("bin").join(name);
        let mut command = Command::new(if in_venv.is_file() { in_venv } else { name.into() });
        // componentize-py reads the packages in it.
        command.env("VIRTUAL_ENV", venv);
        command
    }

    fn componentize(&self) -> Command {
        self.program("componentize-py")
    }

    fn python(&self, code: &str) -> Command {
        let name = if is_there(self.program("python3").arg("--version")) { "python3" } else { "python" };
        let mut command = self.program(name);
        command.args(["-c", code]).stdin(Stdio::null());
        command
    }

    /// The folder that has the SDK's package: below that of the command line, or where Python finds it.
    fn find_sdk(&self, file: &Path, named: Option<&Path>) -> Result<PathBuf> {
        let has_package = |folder: &&PathBuf| folder.join(PACKAGE).join("component.py").is_file();
        if let Some(named) = named {
            let candidates = [named.to_owned(), named.join("python")];
            return candidates.iter().find(has_package).cloned().with_context(|| {
                format!("{} has no package {PACKAGE}: name the folder of the Python SDK with --sdk", named.display())
            });
        }
        let found = self.python(FIND_SDK).stderr(Stdio::null()).output();
        let found = found.ok().filter(|output| output.status.success()).map(|output| output.stdout);
        let found = found.map(|text| PathBuf::from(String::from_utf8_lossy(&text).trim()));
        found.filter(|folder| has_package(&folder)).with_context(|| {
            format!(
                "cannot find the Python SDK, the package {PACKAGE}, for {}: install it with pip from plugin-sdk/python \
                 of a clone of Informant, or name that folder with --sdk",
                file.display()
            )
        })
    }

    /// The distributions with native code, as [`FIND_NATIVE`] prints them.
    fn native_code(&self) -> String {
        let listed = self.python(FIND_NATIVE).stderr(Stdio::null()).output();
        listed.map_or_else(|_| String::new(), |output| String::from_utf8_lossy(&output.stdout).into_owned())
    }
}

/// Names a distribution with native code that the messages of a failed build are about.
fn refuse_native_code(distributions: &str, messages: &str) -> Result<()> {
    let is_word = |character: char| character.is_alphanumeric() || character == '_';
    let words: Vec<&str> = messages.split(|character| !is_word(character)).collect();
    for line in distributions.lines() {
        let mut parts = line.split('\t');
        let (Some(name), Some(module), Some(file)) = (parts.next(), parts.next(), parts.next()) else { continue };
        if words.contains(&module) {
            bail!(
                "the package {name} has native code ({file}), which does not run in WebAssembly: use a package in pure \
                 Python instead"
            );
        }
    }
    Ok(())
}

/// Writes the module with the exports next to the copied ones, unless `file` is one. Returns its name.
fn write_app(file: &Path, folder: &Path) -> Result<String> {
    let text = fs::read_to_string(file).with_context(|| format!("cannot read {}", file.display()))?;
    let module = file.file_stem().unwrap_or_default().to_string_lossy();
    let is_module = |character: char| character.is_ascii_alphanumeric() || character == '_';
    if !module.chars().all(is_module) {
        bail!("{} is not the name of a module: use letters, digits and '_'", file.display());
    }
    if text.contains(EXPORTS) {
        return Ok(module.into_owned());
    }
    let app = folder.join(format!("{APP}.py"));
    let written = fs::write(&app, format!("from {EXPORTS} import *\nimport {module}\n"));
    written.with_context(|| format!("cannot write {}", app.display()))?;
    Ok(APP.to_owned())
}

/// Copies Python's modules in a folder and below it, but no virtual environment and nothing hidden: the folder may have
/// large files, all of which componentize-py would read.
fn copy_modules(from: &Path, to: &Path) -> Result<()> {
    let failed = || format!("cannot copy the modules of {}", from.display());
    for entry in fs::read_dir(from).with_context(failed)? {
        let path = entry.with_context(failed)?.path();
        let name = path.file_name().unwrap_or_default();
        if name.to_string_lossy().starts_with(['.', '_']) && path.is_dir() {
            continue;
        }
        if path.is_dir() && !path.join("pyvenv.cfg").is_file() && has_modules(&path) {
            let folder = to.join(name);
            fs::create_dir_all(&folder).with_context(failed)?;
            copy_modules(&path, &folder)?;
        } else if is_module(&path) {
            fs::copy(&path, to.join(name)).with_context(failed)?;
        }
    }
    Ok(())
}

fn is_module(file: &Path) -> bool {
    file.extension() == Some(OsStr::new("py")) && file.is_file()
}

/// Whether a folder is a package, or has modules.
fn has_modules(folder: &Path) -> bool {
    let entries = fs::read_dir(folder).into_iter().flatten().flatten();
    entries.into_iter().any(|entry| is_module(&entry.path()))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn packages_with_native_code_are_named() {
        let installed = "numpy\tnumpy\tnumpy/_core/_umath.cpython-314-x86_64-linux-gnu.so\n\
                         PyYAML\tyaml\tyaml/_yaml.cpython-314-x86_64-linux-gnu.so\n";
        let messages = "  File \"/1/numpy/__init__.py\", line 112, in <module>\nImportError: no module _umath";
        let error = refuse_native_code(installed, messages).unwrap_err();
        insta::assert_snapshot!(error, @"the package numpy has native code (numpy/_core/_umath.cpython-314-x86_64-linux-gnu.so), which does not run in WebAssembly: use a package in pure Python instead");
        refuse_native_code(installed, "SyntaxError: invalid syntax (greeter.py, line 3)").unwrap();
    }

    #[test]
    fn the_exports_are_added_unless_the_module_has_them() {
        let folder = tempfile::tempdir().unwrap();
        let to = tempfile::tempdir().unwrap();
        let file = |name: &str, text: &str| {
            let path = folder.path().join(name);
            fs::write(&path, text).unwrap();
            path
        };
        let handlers = file("greeter.py", "from informant import on\n");
        assert_eq!(write_app(&handlers, to.path()).unwrap(), APP);
        let app = fs::read_to_string(to.path().join("informant_app.py")).unwrap();
        assert_eq!(app, "from informant.component import *\nimport greeter\n");
        let own = file("app.py", "from informant.component import *\nimport greeter\n");
        assert_eq!(write_app(&own, to.path()).unwrap(), "app");
        let error = write_app(&file("my-app.py", ""), to.path()).unwrap_err().to_string();
        assert!(error.ends_with("my-app.py is not the name of a module: use letters, digits and '_'"), "{error}");
    }

    #[test]
    fn modules_are_copied_without_environments() {
        let (from, to) = (tempfile::tempdir().unwrap(), tempfile::tempdir().unwrap());
        for name in ["greeter.py", "helpers/__init__.py", ".venv/a.py", "env/b.py", "env/pyvenv.cfg", "data.csv"] {
            let path = from.path().join(name);
            fs::create_dir_all(path.parent().unwrap()).unwrap();
            fs::write(path, "").unwrap();
        }
        copy_modules(from.path(), to.path()).unwrap();
        let is_copied = |name: &str| to.path().join(name).exists();
        assert!(is_copied("greeter.py") && is_copied("helpers/__init__.py"));
        assert!(!is_copied(".venv") && !is_copied("env") && !is_copied("data.csv"));
    }
}
