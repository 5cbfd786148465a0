//! The image that ours is based on.

use std::io::Read;

use anyhow::{Context, Result, bail, ensure};
use oci_spec::image::{Descriptor, ImageConfiguration, ImageIndex, ImageManifest, MediaType, Os};

use super::layout::Layout;
use crate::platform::Platform;

/// How deep indexes are nested in a layout: its own, and one of the platforms. Another level is an error.
const INDEX_DEPTH_MAX: u32 = 3;

/// Programs that execute text. An image with one of them gives an intruder more than Informant.
const SHELLS: [&str; 8] = ["sh", "bash", "dash", "ash", "zsh", "ksh", "busybox", "toybox"];

/// An image for one platform.
pub(crate) struct Base<'l> {
    pub(crate) layout: &'l Layout,
    pub(crate) manifest: ImageManifest,
    pub(crate) config: ImageConfiguration,
}

impl<'l> Base<'l> {
    /// The only image for `platform` in the layout.
    ///
    /// # Errors
    /// If there is none, or more than one.
    pub(crate) fn find(layout: &'l Layout, platform: Platform) -> Result<Self> {
        let mut manifests = Vec::new();
        collect(layout, &layout.index()?, INDEX_DEPTH_MAX, &mut manifests)?;
        let mut found = Vec::new();
        for manifest in manifests {
            let manifest: ImageManifest = layout.get_document(&manifest)?;
            // Signatures and attestations are manifests, too.
            if *manifest.config().media_type() != MediaType::ImageConfig {
                continue;
            }
            let config: ImageConfiguration = layout.get_document(manifest.config())?;
            if *config.os() == Os::Linux && *config.architecture() == platform.arch() {
                found.push(Self {
                    layout,
                    manifest,
                    config,
                });
            }
        }
        let count = found.len();
        match found.pop() {
            Some(base) if count == 1 => Ok(base),
            None => bail!("the layout has no image for linux/{}", platform.architecture()),
            Some(_) => bail!(
                "the layout has {count} images for linux/{}: keep one",
                platform.architecture()
            ),
        }
    }

    /// Checks that no layer contains a shell.
    pub(crate) fn refuse_shells(&self) -> Result<()> {
        for layer in self.manifest.layers() {
            let bytes = self.layout.get(layer)?;
            let mut archive = tar::Archive::new(uncompressed(layer, &bytes)?);
            for entry in archive.entries()? {
                let entry = entry.with_context(|| format!("failed to read the layer {}", layer.digest()))?;
                let path = entry.path()?;
                let is_shell = SHELLS.iter().any(|shell| path.ends_with(format!("bin/{shell}")));
                ensure!(!is_shell, "the base contains a shell: {}", path.display());
            }
        }
        Ok(())
    }
}

/// Collects the manifests in an index and in the indexes that it names.
fn collect(layout: &Layout, index: &ImageIndex, depth: u32, manifests: &mut Vec<Descriptor>) -> Result<()> {
    ensure!(depth > 0, "its indexes are nested deeper than {INDEX_DEPTH_MAX} levels");
    for entry in index.manifests() {
        match entry.media_type() {
            MediaType::ImageManifest => manifests.push(entry.clone()),
            MediaType::ImageIndex => collect(layout, &layout.get_document(entry)?, depth - 1, manifests)?,
            other => bail!("{} is a {other}; copy the base in the OCI format", entry.digest()),
        }
    }
    Ok(())
}

/// The tar archive in a layer.
pub(super) fn uncompressed<'b>(layer: &Descriptor, bytes: &'b [u8]) -> Result<Box<dyn Read + 'b>> {
    match layer.media_type() {
        MediaType::ImageLayer => Ok(Box::new(bytes)),
        MediaType::ImageLayerGzip => Ok(Box::new(flate2::read::GzDecoder::new(bytes))),
        other => bail!(
            "the layer {} is a {other}; use a base with layers in gzip",
            layer.digest()
        ),
    }
}
