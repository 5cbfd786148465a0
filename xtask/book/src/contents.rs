//! Which pages the book has, and in which order.
//!
//! `docs/README.md` is the one home of the order: a heading is a part, and a link in the first column of a table a
//! page. If the page is the `README.md` of a folder, the first columns of its own tables name the pages below it.

use std::collections::BTreeSet;
use std::fmt::Write as _;
use std::path::{Path, PathBuf};

use anyhow::{Result, ensure};
use pulldown_cmark::{Event, Options, Parser, Tag, TagEnd};

use crate::{links, read};

/// The page with the order, which is also the first page of the book.
const HOME: &str = "docs/README.md";

/// The folder whose pages the order must contain.
const DOCS: &str = "docs";

/// The part with files that pages link to, and that are in no table.
const MORE: &str = "More";

/// The book.
#[derive(Debug)]
pub(crate) struct Contents {
    pub(crate) home: Page,
    pub(crate) parts: Vec<Part>,
}

/// Pages under one heading.
#[derive(Debug)]
pub(crate) struct Part {
    pub(crate) title: String,
    pub(crate) pages: Vec<Page>,
}

/// One page.
#[derive(Debug)]
pub(crate) struct Page {
    /// Its file, from the root of the repository.
    pub(crate) file: PathBuf,
    pub(crate) title: String,
    /// What the next column of the table says about it; may be empty.
    pub(crate) about: String,
    pub(crate) pages: Vec<Page>,
}

impl Contents {
    /// Reads the order.
    ///
    /// # Errors
    /// If a file is missing, or a page of `docs/` is in no table.
    pub(crate) fn read(repository: &Path) -> Result<Self> {
        let home = Page {
            file: PathBuf::from(HOME),
            title: "Documentation".to_owned(),
            about: String::new(),
            pages: Vec::new(),
        };
        let mut seen = BTreeSet::from([home.file.clone()]);
        let mut parts = rows(&home.file, &read(&repository.join(HOME))?)?;
        parts.retain(|part| !part.pages.is_empty());
        for part in &mut parts {
            complete(repository, &mut part.pages, &mut seen)?;
        }
        let contents = Self { home, parts };
        contents.ensure_whole(repository)?;
        Ok(contents)
    }

    /// The files of all pages.
    pub(crate) fn files(&self) -> Vec<&Path> {
        fn below<'p>(pages: &'p [Page], files: &mut Vec<&'p Path>) {
            for page in pages {
                files.push(&page.file);
                below(&page.pages, files);
            }
        }
        let mut files = vec![self.home.file.as_path()];
        self.parts.iter().for_each(|part| below(&part.pages, &mut files));
        files
    }

    /// Adds a file that no table names. Its title is its path.
    pub(crate) fn add(&mut self, file: &Path) {
        if self.parts.last().is_none_or(|part| part.title != MORE) {
            self.parts.push(Part {
                title: MORE.to_owned(),
                pages: Vec::new(),
            });
        }
        if let Some(part) = self.parts.last_mut() {
            part.pages.push(Page {
                file: file.to_owned(),
                title: file.display().to_string(),
                about: String::new(),
                pages: Vec::new(),
            });
        }
    }

    /// `SUMMARY.md`, from which mdBook takes the order. `address` is the place of a file in the book.
    pub(crate) fn summary(&self, address: impl Fn(&Path) -> PathBuf) -> String {
        let mut text = String::from("# Summary\n\n");
        let line = |text: &mut String, depth: usize, page: &Page| {
            let bullet = if depth == 0 { "" } else { "- " };
            let indent = "  ".repeat(depth.saturating_sub(1));
            let address = address(&page.file);
            let _ = writeln!(text, "{indent}{bullet}[{}]({})", page.title, address.display());
        };
        line(&mut text, 0, &self.home);
        for part in &self.parts {
            let _ = writeln!(text, "\n# {}\n", part.title);
            part.walk(&mut |depth, page| line(&mut text, depth, page));
        }
        text
    }

    fn ensure_whole(&self, repository: &Path) -> Result<()> {
        let listed: BTreeSet<&Path> = self.files().into_iter().collect();
        let mut folders = vec![PathBuf::from(DOCS)];
        while let Some(folder) = folders.pop() {
            for entry in std::fs::read_dir(repository.join(&folder))? {
                let entry = entry?;
                let path = folder.join(entry.file_name());
                if entry.file_type()?.is_dir() {
                    folders.push(path);
                    continue;
                }
                let is_page = path.extension().is_some_and(|extension| extension == "md");
                ensure!(
                    !is_page || listed.contains(path.as_path()),
                    "{} is in no table of {HOME}: add a row, at its place in the order of reading",
                    path.display()
                );
            }
        }
        Ok(())
    }
}

impl Part {
    /// Calls `visit` with each page in order, and its depth: 1 for the pages of the part.
    pub(crate) fn walk(&self, visit: &mut impl FnMut(usize, &Page)) {
        fn below(pages: &[Page], depth: usize, visit: &mut impl FnMut(usize, &Page)) {
            for page in pages {
                visit(depth, page);
                below(&page.pages, depth + 1, visit);
            }
        }
        below(&self.pages, 1, visit);
    }
}

/// Leaves each file at its first place, and adds what the tables of a `README.md` name.
fn complete(repository: &Path, pages: &mut Vec<Page>, seen: &mut BTreeSet<PathBuf>) -> Result<()> {
    pages.retain(|page| seen.insert(page.file.clone()));
    for page in pages {
        if page.file.ends_with("README.md") {
            let parts = rows(&page.file, &read(&repository.join(&page.file))?)?;
            page.pages = parts.into_iter().flat_map(|part| part.pages).collect();
            complete(repository, &mut page.pages, seen)?;
        }
    }
    Ok(())
}

/// The headings of a page, each with the links in the first columns of the tables below it.
fn rows(file: &Path, text: &str) -> Result<Vec<Part>> {
    let mut parts = vec![Part {
        title: String::new(),
        pages: Vec::new(),
    }];
    let (mut column, mut in_heading, mut of_row, mut in_link) = (0, false, 0, false);
    for event in Parser::new_ext(text, Options::ENABLE_TABLES) {
        let part = parts.len() - 1;
        let pages = &mut parts[part].pages;
        match event {
            Event::Start(Tag::Heading { .. }) => {
                in_heading = true;
                parts.push(Part {
                    title: String::new(),
                    pages: Vec::new(),
                });
            }
            Event::End(TagEnd::Heading(_)) => in_heading = false,
            Event::Start(Tag::TableRow) => (column, of_row) = (1, pages.len()),
            Event::End(TagEnd::TableCell) if column > 0 => column += 1,
            Event::End(TagEnd::TableRow) => column = 0,
            Event::Start(Tag::Link { dest_url, .. }) if column == 1 => {
                // An anchor is a part of a page that has its place, and another site is no page.
                if let Some((path, None)) = links::local(&dest_url) {
                    in_link = true;
                    pages.push(Page {
                        file: links::resolve(file, path)?,
                        title: String::new(),
                        about: String::new(),
                        pages: Vec::new(),
                    });
                }
            }
            Event::End(TagEnd::Link) => in_link = false,
            Event::Text(words) | Event::Code(words) => match column {
                0 if in_heading => parts[part].title.push_str(&words),
                1 if in_link => pages
                    .iter_mut()
                    .last()
                    .into_iter()
                    .for_each(|page| page.title.push_str(&words)),
                2 => pages[of_row..].iter_mut().for_each(|page| page.about.push_str(&words)),
                _ => {}
            },
            _ => {}
        }
    }
    Ok(parts)
}

#[cfg(test)]
mod tests {
    use std::path::Path;

    use super::*;

    /// A repository with these files.
    fn repository(files: &[(&str, &str)]) -> tempfile::TempDir {
        let folder = tempfile::tempdir().unwrap();
        for (file, text) in files {
            crate::write(&folder.path().join(file), text).unwrap();
        }
        folder
    }

    const HOME_TEXT: &str = "# Documentation\n\nRead [B](b.md).\n\n## Start\n\n| page | |\n|---|---|\n\
        | [A](a.md), [the contract](../wit/x.wit) | about `a` |\n| [Books](books/README.md) | all, see [A](a.md) |\n\n\
        ## Reference\n\n| page | |\n|---|---|\n| [B](b.md) | about b |\n| [again](a.md) | no second place |\n";

    #[test]
    fn order_is_that_of_the_tables() {
        let folder = repository(&[
            ("docs/README.md", HOME_TEXT),
            ("docs/a.md", ""),
            ("docs/b.md", ""),
            (
                "docs/books/README.md",
                "| code | |\n|---|---|\n| [`one`](one.md) | 1 |\n| [site](https://x.org) | |\n",
            ),
            ("docs/books/one.md", ""),
        ]);
        let contents = Contents::read(folder.path()).unwrap();
        insta::assert_snapshot!(contents.summary(Path::to_owned), @r"
        # Summary

        [Documentation](docs/README.md)

        # Start

        - [A](docs/a.md)
        - [the contract](wit/x.wit)
        - [Books](docs/books/README.md)
          - [one](docs/books/one.md)

        # Reference

        - [B](docs/b.md)
        ");
        assert_eq!(contents.parts[0].pages[1].about, "about a");
    }

    #[test]
    fn page_without_a_row_is_refused() {
        let folder = repository(&[("docs/README.md", "## Start\n"), ("docs/guides/new.md", "")]);
        let error = Contents::read(folder.path()).unwrap_err();
        insta::assert_snapshot!(error, @"docs/guides/new.md is in no table of docs/README.md: add a row, at its place in the order of reading");
    }
}
