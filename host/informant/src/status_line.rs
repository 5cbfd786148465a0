//! One line at the end of stderr that says what a command is waiting for, if somebody can see it.
//!
//! ```text
//! StatusLine::begin ─▶ show, show, … ─▶ drop: the line is gone
//!                        ▲ log lines and messages, through `stderr`: line removed, written, line drawn again
//! ```
//!
//! There is at most one in a process. Where stderr is no terminal, or the log is JSON, nothing is ever written.

use std::env;
use std::io::{self, IsTerminal as _, Write};
use std::sync::Mutex;
use std::sync::atomic::{AtomicBool, Ordering};

use ratatui::text::Line;
use rustix::termios::tcgetwinsize;

use crate::escape;
use crate::sync::lock;

/// The width of a terminal that does not say how wide it is: 80.
const WIDTH_DEFAULT: u16 = 80;

/// Moves to the beginning of the line and removes it.
const REMOVE: &str = "\r\x1b[K";

/// Whether the log has lines for people. Set when it starts.
static IS_FOR_PEOPLE: AtomicBool = AtomicBool::new(false);

static SHOWN: Mutex<Shown> = Mutex::new(Shown {
    is_on: false,
    text: String::new(),
});

/// What is on the screen.
#[derive(Debug)]
struct Shown {
    /// Between `begin` and `drop`.
    is_on: bool,
    /// Empty: there is no line.
    text: String,
}

/// While it is there, [`show`] shows something.
#[derive(Debug)]
pub(crate) struct StatusLine;

/// The log that starts now has lines for people on stderr.
pub(crate) fn allow() {
    IS_FOR_PEOPLE.store(true, Ordering::Relaxed);
}

impl StatusLine {
    /// Whether there is one: stderr is a terminal that can remove a line.
    pub(crate) fn begin() -> StatusLine {
        let is_dumb = env::var_os("TERM").is_none_or(|term| term == "dumb");
        lock(&SHOWN).is_on = IS_FOR_PEOPLE.load(Ordering::Relaxed) && io::stderr().is_terminal() && !is_dumb;
        StatusLine
    }

    pub(crate) fn is_shown(&self) -> bool {
        lock(&SHOWN).is_on
    }
}

impl Drop for StatusLine {
    fn drop(&mut self) {
        let mut shown = lock(&SHOWN);
        shown.show("", u16::MAX, &mut io::stderr());
        shown.is_on = false;
    }
}

/// Replaces the line.
pub(crate) fn show(text: &str) {
    let mut shown = lock(&SHOWN);
    if shown.is_on {
        let width = tcgetwinsize(io::stderr()).map_or(WIDTH_DEFAULT, |size| size.ws_col);
        shown.show(text, width, &mut io::stderr());
    }
}

/// Writes a line that stays: another program, which writes to the same terminal, is about to begin.
pub(crate) fn step(text: &str) {
    let mut shown = lock(&SHOWN);
    if shown.is_on {
        shown.show("", u16::MAX, &mut io::stderr());
        // A failure to write to stderr cannot be reported anywhere.
        let _ = writeln!(io::stderr(), "{}", escape::line(text));
    }
}

/// Stderr for whole lines of text, above the line that is shown.
pub(crate) fn stderr() -> Stderr {
    Stderr
}

/// See [`stderr`].
#[derive(Debug)]
pub(crate) struct Stderr;

impl Write for Stderr {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        self.write_all(bytes)?;
        Ok(bytes.len())
    }

    fn write_all(&mut self, bytes: &[u8]) -> io::Result<()> {
        lock(&SHOWN).above(bytes, &mut io::stderr().lock())
    }

    fn flush(&mut self) -> io::Result<()> {
        io::stderr().flush()
    }
}

impl Shown {
    fn show(&mut self, text: &str, width: u16, out: &mut impl Write) {
        // A character in the last column would move some terminals to the next line.
        let text = fit(&escape::line(text), width.saturating_sub(1));
        if text != self.text {
            // A failure to write to stderr cannot be reported anywhere.
            let _ = write!(out, "{REMOVE}{text}").and_then(|()| out.flush());
            self.text = text;
        }
    }

    fn above(&self, bytes: &[u8], out: &mut impl Write) -> io::Result<()> {
        if self.text.is_empty() {
            return out.write_all(bytes);
        }
        out.write_all(REMOVE.as_bytes())?;
        out.write_all(bytes)?;
        out.write_all(self.text.as_bytes())?;
        out.flush()
    }
}

/// As much of `text` as is `width` columns wide. `…` stands for the rest.
pub(crate) fn fit(text: &str, width: u16) -> String {
    let width = usize::from(width);
    if Line::raw(text).width() <= width {
        return text.to_owned();
    }
    let mut cut = text.to_owned();
    while Line::raw(&cut).width() >= width.max(1) && cut.pop().is_some() {}
    if width > 0 {
        cut.push('…');
    }
    cut
}

#[cfg(test)]
mod tests {
    use super::*;

    fn shown() -> Shown {
        Shown {
            is_on: true,
            text: String::new(),
        }
    }

    /// What a terminal receives, with its control characters as text.
    fn written(out: &[u8]) -> String {
        String::from_utf8_lossy(out)
            .replace('\r', "<begin>")
            .replace("\x1b[K", "<remove>")
    }

    #[test]
    fn log_lines_are_written_above_the_line() {
        let (mut shown, mut out) = (shown(), Vec::new());
        shown.above(b"starting\n", &mut out).unwrap();
        shown.show("plugin 1 of 2", 80, &mut out);
        shown.show("plugin 1 of 2", 80, &mut out);
        shown.above(b"loaded\n", &mut out).unwrap();
        shown.show("plugin 2 of 2", 80, &mut out);
        shown.show("", 80, &mut out);
        shown.above(b"done\n", &mut out).unwrap();
        insta::assert_snapshot!(written(&out), @"
        starting
        <begin><remove>plugin 1 of 2<begin><remove>loaded
        plugin 1 of 2<begin><remove>plugin 2 of 2<begin><remove>done
        ");
    }

    #[test]
    fn the_line_fits_the_terminal_and_is_escaped() {
        let (mut shown, mut out) = (shown(), Vec::new());
        shown.show("checking \u{202e}evil\r\nplugin", 20, &mut out);
        assert_eq!(written(&out), "<begin><remove>checking \\u{202e}e…");
        assert_eq!(fit("日本語", 6), "日本語");
        assert_eq!(fit("日本語", 5), "日本…");
        assert_eq!(fit("ab", 1), "…");
        assert_eq!(fit("ab", 0), "");
    }

    #[test]
    fn without_a_terminal_nothing_is_shown() {
        // Tests do not start a log for people.
        let line = StatusLine::begin();
        show("plugin 1 of 2");
        assert!(!line.is_shown());
        assert_eq!(lock(&SHOWN).text, "");
    }
}
