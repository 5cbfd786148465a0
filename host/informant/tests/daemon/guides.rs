//! The commands of guides that no single daemon on one configuration can show, run in a shell.

use std::path::{Path, PathBuf};
use std::process::Stdio;

use serde_json::Value;
use tokio::process::Command;

use super::program::informant;
use super::world::{World, artifacts};

const PODS: &str = "[informer.pods]\nresource = \"v1/pods\"\n";

/// The commands in the `console` blocks of a guide.
fn commands_of(guide: &str) -> Vec<String> {
    let path = Path::new(env!("CARGO_MANIFEST_DIR"))
        .join("../../docs/guides")
        .join(guide);
    let page = std::fs::read_to_string(path).unwrap();
    let blocks = page
        .split("```console")
        .skip(1)
        .map(|rest| rest.split("```").next().unwrap());
    let lines = blocks.flat_map(str::lines).filter_map(|line| line.strip_prefix("$ "));
    lines.map(str::to_owned).collect()
}

/// Runs commands in the world's folder, up to the first that fails. Returns its output.
async fn shell(world: &World, commands: &[String]) -> Result<String, String> {
    let program = Path::new(env!("CARGO_BIN_EXE_informant"));
    let mut folders: Vec<PathBuf> = vec![program.parent().unwrap().to_owned()];
    folders.extend(std::env::split_paths(&std::env::var_os("PATH").unwrap()));
    let output = Command::new("bash")
        .args(["-e", "-o", "pipefail", "-c", &commands.join("\n")])
        .current_dir(world.path("."))
        .env("PATH", std::env::join_paths(folders).unwrap())
        .env("KUBECONFIG", world.kubeconfig())
        .env("XDG_CACHE_HOME", artifacts())
        .stdin(Stdio::null())
        .output()
        .await
        .unwrap();
    let text = [output.stdout, output.stderr].map(|bytes| String::from_utf8(bytes).unwrap());
    if output.status.success() {
        Ok(text.concat())
    } else {
        Err(text.concat())
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn gitops_commands_pass_until_a_grant_is_added() {
    let world = World::start().await;
    let folder = world.path("informant");
    std::fs::create_dir(&folder).unwrap();
    world.install("crash-loop", "informant/crash-loop.wasm");
    let args = ["plugin", "inspect", "-o", "json", "informant/crash-loop.wasm"];
    let inspected = informant(&world, &args).output().await.unwrap();
    let inspected: Value = serde_json::from_slice(&inspected.stdout).unwrap();
    let config = format!(
        "{PODS}[plugin.crash-loop]\ncomponent = \"crash-loop.wasm\"\ninformers = [\"pods\"]\nsha256 = \"{}\"\n",
        inspected["sha256"].as_str().unwrap()
    );
    std::fs::write(folder.join("config.toml"), &config).unwrap();
    let rbac = "informant rbac -c informant/config.toml > informant/rbac.yaml";
    let before = ["git init --quiet", rbac, "git add ."].map(str::to_owned);
    shell(&world, &before).await.unwrap();
    let commands = commands_of("gitops.md");
    assert!(commands.iter().any(|command| command == rbac), "{commands:?}");
    let output = shell(&world, &commands)
        .await
        .unwrap_or_else(|output| panic!("{output}"));
    assert!(output.contains("list and watch allowed"), "{output}");
    // A plugin that may do more: the difference is what the review shows.
    let grant = "allow.kube = [{ verbs = [\"delete\"], resource = \"v1/pods\" }]\n";
    std::fs::write(folder.join("config.toml"), format!("{config}{grant}")).unwrap();
    let difference = shell(&world, &commands).await.unwrap_err();
    let is_gained = |line: &str| line.starts_with("+  verbs:") && line.contains("\"delete\"");
    assert!(difference.lines().any(is_gained), "{difference}");
}

#[tokio::test(flavor = "multi_thread")]
async fn team_in_one_namespace_needs_no_cluster_role() {
    let world = World::unreachable().await;
    world.configure(&PODS.replace("\"v1/pods\"\n", "\"v1/pods\"\nnamespaces = [\"team-a\"]\n"));
    let commands = commands_of("multi-tenancy.md");
    let rbac = shell(&world, &commands)
        .await
        .unwrap_or_else(|output| panic!("{output}"));
    assert!(!rbac.contains("ClusterRole"), "{rbac}");
    assert!(
        rbac.contains("kind: Role\n") && rbac.contains("name: \"informant-team-a\""),
        "{rbac}"
    );
}
