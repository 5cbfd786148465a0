//! A container: a process with a root folder, a user and an environment of its own.

use std::os::unix::fs::MetadataExt;
use std::path::Path;

use anyhow::{Context, Result, bail, ensure};
use serde_json::Value;
use tokio::process::Command;

use super::{Kubelet, Pod, field, list, only, text};
use crate::process::Process;

/// Makes the root folder of a container.
const SCRIPT: &str = include_str!("container.sh");

/// The environment of an image that sets none.
const PATH: &str = "/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin";

/// What [`start`] plays of a container, or may leave out.
const KNOWN: [&str; 15] = [
    "name",
    "image",
    "imagePullPolicy",
    "command",
    "args",
    "env",
    "ports",
    "volumeMounts",
    "livenessProbe",
    "readinessProbe",
    "startupProbe",
    "resources",
    "securityContext",
    "terminationMessagePath",
    "terminationMessagePolicy",
];

/// Whether this process has the rights of the machine's root.
pub(super) fn is_root() -> bool {
    std::fs::metadata("/proc/self").is_ok_and(|own| own.uid() == 0)
}

/// Whether containers can run here: they need namespaces of Linux.
///
/// # Errors
/// If they cannot in CI.
pub async fn can_run() -> Result<bool> {
    let folder = tempfile::tempdir()?;
    let mut command = enter(folder.path());
    let ran = command
        .args(["--", "ro"])
        .args(drop_rights(65_532, 65_532, None))
        .arg("true")
        .output()
        .await;
    let problem = match ran {
        Ok(output) if output.status.success() => return Ok(true),
        Ok(output) => String::from_utf8_lossy(&output.stderr).into_owned(),
        Err(error) => error.to_string(),
    };
    let in_ci = std::env::var("CI").is_ok_and(|value| value == "true");
    ensure!(
        !in_ci,
        "this test runs a container, which needs root or unprivileged user namespaces \
         (sysctl kernel.apparmor_restrict_unprivileged_userns=0): {problem}"
    );
    Ok(false)
}

/// Starts a container of `pod`.
pub(super) fn start(kubelet: &Kubelet, pod: &Pod, container: &Value) -> Result<Process> {
    only(container, &KNOWN)?;
    let (user, group, fs_group) = identity(pod, container)?;
    let image = kubelet.image(text(container, "/image")?)?;
    let root = tempfile::tempdir_in(pod.folder.path())?.keep();
    let mut command = enter(&root);
    for (source, target) in &image.files {
        command.arg("ro").arg(source).arg(target);
    }
    for mount in list(container, "/volumeMounts") {
        only(mount, &["name", "mountPath", "readOnly"])?;
        let source = pod.volumes.folder(text(mount, "/name")?)?;
        let is_read_only = mount["readOnly"] == true || pod.volumes.is_read_only(text(mount, "/name")?);
        let mode = if is_read_only { "ro" } else { "rw" };
        command.arg(mode).arg(source).arg(text(mount, "/mountPath")?);
    }
    let is_read_only = container.pointer("/securityContext/readOnlyRootFilesystem") == Some(&Value::Bool(true));
    command.args(["--", if is_read_only { "ro" } else { "rw" }]);
    command.args(drop_rights(user, group, fs_group));
    command.args(program(container, &image.entrypoint, &image.arguments)?);
    command.args(moved_ports(pod, container)?);
    set_environment(&mut command, kubelet, pod, container)?;
    Process::start_command(command)
}

/// Whether commands can be run in a container. Only root of the machine can enter its namespaces: those of another user
/// are in one that has no process left.
pub fn can_exec() -> bool {
    is_root()
}

/// A command in the container that has this process, as `kubectl exec` runs it: with its files, user and environment.
pub(super) fn exec(kubelet: &Kubelet, pod: &Pod, process: u32, words: &[&str]) -> Result<Command> {
    let container = pod.container()?;
    let (user, group, fs_group) = identity(pod, container)?;
    let mut command = Command::new("nsenter");
    command.arg(format!("--target={process}")).args(["--mount", "--"]);
    command.args(drop_rights(user, group, fs_group)).args(words);
    set_environment(&mut command, kubelet, pod, container)?;
    Ok(command)
}

/// Sets the environment of a container, and nothing else.
fn set_environment(command: &mut Command, kubelet: &Kubelet, pod: &Pod, container: &Value) -> Result<()> {
    let image = kubelet.image(text(container, "/image")?)?;
    command.env_clear().env("PATH", PATH).envs(image.environment.clone());
    command.env("HOSTNAME", text(&pod.object, "/metadata/name")?);
    let way = kubelet.proxy.address();
    command.env("KUBERNETES_SERVICE_HOST", way.ip().to_string());
    command.env("KUBERNETES_SERVICE_PORT", way.port().to_string());
    command.envs(environment(pod, container)?);
    Ok(())
}

/// The user, the group and the group of volumes, as the pod or the container says.
fn identity(pod: &Pod, container: &Value) -> Result<(u64, u64, Option<u64>)> {
    let of_pod = &pod.object["spec"]["securityContext"];
    let pick = |name: &str| {
        let own = container.pointer(&format!("/securityContext/{name}"));
        own.unwrap_or(&of_pod[name]).as_u64()
    };
    let user = pick("runAsUser").context("runAsUser: the image's user is not read")?;
    ensure!(user != 0, "runAsNonRoot refuses user 0");
    Ok((user, pick("runAsGroup").unwrap_or_default(), of_pod["fsGroup"].as_u64()))
}

/// The command that enters the namespaces of a container; the arguments of its script follow.
fn enter(root: &Path) -> Command {
    let mut command = Command::new("unshare");
    if !is_root() {
        command.args(["--user", "--map-root-user"]);
    }
    command.args(["--mount", "--propagation", "private", "sh", "-c", SCRIPT, "sh"]);
    command.arg(root);
    command
}

/// The command that gives up what the restricted Pod Security Standard wants given up, in front of the program.
fn drop_rights(user: u64, group: u64, fs_group: Option<u64>) -> Vec<String> {
    let mut command = Vec::new();
    let mut add = |word: String| command.push(word);
    if !is_root() {
        // The only other user that a user namespace without privileges can have.
        add("unshare".to_owned());
        add("--user".to_owned());
        add(format!("--map-user={user}"));
        add(format!("--map-group={group}"));
    }
    add("setpriv".to_owned());
    if is_root() {
        add(format!("--reuid={user}"));
        add(format!("--regid={group}"));
        add(fs_group.map_or_else(|| "--clear-groups".to_owned(), |group| format!("--groups={group}")));
        add("--bounding-set=-all".to_owned());
    }
    add("--inh-caps=-all".to_owned());
    add("--ambient-caps=-all".to_owned());
    add("--no-new-privs".to_owned());
    command
}

/// The program with its arguments: a command replaces the entry point and the arguments of the image.
fn program(container: &Value, entrypoint: &[String], arguments: &[String]) -> Result<Vec<String>> {
    let words = |name: &str| -> Vec<String> {
        let own = list(container, name).iter().filter_map(Value::as_str);
        own.map(str::to_owned).collect()
    };
    let (command, args) = (words("/command"), words("/args"));
    let words = match (command.is_empty(), args.is_empty()) {
        (true, true) => [entrypoint, arguments].concat(),
        (true, false) => [entrypoint, &args].concat(),
        (false, _) => [command, args].concat(),
    };
    ensure!(!words.is_empty(), "no program in {container}");
    ensure!(
        words.iter().all(|word| !word.contains("$(")),
        "references to variables are not resolved: {words:?}"
    );
    Ok(words)
}

/// Arguments of `informant run` that move its ports to those of the pod.
fn moved_ports(pod: &Pod, container: &Value) -> Result<Vec<String>> {
    let declared = list(container, "/ports").iter().filter(|_| pod.ports_moved > 0);
    let arguments = declared.map(|port| {
        let number = pod.port(port)?;
        Ok(match text(port, "/name")? {
            "health" => format!("--health-listen=[::]:{number}"),
            "admin" => format!("--admin-listen=127.0.0.1:{number}"),
            name => bail!("the kubelet of the tests cannot move the port {name:?}"),
        })
    });
    arguments.collect()
}

fn environment(pod: &Pod, container: &Value) -> Result<Vec<(String, String)>> {
    let mut environment = Vec::new();
    for variable in list(container, "/env") {
        let value = match (variable["value"].as_str(), variable.pointer("/valueFrom/fieldRef")) {
            (Some(value), _) => value.to_owned(),
            (None, Some(reference)) => field(&pod.object, reference)?,
            (None, None) if variable.get("valueFrom").is_none() => String::new(),
            (None, None) => bail!("the kubelet of the tests does not know {variable}"),
        };
        environment.push((text(variable, "/name")?.to_owned(), value));
    }
    Ok(environment)
}
