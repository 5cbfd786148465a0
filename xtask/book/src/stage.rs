//! Lays the pages out as mdBook reads them.
//!
//! Pages of `docs/` keep their place, so that `docs/runbooks/CODE.md` is `runbooks/CODE.html` on the site. Other files
//! of the repository are below `repository/`. A `README.md` is the `index.md` of its folder. Source code becomes a
//! page with one block of code, as browsers would save the file instead of showing it.

use std::collections::BTreeSet;
use std::path::{Path, PathBuf};

use anyhow::{Context, Result, ensure};

use crate::contents::Contents;
use crate::{links, read, write};

/// Where files outside of `docs/` are.
const OUTSIDE: &str = "repository";

/// Begins and ends a block of code. Longer than what a file contains.
const FENCE: &str = "~~~~~~~~";

/// Writes the pages, images and `SUMMARY.md` into `folder`. Adds to `contents` what pages link to.
pub(crate) fn write_all(repository: &Path, contents: &mut Contents, folder: &Path) -> Result<()> {
    let mut waiting: Vec<PathBuf> = contents.files().into_iter().map(Path::to_owned).collect();
    let mut pages: BTreeSet<PathBuf> = waiting.iter().cloned().collect();
    while !waiting.is_empty() {
        let mut linked = BTreeSet::new();
        for file in waiting {
            let text = page(repository, &file, folder, &mut linked)?;
            write(&folder.join(address(&file)), text)?;
        }
        waiting = linked.into_iter().filter(|file| pages.insert(file.clone())).collect();
        waiting.iter().for_each(|file| contents.add(file));
    }
    write(&folder.join("SUMMARY.md"), contents.summary(address))
}

/// The text of a page with the links of the book. Copies its images, and adds the files that it links to to `linked`.
fn page(repository: &Path, file: &Path, folder: &Path, linked: &mut BTreeSet<PathBuf>) -> Result<String> {
    let mut text = read(&repository.join(file))?;
    if !is_markdown(file) {
        let extension = file.extension().unwrap_or_default().to_string_lossy();
        let path = file.display();
        return Ok(format!("# {path}\n\n{FENCE}{extension}\n{text}\n{FENCE}\n"));
    }
    let place = address(file);
    for link in links::of(file, &text)?.into_iter().rev() {
        ensure!(
            repository.join(&link.file).is_file(),
            "{} links to {}, which is no file of the repository",
            file.display(),
            link.file.display()
        );
        let target = if link.is_image {
            let target = below(&link.file);
            write(&folder.join(&target), image(repository, &link.file)?)?;
            target
        } else {
            let target = address(&link.file);
            linked.insert(link.file);
            target
        };
        text.replace_range(link.place, &links::relative(&place, &target));
    }
    Ok(text)
}

/// A picture. One that is drawn must be drawn for light and dark; one of pixels must be made by a test, which keeps its
/// outline next to it.
fn image(repository: &Path, file: &Path) -> Result<Vec<u8>> {
    let path = repository.join(file);
    if file.extension().is_some_and(|extension| extension == "webp") {
        ensure!(
            path.with_extension("txt").is_file(),
            "{} needs the outline of a test: see docs/contributing/book.md",
            file.display()
        );
        return std::fs::read(&path).with_context(|| format!("failed to read {}", path.display()));
    }
    let text = read(&path)?;
    ensure!(
        text.contains("(prefers-color-scheme: dark)") && text.contains("<title>"),
        "{} needs a title, and colors for `prefers-color-scheme: dark`",
        file.display()
    );
    Ok(text.into_bytes())
}

/// The place of a page in the book.
pub(crate) fn address(file: &Path) -> PathBuf {
    let place = below(file);
    if place.ends_with("README.md") {
        return place.with_file_name("index.md");
    }
    if is_markdown(file) {
        return place;
    }
    let mut name = place.into_os_string();
    name.push(".md");
    PathBuf::from(name)
}

fn below(file: &Path) -> PathBuf {
    match file.strip_prefix("docs") {
        Ok(page) => page.to_owned(),
        Err(_) => Path::new(OUTSIDE).join(file),
    }
}

fn is_markdown(file: &Path) -> bool {
    file.extension().is_some_and(|extension| extension == "md")
}

#[cfg(test)]
mod tests {
    use super::*;

    const SVG: &str = "<svg><title>p</title><style>@media (prefers-color-scheme: dark) {}</style></svg>";

    #[test]
    fn runbooks_have_addresses_of_their_own() {
        let place = |file: &str| address(Path::new(file)).display().to_string();
        assert_eq!(place("docs/runbooks/not-synced.md"), "runbooks/not-synced.md");
        assert_eq!(place("docs/README.md"), "index.md");
        assert_eq!(
            place("plugins/reloader/README.md"),
            "repository/plugins/reloader/index.md"
        );
        assert_eq!(place("wit/informant.wit"), "repository/wit/informant.wit.md");
    }

    #[test]
    fn linked_files_become_pages_and_images_are_copied() {
        let (repository, book) = (tempfile::tempdir().unwrap(), tempfile::tempdir().unwrap());
        for (file, text) in [
            (
                "docs/README.md",
                "## Start\n\n| | |\n|---|---|\n| [A](guides/a.md) | |\n",
            ),
            (
                "docs/guides/a.md",
                "![p](../images/p.svg) [C](../../wit/c.wit#x) [home](../README.md) [b](../../B.md)",
            ),
            ("docs/images/p.svg", SVG),
            ("wit/c.wit", "package x;"),
            ("B.md", "[home](docs/README.md)"),
        ] {
            write(&repository.path().join(file), text).unwrap();
        }
        let mut contents = Contents::read(repository.path()).unwrap();
        write_all(repository.path(), &mut contents, book.path()).unwrap();
        let staged = |file: &str| read(&book.path().join(file)).unwrap();
        insta::assert_snapshot!(staged("guides/a.md"), @"![p](../images/p.svg) [C](../repository/wit/c.wit.md#x) [home](../index.md) [b](../repository/B.md)");
        assert_eq!(staged("images/p.svg"), SVG);
        assert!(staged("repository/wit/c.wit.md").contains("package x;"));
        assert_eq!(staged("repository/B.md"), "[home](../index.md)");
        assert!(
            staged("SUMMARY.md")
                .ends_with("# More\n\n- [B.md](repository/B.md)\n- [wit/c.wit](repository/wit/c.wit.md)\n")
        );
    }

    #[test]
    fn link_to_a_missing_file_is_refused() {
        let repository = tempfile::tempdir().unwrap();
        write(&repository.path().join("docs/README.md"), "[a](gone.md)").unwrap();
        let mut contents = Contents::read(repository.path()).unwrap();
        let error = write_all(repository.path(), &mut contents, &repository.path().join("book")).unwrap_err();
        insta::assert_snapshot!(error, @"docs/README.md links to docs/gone.md, which is no file of the repository");
    }

    #[test]
    fn picture_without_colors_for_dark_is_refused() {
        let repository = tempfile::tempdir().unwrap();
        write(&repository.path().join("p.svg"), "<svg><title>p</title></svg>").unwrap();
        let error = image(repository.path(), Path::new("p.svg")).unwrap_err();
        insta::assert_snapshot!(error, @"p.svg needs a title, and colors for `prefers-color-scheme: dark`");
    }

    #[test]
    fn screenshot_that_no_test_makes_is_refused() {
        let repository = tempfile::tempdir().unwrap();
        write(&repository.path().join("p.webp"), [0x89, 0xff]).unwrap();
        let error = image(repository.path(), Path::new("p.webp")).unwrap_err();
        insta::assert_snapshot!(error, @"p.webp needs the outline of a test: see docs/contributing/book.md");
        write(&repository.path().join("p.txt"), "h1: Overview\n").unwrap();
        assert_eq!(image(repository.path(), Path::new("p.webp")).unwrap(), [0x89, 0xff]);
    }
}
