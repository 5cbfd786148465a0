//! Components for other versions of the contract: what this Informant lacks traps when it is called, and no earlier.

use std::fmt::Write as _;
use std::fs;

use informant_spec::PluginSpec;
use serde_json::json;

use crate::world::World;

/// What differs from one component to the next.
struct Text {
    /// The contract's version.
    version: &'static str,
    /// What on-synced does.
    action: &'static str,
    /// Whether it imports an interface that this Informant lacks.
    chart: bool,
    /// Whether it exports a role that this Informant lacks.
    role: bool,
    /// Members of the manifest.
    members: &'static str,
}

const NEWER: Text = Text {
    version: "0.3.9",
    action: "",
    chart: false,
    role: false,
    members: "",
};

impl Text {
    fn component(&self) -> Vec<u8> {
        let chart = r#"(import "informant:plugin/chart@VERSION" (instance $chart
            (export "draw" (func (param "points" u32)))))"#;
        // A component that does not import it calls nothing.
        let (chart, lowered) = match self.chart {
            true => (chart, r#"(core func $draw-lowered (canon lower (func $chart "draw")))"#),
            false => (
                "",
                r#"(core module $no-chart (func (export "draw") (param i32) unreachable))
                (core instance $no-chart (instantiate $no-chart))
                (alias core export $no-chart "draw" (core func $draw-lowered))"#,
            ),
        };
        let role = r#"(instance $timers) (export "informant:plugin/timers@VERSION" (instance $timers))"#;
        let manifest_bytes = r#"{"name":"newer","version":"1"}"#.len() + self.members.len();
        let text = include_str!("newer-patch.wat")
            .replace("  CHART", chart)
            .replace("  LOWERED", lowered)
            .replace("  ROLE)", if self.role { role } else { "" })
            .replace("ACTION\n", &format!("{}\n", self.action))
            .replace("ROLES", &self.members.replace('"', "\\\""))
            .replace("const LENGTH", &format!("const {manifest_bytes}"))
            .replace("VERSION", self.version);
        wat::parse_str(format!("{text})")).unwrap()
    }

    fn spec(&self, world: &World) -> PluginSpec {
        let file = world.cache.path().join("newer.wasm");
        fs::write(&file, self.component()).unwrap();
        PluginSpec::new("newer", file)
    }
}

/// Runs it until it logs `message`. Returns its lines until then, without those of its compile.
async fn lines_until(text: &Text, message: &str) -> String {
    let world = World::new();
    let plugin = world.load(text.spec(&world)).await.unwrap();
    plugin.start().await;
    let mut pods = world.pods("pods");
    pods.attach(&plugin.listener());
    world
        .until("its line", || {
            world.log.lines().iter().any(|line| line.message == message)
        })
        .await;
    let mut text = String::new();
    let lines = world.log.lines().into_iter();
    for line in lines.skip_while(|line| line.message.contains("component")) {
        writeln!(text, "{}{}", line.message, line.fields).unwrap();
        if line.message == message {
            break;
        }
    }
    text
}

async fn refusal(text: &Text) -> String {
    let world = World::new();
    let error = world.load(text.spec(&world)).await.err().expect("it was loaded");
    let folder = world.cache.path().display().to_string();
    error.to_string().replace(&folder, "FOLDER")
}

#[tokio::test(start_paused = true)]
async fn known_functions_of_a_newer_patch_work() {
    insta::assert_snapshot!(lines_until(&NEWER, "known").await, @r#"
    plugin imports functions of a newer contract; calling one traps plugin="newer" functions="log.flush"
    known plugin="newer" stream="log"
    "#);
}

#[tokio::test(start_paused = true)]
async fn an_unknown_function_traps_when_it_is_called() {
    let text = Text {
        action: "(call $flush (i32.const 1))",
        ..NEWER
    };
    insta::assert_snapshot!(lines_until(&text, "plugin instance lost").await, @r#"
    plugin imports functions of a newer contract; calling one traps plugin="newer" functions="log.flush"
    known plugin="newer" stream="log"
    plugin instance lost plugin="newer" export="on-synced" object="v1 Pods of source 1" error="log.flush is not part of the contract 0.3.0, which this Informant has"
    "#);
}

#[tokio::test(start_paused = true)]
async fn an_unknown_interface_traps_when_it_is_called() {
    let text = Text {
        action: "(call $draw (i32.const 3))",
        chart: true,
        ..NEWER
    };
    insta::assert_snapshot!(lines_until(&text, "plugin instance lost").await, @r#"
    plugin imports functions of a newer contract; calling one traps plugin="newer" functions="log.flush, chart.draw"
    known plugin="newer" stream="log"
    plugin instance lost plugin="newer" export="on-synced" object="v1 Pods of source 1" error="chart.draw is not part of the contract 0.3.0, which this Informant has"
    "#);
}

#[tokio::test]
async fn unknown_functions_of_the_same_version_are_rejected() {
    let same = Text {
        version: "0.3.0",
        ..NEWER
    };
    insta::assert_snapshot!(refusal(&same).await, @r#"plugin "newer": FOLDER/newer.wasm: its imports do not match the contract: component imports instance `informant:plugin/log@0.3.0`, but a matching implementation was not found in the linker: instance export `flush` has the wrong type: function implementation is missing; build it with the SDK for contract 0.3.0"#);
    insta::assert_snapshot!(refusal(&Text { chart: true, ..same }).await, @r#"plugin "newer": FOLDER/newer.wasm: imports informant:plugin/chart@0.3.0, which Informant does not provide yet; upgrade Informant, or build it without this import"#);
}

#[tokio::test]
async fn an_unknown_role_is_rejected_unless_the_manifest_omits_it() {
    let with_role = Text { role: true, ..NEWER };
    insta::assert_snapshot!(refusal(&with_role).await, @r#"plugin "newer": FOLDER/newer.wasm: exports the role timers, which this Informant (contract 0.3.0) does not know and would never call; upgrade Informant, or leave the role out: list the others as `roles` in the manifest"#);
    let omitted = Text {
        members: r#","roles":["sync-handler"]"#,
        ..with_role
    };
    let world = World::new();
    let plugin = world.load(omitted.spec(&world)).await.unwrap();
    assert_eq!(plugin.roles().to_string(), "sync-handler");
}

#[tokio::test]
async fn inspect_shows_contract_and_missing_functions() {
    let world = World::new();
    let text = Text { chart: true, ..NEWER };
    let inspection = world
        .inspect(text.spec(&world).content.path(), json!({}))
        .await
        .unwrap();
    assert_eq!(inspection.contract, "0.3.9");
    assert_eq!(inspection.stubs, ["log.flush", "chart.draw"]);
    assert_eq!(inspection.sdk, None);
}
