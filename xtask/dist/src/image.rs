//! The image: a base, and one layer with the program; and a second image, which has another layer with the Python
//! runner and its native code.
//!
//! ```text
//! index.json ──▶ index of platforms ──▶ manifest ──▶ configuration, layers of the base, our layers
//! ```
//!
//! Written as an OCI image layout, the folder format that skopeo, crane and podman push and pull. There is no container
//! runtime involved, so the same inputs give the same digests.

mod base;
mod layout;
mod test_base;
mod unpack;

use std::collections::HashMap;
use std::path::Path;

use anyhow::{Context, Result};
use oci_spec::image::{
    ANNOTATION_REF_NAME, Descriptor, HistoryBuilder, ImageConfiguration, ImageIndexBuilder, ImageManifestBuilder,
    MediaType, Os, PlatformBuilder, SCHEMA_VERSION,
};

use self::base::Base;
pub(crate) use self::layout::Layout;
pub(crate) use self::test_base::write as write_test_base;
pub(crate) use self::unpack::unpack;
use crate::checksums::sha256;
use crate::platform::Platform;
use crate::program::Program;
use crate::python::{COMPILED, Files, PythonRunner};
use crate::release::Release;
use crate::tree::{Tree, gzip};

/// The user and group of the process: `nonroot` in distroless images.
const USER: u64 = 65532;

/// Where compiled components are kept. Only Informant may write there, because they are native code.
const CACHE: &str = "cache";

/// Where the admin socket is, which only this user may use.
const RUN: &str = "run/informant";

/// The search path of a base that has none.
const PATH: &str = "PATH=/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin";

/// Where the Python runner is: `informant` looks there.
const RUNNERS: &str = "usr/local/lib/informant";

/// What an image has besides the program.
pub(crate) enum Variant<'r> {
    Plain,
    /// This runner, compiled.
    Python(&'r PythonRunner),
}

impl Variant<'_> {
    /// What follows the version in the image's tag.
    pub(crate) fn suffix(&self) -> &'static str {
        match self {
            Variant::Plain => "",
            Variant::Python(_) => "-python",
        }
    }

    /// Its layer on top of the program's. None if it cannot be made on this machine.
    fn layers(&self, programs: &[Program], platform: Platform) -> Result<Option<Vec<Tree>>> {
        let Variant::Python(runner) = self else {
            return Ok(Some(Vec::new()));
        };
        let files = runner.compiled(programs, platform)?;
        Ok(files.map(|files| vec![python_layer(files)]))
    }
}

/// Writes the image of all programs into the new folder `out`. None if it cannot be made on this machine.
pub(crate) fn build(
    base: &Layout,
    programs: &[Program],
    variant: &Variant,
    release: &Release,
    out: &Path,
) -> Result<Option<Layout>> {
    let mut platforms = Vec::new();
    for program in programs {
        let platform = program.platform;
        let base = Base::find(base, platform).with_context(|| format!("no base for {}", platform.target()))?;
        base.refuse_shells()?;
        let Some(mut layers) = variant.layers(programs, platform)? else {
            return Ok(None);
        };
        layers.insert(0, layer(program)?);
        platforms.push((base, platform, layers));
    }
    let layout = Layout::create(out)?;
    let mut manifests = Vec::new();
    for (base, platform, layers) in &platforms {
        manifests.push(add(&layout, base, *platform, layers, release)?);
    }
    let index = ImageIndexBuilder::default()
        .schema_version(SCHEMA_VERSION)
        .media_type(MediaType::ImageIndex)
        .manifests(manifests)
        .annotations(labels(release)?)
        .build()?;
    let mut index = layout.put_document(MediaType::ImageIndex, &index)?;
    let tag = format!("{}{}", release.version, variant.suffix());
    index.set_annotations(Some(HashMap::from([(ANNOTATION_REF_NAME.to_owned(), tag)])));
    layout.set_index(vec![index])?;
    Ok(Some(layout))
}

/// Adds the image for one platform, and returns its manifest's descriptor.
fn add(layout: &Layout, base: &Base, platform: Platform, ours: &[Tree], release: &Release) -> Result<Descriptor> {
    let mut layers = Vec::new();
    for layer in base.manifest.layers() {
        layers.push(layout.copy(base.layout, layer)?);
    }
    let mut diff_ids = Vec::new();
    for layer in ours {
        let tar = layer.to_tar(release.epoch)?;
        layers.push(layout.put(MediaType::ImageLayerGzip, &gzip(&tar)?)?);
        diff_ids.push(format!("sha256:{}", sha256(&tar)));
    }
    let config = configuration(base, diff_ids, release)?;
    let manifest = ImageManifestBuilder::default()
        .schema_version(SCHEMA_VERSION)
        .media_type(MediaType::ImageManifest)
        .config(layout.put_document(MediaType::ImageConfig, &config)?)
        .layers(layers)
        .annotations(labels(release)?)
        .build()?;
    let mut manifest = layout.put_document(MediaType::ImageManifest, &manifest)?;
    let platform = PlatformBuilder::default()
        .architecture(platform.arch())
        .os(Os::Linux)
        .build()?;
    manifest.set_platform(Some(platform));
    Ok(manifest)
}

fn layer(program: &Program) -> Result<Tree> {
    let mut tree = Tree::default();
    tree.folder(CACHE, 0o700, USER);
    tree.folder("run", 0o755, 0);
    tree.folder(RUN, 0o700, USER);
    for folder in ["usr", "usr/local", "usr/local/bin"] {
        tree.folder(folder, 0o755, 0);
    }
    tree.file("usr/local/bin/informant", 0o755, program.read()?);
    Ok(tree)
}

fn python_layer(files: Files) -> Tree {
    let mut tree = Tree::default();
    let compiled = format!("{RUNNERS}/{COMPILED}");
    for folder in ["usr", "usr/local", "usr/local/lib", RUNNERS, &compiled] {
        tree.folder(folder, 0o755, 0);
    }
    for (path, content) in files {
        tree.file(&format!("{RUNNERS}/{path}"), 0o644, content);
    }
    tree
}

/// The base's configuration with our layers, and how to start Informant.
fn configuration(base: &Base, diff_ids: Vec<String>, release: &Release) -> Result<ImageConfiguration> {
    let created = release.created()?;
    let mut image = base.config.clone();
    image.set_created(Some(created.clone()));
    let step = HistoryBuilder::default()
        .created(created)
        .created_by("cargo xtask dist".to_owned())
        .build()?;
    for diff_id in diff_ids {
        image.rootfs_mut().diff_ids_mut().push(diff_id);
        image.history_mut().get_or_insert_default().push(step.clone());
    }

    let words = |words: &[&str]| Some(words.iter().map(ToString::to_string).collect::<Vec<String>>());
    let mut config = image.config().clone().unwrap_or_default();
    let mut environment = config.env().clone().unwrap_or_default();
    if !environment.iter().any(|entry| entry.starts_with("PATH=")) {
        environment.push(PATH.to_owned());
    }
    environment.push(format!("XDG_CACHE_HOME=/{CACHE}"));
    config.set_env(Some(environment));
    config.set_user(Some(format!("{USER}:{USER}")));
    config.set_working_dir(Some("/".to_owned()));
    config.set_exposed_ports(words(&["8090/tcp"]));
    config.set_entrypoint(words(&["informant"]));
    config.set_cmd(words(&[
        "run",
        "--config",
        "/etc/informant/config.toml",
        "--log-format",
        "json",
    ]));
    config.set_labels(Some(labels(release)?));
    image.set_config(Some(config));
    Ok(image)
}

fn labels(release: &Release) -> Result<HashMap<String, String>> {
    let mut labels = vec![
        ("title", "informant".to_owned()),
        (
            "description",
            "Runs Kubernetes informers and calls WebAssembly handlers".to_owned(),
        ),
        ("licenses", "Apache-2.0".to_owned()),
        ("version", release.version.clone()),
        ("revision", release.revision.clone()),
        ("created", release.created()?),
    ];
    if let Some(source) = &release.source {
        labels.push(("source", source.clone()));
    }
    let labels = labels.into_iter();
    Ok(labels
        .map(|(name, value)| (format!("org.opencontainers.image.{name}"), value))
        .collect())
}

#[cfg(test)]
mod tests;
