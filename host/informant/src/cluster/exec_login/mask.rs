//! Masks what looks like a credential in a text of unknown origin.

/// How JSON Web Tokens begin: `{"` in base64.
const TOKEN_START: &str = "eyJ";

/// Shorter words that begin like a token are not masked: they reveal nothing.
const TOKEN_BYTES_MIN: usize = 12;

const PEM_START: &str = "-----BEGIN ";
const PEM_END: &str = "-----END ";
const PEM_DASHES: &str = "-----";

/// Replaces JSON Web Tokens by `[token]` and PEM blocks by `[pem]`. One that is cut off extends to the end.
pub(super) fn shapes(text: &str) -> String {
    replace(
        &replace(text, PEM_START, "[pem]", pem_bytes),
        TOKEN_START,
        "[token]",
        token_bytes,
    )
}

/// Replaces what begins with `start` and has a length.
fn replace(text: &str, start: &str, name: &str, bytes: impl Fn(&str) -> Option<usize>) -> String {
    let (mut masked, mut rest) = (String::with_capacity(text.len()), text);
    while let Some(at) = rest.find(start) {
        let (before, found) = rest.split_at(at);
        masked.push_str(before);
        let length = bytes(found);
        masked.push_str(if length.is_some() { name } else { start });
        rest = &found[length.unwrap_or(start.len())..];
    }
    masked.push_str(rest);
    masked
}

/// The length of the PEM block at the start of `text`.
fn pem_bytes(text: &str) -> Option<usize> {
    let end = text.find(PEM_END).map(|at| at + PEM_END.len());
    let closed = end.and_then(|end| text[end..].find(PEM_DASHES).map(|at| end + at + PEM_DASHES.len()));
    Some(closed.unwrap_or(text.len()))
}

/// The length of the token at the start of `text`, if it is long enough for one.
fn token_bytes(text: &str) -> Option<usize> {
    let is_of_token = |character: char| character.is_ascii_alphanumeric() || "-_.=+/".contains(character);
    let length = text.find(|character| !is_of_token(character)).unwrap_or(text.len());
    (length >= TOKEN_BYTES_MIN).then_some(length)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn tokens_and_pem_blocks_are_masked() {
        let text = "eyJ, token=eyJhbGciOiJ9.eyJzdWIi-_0.c2ln; -----BEGIN PRIVATE KEY-----\nc2Vj\n-----END PRIVATE KEY-----, \
                    eyJ0eXAiOiJK end -----BEGIN RSA PRIVATE KEY-----\nc2Vj";
        assert_eq!(shapes(text), "eyJ, token=[token]; [pem], [token] end [pem]");
    }
}
