//! The beginning of an answer that is not what was asked for, as an error message shows it.

/// How many characters of it are shown.
const CHARACTERS_MAX: usize = 80;

/// The first characters of `bytes`: no control characters, white space folded.
pub(super) fn beginning(bytes: &[u8]) -> String {
    let bytes = &bytes[..bytes.len().min(8 * CHARACTERS_MAX)];
    let text = String::from_utf8_lossy(bytes);
    let words = text
        .split(|c: char| c.is_whitespace() || c.is_control())
        .filter(|word| !word.is_empty());
    let folded = words.collect::<Vec<_>>().join(" ");
    let mut shown: String = folded.chars().take(CHARACTERS_MAX).collect();
    if shown.len() < folded.len() {
        shown.push('…');
    }
    shown
}

/// Whether an answer is a web page: from a proxy or a login page, as a rule.
pub(super) fn is_html(bytes: &[u8]) -> bool {
    bytes.trim_ascii_start().first() == Some(&b'<')
}
