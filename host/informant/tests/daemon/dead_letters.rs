//! The log of events that failed permanently.

use crate::program::{Program, transcript};
use crate::world::World;

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
        "informant plugin requeue recorder --key default/web-0"
    );
    for (field, value) in [
        ("plugin", "recorder"),
        ("informer", "pods"),
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
