//! Checks the links of the built book: each leads to a file of it, and to an anchor that this file has.

use std::collections::{BTreeMap, BTreeSet};
use std::path::{Path, PathBuf};

use anyhow::{Context, Result, ensure};

use crate::{links, read};

/// The file with the alerts, from the root of the repository.
const ALERTS: &str = "deploy/chart/files/alerts.yaml";

/// A page of the book: its anchors, and where it links to.
struct Page {
    anchors: BTreeSet<String>,
    links: Vec<String>,
}

/// Checks all links between the files below `out`.
///
/// # Errors
/// Names each page with each link that leads nowhere.
pub(crate) fn links(out: &Path) -> Result<()> {
    let mut files = BTreeSet::new();
    find(out, Path::new(""), &mut files)?;
    let mut pages = BTreeMap::new();
    for file in files
        .iter()
        .filter(|file| file.extension().is_some_and(|name| name == "html"))
    {
        let html = without_scripts(&read(&out.join(file))?);
        let mut found = attributes(&html, "href");
        found.extend(attributes(&html, "src"));
        let anchors = attributes(&html, "id").into_iter().collect();
        pages.insert(file.as_path(), Page { anchors, links: found });
    }
    ensure!(!pages.is_empty(), "{} has no pages", out.display());
    let mut dead = Vec::new();
    for (file, page) in &pages {
        for link in &page.links {
            if let Some(why) = problem(file, link, &files, &pages) {
                dead.push(format!("\n  {}: {link}: {why}", file.display()));
            }
        }
    }
    ensure!(dead.is_empty(), "{} links lead nowhere:{}", dead.len(), dead.concat());
    Ok(())
}

/// Checks that each alert links to a page of the book.
pub(crate) fn runbooks(repository: &Path, site: &str, out: &Path) -> Result<()> {
    let alerts = read(&repository.join(ALERTS))?;
    let urls: Vec<&str> = alerts
        .lines()
        .filter_map(|line| line.trim().strip_prefix("runbook_url: "))
        .collect();
    ensure!(!urls.is_empty(), "{ALERTS} has no `runbook_url`");
    for url in urls {
        let page = url.strip_prefix(site).and_then(|path| path.strip_prefix('/'));
        let page = page.with_context(|| {
            format!("{ALERTS}: {url} is not on {site}, the `homepage` of Cargo.toml: run `cargo xtask chart`")
        })?;
        ensure!(out.join(page).is_file(), "{ALERTS}: {url}: the book has no page {page}");
    }
    Ok(())
}

/// Why a link of the page `file` leads nowhere.
fn problem(file: &Path, link: &str, files: &BTreeSet<PathBuf>, pages: &BTreeMap<&Path, Page>) -> Option<&'static str> {
    let (target, anchor) = match (links::local(link), link.strip_prefix('#')) {
        (Some((path, anchor)), _) => (links::resolve(file, path).ok()?, anchor),
        (None, Some(anchor)) => (file.to_owned(), Some(anchor)),
        (None, None) => return None,
    };
    if !files.contains(&target) {
        return Some("the book has no such file");
    }
    let anchor = anchor.filter(|anchor| !anchor.is_empty())?;
    let has_it = pages
        .get(target.as_path())
        .is_some_and(|page| page.anchors.contains(anchor));
    (!has_it).then_some("the page has no such anchor")
}

fn find(root: &Path, folder: &Path, found: &mut BTreeSet<PathBuf>) -> Result<()> {
    let path = root.join(folder);
    let entries = std::fs::read_dir(&path).with_context(|| format!("failed to read {}", path.display()))?;
    for entry in entries {
        let entry = entry?;
        let file = folder.join(entry.file_name());
        if entry.file_type()?.is_dir() {
            find(root, &file, found)?;
        } else {
            found.insert(file);
        }
    }
    Ok(())
}

/// The page without the text of its scripts, which may look like attributes. Their tags stay.
fn without_scripts(html: &str) -> String {
    let mut parts = html.split("<script");
    let mut text = parts.next().unwrap_or_default().to_owned();
    for part in parts {
        let (tag, rest) = part.split_once('>').unwrap_or((part, ""));
        let (_, after) = rest.split_once("</script>").unwrap_or(("", rest));
        text.extend(["<script", tag, ">", after]);
    }
    text
}

/// The values of an attribute. mdBook writes quotes around them, and no quote in text without escaping it.
fn attributes(html: &str, name: &str) -> Vec<String> {
    let begin = format!(" {name}=\"");
    html.split(&begin)
        .skip(1)
        .filter_map(|rest| rest.split_once('"'))
        .map(|(value, _)| value.replace("&amp;", "&").replace("&#39;", "'"))
        .collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::write;

    fn book(pages: &[(&str, &str)]) -> tempfile::TempDir {
        let folder = tempfile::tempdir().unwrap();
        for (page, html) in pages {
            write(&folder.path().join(page), html).unwrap();
        }
        folder
    }

    #[test]
    fn missing_files_and_anchors_are_found() {
        let folder = book(&[
            (
                "guides/a.html",
                "<h2 id=\"top\"></h2><a href=\"#top\"></a><a href=\"#gone\"></a><a class=\"x\" href=\"../b.html#b\"></a>\
                 <a href=\"../b.html#c\"></a><a href=\"c.html\"></a><a href=\"https://x.org/#y\"></a>\
                 <img src=\"p.svg\"><script src=\"s.js\">x = ' href=\"no.html\"';</script>",
            ),
            ("guides/s.js", ""),
            ("b.html", "<h2 id=\"b\">"),
        ]);
        let error = links(folder.path()).unwrap_err();
        insta::assert_snapshot!(error, @r"
        4 links lead nowhere:
          guides/a.html: #gone: the page has no such anchor
          guides/a.html: ../b.html#c: the page has no such anchor
          guides/a.html: c.html: the book has no such file
          guides/a.html: p.svg: the book has no such file
        ");
    }

    #[test]
    fn alerts_must_link_to_runbooks_of_the_site() {
        let folder = book(&[("runbooks/known.html", "")]);
        let check = |url: &str| {
            write(&folder.path().join(ALERTS), format!("  runbook_url: {url}\n")).unwrap();
            runbooks(folder.path(), "https://site.example", folder.path()).map_err(|error| error.to_string())
        };
        check("https://site.example/runbooks/known.html").unwrap();
        let refused = [
            check("https://site.example/runbooks/unknown.html").unwrap_err(),
            check("https://other.example/runbooks/known.html").unwrap_err(),
        ];
        insta::assert_snapshot!(refused.join("\n"), @r"
        deploy/chart/files/alerts.yaml: https://site.example/runbooks/unknown.html: the book has no page runbooks/unknown.html
        deploy/chart/files/alerts.yaml: https://other.example/runbooks/known.html is not on https://site.example, the `homepage` of Cargo.toml: run `cargo xtask chart`
        ");
    }
}
