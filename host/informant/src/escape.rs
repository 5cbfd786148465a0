//! Escapes text that comes from a plugin, an object, an API server or a file before it reaches a terminal or a plain
//! log, where control characters would move the cursor, forge lines, or reorder what a person reads.
//!
//! Applied where output is written, so that no message can be forgotten: [`Escaped`] around stdout, [`paragraph`] for
//! stderr, [`line()`] for what must stay on one line. JSON escapes control characters itself; [`Form::Json`] also
//! escapes the others, which does not change what a program reads.

use std::borrow::Cow;
use std::fmt::Write as _;
use std::io;

/// Whether a terminal, or a person who reads `letter` on one, could take the text for something else: control
/// characters (C0, DEL, C1), line and paragraph separators, marks that reorder text, and invisible characters that do
/// not shape the letters around them, as joiners do.
fn is_hostile(letter: char) -> bool {
    letter.is_control()
        || matches!(letter,
            '\u{61c}' | '\u{200b}' | '\u{200e}' | '\u{200f}' | '\u{2028}'..='\u{202e}' | '\u{2060}'..='\u{206f}'
            | '\u{feff}' | '\u{fff9}'..='\u{fffb}' | '\u{e0000}'..='\u{e007f}')
}

fn is_line_break_or_tab(letter: char) -> bool {
    matches!(letter, '\n' | '\t')
}

/// How to write a hostile character.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Form {
    /// `\r`, `\u{1b}`; line breaks and tabs are left alone.
    Text,
    /// `\u001b`: for JSON, and for YAML in double quotes.
    Json,
}

/// `text` on one line: line breaks and tabs are escaped too.
pub(crate) fn line(text: &str) -> Cow<'_, str> {
    escape(text, is_hostile, Form::Text)
}

/// `text` with its line breaks and tabs.
pub(crate) fn text(text: &str) -> Cow<'_, str> {
    escape(
        text,
        |letter| is_hostile(letter) && !is_line_break_or_tab(letter),
        Form::Text,
    )
}

/// A message as one paragraph: its further lines are indented, so that none of them looks like a message of its own.
pub(crate) fn paragraph(message: &str) -> String {
    let mut paragraph = String::with_capacity(message.len());
    for (number, line) in message.lines().enumerate() {
        if number > 0 {
            paragraph.push_str(if line.starts_with("  ") { "\n" } else { "\n  " });
        }
        paragraph.push_str(&text(line));
    }
    paragraph
}

/// JSON in ASCII, for example for a header: everything else is written `\u00e9`.
pub(crate) fn ascii_json(json: &str) -> Cow<'_, str> {
    escape(json, |letter| !letter.is_ascii() || letter.is_control(), Form::Json)
}

/// Whether `text` is printed as it is, on one line.
pub(crate) fn is_harmless(text: &str) -> bool {
    !text.contains(is_hostile)
}

/// `text`, or its first `bytes_max` bytes and its length.
pub(crate) fn cut(text: &str, bytes_max: usize) -> Cow<'_, str> {
    if text.len() <= bytes_max {
        return Cow::Borrowed(text);
    }
    let beginning = &text[..text.floor_char_boundary(bytes_max)];
    Cow::Owned(format!("{beginning}… ({} bytes)", text.len()))
}

fn escape(text: &str, escaped: impl Fn(char) -> bool, form: Form) -> Cow<'_, str> {
    let Some(first) = text.find(&escaped) else {
        return Cow::Borrowed(text);
    };
    let mut out = text[..first].to_owned();
    for letter in text[first..].chars() {
        if escaped(letter) {
            push_escaped(&mut out, letter, form);
        } else {
            out.push(letter);
        }
    }
    Cow::Owned(out)
}

fn push_escaped(out: &mut String, letter: char, form: Form) {
    match form {
        Form::Text => out.extend(letter.escape_default()),
        Form::Json => {
            for unit in letter.encode_utf16(&mut [0; 2]) {
                let _ = write!(out, "\\u{unit:04x}");
            }
        }
    }
}

/// A writer that escapes everything that passes through it, except line breaks and tabs.
pub(crate) struct Escaped<W> {
    out: W,
    form: Form,
    /// The beginning of a character whose rest has not been written yet.
    partial: Vec<u8>,
}

impl<W: io::Write> Escaped<W> {
    pub(crate) fn new(out: W, form: Form) -> Self {
        Self {
            out,
            form,
            partial: Vec::new(),
        }
    }

    fn write_text(&mut self, text: &str) -> io::Result<()> {
        let escaped = escape(
            text,
            |letter| is_hostile(letter) && !is_line_break_or_tab(letter),
            self.form,
        );
        self.out.write_all(escaped.as_bytes())
    }
}

impl<W: io::Write> io::Write for Escaped<W> {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        let joined = [std::mem::take(&mut self.partial), bytes.to_vec()].concat();
        let mut rest = &joined[..];
        while let Err(error) = std::str::from_utf8(rest) {
            let (valid, invalid) = rest.split_at(error.valid_up_to());
            self.write_text(&String::from_utf8_lossy(valid))?;
            let Some(length) = error.error_len() else {
                self.partial = invalid.to_vec();
                return Ok(bytes.len());
            };
            self.write_text("\u{fffd}")?;
            rest = &invalid[length..];
        }
        self.write_text(&String::from_utf8_lossy(rest))?;
        Ok(bytes.len())
    }

    fn flush(&mut self) -> io::Result<()> {
        self.out.flush()
    }
}

#[cfg(test)]
mod tests {
    use std::io::Write as _;

    use super::*;

    /// Every class of character that a terminal or a reader could be misled by.
    const HOSTILE: &str = "\0\x07\x08\n\r\t\x1b[2J\x7f\u{85}\u{9b}31m\u{61c}\u{200b}\u{200e}\u{200f}\u{2028}\
        \u{2029}\u{202a}\u{202e}\u{2066}\u{2069}\u{feff}\u{e0041}";

    fn written(form: Form, parts: &[&[u8]]) -> String {
        let mut out = Escaped::new(Vec::new(), form);
        for part in parts {
            out.write_all(part).unwrap();
        }
        String::from_utf8(out.out).unwrap()
    }

    #[test]
    fn hostile_characters_are_escaped_and_readable_ones_kept() {
        insta::assert_snapshot!(line(HOSTILE), @r"\u{0}\u{7}\u{8}\n\r\t\u{1b}[2J\u{7f}\u{85}\u{9b}31m\u{61c}\u{200b}\u{200e}\u{200f}\u{2028}\u{2029}\u{202a}\u{202e}\u{2066}\u{2069}\u{feff}\u{e0041}");
        assert!(
            text(HOSTILE)
                .chars()
                .all(|letter| !is_hostile(letter) || is_line_break_or_tab(letter))
        );
        let readable = "größer, 日本語, שלום, نمی\u{200c}خواهم, 👩\u{200d}🚀 C:\\dir";
        assert!(is_harmless(readable) && matches!(line(readable), Cow::Borrowed(_)));
    }

    #[test]
    fn escaped_json_still_means_the_same() {
        let json = serde_json::to_string(HOSTILE).unwrap();
        for escaped in [written(Form::Json, &[json.as_bytes()]), ascii_json(&json).into_owned()] {
            assert_eq!(serde_json::from_str::<String>(&escaped).unwrap(), HOSTILE);
            assert!(is_harmless(&escaped), "{escaped}");
        }
    }

    #[test]
    fn characters_split_between_writes_are_joined() {
        let bytes = "a\u{202e}é".as_bytes();
        for at in 0..bytes.len() {
            let (one, other) = bytes.split_at(at);
            assert_eq!(written(Form::Text, &[one, other]), r"a\u{202e}é", "{at}");
        }
        assert_eq!(written(Form::Text, &[b"a\xff\x1bb"]), "a\u{fffd}\\u{1b}b");
    }

    #[test]
    fn further_lines_of_a_message_are_indented() {
        assert_eq!(
            paragraph("error: a\r\nerror: b\n  help: c"),
            "error: a\n  error: b\n  help: c"
        );
    }

    #[test]
    fn long_text_is_cut_at_a_character() {
        assert_eq!(cut("aé", 3), "aé");
        assert_eq!(cut("aéé", 2), "a… (5 bytes)");
    }
}
