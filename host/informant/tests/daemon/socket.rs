//! The admin socket: commands of the same user need no TLS, token or API server.

use super::program::{Program, informant, transcript};
use super::world::{World, until};

const CONFIG: &str = "socket = \"run/admin.sock\"\ntls = \"self-signed\"\n[informer.pods]\nresource = \"v1/pods\"\n";

/// A daemon whose admin port has TLS, with one pod in its cache.
async fn started(world: &World) -> Program {
    let program = Program::run(world, CONFIG).await;
    program.logged("admin socket listening").await;
    until("the pod", async || {
        let shown = transcript(world, &["get", "pods"]).await;
        if shown.starts_with("exit 0") {
            Ok(())
        } else {
            Err(shown)
        }
    })
    .await;
    program
}

#[tokio::test(flavor = "multi_thread")]
async fn commands_use_the_socket_without_api_server() {
    let world = World::start().await;
    world.create_pod("web-0", "nginx");
    let mut program = started(&world).await;
    world.stop_serving();
    std::fs::remove_file(world.kubeconfig()).unwrap();
    for (args, expected) in [
        (&["status"][..], "pods"),
        (&["get", "pods", "-A"], "web-0"),
        (&["plugin", "list"], "No plugins."),
        (&["log-level", "debug"], "debug (was"),
    ] {
        let shown = transcript(&world, args).await;
        assert!(
            shown.starts_with("exit 0\n") && shown.contains(expected),
            "{args:?}: {shown}"
        );
    }
    let address = program.address().to_string();
    let shown = transcript(&world, &["status", "--admin", &address]).await;
    assert!(!shown.starts_with("exit 0\n"), "--admin overrides the socket: {shown}");
    program.signal("-TERM").await;
    assert_eq!(program.exit_code().await, Some(0));
    assert!(!world.path("run/admin.sock").exists());
}

#[tokio::test(flavor = "multi_thread")]
async fn second_process_on_one_socket_names_it_and_ends() {
    let world = World::start().await;
    let mut program = started(&world).await;
    let args = ["run", "--health-listen=127.0.0.1:0"];
    let second = informant(&world, &args).output().await.unwrap();
    let shown = String::from_utf8(second.stderr).unwrap();
    let named = format!(
        "run/admin.sock is in use by another Informant, process {}",
        program.id()
    );
    assert!(!second.status.success() && shown.contains(&named), "{shown}");
    program.signal("-KILL").await;
    program.exit_code().await;
    assert!(
        world.path("run/admin.sock").exists(),
        "a killed process leaves its socket"
    );
    started(&world).await;
}
