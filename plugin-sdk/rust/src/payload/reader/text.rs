//! Moving over tokens and values.

use super::{Reader, Result, Unfit};

/// Where a string stands in the text, without its quotes.
#[derive(Clone, Copy)]
pub(super) struct StringAt {
    begin: usize,
    end: usize,
    escaped: bool,
}

impl StringAt {
    /// What the string says, if it says what it shows.
    #[inline]
    pub(super) fn plain(self, text: &str) -> Option<&str> {
        if self.escaped {
            None
        } else {
            text.get(self.begin..self.end)
        }
    }

    /// What a string with escapes says.
    #[cold]
    pub(super) fn unescaped(self, text: &str) -> Result<String> {
        serde_json::from_str(&text[self.begin - 1..=self.end]).map_err(|_| Unfit)
    }
}

impl Reader<'_> {
    fn peek(&self) -> Option<u8> {
        self.text.as_bytes().get(self.at).copied()
    }

    /// Moves over white space, to the first byte of what follows.
    #[inline]
    pub(super) fn next_token(&mut self) -> Option<u8> {
        loop {
            match self.peek() {
                Some(b' ' | b'\n' | b'\r' | b'\t') => self.at += 1,
                byte => return byte,
            }
        }
    }

    /// Moves over white space and `byte`.
    #[inline]
    pub(super) fn expect(&mut self, byte: u8) -> Result<()> {
        if self.next_token() != Some(byte) {
            return Err(Unfit);
        }
        self.at += 1;
        Ok(())
    }

    /// Moves over a word that is expected here.
    pub(super) fn word(&mut self, word: &str) -> Result<()> {
        if !self.text.as_bytes()[self.at..].starts_with(word.as_bytes()) {
            return Err(Unfit);
        }
        self.at += word.len();
        Ok(())
    }

    /// Moves over the string whose opening quote is here.
    #[inline]
    pub(super) fn string(&mut self) -> Result<StringAt> {
        let bytes = self.text.as_bytes();
        let begin = self.at + 1;
        let (mut at, mut escaped) = (begin, false);
        loop {
            at = next_special(bytes, at);
            match bytes.get(at) {
                Some(b'"') => break,
                // The escaped sign may be a quote. Whether it may be escaped is seen when the string is read.
                Some(b'\\') => {
                    escaped = true;
                    at += 2;
                }
                // A control character, which JSON forbids, or the end.
                _ => return Err(Unfit),
            }
        }
        self.at = at + 1;
        Ok(StringAt {
            begin,
            end: at,
            escaped,
        })
    }

    /// Moves over the number here if it is a plain integer that fits easily: whether it is negative, and the rest. Else it moves
    /// nowhere.
    #[inline]
    pub(super) fn integer(&mut self) -> Option<(bool, u64)> {
        /// So many digits fit 64 bits, with a sign too.
        const DIGITS_MAX: usize = 18;
        let bytes = self.text.as_bytes().get(self.at..)?;
        let negative = bytes.first() == Some(&b'-');
        let digits = &bytes[usize::from(negative)..];
        let (mut number, mut count) = (0u64, 0);
        while let Some(digit @ b'0'..=b'9') = digits.get(count) {
            if count == DIGITS_MAX {
                return None;
            }
            number = number * 10 + u64::from(digit - b'0');
            count += 1;
        }
        // Minus zero is a fraction; other numbers have no leading zero.
        let zero = digits.first() == Some(&b'0');
        let odd = count == 0 || (zero && (count > 1 || negative));
        if odd || matches!(digits.get(count), Some(b'.' | b'e' | b'E')) {
            return None;
        }
        self.at += count + usize::from(negative);
        Some((negative, number))
    }

    /// Moves over the value that is next, whatever it is.
    pub(super) fn ignore(&mut self) -> Result<()> {
        match self.next_token() {
            Some(b'"') => self.ignore_string(),
            Some(b'{') => self.ignore_items(b'}', |reader| {
                if reader.next_token() != Some(b'"') {
                    return Err(Unfit);
                }
                reader.ignore_string()?;
                reader.expect(b':')?;
                reader.ignore()
            }),
            Some(b'[') => self.ignore_items(b']', Reader::ignore),
            Some(b't') => self.word("true"),
            Some(b'f') => self.word("false"),
            Some(b'n') => self.word("null"),
            Some(b'-' | b'0'..=b'9') => self.ignore_number(),
            _ => Err(Unfit),
        }
    }

    fn ignore_string(&mut self) -> Result<()> {
        let string = self.string()?;
        if string.escaped {
            string.unescaped(self.text)?;
        }
        Ok(())
    }

    fn ignore_items(&mut self, close: u8, mut ignore: impl FnMut(&mut Self) -> Result<()>) -> Result<()> {
        self.open()?;
        if self.next_token() != Some(close) {
            ignore(self)?;
            while self.next_token() == Some(b',') {
                self.at += 1;
                ignore(self)?;
            }
        }
        self.expect(close)?;
        self.depth -= 1;
        Ok(())
    }

    fn ignore_number(&mut self) -> Result<()> {
        if self.integer().is_some() {
            return Ok(());
        }
        let rest = &self.text[self.at..];
        let length = rest.find(|sign: char| !matches!(sign, '0'..='9' | '+' | '-' | '.' | 'e' | 'E'));
        let number = &rest[..length.unwrap_or(rest.len())];
        serde_json::from_str::<serde::de::IgnoredAny>(number).map_err(|_| Unfit)?;
        self.at += number.len();
        Ok(())
    }
}

/// Where from `at` on the next quote, backslash or control character stands, eight bytes at a time; the end if there is none.
#[inline]
fn next_special(bytes: &[u8], mut at: usize) -> usize {
    const ONES: u64 = 0x0101_0101_0101_0101;
    const HIGH: u64 = ONES << 7;
    while let Some(eight) = bytes.get(at..).and_then(|rest| rest.first_chunk()) {
        let eight = u64::from_le_bytes(*eight);
        // Subtracting borrows from the next byte only behind a hit, and the first hit is all that is looked for.
        let below = |bytes: u64, than: u64| bytes.wrapping_sub(ONES * than) & !bytes;
        let (quotes, backslashes) = (eight ^ (ONES * u64::from(b'"')), eight ^ (ONES * u64::from(b'\\')));
        let hits = (below(quotes, 1) | below(backslashes, 1) | below(eight, 0x20)) & HIGH;
        if hits != 0 {
            return at + hits.trailing_zeros() as usize / 8;
        }
        at += 8;
    }
    let rest = bytes.get(at..).unwrap_or_default();
    let special = |byte: &u8| matches!(byte, b'"' | b'\\' | 0..0x20);
    at + rest.iter().position(special).unwrap_or(rest.len())
}
