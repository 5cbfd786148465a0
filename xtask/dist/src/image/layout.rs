//! An OCI image layout: a folder with an index, and blobs named by their digests.

use std::path::{Path, PathBuf};

use anyhow::{Context, Result, ensure};
use oci_spec::image::{Descriptor, Digest, ImageIndex, ImageIndexBuilder, MediaType, SCHEMA_VERSION};
use serde::Serialize;
use serde::de::DeserializeOwned;

use crate::checksums::sha256;
use crate::tree::Tree;
use crate::write;

/// The file that marks a layout, and what it says.
const MARKER: (&str, &str) = ("oci-layout", r#"{"imageLayoutVersion":"1.0.0"}"#);

/// The list of the images in it.
const INDEX: &str = "index.json";

/// Where the blobs are.
const BLOBS: &str = "blobs/sha256";

/// A folder with an image layout.
pub(crate) struct Layout {
    folder: PathBuf,
}

impl Layout {
    /// Writes an empty layout, without an index.
    pub(crate) fn create(folder: &Path) -> Result<Self> {
        let blobs = folder.join(BLOBS);
        std::fs::create_dir_all(&blobs).with_context(|| format!("failed to create {}", blobs.display()))?;
        write(&folder.join(MARKER.0), MARKER.1)?;
        Ok(Self {
            folder: folder.to_owned(),
        })
    }

    /// Opens a layout.
    pub(crate) fn open(folder: &Path) -> Result<Self> {
        ensure!(
            folder.join(MARKER.0).is_file(),
            "{} is not an OCI image layout: it has no file `{}`",
            folder.display(),
            MARKER.0
        );
        Ok(Self {
            folder: folder.to_owned(),
        })
    }

    /// Its index.
    pub(crate) fn index(&self) -> Result<ImageIndex> {
        let file = self.folder.join(INDEX);
        ImageIndex::from_file(&file).with_context(|| format!("failed to read {}", file.display()))
    }

    /// Writes its index.
    pub(crate) fn set_index(&self, manifests: Vec<Descriptor>) -> Result<()> {
        let index = ImageIndexBuilder::default()
            .schema_version(SCHEMA_VERSION)
            .media_type(MediaType::ImageIndex)
            .manifests(manifests)
            .build()?;
        write(&self.folder.join(INDEX), to_json(&index)?)
    }

    /// Adds a blob.
    pub(crate) fn put(&self, kind: MediaType, bytes: &[u8]) -> Result<Descriptor> {
        let digest = sha256(bytes);
        write(&self.folder.join(BLOBS).join(&digest), bytes)?;
        let digest = Digest::try_from(format!("sha256:{digest}"))?;
        Ok(Descriptor::new(kind, u64::try_from(bytes.len())?, digest))
    }

    /// Adds a document.
    pub(crate) fn put_document(&self, kind: MediaType, document: &impl Serialize) -> Result<Descriptor> {
        self.put(kind, &to_json(document)?)
    }

    /// Adds a blob of another layout.
    pub(crate) fn copy(&self, from: &Layout, blob: &Descriptor) -> Result<Descriptor> {
        self.put(blob.media_type().clone(), &from.get(blob)?)
    }

    /// Reads a blob, and checks that it is the one that the descriptor names.
    pub(crate) fn get(&self, blob: &Descriptor) -> Result<Vec<u8>> {
        let digest = blob
            .as_digest_sha256()
            .with_context(|| format!("the digest {} is not a SHA-256", blob.digest()))?;
        let file = self.folder.join(BLOBS).join(digest);
        let bytes = std::fs::read(&file).with_context(|| format!("failed to read {}", file.display()))?;
        let found = sha256(&bytes);
        ensure!(found == digest, "{} is damaged: its digest is {found}", file.display());
        Ok(bytes)
    }

    /// Reads a document.
    pub(crate) fn get_document<T: DeserializeOwned>(&self, blob: &Descriptor) -> Result<T> {
        let bytes = self.get(blob)?;
        serde_json::from_slice(&bytes).with_context(|| {
            format!(
                "{} in {} is not a {}",
                blob.digest(),
                self.folder.display(),
                blob.media_type()
            )
        })
    }

    /// The layout as one file, which `podman load` and `skopeo copy oci-archive:` read.
    pub(crate) fn as_archive(&self, epoch: u64) -> Result<Vec<u8>> {
        let mut tree = Tree::default();
        let read = |path: &str| {
            let file = self.folder.join(path);
            std::fs::read(&file).with_context(|| format!("failed to read {}", file.display()))
        };
        tree.file(MARKER.0, 0o644, read(MARKER.0)?);
        tree.file(INDEX, 0o644, read(INDEX)?);
        tree.folder("blobs", 0o755, 0);
        tree.folder(BLOBS, 0o755, 0);
        let mut names = Vec::new();
        for entry in std::fs::read_dir(self.folder.join(BLOBS))? {
            names.push(entry?.file_name().to_string_lossy().into_owned());
        }
        names.sort();
        for path in names.iter().map(|name| format!("{BLOBS}/{name}")) {
            tree.file(&path, 0o644, read(&path)?);
        }
        tree.to_tar(epoch)
    }
}

/// A document with sorted keys: the types of images have hash maps, whose order changes from run to run.
fn to_json(document: &impl Serialize) -> Result<Vec<u8>> {
    Ok(serde_json::to_vec(&serde_json::to_value(document)?)?)
}
