//! `llms.txt`: the pages of the book with one line about each, for language models (<https://llmstxt.org>).

use std::fmt::Write as _;

use crate::contents::{Contents, Page};
use crate::stage;

/// What the book is about.
const ABOUT: &str = "Informant runs Kubernetes informers in one process, keeps one cache, and calls event handlers \
    that are written in JavaScript or as WebAssembly components.";

/// The text of the file. `site` is the address of the book, without a slash at its end.
pub(crate) fn text(contents: &Contents, site: &str) -> String {
    let mut text = format!("# Informant\n\n> {ABOUT}\n");
    for part in &contents.parts {
        let _ = write!(text, "\n## {}\n\n", part.title);
        part.walk(&mut |_, page| line(&mut text, site, page));
    }
    text
}

fn line(text: &mut String, site: &str, page: &Page) {
    let place = stage::address(&page.file).with_extension("html");
    let about = if page.about.is_empty() {
        String::new()
    } else {
        format!(": {}", page.about)
    };
    let _ = writeln!(text, "- [{}]({site}/{}){about}", page.title, place.display());
}
