//! The sha256 of a component, used to pin, cache and identify it.

use std::fmt;
use std::str::FromStr;

use sha2::{Digest as _, Sha256};

#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Digest([u8; 32]);

/// The digest of bytes that come in pieces.
#[derive(Clone, Debug, Default)]
pub struct DigestBuilder(Sha256);

/// A text that is not a sha256.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("{text:?} is not a sha256: write 64 hexadecimal digits, as printed by `sha256sum FILE`")]
pub struct DigestError {
    text: String,
}

impl Digest {
    #[must_use]
    pub fn of(bytes: &[u8]) -> Digest {
        Digest(Sha256::digest(bytes).into())
    }

    #[must_use]
    pub const fn bytes(&self) -> [u8; 32] {
        self.0
    }

    /// The first twelve digits: enough to distinguish versions in a line of text.
    #[must_use]
    pub fn short(&self) -> String {
        let mut text = self.to_string();
        text.truncate(12);
        text
    }
}

impl DigestBuilder {
    /// Adds the next piece.
    pub fn add(&mut self, piece: &[u8]) {
        self.0.update(piece);
    }

    /// The digest of all pieces together.
    #[must_use]
    pub fn finish(self) -> Digest {
        Digest(self.0.finalize().into())
    }
}

impl fmt::Display for Digest {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        for byte in self.0 {
            write!(f, "{byte:02x}")?;
        }
        Ok(())
    }
}

impl fmt::Debug for Digest {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Digest({self})")
    }
}

impl FromStr for Digest {
    type Err = DigestError;

    /// Accepts the digits in either case, with or without the prefix `sha256:`.
    fn from_str(text: &str) -> Result<Digest, DigestError> {
        let error = || DigestError { text: text.to_owned() };
        let digits = text.strip_prefix("sha256:").unwrap_or(text).as_bytes();
        if digits.len() != 64 {
            return Err(error());
        }
        let mut bytes = [0; 32];
        for (byte, pair) in bytes.iter_mut().zip(digits.chunks_exact(2)) {
            let digit = |at: usize| char::from(pair[at]).to_digit(16);
            let (Some(high), Some(low)) = (digit(0), digit(1)) else {
                return Err(error());
            };
            *byte = u8::try_from(high * 16 + low).map_err(|_| error())?;
        }
        Ok(Digest(bytes))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_digest_survives_a_round_trip() {
        let digest = Digest::of(b"");
        assert_eq!(
            digest.to_string(),
            "e3b0c44298fc1c149afbf4c8996fb92427ae41e4649b934ca495991b7852b855"
        );
        assert_eq!(digest.to_string().parse(), Ok(digest));
        assert_eq!(
            format!("sha256:{}", digest.to_string().to_uppercase()).parse(),
            Ok(digest)
        );
        assert_eq!(digest.short(), "e3b0c44298fc");
    }

    #[test]
    fn a_digest_does_not_depend_on_the_pieces() {
        let mut builder = DigestBuilder::default();
        for piece in [&b"com"[..], b"", b"ponent"] {
            builder.add(piece);
        }
        assert_eq!(builder.finish(), Digest::of(b"component"));
    }

    #[test]
    fn other_texts_are_rejected() {
        insta::assert_snapshot!("abc".parse::<Digest>().unwrap_err(), @r#""abc" is not a sha256: write 64 hexadecimal digits, as printed by `sha256sum FILE`"#);
        "é".repeat(32).parse::<Digest>().unwrap_err();
        "g".repeat(64).parse::<Digest>().unwrap_err();
    }
}
