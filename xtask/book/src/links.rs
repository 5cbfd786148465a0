//! Links in Markdown to files of the repository.

use std::ops::Range;
use std::path::{Component, Path, PathBuf};

use anyhow::{Context, Result, ensure};
use pulldown_cmark::{Event, LinkType, Options, Parser, Tag};

/// A link of a page to a file.
#[derive(Debug)]
pub(crate) struct Link {
    /// Where the page has the destination, without an anchor.
    pub(crate) place: Range<usize>,
    /// The file, from the root of the repository.
    pub(crate) file: PathBuf,
    pub(crate) is_image: bool,
}

/// The path and the anchor of a destination; none if it leads to another site or stays on the page.
pub(crate) fn local(destination: &str) -> Option<(&str, Option<&str>)> {
    let (path, anchor) = match destination.split_once('#') {
        Some((path, anchor)) => (path, Some(anchor)),
        None => (destination, None),
    };
    let is_local = !path.is_empty() && !path.contains("://") && !path.starts_with("mailto:");
    is_local.then_some((path, anchor))
}

/// The file that `path` leads to from the page `from`.
///
/// # Errors
/// If that is outside of the repository.
pub(crate) fn resolve(from: &Path, path: &str) -> Result<PathBuf> {
    let mut resolved = from.parent().unwrap_or(Path::new("")).to_owned();
    for component in Path::new(path).components() {
        match component {
            Component::Normal(name) => resolved.push(name),
            Component::CurDir => {}
            _ => ensure!(
                component == Component::ParentDir && resolved.pop(),
                "{} links to {path}, which is outside of the repository",
                from.display()
            ),
        }
    }
    Ok(resolved)
}

/// The links of the page `from` to files, in their order.
pub(crate) fn of(from: &Path, text: &str) -> Result<Vec<Link>> {
    let mut links = Vec::new();
    for (event, range) in Parser::new_ext(text, Options::ENABLE_TABLES).into_offset_iter() {
        let (kind, destination, is_image) = match event {
            Event::Start(Tag::Link {
                link_type, dest_url, ..
            }) => (link_type, dest_url, false),
            Event::Start(Tag::Image {
                link_type, dest_url, ..
            }) => (link_type, dest_url, true),
            _ => continue,
        };
        let Some((path, _)) = local(&destination).filter(|_| kind != LinkType::Email) else {
            continue;
        };
        let written = &text[range.clone()];
        ensure!(
            !written.starts_with("![]"),
            "{}: {written} needs a text for people who do not see it",
            from.display()
        );
        // Long destinations are on a line of their own.
        let begin = written.rfind("](").map(|at| {
            let rest = &written[at + 2..];
            range.start + written.len() - rest.trim_start().len()
        });
        let begin = begin.filter(|begin| text[*begin..].starts_with(&*destination));
        let begin = begin.with_context(|| {
            let line = text[..range.start].matches('\n').count() + 1;
            format!(
                "{}:{line}: write the link as [text](destination): {written}",
                from.display()
            )
        })?;
        links.push(Link {
            place: begin..begin + path.len(),
            file: resolve(from, path)?,
            is_image,
        });
    }
    Ok(links)
}

/// The path that leads from the page `from` to `to`, with `/` on every system.
pub(crate) fn relative(from: &Path, to: &Path) -> String {
    let folder: Vec<_> = from.parent().unwrap_or(Path::new("")).components().collect();
    let target: Vec<_> = to.components().collect();
    let common = folder.iter().zip(&target).take_while(|(a, b)| a == b).count();
    let up = folder[common..].iter().map(|_| "..".to_owned());
    let down = target[common..]
        .iter()
        .map(|part| part.as_os_str().to_string_lossy().into_owned());
    up.chain(down).collect::<Vec<_>>().join("/")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn links_to_files_are_found_where_they_are_written() {
        let text = "[a](x.md#top), [b\nc](\n../y/z.md \"title\"), [site](https://x.org), [here](#top), `[no](code.md)`\n\
            ![drawn](i/p.svg)\n\n| t |\n|---|\n| [`d](`](w.md) |\n";
        let found = of(Path::new("docs/guides/page.md"), text).unwrap();
        let found: Vec<_> = found
            .iter()
            .map(|link| {
                format!(
                    "{} {} {}",
                    &text[link.place.clone()],
                    link.file.display(),
                    link.is_image
                )
            })
            .collect();
        insta::assert_snapshot!(found.join("\n"), @r"
        x.md docs/guides/x.md false
        ../y/z.md docs/y/z.md false
        i/p.svg docs/guides/i/p.svg true
        w.md docs/guides/w.md false
        ");
    }

    #[test]
    fn link_out_of_the_repository_is_refused() {
        let error = of(Path::new("docs/page.md"), "[a](../../x.md)").unwrap_err();
        insta::assert_snapshot!(error, @"docs/page.md links to ../../x.md, which is outside of the repository");
    }

    #[test]
    fn picture_without_a_text_is_refused() {
        let error = of(Path::new("docs/page.md"), "![](x.svg)").unwrap_err();
        insta::assert_snapshot!(error, @"docs/page.md: ![](x.svg) needs a text for people who do not see it");
    }

    #[test]
    fn relative_paths_lead_from_page_to_page() {
        let between = |from: &str, to: &str| relative(Path::new(from), Path::new(to));
        assert_eq!(between("guides/a.md", "guides/b.md"), "b.md");
        assert_eq!(between("guides/a.md", "index.md"), "../index.md");
        assert_eq!(
            between("index.md", "repository/wit/x.wit.md"),
            "repository/wit/x.wit.md"
        );
    }
}
