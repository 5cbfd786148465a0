//! Paths of URLs, compared by their normalized segments. Pure.

/// The segments of a path that servers read in one way only, with percent-encoding removed.
///
/// Servers and proxies differ on dots, encoded slashes and backslashes: a path with one of these is refused, because it
/// may lead out of the prefix that a grant names.
pub(super) fn segments(path: &str) -> Result<Vec<Vec<u8>>, &'static str> {
    path.split('/').skip(1).map(segment).collect()
}

fn segment(text: &str) -> Result<Vec<u8>, &'static str> {
    let decoded = decode(text.as_bytes())?;
    if decoded
        .iter()
        .any(|byte| matches!(byte, b'/' | b'\\') || byte.is_ascii_control())
    {
        return Err("has an encoded slash, a backslash or a control character");
    }
    // Some servers decode twice.
    if decoded.contains(&b'%') {
        return Err("has an encoded percent sign");
    }
    // Some drop what follows a semicolon before they look at dots.
    let name = decoded.split(|byte| *byte == b';').next().unwrap_or_default();
    if name == b"." || name == b".." {
        return Err("has a segment of dots");
    }
    Ok(decoded)
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
