//! Runners of several languages, and scripts in TypeScript. The runner of JavaScript under another name stands in for
//! that of another language.

use std::fs;
use std::path::{Path, PathBuf};

use informant_plugin_host::{CONTRACT, LoadError, RunnerSource, RunnerStatus};
use informant_spec::{Content, ContentSource, Digest, PluginSpec, Suffix};
use serde_json::json;

use crate::scripts::{attached, can_run};
use crate::world::{Reload, World, hello_log, idle, script_runner, script_runners};

fn suffix(text: &str) -> Suffix {
    Suffix::new(text).unwrap()
}

/// A component that is a script runner by this document.
fn with_section(component: &[u8], document: &serde_json::Value) -> Vec<u8> {
    let content = [b"\x10informant:runner", document.to_string().as_bytes()].concat();
    // In two bytes, as WebAssembly encodes a number below 16,384.
    let length = [content.len() as u8 | 0x80, (content.len() >> 7) as u8];
    [component, b"\0", &length, &content].concat()
}

/// The runner of JavaScript, as one for .lua files.
fn lua_runner(contract: &str) -> Vec<u8> {
    let document = json!({ "language": "Lua", "suffixes": ["lua"], "version": "5.4", "contract": contract });
    with_section(&script_runner().unwrap(), &document)
}

/// A host with the runner of JavaScript, and one for .lua files in `lua.wasm`, if that file exists.
struct Languages {
    world: World,
    folder: tempfile::TempDir,
}

impl Languages {
    fn new() -> Languages {
        let folder = tempfile::tempdir().unwrap();
        let mut runners = script_runners();
        runners.insert(suffix("lua"), RunnerSource::Configured(folder.path().join("lua.wasm")));
        runners.insert(
            suffix("py"),
            RunnerSource::Released {
                file: "informant-runner-python.wasm",
                folders: vec![folder.path().join("bin"), folder.path().join("lib")],
            },
        );
        Languages {
            world: World::with_runners(runners),
            folder,
        }
    }

    fn write(&self, name: &str, bytes: impl AsRef<[u8]>) -> PathBuf {
        let path = self.folder.path().join(name);
        fs::write(&path, bytes).unwrap();
        path
    }

    /// The section of a script in this file.
    fn spec(&self, name: &str, text: &str) -> PluginSpec {
        let path = self.write(name, text);
        let suffix = Suffix::of(&path).unwrap();
        let mut spec = PluginSpec::new("hello", ContentSource::script(path, suffix));
        spec.informers = vec![("pods".into(), "pods".into())];
        spec
    }

    async fn refusal(&self, name: &str, text: &str) -> String {
        let loaded = self.world.load(self.spec(name, text)).await;
        self.shown(&loaded.err().expect("it was loaded"))
    }

    fn shown(&self, error: &LoadError) -> String {
        let text = error.to_string();
        text.replace(&self.folder.path().display().to_string(), "FOLDER")
            .replace(CONTRACT, "CONTRACT")
    }
}

const GREETING: &str = "export const onAdd = (pod) => console.log('hello', pod.metadata.name);";

#[tokio::test(start_paused = true)]
async fn the_suffix_of_a_script_selects_its_runner() {
    if !can_run() {
        return;
    }
    let languages = Languages::new();
    let runner = languages.write("lua.wasm", lua_runner(CONTRACT));
    let plugin = languages
        .world
        .load(languages.spec("handler.lua", GREETING))
        .await
        .unwrap();
    plugin.start().await;
    let mut pods = attached(&languages.world, &plugin).await;
    pods.apply("a");
    idle(&languages.world, &plugin).await;
    assert_eq!(hello_log(&languages.world), ["INFO hello a"]);
    let expected = RunnerStatus {
        language: "Lua".to_owned(),
        version: "5.4".to_owned(),
        digest: Digest::of(&fs::read(&runner).unwrap()),
    };
    assert_eq!(plugin.status().runner.as_deref(), Some(&expected));
    // The other language has a runner of its own.
    let inspected = languages.write("handler.mjs", GREETING);
    let content = Content::new(inspected, GREETING.as_bytes());
    let inspection = languages.world.host.inspect(&content, json!({})).await.unwrap();
    assert_eq!(inspection.runner.unwrap().language, "JavaScript");
}

#[tokio::test(start_paused = true)]
async fn a_runner_is_read_once_for_all_scripts() {
    if !can_run() {
        return;
    }
    let languages = Languages::new();
    let runner = languages.write("lua.wasm", lua_runner(CONTRACT));
    languages.world.load(languages.spec("a.lua", GREETING)).await.unwrap();
    fs::remove_file(runner).unwrap();
    languages.world.load(languages.spec("b.lua", GREETING)).await.unwrap();
}

#[tokio::test(start_paused = true)]
async fn a_script_without_a_runner_is_refused_with_the_remedy() {
    if !can_run() {
        return;
    }
    let languages = Languages::new();
    let mut refusals = vec![
        languages.refusal("handler.py", "").await,
        languages.refusal("handler.rb", "").await,
        languages.refusal("handler.lua", "").await,
    ];
    languages.write("lua.wasm", "no component");
    refusals.push(languages.refusal("handler.lua", "").await);
    languages.write("lua.wasm", wat::parse_str("(component)").unwrap());
    refusals.push(languages.refusal("handler.lua", "").await);
    languages.write("lua.wasm", lua_runner("0.1.0"));
    refusals.push(languages.refusal("handler.lua", "").await);
    let python = json!({ "language": "Python", "suffixes": ["py"], "version": "1.0", "contract": CONTRACT });
    languages.write(
        "lua.wasm",
        with_section(&wat::parse_str("(component)").unwrap(), &python),
    );
    refusals.push(languages.refusal("handler.lua", "").await);
    let lua = json!({ "language": "Lua", "suffixes": ["lua"], "version": "1.0", "contract": CONTRACT });
    languages.write("lua.wasm", with_section(&wat::parse_str("(component)").unwrap(), &lua));
    refusals.push(languages.refusal("handler.lua", "").await);
    insta::assert_snapshot!(refusals.join("\n"), @r#"
    plugin "hello": FOLDER/handler.py: the runner of Python scripts is not installed: there is no FOLDER/bin/informant-runner-python.wasm or FOLDER/lib/informant-runner-python.wasm; put the file informant-runner-python.wasm of Informant 0.1.0 there, or set its path in config.toml: [script-runners] py = "FILE"
    plugin "hello": FOLDER/handler.rb: no script runner is known for .rb files; scripts end in .js, .mjs, .ts, .mts, .py, .lua; to add a runner, set in config.toml: [script-runners] rb = "FILE"
    plugin "hello": FOLDER/handler.lua: its runner, FOLDER/lua.wasm, cannot be read: No such file or directory (os error 2); correct [script-runners] in config.toml
    plugin "hello": FOLDER/handler.lua: its runner, FOLDER/lua.wasm: not WebAssembly: it starts with the text "no component"; use the .wasm file that the build produces (Rust: cargo build --target wasm32-wasip2 --release)
    plugin "hello": FOLDER/handler.lua: its runner, FOLDER/lua.wasm, is no script runner: it has no section informant:runner; set [script-runners] in config.toml to the file of a runner, such as informant-runner-python.wasm
    plugin "hello": FOLDER/handler.lua: its runner, FOLDER/lua.wasm (5.4), was built for contract 0.1.0, but this Informant supports CONTRACT; use the runner of Informant 0.1.0
    plugin "hello": FOLDER/handler.lua: its runner, FOLDER/lua.wasm, runs scripts in Python (.py), not .lua files; correct [script-runners] in config.toml
    plugin "hello": FOLDER/handler.lua: its runner, FOLDER/lua.wasm: does not export informant:plugin/lifecycle: it is a component, but not a plugin; build it with a plugin SDK (its exports: none)
    "#);
    // The next attempt reads the file again.
    languages.write("lua.wasm", lua_runner(CONTRACT));
    languages
        .world
        .load(languages.spec("handler.lua", GREETING))
        .await
        .unwrap();
}

#[tokio::test]
async fn text_with_an_unknown_suffix_lists_the_known_ones() {
    let languages = Languages::new();
    let refusal = async |name: &str, bytes: &[u8]| {
        let content = Content::new(Path::new(name), bytes);
        let inspected = languages.world.host.inspect(&content, json!({})).await;
        languages.shown(&inspected.unwrap_err())
    };
    let refusals = [
        refusal("handler.rb", b"def on_add(pod) end").await,
        refusal("handler.wasm", b"def on_add(pod) end").await,
        refusal("handler.gz", &[0x1f, 0x8b, 8, 0]).await,
    ];
    insta::assert_snapshot!(refusals.join("\n"), @r#"
    handler.rb: no script runner is known for .rb files; scripts end in .js, .mjs, .ts, .mts, .py, .lua; to add a runner, set in config.toml: [script-runners] rb = "FILE"
    handler.wasm: not WebAssembly: it starts with the text "def on_add(pod) end"; use the .wasm file that the build produces (Rust: cargo build --target wasm32-wasip2 --release)
    handler.gz: not WebAssembly: it is compressed; unpack it first; use the .wasm file that the build produces (Rust: cargo build --target wasm32-wasip2 --release)
    "#);
}

#[tokio::test]
async fn a_script_runner_is_no_plugin() {
    if !can_run() {
        return;
    }
    let languages = Languages::new();
    let content = Content::new("runner.wasm", script_runner().unwrap().into_owned());
    let refused = languages.world.host.inspect(&content, json!({})).await.unwrap_err();
    insta::assert_snapshot!(languages.shown(&refused), @r#"runner.wasm: a script runner, not a plugin; name it in [script-runners] of config.toml, and a script as the plugin: script = "FILE""#);
}

#[tokio::test(start_paused = true)]
async fn a_script_in_typescript_runs_without_a_build() {
    if !can_run() {
        return;
    }
    let languages = Languages::new();
    let text = r#"
import { type Handler, log } from "informant";

interface Pod { metadata: { name: string } }

export const onAdd = (pod: Pod, event: { uid: string }): void => {
  if (pod.metadata.name === "bad") throw new RangeError("too " + (event.uid as string).length!);
  log.info(pod.metadata.name satisfies string);
};
"#;
    let plugin = languages.world.load(languages.spec("handler.ts", text)).await.unwrap();
    assert_eq!(
        (plugin.manifest().name.as_str(), plugin.digest()),
        ("handler", Digest::of(text.as_bytes()))
    );
    plugin.start().await;
    let mut pods = attached(&languages.world, &plugin).await;
    pods.apply("a");
    idle(&languages.world, &plugin).await;
    assert_eq!(hello_log(&languages.world), ["INFO a"]);
    pods.apply("bad");
    let failure = || {
        hello_log(&languages.world)
            .into_iter()
            .find(|line| line.contains("RangeError: too "))
    };
    languages.world.until("it to fail", || failure().is_some()).await;
    let failure = failure().unwrap();
    assert!(failure.contains("handler.ts:7:"), "{failure}");
    // What is left of it is kept, and used by the next host.
    let kept = World::scripts_cache().join(format!("{}-erased-1.js", plugin.digest()));
    let erased = fs::read_to_string(kept).unwrap();
    assert!(
        erased.contains("export const onAdd = (pod     , event                 )       => {"),
        "{erased}"
    );
}

#[tokio::test(start_paused = true)]
async fn typescript_that_is_not_erasable_changes_nothing() {
    if !can_run() {
        return;
    }
    let languages = Languages::new();
    let spec = languages.spec("handler.ts", "export const onAdd = (pod: object) => {};");
    let plugin = languages.world.load(spec).await.unwrap();
    let before = plugin.digest();
    let mut refusals = Vec::new();
    for text in [
        "enum Phase { Failed }\nexport const onAdd = () => {};",
        "export const onAdd = (pod: ) => {};",
        "export const onAdd = (pod: object) => {};\nthrow new Error('at the top');",
        "import { Pod } from 'informant';\nexport const onAdd = (pod: Pod) => {};",
    ] {
        let path = languages.write("handler.ts", text);
        refusals.push(languages.shown(&plugin.swap(&path).await.unwrap_err()));
    }
    let expected = [
        "FOLDER/handler.ts:1:1: an enum needs more than erasing its types; write an object: const Phase = { … }",
        "FOLDER/handler.ts:1:28: SyntaxError: Unexpected token",
        "FOLDER/handler.ts:2:",
        "handler.ts:1 imports Pod from \"informant\", which does not export it; if it is a type, write `type Pod`",
    ];
    for (refusal, expected) in refusals.iter().zip(expected) {
        assert!(refusal.contains(expected), "{refusal}");
    }
    assert_eq!(plugin.digest(), before);
}
