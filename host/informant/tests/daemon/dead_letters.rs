//! The log of events that failed permanently.

use serde_json::json;

use crate::program::{Program, transcript};
use crate::world::{World, until};

#[tokio::test(flavor = "multi_thread")]
async fn dead_letter_is_logged_with_the_command_to_requeue_it() {
    let world = World::start().await;
    world.create_pod("web-0", "nginx");
    world.install("guest-recorder", "recorder.wasm");
    let config = "[informer.pods]\nresource = \"v1/pods\"\n[plugin.recorder]\ncomponent = \"recorder.wasm\"\n\
        informers = [\"pods\"]\nconfig = { rules = [{ name = \"web-0\", do = \"permanent\" }] }\n";
    let program = Program::run(&world, config).await;
    let line = program.logged("event dead-lettered").await;
    assert_eq!(line["level"], "WARN");
    let fields = &line["fields"];
    assert_eq!(fields["message"], "event dead-lettered");
    assert_eq!(
        fields["redeliver"],
        "informant plugin requeue recorder --resource v1/pods --key default/web-0"
    );
    for (field, value) in [
        ("plugin", "recorder"),
        ("informer", "pods"),
        ("resource", "v1/pods"),
        ("event", "add"),
        ("key", "default/web-0"),
    ] {
        assert_eq!(fields[field], value, "{fields}");
    }
    assert_eq!(fields["error"], "asked to fail for good");
    assert_eq!(fields["attempts"], 1);

    let listens = program.logged("admin server listening").await;
    let address = listens["fields"]["address"].as_str().unwrap();
    let args = [
        "plugin",
        "requeue",
        "recorder",
        "--key",
        "default/web-0",
        "--admin",
        address,
    ];
    assert_eq!(
        transcript(&world, &args).await,
        "exit 0\nplugin/recorder requeued: 1\n--"
    );
}

#[tokio::test(flavor = "multi_thread")]
async fn objects_of_one_name_are_told_apart_by_their_resource() {
    let world = World::start().await;
    world.create_pod("same", "nginx");
    let map = json!({ "metadata": { "name": "same", "namespace": "default" } });
    world.server.create("v1/configmaps", "default", map).unwrap();
    world.install("guest-recorder", "recorder.wasm");
    let config = "[informer.all]\nresource = \"*\"\n[plugin.recorder]\ncomponent = \"recorder.wasm\"\n\
        informers = [\"all\"]\nconfig = { rules = [{ name = \"same\", do = \"permanent\" }] }\n";
    let program = Program::run(&world, config).await;
    let address = program.address().to_string();
    let ask = async |args: &str| {
        let mut all = vec!["plugin"];
        all.extend(args.split(' '));
        all.extend(["--admin", &address]);
        transcript(&world, &all).await
    };
    let list = until("both dead letters", async || {
        let list = ask("dead-letters recorder").await;
        if list.matches("default/same").count() == 2 {
            Ok(list)
        } else {
            Err(list)
        }
    })
    .await;
    assert!(list.contains("v1/configmaps") && list.contains("v1/pods"), "{list}");
    let of_pods = ask("dead-letters --resource pods -n default -o json").await;
    assert!(
        of_pods.contains("v1/pods") && !of_pods.contains("v1/configmaps"),
        "{of_pods}"
    );
    let ambiguous = "exit 1\n--\nerror: several objects have the key default/same: v1/configmaps default/same, v1/pods \
        default/same; choose one with `resource` (--resource)";
    for verb in ["requeue", "trigger"] {
        assert_eq!(
            ask(&format!("{verb} recorder --key default/same")).await.trim_end(),
            ambiguous
        );
        let one = ask(&format!("{verb} recorder --key default/same --resource Pod")).await;
        // The trigger may find the requeued event pending.
        assert!(one.starts_with("exit 0\nplugin/recorder"), "{one}");
    }
    let nothing = ask("requeue recorder").await;
    assert!(nothing.starts_with("exit 2") && nothing.contains("--all"), "{nothing}");
    let elsewhere = ask("requeue recorder -n elsewhere").await;
    assert_eq!(elsewhere, "exit 0\nplugin/recorder has no such dead letters\n--");
}

#[tokio::test(flavor = "multi_thread")]
async fn log_lines_are_shown_and_a_plugin_is_restarted() {
    let world = World::start().await;
    world.create_pod("web-0", "nginx");
    world.install("guest-recorder", "recorder.wasm");
    let config = "[informer.pods]\nresource = \"v1/pods\"\n[plugin.recorder]\ncomponent = \"recorder.wasm\"\n\
        informers = [\"pods\"]\nconfig = { rules = [{ name = \"web-0\", do = \"permanent\" }] }\n";
    let program = Program::run(&world, config).await;
    program.logged("event dead-lettered").await;
    let address = program.address().to_string();
    let ask = async |args: &[&str]| transcript(&world, &[&["plugin"], args, &["--admin", &address]].concat()).await;
    let lines = ask(&["logs", "recorder"]).await;
    assert!(lines.contains("event dead-lettered plugin=recorder"), "{lines}");
    let last = ask(&["logs", "recorder", "--tail", "1"]).await;
    assert_eq!(last.lines().count(), 3, "{last}");
    assert_eq!(
        ask(&["restart", "recorder"]).await,
        "exit 0\nplugin/recorder restarted\n--"
    );
    program.logged("plugin restarted").await;
    let unknown = ask(&["logs", "recodrer"]).await;
    assert!(unknown.contains("did you mean `recorder`?"), "{unknown}");
}
