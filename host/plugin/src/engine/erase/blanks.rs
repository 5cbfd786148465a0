//! A text of which parts are replaced by spaces.

use oxc_span::Span;

/// A text, and what becomes of each of its characters.
pub(super) struct Blanks<'s> {
    text: &'s str,
    /// In order.
    comments: Vec<(usize, usize)>,
    /// What replaces the character that begins at each byte; 0: it stays.
    marks: Vec<u8>,
}

impl<'s> Blanks<'s> {
    pub(super) fn new(text: &'s str, comments: Vec<(usize, usize)>) -> Blanks<'s> {
        Blanks {
            text,
            comments,
            marks: vec![0; text.len()],
        }
    }

    /// Replaces what is in `span` by spaces, apart from the ends of lines.
    pub(super) fn blank(&mut self, span: Span) {
        if let Some(marks) = self.marks.get_mut(span.start as usize..span.end as usize) {
            marks.fill(b' ');
        }
    }

    /// Replaces the character at `at`, which is blank, by `symbol`.
    pub(super) fn put(&mut self, at: u32, symbol: char) {
        if let (Some(mark), Ok(symbol)) = (self.marks.get_mut(at as usize), u8::try_from(symbol)) {
            *mark = symbol;
        }
    }

    /// Replaces the last character in `span`.
    pub(super) fn put_last(&mut self, span: Span, symbol: char) {
        let text = &self.text[..span.end as usize];
        let last = text.char_indices().next_back();
        last.into_iter().for_each(|(at, _)| self.put(at as u32, symbol));
    }

    /// Where the next token begins, from `at`: behind white space and comments.
    pub(super) fn next(&self, at: u32) -> u32 {
        let mut at = at as usize;
        loop {
            let rest = self.text.get(at..).unwrap_or_default();
            at += rest.len() - rest.trim_start().len();
            match self.comments.binary_search_by_key(&at, |(start, _)| *start) {
                Ok(found) => at = self.comments[found].1,
                Err(_) => return at as u32,
            }
        }
    }

    /// The first character of the next token, from `at`. Empty at the end.
    pub(super) fn symbol(&self, at: u32) -> &'s str {
        self.symbol_at(self.next(at))
    }

    /// The character at `at`. Empty at the end.
    pub(super) fn symbol_at(&self, at: u32) -> &'s str {
        let rest = self.text.get(at as usize..).unwrap_or_default();
        let length = rest.chars().next().map_or(0, char::len_utf8);
        &rest[..length]
    }

    /// The word that begins at `at`. Empty if there is none.
    pub(super) fn word(&self, at: u32) -> &'s str {
        let rest = self.text.get(at as usize..).unwrap_or_default();
        let end = rest.find(|letter: char| !letter.is_alphanumeric() && letter != '_' && letter != '$');
        &rest[..end.unwrap_or(rest.len())]
    }

    /// Blanks a word that is at `at`, or the last one before it.
    pub(super) fn blank_word_near(&mut self, at: u32, word: &str) {
        let (text, length) = (self.text, word.len() as u32);
        if self.word(at) == word {
            self.blank(Span::new(at, at + length));
        } else if let Some(found) = text.get(..at as usize).and_then(|before| before.rfind(word)) {
            self.blank(Span::new(found as u32, found as u32 + length));
        }
    }

    /// Where `word` is the next token that is a word other than `class`, from the beginning of `span`.
    pub(super) fn find_word(&self, span: Span, word: &str) -> u32 {
        let mut at = self.next(span.start);
        while at < span.end && self.word(at) != word {
            at = self.next(at + (self.word(at).len() as u32).max(1));
        }
        at
    }

    pub(super) fn has_line_end(&self, span: Span) -> bool {
        let text = self.text.get(span.start as usize..span.end as usize);
        text.unwrap_or_default().contains(is_line_end)
    }

    /// The text with its replacements.
    pub(super) fn finish(self) -> String {
        let replace = |(at, letter): (usize, char)| match self.marks[at] {
            0 => letter,
            _ if is_line_end(letter) => letter,
            mark => char::from(mark),
        };
        self.text.char_indices().map(replace).collect()
    }
}

fn is_line_end(letter: char) -> bool {
    matches!(letter, '\n' | '\r' | '\u{2028}' | '\u{2029}')
}

/// The line and column of a byte, from 1, as in `3:14`. Columns are characters.
pub(super) fn position(text: &str, at: usize) -> String {
    let before = text.get(..at).unwrap_or(text);
    let line = before.rsplit('\n').next().unwrap_or_default();
    let lines = before.matches('\n').count() + 1;
    format!("{lines}:{}", line.chars().count() + 1)
}
