use clap::ValueEnum as _;
use tempfile::TempDir;

use super::*;

/// A folder with a clone of Informant, as far as `new` looks at it.
fn next_to_a_clone() -> TempDir {
    let folder = tempfile::tempdir().unwrap();
    for language in Language::value_variants() {
        if let Some((name, file)) = language.sdk() {
            let file = folder.path().join("informant/plugin-sdk").join(name).join(file);
            fs::create_dir_all(file.parent().unwrap()).unwrap();
            fs::write(file, "").unwrap();
        }
    }
    folder
}

fn arguments(name: &str, lang: Language, path: PathBuf) -> NewArgs {
    NewArgs {
        name: name.to_owned(),
        lang,
        path: Some(path),
        sdk: None,
    }
}

fn refusal(args: &NewArgs, folder: &TempDir) -> String {
    let error = run(args).unwrap_err();
    format!("{error:#}").replace(&folder.path().display().to_string(), "FOLDER")
}

/// Every file below a folder, with its text.
fn files_below(folder: &Path) -> Vec<(String, String)> {
    let mut found = Vec::new();
    let mut folders = vec![folder.to_owned()];
    while let Some(next) = folders.pop() {
        for entry in fs::read_dir(next).unwrap() {
            let path = entry.unwrap().path();
            if path.is_dir() {
                folders.push(path);
            } else {
                let name = path.strip_prefix(folder).unwrap().display().to_string();
                found.push((name, fs::read_to_string(path).unwrap()));
            }
        }
    }
    found.sort();
    found
}

#[test]
fn each_language_gets_a_complete_folder() {
    let parent = next_to_a_clone();
    for language in Language::value_variants() {
        let folder = parent.path().join(format!("{language:?}"));
        run(&arguments("who-runs", *language, folder.clone())).unwrap();
        let files = files_below(&folder);
        for (name, text) in &files {
            assert!(
                !text.contains("{{") || name == "informant.d.ts",
                "{language:?} {name}: {text}"
            );
        }
        let has = |name: &str| files.iter().any(|(found, _)| found == name);
        assert!(
            has("config.toml") && has(".gitignore") && has("README.md") && has("who-runs.scenario.yaml"),
            "{language:?}: {files:?}"
        );
        let is_test = |(name, text): &(String, String)| name.contains("test") || text.contains("#[test]");
        assert!(files.iter().any(is_test), "{language:?}: {files:?}");
        let config = crate::config_file::load(&folder.join("config.toml")).unwrap();
        assert!(config.plugins.contains_key("who-runs"), "{language:?}");
    }
}

#[test]
fn the_sdk_is_named_relative_to_the_new_folder() {
    let parent = next_to_a_clone();
    let folder = parent.path().join("plugins/greeter");
    run(&arguments("greeter", Language::Go, folder.clone())).unwrap();
    let module = fs::read_to_string(folder.join("go.mod")).unwrap();
    insta::assert_snapshot!(module, @"
    module greeter

    go 1.26

    require informant.example/plugin-sdk/go v0.0.0

    // The SDK is not published yet.
    replace informant.example/plugin-sdk/go => ../../informant/plugin-sdk/go
    ");
    let sdk = Some(parent.path().join("informant/plugin-sdk"));
    let args = arguments("greeter", Language::Rust, parent.path().join("rust"));
    run(&NewArgs { sdk, ..args }).unwrap();
    let manifest = fs::read_to_string(parent.path().join("rust/Cargo.toml")).unwrap();
    let expected = format!("path = \"{}/informant/plugin-sdk/rust\"", parent.path().display());
    assert!(manifest.contains(&expected), "{manifest}");
}

#[test]
fn the_next_commands_end_the_output() {
    let shown = |language| next_commands(Path::new("greeter"), language, |text| text.replace("{{sdk}}", "../sdk"));
    let all: Vec<String> = Language::value_variants()
        .iter()
        .map(|language| shown(*language))
        .collect();
    insta::assert_snapshot!(all.join("\n"), @"
    created greeter, a plugin in JavaScript. Next:
      cd greeter
      npm test
      informant dev
    created greeter, a plugin in TypeScript. Next:
      cd greeter && npm install
      npm test
      informant dev
    created greeter, a plugin in Python. Next:
      cd greeter && python3 -m venv .venv && . .venv/bin/activate
      pip install ../sdk && python3 -m unittest
      informant dev
    created greeter, a plugin in Rust. Next:
      cd greeter
      cargo test
      informant dev
    created greeter, a plugin in Go. Next:
      cd greeter
      go test ./...
      informant dev
    created greeter, a plugin in C. Next:
      cd greeter
      make test
      informant dev
    ");
}

#[test]
fn nothing_is_written_over_what_exists() {
    let parent = next_to_a_clone();
    let folder = parent.path().join("greeter");
    fs::create_dir(&folder).unwrap();
    run(&arguments("greeter", Language::Js, folder.clone())).unwrap();
    let refused = refusal(&arguments("greeter", Language::Js, folder), &parent);
    insta::assert_snapshot!(refused, @"FOLDER/greeter exists and is not an empty folder: choose another name, or a folder with --path");
    let file = parent.path().join("file");
    fs::write(&file, "").unwrap();
    let refused = refusal(&arguments("greeter", Language::Js, file), &parent);
    assert!(
        refused.starts_with("FOLDER/file exists and is not an empty folder"),
        "{refused}"
    );
}

#[test]
fn names_that_a_section_or_crate_cannot_have_are_refused() {
    let empty = tempfile::tempdir().unwrap();
    let at = |name: &str, lang| refusal(&arguments(name, lang, empty.path().join("new")), &empty);
    insta::assert_snapshot!(at("Greeter", Language::Js), @r#""Greeter" is not a name of a plugin: use 1 to 63 lowercase letters, digits and '-', with a letter or digit at both ends, for example `greeter`"#);
    insta::assert_snapshot!(at("core", Language::Rust), @r#""core" cannot be the name of a crate: use another name, for example `plugin-core` or `greeter`"#);
    assert!(!empty.path().join("new").exists());
}

#[test]
fn a_missing_sdk_is_named_with_the_remedy() {
    let empty = tempfile::tempdir().unwrap();
    let args = arguments("greeter", Language::C, empty.path().join("greeter"));
    insta::assert_snapshot!(refusal(&args, &empty), @"cannot find the SDK for C, which is not published yet: clone Informant into a folder `informant` next to FOLDER/greeter, or name the folder `plugin-sdk` of your clone with --sdk");
    let sdk = Some(empty.path().to_owned());
    insta::assert_snapshot!(refusal(&NewArgs { sdk: sdk.clone(), ..args }, &empty), @"FOLDER has neither c/informant.h nor informant.h: name the folder `plugin-sdk` of a clone of Informant with --sdk");
    let args = arguments("greeter", Language::Ts, empty.path().join("greeter"));
    insta::assert_snapshot!(refusal(&NewArgs { sdk, ..args }, &empty), @"TypeScript needs no SDK: leave out --sdk");
}

#[test]
fn templates_are_those_of_the_table() {
    let root = Path::new(env!("CARGO_MANIFEST_DIR")).join("src/cli/new/templates");
    let on_disk = files_below(&root).len();
    let from_sdk = 2 * (kit::KIT.len() + 1);
    let scenarios = Language::value_variants().len() - 1;
    let in_table: usize = Language::value_variants()
        .iter()
        .map(|language| language.files().count())
        .sum();
    assert_eq!(in_table - from_sdk - scenarios, on_disk);
}

#[test]
fn scripts_bring_the_whole_test_kit() {
    let sdk = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../plugin-sdk/javascript");
    let below = |folder: &str| -> Vec<String> {
        let files = files_below(&sdk.join(folder)).into_iter();
        files.map(|(name, _)| format!("informant/{folder}/{name}")).collect()
    };
    let mut in_sdk = [below("prelude"), below("testing")].concat();
    // It changes globals of Node.
    in_sdk.retain(|name| !name.ends_with("/globals.js"));
    let in_kit: Vec<&str> = kit::KIT.iter().map(|(name, _)| *name).collect();
    assert_eq!(in_kit, in_sdk);
}
