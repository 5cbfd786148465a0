//! Paths of URLs, compared by their normalized segments. Pure.

/// What Unicode's compatibility forms make a dot of, or several.
const LIKE_DOTS: [char; 5] = ['\u{2024}', '\u{2025}', '\u{2026}', '\u{fe52}', '\u{ff0e}'];

/// What they make a slash or a backslash of.
const LIKE_SLASHES: [char; 3] = ['\u{fe68}', '\u{ff0f}', '\u{ff3c}'];

/// The segments of a path that servers read in one way only, with percent-encoding removed.
///
/// Servers and proxies differ on dots, encoded slashes and backslashes: a path with one of these is refused, because it
/// may lead out of the prefix that a grant names. So is what some of them take for one: overlong UTF-8, blanks around
/// dots, and characters that Unicode's compatibility forms turn into one.
pub(super) fn segments(path: &str) -> Result<Vec<Vec<u8>>, &'static str> {
    path.split('/').skip(1).map(segment).collect()
}

fn segment(text: &str) -> Result<Vec<u8>, &'static str> {
    let decoded = String::from_utf8(decode(text.as_bytes())?).map_err(|_| "has bytes that are not UTF-8")?;
    if decoded.contains(|c: char| matches!(c, '/' | '\\') || LIKE_SLASHES.contains(&c) || c.is_control()) {
        return Err("has an encoded slash, a backslash or a control character");
    }
    // Some servers decode twice.
    if decoded.contains('%') {
        return Err("has an encoded percent sign");
    }
    // Some drop what follows a semicolon before they look at dots.
    let name = decoded.split(';').next().unwrap_or_default().trim();
    if !name.is_empty() && name.chars().all(|c| c == '.' || LIKE_DOTS.contains(&c)) {
        return Err("has a segment of dots");
    }
    Ok(decoded.into_bytes())
}

/// Removes percent-encoding.
fn decode(text: &[u8]) -> Result<Vec<u8>, &'static str> {
    let digit = |at: usize| text.get(at).and_then(|byte| char::from(*byte).to_digit(16));
    let mut decoded = Vec::with_capacity(text.len());
    let mut at = 0;
    while let Some(byte) = text.get(at) {
        if *byte != b'%' {
            decoded.push(*byte);
            at += 1;
            continue;
        }
        let (Some(high), Some(low)) = (digit(at + 1), digit(at + 2)) else {
            return Err("has an invalid percent-encoding");
        };
        decoded.push((high * 16 + low) as u8);
        at += 3;
    }
    Ok(decoded)
}
