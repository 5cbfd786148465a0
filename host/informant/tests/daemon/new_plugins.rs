//! From `informant plugin new` to a component, in each language whose tools are installed: the test of the template
//! passes, and Informant would load what `plugin build` writes.
//!
//! `cargo xtask guests` installs zig and esbuild, and `cargo xtask python-runner` installs componentize-py. Rust builds
//! without a network: with the versions of this repository.

use std::ffi::OsString;
use std::fs;
use std::os::unix::fs::symlink;
use std::path::{Path, PathBuf};
use std::process::Command;

use tempfile::TempDir;

use super::world::{artifacts, python_runner};

fn root() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR"))
        .join("../..")
        .canonicalize()
        .unwrap()
}

/// A plugin `greeter` next to a clone of Informant, which is this repository.
struct Greeter {
    parent: TempDir,
    /// Folders that come first in `PATH`.
    tools: Vec<PathBuf>,
}

impl Greeter {
    fn new(lang: &str, tools: Vec<PathBuf>) -> Greeter {
        let parent = tempfile::tempdir().unwrap();
        symlink(root(), parent.path().join("informant")).unwrap();
        let greeter = Greeter { parent, tools };
        let said = greeter.run_in(
            "",
            env!("CARGO_BIN_EXE_informant"),
            &["plugin", "new", "--lang", lang, "greeter"],
        );
        assert!(said.starts_with("created greeter, a plugin in "), "{said}");
        greeter
    }

    fn path(&self, name: &str) -> PathBuf {
        self.parent.path().join("greeter").join(name)
    }

    /// Runs a program in the plugin's folder. Returns what it printed.
    fn run(&self, program: &str, args: &[&str]) -> String {
        self.run_in("greeter", program, args)
    }

    fn informant(&self, args: &[&str]) -> String {
        self.run(env!("CARGO_BIN_EXE_informant"), args)
    }

    fn run_in(&self, folder: &str, program: &str, args: &[&str]) -> String {
        let output = Command::new(program)
            .args(args)
            .current_dir(self.parent.path().join(folder))
            .env("PATH", self.search_path())
            .env("XDG_CACHE_HOME", artifacts())
            .env("CARGO_NET_OFFLINE", "true")
            .env("CARGO_TARGET_DIR", root().join("target/new-plugin"))
            .env("GOTOOLCHAIN", "local")
            .env("GOFLAGS", "-mod=mod")
            .env("GOPROXY", "off")
            .env("PYTHONPATH", python_path())
            .output()
            .unwrap();
        let text = String::from_utf8([output.stdout, output.stderr].concat()).unwrap();
        assert!(output.status.success(), "{program} {args:?}: {text}");
        text
    }

    fn search_path(&self) -> OsString {
        let path = std::env::var_os("PATH").unwrap();
        let folders = self.tools.iter().cloned().chain(std::env::split_paths(&path));
        std::env::join_paths(folders).unwrap()
    }

    /// Checks that `file` handles events of pods, as Informant sees it.
    fn check_component(&self, file: &str) {
        let said = self.informant(&["plugin", "inspect", file]);
        assert!(said.contains("roles     event-handler"), "{said}");
        let said = self.informant(&["check", "--offline"]);
        assert!(said.contains("greeter"), "{said}");
    }

    /// Runs the scenario of the template, for which a component is built.
    fn run_scenario(&self) {
        let said = self.informant(&["plugin", "test"]);
        let expected = "ok      greeter.scenario.yaml: a pod is greeted with its phase\n1 passed, 0 failed\n";
        assert!(said.contains(expected), "{said}");
    }
}

/// Where pip installed componentize-py.
fn componentize_py() -> PathBuf {
    root().join("target/tools/componentize-py")
}

/// Stands in for `pip install`, of the SDK and of componentize-py.
fn python_path() -> OsString {
    std::env::join_paths([root().join("plugin-sdk/python"), componentize_py()]).unwrap()
}

/// Whether `cargo xtask test` leaves out what needs a tool that is not installed.
fn is_left_out(what: &str) -> bool {
    std::env::var_os(format!("INFORMANT_TESTS_WITHOUT_{what}")).is_some()
}

/// Where npm installed esbuild and tsc. None where there is no npm.
fn javascript_tools() -> Option<PathBuf> {
    let may_lack = is_left_out("JAVASCRIPT") || is_left_out("SCRIPTS");
    (!may_lack).then(|| root().join("target/tools/javascript/node_modules"))
}

#[test]
fn javascript_from_template_to_component() {
    if javascript_tools().is_none() {
        return;
    }
    let greeter = Greeter::new("js", Vec::new());
    let said = greeter.run("npm", &["test"]);
    assert!(said.contains("pass 1"), "{said}");
    greeter.check_component("handler.js");
    greeter.run_scenario();
    let said = greeter.informant(&["plugin", "build", "handler.js", "--component"]);
    assert!(said.starts_with("handler.wasm: "), "{said}");
    greeter.check_component("handler.wasm");
}

#[test]
fn typescript_from_template_to_script() {
    let Some(modules) = javascript_tools() else { return };
    let greeter = Greeter::new("ts", vec![modules.join(".bin")]);
    symlink(&modules, greeter.path("node_modules")).unwrap();
    let said = greeter.run("npm", &["test"]);
    assert!(said.contains("pass 1"), "{said}");
    greeter.run("npm", &["run", "check"]);
    greeter.check_component("handler.ts");
    greeter.run_scenario();
    let said = greeter.informant(&["plugin", "build"]);
    assert!(said.starts_with("handler.js: "), "{said}");
    greeter.check_component("handler.js");
}

#[test]
fn python_from_template_to_script_and_component() {
    if is_left_out("PYTHON") {
        return;
    }
    let greeter = Greeter::new("python", vec![componentize_py().join("bin")]);
    let said = greeter.run("python3", &["-m", "unittest"]);
    assert!(said.contains("Ran 1 test ") && said.contains("OK"), "{said}");
    // Where the runner is installed next to the program, the section is not necessary.
    let config = fs::read_to_string(greeter.path("config.toml")).unwrap();
    let config = format!("{config}\n[script-runners]\npy = {:?}\n", python_runner());
    fs::write(greeter.path("config.toml"), &config).unwrap();
    let said = greeter.informant(&["plugin", "inspect", "handler.py", "--config", "config.toml"]);
    assert!(said.contains("script    handler.py\n"), "{said}");
    assert!(said.contains("roles     event-handler"), "{said}");
    let said = greeter.informant(&["check", "--offline"]);
    assert!(said.contains("plugin greeter: "), "{said}");
    greeter.run_scenario();
    let said = greeter.informant(&["plugin", "build"]);
    assert!(said.starts_with("greeter.wasm: "), "{said}");
    let config = config.replace(r#"script = "handler.py""#, r#"component = "greeter.wasm""#);
    fs::write(greeter.path("config.toml"), config).unwrap();
    // A scenario would build it again, which takes long. The conformance kit runs such a component.
    greeter.check_component("greeter.wasm");
}

#[test]
fn rust_from_template_to_component() {
    let greeter = Greeter::new("rust", Vec::new());
    // cargo leaves the packages out that the plugin does not use.
    fs::copy(root().join("Cargo.lock"), greeter.path("Cargo.lock")).unwrap();
    let said = greeter.run("cargo", &["test"]);
    assert!(said.contains("test result: ok. 1 passed"), "{said}");
    let said = greeter.informant(&["plugin", "build"]);
    assert!(said.contains("greeter.wasm: "), "{said}");
    greeter.check_component("greeter.wasm");
    greeter.run_scenario();
}

#[test]
fn go_from_template_to_component() {
    if is_left_out("CLUSTER") {
        return;
    }
    let greeter = Greeter::new("go", Vec::new());
    let said = greeter.run("go", &["test", "./..."]);
    assert!(said.starts_with("ok "), "{said}");
    let said = greeter.informant(&["plugin", "build"]);
    assert!(said.starts_with("greeter.wasm: "), "{said}");
    greeter.check_component("greeter.wasm");
    let said = greeter.informant(&["plugin", "inspect", "greeter.wasm"]);
    assert!(
        said.contains(concat!("sdk       go ", env!("CARGO_PKG_VERSION"))),
        "{said}"
    );
    greeter.run_scenario();
}

#[test]
fn c_from_template_to_component() {
    if is_left_out("SCRIPTS") {
        return;
    }
    let greeter = Greeter::new("c", vec![root().join("target/tools/zig/ziglang")]);
    let said = greeter.run("make", &["test", "CC=zig cc"]);
    assert!(said.contains("a pod is greeted with its phase: ok"), "{said}");
    let said = greeter.informant(&["plugin", "build"]);
    assert!(said.starts_with("greeter.wasm: "), "{said}");
    greeter.check_component("greeter.wasm");
    greeter.run_scenario();
}

#[test]
fn a_broken_build_leaves_the_component() {
    if is_left_out("SCRIPTS") {
        return;
    }
    let greeter = Greeter::new("c", vec![root().join("target/tools/zig/ziglang")]);
    fs::write(greeter.path("greeter.c"), "#include \"informant.h\"\nint broken(").unwrap();
    fs::write(greeter.path("greeter.wasm"), "as before").unwrap();
    let output = Command::new(env!("CARGO_BIN_EXE_informant"))
        .args(["plugin", "build", "greeter.c"])
        .current_dir(greeter.path("."))
        .env("PATH", greeter.search_path())
        .output()
        .unwrap();
    let said = String::from_utf8(output.stderr).unwrap();
    assert!(
        said.ends_with("error: zig cannot build greeter.c; its messages are above\n"),
        "{said}"
    );
    assert_eq!(fs::read_to_string(greeter.path("greeter.wasm")).unwrap(), "as before");
}

#[test]
fn missing_toolchains_are_named_with_their_installation() {
    let empty = tempfile::tempdir().unwrap();
    for (name, text, expected) in [
        (
            "go.mod",
            "module greeter\n",
            "go is not installed, which compiles ./go.mod: install Go 1.26 or newer",
        ),
        (
            "Cargo.toml",
            "[package]\nname = \"greeter\"\n",
            "cargo is not installed, which compiles ./Cargo.toml: install Rust with rustup",
        ),
        (
            "greeter.c",
            "",
            "zig is not installed, which compiles ./greeter.c: run `pip install ziglang==0.17.0`",
        ),
        (
            "greeter.py",
            "",
            "componentize-py is not installed, which builds ./greeter.py: run `pip install componentize-py",
        ),
        (
            "greeter.ts",
            "",
            "esbuild is not installed, which bundles TypeScript and packages: run `npm install",
        ),
    ] {
        let folder = tempfile::tempdir().unwrap();
        fs::write(folder.path().join(name), text).unwrap();
        let output = Command::new(env!("CARGO_BIN_EXE_informant"))
            .args(["plugin", "build"])
            .current_dir(&folder)
            .env("PATH", empty.path())
            .output()
            .unwrap();
        let said = String::from_utf8(output.stderr).unwrap();
        assert!(said.starts_with(&format!("error: {expected}")), "{name}: {said}");
    }
}
