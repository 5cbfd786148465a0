//! Components are compiled in a child process, with limits on time and memory, so that a hostile one does not affect
//! the daemon.

use std::fmt::Write as _;
use std::fs;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Duration;

use informant::Metrics;
use informant_cache::{Catalog, Environment};
use informant_informer::TokioEnvironment;
use informant_plugin_host::{ChildCompiler, CompileLimits, Compiler, HostOptions, PluginHost, PluginSpec, PluginState};
use tokio::runtime::Handle;

use super::world::component;

/// A host that compiles in a child process, in `folder`.
fn host(folder: &Path, limits: CompileLimits) -> PluginHost {
    let env: Arc<dyn Environment> = Arc::new(TokioEnvironment::current(1));
    PluginHost::new(HostOptions {
        cache_dir: folder.join("artifacts"),
        env,
        handle: Handle::current(),
        compiler: Compiler::Child(ChildCompiler {
            program: PathBuf::from(env!("CARGO_BIN_EXE_informant")),
            arguments: vec!["compile-component".into()],
            limits,
        }),
        catalog: Catalog::new(),
        metrics: Metrics::new().plugins,
        kube: None,
        key_value: None,
        http: None,
        script_runner: None,
    })
    .unwrap()
}

/// A component with a plugin's exports and `module` as its code.
fn with_module(module: &str) -> Vec<u8> {
    let text = format!(
        r#"(component
            (core module {module})
            (instance $nothing)
            (export "informant:plugin/lifecycle@0.2.0" (instance $nothing))
            (export "informant:plugin/event-handler@0.2.0" (instance $nothing)))"#
    );
    wat::parse_str(text).unwrap()
}

/// A small module that takes much time and memory to compile: in each of many nested loops each of many variables may
/// have one of two values.
fn bomb(loops: usize, variables: usize) -> String {
    let mut text = String::from("(func (param i32)");
    for _ in 0..variables {
        text.push_str(" (local i64)");
    }
    for _ in 0..loops {
        text.push_str(" loop");
    }
    for variable in 1..=variables {
        let other = variable % variables + 1;
        write!(
            text,
            " local.get {variable} local.get {other} i64.xor i64.const {variable} i64.add local.set {variable}"
        )
        .unwrap();
    }
    for _ in 0..loops {
        text.push_str(" local.get 0 br_if 0 end");
    }
    text.push(')');
    text
}

#[tokio::test(flavor = "multi_thread")]
async fn uncompilable_component_is_refused_and_the_previous_one_continues() {
    let folder = tempfile::tempdir().unwrap();
    let limits = CompileLimits {
        time: Duration::from_secs(30),
        ..CompileLimits::default()
    };
    let patient = host(folder.path(), limits);
    let spec = PluginSpec::new("recorder", component("guest-recorder"));
    // Compiled by the child, loaded from the directory, run here.
    let plugin = patient.load(spec.clone()).await.unwrap();
    plugin.start().await;
    let digest = plugin.digest();
    let file = folder.path().join("next.wasm");

    fs::File::create(&file).unwrap().set_len(500 << 20).unwrap();
    let too_large = plugin.swap(&file).await.map(|_| ()).unwrap_err();
    fs::write(&file, vec![0; 1 << 20]).unwrap();
    let zeroes = plugin.swap(&file).await.map(|_| ()).unwrap_err();
    // A well-formed component with invalid code: wasmtime's message comes back from the child.
    let mut broken = with_module("(func call 0)");
    let call = broken.windows(2).position(|pair| pair == [0x10, 0x00]).unwrap();
    broken[call + 1] = 7;
    fs::write(&file, broken).unwrap();
    let invalid = plugin.swap(&file).await.map(|_| ()).unwrap_err();
    let text = [too_large, zeroes, invalid].map(|error| error.to_string()).join("\n");
    insta::assert_snapshot!(text.replace(&folder.path().display().to_string(), "FOLDER"), @r#"
    plugin "recorder": FOLDER/next.wasm: too large: 500 MiB; a component may have at most 64 MiB
    plugin "recorder": FOLDER/next.wasm: not WebAssembly: it starts with zeros, as after a failed copy or download; use the .wasm file that the build produces (Rust: cargo build --target wasm32-wasip2 --release)
    plugin "recorder": FOLDER/next.wasm: does not compile: failed to compile: wasm[0]::function[0]: WebAssembly translation error: Invalid input WebAssembly code at offset 33: unknown function 7: function index out of bounds
    "#);
    assert_eq!((plugin.digest(), plugin.status().state), (digest, PluginState::Running));
    plugin.stop(Duration::from_secs(1)).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn compilation_is_limited_in_time() {
    let folder = tempfile::tempdir().unwrap();
    let limits = CompileLimits {
        time: Duration::from_secs(2),
        memory_bytes: 16 << 30,
    };
    let file = folder.path().join("bomb.wasm");
    fs::write(&file, with_module(&bomb(2_000, 2_000))).unwrap();
    let error = host(folder.path(), limits)
        .inspect(&file, serde_json::json!({}))
        .await
        .unwrap_err();
    insta::assert_snapshot!(error.problem(), @"does not compile: it takes longer than 2s, the limit for compiling one component");
}

#[cfg(target_os = "linux")]
#[tokio::test(flavor = "multi_thread")]
async fn compilation_is_limited_in_memory() {
    let folder = tempfile::tempdir().unwrap();
    let limits = CompileLimits {
        time: Duration::from_secs(120),
        memory_bytes: 1 << 30,
    };
    let file = folder.path().join("bomb.wasm");
    fs::write(&file, with_module(&bomb(2_000, 2_000))).unwrap();
    let error = host(folder.path(), limits)
        .inspect(&file, serde_json::json!({}))
        .await
        .unwrap_err();
    insta::assert_snapshot!(error.problem(), @"does not compile: it needs more than 1024 MiB of memory, the limit for compiling one component");
}
