//! Ways of writing config.toml: partial writes, swapped symlinks, touches, many edits. Each content is applied at most
//! once.

use std::fs::{File, OpenOptions};
use std::io::Write as _;
use std::os::unix::fs::symlink;
use std::time::{Duration, SystemTime};

use super::world::{Running, World, until};

const PODS: &str = "[informer.pods]\nresource = \"v1/pods\"\n";
const RELOADS: &str = "informant_config_reloads_total";

/// A configuration whose first half is valid by itself, and removes the plugin.
fn text(label: &str) -> (String, String) {
    let first = format!("[admin]\nlisten = \"127.0.0.1:0\"\n{PODS}");
    let plugin = "[plugin.recorder]\ncomponent = \"recorder.wasm\"\ninformers = [\"pods\"]\non-reload = \"continue\"\n";
    (first, format!("{plugin}config = {{ label = \"{label}\" }}\n"))
}

fn whole(label: &str) -> String {
    let (first, second) = text(label);
    first + &second
}

async fn started(world: &World) -> Running {
    world.install("guest-recorder", "recorder.wasm");
    world.write("config.toml", whole("0").as_bytes());
    let daemon = world.daemon_on_file().await;
    daemon.wait_for_events("recorder", "sync", 1.0).await;
    daemon
}

/// Asserts that this many contents were applied, and nothing else was validated.
async fn wait_for_applied(daemon: &Running, contents: usize) {
    daemon
        .wait_for_metric(RELOADS, &["result=\"ok\""], contents as f64)
        .await;
    assert_eq!(daemon.metric(RELOADS, &[]).await, contents as f64);
    let instances = daemon
        .metric("informant_plugin_reloads_total", &["plugin=\"recorder\""])
        .await;
    assert_eq!(instances, contents as f64, "one instance for each");
}

#[tokio::test(flavor = "multi_thread")]
async fn partial_write_is_never_applied() {
    let world = World::start().await;
    let daemon = started(&world).await;
    let pauses_ms = [0, 5, 15, 25, 60, 150, 400];
    for (number, pause_ms) in pauses_ms.into_iter().enumerate() {
        let (first, second) = text(&format!("{}", number + 1));
        let mut file = File::create(world.path("config.toml")).unwrap();
        file.write_all(first.as_bytes()).unwrap();
        // A slow writer.
        tokio::time::sleep(Duration::from_millis(pause_ms)).await;
        file.write_all(second.as_bytes()).unwrap();
        drop(file);
        wait_for_applied(&daemon, number + 1).await;
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn config_map_swap_is_applied_once_if_its_content_changed() {
    let world = World::start().await;
    world.install("guest-recorder", "recorder.wasm");
    // Some consecutive versions are equal.
    let versions = ["0", "0", "1", "1", "2", "2", "3"];
    for (number, label) in versions.iter().enumerate() {
        std::fs::create_dir(world.path(&format!("v{number}"))).unwrap();
        std::fs::write(world.path(&format!("v{number}/config.toml")), whole(label)).unwrap();
    }
    symlink("v0", world.path("..data")).unwrap();
    symlink("..data/config.toml", world.path("config.toml")).unwrap();
    let daemon = world.daemon_on_file().await;
    daemon.wait_for_events("recorder", "sync", 1.0).await;
    for (number, label) in versions.iter().enumerate().skip(1) {
        symlink(format!("v{number}"), world.path("..data_tmp")).unwrap();
        std::fs::rename(world.path("..data_tmp"), world.path("..data")).unwrap();
        // Like the kubelet: the old target is removed.
        std::fs::remove_dir_all(world.path(&format!("v{}", number - 1))).unwrap();
        wait_for_applied(&daemon, label.parse().unwrap()).await;
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn touched_or_rewritten_file_is_not_applied_again() {
    let world = World::start().await;
    let daemon = started(&world).await;
    let mut pace = tokio::time::interval(Duration::from_millis(10));
    for round in 0..40 {
        pace.tick().await;
        match round % 4 {
            0 => std::fs::write(world.path("config.toml"), whole("0")).unwrap(),
            1 => world.write("config.toml", whole("0").as_bytes()),
            2 => {
                let file = OpenOptions::new().append(true).open(world.path("config.toml")).unwrap();
                file.set_modified(SystemTime::now()).unwrap();
            }
            _ => {
                // Moved away and back.
                std::fs::rename(world.path("config.toml"), world.path("elsewhere")).unwrap();
                std::fs::rename(world.path("elsewhere"), world.path("config.toml")).unwrap();
            }
        }
    }
    // The last change is seen last: if any of these had been applied, it would have been counted before.
    world.write("config.toml", whole("1").as_bytes());
    wait_for_applied(&daemon, 1).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn last_of_a_hundred_edits_a_second_is_applied_once() {
    const EDITS: usize = 200;
    let world = World::start().await;
    let daemon = started(&world).await;
    let mut pace = tokio::time::interval(Duration::from_millis(10));
    for edit in 1..=EDITS {
        pace.tick().await;
        let rest = if edit == EDITS {
            ", rules = [{ do = \"permanent\" }]"
        } else {
            ""
        };
        let label = format!("{edit}\"{rest} }}\n# {{ \"");
        world.write("config.toml", whole(&label).as_bytes());
    }
    // Only the last version fails on its events.
    let mut pods = 0;
    until("the last version to be in force", async || {
        pods += 1;
        world.create_pod(&format!("web-{pods}"), "nginx");
        let labels = ["plugin=\"recorder\""];
        match daemon.metric("informant_dead_letters", &labels).await {
            0.0 => Err("no dead letter".to_owned()),
            _ => Ok(()),
        }
    })
    .await;
    let total = daemon.metric(RELOADS, &[]).await;
    let good = daemon.metric(RELOADS, &["result=\"ok\""]).await;
    assert!(total == good && good <= EDITS as f64, "{good} of {total}");
}
