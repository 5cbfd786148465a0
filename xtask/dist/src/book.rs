//! The archive of the book, which `cargo xtask dist` has built.

use std::path::Path;

use anyhow::{Context, Result, ensure};

use crate::release::Release;
use crate::tree::{Tree, files_below, gzip};
use crate::write as write_file;

/// The first page, without which the folder is no book.
const INDEX: &str = "index.html";

/// Packs the book in `folder` into `out`.
pub(crate) fn write(folder: &Path, release: &Release, out: &Path) -> Result<()> {
    let name = format!("informant-book-{}", release.version);
    let files = files_below(folder)?;
    ensure!(
        files.iter().any(|file| file == Path::new(INDEX)),
        "{} is missing; `cargo xtask book` writes it",
        folder.join(INDEX).display()
    );
    let mut tree = Tree::default();
    tree.folder(&name, 0o755, 0);
    for file in files {
        let content = std::fs::read(folder.join(&file));
        let content = content.with_context(|| format!("failed to read {}", folder.join(&file).display()))?;
        tree.file(&format!("{name}/{}", file.display()), 0o644, content);
    }
    let bytes = gzip(&tree.to_tar(release.epoch)?)?;
    write_file(&out.join(format!("{name}.tar.gz")), bytes)
}

#[cfg(test)]
mod tests {
    use super::write;
    use crate::release::release;

    #[test]
    fn archive_holds_all_files_of_the_book() {
        let (book, out) = (tempfile::tempdir().unwrap(), tempfile::tempdir().unwrap());
        let error = write(book.path(), &release(), out.path()).unwrap_err().to_string();
        assert!(error.contains("index.html is missing; `cargo xtask book`"), "{error}");
        std::fs::create_dir(book.path().join("runbooks")).unwrap();
        for file in ["runbooks/not-synced.html", "index.html"] {
            std::fs::write(book.path().join(file), "page").unwrap();
        }
        write(book.path(), &release(), out.path()).unwrap();
        let packed = std::fs::read(out.path().join("informant-book-0.1.0.tar.gz")).unwrap();
        let mut archive = tar::Archive::new(flate2::read::GzDecoder::new(packed.as_slice()));
        let paths = archive
            .entries()
            .unwrap()
            .map(|entry| entry.unwrap().path().unwrap().display().to_string());
        insta::assert_snapshot!(paths.collect::<Vec<_>>().join("\n"), @"
        informant-book-0.1.0/
        informant-book-0.1.0/index.html
        informant-book-0.1.0/runbooks/not-synced.html
        ");
    }
}
