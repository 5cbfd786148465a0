//! Splits watch frames into lines.

use memchr::memchr;

use super::{TooLong, WatchLine, empty};

/// Splits the frames of a watch into lines. A line within one frame is not copied.
#[derive(Debug)]
pub struct LineSplitter {
    /// The beginning of an incomplete line; at most `line_bytes_max` bytes.
    carry: Vec<u8>,
    /// The carry was returned as a line and must be emptied.
    carry_is_spent: bool,
    /// Inside a line that is too long and was reported.
    skipping: bool,
    line_bytes_max: usize,
}

/// The lines of one frame. Consume all of them: the rest is lost when this is dropped.
#[derive(Debug)]
pub struct Lines<'s> {
    splitter: &'s mut LineSplitter,
    rest: &'s [u8],
}

/// One line of a watch.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Line<'a> {
    /// A line without its newline, not blank and not parsed.
    Json(&'a [u8]),
    /// A line longer than the limit, reported once, as soon as it exceeds it; the rest is skipped up to the newline.
    TooLong(TooLong),
}

impl LineSplitter {
    /// A splitter that takes lines of up to `line_bytes_max` bytes; see
    /// [`WATCH_LINE_BYTES_MAX`](super::WATCH_LINE_BYTES_MAX).
    #[must_use]
    pub fn new(line_bytes_max: usize) -> LineSplitter {
        LineSplitter {
            carry: Vec::new(),
            carry_is_spent: false,
            skipping: false,
            line_bytes_max,
        }
    }

    /// The lines that end in `frame`.
    pub fn feed<'s>(&'s mut self, frame: &'s [u8]) -> Lines<'s> {
        Lines {
            splitter: self,
            rest: frame,
        }
    }

    /// Ends the stream and returns the line whose newline is missing, if any. Usually it was cut short.
    pub fn finish(&mut self) -> Option<Line<'_>> {
        self.empty_spent_carry();
        self.skipping = false;
        self.carry_is_spent = true;
        let line: &[u8] = &self.carry;
        (!line.trim_ascii().is_empty()).then_some(Line::Json(line))
    }

    /// Bytes of the line that is not complete yet.
    #[must_use]
    pub fn carried_bytes(&self) -> usize {
        if self.carry_is_spent { 0 } else { self.carry.len() }
    }

    fn empty_spent_carry(&mut self) {
        if std::mem::take(&mut self.carry_is_spent) {
            empty(&mut self.carry);
        }
    }

    /// Reports the line whose first available part is `beginning`.
    fn too_long(&self, beginning: &[u8]) -> Line<'static> {
        let part = if self.carry.is_empty() { beginning } else { &self.carry };
        let (event_type, head) = WatchLine::recover_type_and_head(part);
        Line::TooLong(TooLong {
            head,
            event_type,
            bytes_max: self.line_bytes_max,
        })
    }
}

impl Lines<'_> {
    /// The next line; `None` at the end of the frame.
    pub fn next_line(&mut self) -> Option<Line<'_>> {
        let splitter = &mut *self.splitter;
        splitter.empty_spent_carry();
        loop {
            let Some(newline) = memchr(b'\n', self.rest) else {
                return splitter.keep(std::mem::take(&mut self.rest));
            };
            let (line, rest) = (&self.rest[..newline], &self.rest[newline + 1..]);
            self.rest = rest;
            if std::mem::take(&mut splitter.skipping) {
                continue;
            }
            if splitter.carry.len() + line.len() > splitter.line_bytes_max {
                let too_long = splitter.too_long(line);
                empty(&mut splitter.carry);
                return Some(too_long);
            }
            if splitter.carry.trim_ascii().is_empty() && line.trim_ascii().is_empty() {
                empty(&mut splitter.carry);
                continue;
            }
            if splitter.carry.is_empty() {
                return Some(Line::Json(line));
            }
            splitter.carry.extend_from_slice(line);
            splitter.carry_is_spent = true;
            return Some(Line::Json(&splitter.carry));
        }
    }
}

impl LineSplitter {
    /// Keeps the beginning of a line for the next frame, or reports it if it is too long already.
    fn keep(&mut self, beginning: &[u8]) -> Option<Line<'static>> {
        if self.skipping {
            return None;
        }
        if self.carry.len() + beginning.len() <= self.line_bytes_max {
            self.carry.extend_from_slice(beginning);
            return None;
        }
        let too_long = self.too_long(beginning);
        empty(&mut self.carry);
        self.skipping = true;
        Some(too_long)
    }
}
