//! The objects of `--objects` on the embedded API server: applied at the start, and again when their files change.
//!
//! Only what changed in a file is applied, so that what plugins have written to other objects stays. An object that is
//! no longer in any file is deleted.

use std::collections::BTreeMap;
use std::fs;
use std::path::{Path, PathBuf};

use anyhow::{Context, Result, bail, ensure};
use informant_apiserver::ApiServer;
use informant_config::{Config, Resources};
use informant_informer::{Discovered, discover};
use informant_spec::ResourceName;
use kube::Client;
use serde_json::Value;

/// Suffixes of manifests in a folder.
const SUFFIXES: [&str; 3] = ["json", "yaml", "yml"];

/// The namespace of an object that names none.
const NAMESPACE_DEFAULT: &str = "default";

const NAMESPACES: &str = "v1/namespaces";

/// What others need first: definitions, and namespaces.
const FIRST: [&str; 2] = ["CustomResourceDefinition", "Namespace"];

pub(super) struct Objects {
    paths: Vec<PathBuf>,
    applied: BTreeMap<ObjectId, Applied>,
}

#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord)]
struct ObjectId {
    api_version: String,
    kind: String,
    namespace: String,
    name: String,
}

struct Applied {
    resource: Discovered,
    file: PathBuf,
    object: Value,
}

/// What a file has.
struct Found {
    id: ObjectId,
    file: PathBuf,
    object: Value,
}

/// How many objects were created or replaced, and deleted.
#[derive(Debug, Default, PartialEq, Eq)]
pub(super) struct Changes {
    pub(super) applied: usize,
    pub(super) deleted: usize,
}

impl Objects {
    pub(super) fn new(paths: &[PathBuf]) -> Self {
        Self {
            paths: paths.to_owned(),
            applied: BTreeMap::new(),
        }
    }

    /// Applies what has changed in the files.
    ///
    /// # Errors
    /// If a file cannot be read or parsed: then nothing is applied. If the API server refuses an object.
    pub(super) async fn apply(&mut self, server: &ApiServer) -> Result<Changes> {
        let mut found = Vec::new();
        for path in &self.paths {
            read(path, &mut found)?;
        }
        found.sort_by_key(|found| {
            FIRST
                .iter()
                .position(|first| *first == found.id.kind)
                .unwrap_or(FIRST.len())
        });
        let mut changes = Changes::default();
        let gone = self
            .applied
            .keys()
            .filter(|id| !found.iter().any(|found| found.id == **id));
        for id in gone.cloned().collect::<Vec<_>>() {
            if let Some(Applied { resource, .. }) = self.applied.remove(&id) {
                let namespace = if resource.namespaced { id.namespace.as_str() } else { "" };
                // The plugin or its author may have deleted it.
                let _ = server.delete(&resource.gvr.to_string(), namespace, &id.name);
                changes.deleted += 1;
            }
        }
        let client = Client::new(server.service(), NAMESPACE_DEFAULT);
        for Found { id, file, object } in found {
            if self.applied.get(&id).is_some_and(|applied| applied.object == object) {
                continue;
            }
            let about = || format!("{}: {} {}", file.display(), id.kind, id.name);
            let resource = resource_of(&client, &id).await.with_context(about)?;
            put(server, &resource, &id, object.clone()).with_context(about)?;
            changes.applied += 1;
            self.applied.insert(id, Applied { resource, file, object });
        }
        Ok(changes)
    }

    /// The API versions and kinds, each once.
    pub(super) fn kinds(&self) -> Vec<(String, String)> {
        let mut kinds: Vec<_> = self
            .applied
            .keys()
            .map(|id| (id.api_version.clone(), id.kind.clone()))
            .collect();
        kinds.dedup();
        kinds.retain(|(_, kind)| !FIRST.contains(&kind.as_str()));
        kinds
    }

    /// A line for each kind of object that no informer of `config` watches.
    pub(super) fn unwatched(&self, config: &Config) -> Vec<String> {
        let mut lines: BTreeMap<String, String> = BTreeMap::new();
        for (id, Applied { resource, file, .. }) in &self.applied {
            let is_watched = config
                .informers
                .values()
                .any(|informer| match &informer.resource.value {
                    Resources::One(name) => resource.is_meant_by(name),
                    Resources::Several(pattern) => {
                        pattern.covers(&resource.gvr) && !informer.exclude.covers(&resource.gvr)
                    }
                });
            if !is_watched && !FIRST.contains(&id.kind.as_str()) {
                let (gvr, name, kind, file) = (&resource.gvr, &resource.gvr.plural, &id.kind, file.display());
                lines.entry(gvr.to_string()).or_insert_with(|| {
                    format!(
                        "no informer watches {kind} objects, such as {} in {file}: to receive them, add \
                         [informer.{name}] with resource = \"{gvr}\" to the configuration, and \"{name}\" to the \
                         plugin's `informers`",
                        id.name
                    )
                });
            }
        }
        lines.into_values().collect()
    }
}

/// The resource of an object's kind.
async fn resource_of(client: &Client, id: &ObjectId) -> Result<Discovered> {
    let name = match id.api_version.split_once('/') {
        Some((group, version)) => format!("{}.{version}.{group}", id.kind),
        None => id.kind.clone(),
    };
    let found = discover(client, &ResourceName::parse(&name)?).await?;
    ensure!(
        found.gvr.api_version() == id.api_version,
        "the API server does not serve {} in {}",
        id.kind,
        id.api_version
    );
    Ok(found)
}

/// Creates or replaces an object, and its namespace if there is none.
fn put(server: &ApiServer, resource: &Discovered, id: &ObjectId, object: Value) -> Result<()> {
    let namespace = if resource.namespaced { id.namespace.as_str() } else { "" };
    if resource.namespaced && server.get(NAMESPACES, "", namespace)?.is_none() {
        server.create(NAMESPACES, "", serde_json::json!({ "metadata": { "name": namespace } }))?;
    }
    server.put(&resource.gvr.to_string(), namespace, object)?;
    Ok(())
}

/// Adds the objects in a file, or in the files of a folder in the order of their names.
fn read(path: &Path, found: &mut Vec<Found>) -> Result<()> {
    let failed = || format!("cannot read {}", path.display());
    if path.is_dir() {
        let entries = fs::read_dir(path).with_context(failed)?;
        let mut files: Vec<PathBuf> = entries.flatten().map(|entry| entry.path()).collect();
        files.retain(|file| {
            file.extension()
                .is_some_and(|suffix| SUFFIXES.iter().any(|known| suffix == *known))
        });
        files.sort();
        return files.iter().try_for_each(|file| read(file, found));
    }
    let text = fs::read_to_string(path).with_context(failed)?;
    // JSON is YAML, too.
    let documents: Vec<Value> =
        serde_saphyr::from_multiple(&text).with_context(|| format!("{} is neither YAML nor JSON", path.display()))?;
    documents
        .into_iter()
        .try_for_each(|document| add(path, document, found))
}

/// Adds an object, or those of a list, as kubectl prints it.
fn add(file: &Path, document: Value, found: &mut Vec<Found>) -> Result<()> {
    let text = |pointer: &str| document.pointer(pointer).and_then(Value::as_str).map(str::to_owned);
    let (Some(api_version), Some(kind)) = (text("/apiVersion"), text("/kind")) else {
        bail!("{}: an object needs `apiVersion` and `kind`", file.display());
    };
    if let (true, Some(Value::Array(items))) = (kind.ends_with("List"), document.get("items")) {
        return items.iter().try_for_each(|item| add(file, item.clone(), found));
    }
    let name = text("/metadata/name");
    let name = name.with_context(|| format!("{}: {kind} without a `name` in `metadata`", file.display()))?;
    let namespace = text("/metadata/namespace").unwrap_or_else(|| NAMESPACE_DEFAULT.to_owned());
    let id = ObjectId {
        api_version,
        kind,
        namespace,
        name,
    };
    if let Some(other) = found.iter().find(|found| found.id == id) {
        bail!(
            "{} and {} both have {} {}: remove one of them",
            other.file.display(),
            file.display(),
            id.kind,
            id.name
        );
    }
    let file = file.to_owned();
    found.push(Found {
        id,
        file,
        object: document,
    });
    Ok(())
}

#[cfg(test)]
mod tests {
    use informant_apiserver::Options;
    use informant_config::SourceFile;

    use super::*;

    const TWO: &str = "
apiVersion: v1
kind: Pod
metadata: { name: a, namespace: web }
spec: { nodeName: one }
---
apiVersion: example.com/v1
kind: Team
metadata: { name: blue }
";

    const DEFINITION: &str = "
apiVersion: apiextensions.k8s.io/v1
kind: CustomResourceDefinition
metadata: { name: teams.example.com }
spec:
  group: example.com
  scope: Namespaced
  names: { kind: Team, plural: teams, singular: team }
  versions:
  - name: v1
    served: true
    storage: true
    schema: { openAPIV3Schema: { type: object, x-kubernetes-preserve-unknown-fields: true } }
";

    async fn changes(objects: &mut Objects, server: &ApiServer) -> (usize, usize) {
        let Changes { applied, deleted } = objects.apply(server).await.unwrap();
        (applied, deleted)
    }

    #[tokio::test]
    async fn only_what_changed_in_the_files_is_applied() {
        let folder = tempfile::tempdir().unwrap();
        let (objects, definition) = (folder.path().join("objects.yaml"), folder.path().join("z.yml"));
        fs::write(&objects, TWO).unwrap();
        fs::write(&definition, DEFINITION).unwrap();
        let server = ApiServer::new(Options::default());
        let mut applied = Objects::new(&[folder.path().to_owned()]);
        assert_eq!(changes(&mut applied, &server).await, (3, 0));
        assert_eq!(applied.kinds().len(), 2);
        server
            .patch(
                "v1/pods",
                "web",
                "a",
                serde_json::json!({ "metadata": { "labels": { "a": "b" } } }),
            )
            .unwrap();
        fs::write(&objects, TWO.replace("blue", "red")).unwrap();
        assert_eq!(changes(&mut applied, &server).await, (1, 1));
        let pod = server.get("v1/pods", "web", "a").unwrap().unwrap();
        assert_eq!(pod["metadata"]["labels"]["a"], "b", "what a plugin wrote stays");
        assert_eq!(server.list("example.com/v1/teams").unwrap().len(), 1);
        fs::write(&objects, "a: [").unwrap();
        assert!(applied.apply(&server).await.is_err());
        assert_eq!(server.list("example.com/v1/teams").unwrap().len(), 1);
    }

    #[tokio::test]
    async fn what_is_wrong_with_a_manifest_is_named() {
        let folder = tempfile::tempdir().unwrap();
        let file = folder.path().join("objects.yaml");
        let server = ApiServer::new(Options::default());
        let mut refusals = Vec::new();
        for text in [
            "kind: Pod",
            "{apiVersion: v1, kind: Pod}",
            "{apiVersion: v1, kind: Deployment, metadata: {name: a}}",
            "{apiVersion: v1, kind: Pod, metadata: {name: A_}}",
            "{apiVersion: v1, kind: PodList, items: [{apiVersion: v1, kind: Node, metadata: {}}]}",
        ] {
            fs::write(&file, text).unwrap();
            let refusal = Objects::new(std::slice::from_ref(&file))
                .apply(&server)
                .await
                .unwrap_err();
            refusals.push(format!("{refusal:#}").replace(&folder.path().display().to_string(), ""));
        }
        insta::assert_snapshot!(refusals.join("\n"), @r#"
        /objects.yaml: an object needs `apiVersion` and `kind`
        /objects.yaml: Pod without a `name` in `metadata`
        /objects.yaml: Deployment a: the API server does not serve Deployment in v1
        /objects.yaml: Pod A_: 422 Invalid: Pod "A_" is invalid: metadata.name: Invalid value: "A_": a lowercase RFC 1123 subdomain must consist of lower case alphanumeric characters, '-' or '.', and must start and end with an alphanumeric character (e.g. 'example.com', regex used for validation is '[a-z0-9]([-a-z0-9]*[a-z0-9])?(\.[a-z0-9]([-a-z0-9]*[a-z0-9])?)*')
        /objects.yaml: Node without a `name` in `metadata`
        "#);
    }

    #[tokio::test]
    async fn objects_without_an_informer_are_named() {
        let folder = tempfile::tempdir().unwrap();
        let file = folder.path().join("objects.yaml");
        fs::write(&file, "{apiVersion: v1, kind: Pod, metadata: {name: a}}").unwrap();
        let mut objects = Objects::new(std::slice::from_ref(&file));
        objects.apply(&ApiServer::new(Options::default())).await.unwrap();
        let unwatched = |resource: &str| {
            let text = format!("[informer.it]\nresource = \"{resource}\"\n");
            let config = Config::parse(&SourceFile::new("config.toml", text.as_str())).unwrap();
            objects.unwatched(&config).join("\n")
        };
        for resource in ["v1/pods", "Pod", "*"] {
            assert_eq!(unwatched(resource), "", "{resource}");
        }
        let text = unwatched("v1/nodes").replace(&folder.path().display().to_string(), "");
        insta::assert_snapshot!(text, @r#"no informer watches Pod objects, such as a in /objects.yaml: to receive them, add [informer.pods] with resource = "v1/pods" to the configuration, and "pods" to the plugin's `informers`"#);
    }
}
