//! The guide "Shipping plugins": the real kube-apiserver accepts each of its manifests, the pods meet the restricted
//! Pod Security Standard, and a plugin loads from each kind of mount and is replaced when the mount changes.

use std::path::PathBuf;
use std::time::Duration;

use anyhow::{Context, Result, ensure};
use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use informant_tests::client::Client;
use informant_tests::cluster::Cluster;
use informant_tests::kubelet::{Image, Kubelet, Pod, RunningPod};
use informant_tests::{guests, readme};
use serde_json::{Value, json};
use sha2::{Digest, Sha256};

use crate::as_pod::{NAME, NAMESPACE, READY_WITHIN, cluster_for_pods, deploy, kill};
use crate::rights::kubectl;

/// The sections of the guide that have a manifest. Each becomes a plugin of that name.
const WAYS: [&str; 4] = [
    "A ConfigMap",
    "An image volume",
    "An init container",
    "A persistent volume",
];

/// From a change of a mount to the line that reports it. Files on a volume are also checked every 30 s.
const SEEN_WITHIN: Duration = Duration::from_secs(60);

/// What the guide writes instead of the component, and instead of its digest.
const CONTENT: &str = "BASE64";
const DIGEST: &str = "0000000000000000000000000000000000000000000000000000000000000000";

/// One way of the guide.
struct Way {
    /// The plugin's name.
    plugin: String,
    text: String,
}

/// A version of the component.
struct Component {
    path: PathBuf,
    bytes: Vec<u8>,
    digest: String,
}

impl Component {
    fn read(path: PathBuf) -> Result<Self> {
        let bytes = std::fs::read(&path)?;
        let digest = Sha256::digest(&bytes)
            .iter()
            .map(|byte| format!("{byte:02x}"))
            .collect();
        Ok(Self { path, bytes, digest })
    }
}

fn ways() -> Result<Vec<Way>> {
    let path = guests::workspace_folder().join("docs/guides/ship-plugins.md");
    let guide = std::fs::read_to_string(path)?;
    let way = |heading: &&str| {
        let (_, rest) = guide
            .split_once(&format!("\n## {heading}\n"))
            .with_context(|| (*heading).to_owned())?;
        let text = rest.split("\n## ").next().unwrap_or_default().to_owned();
        let plugin = heading.to_lowercase().replace(' ', "-");
        Ok(Way { plugin, text })
    };
    WAYS.iter().map(way).collect()
}

impl Way {
    /// Its manifests, with the component in them: patches of the StatefulSet, and others.
    fn manifests(&self, component: &Component) -> Vec<String> {
        let manifests = readme::blocks(&self.text, "yaml").into_iter();
        manifests
            .map(|manifest| manifest.replace(CONTENT, &STANDARD.encode(&component.bytes)))
            .collect()
    }

    /// The section of `config.toml`, with the digest of the component.
    fn section(&self, component: &Component) -> Result<String> {
        let section = readme::first_block(&self.text, "toml")?;
        let named = section.replace("[plugin.crash-loop]", &format!("[plugin.{}]", self.plugin));
        Ok(named.replace(DIGEST, &component.digest))
    }
}

/// Applies manifests as the guide says.
async fn apply(cluster: &Cluster, manifests: impl Iterator<Item = &String>) -> Result<()> {
    let file = cluster.folder().join("manifest.yaml");
    let path = file.display().to_string();
    for manifest in manifests {
        std::fs::write(&file, manifest)?;
        let patch = ["-n", NAMESPACE, "patch", "statefulset", NAME, "--patch-file", &path];
        let server_side = ["apply", "--server-side", "-f", &path];
        let is_patch = manifest.contains("kind: StatefulSet");
        let args: &[&str] = if is_patch { &patch } else { &server_side };
        kubectl(cluster, args).await?;
    }
    Ok(())
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn plugins_load_from_each_mount_and_follow_its_changes() {
    if let Some(cluster) = cluster_for_pods().await.unwrap() {
        load_and_follow(&cluster).await.unwrap();
    }
}

async fn load_and_follow(cluster: &Cluster) -> Result<()> {
    let [first, second] = guests::two_versions("crash-loop", cluster.folder())?;
    let (first, second) = (Component::read(first)?, Component::read(second)?);
    let ways = ways()?;
    let mut kubelet = deploy(cluster).await?;
    // Nothing can be downloaded here.
    let manifests: Vec<String> = ways.iter().flat_map(|way| way.manifests(&first)).collect();
    let (downloads, others): (Vec<&String>, _) = manifests.iter().partition(|manifest| manifest.contains("https:"));
    apply(cluster, others.into_iter()).await?;
    let client = cluster.client().await?;
    let original = client.get(&config_map(NAME)).await?["data"]["config.toml"].clone();
    let original = original.as_str().context("a configuration")?;
    configure(&client, original, &ways, [&first; 4]).await?;
    provide(&mut kubelet, &client, &first).await?;
    let pod = kubelet.create_pod(NAMESPACE, NAME).await?;

    let mut running = kubelet.start(&pod).await?;
    running.wait_until_ready(READY_WITHIN).await?;
    kill(&client, "crashing").await?;
    for way in &ways {
        is_logged(&running, &way.plugin, "default/crashing: container app was OOM-killed").await?;
        is_running(&running, &way.plugin, &first).await?;
    }
    follows_its_config_map(cluster, &kubelet, &running, &ways[0], &second).await?;
    follows_its_volume(&client, &kubelet, &running, &ways, (original, &first, &second)).await?;
    image_is_read_only(&running)?;
    running.stop().await?;
    fields_survive_the_original_manifest(cluster, &pod).await?;
    apply(cluster, downloads.into_iter()).await?;
    let with_download = kubelet.admit_pod(NAMESPACE, NAME).await?;
    ensure!(
        with_download["spec"]["initContainers"][0]["name"] == "download-crash-loop",
        "{with_download}"
    );
    larger_config_map_is_refused(&client).await
}

fn config_map(name: &str) -> String {
    let separator = if name.is_empty() { "" } else { "/" };
    format!("/api/v1/namespaces/{NAMESPACE}/configmaps{separator}{name}")
}

fn statefulset() -> String {
    format!("/apis/apps/v1/namespaces/{NAMESPACE}/statefulsets/{NAME}")
}

/// Adds a section for each way to the configuration that is deployed, with these versions in the pins.
async fn configure(client: &Client, original: &str, ways: &[Way], versions: [&Component; 4]) -> Result<()> {
    let mut config = original.to_owned();
    for (way, version) in ways.iter().zip(versions) {
        config.push('\n');
        config.push_str(&way.section(version)?);
    }
    client
        .merge(&config_map(NAME), &json!({"data": {"config.toml": config}}))
        .await
        .map(drop)
}

/// Puts the component where the manifests look for it: into the images and the volume that they name.
async fn provide(kubelet: &mut Kubelet, client: &Client, component: &Component) -> Result<()> {
    let template = client.get(&statefulset()).await?["spec"]["template"]["spec"].clone();
    let volumes = template["volumes"].as_array().context("volumes")?;
    let mounted = volumes
        .iter()
        .filter_map(|volume| volume["image"]["reference"].as_str());
    let image = kubelet.claim("image")?;
    std::fs::copy(&component.path, image.join("crash-loop.wasm"))?;
    for reference in mounted.chain(template["initContainers"][0]["image"].as_str()) {
        kubelet.add_image(reference, Image::of_files(&image)?);
    }
    std::fs::copy(&component.path, kubelet.claim("components")?.join("crash-loop.wasm"))?;
    Ok(())
}

/// The ConfigMap is applied again, and the kubelet updates the mount.
async fn follows_its_config_map(
    cluster: &Cluster,
    kubelet: &Kubelet,
    running: &RunningPod,
    way: &Way,
    next: &Component,
) -> Result<()> {
    apply(cluster, way.manifests(next).iter()).await?;
    kubelet.sync_volumes(running.pod()).await?;
    is_running(running, &way.plugin, next).await
}

/// The file is replaced by a rename, then the pin is changed.
async fn follows_its_volume(
    client: &Client,
    kubelet: &Kubelet,
    running: &RunningPod,
    ways: &[Way],
    (original, first, next): (&str, &Component, &Component),
) -> Result<()> {
    let folder = kubelet.claim("components")?;
    std::fs::copy(&next.path, folder.join("crash-loop.wasm.new"))?;
    std::fs::rename(folder.join("crash-loop.wasm.new"), folder.join("crash-loop.wasm"))?;
    let way = &ways[3];
    is_logged(running, &way.plugin, "plugin reload refused").await?;
    configure(client, original, ways, [first, first, first, next]).await?;
    kubelet.sync_volumes(running.pod()).await?;
    is_running(running, &way.plugin, next).await
}

/// As Informant sees it.
fn image_is_read_only(running: &RunningPod) -> Result<()> {
    let id = running.process().id().context("it runs")?;
    let mounts = std::fs::read_to_string(format!("/proc/{id}/mountinfo"))?;
    let mount = mounts.lines().find(|line| line.contains(" /plugins/crash-loop "));
    let mount = mount.with_context(|| format!("no image is mounted: {mounts}"))?;
    ensure!(mount.contains(" /plugins/crash-loop ro,"), "{mount}");
    Ok(())
}

/// What the patches have added is not removed by another `kubectl apply` of the deployed manifests.
async fn fields_survive_the_original_manifest(cluster: &Cluster, pod: &Pod) -> Result<()> {
    let manifests = guests::workspace_folder().join("deploy").join("informant.yaml");
    kubectl(cluster, &["apply", "-f", &manifests.display().to_string()]).await?;
    let set = cluster.client().await?.get(&statefulset()).await?;
    let volumes = &set["spec"]["template"]["spec"]["volumes"];
    // Admission has added the token to the pod.
    ensure!(
        names(volumes).len() + 1 == names(&pod.object()["spec"]["volumes"]).len(),
        "{volumes}"
    );
    Ok(())
}

/// The limit that the guide states.
async fn larger_config_map_is_refused(client: &Client) -> Result<()> {
    let of_bytes = |name: &str, bytes: usize| {
        let content = STANDARD.encode(vec![0; bytes]);
        json!({"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": name}, "binaryData": {"a.wasm": content}})
    };
    client.post(&config_map(""), &of_bytes("fits", 1 << 20)).await?;
    let refused = client
        .post(&config_map(""), &of_bytes("too-large", (1 << 20) + 1))
        .await;
    let refused = format!("{:#}", refused.err().context("it was accepted")?);
    ensure!(refused.contains("1048576 bytes"), "{refused}");
    Ok(())
}

fn names(list: &Value) -> Vec<String> {
    let names = list
        .as_array()
        .into_iter()
        .flatten()
        .filter_map(|item| item["name"].as_str());
    names.map(str::to_owned).collect()
}

/// Waits for a line of a plugin, or about it.
async fn is_logged(running: &RunningPod, plugin: &str, message: &str) -> Result<()> {
    let begins = |fields: &Value| fields["message"].as_str().is_some_and(|text| text.starts_with(message));
    line(running, plugin, message, begins).await
}

/// Waits for the line that reports that a plugin runs this version.
async fn is_running(running: &RunningPod, plugin: &str, component: &Component) -> Result<()> {
    let is_digest = |fields: &Value| {
        let digest = fields["digest"].as_str();
        digest.is_some_and(|digest| !digest.is_empty() && component.digest.starts_with(digest))
    };
    line(running, plugin, &component.digest, is_digest).await
}

async fn line(running: &RunningPod, plugin: &str, what: &str, is_meant: impl Fn(&Value) -> bool) -> Result<()> {
    let pick = |line: &str| {
        let record: Value = serde_json::from_str(line).ok()?;
        let fields = &record["fields"];
        (fields["plugin"] == plugin && is_meant(fields)).then_some(())
    };
    let what = format!("{what:?} of {plugin}");
    running.process().wait_for_line_after(0, &what, SEEN_WITHIN, pick).await
}
