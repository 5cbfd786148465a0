//! Informant as its manifests run it, but next to the test: the arguments, the environment and the mounts of the
//! StatefulSet, with each mounted path below a folder.
//!
//! A container of its own, on a real kube-apiserver, is what [`kubelet`](crate::kubelet) plays. Here many tests start
//! one after the other. Where it differs from the pod:
//!
//! - KUBECONFIG takes the place of the service account's files, whose path is fixed.
//! - `[admin] socket` names the default socket where that is mounted here. Commands find it in config.toml, so they run
//!   in its folder.
//! - Both servers listen on free ports.
//! - The cache of compiled components is shared.

use std::fmt::Write as _;
use std::path::{Path, PathBuf};

use anyhow::{Context, Result, ensure};
use serde_json::Value;
use tokio::process::Command;

use crate::daemon::Daemon;

/// The mounts of the pod that have a meaning here.
const CONFIG: &str = "config";
const CACHE: &str = "cache";
const RUN: &str = "run";

/// The path of the admin socket below [`RUN`], where Informant and its commands look for it by default.
const SOCKET: &str = "admin/admin.sock";

/// The container of a StatefulSet, with its paths below a folder.
pub struct Installation {
    program: PathBuf,
    arguments: Vec<String>,
    environment: Vec<(String, String)>,
    mounts: Vec<Mount>,
}

struct Mount {
    volume: String,
    /// In the pod.
    path: String,
    folder: PathBuf,
}

impl Installation {
    /// Prepares to run `program` as the container of the StatefulSet `set`, below `folder` and with compiled components
    /// in `cache`.
    ///
    /// # Errors
    /// If the StatefulSet has something that is not understood, or a folder cannot be created.
    pub fn new(set: &Value, folder: &Path, cache: &Path, kubeconfig: &Path, program: &Path) -> Result<Self> {
        let container = set.pointer("/spec/template/spec/containers/0").context("a container")?;
        let mut mounts = Vec::new();
        for mount in list(container, "volumeMounts")? {
            let (volume, path) = (text(mount, "name")?, text(mount, "mountPath")?);
            let folder = match volume {
                CACHE => cache.to_owned(),
                _ => folder.join(path.trim_start_matches('/')),
            };
            std::fs::create_dir_all(&folder).with_context(|| format!("creating {}", folder.display()))?;
            mounts.push(Mount {
                volume: volume.to_owned(),
                path: path.to_owned(),
                folder,
            });
        }
        let mut installation = Self {
            program: program.to_owned(),
            arguments: Vec::new(),
            environment: Vec::new(),
            mounts,
        };
        for argument in list(container, "args")? {
            let argument = argument.as_str().context("an argument is text")?;
            installation.arguments.push(installation.below_folder(argument));
        }
        for variable in list(container, "env")? {
            let value = installation.below_folder(text(variable, "value")?);
            installation
                .environment
                .push((text(variable, "name")?.to_owned(), value));
        }
        // The image has no other program.
        let programs = program.parent().unwrap_or(Path::new("/"));
        for (name, path) in [("PATH", programs), ("KUBECONFIG", kubeconfig)] {
            installation
                .environment
                .push((name.to_owned(), path.display().to_string()));
        }
        Ok(installation)
    }

    /// A path, or a flag with one, as it is here.
    fn below_folder(&self, text: &str) -> String {
        let (flag, path) = match text.split_once('=') {
            Some((flag, path)) => (format!("{flag}="), path),
            None => (String::new(), text),
        };
        for mount in &self.mounts {
            match path.strip_prefix(&mount.path) {
                Some(rest) if rest.is_empty() || rest.starts_with('/') => {
                    return format!("{flag}{}{rest}", mount.folder.display());
                }
                _ => {}
            }
        }
        text.to_owned()
    }

    fn mounted(&self, volume: &str) -> Result<&Path> {
        let mount = self.mounts.iter().find(|mount| mount.volume == volume);
        let mount = mount.with_context(|| format!("the pod mounts no volume {volume:?}"))?;
        Ok(&mount.folder)
    }

    /// The folder of config.toml.
    ///
    /// # Errors
    /// If the pod mounts none.
    pub fn config_folder(&self) -> Result<&Path> {
        self.mounted(CONFIG)
    }

    /// Writes `files` next to `config`, which has an `[admin]` section, and starts Informant with them.
    ///
    /// # Errors
    /// If it ends before it listens, or does not ask for TLS on its admin port.
    pub async fn start(&self, config: &str, files: &[(&str, &str)]) -> Result<Daemon> {
        let folder = self.config_folder()?;
        for (name, text) in files {
            std::fs::write(folder.join(name), text)?;
        }
        let socket = self.mounted(RUN)?.join(SOCKET);
        let admin = format!("[admin]\nsocket = \"{}\"\n", socket.display());
        ensure!(config.matches("[admin]\n").count() == 1, "one [admin] in {config}");
        let path = folder.join("config.toml");
        std::fs::write(&path, config.replace("[admin]\n", &admin))?;
        let mut command = Command::new(&self.program);
        command.args(&self.arguments);
        command.args(["--admin-listen=127.0.0.1:0", "--health-listen=127.0.0.1:0"]);
        command
            .env_clear()
            .envs(self.environment.iter().map(|(name, value)| (name, value)));
        let daemon = Daemon::start_command(command, path).await?;
        let (status, answer) = daemon.http_get("/api/v1/plugins").await?;
        ensure!(answer.contains("this port requires TLS"), "{status}: {answer}");
        Ok(daemon)
    }

    /// A function of the shell that runs a command as `kubectl exec` does: with the environment of the container, and
    /// the programs of its image.
    ///
    /// # Errors
    /// If the pod mounts no configuration.
    pub fn shell_function(&self, name: &str) -> Result<String> {
        let folder = self.config_folder()?.display();
        let mut function = format!("{name}() {{ (cd '{folder}' && exec env -i");
        for (variable, value) in &self.environment {
            write!(function, " {variable}='{value}'")?;
        }
        function.push_str(" \"$@\"); }\n");
        Ok(function)
    }
}

fn list<'v>(value: &'v Value, member: &str) -> Result<&'v [Value]> {
    let found = value[member].as_array().map(Vec::as_slice);
    found.with_context(|| format!("{member} in {value}"))
}

fn text<'v>(value: &'v Value, member: &str) -> Result<&'v str> {
    value[member].as_str().with_context(|| format!("{member} in {value}"))
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn installation(folder: &Path) -> Result<Installation> {
        let set = json!({"spec": {"template": {"spec": {"containers": [{
            "args": ["run", "--config=/etc/informant/config.toml", "--log-format=json"],
            "env": [{"name": "XDG_CACHE_HOME", "value": "/cache"}],
            "volumeMounts": [
                {"name": "config", "mountPath": "/etc/informant"},
                {"name": "cache", "mountPath": "/cache"},
                {"name": "run", "mountPath": "/run/informant"},
            ],
        }]}}}});
        let (pod, cache) = (folder.join("pod"), folder.join("shared"));
        Installation::new(
            &set,
            &pod,
            &cache,
            Path::new("/kubeconfig"),
            Path::new("/bin/informant"),
        )
    }

    #[test]
    fn mounted_paths_are_below_the_folder() {
        let folder = tempfile::tempdir().unwrap();
        let installation = installation(folder.path()).unwrap();
        let root = folder.path().display();
        let config = format!("--config={root}/pod/etc/informant/config.toml");
        assert_eq!(installation.arguments, ["run", config.as_str(), "--log-format=json"]);
        let cache = ("XDG_CACHE_HOME".to_owned(), format!("{root}/shared"));
        assert!(installation.environment.contains(&cache));
        assert_eq!(installation.below_folder("/cached"), "/cached");
    }

    #[test]
    fn commands_run_with_the_environment_of_the_container_only() {
        let folder = tempfile::tempdir().unwrap();
        let function = installation(folder.path()).unwrap().shell_function("in_pod").unwrap();
        let root = folder.path().display();
        let begin = format!("in_pod() {{ (cd '{root}/pod/etc/informant' && exec env -i XDG_CACHE_HOME='{root}/shared'");
        let end = " PATH='/bin' KUBECONFIG='/kubeconfig' \"$@\"); }\n";
        assert_eq!(function, begin + end);
    }
}
