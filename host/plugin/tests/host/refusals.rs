//! Invalid plugins are rejected with a message that says what to change, and nothing of them is kept.

use std::fs;
use std::path::Path;

use informant_spec::{Digest, Limits, PluginSpec};
use serde_json::json;

use crate::world::{World, guest, is_built, spec};

/// The error of a load, without the directory of the guests.
async fn refusal(world: &World, spec: PluginSpec) -> String {
    let folder = spec.content.path().parent().unwrap().display().to_string();
    let error = world.load(spec).await.err().expect("it was loaded");
    error.to_string().replace(&folder, "FOLDER")
}

async fn refusal_of_bytes(world: &World, name: &str, bytes: &[u8]) -> String {
    let file = world.cache.path().join(name);
    fs::write(&file, bytes).unwrap();
    refusal(world, PluginSpec::new("greeter", file)).await
}

#[tokio::test]
async fn files_that_are_not_components_are_rejected() {
    let world = World::new();
    let whole = fs::read(guest("guest_recorder")).unwrap();
    let mut text = String::new();
    for (name, bytes) in [
        ("empty.wasm", &b""[..]),
        ("text.wasm", b"hello, I am a plugin"),
        ("page.wasm", b"<!DOCTYPE html>\n<html><head><title>Sign in"),
        ("zeroes.wasm", &[0; 100_000]),
        ("truncated.wasm", &whole[..20_000]),
        (
            "module.wasm",
            &wat::parse_str("(module (func (export \"on-add\")))").unwrap(),
        ),
    ] {
        text += &refusal_of_bytes(&world, name, bytes).await;
        text.push('\n');
    }
    // The end of the last complete section differs from build to build.
    let (before, after) = text.split_once("invalid WebAssembly at byte ").unwrap();
    let text = format!(
        "{before}invalid WebAssembly at byte POSITION{}",
        after.trim_start_matches(|c: char| c.is_ascii_digit())
    );
    insta::assert_snapshot!(text, @r#"
    plugin "greeter": FOLDER/empty.wasm: not WebAssembly: the file is empty; use the .wasm file that the build produces (Rust: cargo build --target wasm32-wasip2 --release)
    plugin "greeter": FOLDER/text.wasm: not WebAssembly: it starts with the text "hello, I am a plugin"; use the .wasm file that the build produces (Rust: cargo build --target wasm32-wasip2 --release)
    plugin "greeter": FOLDER/page.wasm: not WebAssembly: it is an HTML page, as from a download that required a login; use the .wasm file that the build produces (Rust: cargo build --target wasm32-wasip2 --release)
    plugin "greeter": FOLDER/zeroes.wasm: not WebAssembly: it starts with zeros, as after a failed copy or download; use the .wasm file that the build produces (Rust: cargo build --target wasm32-wasip2 --release)
    plugin "greeter": FOLDER/truncated.wasm: invalid WebAssembly at byte POSITION of 20000: unexpected end-of-file; the file may be truncated, so copy or build it again
    plugin "greeter": FOLDER/module.wasm: a core module, not a component; make one of it: informant plugin build FILE -o NAME.wasm (Rust: build with --target wasm32-wasip2)
    "#);
}

#[tokio::test]
async fn components_that_are_not_plugins_are_rejected() {
    let world = World::new();
    let mut text = String::new();
    for name in [
        "guest_command",
        "guest_no_role",
        "guest_newer",
        "guest_older",
        "guest_foreign_import",
        "guest_half_role",
        "guest_wrong_type",
        "guest_manifest_text",
        "guest_manifest_unknown_key",
    ] {
        text += &refusal(&world, spec(name, json!({}))).await;
        text.push('\n');
    }
    insta::assert_snapshot!(text, @r#"
    plugin "guest_command": FOLDER/guest_command.wasm: a command (it exports wasi:cli/run@0.2.0), not a library; Rust: use crate-type = ["cdylib"] and no main; C and Go: build a reactor (-mexec-model=reactor, -buildmode=c-shared)
    plugin "guest_no_role": FOLDER/guest_no_role.wasm: exports no role; export at least one of event-handler, sync-handler and index-funcs in addition to lifecycle; Rust: list them in export!(Type: events, sync, index)
    plugin "guest_newer": FOLDER/guest_newer.wasm: built for the newer contract 0.4.0, but this Informant supports 0.3.0; upgrade Informant, or build it with an older SDK
    plugin "guest_older": FOLDER/guest_older.wasm: built for the older contract 0.1.0, but this Informant supports 0.3.0; rebuild it with the SDK of this Informant (version 0.1.0)
    plugin "guest_foreign_import": FOLDER/guest_foreign_import.wasm: imports acme:pager/pager@1.0.0, which Informant does not provide; build it without this import, or compose it with a component that exports it (wac plug)
    plugin "guest_half_role": FOLDER/guest_half_role.wasm: on-update of informant:plugin/event-handler@0.3.0 is missing; build it with the SDK for contract 0.3.0
    plugin "guest_wrong_type": FOLDER/guest_wrong_type.wasm: on-add of informant:plugin/event-handler@0.3.0 has the wrong type: expected record of 5 fields, found 6 fields; build it with the SDK for contract 0.3.0
    plugin "guest_manifest_text": FOLDER/guest_manifest_text.wasm: its manifest (returned by describe) is not valid: expected ident at line 1 column 2
    plugin "guest_manifest_unknown_key": FOLDER/guest_manifest_unknown_key.wasm: its manifest (returned by describe) is not valid: events[0]: unknown field `payloads`, expected one of `apiVersion`, `kind`, `payload`, `old`, `changedOnly`, `namespaces`, `labelSelector`; did you mean `payload`?
    "#);
}

#[tokio::test]
async fn wrong_configuration_of_a_manifest_is_named() {
    let world = World::new();
    let mut text = refusal(&world, spec("guest_conformance_rust", json!({ "color": "red" }))).await;
    if is_built("guest_conformance_c") && is_built("guest_conformance_js") {
        text += "\n";
        text += &refusal(&world, spec("guest_conformance_c", json!({ "payload": "half" }))).await;
        let script = r#"
            import { config } from "informant";
            export const manifest = { events: [{ apiVersion: "v1", kind: "Pod", labelSelector: config.label.trim() }] };
            export function onAdd() {}
        "#;
        for config in [json!({ "labels": "app=web" }), json!({ "label": "app=web=yes" })] {
            let file = world.cache.path().join("handler.js");
            fs::write(&file, script).unwrap();
            let spec = PluginSpec {
                config,
                ..PluginSpec::new("greeter", file)
            };
            text += "\n";
            text += &refusal(&world, spec).await;
        }
    }
    insta::assert_snapshot!(text, @r#"
    plugin "guest_conformance_rust": FOLDER/guest_conformance_rust.wasm: describe failed: config: unknown field `color`, expected `payload` or `old`; check the plugin's `config` in config.toml
    plugin "guest_conformance_c": FOLDER/guest_conformance_c.wasm: its manifest (returned by describe) is not valid: events[0].payload: unknown variant `half`, expected one of `none`, `whole`, `metadata`, `fields`; if it depends on the plugin's `config`, check that in config.toml
    plugin "greeter": FOLDER/handler.js:3:96: TypeError: cannot read property 'trim' of undefined
    plugin "greeter": FOLDER/handler.js: its manifest (returned by describe) is not valid: events[0].labelSelector: `labelSelector` "app=web=yes": label selector "app=web=yes", byte 7: found "=", expected "," or the end; if it depends on the plugin's `config`, check that in config.toml
    "#);
}

#[tokio::test]
async fn foreign_components_are_rejected() {
    let world = World::new();
    let http = r#"(component
        (import "wasi:http/incoming-handler@0.2.6" (instance))
        (instance $i)
        (export "informant:plugin/lifecycle@0.3.0" (instance $i))
        (export "informant:plugin/event-handler@0.3.0" (instance $i)))"#;
    let stranger = r#"(component (instance $i) (export "acme:shop/cart@1.0.0" (instance $i)))"#;
    let older = r#"(component (instance $i) (export "informant:plugin/lifecycle@0.0.7" (instance $i)))"#;
    let hollow = r#"(component
        (instance $i)
        (export "informant:plugin/lifecycle@0.3.0" (instance $i))
        (export "informant:plugin/event-handler@0.3.0" (instance $i)))"#;
    let mut text = String::new();
    for (name, component) in [
        ("http.wasm", http),
        ("stranger.wasm", stranger),
        ("older.wasm", older),
        ("hollow.wasm", hollow),
    ] {
        text += &refusal_of_bytes(&world, name, &wat::parse_str(component).unwrap()).await;
        text.push('\n');
    }
    insta::assert_snapshot!(text, @r#"
    plugin "greeter": FOLDER/http.wasm: imports wasi:http/incoming-handler@0.2.6, which Informant does not provide; it provides WASI 0.2 without incoming HTTP, tls, config and keyvalue: build it without them
    plugin "greeter": FOLDER/stranger.wasm: does not export informant:plugin/lifecycle: it is a component, but not a plugin; build it with a plugin SDK (its exports: acme:shop/cart@1.0.0)
    plugin "greeter": FOLDER/older.wasm: built for the older contract 0.0.7, but this Informant supports 0.3.0; rebuild it with the SDK of this Informant (version 0.1.0)
    plugin "greeter": FOLDER/hollow.wasm: describe of informant:plugin/lifecycle@0.3.0 is missing; build it with the SDK for contract 0.3.0
    "#);
}

#[tokio::test]
async fn components_that_misbehave_during_load_are_rejected() {
    let world = World::new();
    let mut text = String::new();
    let limits = Limits {
        cpu: std::time::Duration::from_millis(500),
        memory_bytes: 8 << 20,
        ..Limits::default()
    };
    for name in ["guest_describe_traps", "guest_describe_loops", "guest_describe_grows"] {
        let spec = PluginSpec {
            limits,
            ..spec(name, json!({}))
        };
        text += &refusal(&world, spec).await;
        text.push('\n');
    }
    for action in ["trap", "loop", "grow", "recurse", "exit", "permanent"] {
        let spec = PluginSpec {
            limits,
            ..spec("guest_recorder", json!({ "init": action }))
        };
        text += &refusal(&world, spec).await;
        text.push('\n');
    }
    let unknown = spec("guest_recorder", json!({ "greeting": "hello" }));
    text += &refusal(&world, unknown).await;
    insta::assert_snapshot!(text, @r#"
    plugin "guest_describe_traps": FOLDER/guest_describe_traps.wasm: describe trapped: it panicked; it wrote: panicked at tests/guests/describe-traps/src/lib.rs:9:9: asked to trap in describe
    plugin "guest_describe_loops": FOLDER/guest_describe_loops.wasm: describe did not return: it ran for more than 500ms, the limit for one call (limits.cpu)
    plugin "guest_describe_grows": FOLDER/guest_describe_grows.wasm: describe ran out of memory: it requested 8.1 MiB of memory, but limits.memory = "8MiB" of [plugin.guest_describe_grows]; it wrote: memory allocation of 1048576 bytes failed | note: run with `RUST_BACKTRACE=1` environment variable to display a backtrace
    plugin "guest_recorder": FOLDER/guest_recorder.wasm: init trapped: it panicked; it wrote: panicked at tests/guests/recorder/src/behavior.rs:137:27: asked to trap
    plugin "guest_recorder": FOLDER/guest_recorder.wasm: init did not return: it ran for more than 500ms, the limit for one call (limits.cpu)
    plugin "guest_recorder": FOLDER/guest_recorder.wasm: init ran out of memory: it requested 8.1 MiB of memory, but limits.memory = "8MiB" of [plugin.guest_recorder]; it wrote: memory allocation of 1048576 bytes failed | note: run with `RUST_BACKTRACE=1` environment variable to display a backtrace
    plugin "guest_recorder": FOLDER/guest_recorder.wasm: init trapped: out-of-bounds memory access: unbounded recursion exhausted its stack, or a pointer is invalid
    plugin "guest_recorder": FOLDER/guest_recorder.wasm: init trapped: it called exit(1); a plugin must return instead of exiting
    plugin "guest_recorder": FOLDER/guest_recorder.wasm: init for the role events failed: asked to fail for good; check the plugin's `config` in config.toml
    plugin "guest_recorder": FOLDER/guest_recorder.wasm: init for the role events failed: config: unknown field `greeting`, expected one of `label`, `init`, `rules`, `swallow-every`, `read-back`, `quiet`; check the plugin's `config` in config.toml
    "#);
}

#[tokio::test]
async fn invalid_sections_are_rejected() {
    let world = World::new();
    let mut text = String::new();
    let base = || spec("guest_recorder", json!({}));
    let with = |limits: Limits| PluginSpec { limits, ..base() };
    let default = Limits::default();
    for spec in [
        PluginSpec {
            sha256: Some(Digest::of(b"another file")),
            ..base()
        },
        with(Limits {
            instances: 2,
            ..default
        }),
        with(Limits {
            memory_bytes: 65_536,
            ..default
        }),
    ] {
        let found = Digest::of(&fs::read(guest("guest_recorder")).unwrap()).to_string();
        text += &refusal(&world, spec).await.replace(&found, "FOUND");
        text.push('\n');
    }
    insta::assert_snapshot!(text, @r#"
    plugin "guest_recorder": FOLDER/guest_recorder.wasm: its sha256 is FOUND, but config.toml pins 100ef6a71bac925f709fe9c114c60460bf6e472cfdb9d44bd8adf1698135260f; change `sha256` if the new file is the right one
    plugin "guest_recorder": FOLDER/guest_recorder.wasm: is not parallel, but limits.instances is 2; in [plugin.guest_recorder] of config.toml, set limits.instances to 1; or set `parallel` in its manifest, if its instances need not know of each other's objects
    plugin "guest_recorder": FOLDER/guest_recorder.wasm: cannot be instantiated: it requested 1.0 MiB of memory, but limits.memory = "64KiB" of [plugin.guest_recorder]
    "#);
}

#[tokio::test]
async fn a_rejected_plugin_leaves_no_instance_behind() {
    let world = World::new();
    for _ in 0..3 {
        refusal(&world, spec("guest_recorder", json!({ "init": "trap" }))).await;
    }
    insta::assert_snapshot!(world.metrics("informant_plugin_instances"), @"");
    let plugin = world.load(spec("guest_recorder", json!({}))).await.unwrap();
    insta::assert_snapshot!(world.metrics("informant_plugin_instances"), @r#"informant_plugin_instances{plugin="guest_recorder"} 1"#);
    drop(plugin);
}

#[tokio::test]
async fn inspect_shows_roles_manifest_and_digest() {
    let world = World::new();
    let inspection = world.inspect(&guest("guest_both"), json!({})).await.unwrap();
    insta::assert_snapshot!(inspection.roles, @"event-handler, sync-handler, index-funcs");
    assert_eq!(inspection.manifest.index_names(), ["name"]);
    assert!(
        inspection
            .imports
            .iter()
            .any(|import| import.starts_with("informant:plugin/log@"))
    );
    assert_eq!(inspection.digest, Digest::of(&fs::read(guest("guest_both")).unwrap()));
    let error = world
        .inspect(Path::new("/no/such/file.wasm"), json!({}))
        .await
        .unwrap_err();
    insta::assert_snapshot!(error, @"/no/such/file.wasm: cannot be read: No such file or directory (os error 2)");
}

#[tokio::test]
async fn a_result_that_is_too_large_is_rejected() {
    let world = World::new();
    let component = wat::parse_str(include_str!("huge-result.wat")).unwrap();
    insta::assert_snapshot!(refusal_of_bytes(&world, "huge.wasm", &component).await, @r#"plugin "greeter": FOLDER/huge.wasm: describe trapped: it passed more than 16 MiB in one call"#);
}
