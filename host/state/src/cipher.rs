//! Encrypts stored values: ChaCha20-Poly1305, each value with its own key.
//!
//! The value's key is derived (HKDF-SHA256) from the key in the file and 32 random bytes, which precede the value. The
//! cipher's own 12-byte nonce would be too short to draw at random for every value.

use std::fmt;

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use ring::aead::{Aad, CHACHA20_POLY1305, LessSafeKey, Nonce, UnboundKey};
use ring::hkdf::{HKDF_SHA256, Prk, Salt};
use ring::rand::{SecureRandom as _, SystemRandom};

/// Bytes of a key.
pub const KEY_BYTES: usize = 32;

/// Random bytes for each value.
const SALT_BYTES: usize = 32;

const PURPOSE: &[u8] = b"informant-state value";

/// Encrypts and decrypts stored values.
#[derive(Clone)]
pub struct Cipher(Prk);

impl Cipher {
    /// Creates a cipher from a key.
    #[must_use]
    pub fn of(key: [u8; KEY_BYTES]) -> Self {
        Self(Salt::new(HKDF_SHA256, b"informant-state").extract(&key))
    }

    /// Creates a cipher from the content of a key file: 32 bytes, raw or in base64. `None` if it is anything else.
    #[must_use]
    pub fn parse(content: &[u8]) -> Option<Self> {
        let raw = <[u8; KEY_BYTES]>::try_from(content).ok();
        let key = raw.or_else(|| STANDARD.decode(content.trim_ascii()).ok()?.try_into().ok())?;
        Some(Self::of(key))
    }

    /// Encrypts `plain` with `associated_data`. None if the system provides no randomness.
    pub(crate) fn encrypt(&self, plain: &[u8], associated_data: &[u8]) -> Option<Vec<u8>> {
        let mut salt = [0; SALT_BYTES];
        SystemRandom::new().fill(&mut salt).ok()?;
        let mut encrypted = plain.to_vec();
        let (key, nonce) = self.key_for(&salt)?;
        key.seal_in_place_append_tag(nonce, Aad::from(associated_data), &mut encrypted)
            .ok()?;
        Some([&salt[..], &encrypted].concat())
    }

    /// The plain text of an encrypted value; none if it was encrypted differently.
    pub(crate) fn decrypt(&self, encrypted: &[u8], associated_data: &[u8]) -> Option<Vec<u8>> {
        let (salt, encrypted) = encrypted.split_first_chunk::<SALT_BYTES>()?;
        let (key, nonce) = self.key_for(salt)?;
        let mut plain = encrypted.to_vec();
        let length = key
            .open_in_place(nonce, Aad::from(associated_data), &mut plain)
            .ok()?
            .len();
        plain.truncate(length);
        Some(plain)
    }

    /// The key of one value. It is used once, so its nonce may be constant.
    fn key_for(&self, salt: &[u8; SALT_BYTES]) -> Option<(LessSafeKey, Nonce)> {
        let info = [PURPOSE, salt];
        let key = self.0.expand(&info, &CHACHA20_POLY1305).ok()?;
        Some((
            LessSafeKey::new(UnboundKey::from(key)),
            Nonce::assume_unique_for_key([0; 12]),
        ))
    }
}

impl fmt::Debug for Cipher {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        out.write_str("Cipher")
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn key_file_is_raw_bytes_or_base64() {
        let encrypted = Cipher::of([9; 32]).encrypt(b"x", b"").unwrap();
        for content in [&[9; 32][..], b"CQkJCQkJCQkJCQkJCQkJCQkJCQkJCQkJCQkJCQkJCQk=\n"] {
            let cipher = Cipher::parse(content).unwrap();
            assert_eq!(cipher.decrypt(&encrypted, b"").as_deref(), Some(&b"x"[..]));
        }
        assert!(Cipher::parse(&[9; 31]).is_none() && Cipher::parse(b"secret").is_none());
    }
}
