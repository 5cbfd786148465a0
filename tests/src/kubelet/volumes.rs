//! The volumes of a pod, as folders.
//!
//! Files that follow an object are published as the kubelet does: in a folder named by time, with the link `..data` to
//! it and a link for each file through `..data`. An update replaces `..data` by a rename, so that all files change at
//! once.

use std::collections::{BTreeMap, BTreeSet};
use std::os::unix::fs::{PermissionsExt, chown, symlink};
use std::path::{Path, PathBuf};

use anyhow::{Context, Result, bail, ensure};
use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use serde_json::{Value, json};

use super::{Kubelet, container, field, list, only, text};

/// The link to the current files.
const DATA: &str = "..data";

/// The mode of a file whose volume says none.
const FILE_MODE: u64 = 0o644;

/// Paths below a volume, with contents and mode.
type Files = BTreeMap<String, (Vec<u8>, u64)>;

pub(super) struct Volumes {
    folders: BTreeMap<String, PathBuf>,
    read_only: BTreeSet<String>,
}

impl Volumes {
    /// Fills the volumes of a stored pod.
    pub(super) async fn fill(kubelet: &Kubelet, pod: &Value, folder: &Path) -> Result<Self> {
        let mut volumes = Self {
            folders: BTreeMap::new(),
            read_only: BTreeSet::new(),
        };
        for volume in list(pod, "/spec/volumes") {
            let name = text(volume, "/name")?.to_owned();
            let path = if let Some(image) = volume.get("image") {
                volumes.read_only.insert(name.clone());
                kubelet.image(text(image, "/reference")?)?.folder.clone()
            } else if let Some(claim) = volume.get("persistentVolumeClaim") {
                kubelet.claim(text(claim, "/claimName")?)?
            } else {
                let path = folder.join(&name);
                std::fs::create_dir(&path)?;
                path
            };
            let is_writable = volume.get("emptyDir").is_some() || volume.get("persistentVolumeClaim").is_some();
            if is_writable {
                give(&path, 0o2777, fs_group(pod))?;
            }
            volumes.folders.insert(name, path);
        }
        volumes.sync(kubelet, pod).await?;
        Ok(volumes)
    }

    pub(super) fn folder(&self, name: &str) -> Result<&Path> {
        let folder = self.folders.get(name);
        folder
            .map(PathBuf::as_path)
            .with_context(|| format!("the pod has no volume {name:?}"))
    }

    pub(super) fn is_read_only(&self, name: &str) -> bool {
        self.read_only.contains(name)
    }

    /// Publishes what follows an object.
    pub(super) async fn sync(&self, kubelet: &Kubelet, pod: &Value) -> Result<()> {
        for volume in list(pod, "/spec/volumes") {
            only(
                volume,
                &[
                    "name",
                    "configMap",
                    "secret",
                    "projected",
                    "emptyDir",
                    "image",
                    "persistentVolumeClaim",
                ],
            )?;
            let mut files = Files::new();
            let sources = match volume.get("projected") {
                Some(projected) => list(projected, "/sources"),
                None => std::slice::from_ref(volume),
            };
            for source in sources {
                add_files(kubelet, pod, source, &mut files)
                    .await
                    .with_context(|| volume.to_string())?;
            }
            let mode = ["configMap", "secret", "projected"]
                .iter()
                .find_map(|kind| volume[*kind]["defaultMode"].as_u64());
            if let Some(mode) = mode {
                for (_, own) in files.values_mut().filter(|(_, own)| *own == FILE_MODE) {
                    *own = mode;
                }
                publish(self.folder(text(volume, "/name")?)?, &files, fs_group(pod))?;
            }
        }
        Ok(())
    }
}

fn fs_group(pod: &Value) -> Option<u32> {
    let group = pod.pointer("/spec/securityContext/fsGroup")?.as_u64()?;
    u32::try_from(group).ok()
}

/// Adds the files of one source: a volume, or a source of a projected one.
async fn add_files(kubelet: &Kubelet, pod: &Value, source: &Value, files: &mut Files) -> Result<()> {
    let namespace = text(pod, "/metadata/namespace")?;
    let path = |plural: &str, name: &str| format!("/api/v1/namespaces/{namespace}/{plural}/{name}");
    if let Some(map) = source.get("configMap") {
        let object = kubelet.client.get(&path("configmaps", text(map, "/name")?)).await?;
        let mut contents = BTreeMap::new();
        for (key, value) in members(&object["data"]) {
            contents.insert(key, value.into_bytes());
        }
        for (key, value) in members(&object["binaryData"]) {
            contents.insert(key, STANDARD.decode(value)?);
        }
        add_items(map, contents, files)?;
    }
    if let Some(secret) = source.get("secret") {
        let name = text(secret, "/secretName").or_else(|_| text(secret, "/name"))?;
        let object = kubelet.client.get(&path("secrets", name)).await?;
        let mut contents = BTreeMap::new();
        for (key, value) in members(&object["data"]) {
            contents.insert(key, STANDARD.decode(value)?);
        }
        add_items(secret, contents, files)?;
    }
    if let Some(fields) = source.get("downwardAPI") {
        for item in list(fields, "/items") {
            let content = field(pod, &item["fieldRef"])?.into_bytes();
            files.insert(text(item, "/path")?.to_owned(), (content, FILE_MODE));
        }
    }
    if let Some(token) = source.get("serviceAccountToken") {
        let content = request_token(kubelet, pod, token).await?.into_bytes();
        files.insert(text(token, "/path")?.to_owned(), (content, FILE_MODE));
    }
    Ok(())
}

/// The members of an object of strings; none if it is missing.
fn members(object: &Value) -> BTreeMap<String, String> {
    serde_json::from_value(object.clone()).unwrap_or_default()
}

/// All contents, or the `items` of a source.
fn add_items(source: &Value, mut contents: BTreeMap<String, Vec<u8>>, files: &mut Files) -> Result<()> {
    only(source, &["name", "secretName", "items", "defaultMode"])?;
    let items = list(source, "/items");
    if items.is_empty() {
        let all = contents.into_iter().map(|(key, content)| (key, (content, FILE_MODE)));
        files.extend(all);
        return Ok(());
    }
    for item in items {
        let key = text(item, "/key")?;
        let content = contents
            .remove(key)
            .with_context(|| format!("no key {key:?} in {source}"))?;
        let mode = item["mode"].as_u64().unwrap_or(FILE_MODE);
        files.insert(text(item, "/path")?.to_owned(), (content, mode));
    }
    Ok(())
}

/// A token of the pod's service account that is valid as long as the pod exists.
async fn request_token(kubelet: &Kubelet, pod: &Value, wanted: &Value) -> Result<String> {
    let account = text(pod, "/spec/serviceAccountName")?;
    let namespace = text(pod, "/metadata/namespace")?;
    let audiences: Vec<&Value> = wanted.get("audience").into_iter().collect();
    let request = json!({
        "apiVersion": "authentication.k8s.io/v1", "kind": "TokenRequest",
        "spec": {
            "audiences": audiences, "expirationSeconds": wanted["expirationSeconds"],
            "boundObjectRef": {
                "apiVersion": "v1", "kind": "Pod", "name": pod["metadata"]["name"], "uid": pod["metadata"]["uid"],
            },
        },
    });
    let path = format!("/api/v1/namespaces/{namespace}/serviceaccounts/{account}/token");
    let answer = kubelet.client.post(&path, &request).await?;
    text(&answer, "/status/token").map(str::to_owned)
}

/// Makes `files` the contents of a volume, all at once.
fn publish(folder: &Path, files: &Files, group: Option<u32>) -> Result<()> {
    let old = std::fs::read_link(folder.join(DATA)).ok();
    let new = tempfile::Builder::new().prefix("..").tempdir_in(folder)?.keep();
    for (path, (content, mode)) in files {
        ensure!(!path.starts_with(".."), "{path:?} is reserved");
        let file = new.join(path);
        let parent = file.parent().context("a file is in a folder")?;
        std::fs::create_dir_all(parent)?;
        give(parent, 0o2755, group)?;
        std::fs::write(&file, content)?;
        // The volume's group may read what its owner may read.
        let for_group = group.map_or(0, |_| (mode & 0o400) >> 3);
        give(&file, mode | for_group, group)?;
    }
    give(&new, 0o2755, group)?;
    let next = folder.join("..data_tmp");
    symlink(new.file_name().context("a folder has a name")?, &next)?;
    std::fs::rename(&next, folder.join(DATA))?;
    link_names(folder, files)?;
    if let Some(old) = old {
        std::fs::remove_dir_all(folder.join(old))?;
    }
    give(folder, 0o2755, group)
}

/// Links each name at the top through `..data`, and removes the links of names that are gone.
fn link_names(folder: &Path, files: &Files) -> Result<()> {
    let names: BTreeSet<&str> = files.keys().filter_map(|path| path.split('/').next()).collect();
    for name in &names {
        let link = folder.join(name);
        if !link.is_symlink() {
            symlink(Path::new(DATA).join(name), link)?;
        }
    }
    for entry in std::fs::read_dir(folder)? {
        let name = entry?.file_name();
        let name = name.to_str().context("names are text")?;
        if !name.starts_with("..") && !names.contains(name) {
            std::fs::remove_file(folder.join(name))?;
        }
    }
    Ok(())
}

/// Sets the mode, and the group of the volume if this process may.
fn give(path: &Path, mode: u64, group: Option<u32>) -> Result<()> {
    if container::is_root() && group.is_some() {
        chown(path, None, group)?;
    }
    let mode = u32::try_from(mode)?;
    if mode > 0o7777 {
        bail!("{mode:o} is not a mode");
    }
    Ok(std::fs::set_permissions(path, std::fs::Permissions::from_mode(mode))?)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn files(contents: &[(&str, &str)]) -> Files {
        let file = |(path, content): &(&str, &str)| ((*path).to_owned(), (content.as_bytes().to_vec(), FILE_MODE));
        contents.iter().map(file).collect()
    }

    #[test]
    fn update_replaces_all_files_by_one_rename() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path();
        publish(path, &files(&[("a", "1"), ("b/c", "1")]), None).unwrap();
        let first = std::fs::read_link(path.join(DATA)).unwrap();
        assert_eq!(std::fs::read_link(path.join("a")).unwrap(), Path::new("..data/a"));
        publish(path, &files(&[("a", "2"), ("d", "2")]), None).unwrap();
        assert_ne!(std::fs::read_link(path.join(DATA)).unwrap(), first);
        assert_eq!(std::fs::read_to_string(path.join("a")).unwrap(), "2");
        assert!(!path.join("b").is_symlink() && !path.join(first).exists());
    }

    #[test]
    fn volume_lists_only_links_and_the_current_folder() {
        let folder = tempfile::tempdir().unwrap();
        publish(folder.path(), &files(&[("a", "1")]), None).unwrap();
        publish(folder.path(), &files(&[("a", "2")]), None).unwrap();
        assert_eq!(std::fs::read_dir(folder.path()).unwrap().count(), 3);
    }
}
