use tempfile::TempDir;

use super::*;

/// A folder `greeter` with these files.
fn folder(files: &[(&str, &str)]) -> (TempDir, PathBuf) {
    let parent = tempfile::tempdir().unwrap();
    let folder = parent.path().join("greeter");
    fs::create_dir(&folder).unwrap();
    for (name, text) in files {
        fs::write(folder.join(name), text).unwrap();
    }
    (parent, folder)
}

/// What is found at a path below a folder with these files, or why nothing is.
fn found(files: &[(&str, &str)], path: &str) -> String {
    let (parent, folder) = folder(files);
    let path = match path {
        "" => folder.clone(),
        path => folder.join(path),
    };
    let text = match Source::find(&path) {
        Ok(source) => {
            let files: Vec<String> = source.files.iter().map(|file| name_of(file)).collect();
            format!("{:?} {} [{}]", source.language, source.name, files.join(" "))
        }
        Err(error) => format!("{error:#}"),
    };
    text.replace(&format!("{}/", folder.display()), "FOLDER/")
        .replace(&folder.display().to_string(), "FOLDER")
        .replace(&parent.path().display().to_string(), "PARENT")
}

const CARGO: (&str, &str) = ("Cargo.toml", "[package]\nname = \"who-runs\"\n");
const GO: (&str, &str) = ("go.mod", "module example.com/team/who-runs/v2\n\ngo 1.26\n");

#[test]
fn files_are_built_by_their_suffix() {
    for (name, expected) in [
        ("handler.ts", "Script handler [handler.ts]"),
        ("handler.mjs", "Script handler [handler.mjs]"),
        ("greeter.c", "C greeter [greeter.c]"),
        ("greeter.py", "Python greeter [greeter.py]"),
        ("core.wasm", "CoreModule core [core.wasm]"),
    ] {
        assert_eq!(found(&[(name, "")], name), expected);
    }
    assert_eq!(found(&[CARGO, ("lib.rs", "")], "lib.rs"), "Rust who-runs []");
    assert_eq!(found(&[GO, ("main.go", "")], "main.go"), "Go who-runs []");
    assert_eq!(found(&[GO, CARGO], "go.mod"), "Go who-runs []");
}

#[test]
fn folders_are_built_by_what_they_contain() {
    for (files, expected) in [
        (&[CARGO, ("package.txt", "")][..], "Rust who-runs []"),
        (&[GO, ("cgo.c", "")], "Go who-runs []"),
        (&[("greeter.c", ""), ("greeter_test.c", "")], "C greeter [greeter.c]"),
        (&[("a.c", ""), ("b.c", "")], "C greeter [a.c b.c]"),
        (
            &[("handler.py", ""), ("test_handler.py", "")],
            "Python handler [handler.py]",
        ),
        (
            &[
                ("pyproject.toml", "[project]\nname = \"who-runs\"\n"),
                ("handler.py", ""),
                ("conftest.py", ""),
            ],
            "Python who-runs [handler.py]",
        ),
        (
            &[
                ("pyproject.toml", "[project]\nname = \"who-runs\"\n"),
                ("who_runs.py", ""),
                ("util.py", ""),
            ],
            "Python who-runs [who_runs.py]",
        ),
        (
            &[
                ("package.json", "{ \"name\": \"@team/who-runs\" }"),
                ("tsconfig.json", "{}"),
                ("informant.d.ts", ""),
                ("handler.ts", ""),
                ("handler.test.ts", ""),
            ],
            "Script who-runs [handler.ts]",
        ),
        (&[("core.wasm", "")], "CoreModule core [core.wasm]"),
    ] {
        assert_eq!(found(files, ""), expected, "{files:?}");
    }
}

#[test]
fn unclear_paths_are_refused_with_the_remedy() {
    insta::assert_snapshot!(found(&[CARGO, GO], ""), @"FOLDER has Cargo.toml and go.mod: name the one to build, as in `informant plugin build FOLDER/Cargo.toml`");
    insta::assert_snapshot!(found(&[("a.c", ""), ("b.py", "")], ""), @"FOLDER has a.c and b.py: name the file to build");
    insta::assert_snapshot!(found(&[("a.py", ""), ("b.py", "")], ""), @"FOLDER has several files that may be the plugin: name one, as in `informant plugin build FOLDER/a.py`");
    insta::assert_snapshot!(found(&[("package.json", "{}")], ""), @"FOLDER has no file to begin with: name the source file of the handlers");
    insta::assert_snapshot!(found(&[("notes.txt", "")], ""), @"FOLDER has nothing to build: no Cargo.toml, go.mod, pyproject.toml, package.json, tsconfig.json, .c, .py, .js or .ts file, and no core.wasm");
    insta::assert_snapshot!(found(&[], "absent.ts"), @"FOLDER/absent.ts is not a file or folder; `informant plugin new --lang LANGUAGE NAME` creates a plugin");
    insta::assert_snapshot!(found(&[("a.cpp", "")], "a.cpp"), @"FOLDER/a.cpp is C++, which this command does not compile: link a reactor with `zig c++ -target wasm32-wasi -mexec-model=reactor … -o core.wasm`, then run `informant plugin build core.wasm -o a.wasm`");
    insta::assert_snapshot!(found(&[("a.zig", "")], "a.zig"), @"FOLDER/a.zig has no suffix that this command knows (js, ts, py, rs, go, c, wasm). For another language compile a core module, and run `informant plugin build core.wasm -o a.wasm`");
    insta::assert_snapshot!(found(&[("Cargo.toml", "[workspace]\n")], ""), @"FOLDER/Cargo.toml has no [package]: name the folder of the plugin's crate, not that of the workspace");
}
