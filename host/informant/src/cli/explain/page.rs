//! A page of Markdown as text for a terminal.
//!
//! Knows what the runbooks use: headings, paragraphs, lists, tables, blocks of code, bold, code and links. The columns
//! of tables are sentences, which no terminal is wide enough for: each row becomes an item, with a line for each
//! further column. A link is its text, and its address if that is on another site.

use std::mem::take;

use pulldown_cmark::{Event, HeadingLevel, Options, Parser, Tag, TagEnd};

/// How wide lines are. Each terminal has these columns; longer lines are harder to read.
const COLUMNS: usize = 80;

const BOLD: &str = "\x1b[1m";
const CODE: &str = "\x1b[36m";
const PLAIN: &str = "\x1b[0m";

/// The text of a page. With `styles`, headings, bold and code are shown by escape sequences; without, bold looks like
/// other text, and code keeps its backticks.
pub(super) fn render(markdown: &str, styles: bool) -> String {
    let mut page = Page {
        styles,
        ..Page::default()
    };
    for event in Parser::new_ext(markdown, Options::ENABLE_TABLES) {
        page.add(event);
    }
    page.text
}

/// A page while it is read.
#[derive(Default)]
struct Page {
    styles: bool,
    text: String,
    /// The words of the paragraph, heading, item or cell that is being read.
    words: Words,
    is_bold: bool,
    is_code_block: bool,
    /// Depth of lists.
    depth: usize,
    /// The address of the link that is being read, if it is on another site.
    address: Option<String>,
    /// The names of the columns of the table that is being read.
    columns: Vec<String>,
    /// The next cell's column.
    column: usize,
    is_table_head: bool,
}

impl Page {
    fn add(&mut self, event: Event<'_>) {
        match event {
            Event::Start(tag) => self.start(tag),
            Event::End(tag) => self.end(tag),
            Event::Text(text) if self.is_code_block => self.code_block(&text),
            Event::Text(text) if self.is_table_head => self.column_name(&text),
            Event::Text(text) => self
                .words
                .push(&text, if self.is_bold && self.styles { BOLD } else { "" }),
            Event::Code(code) if self.styles => self.words.push(&code, CODE),
            Event::Code(code) => self.words.push(&format!("`{code}`"), ""),
            Event::SoftBreak | Event::HardBreak => self.words.end_word(),
            _ => {}
        }
    }

    fn start(&mut self, tag: Tag<'_>) {
        match tag {
            Tag::Heading { .. } => {
                self.gap();
                self.is_bold = true;
            }
            Tag::Paragraph if self.depth == 0 => self.gap(),
            Tag::List(_) => {
                if self.depth == 0 {
                    self.gap();
                }
                self.depth += 1;
            }
            Tag::CodeBlock(_) => {
                self.gap();
                self.is_code_block = true;
            }
            Tag::Strong => self.is_bold = true,
            Tag::Link { dest_url, .. } => self.address = dest_url.contains("://").then(|| dest_url.into_string()),
            Tag::Table(_) => self.gap(),
            Tag::TableHead => {
                self.columns.clear();
                self.is_table_head = true;
            }
            Tag::TableRow => self.column = 0,
            Tag::TableCell if self.is_table_head => self.columns.push(String::new()),
            Tag::TableCell => self.is_bold = self.column == 0,
            _ => {}
        }
    }

    fn end(&mut self, tag: TagEnd) {
        match tag {
            TagEnd::Heading(level) => {
                self.is_bold = false;
                if level != HeadingLevel::H1 && !self.styles {
                    self.words.make_uppercase();
                }
                self.flush("", "");
            }
            TagEnd::Paragraph if self.depth == 0 => self.flush("", ""),
            TagEnd::Item => {
                let indent = "  ".repeat(self.depth.saturating_sub(1));
                self.flush(&format!("{indent}- "), &format!("{indent}  "));
            }
            TagEnd::List(_) => self.depth = self.depth.saturating_sub(1),
            TagEnd::CodeBlock => self.is_code_block = false,
            TagEnd::Strong => self.is_bold = false,
            TagEnd::Link => {
                if let Some(address) = self.address.take() {
                    self.words.end_word();
                    self.words.push(&format!("({address})"), "");
                }
            }
            TagEnd::TableHead => self.is_table_head = false,
            TagEnd::TableCell if !self.is_table_head => self.end_cell(),
            _ => {}
        }
    }

    /// An empty line, except at the beginning.
    fn gap(&mut self) {
        if !self.text.is_empty() {
            self.text.push('\n');
        }
    }

    fn code_block(&mut self, text: &str) {
        for line in text.lines() {
            let (begin, end) = if self.styles { (CODE, PLAIN) } else { ("", "") };
            self.text.extend(["    ", begin, line, end, "\n"]);
        }
    }

    fn column_name(&mut self, text: &str) {
        if let Some(name) = self.columns.last_mut() {
            name.push_str(text);
        }
    }

    /// The first column is an item; each other one follows, with its name.
    fn end_cell(&mut self) {
        self.is_bold = false;
        let name = self.columns.get(self.column).filter(|name| !name.is_empty());
        let first = match name {
            _ if self.column == 0 => "- ".to_owned(),
            Some(name) => format!("  {name}: "),
            None => "  ".to_owned(),
        };
        self.column += 1;
        self.flush(&first, if self.column == 1 { "  " } else { "    " });
    }

    /// Writes the words in lines that begin with `first`, then `rest`.
    fn flush(&mut self, first: &str, rest: &str) {
        let (mut begin, mut width) = (first, 0);
        for word in take(&mut self.words).words {
            if width > 0 && width + 1 + word.width > COLUMNS {
                self.text.push('\n');
                (begin, width) = (rest, 0);
            }
            if width == 0 {
                self.text.push_str(begin);
                width = begin.chars().count();
            } else {
                self.text.push(' ');
                width += 1;
            }
            self.text.push_str(&word.text);
            width += word.width;
        }
        if width > 0 {
            self.text.push('\n');
        }
    }
}

/// What is between spaces, with its styles.
#[derive(Default)]
struct Word {
    text: String,
    /// The columns that it takes.
    width: usize,
}

#[derive(Default)]
struct Words {
    words: Vec<Word>,
    /// Whether further text continues the last word.
    is_open: bool,
}

impl Words {
    /// Adds text in a style, which may be empty.
    fn push(&mut self, text: &str, style: &str) {
        for (at, part) in text.split(' ').enumerate() {
            if at > 0 {
                self.is_open = false;
            }
            if part.is_empty() {
                continue;
            }
            if !self.is_open {
                self.words.push(Word::default());
                self.is_open = true;
            }
            if let Some(word) = self.words.last_mut() {
                word.width += part.chars().count();
                let end = if style.is_empty() { "" } else { PLAIN };
                word.text.extend([style, part, end]);
            }
        }
    }

    fn end_word(&mut self) {
        self.is_open = false;
    }

    fn make_uppercase(&mut self) {
        for word in &mut self.words {
            word.text = word.text.to_uppercase();
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const RUNBOOK: &str = "# plugin-lost

**A plugin is gone.** It was called, and it had `limits.memory` of which [too little](../reference/limits.md#memory)
was left; see [the site](https://site.example/x).

## Look

- The alert `InformantLost`;
  `a` grows.
- In the log: `gone`.

```console
$ informant status   # now
$ informant plugin list
```

## Decide

| you find | meaning | do |
|---|---|---|
| one error for *all* objects, since a new version | The version is broken, and it will be so until another version \
        takes its place. | Put `a \\| b` back. |
| `denied` | | Nothing. |
";

    #[test]
    fn page_without_styles_is_plain_text() {
        insta::assert_snapshot!(render(RUNBOOK, false), @r"
        plugin-lost

        A plugin is gone. It was called, and it had `limits.memory` of which too little
        was left; see the site (https://site.example/x).

        LOOK

        - The alert `InformantLost`; `a` grows.
        - In the log: `gone`.

            $ informant status   # now
            $ informant plugin list

        DECIDE

        - one error for all objects, since a new version
          meaning: The version is broken, and it will be so until another version takes
            its place.
          do: Put `a | b` back.
        - `denied`
          do: Nothing.
        ");
    }

    #[test]
    fn page_with_styles_shows_headings_bold_and_code() {
        insta::assert_snapshot!(render(RUNBOOK, true).replace('\x1b', "^"), @r"
        ^[1mplugin-lost^[0m

        ^[1mA^[0m ^[1mplugin^[0m ^[1mis^[0m ^[1mgone.^[0m It was called, and it had ^[36mlimits.memory^[0m of which too little
        was left; see the site (https://site.example/x).

        ^[1mLook^[0m

        - The alert ^[36mInformantLost^[0m; ^[36ma^[0m grows.
        - In the log: ^[36mgone^[0m.

            ^[36m$ informant status   # now^[0m
            ^[36m$ informant plugin list^[0m

        ^[1mDecide^[0m

        - ^[1mone^[0m ^[1merror^[0m ^[1mfor^[0m ^[1mall^[0m ^[1mobjects,^[0m ^[1msince^[0m ^[1ma^[0m ^[1mnew^[0m ^[1mversion^[0m
          meaning: The version is broken, and it will be so until another version takes
            its place.
          do: Put ^[36ma^[0m ^[36m|^[0m ^[36mb^[0m back.
        - ^[36mdenied^[0m
          do: Nothing.
        ");
    }

    #[test]
    fn no_runbook_has_prose_wider_than_the_terminal() {
        for runbook in crate::runbooks::RUNBOOKS {
            let text = render(runbook.page, false);
            let prose = text.lines().filter(|line| !line.starts_with("    "));
            for line in prose {
                assert!(line.chars().count() <= COLUMNS, "{}: {line}", runbook.code);
            }
        }
    }
}
