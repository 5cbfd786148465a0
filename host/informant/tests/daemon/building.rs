//! `informant plugin build`, and the declared types of the JavaScript API.
//!
//! `cargo xtask guests` installs esbuild and the TypeScript compiler where npm is installed, which it is in CI.

use std::ffi::OsString;
use std::fs;
use std::os::unix::fs::symlink;
use std::path::{Path, PathBuf};
use std::process::Command;

use tempfile::TempDir;

use super::world::artifacts;

fn root() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR"))
        .join("../..")
        .canonicalize()
        .unwrap()
}

/// Where npm installed the programs. None where there is no npm.
fn tools() -> Option<PathBuf> {
    let folder = root().join("target/tools/javascript/node_modules");
    let may_lack = ["JAVASCRIPT", "SCRIPTS"].map(|what| std::env::var_os(format!("INFORMANT_TESTS_WITHOUT_{what}")));
    let is_there = folder.is_dir();
    assert!(
        is_there || may_lack.iter().any(Option::is_some),
        "esbuild and tsc are missing: run `cargo xtask guests`"
    );
    (is_there && may_lack.iter().all(Option::is_none)).then_some(folder)
}

/// A project with these files. Its `node_modules` has the package `greet`, and esbuild if `tools` has it.
fn project(tools: Option<&Path>, files: &[(&str, &str)]) -> TempDir {
    let folder = tempfile::tempdir().unwrap();
    let greet = folder.path().join("node_modules/greet");
    fs::create_dir_all(&greet).unwrap();
    fs::write(greet.join("package.json"), r#"{ "name": "greet", "main": "greet.js" }"#).unwrap();
    fs::write(greet.join("greet.js"), "module.exports = (name) => `hello ${name}`;").unwrap();
    if let Some(tools) = tools {
        symlink(tools.join(".bin"), folder.path().join("node_modules/.bin")).unwrap();
    }
    for (name, text) in files {
        fs::write(folder.path().join(name), text).unwrap();
    }
    folder
}

/// Runs `informant plugin` in the project. Returns its exit code, and what it printed.
fn plugin(project: &TempDir, args: &[&str]) -> String {
    let mut command = Command::new(env!("CARGO_BIN_EXE_informant"));
    command.arg("plugin").args(args).current_dir(project.path());
    // An esbuild of this machine must not be found, but node, which runs the one of npm.
    let path: OsString = match project.path().join("node_modules/.bin").exists() {
        true => std::env::var_os("PATH").unwrap(),
        false => project.path().into(),
    };
    let output = command
        .env("PATH", path)
        .env("XDG_CACHE_HOME", artifacts())
        .output()
        .unwrap();
    let text = [output.stdout, output.stderr].concat();
    format!("{} {}", output.status.code().unwrap(), String::from_utf8(text).unwrap())
}

const HANDLER: &str = r#"
import { config, log, type Event } from "informant";
import greet from "greet";
import { phase } from "./phase.ts";

export const manifest = { name: config.greeting };
export const onAdd = (pod: any, event: Event) => log.info(`${greet(event.name)}, ${phase(pod)}`);
"#;

const CONFIG: &str = r#"
[informer.pods]
resource = "v1/pods"
[plugin.handler]
script = "handler.js"
informers = ["pods"]
config = { greeting = "configured" }
"#;

#[test]
fn typescript_with_packages_becomes_a_script_or_component() {
    let Some(tools) = tools() else { return };
    let files = [
        ("handler.ts", HANDLER),
        (
            "phase.ts",
            "export const phase = (pod: any): string => pod.status?.phase;",
        ),
        ("config.toml", CONFIG),
    ];
    let project = project(Some(&tools), &files);
    let said = plugin(&project, &["build", "handler.ts", "--config", "config.toml"]);
    assert!(said.starts_with("0 handler.js: "), "{said}");
    let script = fs::read_to_string(project.path().join("handler.js")).unwrap();
    assert!(
        script.contains("hello ${") && script.contains(r#"from "informant""#) && !script.contains("any"),
        "{script}"
    );
    let configured = ["--config", "config.toml", "--plugin", "handler"];
    for source in ["handler.ts", "handler.js"] {
        let said = plugin(&project, &[&["build", source, "--component"], &configured[..]].concat());
        assert!(said.starts_with("0 handler.wasm: "), "{said}");
        let said = plugin(&project, &[&["inspect", "handler.wasm"], &configured[..]].concat());
        assert!(said.starts_with("0 plugin    configured 0"), "{said}");
    }
    let said = plugin(&project, &["inspect", "handler.wasm"]);
    assert!(said.starts_with("0 plugin    handler 0"), "{said}");
}

#[test]
fn a_script_that_cannot_be_built_leaves_the_output() {
    let Some(tools) = tools() else { return };
    let files = [
        ("module.ts", "import x from 'absent';\nexport const onAdd = x;"),
        (
            "name.ts",
            "import { logg } from 'informant';\nexport const onAdd = () => logg();",
        ),
        (
            "handler.ts",
            "export const onAdd = () => {};\nexport const onChange = () => {};",
        ),
        ("plain.js", "export const onAdd = () => {};"),
        ("node.ts", "import 'fs';\nexport const onAdd = () => {};"),
    ];
    let project = project(Some(&tools), &files);
    for output in ["module.js", "name.js", "handler.js"] {
        fs::write(project.path().join(output), "as before").unwrap();
    }
    for (args, expected) in [
        (&["module.ts"][..], "Could not resolve \"absent\""),
        (
            &["module.ts"],
            "error: esbuild cannot bundle module.ts; its messages are above (`npm install PACKAGE` adds",
        ),
        (&["node.ts"], "Could not resolve \"fs\""),
        (
            &["name.ts"],
            "name.js:2 imports logg from \"informant\", which does not export it; did you mean log?",
        ),
        (
            &["handler.ts"],
            "handler.js exports onChange, which this Informant does not call; Informant calls onAdd,",
        ),
        (
            &["plain.js"],
            "the output would replace plain.js: name another file, as in `informant plugin build plain.js --output \
             plain-bundle.js`",
        ),
        (
            &["plain.js", "-o", "plain.wasm"],
            "the output plain.wasm must end in .js",
        ),
        (&["absent.ts"], "absent.ts is not a file"),
    ] {
        let said = plugin(&project, &[&["build"], args].concat());
        assert!(said.starts_with("1 ") && said.contains(expected), "{args:?}: {said}");
        assert!(
            !said.contains("--platform=node") && !said.contains("as external to"),
            "{said}"
        );
    }
    for output in ["module.js", "name.js", "handler.js"] {
        assert_eq!(fs::read_to_string(project.path().join(output)).unwrap(), "as before");
    }
}

#[test]
fn inspect_of_tsx_names_the_command_that_builds_it() {
    let project = project(None, &[("handler.tsx", "export const onAdd = () => {};")]);
    let said = plugin(&project, &["inspect", "handler.tsx"]);
    let expected = "1 error: handler.tsx is not a plugin yet: build it with `informant plugin build handler.tsx`, and";
    assert!(said.starts_with(expected), "{said}");
}

/// In the process that compiles, which is confined.
#[test]
fn typescript_is_inspected_without_a_build() {
    if std::env::var_os("INFORMANT_TESTS_WITHOUT_SCRIPTS").is_some() {
        return;
    }
    let nested = format!("const a = {}1{};", "(".repeat(200_000), ")".repeat(200_000));
    let elements = "  1 as b,\n".repeat(90_000);
    let large = format!("export const onAdd = (pod: {{ a: 1 }}) => {{}};\nconst a: b[] = [\n{elements}];\n");
    let files = [
        ("good.ts", "export const onAdd = (pod: { a: 1 }): void => {};"),
        ("large.ts", &large),
        ("enum.ts", "export const onAdd = () => {};\n  enum Phase { Failed }"),
        ("syntax.ts", "export const onAdd = (pod: ) => {};"),
        ("nested.ts", &nested),
    ];
    let project = project(None, &files);
    for file in ["good.ts", "large.ts"] {
        let said = plugin(&project, &["inspect", file]);
        assert!(
            said.starts_with('0') && said.contains("roles     event-handler"),
            "{said}"
        );
    }
    let refusals = ["enum.ts", "syntax.ts", "nested.ts"];
    let refusals = refusals.map(|file| plugin(&project, &["inspect", file]));
    let expected = [
        "1 error: enum.ts:2:3: an enum needs more than erasing its types; write an object: const Phase = { … }",
        "1 error: syntax.ts:1:28: SyntaxError: Unexpected token",
        "1 error: nested.ts: it is nested too deeply to be parsed",
    ];
    for (refusal, expected) in refusals.iter().zip(expected) {
        assert!(refusal.starts_with(expected), "{refusal}");
    }
}

#[test]
fn without_esbuild_the_error_says_what_to_install() {
    let project = project(None, &[("handler.ts", "export const onAdd = () => {};")]);
    let said = plugin(&project, &["build", "handler.ts"]);
    assert!(
        said.starts_with("1 error: esbuild is not installed, ") && said.contains("`npm install --save-dev esbuild`"),
        "{said}"
    );
}

#[test]
fn the_declared_types_fit_the_test_guest() {
    let Some(tools) = tools() else { return };
    let project = root().join("plugin-sdk/javascript/tsconfig.json");
    let output = Command::new(tools.join(".bin/tsc"))
        .arg("-p")
        .arg(project)
        .output()
        .unwrap();
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stdout));
}

#[test]
fn the_types_compile_with_and_without_default_libraries() {
    let Some(tools) = tools() else { return };
    let sdk = root().join("plugin-sdk/javascript");
    let folder = tempfile::tempdir().unwrap();
    for libraries in [&[][..], &["--lib", "es2023"], &["--lib", "es2023,dom"]] {
        let output = Command::new(tools.join(".bin/tsc"))
            .args([
                "--noEmit",
                "--strict",
                "--target",
                "es2022",
                "--moduleResolution",
                "bundler",
            ])
            .args(libraries)
            .args(["informant.d.ts", "tests/types.ts"].map(|file| sdk.join(file)))
            .current_dir(&folder)
            .output()
            .unwrap();
        let said = String::from_utf8_lossy(&output.stdout);
        assert!(output.status.success(), "{libraries:?}: {said}");
    }
}
