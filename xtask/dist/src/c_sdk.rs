//! The archive of the C SDK: sources, headers, examples and tests, and the bindings, which `cargo xtask dist` has
//! generated.

use std::path::Path;

use anyhow::{Context, Result, ensure};

use crate::release::Release;
use crate::tree::{Tree, files_below, gzip};
use crate::write as write_file;

/// The bindings, without which no plugin can be built.
const BINDINGS: [&str; 2] = ["gen/contract.h", "gen-http/http_client.h"];

/// The extensions of the files of the SDK. Others in its folder are what somebody has built there.
const EXTENSIONS: [&str; 4] = ["c", "h", "md", "o"];

/// Writes the archive into `out`.
pub(crate) fn write(repository: &Path, release: &Release, out: &Path) -> Result<()> {
    let name = format!("informant-c-sdk-{}", release.version);
    let bytes = gzip(&tree(repository, &name)?.to_tar(release.epoch)?)?;
    write_file(&out.join(format!("{name}.tar.gz")), bytes)
}

fn tree(repository: &Path, name: &str) -> Result<Tree> {
    let sdk = repository.join("plugin-sdk").join("c");
    let mut files = files_below(&sdk)?;
    files.retain(|file| {
        file.extension()
            .is_some_and(|extension| EXTENSIONS.iter().any(|known| extension == *known))
    });
    for binding in BINDINGS {
        ensure!(
            files.iter().any(|file| file == Path::new(binding)),
            "{} is missing; `cargo xtask c-bindings` generates it",
            sdk.join(binding).display()
        );
    }
    let mut tree = Tree::default();
    tree.folder(name, 0o755, 0);
    tree.file(&format!("{name}/LICENSE"), 0o644, read(&repository.join("LICENSE"))?);
    for file in files {
        tree.file(&format!("{name}/{}", file.display()), 0o644, read(&sdk.join(&file))?);
    }
    Ok(tree)
}

fn read(file: &Path) -> Result<Vec<u8>> {
    std::fs::read(file).with_context(|| format!("failed to read {}", file.display()))
}

#[cfg(test)]
mod tests {
    use std::path::Path;

    use super::write;
    use crate::release::release;

    /// A repository with these files in the folder of the SDK.
    fn repository(files: &[&str]) -> tempfile::TempDir {
        let folder = tempfile::tempdir().unwrap();
        std::fs::write(folder.path().join("LICENSE"), "Apache").unwrap();
        for file in files {
            let file = folder.path().join("plugin-sdk/c").join(file);
            std::fs::create_dir_all(file.parent().unwrap()).unwrap();
            std::fs::write(file, "text").unwrap();
        }
        folder
    }

    fn names(archive: &Path) -> Vec<String> {
        let bytes = std::fs::read(archive).unwrap();
        let mut archive = tar::Archive::new(flate2::read::GzDecoder::new(bytes.as_slice()));
        let entries = archive.entries().unwrap();
        entries
            .map(|entry| entry.unwrap().path().unwrap().display().to_string())
            .collect()
    }

    #[test]
    fn archive_has_the_bindings_and_nothing_that_was_built() {
        let files = [
            "informant.c",
            "core.wasm",
            "gen/contract.h",
            "gen/type.o",
            "gen-http/http_client.h",
        ];
        let (repository, out) = (repository(&files), tempfile::tempdir().unwrap());
        write(repository.path(), &release(), out.path()).unwrap();
        insta::assert_snapshot!(names(&out.path().join("informant-c-sdk-0.1.0.tar.gz")).join("\n"), @"
        informant-c-sdk-0.1.0/
        informant-c-sdk-0.1.0/LICENSE
        informant-c-sdk-0.1.0/gen/contract.h
        informant-c-sdk-0.1.0/gen/type.o
        informant-c-sdk-0.1.0/gen-http/http_client.h
        informant-c-sdk-0.1.0/informant.c
        ");
    }

    #[test]
    fn an_sdk_without_bindings_is_refused() {
        let (repository, out) = (
            repository(&["informant.c", "gen/contract.h"]),
            tempfile::tempdir().unwrap(),
        );
        let error = write(repository.path(), &release(), out.path())
            .unwrap_err()
            .to_string();
        assert!(
            error.contains("gen-http/http_client.h is missing; `cargo xtask c-bindings`"),
            "{error}"
        );
    }
}
