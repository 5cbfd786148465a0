//! A base for tests, made without a registry: what a distroless image has, from this machine.

use std::path::{Path, PathBuf};

use anyhow::{Context, Result, ensure};
use oci_spec::image::{
    ConfigBuilder, Descriptor, ImageConfigurationBuilder, ImageManifestBuilder, MediaType, Os, RootFsBuilder,
    SCHEMA_VERSION,
};

use super::layout::Layout;
use super::{PATH, USER};
use crate::checksums::sha256;
use crate::platform::Platform;
use crate::tree::{Tree, gzip};

/// The parts of glibc that programs for glibc 2.28 load: later versions kept some as empty files.
const LIBRARIES: [&str; 6] = [
    "libc.so.6",
    "libm.so.6",
    "libdl.so.2",
    "libpthread.so.0",
    "librt.so.1",
    "libutil.so.1",
];

/// Where systems keep their certificates.
const CERTIFICATES: [&str; 2] = ["/etc/ssl/certs/ca-certificates.crt", "/etc/pki/tls/certs/ca-bundle.crt"];

/// Writes a layout with an image per platform. glibc is in that of this machine only.
pub(crate) fn write(folder: &Path) -> Result<()> {
    let layout = Layout::create(folder)?;
    let platforms = [Platform::Amd64, Platform::Arm64];
    let manifests: Result<Vec<Descriptor>> = platforms.iter().map(|platform| add(&layout, *platform)).collect();
    layout.set_index(manifests?)
}

fn add(layout: &Layout, platform: Platform) -> Result<Descriptor> {
    let tar = files(platform)?.to_tar(0)?;
    let rootfs = RootFsBuilder::default()
        .typ("layers".to_owned())
        .diff_ids(vec![format!("sha256:{}", sha256(&tar))])
        .build()?;
    let config = ImageConfigurationBuilder::default()
        .architecture(platform.arch())
        .os(Os::Linux)
        .config(ConfigBuilder::default().env(vec![PATH.to_owned()]).build()?)
        .rootfs(rootfs)
        .history(Vec::new())
        .build()?;
    let manifest = ImageManifestBuilder::default()
        .schema_version(SCHEMA_VERSION)
        .media_type(MediaType::ImageManifest)
        .config(layout.put_document(MediaType::ImageConfig, &config)?)
        .layers(vec![layout.put(MediaType::ImageLayerGzip, &gzip(&tar)?)?])
        .build()?;
    layout.put_document(MediaType::ImageManifest, &manifest)
}

fn files(platform: Platform) -> Result<Tree> {
    let mut tree = Tree::default();
    for folder in ["etc", "etc/ssl", "etc/ssl/certs", "lib", "lib64", "proc", "dev"] {
        tree.folder(folder, 0o755, 0);
    }
    tree.folder("tmp", 0o1777, 0);
    let user =
        format!("root:x:0:0:root:/root:/sbin/nologin\nnonroot:x:{USER}:{USER}:nonroot:/home/nonroot:/sbin/nologin\n");
    tree.file("etc/passwd", 0o644, user);
    tree.file("etc/group", 0o644, format!("root:x:0:\nnonroot:x:{USER}:\n"));
    tree.file("etc/nsswitch.conf", 0o644, "hosts: files dns\n");
    if let Some(file) = CERTIFICATES.iter().find(|file| Path::new(file).is_file()) {
        tree.file("etc/ssl/certs/ca-certificates.crt", 0o644, std::fs::read(file)?);
    }
    if Some(platform) == Platform::of_this_machine() {
        let loader = loader(platform);
        tree.file(loader.trim_start_matches('/'), 0o755, read(Path::new(loader))?);
        for library in LIBRARIES {
            if let Some(file) = library_file(platform, library) {
                tree.file(&format!("lib/{library}"), 0o755, read(&file)?);
            }
        }
    }
    Ok(tree)
}

/// The program that loads libraries; its path is part of the ABI.
fn loader(platform: Platform) -> &'static str {
    match platform {
        Platform::Amd64 => "/lib64/ld-linux-x86-64.so.2",
        Platform::Arm64 => "/lib/ld-linux-aarch64.so.1",
    }
}

/// Where this machine has a library.
fn library_file(platform: Platform, library: &str) -> Option<PathBuf> {
    let multiarch = format!("/lib/{}", platform.target().replace("-unknown", ""));
    let folders = [multiarch.as_str(), "/lib64", "/usr/lib64", "/lib", "/usr/lib"];
    folders
        .iter()
        .map(|folder| Path::new(folder).join(library))
        .find(|file| file.is_file())
}

fn read(file: &Path) -> Result<Vec<u8>> {
    let bytes = std::fs::read(file).with_context(|| format!("failed to read {}", file.display()))?;
    ensure!(!bytes.is_empty(), "{} is empty", file.display());
    Ok(bytes)
}
