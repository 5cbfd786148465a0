//! What the demo prints, and the picture of it in the documentation.

#![expect(clippy::print_stdout, reason = "the demo prints to its user")]

use std::fmt::Display;

use anyhow::Result;

use crate::pictures::{self, Drawing};

/// The picture.
const PICTURE: &str = "demo.svg";

/// The command that the picture begins with.
const COMMAND: &str = "$ cargo xtask demo --once";

/// Longer lines continue on the next one.
const COLUMNS: usize = 108;

const WIDTH: u32 = 900;
const LINE_HEIGHT: f64 = 17.0;
const MARGIN: f64 = 20.0;

/// The width of a character, for the indentation. It is 0.6 of the size of the letters in all usual fonts.
const CHARACTER_WIDTH: f64 = 7.8;

/// Line after line appears, once, within 5 s. Where nothing may move, all of them are there.
const STYLE: &str = "    \
    text { font: 13px ui-monospace, SFMono-Regular, Menlo, Consolas, \"DejaVu Sans Mono\", monospace;
           white-space: pre }
    @media (prefers-reduced-motion: no-preference) {
      text { animation: appear 1ms both }
      @keyframes appear { from { visibility: hidden } }
    }
";
const LINE_SECONDS: f64 = 0.06;

/// Prints, and keeps what was printed.
#[derive(Default)]
pub(super) struct Terminal {
    text: String,
}

impl Terminal {
    /// Prints a line.
    pub(super) fn say(&mut self, line: impl Display) {
        let line = line.to_string();
        println!("{line}");
        self.text += &line;
        self.text.push('\n');
    }

    /// Checks that the picture in the documentation shows this, apart from times.
    pub(super) fn check_picture(&self) -> Result<()> {
        pictures::check(PICTURE, &drawn(&self.text), |there, drawn| {
            without_times(there) == without_times(drawn)
        })
    }
}

/// The picture of a text that was printed.
fn drawn(text: &str) -> String {
    let mut drawing = Drawing::new("A terminal in which the demo runs, with what it printed", WIDTH, STYLE);
    let mut y = MARGIN + LINE_HEIGHT / 2.0;
    for (place, line) in [COMMAND, ""]
        .into_iter()
        .chain(text.lines())
        .flat_map(wrapped)
        .enumerate()
    {
        let words = line.trim_start();
        if !words.is_empty() {
            let indentation = (line.len() - words.len()) as f64 * CHARACTER_WIDTH;
            let delay = format!("style=\"animation-delay: {:.2}s\"", place as f64 * LINE_SECONDS);
            let attributes = match class(&line) {
                "" => delay,
                class => format!("class=\"{class}\" {delay}"),
            };
            drawing.text(MARGIN + indentation, y, &attributes, words);
        }
        y += LINE_HEIGHT;
    }
    drawing.finish(y + MARGIN - LINE_HEIGHT)
}

/// How a line looks: commands, headings of steps, and the configuration differ from output.
fn class(line: &str) -> &'static str {
    let is_step = line
        .split_once(". ")
        .is_some_and(|(number, _)| number.parse::<u8>().is_ok());
    match line.trim_start() {
        "Every step passed." => "good title",
        _ if is_step => "accent title",
        words if words.starts_with("$ ") => "title",
        _ if line.starts_with("     ") => "note",
        _ => "",
    }
}

/// A line in pieces of at most `COLUMNS` characters, all with its indentation.
fn wrapped(line: &str) -> Vec<String> {
    let indentation = " ".repeat(line.len() - line.trim_start().len());
    let mut pieces = vec![indentation.clone()];
    for (place, word) in line.trim_start().split(' ').enumerate() {
        let piece = pieces
            .last_mut()
            .filter(|piece| piece.len() + 1 + word.len() <= COLUMNS);
        match piece {
            Some(piece) => {
                if place > 0 {
                    piece.push(' ');
                }
                piece.push_str(word);
            }
            None => pieces.push(format!("{indentation}{word}")),
        }
    }
    pieces
}

/// `text` without the numbers of times, such as `12 ms`, `3.1 s` and `5s`, which differ from run to run.
fn without_times(text: &str) -> String {
    let mut rest = text;
    let mut kept = String::new();
    while let Some(start) = rest.find(|character: char| character.is_ascii_digit()) {
        let (before, number) = rest.split_at(start);
        let length = number.find(|character: char| !character.is_ascii_digit() && character != '.');
        let (number, after) = number.split_at(length.unwrap_or(number.len()));
        let unit = after
            .trim_start_matches(' ')
            .split(|character: char| !character.is_alphanumeric())
            .next();
        kept += before;
        kept += if matches!(unit, Some("s" | "ms")) {
            "…"
        } else {
            number
        };
        rest = after;
    }
    kept + rest
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn lines_of_a_terminal_are_drawn_one_after_the_other() {
        let mut terminal = Terminal::default();
        terminal.say("1. Start <it>\n   ready after 1.2 s\n");
        terminal.say("Every step passed.");
        let drawn = drawn(&terminal.text);
        let (_, elements) = drawn.split_once("</style>\n").unwrap();
        insta::assert_snapshot!(elements, @r#"
          <rect class="panel" x="0.5" y="0.5" width="899" height="132.5" rx="8"/>
          <text class="title" style="animation-delay: 0.00s" x="20" y="28.5">$ cargo xtask demo --once</text>
          <text class="accent title" style="animation-delay: 0.12s" x="20" y="62.5">1. Start &lt;it&gt;</text>
          <text style="animation-delay: 0.18s" x="43.4" y="79.5">ready after 1.2 s</text>
          <text class="good title" style="animation-delay: 0.30s" x="20" y="113.5">Every step passed.</text>
        </svg>
        "#);
    }

    #[test]
    fn times_do_not_make_a_picture_old() {
        let text = "step 3. ready after 3.2 s, 12 ms; AGE 5s; 20 pods at 200 a second";
        assert_eq!(
            without_times(text),
            "step 3. ready after … s, … ms; AGE …s; 20 pods at 200 a second"
        );
    }

    #[test]
    fn long_lines_continue_with_their_indentation() {
        let line = format!("   {} end", "word ".repeat(21).trim_end());
        assert_eq!(
            wrapped(&line),
            [format!("   {}", "word ".repeat(21).trim_end()), "   end".to_owned()]
        );
        assert_eq!(wrapped("  a  b"), ["  a  b"]);
    }
}
