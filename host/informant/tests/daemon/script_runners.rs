//! Runners of scripts: installed after the start, and named in the configuration.

use serde_json::Value;

use super::program::{informant, transcript};
use super::world::{World, component, until};

/// The runner of JavaScript under another name, which stands in for that of another language. None where there is no C
/// compiler for WebAssembly, but never in CI.
fn lua_runner() -> Option<Vec<u8>> {
    if std::env::var_os("INFORMANT_TESTS_WITHOUT_SCRIPTS").is_some() {
        return None;
    }
    let runner = std::fs::read(component("informant-script-runner")).unwrap();
    let contract = informant_plugin_host::CONTRACT;
    let document = format!(r#"{{"language":"Lua","suffixes":["lua"],"version":"5.4","contract":"{contract}"}}"#);
    let content = ["\u{10}informant:runner", &document].concat();
    // Below 128 bytes, as WebAssembly encodes a number in one.
    let length = u8::try_from(content.len()).unwrap();
    assert!(length < 128);
    Some([&runner[..], &[0, length], content.as_bytes()].concat())
}

const CONFIG: &str = "\
[script-runners]
lua = \"lua.wasm\"

[informer.pods]
resource = \"v1/pods\"

[plugin.greeter]
script = \"greeter.lua\"
informers = [\"pods\"]
";

const GREETER: &str = "export const onAdd = (pod) => console.log(pod.metadata.name);";

#[tokio::test(flavor = "multi_thread")]
async fn a_refused_script_runs_when_its_runner_is_installed() {
    let Some(runner) = lua_runner() else { return };
    let world = World::start().await;
    world.create_pod("web-0", "nginx");
    std::fs::write(world.path("greeter.lua"), GREETER).unwrap();
    let daemon = world.daemon(CONFIG).await;
    let plugin = async || daemon.json("/api/v1/plugins").await["items"][0].clone();
    let in_state = async |state: &str| {
        until(state, async || match plugin().await {
            plugin if plugin["state"] == state => Ok(plugin),
            plugin => Err(plugin.to_string()),
        })
        .await
    };
    let refused = in_state("refused").await;
    let because = refused["because"].as_str().unwrap();
    let expected = "lua.wasm, cannot be read: No such file or directory (os error 2)";
    assert!(because.contains(expected), "{because}");
    std::fs::write(world.path("lua.wasm"), runner).unwrap();
    daemon.reload();
    let running = in_state("running").await;
    assert_eq!(
        (&running["runner"]["language"], &running["runner"]["version"]),
        (&"Lua".into(), &"5.4".into())
    );
    daemon.wait_for_events("greeter", "add", 1.0).await;
    daemon.stop().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn inspect_finds_the_runner_in_the_configuration() {
    let Some(runner) = lua_runner() else { return };
    let world = World::unreachable().await;
    std::fs::write(world.path("greeter.lua"), GREETER).unwrap();
    std::fs::write(world.path("lua.wasm"), runner).unwrap();
    world.configure(CONFIG);
    let args = [
        "plugin",
        "inspect",
        "greeter.lua",
        "--config",
        "config.toml",
        "-o",
        "json",
    ];
    let inspected = informant(&world, &args)
        .current_dir(world.path("."))
        .output()
        .await
        .unwrap();
    let inspected: Value = serde_json::from_slice(&inspected.stdout).unwrap();
    assert_eq!(inspected["runner"]["language"], "Lua");
    let checked = transcript(&world, &["check", "--offline"]).await;
    assert!(checked.contains("plugin greeter: greeter "), "{checked}");
    let without = ["plugin", "inspect", "greeter.lua"];
    let without = informant(&world, &without)
        .current_dir(world.path("."))
        .output()
        .await
        .unwrap();
    let message = String::from_utf8(without.stderr).unwrap();
    let expected = "no script runner is known for .lua files; scripts end in .js, .mjs, .ts, .mts, .py; to add";
    assert!(message.contains(expected), "{message}");
}

#[tokio::test(flavor = "multi_thread")]
async fn changed_script_runners_wait_for_a_restart() {
    let world = World::start().await;
    let pods = "[informer.pods]\nresource = \"v1/pods\"\n";
    let daemon = world.daemon(pods).await;
    world.configure(&format!("[script-runners]\nlua = \"lua.wasm\"\n{pods}"));
    let waiting = until("a pending section", async || {
        let configuration = daemon.json("/api/v1/configuration").await;
        match configuration["waiting"][0].clone() {
            Value::Null => Err(configuration.to_string()),
            waiting => Ok(waiting),
        }
    })
    .await;
    assert_eq!(waiting["section"], "script-runners");
    daemon.stop().await;
}
