//! Components are compiled in a child process, confined and with limits on time and memory, so that a hostile one does
//! not affect the daemon.

use std::fmt::Write as _;
use std::fs;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Duration;

use informant::Metrics;
use informant_cache::{Catalog, Environment};
use informant_informer::TokioEnvironment;
use informant_plugin_host::{
    ChildCompiler, CompileLimits, Compiler, HostOptions, PluginHost, PluginState, RunnerSources, Services,
};
use informant_spec::{Content, PluginSpec};
use tokio::runtime::Handle;

use super::program::Program;
use super::world::{World, component, http_get, until};

/// A host that compiles in a child process, in `folder`.
fn host(folder: &Path, limits: CompileLimits) -> PluginHost {
    let compiler = ChildCompiler {
        program: PathBuf::from(env!("CARGO_BIN_EXE_informant")),
        arguments: vec!["compile-component".into()],
        limits,
    };
    host_with(folder, compiler)
}

fn host_with(folder: &Path, compiler: ChildCompiler) -> PluginHost {
    let env: Arc<dyn Environment> = Arc::new(TokioEnvironment::current(1));
    PluginHost::new(HostOptions {
        cache_dir: folder.join("artifacts"),
        env,
        handle: Handle::current(),
        compiler: Compiler::Child(compiler),
        services: Services {
            catalog: Catalog::new(),
            kube: None,
            key_value: None,
            http: None,
            observer: None,
            gate: None,
        },
        metrics: Metrics::new().plugins,
        script_runners: RunnerSources::new(),
    })
    .unwrap()
}

/// A component with a plugin's exports and `module` as its code.
fn with_module(module: &str) -> Vec<u8> {
    let text = format!(
        r#"(component
            (core module {module})
            (instance $nothing)
            (export "informant:plugin/lifecycle@0.3.0" (instance $nothing))
            (export "informant:plugin/event-handler@0.3.0" (instance $nothing)))"#
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
    let content = Content::new(spec.content.clone(), fs::read(spec.content.path()).unwrap());
    let plugin = patient.load(spec, content).await.unwrap();
    plugin.start().await;
    let digest = plugin.digest();
    let refusal = async |bytes: Vec<u8>| {
        let prepared = plugin.prepare_version(Content::new("next.wasm", bytes)).await;
        prepared.map(|_| ()).unwrap_err().to_string()
    };
    let zeroes = refusal(vec![0; 1 << 20]).await;
    // A well-formed component with invalid code: wasmtime's message comes back from the child.
    let mut broken = with_module("(func call 0)");
    let call = broken.windows(2).position(|pair| pair == [0x10, 0x00]).unwrap();
    broken[call + 1] = 7;
    let invalid = refusal(broken).await;
    insta::assert_snapshot!([zeroes, invalid].join("\n"), @r#"
    plugin "recorder": next.wasm: not WebAssembly: it starts with zeros, as after a failed copy or download; use the .wasm file that the build produces (Rust: cargo build --target wasm32-wasip2 --release)
    plugin "recorder": next.wasm: does not compile: failed to compile: wasm[0]::function[0]: WebAssembly translation error: Invalid input WebAssembly code at offset 33: unknown function 7: function index out of bounds
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
    let content = Content::new("bomb.wasm", with_module(&bomb(2_000, 2_000)));
    let error = host(folder.path(), limits)
        .inspect(&content, serde_json::json!({}))
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
    let content = Content::new("bomb.wasm", with_module(&bomb(2_000, 2_000)));
    let error = host(folder.path(), limits)
        .inspect(&content, serde_json::json!({}))
        .await
        .unwrap_err();
    insta::assert_snapshot!(error.problem(), @"does not compile: it needs more than 1024 MiB of memory, the limit for compiling one component");
}

#[cfg(target_os = "linux")]
#[tokio::test(flavor = "multi_thread")]
async fn an_abandoned_compile_ends_its_process() {
    let folder = tempfile::tempdir().unwrap();
    let process = folder.path().join("process");
    // The compiler, after it has written which process it is.
    let script = format!(
        "echo $$ > '{}'; exec '{}' compile-component",
        process.display(),
        env!("CARGO_BIN_EXE_informant")
    );
    let compiler = ChildCompiler {
        program: PathBuf::from("/bin/sh"),
        arguments: vec!["-c".into(), script.into()],
        limits: CompileLimits::default(),
    };
    let host = host_with(folder.path(), compiler);
    let content = Content::new("bomb.wasm", with_module(&bomb(2_000, 2_000)));
    let origin = content.origin().clone();
    let inspects = host.clone();
    let task = tokio::spawn(async move { inspects.inspect(&content, serde_json::json!({})).await.map(|_| ()) });
    let process = until("the compiler", async || {
        let text = fs::read_to_string(&process).unwrap_or_default();
        text.trim().parse::<u32>().map_err(|_| text)
    });
    let process = PathBuf::from(format!("/proc/{}", process.await));
    let compiling = host.compiling(&origin).unwrap();
    assert_eq!(
        (compiling.what.as_str(), compiling.waits_for_bytes),
        ("its component", None)
    );
    assert!(process.exists() && !task.is_finished());
    task.abort();
    until("the end of the compiler", async || {
        match process.exists() || host.compiling(&origin).is_some() {
            true => Err("it runs".to_owned()),
            false => Ok(()),
        }
    })
    .await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_file_that_changes_back_is_not_reloaded() {
    let world = World::start().await;
    world.install("guest-recorder", "recorder.wasm");
    let config = "[informer.pods]\nresource = \"v1/pods\"\n\
                  [plugin.recorder]\ncomponent = \"recorder.wasm\"\ninformers = [\"pods\"]\n";
    let program = Program::run(&world, config).await;
    program.logged("plugin loaded").await;
    let plugin = async || {
        let (_, text) = http_get(program.address(), "/api/v1/plugins").await;
        serde_json::from_str::<serde_json::Value>(&text).unwrap()["items"][0].clone()
    };
    let bomb = with_module(&bomb(2_000, 2_000));
    world.write("recorder.wasm", &bomb);
    let compiling = until("the new version to be compiled", async || {
        let plugin = plugin().await;
        let compiling = plugin["compiling"].as_str().map(str::to_owned);
        compiling.ok_or_else(|| plugin.to_string())
    });
    let compiling = compiling.await;
    assert!(compiling.starts_with("compiling its component, "), "{compiling}");
    world.install("guest-recorder", "recorder.wasm");
    program
        .logged("plugin file has the running version; nothing to reload")
        .await;
    let cancelled = program.logged("compile cancelled").await;
    let file = cancelled["fields"]["file"].as_str().unwrap();
    assert!(file.ends_with("recorder.wasm"), "{cancelled}");
    let plugin = until("nothing to be compiled", async || match plugin().await {
        plugin if plugin["compiling"].is_null() => Ok(plugin),
        plugin => Err(plugin.to_string()),
    });
    let plugin = plugin.await;
    assert_eq!((&plugin["state"], &plugin["reloads"]), (&"running".into(), &0.into()));
}

#[cfg(all(target_os = "linux", any(target_arch = "x86_64", target_arch = "aarch64")))]
mod confined {
    use std::collections::BTreeMap;
    use std::io::Read as _;
    use std::process::{Command, Stdio};
    use std::thread;

    use seccompiler::{BpfProgram, SeccompAction, SeccompFilter};

    use super::*;

    #[test]
    fn compiler_is_confined_before_it_reads_its_input() {
        let mut compiler = Command::new(env!("CARGO_BIN_EXE_informant"))
            .arg("compile-component")
            .env_clear()
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .spawn()
            .unwrap();
        let mut report = [0; 16];
        compiler.stdout.as_mut().unwrap().read_exact(&mut report).unwrap();
        let status = fs::read_to_string(format!("/proc/{}/status", compiler.id())).unwrap();
        // Without input it ends.
        drop(compiler.stdin.take());
        compiler.wait().unwrap();
        assert_eq!(&report[..8], b"confined");
        let value = |name: &str| {
            let value = status.lines().find_map(|line| line.strip_prefix(name));
            value.unwrap_or_else(|| panic!("{name} is not in {status}")).trim()
        };
        // 2: a filter. No thread was created before, which would lack it.
        let values = ["NoNewPrivs:", "Seccomp:", "Threads:"].map(value);
        assert_eq!(values, ["1", "2", "1"], "{status}");
    }

    #[test]
    fn compiler_closes_inherited_descriptors() {
        let folder = tempfile::tempdir().unwrap();
        let mut compiler = Command::new("/bin/sh")
            .args([
                "-c",
                "exec 7<>leaked \"$0\" compile-component",
                env!("CARGO_BIN_EXE_informant"),
            ])
            .current_dir(folder.path())
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .spawn()
            .unwrap();
        let mut report = [0; 16];
        compiler.stdout.as_mut().unwrap().read_exact(&mut report).unwrap();
        let open = fs::read_dir(format!("/proc/{}/fd", compiler.id())).unwrap();
        let mut open: Vec<_> = open
            .map(|entry| entry.unwrap().file_name().into_string().unwrap())
            .collect();
        open.sort();
        drop(compiler.stdin.take());
        compiler.wait().unwrap();
        assert_eq!(open, ["0", "1", "2"]);
    }

    #[test]
    fn components_compile_without_landlock_and_it_is_logged() {
        let folder = tempfile::tempdir().unwrap();
        // The program and its compiler inherit what this thread gives up.
        let inspected = thread::scope(|scope| {
            let inspect = || {
                let calls = BTreeMap::from([(libc::SYS_landlock_create_ruleset, Vec::new())]);
                let unknown = SeccompAction::Errno(libc::ENOSYS.unsigned_abs());
                let arch = std::env::consts::ARCH.try_into().unwrap();
                let filter = SeccompFilter::new(calls, SeccompAction::Allow, unknown, arch).unwrap();
                let program: BpfProgram = filter.try_into().unwrap();
                seccompiler::apply_filter(&program).unwrap();
                Command::new(env!("CARGO_BIN_EXE_informant"))
                    .args(["plugin", "inspect"])
                    .arg(component("guest-recorder"))
                    .env("XDG_CACHE_HOME", folder.path())
                    .output()
                    .unwrap()
            };
            scope.spawn(inspect).join().unwrap()
        });
        let log = String::from_utf8(inspected.stderr).unwrap();
        assert!(inspected.status.success(), "{log}");
        assert!(log.contains("compiler not fully confined missing=landlock"), "{log}");
    }
}
