use tempfile::TempDir;

use super::*;

/// A folder with these files.
fn folder(files: &[(&str, &str)]) -> TempDir {
    let folder = tempfile::tempdir().unwrap();
    for (name, text) in files {
        let path = folder.path().join(name);
        fs::create_dir_all(path.parent().unwrap()).unwrap();
        fs::write(path, text).unwrap();
    }
    folder
}

/// What `path` in the folder is, in a few words.
fn found(folder: &TempDir, path: &str) -> String {
    let project = Project::find(&folder.path().join(path), &BuildFlags::default(), Path::new("/scratch"));
    let text = match project {
        Ok(Project {
            config,
            build,
            content,
            name,
        }) => {
            let built = build.map(|build| format!(", builds {}", build.output.display()));
            let built = built.unwrap_or_default();
            match config {
                Some(config) => format!("{}{built}", config.display()),
                None => format!("{name} of {}{built}", content.display()),
            }
        }
        Err(error) => format!("error: {error:#}"),
    };
    let real = folder.path().canonicalize().unwrap();
    text.replace(&real.display().to_string(), "")
        .replace(&folder.path().display().to_string(), "")
}

/// A configuration with plugins that have these files.
fn config(contents: &[&str]) -> String {
    let sections = contents.iter().enumerate().map(|(number, content)| {
        let key = if content.ends_with(".wasm") {
            "component"
        } else {
            "script"
        };
        format!("[plugin.p{number}]\n{key} = \"{content}\"\ninformers = [\"pods\"]\n")
    });
    "[informer.pods]\nresource = \"v1/pods\"\n".to_owned() + &sections.collect::<String>()
}

const GO: (&str, &str) = ("go.mod", "module example.com/greeter\n");

#[test]
fn a_configured_plugin_is_built_where_it_is_loaded() {
    let by_name = folder(&[GO, ("config.toml", &config(&["other.js", "greeter.wasm"]))]);
    assert_eq!(found(&by_name, ""), "/config.toml, builds /greeter.wasm");
    let only = folder(&[GO, ("config.toml", &config(&["out/it.wasm"]))]);
    assert_eq!(found(&only, "config.toml"), "/config.toml, builds /out/it.wasm");
    let script = folder(&[("handler.ts", ""), ("config.toml", &config(&["handler.ts"]))]);
    assert_eq!(found(&script, ""), "/config.toml");
    let bundled = folder(&[("handler.ts", ""), ("config.toml", &config(&["handler.js"]))]);
    assert_eq!(found(&bundled, ""), "/config.toml, builds /handler.js");
}

#[test]
fn a_configuration_without_the_plugin_is_refused() {
    let other = folder(&[GO, ("config.toml", &config(&["a.wasm", "b.wasm"]))]);
    insta::assert_snapshot!(found(&other, ""), @"error: /config.toml has no plugin for /: set `component` or `script` of one to /greeter.wasm, or name the file of another plugin, as in `informant dev //FILE`");
    let invalid = folder(&[GO, ("config.toml", "[informer.pods]\nresnyc = 1\n")]);
    assert!(
        found(&invalid, "").contains("config.toml:2:1"),
        "{}",
        found(&invalid, "")
    );
    let unknown = folder(&[("handler.rb", "")]);
    assert!(found(&unknown, "handler.rb").contains("has no suffix that this command knows"));
}

#[test]
fn a_script_that_somebody_wrote_is_never_built_over() {
    let two = folder(&[
        ("alarm.js", "import './team.js';"),
        ("greeter.js", "export const onAdd = () => {};"),
        ("config.toml", &config(&["greeter.js"])),
    ]);
    assert_eq!(
        found(&two, "alarm.js"),
        "alarm of /scratch/alarm.js, builds /scratch/alarm.js"
    );
    assert_eq!(found(&two, "greeter.js"), "/config.toml");
    assert_eq!(found(&two, "config.toml"), "/config.toml");
    let project = |greeter: &str| {
        folder(&[
            ("alarm.ts", ""),
            ("greeter.js", greeter),
            ("package.json", r#"{ "name": "alarm" }"#),
            ("config.toml", &config(&["greeter.js"])),
        ])
    };
    let written = project("export const onAdd = () => {};");
    assert!(
        found(&written, "").contains("/config.toml has no plugin for /"),
        "{}",
        found(&written, "")
    );
    assert_eq!(found(&written, "config.toml"), "/config.toml");
    let bundled = project("// team.ts\n// src/alarm.ts\nexport const onAdd = () => {};");
    assert_eq!(found(&bundled, ""), "/config.toml, builds /greeter.js");
}

#[test]
fn without_a_configuration_only_what_must_be_is_built() {
    let imports = "import { log } from 'informant';\nimport type { Pod } from \"informant\"\n";
    let folder = folder(&[
        ("a/handler.js", "export const onAdd = () => {};"),
        ("b/handler.ts", imports),
        ("c/My_Handler.js", "import {\n  greet\n} from './greet.js';"),
        ("d/handler.py", "import yaml"),
        ("e/go.mod", "module greeter"),
        ("f/handler.tsx", ""),
    ]);
    assert_eq!(found(&folder, "a"), "handler of /a/handler.js");
    assert_eq!(found(&folder, "b/handler.ts"), "handler of /b/handler.ts");
    assert_eq!(
        found(&folder, "c"),
        "my-handler of /scratch/my-handler.js, builds /scratch/my-handler.js"
    );
    assert_eq!(found(&folder, "d"), "handler of /d/handler.py");
    assert_eq!(
        found(&folder, "e"),
        "greeter of /scratch/greeter.wasm, builds /scratch/greeter.wasm"
    );
    assert_eq!(
        found(&folder, "f"),
        "handler of /scratch/handler.js, builds /scratch/handler.js"
    );
}

#[test]
fn imports_of_other_modules_are_found() {
    for script in [
        "import './a.js';",
        "import a from \"a\"",
        "export { a } from 'a';",
        "import {\n  a,\n} from \"./a.ts\";",
    ] {
        assert!(imports_more(script), "{script}");
    }
    for script in [
        "import { log } from \"informant\";",
        "import * as i from 'informant'",
        "console.log('from \"a\"');",
        "export const onAdd = () => 'from';",
        "",
    ] {
        assert!(!imports_more(script), "{script}");
    }
}
