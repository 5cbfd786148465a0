//! The archive for one platform: the program, its license and changes, and shell completions.

use std::path::Path;

use anyhow::Result;

use crate::checksums::sha256;
use crate::completions::File;
use crate::platform::Platform;
use crate::program::Program;
use crate::release::Release;
use crate::tree::{Tree, gzip};
use crate::{read_text, write as write_file};

/// A written archive.
pub(crate) struct Archive {
    pub(crate) platform: Platform,
    /// The file's name without `.tar.gz`, and the folder in it.
    pub(crate) name: String,
    pub(crate) sha256: String,
}

/// Writes the archive of `program` into `out`.
pub(crate) fn write(
    program: &Program,
    repository: &Path,
    completions: &[File],
    release: &Release,
    out: &Path,
) -> Result<Archive> {
    let name = format!(
        "informant-{}-linux-{}",
        release.version,
        program.platform.architecture()
    );
    let mut tree = Tree::default();
    tree.folder(&name, 0o755, 0);
    for file in ["CHANGELOG.md", "LICENSE"] {
        tree.file(&format!("{name}/{file}"), 0o644, read_text(&repository.join(file))?);
    }
    for (file, content) in completions {
        tree.file(&format!("{name}/completions/{file}"), 0o644, content.clone());
    }
    tree.file(&format!("{name}/informant"), 0o755, program.read()?);
    let bytes = gzip(&tree.to_tar(release.epoch)?)?;
    write_file(&out.join(format!("{name}.tar.gz")), &bytes)?;
    Ok(Archive {
        platform: program.platform,
        name,
        sha256: sha256(&bytes),
    })
}
